/* Fine-tunings that are stopped, continued, refused or go wrong. */
#include <cJSON.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "finetune_fixture.h"
#include "harness.h"
#include "io.h"
#include "rng.h"

/* results.json without the seconds and the folders. */
static char *results_text(const char *run) {
    Bytes bytes = run_file(run, "results.json");
    char *text = (char *)bytes.data;
    REQUIRE(text);
    static const char *const members[] = {",\"elapsed_s\":", ",\"checkpoint\":"};
    for (size_t i = 0; i < 2; i++) {
        for (char *at; (at = strstr(text, members[i])) != NULL;) {
            char *end = at + strlen(members[i]);
            end += strcspn(end, ",}");
            memmove(at, end, strlen(end) + 1);
        }
    }
    return text;
}

static void check_same_results(const char *a, const char *b) {
    char *x = results_text(a), *y = results_text(b);
    CHECK_STR(y, x);
    free(x);
    free(y);
}

/* ---- stopped and continued */

/* Killed in the second of three seeds and continued: the results of an unbroken run, the first seed
 * not touched again. */
static void test_killed_run_resumes(void) {
    const char *const *o = OVERRIDES("finetune.seeds=3", "train.epochs=2");
    task_write();
    require_run(run_finetune("whole", RESUME_NEVER, o));
    pid_t pid = start_finetune("parts", RESUME_NEVER, o);
    REQUIRE(run_wait_lines(pid, "parts/seed-2", 25));
    kill(pid, SIGKILL);
    CHECK_INT(run_wait(pid).code, -1);
    CHECK(!io_is_file(run_path("parts/seed-2", "result.json")));
    CHECK(io_is_file(run_path("parts/seed-2", "best.ckpt"))); /* of the first epoch, 20 steps */
    CHECK(!io_is_file(run_path("parts", "results.json")));
    Bytes first = run_file("parts/seed-1", "result.json");
    struct stat before, after;
    REQUIRE(stat(run_path("parts/seed-1", "metrics.jsonl"), &before) == 0);
    check_run(run_finetune("parts", RESUME_NEVER, o), ERR_CONFIG, "--resume");
    require_run(run_finetune("parts", RESUME_AUTO, o));
    check_same_results("whole", "parts");
    Bytes again = run_file("parts/seed-1", "result.json");
    CHECK(first.size == again.size && !memcmp(first.data, again.data, first.size));
    REQUIRE(stat(run_path("parts/seed-1", "metrics.jsonl"), &after) == 0);
    CHECK(before.st_size == after.st_size && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    for (int seed = 1; seed <= 3; seed++) {
        char a[32], b[32];
        snprintf(a, sizeof a, "whole/seed-%d", seed);
        snprintf(b, sizeof b, "parts/seed-%d", seed);
        char *x = run_metrics(a), *y = run_metrics(b);
        CHECK_STR(y, x);
        free(x);
        free(y);
    }
    io_bytes_free(&first);
    io_bytes_free(&again);
}

static void test_signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1};
    static const char *const names[] = {"SIGTERM", "SIGINT", "SIGUSR1"};
    task_write();
    for (size_t i = 0; i < 3; i++) {
        if (i) REQUIRE(unlink(run_path("run/seed-1", "metrics.jsonl")) == 0); /* to wait for it */
        pid_t pid =
            start_finetune("run", i ? RESUME_AUTO : RESUME_NEVER, OVERRIDES("train.epochs=1000"));
        REQUIRE(run_wait_lines(pid, "run/seed-1", 3));
        kill(pid, numbers[i]);
        RunResult result = run_wait(pid);
        check_run(result, ERR_SIGNAL, names[i]);
        CHECK_STR_CONTAINS(result.msg, "--resume");
        CHECK(!io_is_file(run_path("run/seed-1", "result.json")));
    }
}

/* Another learning rate, other rows, another checkpoint or a seed that is not whole do not pass for
 * the same run. */
