/* Bad configs: each gives one message with its place, code ERR_CONFIG, in far less than a second.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config.h"
#include "config_fixture.h"
#include "harness.h"

static const char HOSTILE[] = "tests/hostile/config/";

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Loads, and checks that it fails with "<where>: ...<fragment>..." (where NULL: anywhere). */
static void check_refused(const char *path, const char *const *overrides, size_t override_count,
                          const char *where, const char *fragment) {
    Config config;
    Err err = {0};
    double begin = seconds_now();
    bool loaded = config_load(&config, path, overrides, override_count, &err);
    double spent = seconds_now() - begin;
    CHECK_MSG(!loaded, "accepted: %s (wanted %s)", path, fragment);
    CHECK_MSG(loaded || config.run_dir == NULL, "a failed load leaves nothing to free");
    if (loaded) {
        config_free(&config);
        return;
    }
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_MSG(spent < 0.5, "%s: %.2f s of processor time", path,
              spent); /* "under a second" with room for a busy machine */
    CHECK_STR_CONTAINS(err.msg, fragment);
    char begins[600];
    snprintf(begins, sizeof begins, "%s: ", where ? where : "");
    if (where && strncmp(err.msg, begins, strlen(begins)) != 0)
        test_fail(__FILE__, __LINE__, "wanted it at %s: %s", where, err.msg);
}

typedef struct BadText {
    const char *text, *place, *fragment;
} BadText;

static void check_texts(const BadText *rows, size_t count) {
    const char *path = test_temp_path("bad.yaml");
    for (size_t i = 0; i < count; i++) {
        char where[600];
        fixture_write(path, rows[i].text, strlen(rows[i].text));
        snprintf(where, sizeof where, "%s%s%s", path, rows[i].place ? ":" : "",
                 rows[i].place ? rows[i].place : "");
        check_refused(path, NULL, 0, where, rows[i].fragment);
    }
}
#define CHECK_TEXTS(rows) check_texts(rows, sizeof rows / sizeof *rows)

static void test_unknown_keys(void) {
    static const BadText rows[] = {
        {"model:\n  n: 512\n  hedas: 4\n", "3:3",
         "unknown key model.hedas: did you mean model.heads?"},
        {"model:\n  atention_dropot: 0\n", "2:3", "did you mean model.attention_dropout?"},
        {"model:\n  batch: 4\n", "2:3",
         "unknown key model.batch: batch belongs to section train (train.batch)"},
        {"train:\n  lr: 1e-3\n", "2:3", "lr belongs to section optimizer (optimizer.lr)"},
        {"train:\n  decay: all\n", "2:3",
         "section optimizer (optimizer.decay), or to section schedule"},
        {"model:\n  run: x\n", "2:3", "run stands outside of the sections"},
        {"model.lr: 1e-3\n", "1:1", "unknown key model.lr"},
        {"lr: 1e-3\n", "1:1", "unknown key lr: lr belongs to section optimizer"},
        {"model:\n  hidden_size: 64\n", "2:3", "the key is called model.width here"},
        {"train:\n  learning-rate: 1\n", "2:3", "the key is called optimizer.lr here"},
        {"model:\n  colour: red\n", "2:3",
         "unknown key model.colour: section model has n, k, sharing"},
        {"colour: red\n", "1:1", "unknown key colour: `linformer help config` lists all keys"},
        {"modle:\n  n: 5\n", "1:1", "unknown section modle: did you mean model?"},
        {"Model:\n  n: 5\n", "1:1", "unknown section Model: did you mean model?"},
        {"model:\n  N: 5\n", "2:3", "did you mean model.n?"},
        {"model.n: 5\n", "1:1", "write it as a section: \"model:\""},
        {"train:\n  precision: bf17\n", "2:3", "bf17: not known: did you mean bf16?"},
        {"model:\n  scope: layer\n", "2:3", "the key is called model.sharing here"},
        {"model:\n  vocab: 100\n", "2:3", "the key is called tokenizer.vocab_size here"},
        {"model:\n  causal: false\n", "2:3", "unknown key model.causal"},
    };
    CHECK_TEXTS(rows);
}

