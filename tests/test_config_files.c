/* Several files at once: extends, overrides, derived paths, globs of text. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "config_fixture.h"
#include "harness.h"
#include "io.h"

/* A file in the test's folder, made with its folders. */
static void put(const char *name, const char *text) {
    Err err = {0};
    char *folder = strdup(test_temp_path(name));
    REQUIRE(folder != NULL);
    *strrchr(folder, '/') = '\0';
    REQUIRE(io_make_dirs(folder, &err));
    fixture_write(test_temp_path(name), text, strlen(text));
    free(folder);
}

static void load_with(Config *out, const char *name, const char *const *overrides, size_t count) {
    fixture_load(out, test_temp_path(name), overrides, count);
}

static void load(Config *out, const char *name) {
    load_with(out, name, NULL, 0);
}

/* ---- extends ---- */

static void test_nearest_wins(void) {
    Config c;
    put("a/base.yaml", "model: {n: 100, k: 10, width: 64, heads: 4, layers: 2}\noptimizer: {lr: "
                       "0.5}\nrun: base-run\n");
    put("a/middle.yaml", "model: {k: 20, layers: 3}\nextends: base.yaml\n");
    put("b/top.yaml", "extends: ../a/middle.yaml\nmodel: {layers: 4, ffn: 77}\n");
    load(&c, "b/top.yaml");
    CHECK(c.model.n == 100 && c.model.width == 64 && c.model.heads == 4); /* base */
    CHECK(c.model.k[0] == 20 && c.model.k[3] == 20 &&
          c.model.k[4] == 0);                        /* middle, one k for the layers of top */
    CHECK(c.model.layers == 4 && c.model.ffn == 77); /* top */
    CHECK(c.optimizer.lr == 0.5);
    CHECK_STR(c.run_dir, "runs/top"); /* not the base's */
    config_free(&c);
    load(&c, "a/base.yaml");
    CHECK_STR(c.run_dir, "base-run");
    config_free(&c);
}

static void test_other_forms_replace(void) {
    static const struct {
        const char *text;
        size_t k1;
        Scope scope;
        bool tie_kv;
        BudgetUnit unit;
        double budget;
    } rows[] = {
        {"{}\n", 2, SCOPE_LAYER, true, BUDGET_STEPS, 50},
        {"train: {hours: 3}\n", 2, SCOPE_LAYER, true, BUDGET_HOURS, 3},
        {"train: {steps: 60}\n", 2, SCOPE_LAYER, true, BUDGET_STEPS, 60},
        {"model: {k: 7}\n", 7, SCOPE_LAYER, true, BUDGET_STEPS, 50},
        {"model: {k: [7, 8]}\n", 8, SCOPE_LAYER, true, BUDGET_STEPS, 50},
        {"model: {sharing: {scope: head, tie_kv: false}}\n", 2, SCOPE_HEAD, false, BUDGET_STEPS,
         50},
        {"model: {sharing: layerwise}\n", 2, SCOPE_MODEL, true, BUDGET_STEPS, 50},
    };
    put("base.yaml", "model: {k: [1, 2], layers: 2, sharing: {scope: layer, tie_kv: true}}\ntrain: "
                     "{steps: 50}\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        Config c;
        snprintf(text, sizeof text, "extends: base.yaml\n%s",
                 rows[i].text[0] == '{' ? "" : rows[i].text);
        put("top.yaml", text);
        load(&c, "top.yaml");
        CHECK_INT(c.model.k[1], rows[i].k1);
        CHECK(c.model.scope == rows[i].scope && c.model.tie_kv == rows[i].tie_kv);
        CHECK(c.train.budget_unit == rows[i].unit && c.train.budget == rows[i].budget);
        config_free(&c);
    }
}

static void test_longest_chain(void) {
    Config c;
    for (int i = 0; i <= 15; i++) {
        char name[32], text[64];
        snprintf(name, sizeof name, "chain%d.yaml", i);
        snprintf(text, sizeof text, i ? "extends: chain%d.yaml\n" : "model: {n: 256}\n", i - 1);
        put(name, text);
    }
    load(&c, "chain15.yaml");
    CHECK_INT(c.model.n, 256);
    config_free(&c);
}

