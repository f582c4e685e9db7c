/* Good configs of one file: every key, defaults, spellings, help, and the configs that come along.
 */
#include <dirent.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "config_fixture.h"
#include "harness.h"

/* Writes "name" into the test's folder; returns its path, one of the harness's rotating buffers. */
static const char *write_config(const char *name, const char *text) {
    const char *path = test_temp_path(name);
    fixture_write(path, text, strlen(text));
    return path;
}

static void load_text(Config *out, const char *text) {
    fixture_load(out, write_config("a.yaml", text), NULL, 0);
}

static void check_value(const Config *config, const char *path, const char *wanted) {
    char *value = config_key_value(config, path);
    CHECK_MSG(value && strcmp(value, wanted) == 0, "%s is %s, wanted %s", path, value, wanted);
    free(value);
}

/* ---- every key ---- */

/* A value other than the default for each key, and how it is written back (NULL: as given). */
static const struct {
    const char *path, *value, *written;
} key_values[] = {
    {"run", "out/run7", NULL},
    {"model.n", "640", NULL},
    {"model.k", "[8, 7, 6, 5, 4, 3, 2, 1, 9, 10, 11, 12]", NULL},
    {"model.sharing", "{scope: model, tie_kv: false}", NULL},
    {"model.projection", "fixed", NULL},
    {"model.attention", "full", NULL},
    {"model.layers", "3", NULL},
    {"model.width", "1.2e2", "120"},
    {"model.heads", "4", NULL},
    {"model.ffn", "100", NULL},
    {"model.dropout", "0.25", NULL},
    {"model.attention_dropout", "0", NULL},
    {"model.init", "local", NULL},
    {"optimizer.position_lr", "5e-2", "0.05"},
    {"optimizer.proj_lr", "5e-3", "0.005"},
    {"model.proj_init_std", "3.5e-2", "0.035"},
    {"model.norm", "pre", NULL},
    {"model.head_dropout", "0.5", NULL},
    {"model.head_pooling", "mean", NULL},
    {"tokenizer.model", "tok/a b.model", "\"tok/a b.model\""},
    {"tokenizer.type", "bpe", NULL},
    {"tokenizer.vocab_size", "1234", NULL},
    {"tokenizer.sample_bytes", "2e6", "2000000"},
    {"data.train", "[/a/*.txt, /b/\"x\".gz]", "[\"/a/*.txt\", \"/b/\\\"x\\\".gz\"]"},
    {"data.valid", "/c/valid.txt", "[/c/valid.txt]"},
    {"data.tokens", "/tokens", NULL},
    {"train.steps", "1e6", "1000000"},
    {"train.epochs", "2.5", NULL},
    {"train.tokens", "5e9", "5000000000"},
    {"train.hours", "0.75", NULL},
    {"train.batch", "48", NULL},
    {"train.micro_batch", "3", NULL},
    {"train.recompute", "layer", NULL},
    {"train.memory", "8GiB", NULL},
    {"train.threads", "2", NULL},
    {"train.precision", "fp16", NULL},
    {"train.seed", "9007199254740991", NULL},
    {"train.init", "run s/best.ckpt", "\"run s/best.ckpt\""},
    {"train.mask_rate", "0.3", NULL},
    {"train.short_rate", "0.2", NULL},
    {"train.eval_every", "0", NULL},
    {"train.eval_sequences", "0", NULL},
    {"train.log_every", "1", NULL},
    {"optimizer.name", "sgd", NULL},
    {"optimizer.lr", "7e-5", "7.0e-5"},
    {"optimizer.betas", "[0.5, 0.999]", NULL},
    {"optimizer.eps", "1e-8", "1.0e-8"},
    {"optimizer.weight_decay", "0.1", NULL},
    {"optimizer.decay", "all", NULL},
    {"optimizer.momentum", "0.9", NULL},
    {"optimizer.clip", "0", NULL},
    {"schedule.warmup", "0", NULL},
    {"schedule.decay", "cosine", NULL},
    {"checkpoint.every", "77", NULL},
    {"checkpoint.keep", "0", NULL},
    {"finetune.task", "qnli", NULL},
    {"finetune.init", "run s/best.ckpt", "\"run s/best.ckpt\""},
    {"finetune.seeds", "3", NULL},
    {"finetune.patience", "2", NULL},
    {"finetune.holdout", "0.25", NULL},
    {"finetune.metric", "mcc", NULL},
    {"finetune.truncate", "both", NULL},
    {"finetune.case", "lower", NULL},
    {"finetune.text", "a text", "\"a text\""},
    {"finetune.text_pair", "\"null\"", NULL},
    {"finetune.label", "'7'", "\"7\""},
};