static void test_repeated_keys(void) {
    static const BadText rows[] = {
        {"model:\n  n: 512\n  k: 8\n  n: 256\n", "4:3",
         "model.n is given twice, in line 2 and in line 4"},
        {"model: {n: 512}\ntrain: {batch: 2}\nmodel: {k: 8}\n", "3:1",
         "model is given twice, in line 1 and in line 3"},
        {"run: a\nrun: b\n", "2:1", "run is given twice, in line 1 and in line 2"},
        {"train:\n  steps: 5\n  epochs: 2\n", "3:3",
         "train.epochs = 2: a run has one budget, and train.steps is given too"},
        {"train: {hours: 1, tokens: 5e6}\n", "1:19",
         "a run has one budget, and train.hours is given too"},
        {"model:\n  sharing: {scope: head, scope: layer, tie_kv: true}\n", "2:26",
         "scope is given twice"},
        {"model:\n  sharing: kv\n  sharing: {scope: layer, tie_kv: true}\n", "3:3",
         "model.sharing is given twice"},
    };
    CHECK_TEXTS(rows);
}

static void test_wrong_types(void) {
    static const BadText rows[] = {
        {"model:\n  n: many\n", "2:3", "model.n = many: wanted an integer from 2 to 1048576"},
        {"model:\n  n: 5.5\n", "2:3", "model.n = 5.5: wanted an integer"},
        {"model:\n  n: 5.0\n", "2:3", "model.n = 5.0: wanted an integer"},
        {"model:\n  n: 1.05e1\n", "2:3", "wanted an integer"},
        {"model:\n  n: \"512\"\n", "2:3",
         "model.n = \"512\": quotes make it text: write the bare number"},
        {"model:\n  n: 0512\n", "2:3", "model.n = 0512: leading zeros are refused"},
        {"model:\n  n: 08\n", "2:3", "leading zeros are refused"},
        {"model:\n  dropout: 00.1\n", "2:3", "leading zeros are refused"},
        {"train:\n  tokens: 5_000_000\n", "2:3",
         "train.tokens = 5_000_000: write the number without underscores"},
        {"model:\n  n: 0x200\n", "2:3", "wanted an integer"},
        {"model:\n  n: 0o777\n", "2:3", "wanted an integer"},
        {"model:\n  n: 8:30\n", "2:3", "wanted an integer"},
        {"model:\n  n: 512 tokens\n", "2:3", "wanted an integer"},
        {"model:\n  n: [512]\n", "2:3", "model.n = [512]: wanted an integer"},
        {"model:\n  n: {max: 512}\n", "2:3", "model.n = {max: 512}: wanted an integer"},
        {"model:\n  n:\n  k: 4\n", "2:3", "model.n has no value: wanted an integer"},
        {"model:\n  n: null\n", "2:3", "model.n has no value"},
        {"model:\n  n: ~\n", "2:3", "model.n has no value"},
        {"model: {n: 512,\n\tk: 8}\n", "2:1", "tab at 2:1"},
        {"run: two\n  lines\n", "1:6", "a value of several lines"},
        {"run: 'two\n  lines'\n", "1:6", "a value of several lines"},
        {"model: 5\n", "1:1", "model = 5: wanted a section"},
        {"model: [n, 5]\n", "1:1", "model = [n, 5]: wanted a section"},
        {"run: {a: b}\n", "1:1", "run = {a: b}: wanted a path"},
        {"run: true\n", "1:1", "run = true: wanted a path"},
        {"run: ''\n", "1:1", "an empty path"},
        {"optimizer:\n  lr: 1e-4x\n", "2:3", "optimizer.lr = 1e-4x: wanted a number, 0 < x <= 100"},
        {"optimizer:\n  lr: 1e\n", "2:3", "optimizer.lr = 1e: wanted a number"},
        {"optimizer:\n  lr: 0x1p-3\n", "2:3", "wanted a number"},
        {"optimizer:\n  lr: 1,5\n", "2:3", "wanted a number"},
        {"optimizer:\n  betas: 0.9\n", "2:3", "optimizer.betas = 0.9: wanted a list of two"},
        {"optimizer:\n  betas: [0.9, 0.98, 0.99]\n", "2:3", "wanted a list of two"},
        {"optimizer:\n  betas: [0.9, high]\n", "2:16", "wanted a list of two"},
        {"model:\n  norm: before\n", "2:3", "model.norm = before: not known: one of post, pre"},
        {"model:\n  attention: ful\n", "2:3",
         "model.attention = ful: not known: did you mean full?"},
        {"model:\n  norm: [pre]\n", "2:3", "wanted one of post, pre"},
        {"data:\n  train: {a: b}\n", "2:3", "data.train = {a: b}: wanted a path or glob"},
        {"data:\n  train:\n    - a.txt\n    - [b.txt]\n", "4:7",
         "data.train = [b.txt]: wanted a path or glob"},
        {"data:\n  train:\n    - a.txt\n    -\n", "4:6", "an item of the list has no value"},
    };
    CHECK_TEXTS(rows);
}

