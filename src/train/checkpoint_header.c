/* The JSON header of a checkpoint, written and parsed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_format.h"
#include "json_fields.h"
#include "optimizer.h"

/* ---- writing */

/* The configuration without the folder of the run: a run that is moved, or repeated elsewhere,
 * writes the same bytes. */
static bool add_config(cJSON *object, const Config *config) {
    static char here[] = ".";
    Config copy = *config;
    copy.run_dir = here;
    char *yaml = config_to_yaml(&copy);
    bool ok = yaml && cJSON_AddStringToObject(object, "config", yaml);
    free(yaml);
    return ok;
}

static bool add_unfinished(cJSON *object, const UnfinishedStep *step) {
    if (!step->is_set) return true;
    cJSON *u = cJSON_AddObjectToObject(object, "unfinished");
    return u && json_add_number(u, "lr", step->lr, JSON_EXACT) &&
           json_add_number(u, "grad_norm", step->grad_norm, JSON_EXACT);
}

static bool add_state(cJSON *object, const Config *config, const TrainState *state) {
    cJSON *s = cJSON_AddObjectToObject(object, "state");
    double elapsed = config->train.budget_unit == BUDGET_HOURS ? state->elapsed_s : 0;
    return s && json_add_count(s, "step", state->step) &&
           json_add_count(s, "sample", state->sample) &&
           json_add_count(s, "tokens", state->tokens) &&
           json_add_number(s, "elapsed_s", elapsed, JSON_EXACT) &&
           json_add_number(s, "best_valid_loss", state->best_valid_loss, JSON_EXACT) &&
           json_add_count(s, "best_step", state->best_step) &&
           json_add_number(s, "window_loss", state->window_loss, JSON_EXACT) &&
           json_add_count(s, "window_masked", state->window_masked) &&
           json_add_hash(s, "data_hash", state->data_hash) &&
           json_add_count(s, "dataset_sequences", state->dataset_sequences) &&
           add_unfinished(s, &state->unfinished);
}

static bool add_entry(cJSON *array, const CheckpointEntry *entry) {
    cJSON *e = cJSON_CreateObject(), *shape = NULL;
    bool ok = e && cJSON_AddStringToObject(e, "name", entry->name) &&
              cJSON_AddStringToObject(e, "dtype", entry->dtype);
    char text[32];
    ok = ok && (shape = cJSON_AddArrayToObject(e, "shape")) != NULL;
    for (int d = 0; ok && d < (entry->cols ? 2 : 1); d++) {
        snprintf(text, sizeof text, "%zu", d ? entry->cols : entry->rows);
        cJSON *extent = cJSON_CreateRaw(text);
        ok = extent && cJSON_AddItemToArray(shape, extent);
    }
    ok = ok && json_add_count(e, "offset", entry->offset) &&
         json_add_count(e, "bytes", entry->bytes) && json_add_hash(e, "xxh3", entry->checksum);
    if (!e || !ok || !cJSON_AddItemToArray(array, e)) {
        cJSON_Delete(e);
        return false;
    }
    return true;
}

static bool add_labels(cJSON *object, const LabelSet *labels) {
    if (!labels) return true;
    cJSON *array = cJSON_AddArrayToObject(object, "labels");
    bool ok = array != NULL;
    for (size_t i = 0; ok && i < labels->count; i++) {
        cJSON *name = cJSON_CreateString(labels->names[i]);
        ok = name && cJSON_AddItemToArray(array, name);
    }
    return ok;
}