static const char SST2[] = "finetune: {task: sst2, init: none}\ndata: {valid: /v}\n";

/* A file with what must stand beside the key. */
static const char *text_around(const char *path) {
    if (strncmp(path, "finetune.", 9) != 0) return "train: {}\n";
    if (strstr(path, "text") || strstr(path, "label"))
        return "finetune: {task: custom, init: none, text: t, label: l}\ndata: {valid: /v}\n";
    if (strstr(path, "holdout")) return "finetune: {task: imdb, init: none, holdout: 0.1}\n";
    return SST2;
}

static void test_every_key(void) {
    const char *path;
    for (size_t i = 0; (path = config_key_path(i)) != NULL; i++) {
        size_t row = 0, rows = sizeof key_values / sizeof *key_values;
        while (row < rows && strcmp(key_values[row].path, path) != 0) row++;
        if (!CHECK_MSG(row < rows, "%s: no row tests this key", path)) continue;
        char text[200];
        snprintf(text, sizeof text, "%s=%s", path, key_values[row].value);
        const char *override = text;
        Config plain, set;
        const char *file = write_config("a.yaml", text_around(path));
        fixture_load(&plain, file, NULL, 0);
        fixture_load(&set, file, &override, 1);
        const char *written =
            key_values[row].written ? key_values[row].written : key_values[row].value;
        check_value(&set, path, written);
        char *before = config_key_value(&plain, path);
        CHECK_MSG(before && strcmp(before, written) != 0, "%s: the row has the default", path);
        free(before);
        fixture_check_round_trip(&set);
        config_free(&plain);
        config_free(&set);
    }
}

/* The parser fills the member the key is named after: a swap in the table would pass all round
 * trips. */
