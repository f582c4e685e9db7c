#define _GNU_SOURCE /* mount, MS_* */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../src/train/trainer_internal.h"
#include "elementwise.h"
#include "harness.h"
#include "optimizer.h"
#include "rng.h"
#include "trainer_fixture.h"

enum { LINES = 60, MANY_LINES = 400 };

/* A trainer in this process. */
static void create(Trainer *out, Config *config, const char *run, const char *const *overrides) {
    Err err = {0};
    log_quiet(true);
    run_config(config, run, overrides);
    if (!CHECK_MSG(trainer_create(out, config, RESUME_NEVER, &err), "%s", err.msg)) test_end();
}

static void destroy(Trainer *trainer, Config *config) {
    trainer_destroy(trainer);
    config_free(config);
}

/* Gradients of the first `count` samples into trainer->blocks.grads; their mean loss. */
static double gradients(Trainer *t, size_t count) {
    size_t tokens, masked;
    batch_count(&tokens, &masked, t->train, &t->plan, 0, count);
    REQUIRE(masked > 0);
    return trainer_gradients(t, 0, count, masked) / (double)masked;
}

/* With weights N(0, 0.02) all pieces are nearly equally likely: logits have a standard deviation of
 * 0.02 * sqrt(16), which adds half its square to ln V, and the mean over some 100 masked tokens
 * varies by a hundredth. */
static void test_loss_starts_at_ln_v(void) {
    Trainer t;
    Config config;
    corpus_write(LINES);
    create(&t, &config, "run", NULL);
    CHECK_CLOSE(gradients(&t, 32), log((double)t.config.model.vocab), 0.05);
    destroy(&t, &config);
}

/* 1 x 32, 4 x 8 and 32 x 1 are the same update, dropout on, sequences of all lengths: loss and
 * gradient differ by rounding. */
static void check_micro_batches(const char *short_rate) {
    static const char *const sizes[] = {"train.micro_batch=0", "train.micro_batch=8",
                                        "train.micro_batch=5", "train.micro_batch=1"};
    const double tolerance = sizeof(real) == sizeof(float) ? 1e-6 : 1e-13;
    Trainer whole;
    Config config;
    corpus_write(MANY_LINES);
    create(&whole, &config, "whole", OVERRIDES("train.batch=32", sizes[0], short_rate));
    double loss = gradients(&whole, 32);
    double largest = 0;
    for (size_t i = 0; i < whole.table.block_reals; i++)
        largest = fmax(largest, fabs((double)whole.blocks.grads.block[i]));
    for (size_t s = 1; s < 4; s++) {
        Trainer parts;
        Config other;
        create(&parts, &other, sizes[s] + 6, OVERRIDES("train.batch=32", sizes[s], short_rate));
        CHECK_CLOSE(gradients(&parts, 32) / loss, 1, tolerance);
        for (size_t i = 0; i < whole.table.count; i++) {
            const Tensor *tensor = &whole.table.items[i];
            const real *a = whole.blocks.grads.block + tensor->offset,
                       *b = parts.blocks.grads.block + tensor->offset;
            double scale = 0, worst = 0;
            for (size_t e = 0; e < tensor->count; e++) {
                scale = fmax(scale, fabs((double)a[e]));
                worst = fmax(worst, fabs((double)a[e] - (double)b[e]));
            }
            /* a tensor whose gradients cancel (the key bias) is measured against a thousandth of
             * the model's largest */
            scale = fmax(scale, 1e-3 * largest);
            CHECK_MSG(worst <= tolerance * scale, "%s, %s: gradients differ by %.3g of %.3g",
                      sizes[s], tensor->name, worst, scale);
        }
        destroy(&parts, &other);
    }
    destroy(&whole, &config);
}

static void test_micro_batches_add_up(void) {
    check_micro_batches("train.short_rate=0");
}

/* The pieces of a sequence may be in several micro-batches. */
static void test_micro_batches_of_pieces_add_up(void) {
    check_micro_batches("train.short_rate=1");
}

/* The same sequences with the same masks again and again: everything there is to know about them is
 * learnt. */
static void test_overfits_one_batch(void) {
    Trainer t;
    Config config;
    double loss = INFINITY;
    corpus_write(LINES);
    create(&t, &config, "run",
           OVERRIDES("model.dropout=0", "model.attention_dropout=0", "model.width=32",
                     "model.norm=pre"));
    for (uint64_t step = 1; step <= 600 && loss >= 0.01; step++) {
        loss = gradients(&t, 8);
        optimizer_step(t.blocks.weights.block, t.blocks.adam_m, t.blocks.adam_v,
                       t.blocks.grads.block, &t.table, &t.config.optimizer, 3e-3, 1, step);
    }
    CHECK_MSG(loss < 0.01, "loss %g after 600 steps on one batch", loss);
    destroy(&t, &config);
}

