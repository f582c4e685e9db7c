/* The way to YAML and back, on random configs; numbers as text; differences. */
#include <stdio.h>
#include <stdlib.h>

#include "../src/config/numbers.h"
#include "config.h"
#include "config_fixture.h"
#include "harness.h"
#include "rng.h"

/* Every double survives; what is written is a float to YAML 1.1 readers too: an exponent comes
 * after a dot. */
static void test_number_text(void) {
    static const double fixed[] = {0,
                                   1,
                                   0.1,
                                   1e-300,
                                   5e-324,
                                   1.7976931348623157e308,
                                   1e15,
                                   9007199254740991,
                                   123456789012345678,
                                   1e22,
                                   -2.5};
    for (size_t i = 0; i < 20000; i++) {
        double value = 0, again = -1;
        uint64_t bits = rng_u64(test_seed(), i);
        if (i < sizeof fixed / sizeof *fixed)
            value = fixed[i];
        else if (i % 2)
            value = (double)(bits >> 40) / 1000;
        else
            memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        char text[32];
        number_write(text, sizeof text, value);
        const char *e = strchr(text, 'e'), *dot = strchr(text, '.');
        CHECK_MSG(number_read(&again, text, false) == NUMBER_OK && again == value,
                  "%.17g written as %s", value, text);
        CHECK_MSG(!e || (dot && dot < e && (e[1] == '-' || e[1] == '+')), "%s", text);
    }
    char text[32];
    double value = 7;
    CHECK(number_read(&value, "1e999", false) == NUMBER_TOO_LARGE && value == 7);
    number_write(text, sizeof text, 1e-4);
    CHECK_STR(text, "0.0001");
    number_write(text, sizeof text, 1e-6);
    CHECK_STR(text, "1.0e-6");
}

/* ---- random configs ---- */

typedef struct Draws {
    uint64_t key, index;
} Draws;

static uint64_t draw(Draws *d, uint64_t below) {
    return rng_below(d->key, d->index++, below);
}

static double draw_real(Draws *d) {
    return rng_uniform(d->key, d->index++);
}

/* Any text but one that begins with ~/, which a file's reader would take for the home folder. */
static char *draw_path(Draws *d) {
    static const char *const parts[] = {"a",  "/",   "\"", "\\", " ", "\xc3\xa9",     "#",
                                        ": ", "yes", "'",  "[",  "*", "\xe2\x82\xac", "~",
                                        "-",  "1e5"};
    char text[200] = "x";
    size_t count = draw(d, 12);
    if (draw(d, 4) == 0) text[0] = '\0', count++;
    for (size_t i = 0; i < count; i++) strcat(text, parts[draw(d, sizeof parts / sizeof *parts)]);
    if (text[0] == '~') text[0] = 'x';
    return strdup(text);
}

static void draw_globs(GlobList *out, Draws *d) {
    out->count = draw(d, 4);
    out->items = out->count ? calloc(out->count, sizeof *out->items) : NULL;
    for (size_t g = 0; g < out->count; g++) {
        char *path = draw_path(d);
        out->items[g].pattern = malloc(strlen(path) + 2); /* absolute, as loaded ones are */
        sprintf(out->items[g].pattern, "/%s", path);
        free(path);
    }
}

/* Of any task, or none: then all of it is at its defaults. */
static void draw_finetune(Config *out, Draws *d) {
    FinetuneConfig *f = &out->finetune;
    *f = (FinetuneConfig){.task = (TaskKind)draw(d, 6), .seeds = 1};
    if (f->task == TASK_NONE) return;
    f->init = draw(d, 2) ? draw_path(d) : strdup("none");
    f->seeds = 1 + draw(d, 1000);
    f->patience = draw(d, 1000);
    f->metric = (ClassMetric)draw(d, 3);
    f->truncate = (Truncate)draw(d, 3);
    f->letters = (LetterCase)draw(d, 2);
    if (out->data.valid_globs.count == 0) f->holdout = 1e-9 + 0.9 * draw_real(d);
    if (f->task != TASK_CUSTOM) return;
    f->label = draw_path(d);
    f->text = malloc(strlen(f->label) + 3); /* another name */
    sprintf(f->text, "%s x", f->label);
    if (draw(d, 2)) {
        f->text_pair = malloc(strlen(f->label) + 3);
        sprintf(f->text_pair, "%s y", f->label);
    }
}

