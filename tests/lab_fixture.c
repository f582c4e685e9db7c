#include "lab_fixture.h"

#include <string.h>

#include "data_fixture.h"
#include "harness.h"

static const char YAML[] = "model: {n: 24, k: [6, 5], layers: 2, width: 12, heads: 3, ffn: 20}\n"
                           "train: {steps: 100, batch: 2, seed: 7}\n"
                           "data: {train: nothing.txt}\n"
                           "optimizer: {lr: 3e-4}\n";

void lab_fixture_write(const char *name, const Config *config, const Tokenizer *tokenizer,
                       const LabelSet *labels) {
    ParamTable table;
    Arena arena;
    real *weights = NULL;
    Err err = {0};
    REQUIRE(param_table_create(&table, &config->model, &err));
    REQUIRE(param_blocks_create(&weights, &arena, &table, 1, &err));
    params_init(weights, &table, &config->model, 3);
    for (size_t t = 0; t < table.count; t++) {
        const Tensor *tensor = &table.items[t];
        for (size_t i = 0; tensor->matrix && i < tensor->count; i++)
            weights[tensor->offset + i] *= 15; /* so that texts differ in their predictions */
    }
    const TrainState state = {.step = 1, .best_valid_loss = 5, .dataset_sequences = 9};
    CheckpointContent content = {.kind = labels ? "classifier" : "weights",
                                 .config = config,
                                 .state = &state,
                                 .table = &table,
                                 .weights = weights,
                                 .tokenizer = tokenizer_bytes(tokenizer),
                                 .labels = labels};
    if (!checkpoint_save(test_temp_path(name), &content, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    arena_destroy(&arena);
    param_table_destroy(&table);
}

Tokenizer *lab_fixture_tokenizer(void) {
    Config config;
    Tokenizer *tokenizer;
    data_fixture_config(&config);
    data_fixture_train(&config);
    REQUIRE(tokenizer_load(&tokenizer, config.tokenizer.model, NULL));
    data_fixture_free(&config);
    return tokenizer;
}

void lab_fixture_open(LoadedModel *out, const char *name) {
    Err err = {0};
    if (loaded_model_open(out, test_temp_path(name), &err)) return;
    test_fail(__FILE__, __LINE__, "%s", err.msg);
    test_end();
}

void lab_fixture_save(size_t vocab) {
    Config config;
    Tokenizer *tokenizer = lab_fixture_tokenizer();
    REQUIRE(config_from_yaml(&config, YAML, "fixture", NULL));
    config_set_vocab(&config, vocab ? vocab : tokenizer_vocab_size(tokenizer));
    lab_fixture_write("model.ckpt", &config, tokenizer, NULL);
    config_free(&config);
    tokenizer_destroy(tokenizer);
}

void lab_fixture_model(LoadedModel *out) {
    lab_fixture_save(0);
    lab_fixture_open(out, "model.ckpt");
}
