#include "class_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_fixture.h"
#include "harness.h"
#include "rng.h"

static const char YAML[] = "model: {n: 24, k: [6, 5], layers: 2, width: 12, heads: 3, ffn: 20}\n"
                           "train: {steps: 100, batch: 5, micro_batch: 3, seed: 7}\n"
                           "data: {train: nothing.tsv}\n"
                           "optimizer: {lr: 3e-4}\n"
                           "finetune: {init: none, holdout: 0.5, %s}\n";

static void save(const char *path, const Tokenizer *tokenizer, const char *finetune,
                 const char *const *names) {
    Config config;
    ParamTable table;
    Arena arena, counting = {0};
    Err err = {0};
    LabelSet labels = {.names = (char **)(uintptr_t)names};
    while (names[labels.count]) labels.count++;
    char yaml[1024];
    snprintf(yaml, sizeof yaml, YAML, finetune);
    CHECK_MSG(config_from_yaml(&config, yaml, "fixture", &err), "%s", err.msg);
    if (err.code) test_end();
    config_set_vocab(&config, tokenizer_vocab_size(tokenizer));
    config.model.classes = labels.count;
    REQUIRE(param_table_create(&table, &config.model, &err));
    arena_take(&counting, table.block_reals, sizeof(real));
    REQUIRE(arena_create(&arena, counting.used, &err));
    real *weights = arena_take(&arena, table.block_reals, sizeof(real));
    params_init(weights, &table, &config.model, 3);
    for (size_t t = 0; t < table.count; t++) {
        const Tensor *tensor = &table.items[t];
        for (size_t i = 0; tensor->matrix && i < tensor->count; i++)
            weights[tensor->offset + i] *= 15; /* so that texts differ in their predictions */
    }
    const TrainState state = {.step = 1, .best_valid_loss = 5, .dataset_sequences = 9};
    CheckpointContent content = {.kind = "classifier",
                                 .config = &config,
                                 .state = &state,
                                 .table = &table,
                                 .weights = weights,
                                 .tokenizer = tokenizer_bytes(tokenizer),
                                 .labels = &labels};
    if (!checkpoint_save(path, &content, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    arena_destroy(&arena);
    param_table_destroy(&table);
    config_free(&config);
}

void class_fixture_model(LoadedModel *out, const char *finetune, const char *const *labels) {
    Config config;
    Tokenizer *tokenizer;
    Err err = {0};
    data_fixture_config(&config);
    data_fixture_train(&config);
    REQUIRE(tokenizer_load(&tokenizer, config.tokenizer.model, &err));
    save(test_temp_path("class.ckpt"), tokenizer, finetune, labels);
    tokenizer_destroy(tokenizer);
    data_fixture_free(&config);
    if (!loaded_model_open(out, test_temp_path("class.ckpt"), &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
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