/* Updates in which no token is masked count as steps, move no weight and give no NaN. */
static void test_nothing_masked(void) {
    Trainer t;
    Config config;
    Err err = {0};
    size_t empty = 0;
    corpus_write(LINES);
    create(&t, &config, "run",
           OVERRIDES("train.batch=1", "train.mask_rate=0.01", "train.steps=40"));
    for (size_t i = 0; i < 40; i++) {
        double before = vec_sum_squares(t.blocks.weights.block, t.table.block_reals);
        StepStats s;
        REQUIRE(trainer_step(&t, &s, &err));
        CHECK(isfinite(s.loss) && (s.masked > 0 || (s.loss == 0 && s.grad_norm == 0)));
        if (s.masked == 0)
            CHECK(vec_sum_squares(t.blocks.weights.block, t.table.block_reals) == before);
        empty += s.masked == 0;
    }
    CHECK(empty > 5 && empty < 40);
    CHECK_INT(t.state.step, 40);
    CHECK_INT(t.state.sample, 40);
    destroy(&t, &config);
    CHECK_INT(
        run_pretrain("empty", RESUME_NEVER, OVERRIDES("train.batch=1", "train.mask_rate=1e-9"))
            .code,
        0);
}

static void check_fails_nonfinite(Trainer *t, const char *message) {
    Err err = {0};
    StepStats s;
    CHECK(!trainer_step(t, &s, &err));
    CHECK_INT(err.code, ERR_NONFINITE);
    CHECK_STR_CONTAINS(err.msg, message);
    CHECK_STR_CONTAINS(err.msg, "step 4: loss");
    CHECK_STR_CONTAINS(err.msg, "learning rate");
}

/* A bad value is reported with the tensor it is in; the counters stay where they were. */
static void test_nonfinite_names_the_tensor(void) {
    Trainer t;
    Config config;
    Err err = {0};
    StepStats s;
    corpus_write(LINES);
    create(&t, &config, "run", NULL);
    for (size_t i = 0; i < 3; i++) REQUIRE(trainer_step(&t, &s, &err));
    real *bad = &t.blocks.weights.layers[0].ff1_w[5], good = *bad;
    *bad = (real)NAN;
    check_fails_nonfinite(&t, "weight of layer0.ff1_w");
    *bad = good;
    bad = &t.blocks.weights.head_b[1], good = *bad;
    *bad = (real)INFINITY;
    check_fails_nonfinite(&t, "weight of head_b");
    *bad = good;
    bad = &t.blocks.weights.emb_ln_w[0], good = *bad;
    *bad = (real)1e30 * (real)1e8; /* finite in double, where squares of it still are */
    if (isfinite(*bad)) *bad = (real)1e300;
    check_fails_nonfinite(&t, sizeof(real) == sizeof(float) ? "weight of emb_ln_w" : "gradient of");
    *bad = good;
    CHECK_INT(t.state.step, 3);
    CHECK(trainer_step(&t, &s, &err));
    destroy(&t, &config);
}

/* A rate far too high. */
#define DIVERGES                                                                                   \
    "optimizer.name=sgd", "optimizer.lr=100", "optimizer.clip=0", "optimizer.momentum=0.99",       \
        "train.steps=3000", "schedule.warmup=0.5", "train.log_every=1000"

static RunResult run_diverging(const char *run, const char *const *overrides) {
    RunResult result = run_pretrain(run, RESUME_NEVER, overrides);
    CHECK_MSG(result.code == ERR_NONFINITE, "exit code %d: %s", result.code, result.msg);
    CHECK_STR_CONTAINS(result.msg, "first tensor that is not finite: ");
    CHECK_STR_CONTAINS(result.msg, "in a new run (give another `run`)");
    return result;
}

static void check_weights_finite(const char *path) {
    Err err = {0};
    Checkpoint c;
    REQUIRE(checkpoint_open(&c, path, &err));
    real *weights = calloc(c.table.block_reals, sizeof *weights);
    REQUIRE(weights && checkpoint_read(&c, &c.table, weights, NULL, NULL, &err));
    CHECK_INT(vec_first_nonfinite(weights, c.table.block_reals), c.table.block_reals);
    free(weights);
    checkpoint_close(&c);
}

/* It ends in exit code 3, with the checkpoint from before in place and valid; the message names one
 * from before the weights went wrong. */