static void test_resume_refuses_changes(void) {
    task_write();
    require_run(run_finetune("run", RESUME_NEVER, OVERRIDES(task_init(), "train.epochs=1")));
    static const struct {
        const char *override, *message;
    } rows[] = {
        {"optimizer.lr=3e-3", "optimizer.lr was 0.01 when the run was started, now it is 0.003"},
        {"train.eval_every=7", "train.eval_every was 0"},
        {"finetune.metric=f1", "finetune.metric was accuracy"},
        {"train.seed=2", "train.seed was 1"},
        {"model.dropout=0.3", "model.dropout was 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_run(run_finetune("run", RESUME_AUTO,
                               OVERRIDES(task_init(), "train.epochs=1", rows[i].override)),
                  ERR_CONFIG, rows[i].message);
    const char *const *same = OVERRIDES(task_init(), "train.epochs=1");
    task_write_rows("dev.tsv", TASK_VALID_ROWS, rng_key(1, RNG_TEST, 9, 0));
    check_run(run_finetune("run", RESUME_AUTO, same), ERR_FAILED, "made with other rows");
    task_write_rows("dev.tsv", TASK_VALID_ROWS, rng_key(1, RNG_TEST, 2, 0));
    require_run(run_finetune("run", RESUME_AUTO, same));
    REQUIRE(symlink("seed-1", run_path("run", "seed-2")) == 0);
    check_run(run_finetune("run", RESUME_AUTO,
                           OVERRIDES(task_init(), "train.epochs=1", "finetune.seeds=2")),
              ERR_FAILED, "the result of seed 1, wanted that of seed 2");
    REQUIRE(unlink(run_path("run", "seed-2")) == 0);
    REQUIRE(rename(run_path("pre", "best.ckpt"), run_path("pre", "last.ckpt")) == 0);
    check_run(run_finetune("run", RESUME_AUTO, same), ERR_FAILED, "another finetune.init");
    REQUIRE(truncate(run_path("run/seed-1", "result.json"), 20) == 0);
    check_run(run_finetune("run", RESUME_AUTO, same), ERR_FAILED, "not the result of a seed");
    REQUIRE(unlink(run_path("run/seed-1", "best.ckpt")) == 0);
    check_run(run_finetune("run", RESUME_AUTO, same), ERR_FAILED, "not its best.ckpt");
}

/* More seeds, and what changes no number. */
static void test_resume_accepts_harmless_changes(void) {
    task_write();
    require_run(
        run_finetune("whole", RESUME_NEVER, OVERRIDES("finetune.seeds=2", "train.epochs=1")));
    require_run(
        run_finetune("run", RESUME_AUTO, OVERRIDES("train.epochs=1"))); /* begins one, too */
    require_run(run_finetune("run", RESUME_AUTO,
                             OVERRIDES("train.epochs=1", "finetune.seeds=2", "train.log_every=5")));
    check_same_results("whole", "run");
}

static void test_one_process_a_folder(void) {
    task_write();
    pid_t pid = start_finetune("run", RESUME_NEVER, OVERRIDES("train.epochs=1000"));
    REQUIRE(run_wait_lines(pid, "run/seed-1", 1));
    check_run(run_finetune("run", RESUME_AUTO, NULL), ERR_FAILED, "another process");
    kill(pid, SIGTERM);
    CHECK_INT(run_wait(pid).code, ERR_SIGNAL);
    check_run(run_finetune("pre", RESUME_AUTO, NULL), ERR_CONFIG,
              "holds the checkpoints of a pretraining");
}

/* A limit on the size of files stands for a full disk. */
static void test_write_fails(void) {
    struct rlimit old, low;
    task_write();
    REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
    low = (struct rlimit){20000, old.rlim_max}; /* the log fits, a checkpoint does not */
    signal(SIGXFSZ, SIG_IGN);                   /* inherited by the run: the write fails instead */
    REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
    RunResult result = run_finetune("run", RESUME_NEVER, NULL);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
    check_run(result, ERR_FAILED, "best.ckpt: cannot write");
    CHECK(!io_is_file(run_path("run/seed-1", "result.json")));
    require_run(run_finetune("run", RESUME_AUTO, NULL));
}

/* ---- gone wrong */

static void check_log(const char *run, const char *fragment) {
    Bytes log = run_file(run, "log.txt");
    CHECK_STR_CONTAINS((const char *)log.data, fragment);
    io_bytes_free(&log);
}

