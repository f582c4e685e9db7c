/* Files of sweeps: which runs they ask for, under which names, and what is refused. */
#include <stdio.h>
#include <stdlib.h>

#include "config_fixture.h"
#include "harness.h"
#include "sweep_config.h"

static const char BASE[] = "model: {n: 64, k: 8, layers: 2, width: 16, heads: 2, ffn: 32}\n"
                           "data: {train: train.txt, valid: valid.txt}\n"
                           "train: {steps: 10, seed: 5}\n";
static const char TASK[] = "data: {train: rows.tsv}\n"
                           "finetune: {task: custom, text: a, label: b, holdout: 0.1, init: x}\n";

static void write_text(const char *name, const char *text) {
    fixture_write(test_temp_path(name), text, strlen(text));
}

static void write_files(const char *sweep) {
    write_text("base.yaml", BASE);
    write_text("task.yaml", TASK);
    write_text("other.yaml", TASK);
    write_text("sweep.yaml", sweep);
}

static void load(SweepConfig *out, const char *sweep, const char *const *overrides, size_t count) {
    Err err = {0};
    write_files(sweep);
    if (sweep_config_load(out, test_temp_path("sweep.yaml"), overrides, count, &err)) return;
    test_fail(__FILE__, __LINE__, "%s", err.msg);
    test_end();
}