static void draw_config(Config *out, Draws *d) {
    memset(out, 0, sizeof *out);
    out->run_dir = draw_path(d);
    ModelConfig *m = &out->model;
    m->n = 2 + draw(d, 1000);
    m->layers = 1 + draw(d, CONFIG_MAX_LAYERS);
    bool uniform = draw(d, 2);
    for (size_t l = 0; l < m->layers; l++) m->k[l] = l && uniform ? m->k[0] : 1 + draw(d, m->n);
    m->scope = (Scope)draw(d, 3);
    m->tie_kv = draw(d, 2);
    m->projection = (Projection)draw(d, 5);
    m->attention = (AttentionKind)draw(d, 2);
    m->heads = 1 + draw(d, 20);
    m->width = m->heads * (1 + draw(d, 60));
    m->ffn = 1 + draw(d, 5000);
    m->dropout = draw_real(d);
    m->attention_dropout = draw_real(d);
    bool linear = m->attention == ATTENTION_FULL || m->projection == PROJECTION_LINEAR;
    bool can_be_local = linear && m->width / m->heads >= LOCAL_INIT_MIN_HEAD;
    m->init = can_be_local ? (InitScheme)draw(d, 2) : INIT_SCHEME_NORMAL;
    m->proj_init_std = 1e-9 + draw_real(d);
    m->norm = (NormPlace)draw(d, 2);
    m->head_dropout = draw_real(d);
    m->head_pooling = (HeadPooling)draw(d, 2);
    config_set_vocab(out, 6 + draw(d, 900000));
    out->tokenizer.model = draw_path(d);
    out->tokenizer.type = (TokenizerType)draw(d, 2);
    out->tokenizer.sample_bytes = 10000 + draw(d, 1ull << 50);
    draw_globs(&out->data.train_globs, d);
    draw_globs(&out->data.valid_globs, d);
    out->data.tokens = draw_path(d);
    TrainConfig *t = &out->train;
    t->budget_unit = (BudgetUnit)draw(d, 4);
    bool whole = t->budget_unit == BUDGET_STEPS || t->budget_unit == BUDGET_TOKENS;
    t->budget =
        whole ? (double)(1 + draw(d, 1ull << 53) % 9007199254740991) : 1e-9 + 1e5 * draw_real(d);
    t->batch = 1 + draw(d, 5000);
    t->micro_batch = draw(d, t->batch + 1);
    m->recompute = (Recompute)draw(d, 3);
    m->precision = (Precision)draw(d, 3);
    t->memory = draw(d, 2) ? draw(d, 1ull << 53) : draw(d, 1ull << 20) << draw(d, 30);
    t->threads = draw(d, 100);
    t->seed = draw(d, 1ull << 53);
    t->mask_rate = 1e-9 + 0.9 * draw_real(d);
    t->short_rate = draw_real(d);
    t->eval_every = draw(d, 3);
    t->eval_sequences = draw(d, 1ull << 40);
    t->log_every = 1 + draw(d, 3);
    OptimizerConfig *o = &out->optimizer;
    o->name = (OptimizerName)draw(d, 2);
    o->lr = 1e-12 + draw_real(d) / 1000;
    o->position_lr = 10 * draw_real(d);
    o->proj_lr = 10 * draw_real(d);
    o->betas[0] = draw_real(d);
    o->betas[1] = draw_real(d);
    o->eps = 1e-12 + draw_real(d) * 1e-6;
    o->weight_decay = draw_real(d);
    o->decay = (DecayTarget)draw(d, 2);
    o->momentum = draw_real(d);
    o->clip = 10 * draw_real(d);
    out->schedule.warmup = draw_real(d);
    out->schedule.decay = (ScheduleDecay)draw(d, 3);
    out->checkpoint.every = draw(d, 1ull << 53);
    out->checkpoint.keep = draw(d, 4);
    draw_finetune(out, d);
}

static void test_random_round_trips(void) {
    for (uint64_t i = 0; i < 100; i++) {
        Config config;
        draw_config(&config, &(Draws){rng_key(test_seed(), RNG_TEST, 1, i), 0});
        fixture_check_round_trip(&config);
        config_free(&config);
    }
}