static void test_nonfinite(void) {
    task_write();
    RunResult result =
        run_finetune("run", RESUME_NEVER,
                     OVERRIDES("optimizer.lr=100", "optimizer.name=sgd", "optimizer.clip=0",
                               "optimizer.weight_decay=1", "schedule.decay=constant"));
    check_run(result, ERR_NONFINITE, "seed 1: step ");
    CHECK_STR_CONTAINS(result.msg, "first tensor that is not finite: ");
    CHECK(!io_is_file(run_path("run/seed-1", "result.json")));
}

/* Predictions of one class, and a score that the most frequent class reaches too, are warned of:
 * once below its accuracy, once equal to it, as the predicted class is the more frequent one in one
 * of two files. */
static void test_collapse_is_warned_of(void) {
    task_write();
    for (size_t run = 0; run < 2; run++) {
        const char *name = run ? "water" : "sky", *folder = run ? "water/seed-1" : "sky/seed-1";
        FILE *file = fopen(test_temp_path("dev.tsv"), "w");
        REQUIRE(file);
        fputs("text\tlabel\n", file);
        for (size_t i = 0; i < 10; i++)
            fprintf(file, "a dog sees the %s\t%s\n", i % 2 ? "moon" : "river",
                    i < 7   ? name
                    : i % 2 ? "sky"
                            : "water");
        REQUIRE(fclose(file) == 0);
        require_run(
            run_finetune(name, RESUME_NEVER, OVERRIDES("optimizer.lr=30", "train.epochs=1")));
        check_log(folder, "warning: all 10 predictions are ");
        check_log(folder, "what always answering the most frequent class reaches");
        Bytes bytes = run_file(folder, "result.json");
        cJSON *result = cJSON_Parse((const char *)bytes.data);
        CHECK(cJSON_IsTrue(cJSON_GetObjectItem(result, "collapsed")));
        cJSON_Delete(result);
        io_bytes_free(&bytes);
    }
}

/* What is counted at the start. */
static void test_rows_are_described(void) {
    task_write();
    require_run(
        run_finetune("run", RESUME_NEVER, OVERRIDES("model.n=10", "model.k=4", "train.epochs=1")));
    check_log("run", "data.train: 320 rows (sky ");
    check_log("run", "10 at most, ");
    check_log("run", "rows cut to n = 10");
    check_log("run", "data.valid: 96 rows (sky ");
    check_log("run", "always answering the most frequent class: accuracy 0.5");
}

/* ---- refused before step 1 */

static void write_rows(const char *text) {
    Err err = {0};
    REQUIRE(io_write_file(test_temp_path("bad.tsv"), text, strlen(text), &err));
}

static const char *bad_train(void) {
    static char text[800];
    snprintf(text, sizeof text, "data.train=%s", test_temp_path("bad.tsv"));
    return text;
}

static void check_no_step(const char *run, RunResult result, int code, const char *fragment) {
    check_run(result, code, fragment);
    CHECK_MSG(!io_is_file(run_path(run, "seed-1/metrics.jsonl")), "a step was made: %s", fragment);
}

