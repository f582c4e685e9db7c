#include "checkpoint_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static const char YAML[] = "model: {n: 5, k: 3, layers: 1, width: 4, heads: 2, ffn: 6, norm: pre}\n"
                           "train: {steps: 100, batch: 2, seed: 7}\n"
                           "data: {train: nothing.txt}\n"
                           "optimizer: {lr: 3e-4}\n";
static const char YAML_TASK[] = "finetune: {task: sst2, init: none, holdout: 0.1}\n";

static const char TOKENIZER[] = "stands for a sentencepiece model";

real checkpoint_fixture_value(size_t block, size_t offset) {
    return (real)(offset % 97) / 8 - (real)block;
}

static real *filled_block(const ParamTable *table, size_t block) {
    real *x = aligned_alloc(64, (table->block_reals * sizeof *x + 63) / 64 * 64);
    REQUIRE(x);
    memset(x, 0, table->block_reals * sizeof *x);
    for (size_t t = 0; t < table->count; t++) {
        const Tensor *tensor = &table->items[t];
        for (size_t i = 0; i < tensor->count; i++)
            x[tensor->offset + i] = checkpoint_fixture_value(block, tensor->offset + i);
    }
    return x;
}

static void create(CheckpointFixture *out, const LabelSet *labels) {
    Err err = {0};
    *out = (CheckpointFixture){0};
    char yaml[sizeof YAML + sizeof YAML_TASK];
    snprintf(yaml, sizeof yaml, "%s%s", YAML, labels->count ? YAML_TASK : "");
    REQUIRE(label_set_copy(&out->labels, labels, &err));
    if (!config_from_yaml(&out->config, yaml, "fixture", &err) ||
        (out->config.model.vocab = 6, out->config.model.classes = labels->count,
         !param_table_create(&out->table, &out->config.model, &err))) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    out->weights = filled_block(&out->table, 0);
    out->adam_m = filled_block(&out->table, 1);
    out->adam_v = filled_block(&out->table, 2);
    out->state = (TrainState){.step = 42,
                              .sample = 84,
                              .tokens = 400,
                              .elapsed_s = 12.5,
                              .best_valid_loss = 0.1 + 0.2,
                              .best_step = 40,
                              .window_loss = 1.0 / 3,
                              .window_masked = 9,
                              .data_hash = 0xfedcba9876543210u,
                              .dataset_sequences = 50};
}

void checkpoint_fixture_create(CheckpointFixture *out) {
    const LabelSet none = {0};
    create(out, &none);
}

void checkpoint_fixture_create_classifier(CheckpointFixture *out) {
    /* what JSON must escape, and letters beyond ASCII */
    char *names[] = {"no", "\"yes\"\n\\", "\xE5\x8F\xAF"};
    const LabelSet labels = {names, 3};
    create(out, &labels);
}

void checkpoint_fixture_destroy(CheckpointFixture *f) {
    label_set_free(&f->labels);
    config_free(&f->config);
    param_table_destroy(&f->table);
    free(f->weights);
    free(f->adam_m);
    free(f->adam_v);
}

CheckpointContent checkpoint_fixture_content(const CheckpointFixture *f, const char *kind) {
    bool moments = !strcmp(kind, "pretrain");
    return (CheckpointContent){
        .kind = kind,
        .config = &f->config,
        .state = &f->state,
        .table = &f->table,
        .weights = f->weights,
        .adam_m = moments ? f->adam_m : NULL,
        .adam_v = moments ? f->adam_v : NULL,
        .labels = f->labels.count ? &f->labels : NULL,
        .tokenizer = {(unsigned char *)(uintptr_t)TOKENIZER, sizeof TOKENIZER - 1}};
}

