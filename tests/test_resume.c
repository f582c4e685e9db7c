/* Runs that are killed, stopped, continued, or must not be continued. */
#define _DEFAULT_SOURCE /* flock */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../src/train/training.h"
#include "batcher.h"
#include "checkpoint.h"
#include "clock.h"
#include "harness.h"
#include "mixed_gemm.h"
#include "parallel.h"
#include "prepare.h"
#include "trainer_fixture.h"

enum { LINES = 60 }; /* about 40 sequences: an epoch is 5 updates */

/* Starts the run, sends the signal once `lines` metrics lines are there; how it ended. */
static RunResult run_interrupted(const char *run, ResumeMode resume, const char *const *overrides,
                                 size_t lines, int number) {
    pid_t pid = run_start(run, resume, overrides);
    CHECK(run_wait_lines(pid, run, lines));
    kill(pid, number);
    return run_wait(pid);
}

/* 200 steps in one go, and the same killed in the middle of its 14th epoch and again later. */
static void test_killed_run_is_exact(void) {
    const char *const *o = OVERRIDES("train.steps=200", "train.eval_every=40", "train.log_every=3",
                                     "checkpoint.every=25");
    corpus_write(LINES);
    check_run(run_pretrain("whole", RESUME_NEVER, o), 0, NULL);
    check_run(run_interrupted("parts", RESUME_NEVER, o, 30, SIGKILL), -1, NULL);
    check_run(run_interrupted("parts", RESUME_AUTO, o, 55, SIGKILL), -1, NULL);
    check_run(run_pretrain("parts", RESUME_AUTO, o), 0, NULL);
    check_runs_equal("whole", "parts");
    Bytes best = run_file("whole", "best.ckpt"), again = run_file("parts", "best.ckpt");
    CHECK(best.size == again.size && !memcmp(best.data, again.data, best.size));
    io_bytes_free(&best);
    io_bytes_free(&again);
}

/* Of 60 steps, killed after the 35th. */
static void check_killed_run(const char *const *overrides) {
    corpus_write(LINES);
    check_run(run_pretrain("whole", RESUME_NEVER, overrides), 0, NULL);
    check_run(run_interrupted("parts", RESUME_NEVER, overrides, 35, SIGKILL), -1, NULL);
    check_run(run_pretrain("parts", RESUME_AUTO, overrides), 0, NULL);
    check_runs_equal("whole", "parts");
}

/* While sequences are cut into pieces, for which the micro-batches have no room at once. */
static void test_killed_run_with_short_sequences(void) {
    check_killed_run(OVERRIDES("train.steps=60", "train.eval_every=10", "checkpoint.every=10",
                               "train.short_rate=0.7", "model.k=16", "train.micro_batch=3"));
}

/* Kernels of a convolution, with their moments, go on where they stood. */
static void test_killed_run_that_pools(void) {
    check_killed_run(OVERRIDES("train.steps=60", "train.eval_every=10", "checkpoint.every=10",
                               "model.projection=conv", "model.k=7", "train.short_rate=0.3"));
}

/* In mixed precision, which the run keeps; where it is missing, that is said before all else. */
static void test_killed_run_in_mixed_precision(void) {
    corpus_write(LINES);
    for (Precision p = PRECISION_BF16; p <= PRECISION_FP16; p++) {
        char key[32];
        Err why = {0};
        snprintf(key, sizeof key, "train.precision=%s", precision_name(p));
        const char *whole = p == PRECISION_BF16 ? "whole-bf16" : "whole-fp16",
                   *parts = p == PRECISION_BF16 ? "parts-bf16" : "parts-fp16";
        const char *const *o =
            OVERRIDES("train.steps=60", "train.eval_every=10", "checkpoint.every=10", key);
        if (!mixed_check(p, &why)) {
            check_run(run_pretrain(whole, RESUME_NEVER, o), 2, why.msg);
            CHECK(!io_is_dir(run_path(whole, "")));
            continue;
        }
        check_run(run_pretrain(whole, RESUME_NEVER, o), 0, NULL);
        check_run(run_interrupted(parts, RESUME_NEVER, o, 35, SIGKILL), -1, NULL);
        check_run(run_pretrain(parts, RESUME_AUTO, OVERRIDES("train.steps=60")), 2,
                  "train.precision was");
        check_run(run_pretrain(parts, RESUME_AUTO, o), 0, NULL);
        check_runs_equal(whole, parts);
    }
}