static void test_divergence_leaves_a_checkpoint(void) {
    char *path = NULL, wanted[600];
    Err err = {0};
    unsigned long long step = 0, kept = 0;
    corpus_write(LINES);
    RunResult result = run_diverging("run", OVERRIDES(DIVERGES, "checkpoint.every=1"));
    log_quiet(true);
    CHECK_MSG(checkpoint_find_newest(&path, test_temp_path("run"), &err), "%s", err.msg);
    if (path) CHECK_STR_CONTAINS(path, "/last.ckpt");
    free(path);
    REQUIRE(sscanf(result.msg, "step %llu", &step) == 1 && strstr(result.msg, "/step-"));
    CHECK(sscanf(strstr(result.msg, "/step-"), "/step-%llu.ckpt is from before", &kept) == 1);
    CHECK_INT(kept, step - 2); /* one before the step whose weights went wrong */
    snprintf(wanted, sizeof wanted, "step-%08llu.ckpt", kept);
    check_weights_finite(run_path("run", wanted));

    result = run_diverging("none", OVERRIDES(DIVERGES));
    CHECK_STR_CONTAINS(result.msg, "no checkpoint of before");
    result = run_diverging("best", OVERRIDES(DIVERGES, "train.eval_every=5"));
    snprintf(wanted, sizeof wanted, "%s/best.ckpt holds the model of step ",
             test_temp_path("best"));
    CHECK_STR_CONTAINS(result.msg, wanted);
}

/* The last line of a run stands exactly at the end of its budget. */
static void test_budget_ends_exactly(void) {
    static const struct {
        const char *budget, *member;
        double wanted;
    } cases[] = {
        {"train.steps=13", "step", 13},
        {"train.epochs=2.5", "epoch", 2.5},
        {"train.tokens=3000", "tokens", 3000},
    };
    corpus_write(LINES);
    for (size_t i = 0; i < 3; i++) {
        char run[16], member[32];
        snprintf(run, sizeof run, "run%zu", i);
        RunResult result =
            run_pretrain(run, RESUME_NEVER, OVERRIDES(cases[i].budget, "train.log_every=5"));
        CHECK_MSG(result.code == 0, "%s: %s", cases[i].budget, result.msg);
        char *metrics = run_metrics(run), *last = metrics;
        for (char *p = metrics; *p; p = strchr(p, '\n') + 1) last = p;
        snprintf(member, sizeof member, "\"%s\":", cases[i].member);
        char *at = strstr(last, member);
        REQUIRE(at);
        double found = strtod(at + strlen(member), NULL);
        /* tokens: the update in which the budget ends is still a whole one, here at most 8 * 24
         * tokens */
        CHECK_MSG(found >= cases[i].wanted && found - cases[i].wanted < (i == 2 ? 192 : 1e-9),
                  "%s ended at %g", cases[i].budget, found);
        CHECK_STR_CONTAINS(last, "\"valid_loss\":");
        CHECK_STR_CONTAINS(last, "\"unigram_entropy\":");
        at = strstr(last, "\"lr\":");
        REQUIRE(at);
        double lr = strtod(at + 5, NULL);
        /* the middle of the update that overshoots a budget in tokens may lie beyond its end */
        CHECK_MSG((lr > 0 || i == 2) && lr >= 0 && lr < 3e-3 / 13, "%s: last rate %g",
                  cases[i].budget, lr);
        free(metrics);
    }
}

/* A budget of 1.44 seconds, in hours: ends in time, and the schedule with it. */
static void test_hours_end_in_time(void) {
    corpus_write(LINES);
    RunResult result = run_pretrain("run", RESUME_NEVER,
                                    OVERRIDES("train.hours=0.0004", "train.log_every=1000000"));
    CHECK_MSG(result.code == 0, "%s", result.msg);
    Bytes metrics = run_file("run", "metrics.jsonl");
    char *at = strstr((char *)metrics.data, "\"elapsed_s\":");
    REQUIRE(at);
    /* a step takes milliseconds; the rest is what a busy machine may add */
    double elapsed = strtod(at + strlen("\"elapsed_s\":"), NULL);
    CHECK_MSG(elapsed >= 1.44 && elapsed < 10, "%g s of training, the budget is 1.44", elapsed);
    io_bytes_free(&metrics);
}

static void test_without_held_out_text(void) {
    corpus_write(LINES);
    RunResult result =
        run_pretrain("run", RESUME_NEVER, OVERRIDES("data.valid=[]", "train.eval_every=5"));
    CHECK_MSG(result.code == 0, "%s", result.msg);
    char *metrics = run_metrics("run");
    CHECK(!strstr(metrics, "valid_loss"));
    CHECK(io_is_file(run_path("run", "last.ckpt")) && !io_is_file(run_path("run", "best.ckpt")));
    free(metrics);
}

