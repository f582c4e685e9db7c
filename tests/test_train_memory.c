#include "train_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_fixture.h"
#include "harness.h"
#include "plan.h"
#include "threads.h"
#include "trainer_fixture.h"

static const char *const small =
    "run: r\nmodel: {n: 40, k: 7, layers: 3, width: 24, heads: 3, ffn: 40}\n"
    "tokenizer: {vocab_size: 300}\n";

/* The small model with these train keys. */
static void load(Config *out, const char *train) {
    char text[512];
    snprintf(text, sizeof text, "%strain: {batch: 16%s}\n", small, train);
    fixture_parse(out, text);
}

static size_t total_of(const Config *config, size_t micro_batch) {
    ParamTable table;
    TrainMemory memory;
    REQUIRE(param_table_create(&table, &config->model, NULL));
    REQUIRE(train_memory(&memory, config, &table, micro_batch, NULL));
    CHECK_INT(memory.total, memory.weights + memory.gradients + memory.moments +
                                memory.activations + memory.batch);
    param_table_destroy(&table);
    return memory.total;
}

/* Sequences at a time under a budget of so many bytes; 0: refused, with the message in err. */
static size_t chosen(size_t budget, const char *others, Err *err) {
    char train[128];
    Config config;
    ParamTable table;
    size_t micro_batch = 0;
    snprintf(train, sizeof train, ", memory: %zu%s", budget, others);
    load(&config, train);
    REQUIRE(param_table_create(&table, &config.model, NULL));
    if (!train_micro_batch(&micro_batch, &config, &table, err)) micro_batch = 0;
    param_table_destroy(&table);
    config_free(&config);
    return micro_batch;
}

/* As many as fit, evened out over the micro-batches of a batch of 16: 7 fit, so three of 6 do. */
static void test_choice(void) {
    Config config;
    Err err = {0};
    load(&config, "");
    size_t one = total_of(&config, 1);
    CHECK(one < total_of(&config, 2));
    CHECK_INT(chosen(one, "", &err), 1);
    CHECK_INT(chosen(total_of(&config, 3), "", &err), 3);
    CHECK_INT(chosen(total_of(&config, 3) - 1, "", &err), 2);
    CHECK_INT(chosen(total_of(&config, 7), "", &err), 6);
    CHECK_INT(chosen(total_of(&config, 8), "", &err), 8);
    CHECK_INT(chosen(total_of(&config, 16) - 1, "", &err), 8);
    CHECK_INT(chosen(total_of(&config, 16), "", &err), 16);
    CHECK_INT(chosen((size_t)1 << 40, "", &err), 16);
    CHECK_INT(chosen(one - 1, ", micro_batch: 5", &err), 5); /* what is given stands */
    CHECK_INT(chosen(0, "", &err), 16);                      /* no budget: the default */
    /* less is kept */
    CHECK_INT(chosen(total_of(&config, 7), ", recompute: layer", &err), 8);
    config_free(&config);
}

static void test_too_small(void) {
    Config config;
    Err err = {0};
    char wanted[64];
    load(&config, "");
    size_t one = total_of(&config, 1);
    CHECK_INT(chosen(one - 1, "", &err), 0);
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "train.memory = ");
    snprintf(wanted, sizeof wanted, "needs %.1f MiB", (double)one / (1 << 20));
    CHECK_STR_CONTAINS(err.msg, wanted);
    CHECK_STR_CONTAINS(err.msg, "train.recompute");
    config_free(&config);
}

static void test_plan_follows(void) {
    Config config;
    Plan plan;
    load(&config, ", memory: 1KiB");
    Err err = {0};
    CHECK(!plan_compute(&plan, &config, &err));
    config.train.memory = total_of(&config, 4);
    REQUIRE(plan_compute(&plan, &config, &err));
    CHECK_INT(plan.micro_batch, 4);
    CHECK_INT(plan.memory_bytes, config.train.memory);
    config_free(&config);
}

/* A training under a budget, computing layers again, is the training that keeps everything. */
static void test_training_is_unchanged(void) {
    Config config;
    char memory[64];
    const char *const *plain =
        OVERRIDES("train.steps=6", "model.layers=3", "train.micro_batch=3", "train.log_every=1");
    corpus_write(60);
    run_config(&config, "plain", plain);
    threads_set(config.train.threads); /* scratch is a thread's */
    snprintf(memory, sizeof memory, "train.memory=%zu", total_of(&config, 3));
    config_free(&config);
    RunResult result = run_pretrain("plain", RESUME_NEVER, plain);
    CHECK_MSG(result.code == 0, "%s", result.msg);
    result =
        run_pretrain("budget", RESUME_NEVER,
                     OVERRIDES("train.steps=6", "model.layers=3", memory, "train.log_every=1"));
    CHECK_MSG(result.code == 0, "%s", result.msg);
    result = run_pretrain("again", RESUME_NEVER,
                          OVERRIDES("train.steps=6", "model.layers=3", "train.micro_batch=3",
                                    "train.log_every=1", "train.recompute=layer"));
    CHECK_MSG(result.code == 0, "%s", result.msg);
    char *a = run_metrics("plain"), *b = run_metrics("budget"), *c = run_metrics("again");
    CHECK_STR(b, a);
    CHECK_STR(c, a);
    free(a);
    free(b);
    free(c);
    Bytes yaml = run_file("budget", "config.yaml");
    CHECK(strstr((const char *)yaml.data, "micro_batch: 3") != NULL);
    io_bytes_free(&yaml);
}

/* A run may be continued with another of both: they change no result. */
static void test_resume_with_other_memory(void) {
    corpus_write(60);
    const char *const *first = OVERRIDES("train.steps=6", "model.layers=3");
    RunResult result = run_pretrain("run", RESUME_NEVER, first);
    CHECK_MSG(result.code == 0, "%s", result.msg);
    result = run_pretrain(
        "run", RESUME_AUTO,
        OVERRIDES("train.steps=6", "model.layers=3", "train.recompute=ffn", "train.memory=1GiB"));
    CHECK_MSG(result.code == 0, "%s", result.msg);
}

const Test tests_train_memory[] = {
    {"choice", test_choice, 0},
    {"too_small", test_too_small, 0},
    {"plan_follows", test_plan_follows, 0},
    {"training_is_unchanged", test_training_is_unchanged, 0},
    {"resume_with_other_memory", test_resume_with_other_memory, 0},
    {0},
};