/* Below these sizes the kernels leave a second thread asleep. */
static void check_sizes_are_shared(const char *run, const char *const *overrides,
                                   size_t sequences) {
    Config config;
    Manifest manifest;
    Dataset *d;
    Err err = {0};
    run_config(&config, run, overrides);
    const ModelConfig *m = &config.model;
    REQUIRE(manifest_load(&manifest, config.data.tokens, &err));
    REQUIRE(dataset_open(&d, &manifest.train, &manifest, m->n, &err));
    size_t shortest = m->n, count = dataset_sequences(d);
    for (size_t i = 0; i + 1 < count; i++) /* the last one of an epoch may be any length */
        shortest = dataset_length(d, i) < shortest ? dataset_length(d, i) : shortest;
    size_t tokens = (sequences - 1) * shortest, masked = tokens / 10; /* 15% but for rounding */
    CHECK(tokens * m->width >= PARALLEL_MIN);
    CHECK(sequences * m->k[0] * m->width >= PARALLEL_MIN);
    CHECK(masked * manifest.vocab >= PARALLEL_MIN);
    CHECK(tokens * m->k[0] * m->width >= PARALLEL_MIN_MULTIPLY_ADDS);
    CHECK(masked * m->width * manifest.vocab >= PARALLEL_MIN_MULTIPLY_ADDS);
    dataset_close(d);
    manifest_free(&manifest);
    config_free(&config);
}

/* Two threads: partial sums must be added in an order that does not depend on which thread is
 * first. */
static void test_killed_run_is_exact_on_two_threads(void) {
    const char *const *o =
        OVERRIDES("train.steps=12", "train.threads=2", "checkpoint.every=4", "model.width=128",
                  "model.heads=4", "model.ffn=512", "model.n=80", "model.k=24", "train.batch=48",
                  "train.micro_batch=24");
    corpus_write(10 * LINES);
    check_run(run_pretrain("whole", RESUME_NEVER, o), 0, NULL);
    check_sizes_are_shared("whole", o, 24);
    check_run(run_interrupted("parts", RESUME_NEVER, o, 6, SIGKILL), -1, NULL);
    check_run(run_pretrain("parts", RESUME_AUTO, o), 0, NULL);
    check_runs_equal("whole", "parts");
}

/* A signal ends the run with 75 after saving; the metrics window it cut in two is not lost. */
static void test_signals_save_and_resume(void) {
    static const struct {
        int number;
        const char *name;
    } signals[] = {
        {SIGTERM, "SIGTERM"},
        {SIGINT, "SIGINT"},
        {SIGUSR1, "SIGUSR1"},
    };
    const char *const *o =
        OVERRIDES("train.steps=400", "train.log_every=7", "train.eval_every=150");
    corpus_write(LINES);
    check_run(run_pretrain("whole", RESUME_NEVER, o), 0, NULL);
    for (size_t i = 0; i < 3; i++) {
        RunResult result = run_interrupted("parts", i ? RESUME_AUTO : RESUME_NEVER, o, 8 + 15 * i,
                                           signals[i].number);
        check_run(result, 75, signals[i].name);
        CHECK_STR_CONTAINS(result.msg, "--resume");
    }
    check_run(run_pretrain("parts", RESUME_AUTO, o), 0, NULL);
    check_runs_equal("whole", "parts");
    check_run(run_pretrain("parts", RESUME_AUTO, o), 0, NULL); /* a finished run stays finished */
    check_runs_equal("whole", "parts");
}