/* Only `keep` step files stay; best.ckpt is the one whose loss was the lowest logged. */
static void test_files_of_a_run(void) {
    corpus_write(LINES);
    RunResult result = run_pretrain(
        "run", RESUME_NEVER,
        OVERRIDES("train.steps=50", "checkpoint.every=8", "checkpoint.keep=2", "train.eval_every=5",
                  "optimizer.lr=0.3", "schedule.decay=constant", "schedule.warmup=0.5"));
    CHECK_MSG(result.code == 0, "%s", result.msg);
    static const char *const there[] = {"config.yaml",       "log.txt",   "metrics.jsonl",
                                        "last.ckpt",         "best.ckpt", "step-00000048.ckpt",
                                        "step-00000040.ckpt"};
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++)
        CHECK_MSG(io_is_file(run_path("run", there[i])), "no %s", there[i]);
    CHECK(!io_is_file(run_path("run", "step-00000032.ckpt")));
    char *metrics = run_metrics("run");
    double best = INFINITY;
    for (char *p = metrics; (p = strstr(p, "\"valid_loss\":")) != NULL; p++)
        best = fmin(best, strtod(p + 13, NULL));
    Checkpoint checkpoint;
    Err err = {0};
    REQUIRE(checkpoint_open(&checkpoint, run_path("run", "best.ckpt"), &err));
    CHECK(checkpoint.state.best_valid_loss == best &&
          checkpoint.state.best_step == checkpoint.state.step);
    CHECK(checkpoint.state.step <
          50); /* at that rate the loss rises again, or the test would show nothing */
    CHECK_STR(checkpoint.kind, "weights");
    checkpoint_close(&checkpoint);
    free(metrics);
}

/* More memory than there is: refused before anything is allocated, with the numbers. */
static void test_too_large_is_refused(void) {
    corpus_write(LINES);
    RunResult result = run_pretrain(
        "run", RESUME_NEVER,
        OVERRIDES("model.width=16384", "model.ffn=65536", "model.layers=64", "train.batch=1"));
    CHECK_MSG(result.code == ERR_FAILED, "exit code %d: %s", result.code, result.msg);
    CHECK_STR_CONTAINS(result.msg, "MiB are available");
    CHECK(!io_is_file(run_path("run", "metrics.jsonl")));
}

/* ---- saving under fire */

/* Every file under a final name is a valid checkpoint; the number of them. */
static size_t check_files_valid(const char *run) {
    size_t count = 0;
    DIR *dir = opendir(test_temp_path(run));
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 5, ".ckpt") != 0) continue;
        Err err = {0};
        Checkpoint c;
        bool ok =
            checkpoint_open(&c, run_path(run, e->d_name), &err) && checkpoint_verify(&c, &err);
        CHECK_MSG(ok, "%s", err.msg);
        checkpoint_close(&c);
        count++;
    }
    if (dir) closedir(dir);
    return count;
}

/* kill -9 at random moments of a run that saves at every step.  TEST_KILLS: how often. */
static void test_kill_while_saving(void) {
    const char *text = getenv("TEST_KILLS");
    size_t kills = text && *text ? (size_t)strtoul(text, NULL, 10) : 15;
    const char *const *o =
        OVERRIDES("train.steps=1000000", "checkpoint.every=1", "checkpoint.keep=2",
                  "train.eval_every=3", "model.width=64", "model.ffn=256");
    corpus_write(LINES);
    CHECK_INT(run_pretrain("prepared", RESUME_NEVER, OVERRIDES("train.steps=1")).code,
              0); /* the tokenizer is there from here on */
    uint64_t key = rng_key(test_seed(), RNG_TEST, 77, 0), last_step = 0;
    log_quiet(true);
    for (size_t i = 0; i < kills; i++) {
        pid_t pid = run_start("run", RESUME_AUTO, o);
        /* from its first new step on it saves without a pause; every fourth is killed at any moment
         * of its start instead */
        uint64_t wait_us = rng_below(key, i, i % 4 ? 60000 : 100000);
        if (i % 4) CHECK(run_wait_lines(pid, "run", (size_t)last_step + 2));
        nanosleep(&(struct timespec){0, (long)wait_us * 1000}, NULL);
        kill(pid, SIGKILL);
        RunResult result = run_wait(pid);
        CHECK_MSG(result.code == -1, "ended by itself with %d: %s", result.code, result.msg);
        if (check_files_valid("run") == 0) continue;
        Err err = {0};
        char *path = NULL;
        Checkpoint c;
        if (!CHECK_MSG(checkpoint_find_newest(&path, test_temp_path("run"), &err), "%s", err.msg))
            break;
        REQUIRE(checkpoint_open(&c, path, &err));
        CHECK(c.state.step >= last_step); /* nothing that was saved is lost */
        last_step = c.state.step;
        checkpoint_close(&c);
        free(path);
    }
    CHECK_MSG(last_step > kills / 2, "only %llu steps were saved in %zu runs: nothing was tested",
              (unsigned long long)last_step, kills);
}

