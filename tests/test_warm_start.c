/* train.init: a pretraining that begins with the weights of an earlier one. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "finetune_fixture.h"
#include "harness.h"
#include "trainer_fixture.h"

/* "key=<file of the temporary folder>"; valid until the third call after it */
static const char *with_path(const char *key, const char *file) {
    static char text[3][800];
    static size_t next;
    char *out = text[next++ % 3];
    snprintf(out, sizeof text[0], "%s=%s", key, test_temp_path(file));
    return out;
}

static void check_done(RunResult result) {
    CHECK_MSG(result.code == 0, "exit code %d: %s", result.code, result.msg);
}

static void check_refused(RunResult result, int code, const char *message) {
    CHECK_MSG(result.code == code, "exit code %d, wanted %d: %s", result.code, code, result.msg);
    CHECK_STR_CONTAINS(result.msg, message);
}

static void pretrain_first(void) {
    corpus_write(60);
    check_done(run_pretrain("first", RESUME_NEVER, OVERRIDES("train.steps=20")));
}

static real *read_weights(Checkpoint *out, const char *run) {
    Err err = {0};
    REQUIRE(checkpoint_open(out, run_path(run, "last.ckpt"), &err));
    real *weights = calloc(out->table.block_reals, sizeof *weights);
    REQUIRE(weights && checkpoint_read(out, &out->table, weights, NULL, NULL, &err));
    return weights;
}

/* Largest difference of two runs' weights. */
static double weight_distance(const char *run_a, const char *run_b) {
    Checkpoint a, b;
    real *x = read_weights(&a, run_a), *y = read_weights(&b, run_b);
    double distance = 0;
    REQUIRE(a.table.block_reals == b.table.block_reals);
    for (size_t i = 0; i < a.table.block_reals; i++)
        distance = fmax(distance, fabs((double)x[i] - (double)y[i]));
    checkpoint_close(&a);
    checkpoint_close(&b);
    free(x);
    free(y);
    return distance;
}

/* One step of no size: the weights are the earlier run's, everything else begins anew. */
static void test_weights_are_taken_over(void) {
    pretrain_first();
    const char *init = with_path("train.init", "first/last.ckpt");
    check_done(run_pretrain("second", RESUME_NEVER,
                            OVERRIDES(init, "train.steps=1", "optimizer.lr=1e-12", "train.seed=2",
                                      "model.dropout=0.2")));
    CHECK(weight_distance("first", "second") < 1e-9);
    Checkpoint c;
    Err err = {0};
    REQUIRE(checkpoint_open(&c, run_path("second", "last.ckpt"), &err));
    CHECK(c.state.step == 1 && c.config.model.dropout == 0.2);
    CHECK_STR(c.config.train.init, strchr(init, '=') + 1);
    checkpoint_close(&c);
    check_done(run_pretrain("fresh", RESUME_NEVER,
                            OVERRIDES("train.steps=1", "optimizer.lr=1e-12", "train.seed=2")));
    CHECK(weight_distance("first", "fresh") > 1e-3);
}

/* Where no tokenizer is, the checkpoint's is written; where another one is, it is refused. */
static void test_tokenizer(void) {
    pretrain_first();
    const char *init = with_path("train.init", "first/last.ckpt");
    const char *place = with_path("tokenizer.model", "elsewhere/t.model");
    const char *tokens = with_path("data.tokens", "elsewhere/tokens");
    check_done(
        run_pretrain("second", RESUME_NEVER, OVERRIDES(init, place, tokens, "train.steps=2")));
    Checkpoint c;
    Bytes written;
    Err err = {0};
    REQUIRE(checkpoint_open(&c, run_path("first", "last.ckpt"), &err));
    REQUIRE(io_read_file(&written, test_temp_path("elsewhere/t.model"), 1 << 24, &err));
    CHECK(written.size == c.tokenizer.size &&
          memcmp(written.data, c.tokenizer.data, written.size) == 0);
    io_bytes_free(&written);
    checkpoint_close(&c);

    REQUIRE(unlink(test_temp_path("elsewhere/t.model")) == 0);
    check_done(run_pretrain("other", RESUME_NEVER,
                            OVERRIDES(place, tokens, "tokenizer.vocab_size=350", "train.steps=2")));
    check_refused(run_pretrain("third", RESUME_NEVER,
                               OVERRIDES(init, place, tokens, "tokenizer.vocab_size=350")),
                  ERR_FAILED, "is not the tokenizer of train.init");
}

static void test_refused(void) {
    pretrain_first();
    const char *init = with_path("train.init", "first/last.ckpt");
    check_refused(run_pretrain("a", RESUME_NEVER, OVERRIDES(init, "model.k=5")), ERR_CONFIG,
                  "override 'model.k=5': model.k = 5, but train.init");
    check_refused(run_pretrain("a", RESUME_NEVER, OVERRIDES(init, "model.norm=pre")), ERR_CONFIG,
                  "was pretrained with post");
    check_refused(run_pretrain("b", RESUME_NEVER, OVERRIDES(with_path("train.init", "none.ckpt"))),
                  ERR_FAILED, "no such file");
    check_refused(run_pretrain("c", RESUME_NEVER, OVERRIDES(with_path("train.init", "train.txt"))),
                  ERR_FAILED, "train.init");
}

static void test_classifier_is_refused(void) {
    task_write();
    check_done(run_finetune("task", RESUME_NEVER, OVERRIDES(task_init(), "train.epochs=1")));
    check_refused(run_pretrain("run", RESUME_NEVER,
                               OVERRIDES(with_path("train.init", "task/seed-1/best.ckpt"))),
                  ERR_FAILED, "has no masked-language-model head");
}

/* Once a run has a checkpoint of its own, it goes on from that, with or without the first file. */
static void test_resume(void) {
    pretrain_first();
    const char *const *o = OVERRIDES(with_path("train.init", "first/last.ckpt"), "train.steps=120",
                                     "checkpoint.every=10");
    check_done(run_pretrain("whole", RESUME_NEVER, o));
    pid_t pid = run_start("parts", RESUME_NEVER, o);
    CHECK(run_wait_lines(pid, "parts", 30));
    kill(pid, SIGKILL);
    CHECK(run_wait(pid).code == -1);
    REQUIRE(unlink(run_path("first", "last.ckpt")) == 0);
    check_done(run_pretrain("parts", RESUME_AUTO, o));
    check_runs_equal("whole", "parts");
    check_refused(run_pretrain("parts", RESUME_AUTO, OVERRIDES("train.steps=120")), ERR_CONFIG,
                  "train.init was");
}

const Test tests_warm_start[] = {
    {"weights_are_taken_over", test_weights_are_taken_over, 0},
    {"tokenizer", test_tokenizer, 0},
    {"refused", test_refused, 0},
    {"classifier_is_refused", test_classifier_is_refused, 0},
    {"resume", test_resume, 0},
    {NULL, NULL, 0},
};