/* Epochs, tokens and SGD take the same way through the loop. */
static void test_other_budgets_resume(void) {
    static const char *const budgets[][2] = {{"train.epochs=7.5", "optimizer.name=adamw"},
                                             {"train.tokens=30000", "optimizer.name=sgd"}};
    corpus_write(LINES);
    for (size_t i = 0; i < 2; i++) {
        char whole[16], parts[16];
        snprintf(whole, sizeof whole, "whole%zu", i);
        snprintf(parts, sizeof parts, "parts%zu", i);
        const char *const *o =
            OVERRIDES(budgets[i][0], budgets[i][1], "optimizer.momentum=0.9", "checkpoint.every=5");
        check_run(run_pretrain(whole, RESUME_NEVER, o), 0, NULL);
        check_run(run_interrupted(parts, RESUME_NEVER, o, 12, SIGKILL), -1, NULL);
        check_run(run_pretrain(parts, RESUME_AUTO, o), 0, NULL);
        check_runs_equal(whole, parts);
    }
}

/* "elapsed_s" of a run's metrics at the end of a step; -1 where there is no such line. */
static double elapsed_at(const char *run, uint64_t step) {
    double elapsed = -1;
    Bytes bytes = run_file(run, "metrics.jsonl");
    for (char *line = (char *)bytes.data; line && *line; line = strchr(line, '\n') + 1) {
        unsigned long long found = 0;
        REQUIRE(sscanf(line, "{\"step\":%llu", &found) == 1);
        char *at = strstr(line, "\"elapsed_s\":");
        if (found == step) elapsed = strtod(at + strlen("\"elapsed_s\":"), NULL);
    }
    io_bytes_free(&bytes);
    return elapsed;
}

/* Seconds of training in last.ckpt, which are more than those of its line: the evaluation came in
 * between. */
static double stored_elapsed(const char *run) {
    Checkpoint c;
    Err err = {0};
    REQUIRE(checkpoint_open(&c, run_path(run, "last.ckpt"), &err));
    double stored = c.state.elapsed_s, line = elapsed_at(run, c.state.step);
    CHECK_MSG(stored > line, "%.9g s stored, %.9g before the evaluation", stored, line);
    checkpoint_close(&c);
    return stored;
}

/* A budget in hours is the run's over all its parts, evaluations included: three that are ended
 * early and the rest. */
static void test_hours_go_on(void) {
    static const int signals[] = {SIGKILL, SIGTERM, SIGKILL};
    const double budget = 2.88;
    const char *const *o =
        OVERRIDES("train.hours=0.0008", "train.log_every=1000000", "train.eval_every=4");
    double stored = 0, before = 0;
    corpus_write(LINES);
    check_run(run_pretrain("prepared", RESUME_NEVER, OVERRIDES("train.steps=1")), 0, NULL);
    for (size_t part = 0; part < 3; part++, before = stored) {
        double start = clock_now_s();
        check_run(run_interrupted("run", RESUME_AUTO, o, 2 * part + 2, signals[part]),
                  signals[part] == SIGKILL ? -1 : 75, NULL);
        stored = stored_elapsed("run");
        CHECK(stored >= before && stored - before < clock_now_s() - start);
    }
    double start = clock_now_s();
    check_run(run_pretrain("run", RESUME_AUTO, o), 0, NULL);
    double rest = clock_now_s() - start, all = stored_elapsed("run");
    CHECK_MSG(all >= budget && all < 15, "%g s of training, the budget is %g", all, budget);
    CHECK_MSG(rest > all - stored, "%g s for the rest of %g", rest, all - stored);
}

