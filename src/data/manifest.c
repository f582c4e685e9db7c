#include "manifest.h"

#include <cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "json_fields.h"
#include "shards.h"

enum { MANIFEST_LIMIT = 1 << 28, SHARDS_LIMIT = 1 << 20 };

#define FORMAT_NAME "linformer tokens"

/* The one list of the totals: reading, writing and adding loop over it. */
typedef struct TotalField {
    const char *name;
    size_t offset;
} TotalField;

static const TotalField total_fields[] = {
    {"documents", offsetof(TextTotals, documents)},
    {"lines", offsetof(TextTotals, lines)},
    {"tokens", offsetof(TextTotals, tokens)},
    {"text_bytes", offsetof(TextTotals, text_bytes)},
    {"unknown", offsetof(TextTotals, unknown)},
    {"dropped_bytes", offsetof(TextTotals, dropped_bytes)},
    {"split_lines", offsetof(TextTotals, split_lines)},
    {"empty_documents", offsetof(TextTotals, empty_documents)},
    {"longest_line", offsetof(TextTotals, longest_line)},
};
enum { TOTAL_FIELDS = sizeof total_fields / sizeof *total_fields };

static uint64_t *total_at(TextTotals *t, size_t i) {
    return (uint64_t *)(void *)((char *)t + total_fields[i].offset);
}

const char *text_totals_member(uint64_t *value, const TextTotals *totals, size_t i) {
    if (i >= TOTAL_FIELDS) return NULL;
    memcpy(value, (const char *)totals + total_fields[i].offset, sizeof *value);
    return total_fields[i].name;
}

void text_totals_add(TextTotals *sum, const TextTotals *more) {
    uint64_t longest =
        sum->longest_line > more->longest_line ? sum->longest_line : more->longest_line;
    TextTotals copy = *more;
    for (size_t i = 0; i < TOTAL_FIELDS; i++) *total_at(sum, i) += *total_at(&copy, i);
    sum->longest_line = longest;
}

void manifest_shard_free(ManifestShard *shard) {
    free(shard->path);
    free(shard->text_path);
    *shard = (ManifestShard){0};
}

static void part_free(ManifestPart *part) {
    for (size_t i = 0; i < part->shard_count; i++) manifest_shard_free(&part->shards[i]);
    free(part->shards);
}

void manifest_free(Manifest *manifest) {
    part_free(&manifest->train);
    part_free(&manifest->valid);
    free(manifest->normalizer);
    *manifest = (Manifest){0};
}

/* ---- writing */

static void add_totals(cJSON *object, const TextTotals *totals) {
    const char *name;
    uint64_t value;
    for (size_t i = 0; (name = text_totals_member(&value, totals, i)) != NULL; i++)
        cJSON_AddNumberToObject(object, name, (double)value);
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void add_part(cJSON *root, const char *name, const ManifestPart *part) {
    cJSON *object = cJSON_AddObjectToObject(root, name);
    cJSON_AddNumberToObject(object, "unigram_entropy", part->unigram_entropy);
    add_totals(object, &part->totals);
    cJSON *shards = cJSON_AddArrayToObject(object, "shards");
    for (size_t i = 0; i < part->shard_count; i++) {
        const ManifestShard *s = &part->shards[i];
        if (!s->ready) continue;
        cJSON *item = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(shards, item)) {
            cJSON_Delete(item);
            return;
        }
        char mtime[24];
        snprintf(mtime, sizeof mtime, "%" PRId64, s->text_mtime_ns);
        cJSON_AddStringToObject(item, "tokens_file", file_name(s->path));
        cJSON_AddStringToObject(item, "text_path", s->text_path);
        cJSON_AddNumberToObject(item, "text_size", (double)s->text_size);
        cJSON_AddStringToObject(item, "text_mtime_ns", mtime);
        json_add_hash(item, "text_hash", s->text_hash);
        json_add_hash(item, "payload_hash", s->payload_hash);
        add_totals(item, &s->totals);
    }
}

bool manifest_save(const Manifest *manifest, const char *folder, Err *err) {
    bool ok = false;
    char *path = io_path_join(folder, MANIFEST_NAME), *text = NULL;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "format", FORMAT_NAME);
    cJSON_AddNumberToObject(root, "version", MANIFEST_VERSION);
    json_add_hash(root, "tokenizer_hash", manifest->tokenizer_hash);
    cJSON_AddNumberToObject(root, "vocab", (double)manifest->vocab);
    cJSON_AddStringToObject(root, "normalizer", manifest->normalizer ? manifest->normalizer : "");
    json_add_hash(root, "data_hash", manifest->data_hash);
    cJSON_AddBoolToObject(root, "complete", manifest->complete);
    add_part(root, "train", &manifest->train);
    add_part(root, "valid", &manifest->valid);
    text = cJSON_Print(root);
    /* what was left out for want of memory shows as a missing member when the manifest is read */
    if (!path || !text) {
        err_set(err, ERR_FAILED, "%s: no memory to write the manifest", folder);
        goto done;
    }
    ok = io_write_file(path, text, strlen(text), err);
done:
    cJSON_Delete(root);
    cJSON_free(text);
    free(path);
    return ok;
}

/* ---- reading: the first fault is kept, and what follows reads on harmlessly */

typedef struct Reader {
    const char *path;
    char where[64]; /* "train.shards[3]." */
    Err *err;
    bool failed;
} Reader;

static void fault(Reader *r, const char *name, const char *what) {
    if (!r->failed) {
        err_set(r->err, ERR_FAILED, "%s: %s%s: %s; prepare the data again", r->path, r->where, name,
                what);
    }
    r->failed = true;
}