char *checkpoint_header_write(const CheckpointContent *content, const CheckpointEntry *entries,
                              size_t count) {
    char *text = NULL;
    cJSON *header = cJSON_CreateObject(), *tensors = NULL;
    bool ok = header && cJSON_AddStringToObject(header, "kind", content->kind) &&
              add_config(header, content->config) &&
              json_add_count(header, "vocab", content->config->model.vocab) &&
              add_labels(header, content->labels) &&
              json_add_hash(header, "tokenizer_hash",
                            io_hash(content->tokenizer.data, content->tokenizer.size)) &&
              add_state(header, content->config, content->state) &&
              (tensors = cJSON_AddArrayToObject(header, "tensors")) != NULL;
    for (size_t i = 0; ok && i < count; i++) ok = add_entry(tensors, &entries[i]);
    if (ok) text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

/* ---- parsing */

/* The object has exactly the named members: none unknown, none missing, none twice. */
static bool has_members(const cJSON *object, const char *what, const char *const *names, Err *err) {
    int wanted = 0;
    if (!cJSON_IsObject(object))
        return err_set(err, ERR_FAILED, "header: %s is not an object", what);
    for (; names[wanted]; wanted++) {
        if (!cJSON_GetObjectItemCaseSensitive(object, names[wanted])) {
            return err_set(err, ERR_FAILED, "header: %s has no member \"%s\"", what, names[wanted]);
        }
    }
    int found = cJSON_GetArraySize(object);
    if (found == wanted) return true;
    return err_set(err, ERR_FAILED,
                   "header: %s has %d members, wanted %d: one is unknown or there twice", what,
                   found, wanted);
}

static const char *get_text(const cJSON *object, const char *name, Err *err) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    if (!text) err_set(err, ERR_FAILED, "header: \"%s\" is not a text", name);
    return text;
}

static bool get_count(uint64_t *out, const cJSON *object, const char *name, Err *err) {
    if (json_take_count(out, cJSON_GetObjectItemCaseSensitive(object, name))) return true;
    return err_set(err, ERR_FAILED,
                   "header: \"%s\" is not a count, wanted a whole number below 2^53", name);
}

static bool get_real(double *out, const cJSON *object, const char *name, Err *err) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) {
        return err_set(err, ERR_FAILED, "header: \"%s\" is not a finite number", name);
    }
    *out = item->valuedouble;
    return true;
}

static bool get_hash(uint64_t *out, const cJSON *object, const char *name, Err *err) {
    if (json_take_hash(out, cJSON_GetObjectItemCaseSensitive(object, name))) return true;
    return err_set(err, ERR_FAILED, "header: \"%s\" is not 16 hexadecimal digits", name);
}

static bool parse_unfinished(UnfinishedStep *out, const cJSON *step, Err *err) {
    static const char *const names[] = {"lr", "grad_norm", NULL};
    out->is_set = true;
    return has_members(step, "unfinished", names, err) && get_real(&out->lr, step, "lr", err) &&
           get_real(&out->grad_norm, step, "grad_norm", err);
}

static bool parse_state(TrainState *out, const cJSON *state, Err *err) {
    const cJSON *unfinished = cJSON_GetObjectItemCaseSensitive(state, "unfinished");
    const char *const names[] = {"step",
                                 "sample",
                                 "tokens",
                                 "elapsed_s",
                                 "best_valid_loss",
                                 "best_step",
                                 "window_loss",
                                 "window_masked",
                                 "data_hash",
                                 "dataset_sequences",
                                 unfinished ? "unfinished" : NULL,
                                 NULL};
    if (!has_members(state, "state", names, err) ||
        (unfinished && !parse_unfinished(&out->unfinished, unfinished, err)))
        return false;
    out->best_valid_loss = INFINITY;
    if (!cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(state, "best_valid_loss")) &&
        !get_real(&out->best_valid_loss, state, "best_valid_loss", err)) {
        return false;
    }
    return get_count(&out->step, state, "step", err) &&
           get_count(&out->sample, state, "sample", err) &&
           get_count(&out->tokens, state, "tokens", err) &&
           get_real(&out->elapsed_s, state, "elapsed_s", err) &&
           get_count(&out->best_step, state, "best_step", err) &&
           get_real(&out->window_loss, state, "window_loss", err) &&
           get_count(&out->window_masked, state, "window_masked", err) &&
           get_hash(&out->data_hash, state, "data_hash", err) &&
           get_count(&out->dataset_sequences, state, "dataset_sequences", err);
}

static bool parse_labels(Checkpoint *out, const cJSON *header, Err *err) {
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(header, "labels"), *item = NULL;
    if (!cJSON_IsArray(array)) return err_set(err, ERR_FAILED, "header: \"labels\" is not a list");
    LabelSet labels = {.count = (size_t)cJSON_GetArraySize(array)};
    if (labels.count <= TASK_MAX_CLASSES) labels.names = calloc(labels.count + 1, sizeof(char *));
    if (!labels.names)
        return err_set(err, ERR_FAILED, "header: %zu labels, wanted 2..%d", labels.count,
                       TASK_MAX_CLASSES);
    size_t i = 0;
    bool ok = true;
    cJSON_ArrayForEach(item, array) {
        labels.names[i] = item->valuestring; /* the header's, until copied */
        if (!cJSON_IsString(item) && ok)
            ok = err_set(err, ERR_FAILED, "header: label %zu is not a text", i);
        i++;
    }
    ok = ok && (label_set_check(&labels, err) || err_context(err, "header")) &&
         label_set_copy(&out->labels, &labels, err);
    free(labels.names);
    return ok;
}

