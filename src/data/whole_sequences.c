#include "whole_sequences.h"

#include <assert.h>
#include <stdlib.h>

#include "tokenizer.h"

static bool push(WholeSequences *s, size_t *capacity, size_t file, size_t token, Err *err) {
    if (s->count == *capacity) {
        size_t wanted = *capacity ? 2 * *capacity : 64;
        struct WholeStart *grown = realloc(s->starts, wanted * sizeof *grown);
        if (!grown)
            return err_set(err, ERR_FAILED, "no memory for a table of %zu sequences", wanted);
        s->starts = grown;
        *capacity = wanted;
    }
    s->starts[s->count++] = (struct WholeStart){file, token};
    return true;
}

static bool find_starts(WholeSequences *s, size_t *capacity, size_t index, Err *err) {
    const TokenFile *file = &s->files[index];
    size_t room = s->n - 1, position = 0, free_from = 0;
    for (size_t l = 0; l < file->lines && position + room <= file->count; l++) {
        if (position >= free_from) {
            if (!push(s, capacity, index, position, err)) return false;
            free_from = position + room;
        }
        position += token_file_line_length(file, l);
    }
    return true;
}

bool whole_sequences_open(WholeSequences *out, const ManifestPart *part, size_t n, Err *err) {
    *out = (WholeSequences){.n = n};
    size_t capacity = 0, longest = 0;
    if (n < 2)
        return err_set(err, ERR_CONFIG,
                       "model.n = %zu: a sequence holds `<s>` and text, wanted at least 2", n);
    out->files = calloc(part->shard_count + 1, sizeof *out->files);
    if (!out->files) {
        err_set(err, ERR_FAILED, "no memory for %zu token shards", part->shard_count);
        goto fail;
    }
    for (size_t i = 0; i < part->shard_count; i++) {
        TokenFile *file = &out->files[i];
        if (!token_file_open(file, part->shards[i].path, err)) goto fail;
        out->file_count++;
        if (!token_file_verify(file, err) || !find_starts(out, &capacity, i, err)) goto fail;
        if (file->count > longest) longest = file->count;
    }
    if (out->count > 0) return true;
    err_set(err, ERR_FAILED,
            "too little text: a whole sequence of n = %zu is `<s>` and %zu tokens of one file, and "
            "the longest of %zu %s has %zu; give longer text",
            n, n - 1, part->shard_count, part->shard_count == 1 ? "file" : "files", longest);
fail:
    whole_sequences_close(out);
    return false;
}

void whole_sequences_close(WholeSequences *sequences) {
    for (size_t i = 0; i < sequences->file_count; i++) token_file_close(&sequences->files[i]);
    free(sequences->files);
    free(sequences->starts);
    *sequences = (WholeSequences){0};
}

void whole_sequences_read(uint32_t *ids, const WholeSequences *sequences, size_t i, size_t sample) {
    assert(i < sample && sample <= sequences->count);
    /* i * count fits: both are numbers of sequences that are in files of this machine */
    struct WholeStart start = sequences->starts[i * sequences->count / sample];
    ids[0] = TOKEN_BOS;
    token_file_read(ids + 1, &sequences->files[start.file], start.token, sequences->n - 1);
}
