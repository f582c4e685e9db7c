#include "inspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "cli.h"
#include "loaded_model.h"
#include "prepare.h"
#include "token_file.h"
#include "tokenizer.h"

static void add_count(cJSON *object, const char *name, uint64_t count) {
    cJSON_AddNumberToObject(object, name, (double)count);
}

static void add_hash(cJSON *object, const char *name, uint64_t hash) {
    cJSON_AddStringToObject(object, name, show_hash(hash));
}

/* JSON has no infinity: a loss that was never measured is null. */
static void add_finite(cJSON *object, const char *name, double value) {
    if (isfinite(value))
        cJSON_AddNumberToObject(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

/* ---- checkpoints */

static void add_state(cJSON *object, const Checkpoint *c) {
    add_count(object, "step", c->state.step);
    add_count(object, "samples", c->state.sample);
    add_count(object, "tokens_seen", c->state.tokens);
    cJSON_AddNumberToObject(object, "epoch",
                            c->state.dataset_sequences
                                ? (double)c->state.sample / (double)c->state.dataset_sequences
                                : 0);
    add_finite(object, "best_valid_loss", c->state.best_valid_loss);
    add_count(object, "best_step", c->state.best_step);
    add_hash(object, "data_hash", c->state.data_hash);
}

static void add_statistics(cJSON *item, const real *values, size_t count) {
    double sum = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        double v = (double)values[i];
        sum += v;
        if (fabs(v) > largest || isnan(v)) largest = fabs(v);
    }
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    add_finite(item, "mean", mean);
    add_finite(item, "std", sqrt(squares / (double)count));
    add_finite(item, "largest", largest);
}

static void add_labels(cJSON *object, const LabelSet *labels) {
    if (labels->count == 0) return;
    cJSON *list = cJSON_AddArrayToObject(object, "labels");
    for (size_t i = 0; i < labels->count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(labels->names[i]));
}

/* weights NULL: no statistics. */
static void add_tensors(cJSON *object, const Checkpoint *c, const real *weights) {
    cJSON *list = cJSON_AddArrayToObject(object, "tensors");
    for (size_t i = 0; i < c->entry_count; i++) {
        const CheckpointEntry *e = &c->entries[i];
        cJSON *item = cJSON_CreateObject(), *shape;
        cJSON_AddItemToArray(list, item);
        cJSON_AddStringToObject(item, "name", e->name);
        shape = cJSON_AddArrayToObject(item, "shape");
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)e->rows));
        if (e->cols) cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)e->cols));
        cJSON_AddStringToObject(item, "dtype", e->dtype);
        add_count(item, "bytes", e->bytes);
        add_hash(item, "xxh3", e->checksum);
        const Tensor *tensor = weights ? param_table_find(&c->table, e->name) : NULL;
        if (tensor) add_statistics(item, weights + tensor->offset, tensor->count);
    }
}

static bool add_checkpoint(cJSON *object, const LoadedModel *model, const char *path, bool stats,
                           Err *err) {
    const Checkpoint *c = &model->checkpoint;
    char attention[64], *yaml = config_to_yaml(&c->config);
    if (!yaml) return err_set(err, ERR_FAILED, "%s: out of memory for its configuration", path);
    cJSON_AddStringToObject(object, "file", path);
    cJSON_AddStringToObject(object, "type", "checkpoint");
    cJSON_AddStringToObject(object, "content", c->kind);
    add_labels(object, &c->labels);
    add_state(object, c);
    add_count(object, "parameters", c->table.parameters);
    add_count(object, "projection_matrices", c->table.projections);
    config_describe_attention(attention, sizeof attention, &c->config.model);
    cJSON_AddStringToObject(object, "sharing", attention);
    add_count(object, "vocab", tokenizer_vocab_size(model->tokenizer));
    add_hash(object, "tokenizer_hash", c->tokenizer_hash);
    cJSON_AddStringToObject(object, "normalizer", tokenizer_normalizer(model->tokenizer));
    cJSON_AddStringToObject(object, "config", yaml);
    add_tensors(object, c, stats ? model->params.block : NULL);
    cJSON_AddBoolToObject(object, "checksums_verified", true);
    free(yaml);
    return true;
}

bool inspect_checkpoint(cJSON *object, const char *path, bool stats, Err *err) {
    LoadedModel model; /* reading the weights verifies the whole file */
    if (!loaded_model_open(&model, path, err)) return false;
    bool ok = add_checkpoint(object, &model, path, stats, err);
    loaded_model_close(&model);
    return ok;
}