static void test_sharing(void) {
    static const BadText rows[] = {
        {"model:\n  sharing: headwize\n", "2:3",
         "model.sharing = headwize: not known: did you mean headwise?"},
        {"model:\n  sharing: everything\n", "2:3",
         "not known: one of none, headwise, kv, layerwise, or {scope"},
        {"model:\n  sharing: [kv]\n", "2:3", "wanted none, headwise, kv or layerwise"},
        {"model:\n  sharing: {scope: head}\n", "2:12", "tie_kv is missing"},
        {"model:\n  sharing: {tie_kv: true}\n", "2:12", "scope is missing"},
        {"model:\n  sharing: {scope: kv, tie_kv: true}\n", "2:13",
         "kv is a shorthand for scope and tie_kv together"},
        {"model:\n  sharing: {scope: row, tie_kv: true}\n", "2:13",
         "scope is one of head, layer, model"},
        {"model:\n  sharing: {scope: head, headwise: true}\n", "2:26",
         "unknown key headwise: it takes scope and tie_kv"},
        {"model:\n  sharing: {scope: head, tie_kv: yes}\n", "2:26",
         "tie_kv is written true or false (not yes, no, on, off)"},
        {"model:\n  sharing: {scope: head, tie_kv: off}\n", "2:26",
         "tie_kv is written true or false"},
        {"model:\n  sharing: {scope: head, tie_kv: True}\n", "2:26",
         "tie_kv is written true or false"},
        {"model:\n  sharing: {scope: head, tie_kv: \"true\"}\n", "2:26",
         "tie_kv is written true or false"},
        {"model:\n  sharing: {scope: head, tie_kv: 1}\n", "2:26",
         "tie_kv is written true or false"},
    };
    CHECK_TEXTS(rows);
}

static void test_ranges(void) {
    static const BadText rows[] = {
        {"model:\n  n: 1\n", "2:3", "model.n = 1: wanted an integer from 2 to 1048576"},
        {"model:\n  n: -512\n", "2:3", "model.n = -512: wanted an integer from 2"},
        {"model:\n  n: 99999999999999999999999999\n", "2:3", "wanted an integer from 2"},
        {"model:\n  n: 1e400\n", "2:3", "model.n = 1e400: wanted an integer"},
        {"model:\n  k: 0\n", "2:3", "model.k = 0: wanted an integer from 1"},
        {"model:\n  k: [8, 0, 8]\n", "2:10", "model.k = 0: wanted an integer from 1"},
        {"model:\n  k: []\n", "2:3", "wanted one integer for each layer, found 0 items"},
        {"model:\n  layers: 129\n", "2:3", "model.layers = 129: wanted an integer from 1 to 128"},
        {"model:\n  dropout: 1\n", "2:3", "model.dropout = 1: wanted a number, 0 <= x < 1"},
        {"model:\n  dropout: -0.1\n", "2:3", "wanted a number, 0 <= x < 1"},
        {"model:\n  attention_dropout: 1\n", "2:3", "wanted a number, 0 <= x < 1"},
        {"model:\n  proj_init_std: 0\n", "2:3", "wanted a number, 0 < x <= 10"},
        {"model:\n  init: identity\n", "2:3",
         "model.init = identity: not known: one of normal, local"},
        {"optimizer:\n  position_lr: -0.1\n", "2:3", "position_lr = -0.1: wanted a number, 0 <= x"},
        {"optimizer:\n  proj_lr: 11\n", "2:3", "proj_lr = 11: wanted a number, 0 <= x <= 10"},
        {"train:\n  mask_rate: 1\n", "2:3", "wanted a number, 0 < x < 1"},
        {"train:\n  epochs: 0\n", "2:3", "wanted a number, 0 < x"},
        {"optimizer:\n  eps: 0\n", "2:3", "wanted a number, 0 < x <= 1"},
        {"optimizer:\n  weight_decay: 1.5\n", "2:3", "wanted a number, 0 <= x <= 1"},
        {"optimizer:\n  momentum: 1\n", "2:3", "wanted a number, 0 <= x < 1"},
        {"optimizer:\n  clip: -1\n", "2:3", "wanted a number, 0 <= x"},
        {"train:\n  recompute: layers\n", "2:3",
         "train.recompute = layers: not known: did you mean layer?"},
        {"train:\n  mask_rate: 0\n", "2:3", "train.mask_rate = 0: wanted a number, 0 < x < 1"},
        {"train:\n  steps: 0\n", "2:3", "train.steps = 0: wanted an integer of at least 1"},
        {"train:\n  hours: 0\n", "2:3", "train.hours = 0: wanted a number, 0 < x"},
        {"train:\n  seed: 9007199254740992\n", "2:3", "train.seed = 9007199254740992: wanted"},
        {"train:\n  log_every: 0\n", "2:3", "train.log_every = 0"},
        {"optimizer:\n  lr: 0\n", "2:3", "optimizer.lr = 0: wanted a number, 0 < x <= 100"},
        {"optimizer:\n  lr: 1e999\n", "2:3", "optimizer.lr = 1e999: wanted a number"},
        {"optimizer:\n  lr: .nan\n", "2:3", "optimizer.lr = .nan: wanted a number"},
        {"optimizer:\n  lr: nan\n", "2:3", "optimizer.lr = nan: wanted a number"},
        {"optimizer:\n  lr: inf\n", "2:3", "optimizer.lr = inf: wanted a number"},
        {"optimizer:\n  betas: [0.9, 1]\n", "2:16",
         "optimizer.betas = 1: wanted a list of two, each a number, 0 <= x < 1"},
        {"schedule:\n  warmup: 1000\n", "2:3",
         "schedule.warmup = 1000: wanted a number, 0 <= x < 1"},
        {"tokenizer:\n  vocab_size: 5\n", "2:3", "tokenizer.vocab_size = 5: wanted"},
    };
    CHECK_TEXTS(rows);
}

