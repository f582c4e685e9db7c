#include "class_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_fixture.h"
#include "harness.h"
#include "lab_fixture.h"
#include "rng.h"

static const char YAML[] = "model: {n: 24, k: [6, 5], layers: 2, width: 12, heads: 3, ffn: 20}\n"
                           "train: {steps: 100, batch: 5, micro_batch: 3, seed: 7}\n"
                           "data: {train: nothing.tsv}\n"
                           "optimizer: {lr: 3e-4}\n"
                           "finetune: {init: none, holdout: 0.5, %s}\n";

void class_fixture_model(LoadedModel *out, const char *finetune, const char *const *labels) {
    Config config;
    Err err = {0};
    LabelSet set = {.names = (char **)(uintptr_t)labels};
    Tokenizer *tokenizer = lab_fixture_tokenizer();
    while (labels[set.count]) set.count++;
    char yaml[1024];
    snprintf(yaml, sizeof yaml, YAML, finetune);
    CHECK_MSG(config_from_yaml(&config, yaml, "fixture", &err), "%s", err.msg);
    if (err.code) test_end();
    config_set_vocab(&config, tokenizer_vocab_size(tokenizer));
    config.model.classes = set.count;
    lab_fixture_write("class.ckpt", &config, tokenizer, &set);
    config_free(&config);
    tokenizer_destroy(tokenizer);
    lab_fixture_open(out, "class.ckpt");
}

/* Words of a made-up text, `size` bytes of them, on one line. */
static char *words(size_t size, uint64_t key) {
    char *text = data_fixture_text(key, size);
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n') text[i] = ' ';
    text[0] = 'k'; /* never blank */
    return text;
}

void class_fixture_rows(TaskFile *out, size_t count, size_t classes, bool pairs, uint64_t key) {
    *out = (TaskFile){.count = count, .pairs = pairs};
    out->rows = calloc(count, sizeof *out->rows);
    REQUIRE(out->rows);
    for (size_t i = 0; i < count; i++) {
        TaskRow *row = &out->rows[i];
        *row = (TaskRow){.place = "rows", .line = i + 1};
        row->label = (int32_t)rng_below(rng_key(key, RNG_TEST, 0, 0), i, classes);
        for (size_t t = 0; t < (pairs ? 2 : 1); t++) {
            uint64_t own = rng_key(key, RNG_TEST, 1 + t, i);
            row->size[t] = 2 + rng_below(own, 0, 90);
            row->text[t] = words(row->size[t], own);
        }
    }
}

void class_fixture_rows_free(TaskFile *rows) {
    for (size_t i = 0; i < rows->count; i++) {
        free((void *)(uintptr_t)rows->rows[i].text[0]);
        free((void *)(uintptr_t)rows->rows[i].text[1]);
    }
    free(rows->rows);
    *rows = (TaskFile){0};
}