/* ---- data */

bool inspect_tokens(cJSON *object, const char *path, Err *err) {
    TokenFile file;
    if (!token_file_open(&file, path, err)) return false;
    bool ok = token_file_verify(&file, err);
    if (ok) {
        cJSON_AddStringToObject(object, "file", path);
        cJSON_AddStringToObject(object, "type", "token shard");
        add_count(object, "tokens", file.count);
        add_count(object, "lines", file.lines);
        add_count(object, "documents", file.documents);
        add_count(object, "vocab", file.vocab);
        add_count(object, "bytes_per_token", file.token_bytes);
        add_hash(object, "tokenizer_hash", file.tokenizer_hash);
        add_hash(object, "payload_hash", file.payload_hash);
        cJSON_AddBoolToObject(object, "checksums_verified", true);
    }
    token_file_close(&file);
    return ok;
}

/* Its shards must be there, whole, and the ones that it was written for. */
static bool add_shards(cJSON *list, const char *part_name, const ManifestPart *part,
                       const Manifest *manifest, Err *err) {
    for (size_t i = 0; i < part->shard_count; i++) {
        const ManifestShard *s = &part->shards[i];
        TokenFile file;
        if (!token_file_open(&file, s->path, err)) return false;
        bool ok = token_file_verify(&file, err);
        if (ok && (file.payload_hash != s->payload_hash ||
                   file.tokenizer_hash != manifest->tokenizer_hash))
            ok = err_set(err, ERR_FAILED,
                         "%s: not the shard that the manifest describes (payload hash %s, wanted "
                         "%s); prepare "
                         "the data again",
                         s->path, show_hash(file.payload_hash), show_hash(s->payload_hash));
        token_file_close(&file);
        if (!ok) return false;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddItemToArray(list, item);
        cJSON_AddStringToObject(item, "part", part_name);
        add_count(item, "tokens", s->totals.tokens);
        add_count(item, "documents", s->totals.documents);
        cJSON_AddStringToObject(item, "text", s->text_path);
    }
    return true;
}

void add_manifest_part(cJSON *object, const char *name, const ManifestPart *part) {
    cJSON *item = cJSON_AddObjectToObject(object, name);
    const char *member;
    uint64_t value;
    for (size_t i = 0; (member = text_totals_member(&value, &part->totals, i)) != NULL; i++)
        add_count(item, member, value);
    cJSON_AddNumberToObject(item, "unigram_entropy", part->unigram_entropy);
    add_count(item, "shards", part->shard_count);
}

bool inspect_manifest(cJSON *object, const char *path, Err *err) {
    Manifest manifest = {0};
    if (!manifest_load_file(&manifest, path, err)) return false;
    cJSON_AddStringToObject(object, "file", path);
    cJSON_AddStringToObject(object, "type", "manifest");
    add_count(object, "vocab", manifest.vocab);
    add_hash(object, "tokenizer_hash", manifest.tokenizer_hash);
    add_hash(object, "data_hash", manifest.data_hash);
    cJSON_AddBoolToObject(object, "complete", manifest.complete);
    cJSON_AddStringToObject(object, "normalizer", manifest.normalizer ? manifest.normalizer : "");
    add_manifest_part(object, "train", &manifest.train);
    add_manifest_part(object, "valid", &manifest.valid);
    cJSON *shards = cJSON_AddArrayToObject(object, "shards");
    bool ok = add_shards(shards, "train", &manifest.train, &manifest, err) &&
              add_shards(shards, "valid", &manifest.valid, &manifest, err);
    if (ok) cJSON_AddBoolToObject(object, "checksums_verified", true);
    manifest_free(&manifest);
    return ok;
}

bool inspect_tokenizer(cJSON *object, const char *path, Err *err) {
    Tokenizer *tokenizer;
    if (!tokenizer_load(&tokenizer, path, err)) return false;
    cJSON_AddStringToObject(object, "file", path);
    cJSON_AddStringToObject(object, "type", "tokenizer");
    add_count(object, "vocab", tokenizer_vocab_size(tokenizer));
    add_hash(object, "hash", tokenizer_hash(tokenizer));
    cJSON_AddStringToObject(object, "normalizer", tokenizer_normalizer(tokenizer));
    cJSON *specials = cJSON_AddObjectToObject(object, "specials");
    for (uint32_t id = 0; id < TOKEN_SPECIALS; id++)
        add_count(specials, tokenizer_piece(tokenizer, id), id);
    tokenizer_destroy(tokenizer);
    return true;
}
