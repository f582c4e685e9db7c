#include "tokenizer_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "log.h"
#include "stop_signal.h"

enum { RECORD_LIMIT = 1 << 28, HASH_DIGITS = 16 };

static char *record_path(const Config *config, Err *err) {
    size_t size = strlen(config->tokenizer.model) + sizeof ".made_from";
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s.made_from", config->tokenizer.model);
    else
        err_set(err, ERR_FAILED, "%s: no memory", config->tokenizer.model);
    return path;
}

char *tokenizer_record_lines(const Config *config, Err *err) {
    const PathList *texts = &config->data.train;
    char *settings = NULL, *list = NULL, *lines = NULL;
    size_t settings_size = 0, list_size = 0;
    uint64_t total = 0;
    FILE *file = open_memstream(&list, &list_size);
    bool ok = file != NULL;
    for (size_t i = 0; ok && i < texts->count; i++) {
        FileInfo info;
        if (!io_file_info(&info, texts->items[i], err)) {
            fclose(file);
            free(list);
            return NULL;
        }
        total += info.size;
        ok = fprintf(file, "%" PRIu64 " %" PRId64 " %s\n", info.size, info.mtime_ns,
                     texts->items[i]) > 0;
    }
    if (file && fclose(file) != 0) ok = false;
    file = ok ? open_memstream(&settings, &settings_size) : NULL;
    if (file) {
        fprintf(file, "%s, %zu pieces, sample of %zu bytes; %zu texts, %" PRIu64 " bytes\n%s",
                config->tokenizer.type == TOKENIZER_BPE ? "bpe" : "unigram",
                config->tokenizer.vocab_size, config->tokenizer.sample_bytes, texts->count, total,
                list);
        if (fclose(file) == 0) lines = settings;
    }
    if (!lines) err_set(err, ERR_FAILED, "no memory to list %zu texts", texts->count);
    free(list);
    return lines;
}

static void hash_more(uint64_t *hash, uint64_t more) {
    unsigned char pair[16];
    io_put_u64(pair, *hash);
    io_put_u64(pair + 8, more);
    *hash = io_hash(pair, sizeof pair);
}

static bool write_record(const Config *config, const char *lines, uint64_t hash, Err *err) {
    char *path = record_path(config, err);
    size_t size = HASH_DIGITS + 1 + strlen(lines);
    char *text = path ? malloc(size + 1) : NULL;
    if (path && !text) err_set(err, ERR_FAILED, "%s: no memory", path);
    if (text) snprintf(text, size + 1, "%016" PRIx64 "\n%s", hash, lines);
    bool ok = text && io_write_file(path, text, size, err);
    free(path);
    free(text);
    return ok;
}

bool tokenizer_record_write(const Config *config, const char *lines, const uint64_t *text_hashes,
                            Err *err) {
    uint64_t hash = io_hash(lines, strcspn(lines, "\n"));
    for (size_t i = 0; i < config->data.train.count; i++) hash_more(&hash, text_hashes[i]);
    return write_record(config, lines, hash, err);
}

/* Are the texts, named or dated otherwise, the recorded ones?  Reads them all. */
static bool compare_contents(bool *same, const Config *config, const char *recorded,
                             const char *lines, Err *err) {
    const PathList *texts = &config->data.train;
    uint64_t hash = io_hash(lines, strcspn(lines, "\n"));
    char digits[HASH_DIGITS + 1];
    for (size_t i = 0; i < texts->count; i++) {
        uint64_t text;
        if (!stop_signal_check(err) || !io_hash_file(&text, texts->items[i], err)) return false;
        hash_more(&hash, text);
    }
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    *same = strncmp(recorded, digits, HASH_DIGITS) == 0;
    /* so that the next start need not read them; where nothing may be written it does */
    if (*same) write_record(config, lines, hash, NULL);
    return true;
}

bool tokenizer_state(TokenizerState *out, const Config *config, Err *err) {
    bool ok = false, same = false;
    Bytes record = {0};
    char *path = record_path(config, err), *lines = NULL;
    if (!path) goto done;
    *out = io_is_file(config->tokenizer.model) ? TOKENIZER_UNRECORDED : TOKENIZER_MISSING;
    if (*out == TOKENIZER_MISSING || !io_is_file(path)) {
        ok = true;
        goto done;
    }
    lines = tokenizer_record_lines(config, err);
    if (!lines || !io_read_file(&record, path, RECORD_LIMIT, err)) goto done;
    const char *recorded = record.data ? (const char *)record.data : "";
    const char *rest = record.size > HASH_DIGITS + 1 ? recorded + HASH_DIGITS + 1 : "";
    size_t settings = strcspn(lines, "\n") + 1;
    if (strcmp(rest, lines) == 0)
        same = true;
    else if (strncmp(rest, lines, settings) == 0 &&
             !compare_contents(&same, config, recorded, lines, err))
        goto done;
    *out = same ? TOKENIZER_CURRENT : TOKENIZER_STALE;
    ok = true;
done:
    io_bytes_free(&record);
    free(lines);
    free(path);
    return ok;
}