Bytes checkpoint_fixture_file(const char *kind) {
    Err err = {0};
    Bytes bytes = {0};
    CheckpointFixture fixture;
    if (!strcmp(kind, "classifier"))
        checkpoint_fixture_create_classifier(&fixture);
    else
        checkpoint_fixture_create(&fixture);
    CheckpointContent content = checkpoint_fixture_content(&fixture, kind);
    const char *path = test_temp_path("fixture.ckpt");
    if (!checkpoint_save(path, &content, &err) || !io_read_file(&bytes, path, 1 << 24, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    checkpoint_fixture_destroy(&fixture);
    return bytes;
}

size_t checkpoint_data_start(const Bytes *file) {
    return ((size_t)(32 + io_get_u64(file->data + 24)) + 63) / 64 * 64;
}

Bytes checkpoint_forge(const Bytes *file, const char *find, const char *replace) {
    size_t length = (size_t)io_get_u64(file->data + 24), start = checkpoint_data_start(file);
    char *json = malloc(length + 1);
    REQUIRE(json);
    memcpy(json, file->data + 32, length);
    json[length] = 0;
    char *at = strstr(json, find);
    if (!at) {
        test_fail(__FILE__, __LINE__, "no %s in the header", find);
        test_end();
    }
    size_t before = (size_t)(at - json), after = length - before - strlen(find);
    size_t new_length = before + strlen(replace) + after,
           new_start = (32 + new_length + 63) / 64 * 64;
    Bytes out = {calloc(1, new_start + file->size - start + 1), new_start + file->size - start};
    REQUIRE(out.data);
    memcpy(out.data, file->data, 32);
    memcpy(out.data + 32, json, before);
    memcpy(out.data + 32 + before, replace, strlen(replace));
    memcpy(out.data + 32 + before + strlen(replace), at + strlen(find), after);
    memcpy(out.data + new_start, file->data + start, file->size - start);
    io_put_u64(out.data + 24, new_length);
    io_put_u64(out.data + 16, io_hash(out.data + 24, 8 + new_length));
    free(json);
    return out;
}

bool checkpoint_accepts(const unsigned char *data, size_t size, Err *err) {
    Checkpoint c;
    *err = (Err){0};
    bool ok = checkpoint_open_bytes(&c, data, size, "test.ckpt", err);
    if (ok) ok = checkpoint_verify(&c, err);
    checkpoint_close(&c);
    return ok;
}

void checkpoint_check_refused(const char *name, const unsigned char *data, size_t size,
                              const char *message) {
    Err err;
    const char *dir = getenv("HOSTILE_DIR");
    if (dir && *dir) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s.ckpt", dir, name);
        CHECK(io_write_file(path, data, size, &err));
    }
    CHECK_MSG(!checkpoint_accepts(data, size, &err), "%s: accepted", name);
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_MSG(strstr(err.msg, message) != NULL, "%s: \"%s\", wanted it to contain \"%s\"", name,
              err.msg, message);
    CHECK_STR_CONTAINS(err.msg, "test.ckpt: ");
}

void checkpoint_check_forgeries(const char *kind, const CheckpointForgery *forgeries,
                                size_t count) {
    Bytes file = checkpoint_fixture_file(kind);
    for (size_t i = 0; i < count; i++) {
        Bytes forged = checkpoint_forge(&file, forgeries[i].find, forgeries[i].replace);
        checkpoint_check_refused(forgeries[i].name, forged.data, forged.size, forgeries[i].message);
        io_bytes_free(&forged);
    }
    io_bytes_free(&file);
}

void checkpoint_check_flips(const char *kind, size_t stride) {
    Err err;
    Bytes file = checkpoint_fixture_file(kind);
    size_t start = checkpoint_data_start(&file);
    REQUIRE(checkpoint_accepts(file.data, file.size, &err));
    for (size_t i = 0; i < file.size; i++) {
        if (i >= start && i % stride != 0 && i + 64 <= file.size) continue;
        file.data[i] ^= 1;
        CHECK_MSG(!checkpoint_accepts(file.data, file.size, &err),
                  "byte %zu of %zu: flip not noticed", i, file.size);
        file.data[i] ^= 1;
    }
    io_bytes_free(&file);
}

void checkpoint_check_cuts(const char *kind) {
    Err err;
    Bytes file = checkpoint_fixture_file(kind);
    for (size_t size = 0; size < file.size; size++) {
        unsigned char *cut = malloc(size ? size : 1);
        REQUIRE(cut);
        memcpy(cut, file.data, size);
        CHECK_MSG(!checkpoint_accepts(cut, size, &err), "accepted when cut to %zu of %zu bytes",
                  size, file.size);
        CHECK_MSG(strstr(err.msg, "cut off") != NULL, "cut to %zu bytes: %s", size, err.msg);
        CHECK_INT(err.code, ERR_FAILED);
        free(cut);
    }
    io_bytes_free(&file);
}