static void test_bad_init(void) {
    task_write();
    require_run(run_finetune("done", RESUME_NEVER, OVERRIDES("train.steps=1")));
    char classifier[800], text[800], none[800], folder[800];
    snprintf(classifier, sizeof classifier, "finetune.init=%s",
             run_path("done/seed-1", "best.ckpt"));
    snprintf(text, sizeof text, "finetune.init=%s", test_temp_path("train.tsv"));
    snprintf(none, sizeof none, "finetune.init=%s", test_temp_path("no.ckpt"));
    snprintf(folder, sizeof folder, "finetune.init=%s", test_temp_path("done"));
    const struct {
        const char *overrides[3];
        int code;
        const char *fragment;
    } rows[] = {
        {{none}, ERR_FAILED, "no.ckpt: no such file: wanted a checkpoint of `linformer pretrain`"},
        {{folder}, ERR_FAILED, "done: a folder: wanted a checkpoint of `linformer pretrain`"},
        {{text}, ERR_FAILED, "finetune.init: "},
        {{classifier}, ERR_FAILED, "a classifier that was fine-tuned already (2 classes, sky"},
        {{task_init(), "model.n=48"}, ERR_CONFIG, "model.n = 48, but finetune.init = "},
        {{task_init(), "model.n=48"}, ERR_CONFIG, "was pretrained with 24"},
        {{task_init(), "model.k=5"}, ERR_CONFIG, "override 'model.k=5': model.k = 5, but"},
        {{task_init(), "model.k=[6, 6]"}, ERR_CONFIG, "wanted one for each layer"},
        {{task_init(), "model.sharing=kv"}, ERR_CONFIG, "was pretrained with headwise"},
        {{task_init(), "model.layers=2"}, ERR_CONFIG, "model.layers = 2, but"},
        {{task_init(), "model.attention=full"}, ERR_CONFIG, "model.attention = full, but"},
        {{"tokenizer.model=no.model"}, ERR_FAILED, "with `linformer tokenizer`"},
        {{"finetune.holdout=0.5"}, ERR_CONFIG, "data.valid are both given"},
        {{"finetune.task=none"}, ERR_CONFIG, "but no finetune.task"},
        {{"model.n=2", "model.k=2"}, ERR_CONFIG, "model.n = 2: 2 special tokens"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RunResult result = run_finetune("run", RESUME_AUTO, rows[i].overrides);
        check_no_step("run", result, rows[i].code, rows[i].fragment);
    }
}

static void test_bad_rows(void) {
    static const struct {
        const char *rows, *place, *fragment;
    } rows[] = {
        {"", "bad.tsv", ""},
        {"text\tlabel\n", "bad.tsv", ""},
        {"text\tclass\na\tx\nb\ty\n", "bad.tsv:1", "label"},
        {"text\tlabel\na\tx\nb\tx\n", "bad.tsv", "class"},
        {"text\tlabel\na\tx\nb\n", "bad.tsv:3", "column"},
        {"text\tlabel\na\tx\nb\t\n", "bad.tsv:3", "label"},
        {"text\tlabel\na\tx\nb\ty\n", "dev.tsv:2", ""}, /* its labels are not among x and y */
    };
    task_write();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_rows(rows[i].rows);
        RunResult result = run_finetune("run", RESUME_AUTO, OVERRIDES(bad_train()));
        check_no_step("run", result, ERR_FAILED, rows[i].place);
        CHECK_STR_CONTAINS(result.msg, rows[i].fragment);
    }
    task_write_config("task: sst2, init: none");
    static const char *const sst2[][2] = {
        {"sentence\tlabel\na good film\t1\na fine film\t1\n", "at least two classes"},
        {"sentence\tlabel\na good film\t1\na bad film\t2\n", "bad.tsv:3"},
        {"sentence\tlabel\na good film\t1\na bad film\t-1\n", "bad.tsv:3"},
    };
    write_rows("sentence\tlabel\na good film\t1\na bad film\t0\n");
    REQUIRE(rename(test_temp_path("bad.tsv"), test_temp_path("dev.tsv")) == 0);
    for (size_t i = 0; i < sizeof sst2 / sizeof *sst2; i++) {
        write_rows(sst2[i][0]);
        check_no_step("run", run_finetune("run", RESUME_AUTO, OVERRIDES(bad_train())), ERR_FAILED,
                      sst2[i][1]);
    }
}

const Test tests_finetune_runs[] = {
    {"killed_run_resumes", test_killed_run_resumes, TEST_FLOAT},
    {"signals", test_signals, TEST_FLOAT},
    {"resume_refuses_changes", test_resume_refuses_changes, TEST_FLOAT},
    {"resume_accepts_harmless_changes", test_resume_accepts_harmless_changes, TEST_FLOAT},
    {"one_process_a_folder", test_one_process_a_folder, TEST_FLOAT},
    {"write_fails", test_write_fails, TEST_FLOAT},
    {"nonfinite", test_nonfinite, TEST_FLOAT},
    {"collapse_is_warned_of", test_collapse_is_warned_of, TEST_FLOAT},
    {"rows_are_described", test_rows_are_described, TEST_FLOAT},
    {"bad_init", test_bad_init, TEST_FLOAT},
    {"bad_rows", test_bad_rows, TEST_FLOAT},
    {0},
};