/* A damaged last.ckpt is stepped over; when nothing is left the run does not begin anew. */
static void test_damaged_checkpoints(void) {
    const char *const *o = OVERRIDES("train.steps=30", "checkpoint.every=10");
    corpus_write(LINES);
    check_run(run_pretrain("whole", RESUME_NEVER, o), 0, NULL);
    check_run(run_interrupted("parts", RESUME_NEVER, o, 25, SIGKILL), -1, NULL);
    FILE *file = fopen(run_path("parts", "last.ckpt"), "r+b");
    REQUIRE(file && fseek(file, 5000, SEEK_SET) == 0);
    REQUIRE(fwrite("x", 1, 1, file) == 1 &&
            fclose(file) == 0); /* also step-00000020.ckpt: one file of two names */
    check_run(run_pretrain("parts", RESUME_AUTO, o), 0, NULL);
    check_runs_equal("whole", "parts");
    static const char *const names[] = {"last.ckpt", "step-00000020.ckpt", "step-00000030.ckpt"};
    for (size_t i = 0; i < 3; i++) REQUIRE(truncate(run_path("parts", names[i]), 1000) == 0);
    check_run(run_pretrain("parts", RESUME_AUTO, o), 1, "none of its 3 checkpoint files is valid");
}

static void test_resume_refuses_changes(void) {
    static const struct {
        const char *override, *message;
        int code;
    } cases[] = {
        {"optimizer.lr=1e-3", "optimizer.lr was 0.003 when the run was started, now it is 0.001",
         2},
        {"train.steps=40", "train.steps was 20", 2},
        {"train.epochs=3", "train.steps was 20 when the run was started, now it is not set", 2},
        {"train.batch=4", "train.batch was 8", 2},
        {"train.seed=2", "train.seed was 1", 2},
        {"model.width=32", "model.width was 16", 2},
        {"model.k=5", "model.k was 6", 2},
        {"model.sharing=kv", "model.sharing was headwise", 2},
        {"schedule.decay=cosine", "schedule.decay was linear", 2},
        {"tokenizer.vocab_size=350", "started with another tokenizer", 1},
    };
    corpus_write(LINES);
    check_run(run_pretrain("run", RESUME_NEVER, NULL), 0, NULL);
    Bytes before = run_file("run", "last.ckpt");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_run(run_pretrain("run", RESUME_AUTO, OVERRIDES(cases[i].override)), cases[i].code,
                  cases[i].message);
    }
    check_run(run_pretrain("run", RESUME_NEVER, NULL), 2, "--resume");
    corpus_write(LINES + 30); /* other text under the same name */
    check_run(run_pretrain("run", RESUME_AUTO, NULL), 1, "started with another text");
    Bytes after = run_file("run", "last.ckpt");
    CHECK(before.size == after.size && !memcmp(before.data, after.data, before.size));
    io_bytes_free(&before);
    io_bytes_free(&after);
}

/* Writes a file again as that of a model of `more` pieces more, its checksums right; same
 * tokenizer. */
static void forge_vocab(const char *path, size_t more) {
    Err err = {0};
    Checkpoint c;
    ParamTable table;
    char forged[1100];
    REQUIRE(checkpoint_open(&c, path, &err));
    Config config = c.config;
    config.model.vocab += more;
    REQUIRE(param_table_create(&table, &config.model, &err));
    real *zero = calloc(table.block_reals, sizeof *zero);
    REQUIRE(zero);
    CheckpointContent content = {.kind = c.kind,
                                 .config = &config,
                                 .state = &c.state,
                                 .table = &table,
                                 .weights = zero,
                                 .adam_m = zero,
                                 .adam_v = zero,
                                 .tokenizer = c.tokenizer};
    snprintf(forged, sizeof forged, "%s.forged", path);
    REQUIRE(checkpoint_save(forged, &content, &err) && rename(forged, path) == 0);
    free(zero);
    param_table_destroy(&table);
    checkpoint_close(&c);
}

