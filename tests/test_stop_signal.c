/* Signals that end a run: nothing waits for a whole update or evaluation, and nothing is lost. */
#include "stop_signal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../src/train/trainer_internal.h"
#include "checkpoint.h"
#include "file_lock.h"
#include "harness.h"
#include "tokenizer.h"
#include "trainer_fixture.h"

enum { LINES = 60 };

static void check_log(const char *run, const char *message) {
    Bytes log = run_file(run, "log.txt");
    CHECK_STR_CONTAINS((const char *)log.data, message);
    io_bytes_free(&log);
}

static void test_caught(void) {
    StopSignal outer, inner;
    Err err = {0};
    CHECK(stop_signal_check(&err));
    stop_signal_install(&outer);
    CHECK(stop_signal_check(&err));
    raise(SIGUSR1);
    CHECK_INT(stop_signal_caught(), SIGUSR1);
    CHECK(!stop_signal_check(&err));
    CHECK_INT(err.code, ERR_SIGNAL);
    CHECK_STR(err.msg, "stopped by SIGUSR1");
    stop_signal_install(&inner); /* forgets nothing of the outer one's */
    CHECK_INT(stop_signal_caught(), SIGUSR1);
    raise(SIGTERM);
    stop_signal_restore(&inner);
    CHECK_INT(stop_signal_caught(), SIGTERM);
    raise(SIGUSR1); /* still no end of the process */
    stop_signal_restore(&outer);
    CHECK(stop_signal_check(&err));
    stop_signal_install(&outer);
    raise(SIGINT);
    CHECK(!stop_signal_check(NULL));
    stop_signal_restore(&outer);
    stop_signal_install(&outer); /* forgets */
    CHECK(stop_signal_check(&err));
    stop_signal_restore(&outer);
}

/* An update that a signal interrupts leaves weights, moments and counters as they were, and is made
 * again as if nothing had been. */
static void test_update_is_dropped(void) {
    Trainer t;
    Config config;
    StopSignal signals;
    StepStats s, again;
    Err err = {0};
    corpus_write(LINES);
    log_quiet(true);
    run_config(&config, "run", OVERRIDES("train.micro_batch=2"));
    if (!CHECK_MSG(trainer_create(&t, &config, RESUME_NEVER, &err), "%s", err.msg)) test_end();
    REQUIRE(trainer_step(&t, &s, &err));
    TrainState state = t.state;
    size_t bytes = t.table.block_reals * sizeof(real);
    real *weights = malloc(bytes), *moments = malloc(bytes);
    REQUIRE(weights && moments);
    memcpy(weights, t.blocks.weights.block, bytes);
    memcpy(moments, t.blocks.adam_m, bytes);
    stop_signal_install(&signals);
    raise(SIGTERM);
    CHECK(!trainer_step(&t, &s, &err));
    CHECK_INT(err.code, ERR_SIGNAL);
    stop_signal_restore(&signals);
    CHECK(!memcmp(&state, &t.state, sizeof state));
    CHECK(!memcmp(weights, t.blocks.weights.block, bytes));
    CHECK(!memcmp(moments, t.blocks.adam_m, bytes));
    REQUIRE(trainer_step(&t, &again, &err));
    CHECK(isfinite(again.loss) && again.loss > 0);
    CHECK_INT(t.state.step, 2);
    free(weights);
    free(moments);
    trainer_destroy(&t);
    config_free(&config);
}

/* No micro-batch is begun after the signal. */
static void test_gradients_stop(void) {
    Trainer t;
    Config config;
    StopSignal signals;
    Err err = {0};
    corpus_write(LINES);
    log_quiet(true);
    run_config(&config, "run", OVERRIDES("train.micro_batch=1"));
    if (!CHECK_MSG(trainer_create(&t, &config, RESUME_NEVER, &err), "%s", err.msg)) test_end();
    CHECK(trainer_gradients(&t, 0, 8, 30) > 0);
    stop_signal_install(&signals);
    raise(SIGTERM);
    CHECK(trainer_gradients(&t, 0, 8, 30) == 0);
    MlmScore score;
    t.acts.mode = ACTS_INFERENCE;
    CHECK(!evaluation_mlm(&score, &t.acts, &t.batch, &t.blocks.weights, &t.config.model, t.valid,
                          &t.plan, 0, &err));
    CHECK_INT(err.code, ERR_SIGNAL);
    CHECK_INT(score.masked, 0);
    stop_signal_restore(&signals);
    trainer_destroy(&t);
    config_free(&config);
}