static void test_contradictions(void) {
    static const BadText rows[] = {
        {"model:\n  width: 768\n  heads: 7\n", "3:3",
         "model.heads = 7: must divide model.width = 768 ("},
        {"model:\n  heads: 7\n  width: 768\n", "3:3",
         "model.width = 768: must be a multiple of model.heads = 7 ("},
        {"model:\n  width: 100\n", "2:3", "must be a multiple of model.heads = 12 (the default)"},
        {"model:\n  n: 256\n  k: 300\n", "3:3",
         "model.k = 300: the projected length must be at most model.n = 256"},
        {"model:\n  n: 64\n", "2:3",
         "model.n = 64: the sequence length must be at least model.k = 128 (the default)"},
        {"model:\n  layers: 3\n  k: [64, 600, 8]\n", "3:3",
         "model.k = [64, 600, 8]: the projected length must be"},
        {"model:\n  layers: 3\n  k: [64, 32]\n", "3:3",
         "a list of 2, wanted one for each layer, and model.layers = 3"},
        {"model:\n  k: [64, 32]\n  layers: 1\n", "3:3",
         "wanted one k for each layer, found 2 in model.k = [64, 32]"},
        {"train:\n  batch: 8\n  micro_batch: 16\n", "3:3",
         "train.micro_batch = 16: must be at most train.batch = 8"},
        {"model:\n  projection: fixed\n  init: local\n", "3:3",
         "model.init = local: needs model.projection = linear, found model.projection = fixed ("},
        {"model:\n  init: local\n  projection: conv\n", "3:3",
         "model.projection = conv: wanted linear (learned E and F) with model.init = local ("},
        {"model:\n  width: 84\n  init: local\n", "3:3",
         "model.init = local: needs heads of at least 8 elements; width / heads = 84 / 12 = 7, "
         "from model.width = 84 ("},
        {"model:\n  init: local\n  width: 84\n", "3:3",
         "model.width = 84: width / heads = 84 / 12 = 7, wanted heads of at least 8 elements for "
         "model.init = local ("},
        {"model:\n  init: local\n  heads: 128\n", "3:3",
         "model.heads = 128: width / heads = 768 / 128 = 6, wanted heads of at least 8"},
        {"model:\n  attention: full\n  init: local\n  heads: 128\n", "4:3", "768 / 128 = 6"},
    };
    CHECK_TEXTS(rows);
}