/* What the model code relies on; a config that names a checkpoint to start from is read without
 * these rules, because its sizes are to come from there. */
static bool check_model(const ModelConfig *model, Err *err) {
    if (model->width % model->heads != 0)
        return err_set(err, ERR_FAILED,
                       "config in the header: model.heads = %zu does not divide model.width = %zu",
                       model->heads, model->width);
    if (model->attention == ATTENTION_FULL) return true;
    for (size_t l = 0; l < model->layers; l++)
        if (model->k[l] > model->n)
            return err_set(err, ERR_FAILED,
                           "config in the header: model.k = %zu of layer %zu, wanted at most "
                           "model.n = %zu",
                           model->k[l], l, model->n);
    return true;
}

static bool parse_config(Checkpoint *out, const cJSON *header, Err *err) {
    const char *yaml = get_text(header, "config", err);
    uint64_t vocab = 0;
    if (!yaml || !config_from_yaml(&out->config, yaml, "config in the header", err)) return false;
    if (!get_count(&vocab, header, "vocab", err)) return false;
    if (vocab == 0) return err_set(err, ERR_FAILED, "header: \"vocab\" is 0");
    if (!check_model(&out->config.model, err)) return false;
    out->config.model.vocab = (size_t)vocab;
    out->config.model.classes = out->labels.count;
    return param_table_create(&out->table, &out->config.model, err);
}

/* Number of moment blocks of a kind of checkpoint. */
static bool parse_kind(Checkpoint *out, const cJSON *header, Err *err) {
    const char *kind = get_text(header, "kind", err);
    if (!kind) return false;
    if (!strcmp(kind, "pretrain")) {
        out->moments = optimizer_moments(&out->config.optimizer);
    } else if (strcmp(kind, "weights") != 0 && strcmp(kind, CKPT_CLASSIFIER) != 0) {
        return err_set(err, ERR_FAILED,
                       "header: kind \"%s\", this program knows \"pretrain\", \"weights\" and "
                       "\"classifier\"",
                       kind);
    }
    out->kind = malloc(strlen(kind) + 1);
    if (!out->kind) return err_set(err, ERR_FAILED, "no memory");
    strcpy(out->kind, kind);
    return true;
}

static void format_shape(char *buf, size_t size, uint64_t rows, uint64_t cols) {
    if (cols)
        snprintf(buf, size, "%" PRIu64 " x %" PRIu64, rows, cols);
    else
        snprintf(buf, size, "%" PRIu64, rows);
}

static bool parse_shape(uint64_t *rows, uint64_t *cols, const cJSON *entry) {
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    int dims = cJSON_GetArraySize(shape);
    *cols = 0;
    if (!cJSON_IsArray(shape) || dims < 1 || dims > 2 || !json_take_count(rows, shape->child))
        return false;
    return dims == 1 || (json_take_count(cols, shape->child->next) && *cols > 0);
}