static void test_members(void) {
    Config c;
    load_text(
        &c, "run: r\nmodel: {n: 70, k: [9, 8], sharing: {scope: head, tie_kv: true}, "
            "projection: fixed, attention: linformer,\n"
            "  layers: 2, width: 15, heads: 5, ffn: 31, dropout: 0.2, attention_dropout: "
            "0.3, init: local, proj_init_std: 0.4, norm: pre, head_dropout: 0.24,\n"
            "  head_pooling: mean}\n"
            "tokenizer: {model: t.model, type: bpe, vocab_size: 301, sample_bytes: 10001}\n"
            "data: {train: [/x, /y], valid: /z, tokens: tok}\n"
            "train: {hours: 1.5, batch: 17, micro_batch: 6, threads: 3, seed: 11, init: c/d, "
            "mask_rate: 0.21, short_rate: 0.22, recompute: ffn, memory: 25KiB, eval_every: 12,\n"
            "  precision: bf16, eval_sequences: 13, log_every: 14}\n"
            "optimizer: {name: sgd, lr: 0.5, position_lr: 0.25, proj_lr: 0.26, betas: [0.6, 0.7], "
            "eps: 0.8,\n"
            "  weight_decay: 0.9, decay: all, momentum: 0.11, clip: 0.12}\n"
            "schedule: {warmup: 0.13, decay: constant}\n"
            "checkpoint: {every: 15, keep: 16}\n"
            "finetune: {task: custom, init: a/b, seeds: 22, patience: 23, metric: f1, truncate: "
            "tail, case: lower,\n"
            "  text: one, text_pair: two, label: three}\n");
    CHECK_STR(c.run_dir, "r");
    CHECK(c.model.n == 70 && c.model.k[0] == 9 && c.model.k[1] == 8 && c.model.k[2] == 0);
    CHECK(c.model.scope == SCOPE_HEAD && c.model.tie_kv && c.model.projection == PROJECTION_FIXED);
    CHECK(c.model.attention == ATTENTION_LINFORMER && c.model.norm == NORM_PRE);
    CHECK(c.model.layers == 2 && c.model.width == 15 && c.model.heads == 5 && c.model.ffn == 31);
    CHECK(c.model.dropout == 0.2 && c.model.attention_dropout == 0.3 &&
          c.model.init == INIT_SCHEME_LOCAL && c.model.proj_init_std == 0.4);
    CHECK(c.model.vocab == 301 && c.tokenizer.vocab_size == 301 &&
          c.tokenizer.sample_bytes == 10001);
    CHECK_STR(c.tokenizer.model, "t.model");
    CHECK(c.tokenizer.type == TOKENIZER_BPE);
    CHECK(c.data.train_globs.count == 2 && c.data.valid_globs.count == 1);
    CHECK_STR(c.data.train_globs.items[1].pattern, "/y");
    CHECK_STR(c.data.valid_globs.items[0].pattern, "/z");
    CHECK_STR(c.data.tokens, "tok");
    CHECK(c.train.budget_unit == BUDGET_HOURS && c.train.budget == 1.5);
    CHECK(c.train.batch == 17 && c.train.micro_batch == 6 && c.train.threads == 3 &&
          c.train.seed == 11);
    CHECK(c.model.recompute == RECOMPUTE_FFN && c.train.memory == 25 * 1024);
    CHECK(c.model.precision == PRECISION_BF16);
    CHECK(c.train.mask_rate == 0.21 && c.train.eval_every == 12 && c.train.eval_sequences == 13);
    CHECK(c.train.log_every == 14 && c.optimizer.name == OPTIMIZER_SGD && c.optimizer.lr == 0.5);
    CHECK(c.optimizer.position_lr == 0.25 && c.optimizer.proj_lr == 0.26);
    CHECK(c.optimizer.betas[0] == 0.6 && c.optimizer.betas[1] == 0.7 && c.optimizer.eps == 0.8);
    CHECK(c.optimizer.weight_decay == 0.9 && c.optimizer.decay == DECAY_ALL);
    CHECK(c.optimizer.momentum == 0.11 && c.optimizer.clip == 0.12);
    CHECK(c.schedule.warmup == 0.13 && c.schedule.decay == SCHEDULE_CONSTANT);
    CHECK(c.train.short_rate == 0.22);
    CHECK(c.checkpoint.every == 15 && c.checkpoint.keep == 16 && c.model.head_dropout == 0.24);
    CHECK(c.model.head_pooling == HEAD_POOLING_MEAN);
    CHECK(c.finetune.task == TASK_CUSTOM && c.finetune.seeds == 22 && c.finetune.patience == 23);
    CHECK(c.finetune.metric == METRIC_F1 && c.finetune.truncate == TRUNCATE_TAIL);
    CHECK(c.finetune.letters == CASE_LOWER && c.finetune.holdout == 0);
    CHECK_STR(c.train.init, "c/d");
    CHECK_STR(c.finetune.init, "a/b");
    CHECK_STR(c.finetune.text, "one");
    CHECK_STR(c.finetune.text_pair, "two");
    CHECK_STR(c.finetune.label, "three");
    fixture_check_round_trip(&c);
    config_free(&c);
}