static void test_finetune_rules(void) {
    static const BadText rows[] = {
        {"finetune:\n  seeds: 3\n", "2:3", "finetune.seeds is given, but no finetune.task"},
        {"finetune:\n  task: none\n  case: keep\n", "3:3", "finetune.case is given, but no"},
        {"finetune:\n  task: sst3\n", "2:3", "finetune.task = sst3: not known: did you mean sst2?"},
        {"finetune:\n  task: sst2\ndata: {valid: v}\n", "2:3",
         "finetune.init is missing: wanted the path of a pretrained checkpoint, or `none`"},
        {"finetune:\n  task: sst2\n  init: none\n", "2:3", "data.valid is missing"},
        {"finetune:\n  task: sst2\n  init: none\n  holdout: 0.1\ndata: {valid: v}\n", "4:3",
         "finetune.holdout and data.valid are both given"},
        {"finetune:\n  task: sst2\n  init: none\n  holdout: 1\n", "4:3", "0 <= x < 1"},
        {"finetune:\n  task: sst2\n  init: none\n  holdout: 0.1\n  text: a\n", "5:3",
         "finetune.text = a: columns are named for finetune.task = custom only"},
        {"finetune:\n  task: imdb\n  init: none\n  holdout: 0.1\n  label: a\n", "5:3",
         "finetune.label = a: columns are named for"},
        {"finetune:\n  task: qqp\n  init: none\n  holdout: 0.1\n  text_pair: a\n", "5:3",
         "finetune.text_pair = a: columns are named for"},
        {"finetune:\n  task: custom\n  init: none\n  holdout: 0.1\n  label: a\n", "2:3",
         "finetune.text is missing"},
        {"finetune:\n  task: custom\n  init: none\n  holdout: 0.1\n  text: a\n", "2:3",
         "finetune.label is missing"},
        {"finetune:\n  task: custom\n  init: none\n  holdout: 0.1\n  text: a\n  label: a\n", "6:3",
         "finetune.label = a: is finetune.text too"},
        {"finetune:\n  task: custom\n  init: none\n  holdout: 0.1\n  text: a\n  text_pair: a\n"
         "  label: b\n",
         "6:3", "finetune.text_pair = a: is finetune.text too"},
        {"finetune:\n  task: custom\n  init: none\n  holdout: 0.1\n  text: a\n  text_pair: b\n"
         "  label: b\n",
         "7:3", "finetune.label = b: is finetune.text_pair too"},
        {"finetune:\n  text: ''\n", "2:3", "an empty name"},
        {"finetune:\n  text: [a]\n", "2:3", "wanted a name"},
        {"finetune:\n  seeds: 0\n", "2:3", "an integer from 1 to 1000"},
    };
    CHECK_TEXTS(rows);
}

static void test_causal(void) {
    static const BadText rows[] = {
        {"model:\n  n: 512\n  causal: true\n", "3:3", "mixes future positions"},
        {"model:\n  attention: causal\n", "2:3",
         "model.attention = causal: there is no causal mode"},
        {"model:\n  decoder: true\n", "2:3", "mixes future positions"},
        {"causal: true\n", "1:1", "mixes future positions"},
    };
    CHECK_TEXTS(rows);
}