static void test_message_names_both_files(void) {
    Config c;
    Err err = {0};
    char wanted[600];
    put("base.yaml", "model:\n  width: 64\n  heads: 4\n");
    put("top.yaml", "extends: base.yaml\nmodel:\n  heads: 5\n");
    CHECK(!config_load(&c, test_temp_path("top.yaml"), NULL, 0, &err));
    snprintf(wanted, sizeof wanted,
             "%s:3:3: model.heads = 5: must divide model.width = 64 (%s:2:3)",
             test_temp_path("top.yaml"), test_temp_path("base.yaml"));
    CHECK_STR(err.msg, wanted);
}

/* ---- overrides ---- */

static void test_overrides_apply_in_order(void) {
    static const char *const overrides[] = {
        "model.k=3",     "train.tokens=2",    "train.hours=4",    "model.k=[5, 6]",
        "run=out/a=b",   "model.n=1e2",       "model.sharing=kv", "optimizer.lr=1E-3",
        "data.valid=[]", "data.train=x/*.txt"};
    Config c;
    put("a.yaml",
        "model: {layers: 2}\ntrain: {steps: 9}\ndata: {train: [a.txt, b.txt], valid: c.txt}\n");
    load_with(&c, "a.yaml", overrides, sizeof overrides / sizeof *overrides);
    CHECK(c.model.k[0] == 5 && c.model.k[1] == 6 && c.model.n == 100 && c.model.tie_kv);
    CHECK(c.train.budget_unit == BUDGET_HOURS && c.train.budget == 4 && c.optimizer.lr == 0.001);
    CHECK_STR(c.run_dir, "out/a=b");
    CHECK_INT(c.data.valid_globs.count, 0);
    REQUIRE(c.data.train_globs.count == 1);
    char *here = realpath(".", NULL), wanted[4200];
    snprintf(wanted, sizeof wanted, "%s/x/*.txt", here);
    CHECK_STR(c.data.train_globs.items[0].pattern,
              wanted); /* from the working folder, not from a.yaml's */
    CHECK_STR(c.data.train_globs.items[0].place, "override 'data.train=x/*.txt'");
    free(here);
    config_free(&c);
}

static void test_derived_paths(void) {
    static const struct {
        const char *override, *run, *tokens;
    } rows[] = {
        {"train.seed=2", "runs/top", "runs/prepared/base-bpe-900/tokens"},
        {"run=out/x", "out/x", "out/prepared/base-bpe-900/tokens"},
        {"run=out/x/", "out/x/", "out/prepared/base-bpe-900/tokens"},
        {"run=x", "x", "prepared/base-bpe-900/tokens"},
        {"run=/x", "/x", "/prepared/base-bpe-900/tokens"},
        {"data.train=/mine.txt", "runs/top", "runs/prepared/top-bpe-900/tokens"},
        {"tokenizer.type=unigram", "runs/top", "runs/prepared/base-unigram-900/tokens"},
        {"data.tokens=/t", "runs/top", "/t"},
    };
    put("base.yaml", "data: {train: a.txt}\ntokenizer: {vocab_size: 900}\n");
    put("top.yaml", "extends: base.yaml\ntokenizer: {type: bpe}\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config c;
        load_with(&c, "top.yaml", &rows[i].override, 1);
        CHECK_STR(c.run_dir, rows[i].run);
        CHECK_STR(c.data.tokens, rows[i].tokens);
        config_free(&c);
    }
}

static void test_home(void) {
    Config c;
    setenv("HOME", "/home/me", 1);
    put("a.yaml", "run: ~/runs/x\ndata: {train: ~/text/*.gz}\n");
    load(&c, "a.yaml");
    CHECK_STR(c.run_dir, "/home/me/runs/x");
    CHECK_STR(c.data.train_globs.items[0].pattern, "/home/me/text/*.gz");
    config_free(&c);
    setenv("HOME", test_temp_dir(), 1);
    put("below/b.yaml", "extends: ~/a.yaml\nmodel: {k: 3}\n");
    load(&c, "below/b.yaml");
    CHECK_INT(c.data.train_globs.count, 1);
    config_free(&c);
}