static void test_defaults(void) {
    Config c;
    load_text(&c, "model: {}\n");
    CHECK(c.model.n == 512 && c.model.layers == 12 && c.model.width == 768 && c.model.heads == 12);
    CHECK(c.model.k[0] == 128 && c.model.k[11] == 128 && c.model.k[12] == 0);
    CHECK(c.model.scope == SCOPE_LAYER && !c.model.tie_kv && c.model.norm == NORM_POST);
    CHECK(c.model.proj_init_std == CONFIG_PROJ_INIT_STD && c.model.init == INIT_SCHEME_NORMAL);
    CHECK(c.optimizer.position_lr == 1 && c.optimizer.proj_lr == 1);
    CHECK(c.train.short_rate == 0 && !c.train.init);
    CHECK(c.train.budget_unit == BUDGET_EPOCHS && c.train.budget == 1 && c.train.micro_batch == 16);
    CHECK(c.optimizer.betas[0] == 0.9 && c.optimizer.betas[1] == 0.98 && c.optimizer.eps == 1e-6);
    CHECK(c.optimizer.clip == 1 && c.schedule.warmup == 0.06 &&
          c.schedule.decay == SCHEDULE_LINEAR);
    CHECK(c.tokenizer.sample_bytes == 64 << 20 && c.data.train_globs.count == 0 && c.notes == NULL);
    CHECK(c.finetune.task == TASK_NONE && !c.finetune.init && c.finetune.seeds == 1);
    CHECK(c.finetune.metric == METRIC_ACCURACY && c.finetune.truncate == TRUNCATE_HEAD);
    CHECK(c.finetune.patience == 0 && c.finetune.letters == CASE_KEEP && c.model.head_dropout == 0);
    CHECK(c.model.head_pooling == HEAD_POOLING_CLS);
    CHECK_STR(c.run_dir, "runs/a");
    CHECK_STR(c.tokenizer.model, "runs/prepared/a-unigram-32000/tokenizer.model");
    CHECK_STR(c.data.tokens, "runs/prepared/a-unigram-32000/tokens");
    fixture_check_round_trip(&c);
    config_free(&c);
}