static void test_attention_is_described(void) {
    static const struct {
        const char *model, *text;
    } rows[] = {
        {"attention: full", "full attention"},
        {"attention: full, projection: conv", "full attention"},
        {"sharing: kv", "kv"},
        {"projection: fixed", "fixed, headwise"},
        {"projection: mean", "mean pooling"},
        {"projection: max, sharing: layerwise", "max pooling"},
        {"projection: conv, sharing: {scope: model, tie_kv: false}",
         "convolution, scope: model, tie_kv: false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char yaml[160], text[64];
        Config c;
        snprintf(yaml, sizeof yaml, "model: {%s}\n", rows[i].model);
        fixture_parse(&c, yaml);
        config_describe_attention(text, sizeof text, &c.model);
        CHECK_STR(text, rows[i].text);
        config_free(&c);
    }
}

static void test_differences(void) {
    Config a, b;
    fixture_parse(&a, "train: {steps: 5}\n");
    fixture_parse(&b, "train: {hours: 2, seed: 9}\nmodel: {k: 64}\n");
    char *differences = config_differences(&a, &b);
    CHECK_STR(differences, "model.k: 128 -> 64\ntrain.steps: 5 -> (none)\ntrain.hours: (none) -> "
                           "2\ntrain.seed: 1 -> 9\n");
    free(differences);
    config_free(&a);
    config_free(&b);
    Config c;
    Err err = {0};
    CHECK(!config_from_yaml(&c, "extends: a.yaml\n", "memory", &err));
    CHECK_STR(err.msg, "memory:1:1: extends stands in files only");
    CHECK(config_key_value(&a, "no.such") == NULL);
}

static void test_short_rate(void) {
    static const char *const bad[] = {"-0.1", "1.01", "true", "0.1.1"};
    Config c;
    Err err = {0};
    char text[64];
    fixture_parse(&c, "train: {short_rate: 1}\n");
    CHECK(c.train.short_rate == 1);
    config_free(&c);
    fixture_parse(&c, "train: {short_rate: 0}\n");
    CHECK(c.train.short_rate == 0 && !c.notes);
    config_free(&c);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "train:\n  short_rate: %s\n", bad[i]);
        CHECK(!config_from_yaml(&c, text, "memory", &err));
        snprintf(text, sizeof text, "train.short_rate = %s: wanted a number", bad[i]);
        CHECK_STR_CONTAINS(err.msg, text);
    }
}

/* The place is that of the line that is indented too far or too little, not of one beside it. */
static void test_indentation(void) {
    static const struct {
        const char *text, *place, *fragment;
    } rows[] = {
        {"model:\n  n 64\n  k: 8\n", "2:3", "a value of several lines: is a colon"},
        {"data:\n  train: [a, b\n  valid: c\n", "2:14", "a value of several lines"},
        {"model:\n  n: 64\n   k: 8\ntrain:\n  steps: 5\n", "3:4", "indented further"},
        {"model:\n  n: 64\n\n  # k\n    k: 8\n", "5:5", "keys of one section start"},
        {"model:\r\n  n: 64\r\n\r\n    k: 8\r\n", "4:5", "indented further"},
        {"run: \xC3\xA9\xC3\xA9\n model:\n  n: 8\n", "2:2", "indented further"},
        {"data:\n  train:\n    - a\n     - b\n", "4:6", "indented further"},
        {"model:\n  n: 64\n k: 8\ntrain:\n  steps: 5\n", "3:2", "the line does not fit here"},
        {"model:\n  n: 64\n train:\n  steps: 5\n", "3:2", "the line does not fit here"},
        {" model:\n  n: 64\ntrain:\n  steps: 5\n", "3:1", "starts further to the right"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config c;
        Err err = {0};
        char place[64];
        CHECK(!config_from_yaml(&c, rows[i].text, "memory", &err));
        snprintf(place, sizeof place, "memory:%s: ", rows[i].place);
        CHECK_STR_CONTAINS(err.msg, place);
        CHECK_STR_CONTAINS(err.msg, rows[i].fragment);
    }
}

const Test tests_config_yaml[] = {
    {"indentation", test_indentation, 0},
    {"short_rate", test_short_rate, 0},
    {"number_text", test_number_text, 0},
    {"random_round_trips", test_random_round_trips, 0},
    {"differences", test_differences, 0},
    {"attention_is_described", test_attention_is_described, 0},
    {0},
};