static void test_notes(void) {
    static const struct {
        const char *file, *override, *note;
    } rows[] = {
        {"full.yaml", "optimizer.momentum=0.9",
         "override 'optimizer.momentum=0.9': optimizer.momentum has no effect with optimizer.name "
         "= adamw\n"},
        {"full.yaml", "model.k=64", "model.k has no effect with model.attention = full"},
        {"full.yaml", "model.proj_init_std=0.1",
         "model.proj_init_std has no effect with model.attention = full"},
        {"full.yaml", "optimizer.proj_lr=0.1",
         "optimizer.proj_lr has no effect with model.attention = full"},
        {"fixed.yaml", "model.proj_init_std=0.1",
         "model.proj_init_std has no effect with model.projection = fixed"},
        {"fixed.yaml", "optimizer.proj_lr=0.1",
         "optimizer.proj_lr has no effect with model.projection = fixed"},
        {"fixed.yaml", "model.sharing=kv", NULL},
        {"mean.yaml", "model.sharing=kv",
         "model.sharing has no effect with model.projection = mean"},
        {"mean.yaml", "model.proj_init_std=0.1",
         "model.proj_init_std has no effect with model.projection = mean"},
        {"max.yaml", "model.sharing={scope: model, tie_kv: false}",
         "model.sharing has no effect with model.projection = max"},
        {"max.yaml", "optimizer.proj_lr=0.1",
         "optimizer.proj_lr has no effect with model.projection = max"},
        {"mean.yaml", "model.k=64", NULL},
        {"conv.yaml", "model.sharing=none", NULL},
        {"conv.yaml", "model.proj_init_std=0.1", NULL},
        {"conv.yaml", "optimizer.proj_lr=0.1", NULL},
        {"full.yaml", "optimizer.weight_decay=0", NULL},
        {"full.yaml", "optimizer.position_lr=0.1", NULL},
        {"full.yaml", "model.init=local", NULL},
        {"fixed.yaml", "optimizer.position_lr=0.1", NULL},
        {"base.yaml", "optimizer.proj_lr=0.1", NULL},
        {"short.yaml", "train.short_rate=0.1",
         "train.short_rate has no effect with a model.n of at most 8"},
        {"base.yaml", "train.short_rate=0.1", NULL},
        {"base.yaml", "model.proj_init_std=0.1", NULL},
    };
    put("base.yaml", "model: {k: 100}\n"); /* inherited: no note */
    put("full.yaml", "extends: base.yaml\nmodel: {attention: full}\n");
    put("fixed.yaml", "model: {projection: fixed}\n");
    put("mean.yaml", "model: {projection: mean}\n");
    put("max.yaml", "model: {projection: max}\n");
    put("conv.yaml", "model: {projection: conv}\n");
    put("short.yaml", "model: {n: 8, k: 4}\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config c;
        load_with(&c, rows[i].file, &rows[i].override, 1);
        if (rows[i].note)
            CHECK_STR_CONTAINS(c.notes, rows[i].note);
        else
            CHECK_MSG(c.notes == NULL, "%s: %s", rows[i].override, c.notes);
        config_free(&c);
    }
}

/* The resolved configuration of a run names every key, also those without effect; what an override
 * says is meant. */
static void test_notes_of_resolved(void) {
    static const char *const overrides[] = {"optimizer.momentum=0.9"};
    Config c;
    put("run.yaml", "model: {attention: full, k: 64}\noptimizer: {weight_decay: 0}\n");
    load(&c, "run.yaml");
    CHECK(c.notes != NULL);
    char *yaml = config_to_yaml(&c);
    REQUIRE(yaml != NULL);
    config_free(&c);
    put("config.yaml", yaml);
    free(yaml);
    load(&c, "config.yaml");
    CHECK_MSG(c.notes == NULL, "%s", c.notes);
    config_free(&c);
    load_with(&c, "config.yaml", overrides, 1);
    CHECK_STR(c.notes, "override 'optimizer.momentum=0.9': optimizer.momentum has no effect with "
                       "optimizer.name = adamw\n");
    config_free(&c);
}

