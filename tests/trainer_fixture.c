#include "trainer_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "log.h"
#include "rng.h"

static const char YAML[] =
    "model: {n: 24, k: 6, layers: 1, width: 16, heads: 2, ffn: 32}\n"
    "tokenizer: {type: bpe, vocab_size: 360}\n"
    "data: {train: train.txt, valid: valid.txt}\n"
    "train: {steps: 20, batch: 8, threads: 1, eval_every: 0, eval_sequences: 10, log_every: 1}\n"
    "optimizer: {lr: 3e-3}\n"
    "checkpoint: {every: 0}\n";

static void write_text(const char *name, size_t lines, uint64_t key) {
    static const char *const words[4][6] = {
        {"the cat", "a dog", "my sister", "the old man", "their neighbour", "a child"},
        {"sees", "likes", "follows", "remembers", "paints", "finds"},
        {"the river", "a red house", "the market", "some bread", "an apple", "the moon"},
        {"today", "at night", "every morning", "in winter", "with joy", "again"},
    };
    FILE *file = fopen(test_temp_path(name), "w");
    REQUIRE(file);
    for (size_t i = 0; i < lines; i++) {
        for (size_t w = 0; w < 4; w++)
            fprintf(file, "%s%s", words[w][rng_below(key, 4 * i + w, 6)], w < 3 ? " " : ".\n");
        if (i % 10 == 9) fputc('\n', file);
    }
    REQUIRE(fclose(file) == 0);
}

void corpus_write(size_t lines) {
    write_text("train.txt", lines, rng_key(1, RNG_TEST, 100, 0));
    write_text("valid.txt", 60, rng_key(1, RNG_TEST, 101, 0));
    FILE *file = fopen(test_temp_path("run.yaml"), "w");
    REQUIRE(file && fputs(YAML, file) >= 0 && fclose(file) == 0);
}

void run_config(Config *out, const char *run, const char *const *overrides) {
    char run_override[800];
    const char *all[32] = {run_override};
    size_t count = 1;
    Err err = {0};
    snprintf(run_override, sizeof run_override, "run=%s", test_temp_path(run));
    for (; overrides && overrides[count - 1] && count < 32; count++)
        all[count] = overrides[count - 1];
    if (!config_load(out, test_temp_path("run.yaml"), all, count, &err) ||
        !config_resolve_data(out, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
}

const char *run_path(const char *run, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", run, name);
    return test_temp_path(path);
}

pid_t run_fork(void) {
    test_temp_dir(); /* the child must find the parent's */
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0 && !getenv("TEST_VERBOSE")) log_quiet(true);
    return pid;
}

void run_end(bool ok, const Err *err) {
    FILE *file = fopen(test_temp_path("message"), "w");
    if (file) {
        fputs(ok ? "" : err->msg, file);
        fclose(file);
    }
    _exit(ok ? 0 : (int)err->code);
}

pid_t run_start(const char *run, ResumeMode resume, const char *const *overrides) {
    pid_t pid = run_fork();
    if (pid > 0) return pid;
    Config config;
    Err err = {0};
    run_config(&config, run, overrides);
    bool ok = trainer_pretrain(&config, resume, &err);
    config_free(&config);
    run_end(ok, &err);
}

RunResult run_wait(pid_t pid) {
    RunResult result = {.code = -1};
    int status = 0;
    Bytes message;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (!WIFEXITED(status)) return result;
    result.code = WEXITSTATUS(status);
    if (io_read_file(&message, test_temp_path("message"), sizeof result.msg, NULL)) {
        snprintf(result.msg, sizeof result.msg, "%s",
                 message.data ? (const char *)message.data : "");
        io_bytes_free(&message);
    }
    return result;
}

void check_run(RunResult result, int code, const char *fragment) {
    CHECK_MSG(result.code == code, "exit code %d, wanted %d: %s", result.code, code, result.msg);
    if (fragment) CHECK_STR_CONTAINS(result.msg, fragment);
}

void require_run(RunResult result) {
    if (CHECK_MSG(result.code == 0, "exit code %d: %s", result.code, result.msg)) return;
    test_end();
}

RunResult run_pretrain(const char *run, ResumeMode resume, const char *const *overrides) {
    return run_wait(run_start(run, resume, overrides));
}

static size_t count_lines(const char *path) {
    Bytes bytes;
    size_t lines = 0;
    if (!io_read_file(&bytes, path, 1 << 24, NULL)) return 0;
    for (size_t i = 0; i < bytes.size; i++) lines += bytes.data[i] == '\n';
    io_bytes_free(&bytes);
    return lines;
}

bool run_wait_lines(pid_t pid, const char *run, size_t lines) {
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 60000; i++) {
        if (count_lines(run_path(run, "metrics.jsonl")) >= lines) return true;
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid)
            return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

Bytes run_file(const char *run, const char *name) {
    Bytes bytes;
    Err err = {0};
    if (!io_read_file(&bytes, run_path(run, name), (size_t)1 << 28, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return bytes;
}

/* Cuts `,"name":value` out of the text wherever it is. */
static void cut_member(char *text, const char *name) {
    char member[64];
    snprintf(member, sizeof member, ",\"%s\":", name);
    for (char *at; (at = strstr(text, member)) != NULL;) {
        char *end = at + strlen(member);
        end += strcspn(end, ",}");
        memmove(at, end, strlen(end) + 1);
    }
}

char *run_metrics(const char *run) {
    Bytes bytes = run_file(run, "metrics.jsonl");
    REQUIRE(bytes.data);
    /* as text: reading numbers and printing them again would hide small differences */
    cut_member((char *)bytes.data, "tokens_per_s");
    cut_member((char *)bytes.data, "elapsed_s");
    return (char *)bytes.data;
}

void check_runs_equal(const char *a, const char *b) {
    char *metrics_a = run_metrics(a), *metrics_b = run_metrics(b);
    CHECK_STR(metrics_b, metrics_a);
    Bytes file_a = run_file(a, "last.ckpt"), file_b = run_file(b, "last.ckpt");
    CHECK_MSG(file_a.size == file_b.size && !memcmp(file_a.data, file_b.data, file_a.size),
              "last.ckpt of %s and %s differ", a, b);
    io_bytes_free(&file_a);
    io_bytes_free(&file_b);
    free(metrics_a);
    free(metrics_b);
}