/* One entry of the file's table against what the model asks for; takes over its checksum. */
static bool check_entry(CheckpointEntry *wanted, const cJSON *entry, Err *err) {
    static const char *const names[] = {"name", "dtype", "shape", "offset", "bytes", "xxh3", NULL};
    if (!has_members(entry, "a tensor", names, err)) return false;
    const char *name = get_text(entry, "name", err), *dtype = get_text(entry, "dtype", err);
    if (!name || !dtype) return false;
    if (strcmp(name, wanted->name) != 0) {
        return err_set(err, ERR_FAILED, "tensor \"%.55s\" where the model of its config has \"%s\"",
                       name, wanted->name);
    }
    if (strcmp(dtype, wanted->dtype) != 0) {
        return err_set(
            err, ERR_FAILED, "tensor %s has type %.8s, this build reads %s%s", name, dtype,
            wanted->dtype,
            !strcmp(dtype, "F32") || !strcmp(dtype, "F64") ? ": use the build that wrote it" : "");
    }
    uint64_t rows = 0, cols = 0, offset = 0, bytes = 0;
    if (!parse_shape(&rows, &cols, entry)) {
        return err_set(err, ERR_FAILED, "tensor %s: shape is not a list of one or two counts",
                       name);
    }
    if (rows != wanted->rows || cols != wanted->cols) {
        char found[48], want[48];
        format_shape(found, sizeof found, rows, cols);
        format_shape(want, sizeof want, wanted->rows, wanted->cols);
        return err_set(err, ERR_FAILED, "tensor %s has shape %s, the model of its config wants %s",
                       name, found, want);
    }
    if (!get_count(&offset, entry, "offset", err) || !get_count(&bytes, entry, "bytes", err)) {
        return err_context(err, "tensor %s", name);
    }
    if (offset != wanted->offset || bytes != wanted->bytes) {
        return err_set(err, ERR_FAILED,
                       "tensor %s: %" PRIu64 " bytes at offset %" PRIu64 ", wanted %" PRIu64
                       " at %" PRIu64,
                       name, bytes, offset, wanted->bytes, wanted->offset);
    }
    return get_hash(&wanted->checksum, entry, "xxh3", err) || err_context(err, "tensor %s", name);
}

/* Bytes of the tokenizer as the table's last entry claims them. */
static bool tokenizer_size(size_t *out, const cJSON *tensors, int count, Err *err) {
    uint64_t bytes = 0;
    const cJSON *last = cJSON_GetArrayItem(tensors, count - 1);
    if (!get_count(&bytes, last, "bytes", err)) return err_context(err, "tensor %d", count);
    *out = (size_t)bytes;
    return true;
}

static bool parse_tensors(Checkpoint *out, uint64_t *data_bytes, const cJSON *tensors, Err *err) {
    if (!cJSON_IsArray(tensors))
        return err_set(err, ERR_FAILED, "header: \"tensors\" is not a list");
    int found = cJSON_GetArraySize(tensors);
    size_t wanted = out->table.count * (1 + out->moments) + 1, tokenizer_bytes = 0;
    if (found < 0 || (size_t)found != wanted) {
        return err_set(err, ERR_FAILED, "%d tensors, the model of its config has %zu", found,
                       wanted);
    }
    if (!tokenizer_size(&tokenizer_bytes, tensors, found, err)) return false;
    if (!checkpoint_entries_create(&out->entries, &out->entry_count, data_bytes, &out->table,
                                   out->moments, tokenizer_bytes, err)) {
        return false;
    }
    size_t i = 0;
    for (const cJSON *entry = tensors->child; entry; entry = entry->next) {
        if (!check_entry(&out->entries[i++], entry, err)) return false;
    }
    return true;
}

static bool is_classifier(const cJSON *header) {
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(header, "kind"));
    return kind && !strcmp(kind, CKPT_CLASSIFIER);
}

bool checkpoint_header_parse(Checkpoint *out, uint64_t *data_bytes, const char *json, size_t size,
                             Err *err) {
    static const char *const encoder[] = {"kind",  "config",  "vocab", "tokenizer_hash",
                                          "state", "tensors", NULL};
    static const char *const classifier[] = {"kind",           "config", "vocab",   "labels",
                                             "tokenizer_hash", "state",  "tensors", NULL};
    const char *end = NULL;
    cJSON *header = cJSON_ParseWithLengthOpts(json, size, &end, false);
    bool ok = false, labelled = header && is_classifier(header);
    if (!header || end != json + size) {
        err_set(err, ERR_FAILED, "header: not JSON at byte %zu of %zu",
                end ? (size_t)(end - json) : 0, size);
    } else if (has_members(header, "the header", labelled ? classifier : encoder, err)) {
        ok = (!labelled || parse_labels(out, header, err)) && parse_config(out, header, err) &&
             parse_kind(out, header, err) &&
             get_hash(&out->tokenizer_hash, header, "tokenizer_hash", err) &&
             parse_state(&out->state, cJSON_GetObjectItemCaseSensitive(header, "state"), err) &&
             parse_tensors(out, data_bytes, cJSON_GetObjectItemCaseSensitive(header, "tensors"),
                           err);
    }
    cJSON_Delete(header);
    return ok;
}