/* Keys that a fine-tuning does not read. */
static void test_finetune_notes(void) {
    static const struct {
        const char *overrides[2], *note;
    } rows[] = {
        {{"train.mask_rate=0.2"}, "train.mask_rate has no effect with a finetune.task"},
        {{"train.init=x"}, "train.init has no effect with a finetune.task"},
        {{"train.short_rate=0.2"}, "train.short_rate has no effect with a finetune.task"},
        {{"checkpoint.every=2"}, "checkpoint.every has no effect with a finetune.task"},
        {{"tokenizer.vocab_size=400"}, "tokenizer.vocab_size has no effect with a finetune.task"},
        {{"tokenizer.model=x"}, "tokenizer.model has no effect with finetune.init, whose"},
        {{"tokenizer.model=x", "finetune.init=none"}, NULL},
        {{"finetune.truncate=tail"}, NULL},
        {{"finetune.truncate=tail", "finetune.task=qqp"},
         "finetune.truncate has no effect with pairs of texts"},
        {{"model.head_dropout=0.1"}, NULL},
        {{"model.head_pooling=mean"}, NULL},
    };
    put("task.yaml", "finetune: {task: sst2, init: a.ckpt}\ndata: {train: a, valid: b}\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config c;
        load_with(&c, "task.yaml", rows[i].overrides, rows[i].overrides[1] ? 2 : 1);
        if (rows[i].note)
            CHECK_STR_CONTAINS(c.notes, rows[i].note);
        else
            CHECK_MSG(c.notes == NULL, "%s: %s", rows[i].overrides[0], c.notes);
        config_free(&c);
    }
    Config c;
    put("text.yaml", "model: {head_dropout: 0.1, head_pooling: mean}\n");
    load(&c, "text.yaml");
    CHECK_STR_CONTAINS(c.notes, "model.head_dropout has no effect with finetune.task = none");
    CHECK_STR_CONTAINS(c.notes, "model.head_pooling has no effect with finetune.task = none");
    config_free(&c);
}

/* ---- globs ---- */

static void check_files(const PathList *paths, const char *const *names, size_t count) {
    CHECK_INT(paths->count, count);
    for (size_t i = 0; i < paths->count && i < count; i++) {
        char *wanted = realpath(test_temp_path(names[i]), NULL);
        CHECK_STR(paths->items[i], wanted);
        free(wanted);
    }
}

/* Globs belong to the file that names them, wherever the program is started; files come sorted
 * within each glob. */
static void test_globs(void) {
    static const char *const train[] = {"text/z.txt",    "text/a.txt.gz", "text/b.txt.gz",
                                        "text/c.txt.gz", "text/d.txt.gz", "text/e.txt.gz"};
    static const char *const valid[] = {"cfg/v.txt"};
    Config c;
    Err err = {0};
    put("text/c.txt.gz", ""); /* an order that no folder keeps by itself */
    put("text/a.txt.gz", "");
    put("text/e.txt.gz", "");
    put("text/b.txt.gz", "");
    put("text/d.txt.gz", "");
    put("text/z.txt", "");
    put("text/folder.txt.gz/inside", ""); /* a glob steps over folders */
    put("cfg/v.txt", "");
    put("cfg/deep/base.yaml", "data: {train: [../../text/z*, ./..//../text/*.txt.gz]}\n");
    put("cfg/top.yaml", "extends: deep/base.yaml\ndata: {valid: v.txt}\n");
    load(&c, "cfg/top.yaml");
    CHECK(c.data.train.count == 0 && c.data.valid.count == 0); /* loading looks for no text */
    for (int again = 0; again < 2; again++) {
        CHECK_MSG(config_resolve_data(&c, &err), "%s", err.msg);
        check_files(&c.data.train, train, 6);
        check_files(&c.data.valid, valid, 1);
    }
    config_free(&c);
}

static void test_glob_folder_with_special_characters(void) {
    Config c;
    Err err = {0};
    put("odd[1]*?/x.txt", "");
    put("odd[1]*?/c.yaml", "data: {train: x.*}\n");
    load(&c, "odd[1]*?/c.yaml");
    CHECK_MSG(config_resolve_data(&c, &err), "%s", err.msg);
    CHECK_INT(c.data.train.count, 1);
    char *yaml = config_to_yaml(&c);
    config_free(&c);
    REQUIRE(yaml != NULL && config_from_yaml(&c, yaml, "memory", &err));
    CHECK_MSG(config_resolve_data(&c, &err), "%s", err.msg);
    CHECK_INT(c.data.train.count, 1);
    config_free(&c);
    free(yaml);
}

