#include "finetune_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "log.h"
#include "rng.h"

static const char YAML[] =
    "model: {n: 24, k: 6, layers: 1, width: 16, heads: 2, ffn: 32, dropout: 0}\n"
    "tokenizer: {model: %s}\n"
    "data: {train: train.tsv, valid: dev.tsv}\n"
    "train: {epochs: 3, batch: 16, threads: 1, log_every: 1}\n"
    "optimizer: {lr: 1e-2}\n"
    "finetune: {%s}\n";

void task_write_rows(const char *name, size_t rows, uint64_t key) {
    static const char *const who[] = {"the cat", "a dog", "my sister", "the old man", "a child"};
    static const char *const when[] = {"today", "at night", "again"};
    FILE *file = fopen(test_temp_path(name), "w");
    REQUIRE(file);
    fputs("id\tlabel\ttext\n", file);
    for (size_t i = 0; i < rows; i++) {
        bool water = rng_below(key, 8 * i, 2);
        fprintf(file, "%zu\t%s\t", i, water ? "water" : "sky");
        for (size_t w = rng_below(key, 8 * i + 1, 3); w-- > 0;)
            fprintf(file, "%s ", when[rng_below(key, 8 * i + 2 + w, 3)]);
        fprintf(file, "%s sees %s\n", who[rng_below(key, 8 * i + 5, 5)],
                water ? "the river" : "the moon");
    }
    REQUIRE(fclose(file) == 0);
}

void task_write_config(const char *finetune) {
    FILE *file = fopen(test_temp_path("task.yaml"), "w");
    REQUIRE(file);
    fprintf(file, YAML, test_temp_path("prepared/run-bpe-360/tokenizer.model"), finetune);
    REQUIRE(fclose(file) == 0);
}

void task_write(void) {
    corpus_write(100);
    RunResult result =
        run_pretrain("pre", RESUME_NEVER, (const char *const[]){"train.steps=5", NULL});
    CHECK_MSG(result.code == 0, "%s", result.msg);
    task_write_rows("train.tsv", TASK_ROWS, rng_key(1, RNG_TEST, 1, 0));
    task_write_rows("dev.tsv", TASK_VALID_ROWS, rng_key(1, RNG_TEST, 2, 0));
    task_write_config("task: custom, init: none, text: text, label: label");
}

const char *task_init(void) {
    static char text[800];
    snprintf(text, sizeof text, "finetune.init=%s", run_path("pre", "last.ckpt"));
    return text;
}

static bool load_config(Config *out, const char *run, const char *const *overrides, Err *err) {
    char run_override[800];
    const char *all[32] = {run_override};
    size_t count = 1;
    snprintf(run_override, sizeof run_override, "run=%s", test_temp_path(run));
    for (; overrides && overrides[count - 1] && count < 32; count++)
        all[count] = overrides[count - 1];
    return config_load(out, test_temp_path("task.yaml"), all, count, err) &&
           config_resolve_data(out, err);
}

void task_config(Config *out, const char *run, const char *const *overrides) {
    Err err = {0};
    if (load_config(out, run, overrides, &err)) return;
    test_fail(__FILE__, __LINE__, "%s", err.msg);
    test_end();
}

pid_t start_finetune(const char *run, ResumeMode resume, const char *const *overrides) {
    pid_t pid = run_fork();
    if (pid > 0) return pid;
    Config config = {0};
    FinetuneResult result = {0};
    Err err = {0};
    bool ok =
        load_config(&config, run, overrides, &err) && finetune_run(&result, &config, resume, &err);
    finetune_result_free(&result);
    config_free(&config);
    run_end(ok, &err);
}

RunResult run_finetune(const char *run, ResumeMode resume, const char *const *overrides) {
    return run_wait(start_finetune(run, resume, overrides));
}