/* Its tensors would not fit the blocks of the run. */
static void test_resume_refuses_other_vocabulary(void) {
    corpus_write(LINES);
    check_run(run_pretrain("run", RESUME_NEVER, OVERRIDES("train.steps=2")), 0, NULL);
    forge_vocab(run_path("run", "last.ckpt"), 4000);
    check_run(run_pretrain("run", RESUME_AUTO, OVERRIDES("train.steps=2")), 1,
              "header says 4360 pieces, its tokenizer has 360");
}

/* What changes neither result nor course may change. */
static void test_resume_accepts_harmless_changes(void) {
    corpus_write(LINES);
    const char *const *o = OVERRIDES("train.steps=300", "checkpoint.every=50");
    check_run(run_interrupted("run", RESUME_NEVER, o, 60, SIGTERM), 75, NULL);
    o = OVERRIDES("train.steps=300", "train.micro_batch=4", "train.log_every=5",
                  "checkpoint.every=100", "checkpoint.keep=1", "train.eval_every=100");
    check_run(run_pretrain("run", RESUME_AUTO, o), 0, NULL);
}

static void test_one_process_a_folder(void) {
    corpus_write(LINES);
    pid_t pid =
        run_start("run", RESUME_NEVER, OVERRIDES("train.steps=100000", "train.log_every=10"));
    CHECK(run_wait_lines(pid, "run", 2));
    /* the message file is the second run's: the first is still at work */
    check_run(
        run_pretrain("run", RESUME_AUTO, OVERRIDES("train.steps=100000", "train.log_every=10")), 1,
        "another process is training in this folder");
    kill(pid, SIGKILL);
    run_wait(pid);
}

/* Has the folder's lock for a moment, as `sweep --list` and `report` do; returns when it has it. */
static pid_t look_at(const char *folder) {
    const struct timespec moment = {0, 60000000};
    int ends[2];
    char byte = 0;
    REQUIRE(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(folder, O_RDONLY | O_DIRECTORY);
        if (fd >= 0 && flock(fd, LOCK_SH) == 0 && write(ends[1], &byte, 1) == 1)
            nanosleep(&moment, NULL);
        _exit(0);
    }
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    return pid;
}

static void test_a_look_is_no_training(void) {
    const char *folder = test_temp_path("looked");
    Err err = {0};
    int lock;
    REQUIRE(io_make_dirs(folder, &err));
    pid_t pid = look_at(folder);
    CHECK_MSG(training_lock(&lock, folder, &err), "%s", err.msg);
    close(lock);
    waitpid(pid, NULL, 0);
}

const Test tests_resume[] = {
    {"killed_run_is_exact", test_killed_run_is_exact, 0},
    {"killed_run_with_short_sequences", test_killed_run_with_short_sequences, 0},
    {"killed_run_that_pools", test_killed_run_that_pools, 0},
    {"killed_run_in_mixed_precision", test_killed_run_in_mixed_precision, 0},
    {"killed_run_is_exact_on_two_threads", test_killed_run_is_exact_on_two_threads, TEST_FLOAT},
    {"signals_save_and_resume", test_signals_save_and_resume, TEST_FLOAT},
    {"other_budgets_resume", test_other_budgets_resume, TEST_FLOAT},
    {"hours_go_on", test_hours_go_on, TEST_FLOAT},
    {"damaged_checkpoints", test_damaged_checkpoints, TEST_FLOAT},
    {"resume_refuses_changes", test_resume_refuses_changes, TEST_FLOAT},
    {"resume_refuses_other_vocabulary", test_resume_refuses_other_vocabulary, TEST_FLOAT},
    {"resume_accepts_harmless_changes", test_resume_accepts_harmless_changes, TEST_FLOAT},
    {"one_process_a_folder", test_one_process_a_folder, TEST_FLOAT},
    {"a_look_is_no_training", test_a_look_is_no_training, TEST_FLOAT},
    {0},
};