/* Files, because their bytes or their neighbours matter.  place NULL: the message has none. */
static const struct {
    const char *file, *place, *fragment;
} hostile[] = {
    {"empty.yaml", NULL, "the file is empty"},
    {"only_comments.yaml", NULL, "the file is empty"},
    {"nul.yaml", "2:7", "NUL byte"},
    {"latin1.yaml", "1:14", "byte 0xe9 is not UTF-8"},
    {"utf16.yaml", "1:1", "byte 0xff is not UTF-8"},
    {"overlong_utf8.yaml", "1:8", "byte 0xc0 is not UTF-8"},
    {"surrogate_utf8.yaml", "1:8", "byte 0xed is not UTF-8"},
    {"cut_utf8.yaml", "1:7", "byte 0xe2 is not UTF-8"},
    {"control_character.yaml", "2:19", "character U+0007"},
    {"line_separator.yaml", "1:8", "character U+2028"},
    {"tab_indent.yaml", "3:1", "tab at 3:1"},
    {"tab_after_spaces.yaml", "3:3", "tab at 3:3"},
    {"tab_after_dash.yaml", "4:4", "tab at 4:4"},
    {"anchor.yaml", "2:6", "anchors (&name) are refused"},
    {"alias.yaml", "1:20", "aliases (*name) are refused"},
    {"alias_bomb.yaml", "1:4", "anchors (&name) are refused"},
    {"merge_key.yaml", "2:3", "merge keys (<<) are refused"},
    {"tag.yaml", "2:6", "tags (!name) are refused"},
    {"two_documents.yaml", "3:1", "a second document"},
    {"deep_flow.yaml", "1:15", "nested more than 8 deep"},
    {"deep_block.yaml", "9:9", "nested more than 8 deep"},
    {"list_root.yaml", "1:1", "found a list"},
    {"text_root.yaml", "2:1", "found plain text"},
    {"no_colon.yaml", "2:3", "a value of several lines: is a colon"},
    {"no_space.yaml", "1:1", "model = n:512: wanted a section"},
    {"unclosed_quote.yaml", "1:6", "the quote is not closed"},
    {"unclosed_list.yaml", "2:12", "a value of several lines: is a colon, a comma, a bracket"},
    {"two_colons.yaml", "2:12", "a second \": \" in a value"},
    {"bad_indent.yaml", "3:2", "keys of one section start in the same column"},
    {"reserved_character.yaml", "1:6", "put the value in quotes"},
    {"complex_key.yaml", "1:3", "a key must be a word"},
    {"empty_key.yaml", "2:3", "the line does not fit here"},
    {"long_value.yaml", "1:6", "a value of 5000 bytes"},
    {"long_key.yaml", "2:3", "unknown key model.kkkk"},
    {"escaped_nul.yaml", "1:6", "control character"},
    {"multi_line_value.yaml", "2:10", "a value of several lines"},
    {"many_globs.yaml", "2:3", "a list of 2001: at most 1024"},
    {"extends_self.yaml", "2:1", "extends itself"},
    {"extends_cycle_a.yaml", NULL, "extends_cycle_b.yaml:2:1: extends: a cycle"},
    {"extends_cycle_b.yaml", NULL, "extends_cycle_a.yaml:1:1: extends: a cycle"},
    {"extends_missing.yaml", "2:1", "no_such_file.yaml: cannot open"},
    {"extends_folder.yaml", "1:1", "is a directory"},
    {"extends_twice.yaml", "2:1", "extends is given twice, in line 1 and in line 2"},
    {"extends_list.yaml", "1:1", "wanted the path of one file"},
    {"extends_bad.yaml", NULL, "tag.yaml:2:6: tags"},
};

static void test_hostile_files(void) {
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        char path[300], where[400];
        snprintf(path, sizeof path, "%s%s", HOSTILE, hostile[i].file);
        snprintf(where, sizeof where, "%s%s%s", path, hostile[i].place ? ":" : "",
                 hostile[i].place ? hostile[i].place : "");
        bool in_base = !hostile[i].place && strstr(hostile[i].fragment, ".yaml:");
        check_refused(path, NULL, 0, in_base ? NULL : where, hostile[i].fragment);
    }
}

/* A file that fuzzing found and nobody listed above is at least refused or accepted in good order.
 */
static void test_hostile_folder_is_listed(void) {
    DIR *folder = opendir(HOSTILE);
    REQUIRE(folder != NULL);
    size_t found = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        found++;
        size_t i = 0;
        while (i < sizeof hostile / sizeof *hostile && strcmp(hostile[i].file, entry->d_name) != 0)
            i++;
        CHECK_MSG(i < sizeof hostile / sizeof *hostile, "%s is in no row", entry->d_name);
    }
    closedir(folder);
    CHECK_INT(found, sizeof hostile / sizeof *hostile);
}

/* Files that would be a waste of space in the repository. */
static void test_large(void) {
    size_t size = 2 << 20;
    char *text = malloc(size), where[600];
    const char *path = test_temp_path("large.yaml");
    REQUIRE(text != NULL);
    memset(text, '#', size);
    fixture_write(path, text, size);
    check_refused(path, NULL, 0, path, "");
    size_t used = (size_t)snprintf(text, size, "data:\n  train: [");
    while (used < 1000000) used += (size_t)snprintf(text + used, size - used, "a, ");
    fixture_write(path, text, used);
    snprintf(where, sizeof where, "%s:2:%d", path, 11 + 3 * 9995);
    check_refused(path, NULL, 0, where, "more than 10000 values");
    used = (size_t)snprintf(text, size, "model:\n");
    for (int i = 0; used < 1000000; i++)
        used += (size_t)snprintf(text + used, size - used, "  n%d: 1\n", i);
    fixture_write(path, text, used);
    check_refused(path, NULL, 0, NULL, "more than 10000 values");
    memset(text, '[', 1000000);
    fixture_write(path, text, 1000000);
    check_refused(path, NULL, 0, NULL, "nested more than 8 deep");
    memset(text, '&', 1000000);
    fixture_write(path, text, 1000000);
    check_refused(path, NULL, 0, NULL, "");
    free(text);
}

