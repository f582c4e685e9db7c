#include "config_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

void fixture_write(const char *path, const char *text, size_t size) {
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    size_t written = fwrite(text, 1, size, file);
    REQUIRE(fclose(file) == 0 && written == size);
}

void fixture_load(Config *out, const char *path, const char *const *overrides, size_t count) {
    Err err = {0};
    if (config_load(out, path, overrides, count, &err)) return;
    test_fail(__FILE__, __LINE__, "%s", err.msg);
    test_end();
}

void fixture_parse(Config *out, const char *text) {
    Err err = {0};
    if (config_from_yaml(out, text, "text", &err)) return;
    test_fail(__FILE__, __LINE__, "%s\n%s", err.msg, text);
    test_end();
}

/* ---- equality of two configs, member by member and without the module's own printing ---- */

static bool same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_globs(const GlobList *a, const GlobList *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!same_text(a->items[i].pattern, b->items[i].pattern)) return false;
    }
    return true;
}

#define SAME(member) CHECK_MSG(a->member == b->member, #member " differs")

static void check_same(const Config *a, const Config *b) {
    CHECK(same_text(a->run_dir, b->run_dir));
    SAME(model.n);
    for (size_t l = 0; l < CONFIG_MAX_LAYERS; l++) SAME(model.k[l]);
    SAME(model.scope);
    SAME(model.tie_kv);
    SAME(model.projection);
    SAME(model.attention);
    SAME(model.layers);
    SAME(model.width);
    SAME(model.heads);
    SAME(model.ffn);
    SAME(model.dropout);
    SAME(model.attention_dropout);
    SAME(model.init);
    SAME(optimizer.position_lr);
    SAME(optimizer.proj_lr);
    SAME(model.proj_init_std);
    SAME(model.norm);
    SAME(model.head_dropout);
    SAME(model.head_pooling);
    SAME(model.vocab);
    CHECK(same_text(a->tokenizer.model, b->tokenizer.model));
    SAME(tokenizer.type);
    SAME(tokenizer.vocab_size);
    SAME(tokenizer.sample_bytes);
    CHECK(same_globs(&a->data.train_globs, &b->data.train_globs));
    CHECK(same_globs(&a->data.valid_globs, &b->data.valid_globs));
    CHECK(same_text(a->data.tokens, b->data.tokens));
    SAME(train.budget_unit);
    SAME(train.budget);
    SAME(train.batch);
    SAME(train.micro_batch);
    SAME(train.threads);
    SAME(train.seed);
    CHECK(same_text(a->train.init, b->train.init));
    SAME(train.mask_rate);
    SAME(train.short_rate);
    SAME(train.eval_every);
    SAME(train.eval_sequences);
    SAME(train.log_every);
    SAME(optimizer.name);
    SAME(optimizer.lr);
    SAME(optimizer.betas[0]);
    SAME(optimizer.betas[1]);
    SAME(optimizer.eps);
    SAME(optimizer.weight_decay);
    SAME(optimizer.decay);
    SAME(optimizer.momentum);
    SAME(optimizer.clip);
    SAME(schedule.warmup);
    SAME(schedule.decay);
    SAME(checkpoint.every);
    SAME(checkpoint.keep);
    SAME(finetune.task);
    CHECK(same_text(a->finetune.init, b->finetune.init));
    SAME(finetune.seeds);
    SAME(finetune.patience);
    SAME(finetune.holdout);
    SAME(finetune.metric);
    SAME(finetune.truncate);
    SAME(finetune.letters);
    CHECK(same_text(a->finetune.text, b->finetune.text));
    CHECK(same_text(a->finetune.text_pair, b->finetune.text_pair));
    CHECK(same_text(a->finetune.label, b->finetune.label));
}

/* From memory and as a file somewhere else. */
void fixture_check_round_trip(const Config *config) {
    char *yaml = config_to_yaml(config);
    Config again;
    REQUIRE(yaml != NULL);
    fixture_parse(&again, yaml);
    check_same(config, &again);
    char *differences = config_differences(config, &again), *second = config_to_yaml(&again);
    CHECK_STR(differences, "");
    CHECK_STR(second, yaml);
    config_free(&again);
    fixture_write(test_temp_path("resolved.yaml"), yaml, strlen(yaml));
    fixture_load(&again, test_temp_path("resolved.yaml"), NULL, 0);
    check_same(config, &again);
    config_free(&again);
    free(differences);
    free(second);
    free(yaml);
}