static const cJSON *member(Reader *r, const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!item) fault(r, name, "missing");
    return item;
}

static uint64_t read_count(Reader *r, const cJSON *object, const char *name) {
    const cJSON *item = member(r, object, name);
    uint64_t value = 0;
    if (item && !json_take_count(&value, item)) fault(r, name, "wanted a whole number below 2^53");
    return value;
}

static const char *read_string(Reader *r, const cJSON *object, const char *name) {
    const cJSON *item = member(r, object, name);
    if (item && cJSON_IsString(item)) return item->valuestring;
    if (item) fault(r, name, "wanted a string");
    return "";
}

static uint64_t read_hex(Reader *r, const cJSON *object, const char *name) {
    const cJSON *item = member(r, object, name);
    uint64_t value = 0;
    if (item && !json_take_hash(&value, item)) fault(r, name, "wanted 16 hexadecimal digits");
    return value;
}

static char *copy(Reader *r, char *owned) {
    if (!owned) fault(r, "", "no memory");
    return owned;
}

static void read_totals(TextTotals *out, Reader *r, const cJSON *object) {
    for (size_t i = 0; i < TOTAL_FIELDS; i++)
        *total_at(out, i) = read_count(r, object, total_fields[i].name);
}

static void read_shard(ManifestShard *out, Reader *r, const cJSON *object) {
    const char *file = read_string(r, object, "tokens_file");
    /* what the manifest lists is also deleted when its text is dropped, so the name must be one of
     * ours */
    if (strchr(file, '/') || !name_ends_with(file, TOKENS_ENDING)) {
        fault(r, "tokens_file", "wanted a name without a folder, ending in \"" TOKENS_ENDING "\"");
    }
    out->path = copy(r, io_path_beside(r->path, file));
    out->text_path = copy(r, strdup(read_string(r, object, "text_path")));
    out->text_size = read_count(r, object, "text_size");
    const char *mtime = read_string(r, object, "text_mtime_ns");
    char *end;
    errno = 0;
    out->text_mtime_ns = strtoll(mtime, &end, 10);
    if (errno || *end || end == mtime)
        fault(r, "text_mtime_ns", "wanted a whole number as a string");
    out->text_hash = read_hex(r, object, "text_hash");
    out->payload_hash = read_hex(r, object, "payload_hash");
    read_totals(&out->totals, r, object);
    out->ready = true;
}

static void read_part(ManifestPart *out, Reader *r, const cJSON *root, const char *name) {
    const cJSON *object = member(r, root, name);
    if (!object) return;
    snprintf(r->where, sizeof r->where, "%s.", name);
    read_totals(&out->totals, r, object);
    const cJSON *entropy = member(r, object, "unigram_entropy");
    if (entropy && cJSON_IsNumber(entropy))
        out->unigram_entropy = entropy->valuedouble;
    else if (entropy)
        fault(r, "unigram_entropy", "wanted a number");
    const cJSON *shards = member(r, object, "shards");
    int count = cJSON_GetArraySize(shards);
    if (shards && (!cJSON_IsArray(shards) || count > SHARDS_LIMIT))
        fault(r, "shards", "wanted an array");
    if (r->failed || count == 0) goto done;
    out->shards = calloc((size_t)count, sizeof *out->shards);
    if (!out->shards) {
        fault(r, "shards", "no memory");
        goto done;
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, shards) {
        snprintf(r->where, sizeof r->where, "%s.shards[%zu].", name, out->shard_count);
        read_shard(&out->shards[out->shard_count++], r, item);
    }
done:
    r->where[0] = 0;
}

static void read_root(Manifest *out, Reader *r, const cJSON *root) {
    if (strcmp(read_string(r, root, "format"), FORMAT_NAME) != 0)
        fault(r, "format", "wanted \"" FORMAT_NAME "\"");
    uint64_t version = read_count(r, root, "version");
    if (version != MANIFEST_VERSION) {
        char what[80];
        snprintf(what, sizeof what, "%" PRIu64 ", this program reads %d", version,
                 MANIFEST_VERSION);
        fault(r, "version", what);
    }
    out->tokenizer_hash = read_hex(r, root, "tokenizer_hash");
    out->data_hash = read_hex(r, root, "data_hash");
    out->vocab = (size_t)read_count(r, root, "vocab");
    out->normalizer = copy(r, strdup(read_string(r, root, "normalizer")));
    out->complete = !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(root, "complete"));
    read_part(&out->train, r, root, "train");
    read_part(&out->valid, r, root, "valid");
}

bool manifest_load_file(Manifest *out, const char *path, Err *err) {
    *out = (Manifest){0};
    bool ok = false;
    Bytes file = {0};
    cJSON *root = NULL;
    if (!io_read_file(&file, path, MANIFEST_LIMIT, err)) goto done;
    root = cJSON_ParseWithLength((const char *)file.data, file.size);
    if (!root) {
        err_set(err, ERR_FAILED,
                "%s: not valid JSON (%zu bytes): truncated? prepare the data again", path,
                file.size);
        goto done;
    }
    Reader r = {.path = path, .err = err};
    read_root(out, &r, root);
    ok = !r.failed;
done:
    if (!ok) manifest_free(out);
    cJSON_Delete(root);
    io_bytes_free(&file);
    return ok;
}

bool manifest_load(Manifest *out, const char *folder, Err *err) {
    *out = (Manifest){0};
    char *path = io_path_join(folder, MANIFEST_NAME);
    bool ok = path ? manifest_load_file(out, path, err)
                   : err_set(err, ERR_FAILED, "%s: no memory", folder);
    free(path);
    return ok;
}