static void test_bad_globs(void) {
    static const struct {
        const char *text, *fragment;
    } rows[] = {
        {"model: {n: 512}\n", "c.yaml: data.train is missing"},
        {"data: {train: []}\n", "data.train is missing"},
        {"data:\n  train:\n    - a.txt\n    - '*.gz'\n", "c.yaml:4:7: data.train = "},
        {"data:\n  train:\n    - a.txt\n    - '*.gz'\n", "/*.gz: no file matches"},
        {"data: {train: a.txt, valid: no.txt}\n", "c.yaml:1:22: data.valid = "},
        {"data: {train: folder}\n", "names only folders"},
        {"data: {train: [a.txt, '*.txt']}\n", "a.txt: named twice by data.train"},
        {"data: {train: '*.txt', valid: b.txt}\n", "b.txt: named by data.train and by data.valid"},
        {"data: {train: b.txt, valid: link}\n", "b.txt: named by data.train and by data.valid"},
    };
    put("a.txt", "");
    put("b.txt", "");
    put("folder/x", "");
    REQUIRE(symlink("b.txt", test_temp_path("link")) == 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config c;
        Err err = {0};
        put("c.yaml", rows[i].text);
        load(&c, "c.yaml");
        CHECK_MSG(!config_resolve_data(&c, &err), "accepted: %s", rows[i].text);
        CHECK_INT(err.code, ERR_CONFIG);
        CHECK_STR_CONTAINS(err.msg, rows[i].fragment);
        config_free(&c);
    }
}

/* Folders that may not be read are told from files that are not there. */
static void test_hidden_files(void) {
    static const struct {
        const char *text, *fragment;
    } rows[] = {
        {"data: {train: hidden/a.txt}\n", "hidden/a.txt: Permission denied"},
        {"data: {train: 'hidden/*.txt'}\n", "hidden/*.txt: a folder in it cannot be read"},
        {"data: {train: 'none/*.txt'}\n", "none/*.txt: no file matches"},
        {"data: {train: 'a.txt/*.txt'}\n", "a.txt/*.txt: no file matches"},
        {"data: {train: none/a.txt}\n", "none/a.txt: no file matches"},
    };
    put("a.txt", "");
    put("hidden/a.txt", "");
    /* the test's folder is in one of the whole run */
    REQUIRE(chmod(test_temp_path(".."), 0755) == 0 && chmod(test_temp_dir(), 0755) == 0 &&
            chmod(test_temp_path("hidden"), 0) == 0);
    Config c[5];
    for (size_t i = 0; i < 5; i++) {
        put("c.yaml", rows[i].text);
        load(&c[i], "c.yaml");
    }
    uid_t user = geteuid(); /* nothing is hidden from root */
    bool may_read = user == 0 && seteuid(65534) != 0;
    if (may_read || access(test_temp_path("c.yaml"), R_OK) != 0)
        test_skip("folders cannot be hidden from this user, or not without hiding all");
    for (size_t i = 0; i < 5; i++) {
        Err err = {0};
        CHECK_MSG(!config_resolve_data(&c[i], &err), "accepted: %s", rows[i].text);
        CHECK_STR_CONTAINS(err.msg, rows[i].fragment);
        config_free(&c[i]);
    }
    REQUIRE(seteuid(user) == 0 && chmod(test_temp_path("hidden"), 0700) == 0);
}

static void test_one_list_alone(void) {
    Config c;
    Err err = {0};
    PathList paths;
    put("v.txt", "");
    put("c.yaml", "data: {train: not-here.txt, valid: v.txt}\n");
    load(&c, "c.yaml");
    CHECK(config_expand_globs(&paths, &c.data.valid_globs, "data.valid", &err));
    CHECK_INT(paths.count, 1);
    config_paths_free(&paths);
    CHECK(paths.count == 0 && paths.items == NULL);
    CHECK(config_expand_globs(&paths, &(GlobList){0}, "x", &err) && paths.count == 0);
    config_paths_free(&paths);
    config_free(&c);
}

const Test tests_config_files[] = {
    {"nearest_wins", test_nearest_wins, 0},
    {"other_forms_replace", test_other_forms_replace, 0},
    {"longest_chain", test_longest_chain, 0},
    {"message_names_both_files", test_message_names_both_files, 0},
    {"overrides_apply_in_order", test_overrides_apply_in_order, 0},
    {"derived_paths", test_derived_paths, 0},
    {"home", test_home, 0},
    {"notes", test_notes, 0},
    {"notes_of_resolved", test_notes_of_resolved, 0},
    {"finetune_notes", test_finetune_notes, 0},
    {"globs", test_globs, 0},
    {"glob_folder_with_special_characters", test_glob_folder_with_special_characters, 0},
    {"bad_globs", test_bad_globs, 0},
    {"hidden_files", test_hidden_files, 0},
    {"one_list_alone", test_one_list_alone, 0},
    {0},
};