static void test_micro_batch(void) {
    static const struct {
        const char *text;
        size_t wanted;
    } rows[] = {
        {"model: {n: 128}\n", 64},        {"model: {n: 128}\ntrain: {batch: 10}\n", 10},
        {"model: {n: 100000}\n", 1},      {"train: {micro_batch: 0}\n", 0},
        {"train: {micro_batch: 7}\n", 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config c;
        load_text(&c, rows[i].text);
        CHECK_INT(c.train.micro_batch, rows[i].wanted);
        fixture_check_round_trip(&c);
        config_free(&c);
    }
}

/* Each word of each choice of the section is the one that its enum means. */
static void test_finetune_words(void) {
    static const struct {
        const char *override;
        size_t task, metric, truncate;
    } rows[] = {
        {"finetune.task=sst2", TASK_SST2, 0, 0},
        {"finetune.task=qnli", TASK_QNLI, 0, 0},
        {"finetune.task=qqp", TASK_QQP, 0, 0},
        {"finetune.task=imdb", TASK_IMDB, 0, 0},
        {"finetune.metric=mcc", TASK_SST2, METRIC_MCC, 0},
        {"finetune.metric=accuracy", TASK_SST2, METRIC_ACCURACY, 0},
        {"finetune.truncate=both", TASK_SST2, 0, TRUNCATE_BOTH},
        {"finetune.truncate=head", TASK_SST2, 0, TRUNCATE_HEAD},
    };
    const char *file = write_config("a.yaml", SST2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config c;
        fixture_load(&c, file, &rows[i].override, 1);
        CHECK(c.finetune.task == rows[i].task && c.finetune.metric == rows[i].metric);
        CHECK(c.finetune.truncate == rows[i].truncate);
        config_free(&c);
    }
}

/* A key counts as given wherever it was given, and only then; an evaluation an epoch is the
 * default of a task alone. */
static void test_given(void) {
    Config c, copy;
    write_config("base.yaml", "model: {n: 300, head_dropout: 0.3}\n");
    const char *const overrides[] = {"model.ffn=7"};
    const char *file = write_config(
        "a.yaml", "extends: base.yaml\nmodel: {heads: 3}\nfinetune: {task: sst2, init: x.ckpt, "
                  "holdout: 0.1}\n");
    fixture_load(&c, file, overrides, 1);
    static const char *const given[] = {"model.n", "model.head_dropout", "model.heads", "model.ffn",
                                        "finetune.init"};
    static const char *const others[] = {"model.k",          "model.layers",   "run",
                                         "train.eval_every", "finetune.label", "no.key"};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        CHECK_MSG(config_is_given(&c, given[i]), "%s", given[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_MSG(!config_is_given(&c, others[i]), "%s", others[i]);
    CHECK_STR_CONTAINS(config_given_at(&c, "model.n"), "base.yaml:1:9");
    CHECK_STR_CONTAINS(config_given_at(&c, "model.heads"), "a.yaml:2:9");
    CHECK_STR(config_given_at(&c, "model.ffn"), "override 'model.ffn=7'");
    CHECK(!config_given_at(&c, "model.k") && !config_given_at(&c, "no.key"));
    CHECK_INT(c.train.eval_every, 0);
    char *yaml = config_to_yaml(&c);
    fixture_parse(&copy, yaml);
    CHECK(config_is_given(&copy, "model.k") && config_is_given(&copy, "finetune.seeds"));
    free(yaml);
    config_free(&copy);
    config_free(&c);
}

/* The model of a checkpoint replaces the model section: its defaults are not compared with what is
 * given. */
static void test_model_of_checkpoint(void) {
    Config c;
    load_text(&c, "model: {n: 64, width: 100}\n"
                  "finetune: {task: imdb, init: a.ckpt, holdout: 0.5}\n");
    CHECK(c.model.n == 64 && c.model.width == 100);
    fixture_check_round_trip(&c);
    config_free(&c);
}

/* Which commands a config is for. */
static void test_command(void) {
    Config c;
    Err err = {0};
    load_text(&c, "train: {}\n");
    CHECK(config_check_no_task(&c, &err));
    CHECK(!config_check_task(&c, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "a.yaml: finetune.task is missing");
    config_free(&c);
    load_text(&c, SST2);
    CHECK(config_check_task(&c, &err));
    CHECK(!config_check_no_task(&c, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "finetune.task = sst2");
    CHECK_STR_CONTAINS(err.msg, "`linformer finetune`");
    config_free(&c);
}

/* ---- spellings ---- */

static void test_numbers(void) {
    static const char *const rates[] = {"1e-4",   "1E-4",  "1.0e-4", ".0001",
                                        "0.0001", "+1e-4", "1.e-4",  "100e-06"};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        char text[64];
        Config c;
        snprintf(text, sizeof text, "optimizer: {lr: %s}\n", rates[i]);
        load_text(&c, text);
        CHECK_MSG(c.optimizer.lr == 0.0001, "%s is %.17g", rates[i], c.optimizer.lr);
        config_free(&c);
    }
    static const char *const counts[] = {"1500000", "1.5e6", "15e5", "1.50e+6", "+1500000"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char text[64];
        Config c;
        snprintf(text, sizeof text, "train: {tokens: %s}\n", counts[i]);
        load_text(&c, text);
        CHECK_MSG(c.train.budget == 1500000 && c.train.budget_unit == BUDGET_TOKENS, "%s",
                  counts[i]);
        config_free(&c);
    }
}

static void test_decimal_comma(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE",       "fr_FR.UTF-8",
                                        "fr_FR",       "ru_RU.UTF-8", "es_ES.UTF-8"};
    size_t i = 0, count = sizeof names / sizeof *names;
    while (i < count && !setlocale(LC_NUMERIC, names[i])) i++;
    if (i == count) test_skip("no locale with a decimal comma is installed");
    Config c;
    load_text(&c, "optimizer: {lr: 0.25}\n");
    CHECK(c.optimizer.lr == 0.25);
    check_value(&c, "optimizer.lr", "0.25");
    config_free(&c);
}

static void test_sharing_names(void) {
    static const struct {
        const char *value;
        Scope scope;
        bool tie_kv;
        const char *name;
    } rows[] = {
        {"none", SCOPE_HEAD, false, "none"},
        {"headwise", SCOPE_LAYER, false, "headwise"},
        {"kv", SCOPE_LAYER, true, "kv"},
        {"layerwise", SCOPE_MODEL, true, "layerwise"},
        {"{scope: head, tie_kv: false}", SCOPE_HEAD, false, "none"},
        {"{tie_kv: true, scope: head}", SCOPE_HEAD, true, "scope: head, tie_kv: true"},
        {"{scope: layer, tie_kv: true}", SCOPE_LAYER, true, "kv"},
        {"{scope: model, tie_kv: false}", SCOPE_MODEL, false, "scope: model, tie_kv: false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[96];
        Config c;
        snprintf(text, sizeof text, "model: {sharing: %s}\n", rows[i].value);
        load_text(&c, text);
        CHECK(c.model.scope == rows[i].scope && c.model.tie_kv == rows[i].tie_kv);
        CHECK_STR(config_sharing_name(&c.model), rows[i].name);
        fixture_check_round_trip(&c);
        config_free(&c);
    }
}

static void test_text_forms(void) {
    static const char *const texts[] = {
        "model:\n  n: 300\n",
        "model:\r\n  n: 300\r\n",
        "\xef\xbb\xbfmodel:\n  n: 300\n",
        "---\n# a comment\nmodel: # another\n    n:   300\n...\n",
        "%YAML 1.2\n---\nmodel: {n: 300}\n",
        "\"model\": {'n': 300}\ntrain:\n",
        "model: {n: 300} #\ttab in a comment",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Config c;
        load_text(&c, texts[i]);
        CHECK_INT(c.model.n, 300);
        config_free(&c);
    }
}

static void test_full_attention_ignores_k(void) {
    Config c;
    load_text(&c, "model: {attention: full, n: 64, k: [100, 200], layers: 4}\n");
    CHECK(c.model.k[0] == 100 && c.model.k[3] == 200 && c.model.k[4] == 0);
    CHECK_STR_CONTAINS(c.notes, "a.yaml:1:33: model.k has no effect with model.attention = full\n");
    fixture_check_round_trip(&c);
    config_free(&c);
}

/* ---- help ---- */

static void test_help(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    REQUIRE(out != NULL);
    config_write_help(out);
    REQUIRE(fclose(out) == 0);
    const char *path;
    for (size_t i = 0; (path = config_key_path(i)) != NULL; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n  %s: ", path);
        CHECK_STR_CONTAINS(text, line);
    }
    CHECK_STR_CONTAINS(text, "optimizer.lr: a number, 0 < x <= 100; default 1e-4\n");
    size_t longest = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n");
        if (length > longest) longest = length;
    }
    CHECK_MSG(longest <= 120, "a line of %zu characters", longest);
    free(text);
}

/* ---- the configs that come with the program ---- */

static void check_shipped(const char *folder, size_t wanted, bool is_task) {
    DIR *entries = opendir(folder);
    REQUIRE(entries != NULL);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (!strstr(entry->d_name, ".yaml")) continue;
        char path[300];
        Config c;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        fixture_load(&c, path, NULL, 0);
        bool evaluates = c.data.valid_globs.count > 0 || c.finetune.holdout > 0;
        CHECK_MSG(c.data.train_globs.count > 0 && evaluates, "%s names no text", path);
        CHECK_MSG((c.finetune.task != TASK_NONE) == is_task, "%s", path);
        CHECK_MSG(c.notes == NULL, "%s", c.notes);
        fixture_check_round_trip(&c);
        config_free(&c);
        count++;
    }
    closedir(entries);
    CHECK_MSG(count >= wanted, "%s: found %zu configs", folder, count);
}

static void test_shipped_configs(void) {
    check_shipped("configs/pretrain", 10, false);
    check_shipped("configs/finetune", 9, true);
}

const Test tests_config[] = {
    {"every_key", test_every_key, 0},
    {"members", test_members, 0},
    {"defaults", test_defaults, 0},
    {"micro_batch", test_micro_batch, 0},
    {"finetune_words", test_finetune_words, 0},
    {"given", test_given, 0},
    {"model_of_checkpoint", test_model_of_checkpoint, 0},
    {"command", test_command, 0},
    {"numbers", test_numbers, 0},
    {"decimal_comma", test_decimal_comma, 0},
    {"sharing_names", test_sharing_names, 0},
    {"text_forms", test_text_forms, 0},
    {"full_attention_ignores_k", test_full_attention_ignores_k, 0},
    {"help", test_help, 0},
    {"shipped_configs", test_shipped_configs, 0},
    {0},
};