/* No half file stays behind, under whatever name, and the one before the failure loads. */
static void check_survives(const char *run, const char *message, RunResult result) {
    CHECK_MSG(result.code == ERR_FAILED, "exit code %d: %s", result.code, result.msg);
    CHECK_STR_CONTAINS(result.msg, message);
    CHECK(check_files_valid(run) > 0);
    DIR *dir = opendir(test_temp_path(run));
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        CHECK_MSG(!strstr(e->d_name, ".tmp."), "%s was left", e->d_name);
    if (dir) closedir(dir);
    Err err = {0};
    char *path = NULL;
    log_quiet(true);
    CHECK_MSG(checkpoint_find_newest(&path, test_temp_path(run), &err), "%s", err.msg);
    free(path);
}

/* A limit on the size of files stands for the full disk where none can be mounted: the run
 * continues from a good checkpoint and cannot write the next. */
static void test_write_fails(void) {
    const char *const *o = OVERRIDES("train.steps=100000", "checkpoint.every=1");
    corpus_write(LINES);
    pid_t pid = run_start("run", RESUME_NEVER, o);
    REQUIRE(run_wait_lines(pid, "run", 5));
    kill(pid, SIGTERM);
    CHECK_INT(run_wait(pid).code, ERR_SIGNAL);
    Bytes last = run_file("run", "last.ckpt"), after;
    struct rlimit old, low;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
    low = (struct rlimit){last.size / 2, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN); /* inherited by the run: the write fails instead */
    REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
    RunResult result = run_pretrain("run", RESUME_AUTO, o);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
    check_survives("run", "last.ckpt: cannot write", result);
    after = run_file("run", "last.ckpt");
    CHECK(last.size == after.size && !memcmp(last.data, after.data, last.size));
    io_bytes_free(&last);
    io_bytes_free(&after);
}

static void test_disk_full(void) {
    corpus_write(LINES);
    CHECK_INT(run_pretrain("prepared", RESUME_NEVER, OVERRIDES("train.steps=1")).code, 0);
    REQUIRE(io_make_dirs(test_temp_path("run"), NULL));
    if (mount("linformer-test", test_temp_path("run"), "tmpfs", 0, "size=50m") != 0)
        test_skip("no tmpfs: needs root");
    /* some 11 MB a checkpoint, none removed */
    const char *const *o = OVERRIDES("train.steps=60", "checkpoint.every=1", "checkpoint.keep=0",
                                     "model.width=256", "model.ffn=1024", "train.batch=1");
    check_survives("run", "No space left", run_pretrain("run", RESUME_NEVER, o));
    umount2(test_temp_path("run"), MNT_DETACH);
}

const Test tests_trainer[] = {
    {"loss_starts_at_ln_v", test_loss_starts_at_ln_v, 0},
    {"micro_batches_add_up", test_micro_batches_add_up, 0},
    {"micro_batches_of_pieces_add_up", test_micro_batches_of_pieces_add_up, 0},
    {"overfits_one_batch", test_overfits_one_batch, TEST_FLOAT},
    {"nothing_masked", test_nothing_masked, TEST_FLOAT},
    {"nonfinite_names_the_tensor", test_nonfinite_names_the_tensor, 0},
    {"divergence_leaves_a_checkpoint", test_divergence_leaves_a_checkpoint, TEST_FLOAT},
    {"budget_ends_exactly", test_budget_ends_exactly, TEST_FLOAT},
    {"hours_end_in_time", test_hours_end_in_time, TEST_FLOAT},
    {"without_held_out_text", test_without_held_out_text, TEST_FLOAT},
    {"files_of_a_run", test_files_of_a_run, TEST_FLOAT},
    {"too_large_is_refused", test_too_large_is_refused, TEST_FLOAT},
    {"kill_while_saving", test_kill_while_saving, TEST_FLOAT},
    {"write_fails", test_write_fails, TEST_FLOAT},
    {"disk_full", test_disk_full, TEST_FLOAT},
    {0},
};