static bool is_unfinished(const char *run) {
    Checkpoint c;
    Err err = {0};
    if (!CHECK_MSG(checkpoint_open(&c, run_path(run, "last.ckpt"), &err), "%s", err.msg))
        return false;
    bool is_set = c.state.unfinished.is_set;
    checkpoint_close(&c);
    return is_set;
}

static RunResult run_stopped(const char *run, ResumeMode resume, const char *const *overrides,
                             size_t lines, long pause_ms) {
    const struct timespec pause = {0, pause_ms * 1000000};
    pid_t pid = run_start(run, resume, overrides);
    CHECK(run_wait_lines(pid, run, lines));
    nanosleep(&pause, NULL);
    kill(pid, SIGTERM);
    return run_wait(pid);
}

/* A run that evaluates nearly all the time, so most signals come in the middle of an evaluation. */
static void test_stopped_evaluation_is_made_up_for(void) {
    enum { EVALUATED_LINES = 1500 };
    char valid[600];
    snprintf(valid, sizeof valid, "data.valid=%s", test_temp_path("much.txt"));
    const char *const *o =
        OVERRIDES("train.steps=16", "train.batch=1", "train.eval_every=2", "train.eval_sequences=0",
                  "checkpoint.every=6", "train.short_rate=0.5", valid);
    /* ms after an update's line: the next is still being made then where the build is slow */
    static const long pauses[] = {20, 8, 3, 0};
    size_t unfinished = 0;
    corpus_write(EVALUATED_LINES);
    REQUIRE(rename(test_temp_path("train.txt"), test_temp_path("much.txt")) == 0);
    corpus_write(LINES);
    check_run(run_pretrain("whole", RESUME_NEVER, o), 0, NULL);
    for (size_t i = 0; i < 4; i++) {
        check_run(run_stopped("parts", i ? RESUME_AUTO : RESUME_NEVER, o, 2 + 3 * i, pauses[i]),
                  75, "continue with --resume");
        unfinished += is_unfinished("parts");
        check_log("parts", "stopped by SIGTERM after step ");
    }
    CHECK_MSG(unfinished > 0, "no signal of 4 came during an evaluation");
    check_run(run_pretrain("parts", RESUME_AUTO, o), 0, NULL);
    check_runs_equal("whole", "parts");
    static const char *const files[] = {"best.ckpt", "step-00000012.ckpt"};
    for (size_t i = 0; i < 2; i++) {
        Bytes a = run_file("whole", files[i]), b = run_file("parts", files[i]);
        CHECK_MSG(a.size == b.size && !memcmp(a.data, b.data, a.size), "%s differs", files[i]);
        io_bytes_free(&a);
        io_bytes_free(&b);
    }
}

/* Temporary files below the folder of the run's prepared text. */
static size_t count_temps(const char *folder) {
    size_t count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        count += strstr(e->d_name, ".tmp") != NULL;
    if (dir) closedir(dir);
    return count;
}

/* A signal that comes before there is anything to save. */
static void test_before_the_first_step(void) {
    Config config;
    Err err = {0};
    int lock;
    const struct timespec pause = {0, 300000000};
    corpus_write(LINES);
    run_config(&config, "run", NULL);
    REQUIRE(tokenizer_lock(&lock, &config, &err)); /* so that the run waits in the middle of it */
    pid_t pid = run_start("run", RESUME_NEVER, NULL);
    nanosleep(&pause, NULL);
    kill(pid, SIGTERM);
    check_run(run_wait(pid), 75,
              "stopped by SIGTERM before the first step: nothing trained yet; start again");
    file_unlock(&lock);
    check_log("run", "nothing trained yet");
    CHECK(!io_is_file(run_path("run", "last.ckpt")));
    CHECK_INT(count_temps(test_temp_path("prepared/run-bpe-360")), 0);
    check_run(run_pretrain("run", RESUME_NEVER, NULL), 0, NULL);
    /* of a run that has checkpoints */
    REQUIRE(tokenizer_lock(&lock, &config, &err));
    pid = run_start("run", RESUME_AUTO, NULL);
    nanosleep(&pause, NULL);
    kill(pid, SIGUSR1);
    check_run(run_wait(pid), 75,
              "stopped by SIGUSR1 before the first step: continue with --resume");
    file_unlock(&lock);
    config_free(&config);
}

const Test tests_stop_signal[] = {
    {"caught", test_caught, 0},
    {"update_is_dropped", test_update_is_dropped, 0},
    {"gradients_stop", test_gradients_stop, 0},
    {"stopped_evaluation_is_made_up_for", test_stopped_evaluation_is_made_up_for, TEST_FLOAT},
    {"before_the_first_step", test_before_the_first_step, TEST_FLOAT},
    {0},
};