static void test_not_a_file(void) {
    check_refused(test_temp_path("missing.yaml"), NULL, 0, test_temp_path("missing.yaml"),
                  "No such file");
    check_refused(test_temp_dir(), NULL, 0, test_temp_dir(), "is a directory");
    check_refused("/dev/zero", NULL, 0, "/dev/zero", "wanted a regular file");
    check_refused("", NULL, 0, NULL, "cannot open");
}

/* The path is a name too: an underived run folder must be writable as YAML. */
static void test_unprintable_name(void) {
    const char *path = test_temp_path("bad\nname.yaml");
    fixture_write(path, "model: {n: 256}\n", 16);
    check_refused(path, NULL, 0, NULL, "run = runs/bad?name: the path is longer than");
    const char *named[] = {"run=runs/x"}; /* derived paths hold the name as well */
    check_refused(path, named, 1, NULL, "tokenizer.model = ");
}

static void test_long_chain(void) {
    const char *path = NULL;
    for (int i = 0; i <= 17; i++) {
        char name[32], text[64];
        snprintf(name, sizeof name, "chain%d.yaml", i);
        snprintf(text, sizeof text, i ? "extends: chain%d.yaml\n" : "model: {n: 256}\n", i - 1);
        path = test_temp_path(name);
        fixture_write(path, text, strlen(text));
    }
    check_refused(path, NULL, 0, NULL, "chain2.yaml:1:1: extends: a chain of more than 16 files");
}

static void test_overrides(void) {
    static const struct {
        const char *text[2], *fragment;
    } rows[] = {
        {{"model.n"}, "override 'model.n': wanted section.key=value"},
        {{"=5"}, "wanted section.key=value"},
        {{""}, "wanted section.key=value"},
        {{"model.n="}, "override 'model.n=': model.n has no value"},
        {{"model.n=x"}, "override 'model.n=x': model.n = x: wanted an integer"},
        {{"model.k=600"},
         "override 'model.k=600': model.k = 600: the projected length must be at most model.n = "
         "256 ("},
        {{"n=5"}, "override 'n=5': unknown key n: n belongs to section model (model.n)"},
        {{"model.hedas=5"}, "did you mean model.heads?"},
        {{"modle.heads=5"}, "unknown key modle.heads"},
        {{"model={n: 5}"}, "set one key of the section at a time: model.key=value"},
        {{"model.sharing.scope=head"}, "set the whole: 'model.sharing={scope"},
        {{"extends=a.yaml"}, "extends stands in files only"},
        {{"model.causal=true"}, "mixes future positions"},
        {{"model.k=[1, 2"}, "override 'model.k=[1, 2': the list is not closed"},
        {{"data.train=*.txt"}, "a glob that starts with * needs quotes"},
        {{"run=a\nb"}, "override 'run=a?b'"},
        {{"run=\xff"}, "override 'run=?': byte 0xff is not UTF-8"},
        {{"model.heads=5"}, "(the default)"},
    };
    const char *path = test_temp_path("good.yaml");
    fixture_write(path, "model:\n  n: 256\n", 16);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(path, rows[i].text, rows[i].text[1] ? 2 : 1, NULL, rows[i].fragment);
}

const Test tests_config_bad[] = {
    {"unknown_keys", test_unknown_keys, 0},
    {"repeated_keys", test_repeated_keys, 0},
    {"wrong_types", test_wrong_types, 0},
    {"sharing", test_sharing, 0},
    {"ranges", test_ranges, 0},
    {"contradictions", test_contradictions, 0},
    {"finetune_rules", test_finetune_rules, 0},
    {"causal", test_causal, 0},
    {"hostile_files", test_hostile_files, 0},
    {"hostile_folder_is_listed", test_hostile_folder_is_listed, 0},
    {"large", test_large, 0},
    {"not_a_file", test_not_a_file, 0},
    {"unprintable_name", test_unprintable_name, 0},
    {"long_chain", test_long_chain, 0},
    {"overrides", test_overrides, 0},
    {0},
};