/* The names of the points, in order. */
static void check_names(const char *sweep, const char *const *names) {
    SweepConfig config;
    load(&config, sweep, NULL, 0);
    size_t count = 0;
    while (names[count]) count++;
    CHECK_INT(config.count, count);
    for (size_t i = 0; i < count && i < config.count; i++)
        CHECK_STR(config.points[i].name, names[i]);
    sweep_config_free(&config);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_grid(void) {
    check_names("sweep:\n  base: base.yaml\n  grid:\n    model.k: [4, 8]\n"
                "    model.sharing: [kv, {scope: head, tie_kv: true}, none]\n",
                NAMES("k=4,sharing=kv", "k=4,sharing=scope-head-tie_kv-true", "k=4,sharing=none",
                      "k=8,sharing=kv", "k=8,sharing=scope-head-tie_kv-true", "k=8,sharing=none"));
}

/* The groups of zip advance as one axis, the seeds last and from the base's. */
static void test_zip_and_seeds(void) {
    check_names("sweep:\n  base: base.yaml\n  grid: {optimizer.lr: [1e-3, 0.002]}\n"
                "  zip: [{model.n: [32, 64], train.batch: [8, 4]}]\n  seeds: 2\n",
                NAMES("lr=0.001,n=32,batch=8,seed=5", "lr=0.001,n=32,batch=8,seed=6",
                      "lr=0.001,n=64,batch=4,seed=5", "lr=0.001,n=64,batch=4,seed=6",
                      "lr=0.002,n=32,batch=8,seed=5", "lr=0.002,n=32,batch=8,seed=6",
                      "lr=0.002,n=64,batch=4,seed=5", "lr=0.002,n=64,batch=4,seed=6"));
}

static void test_exclude(void) {
    check_names("sweep:\n  base: base.yaml\n  grid: {model.k: [4, [4, 8]], model.norm: [post, "
                "pre]}\n  seeds: 2\n"
                "  exclude: [{model.k: [4, 8], model.norm: post}, {model.k: 4, train.seed: 6}]\n",
                NAMES("k=4,norm=post,seed=5", "k=4,norm=pre,seed=5", "k=4-8,norm=pre,seed=5",
                      "k=4-8,norm=pre,seed=6"));
    check_names(
        "sweep:\n  base: base.yaml\n"
        "  zip: [{model.k: [4, 8, 16], model.n: [16, 32, 64]}]\n  exclude: [{model.n: 32}]\n",
        NAMES("k=4,n=16", "k=16,n=64"));
}

/* Equal last parts of keys are written in full; paths as they stand in the file. */
static void test_names(void) {
    check_names("sweep: {base: base.yaml, grid: {optimizer.decay: [all], schedule.decay: [cosine], "
                "data.train: [\"a b/*.txt\", [c.txt, d.txt]]}}\n",
                NAMES("optimizer.decay=all,schedule.decay=cosine,train=a-b-.txt",
                      "optimizer.decay=all,schedule.decay=cosine,train=c.txt-d.txt"));
}

/* Long values and names end in a hash, and stay apart. */
static void test_long_names(void) {
    char text[2000] = "sweep: {base: base.yaml, grid: {data.train: [";
    for (size_t i = 0; i < 2; i++) {
        memset(text + strlen(text), 'x', 300);
        snprintf(text + strlen(text), 8, i ? "b]" : "a, ");
    }
    strcat(text, ", data.valid: [\"*\"]}}\n");
    SweepConfig sweep;
    load(&sweep, text, NULL, 0);
    CHECK_INT(sweep.count, 2);
    CHECK(strlen(sweep.points[0].name) < 120);
    CHECK(strcmp(sweep.points[0].name, sweep.points[1].name) != 0);
    CHECK_STR_CONTAINS(sweep.points[0].name, "xxxxxx-");
    CHECK(strlen(strstr(sweep.points[0].name, "valid=")) == 6 + 8);
    sweep_config_free(&sweep);
}

/* Every key of many axes at once: the whole name is bounded too. */
static void test_many_axes(void) {
    SweepConfig sweep;
    load(&sweep,
         "sweep: {base: base.yaml, grid: {model.n: [64], model.k: [8], model.ffn: [32], "
         "model.width: [16], model.layers: [2], model.dropout: [0.125], model.attention_dropout: "
         "[0.125], model.proj_init_std: [0.025], optimizer.weight_decay: [0.0123456], "
         "optimizer.position_lr: [0.5123456], optimizer.proj_lr: [0.5123456], train.eval_every: "
         "[100], "
         "train.eval_sequences: [64], train.mask_rate: [0.1234567], train.log_every: [10, 20]}}\n",
         NULL, 0);
    CHECK_INT(sweep.count, 2);
    CHECK_INT(strlen(sweep.points[0].name), 200);
    CHECK(strcmp(sweep.points[0].name, sweep.points[1].name) != 0);
    sweep_config_free(&sweep);
}

static void test_points(void) {
    SweepConfig sweep;
    Config config;
    Err err = {0};
    char *run = NULL;
    const char *const overrides[] = {"run=out/s/", "sweep.seeds=2", "train.steps=7",
                                     "sweep.grid={model.k: [[4, 2]]}"};
    load(&sweep, "run: elsewhere\nsweep: {base: base.yaml, grid: {model.n: [16]}}\n", overrides, 4);
    CHECK_STR(sweep.run_dir, "out/s");
    CHECK_INT(sweep.count, 2);
    CHECK_STR(sweep.points[1].name, "k=4-2,seed=6");
    CHECK_STR(sweep.axes[0], "model.k");
    CHECK_STR(sweep.points[1].overrides[0], "model.k=[4, 2]");
    REQUIRE(sweep_config_point(&config, &run, &sweep, 1, &err));
    CHECK_INT(config.model.k[1], 2);
    CHECK_INT(config.train.seed, 6);
    CHECK(config.train.budget == 7);
    CHECK_STR(run, "run=\"out/s\"");
    CHECK_STR(config.data.tokens, "out/prepared/base-unigram-32000/tokens");
    free(run);
    config_free(&config);
    sweep_config_free(&sweep);
    load(&sweep, "sweep: {base: base.yaml, seeds: 1}\n", NULL, 0);
    CHECK_STR(sweep.run_dir, "runs/sweep");
    CHECK(sweep.command == SWEEP_PRETRAIN);
    sweep_config_free(&sweep);
}

/* Points of one text share their tokens, points of different ones do not. */
static void test_texts(void) {
    SweepConfig sweep;
    Err err = {0};
    static const char *const tokens[] = {
        "out/texts/train=a.txt/prepared/base-unigram-32000/tokens",
        "out/texts/train=b.txt/prepared/base-unigram-32000/tokens"};
    load(&sweep,
         "run: out\nsweep: {base: base.yaml, grid: {data.train: [a.txt, b.txt], model.k: [4, "
         "8]}}\n",
         NULL, 0);
    for (size_t i = 0; i < 4; i++) {
        Config config;
        REQUIRE(sweep_config_point(&config, NULL, &sweep, i, &err));
        CHECK_STR(config.data.tokens, tokens[i / 2]);
        config_free(&config);
    }
    sweep_config_free(&sweep);
}

static void test_tasks(void) {
    SweepConfig sweep;
    Config config;
    Err err = {0};
    load(&sweep, "sweep: {base: base.yaml, seeds: 1, finetune: [task.yaml, other.yaml]}\n", NULL,
         0);
    CHECK_INT(sweep.task_count, 2);
    CHECK_STR(sweep.task_names[0], "task");
    CHECK_STR(sweep.task_names[1], "other");
    REQUIRE(sweep_config_task(&config, &sweep, 1, "a, b/best.ckpt", &err));
    CHECK_STR(config.finetune.init, "a, b/best.ckpt");
    config_free(&config);
    sweep_config_free(&sweep);
    load(&sweep, "sweep: {base: base.yaml, seeds: 1, finetune: task.yaml}\n", NULL, 0);
    CHECK_INT(sweep.task_count, 1);
    sweep_config_free(&sweep);
    load(&sweep,
         "sweep: {base: task.yaml, command: finetune, grid: {optimizer.lr: [1e-4, 2e-4]}}\n", NULL,
         0);
    CHECK(sweep.command == SWEEP_FINETUNE);
    sweep_config_free(&sweep);
}

static void test_override_text(void) {
    char *text = config_override_text("run", "a\"b\\c: #d");
    CHECK_STR(text, "run=\"a\\\"b\\\\c: #d\"");
    free(text);
}

/* The sweeps in configs/, by the number of their runs. */
static void test_shipped(void) {
    static const struct {
        const char *path, *first;
        size_t count;
    } rows[] = {
        {"configs/sweep/k.yaml", "attention=linformer,k=16,seed=1", 18},
        {"configs/sweep/sharing.yaml", "sharing=none,seed=1", 12},
        {"configs/sweep/n.yaml", "k=64,n=128,batch=16,eval_sequences=512,seed=1", 8},
        {"configs/sweep/nk.yaml", "n=128,k=16,batch=16,eval_sequences=512,seed=1", 8},
        {"configs/sweep/projection.yaml",
         "projection=linear,init=normal,proj_init_std=0.02,proj_lr=1,position_lr=1,seed=1", 12},
        {"configs/sweep/nonuniform.yaml", "layers=4,k=64,seed=1", 9},
        {"configs/sweep/tasks.yaml", "k=16", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SweepConfig sweep;
        Err err = {0};
        if (!CHECK_MSG(sweep_config_load(&sweep, rows[i].path, NULL, 0, &err), "%s", err.msg))
            continue;
        CHECK_INT(sweep.count, rows[i].count);
        CHECK_STR(sweep.points[0].name, rows[i].first);
        sweep_config_free(&sweep);
    }
}

/* ---- refused ---- */

typedef struct Bad {
    const char *text, *place, *fragment; /* place: "3:5" behind the file's name, or NULL */
} Bad;

#define IN_SWEEP(text) "sweep:\n  base: base.yaml\n" text "\n"

static const Bad bad_files[] = {
    {"", NULL, "no section sweep"},
    {"run: x\n", NULL, "no section sweep"},
    {"sweep: 3\n", "1:1", "wanted \"key: value\" lines"},
    {"sweep: {seeds: 2}\n", NULL, "sweep.base is missing"},
    {"sweep: {base: [a], seeds: 2}\n", "1:15", "sweep.base = [a]: wanted a path"},
    {"sweep: {base: none.yaml, seeds: 2}\n", NULL, "none.yaml: cannot open"},
    {IN_SWEEP(""), NULL, "nothing to sweep"},
    {"model: {k: 3}\nsweep: {base: base.yaml}\n", "1:1",
     "model: the file of a sweep has run and sweep alone"},
    {"extends: base.yaml\n", "1:1", "extends: the file of a sweep has run"},
    {"sweep: {base: base.yaml, seeds: 1}\nsweep: {seeds: 1}\n", "2:1",
     "sweep is given twice, first in line 1"},
    {"run: [a]\nsweep: {base: base.yaml, seeds: 1}\n", "1:1", "run = [a]: wanted a path"},
    {IN_SWEEP("  seeds: 1\n  seeds: 2"), "4:3", "sweep.seeds is given twice, first in line 3"},
    {IN_SWEEP("  gird: {model.k: [1]}"), "3:3", "unknown key sweep.gird: did you mean grid?"},
    {IN_SWEEP("  seeds: 0"), "3:10", "sweep.seeds = 0: wanted an integer from 1 to 1000"},
    {IN_SWEEP("  seeds: 1001"), "3:10", "wanted an integer from 1 to 1000"},
    {IN_SWEEP("  seeds: [1, 2]"), "3:10", "sweep.seeds = [1, 2]: wanted an integer"},
    {IN_SWEEP("  seeds: 1\n  command: eval"), "4:12",
     "sweep.command = eval: wanted one of pretrain, finetune"},
    {IN_SWEEP("  seeds: 1\n  command: finetune"), NULL, "sweep.command = finetune: "},
    {"sweep: {base: task.yaml, seeds: 1}\n", NULL, "sweep.command = pretrain: "},
    {IN_SWEEP("  grid: [model.k]"), "3:9", "sweep.grid = [model.k]: wanted a mapping"},
    {IN_SWEEP("  grid: {model.k: 3}"), "3:19", "model.k = 3: wanted a list of values, [a, b, ...]"},
    {IN_SWEEP("  grid: {model.k: []}"), "3:19", "model.k = []: wanted a list of values"},
    {IN_SWEEP("  grid: {model.k: [4, ]}\n  seeds: 0"), "4:10", "sweep.seeds = 0"},
    {IN_SWEEP("  grid:\n    model.k:\n    - 4\n    -"), "6:6", "an item of the list has no value"},
    {IN_SWEEP("  grid: {run: [a, b]}"), "3:10", "run is no axis"},
    {IN_SWEEP("  grid: {model: {k: [4]}}"), "3:10", "model is a section: name its keys in full"},
    {IN_SWEEP("  grid: {model.hidden_size: [4]}"), "3:10", "the key is called model.width here"},
    {IN_SWEEP("  grid: {model.layer: [4]}"), "3:10", "did you mean model.layers?"},
    {IN_SWEEP("  grid: {lr: [4]}"), "3:10", "lr belongs to section optimizer"},
    {IN_SWEEP("  grid: {model.k: [4], model.k: [8]}"), "3:24",
     "model.k is given twice: it is an axis already"},
    {IN_SWEEP("  grid: {train.seed: [4]}\n  seeds: 2"), "4:3", "train.seed is given twice"},
    {IN_SWEEP("  grid: {model.k: [4, 65]}"), NULL, "run 2 (model.k=65): override 'model.k=65'"},
    {IN_SWEEP("  grid: {model.k: [x]}"), NULL, "run 1 (model.k=x): override 'model.k=x'"},
    {IN_SWEEP("  grid: {model.k: [4, 4]}"), NULL,
     "runs 1 (model.k=4) and 2 (model.k=4) would both be called k=4"},
    {IN_SWEEP("  grid: {optimizer.lr: [1e-3, 0.001]}"), NULL, "would both be called lr=0.001"},
    {IN_SWEEP("  grid: {data.train: [a b, a-b]}"), NULL, "would both be called train=a-b"},
    {IN_SWEEP("  grid: {finetune.patience: [1]}"), NULL, "finetune.patience is given, but no"},
    {IN_SWEEP("  grid: {train.steps: [1], train.epochs: [2]}"), "3:28",
     "train.epochs: a run has one budget, and train.steps is an axis too"},
    {IN_SWEEP("  zip: {model.k: [1], model.n: [2]}"), "3:8", "wanted a list of mappings"},
    {IN_SWEEP("  zip: [{model.k: [1]}]"), "3:9", "at least two keys"},
    {IN_SWEEP("  zip: [{model.k: [1, 2], model.n: [32]}]"), "3:27",
     "model.n has 1 values and model.k has 2"},
    {IN_SWEEP("  seeds: 1\n  exclude: {model.k: 1}"), "4:12", "wanted a list of mappings"},
    {IN_SWEEP("  seeds: 1\n  exclude: [3]"), "4:13", "wanted mappings of keys to a value each"},
    {IN_SWEEP("  seeds: 1\n  exclude: [{}]"), "4:13", "wanted mappings of keys"},
    {IN_SWEEP("  seeds: 1\n  exclude: [{model.k: 8}]"), "4:14", "model.k is no axis of this sweep"},
    {IN_SWEEP("  seeds: 1\n  exclude: [{train.seed: 6}]"), "4:26",
     "train.seed = 6 is no value of that axis"},
    {IN_SWEEP("  seeds: 2\n  exclude: [{train.seed: 6, train.seed: 5}]"), "4:29", "given twice"},
    {IN_SWEEP("  seeds: 1\n  exclude: [{train.seed: 5}]"), NULL, "excludes every run"},
    {IN_SWEEP("  seeds: 1\n  finetune: []"), "4:13", "sweep.finetune = []: wanted a path"},
    {IN_SWEEP("  seeds: 1\n  finetune: [{a: b}]"), "4:14", "wanted a path or a list"},
    {IN_SWEEP("  seeds: 1\n  finetune: none.yaml"), NULL, "sweep.finetune: "},
    {IN_SWEEP("  seeds: 1\n  finetune: base.yaml"), NULL, "finetune.init"},
    {IN_SWEEP("  seeds: 1\n  finetune: [task.yaml, ./task.yml]"), "4:25",
     "two files called task would share a folder"},
    {"sweep: {base: task.yaml, command: finetune, seeds: 1, finetune: task.yaml}\n", "1:55",
     "sweep.finetune is for command pretrain"},
    {"sweep: {base: no-valid.yaml, seeds: 1, finetune: task.yaml}\n", "1:40",
     "without data.valid in"},
    {IN_SWEEP("  seeds: 1000\n  grid: {model.k: [1, 2, 3, 4], model.n: [8, 16, 32]}"), NULL,
     "more than 10000 runs"},
};

static void check_refused(const char *place, const char *fragment, const char *const *overrides,
                          size_t count) {
    SweepConfig sweep;
    Err err = {0};
    char begins[600];
    const char *path = test_temp_path("sweep.yaml");
    if (!CHECK_MSG(!sweep_config_load(&sweep, path, overrides, count, &err), "accepted: %s",
                   fragment)) {
        sweep_config_free(&sweep);
        return;
    }
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK(sweep.path == NULL && sweep.points == NULL);
    CHECK_STR_CONTAINS(err.msg, fragment);
    snprintf(begins, sizeof begins, "%s:%s%s", path, place ? place : "", place ? ": " : "");
    if (place && strncmp(err.msg, begins, strlen(begins)) != 0)
        test_fail(__FILE__, __LINE__, "wanted it at %s %s", begins, err.msg);
}

static void test_bad_files(void) {
    write_text("no-valid.yaml", "data: {train: a.txt}\n");
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        write_files(bad_files[i].text);
        check_refused(bad_files[i].place, bad_files[i].fragment, NULL, 0);
    }
}

static void test_bad_overrides(void) {
    static const struct {
        const char *override, *fragment;
    } rows[] = {
        {"sweep.seed=3", "override 'sweep.seed=3': unknown key sweep.seed: did you mean seeds?"},
        {"sweep.seeds=x", "override 'sweep.seeds=x': sweep.seeds = x: wanted an integer"},
        {"sweep.base=", "no value"},
        {"run=", "no value"},
        {"model.k=4", "override 'model.k=4': model.k is an axis of the sweep"},
        {"model.kk=4", "unknown key model.kk"},
        {"train.steps=0", "sweep.base: override 'train.steps=0'"},
    };
    write_files(IN_SWEEP("  grid: {model.k: [4, 8]}"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(NULL, rows[i].fragment, &rows[i].override, 1);
    SweepConfig sweep;
    Err err = {0};
    CHECK(!sweep_config_load(&sweep, test_temp_path("none.yaml"), NULL, 0, &err));
    CHECK_INT(err.code, ERR_CONFIG);
}

/* Other commands say what to do with such a file. */
static void test_other_commands(void) {
    Config config;
    Err err = {0};
    write_files("sweep: {base: base.yaml, seeds: 1}\n");
    CHECK(!config_load(&config, test_temp_path("sweep.yaml"), NULL, 0, &err));
    CHECK_STR_CONTAINS(err.msg, "run it with `linformer sweep`");
}

const Test tests_sweep_config[] = {
    {"grid", test_grid, 0},
    {"zip_and_seeds", test_zip_and_seeds, 0},
    {"exclude", test_exclude, 0},
    {"names", test_names, 0},
    {"long_names", test_long_names, 0},
    {"many_axes", test_many_axes, 0},
    {"points", test_points, 0},
    {"texts", test_texts, 0},
    {"tasks", test_tasks, 0},
    {"override_text", test_override_text, 0},
    {"shipped", test_shipped, 0},
    {"bad_files", test_bad_files, 0},
    {"bad_overrides", test_bad_overrides, 0},
    {"other_commands", test_other_commands, 0},
    {0},
};
