#include "batcher_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "rng.h"
#include "token_file.h"
#include "tokenizer.h"

static void add_token(Shards *s, uint32_t id) {
    if (s->tokens == s->capacity) {
        s->capacity = 2 * s->capacity + 64;
        s->ids = realloc(s->ids, s->capacity * sizeof *s->ids);
        REQUIRE(s->ids != NULL);
    }
    s->ids[s->tokens++] = id;
}

void shards_add(Shards *s, const size_t *lengths, size_t count) {
    char name[32];
    TokenWriter *w;
    Err err = {0};
    ManifestPart *part = &s->manifest.train;
    REQUIRE(part->shard_count < MAX_SHARDS);
    snprintf(name, sizeof name, "shard%zu.tok", part->shard_count);
    char *path = strdup(test_temp_path(name));
    REQUIRE(token_writer_open(&w, path, SHARDS_VOCAB, SHARDS_HASH, &err));
    for (size_t l = 0; l <= count; l++) {
        if (l == count || lengths[l] == 0) {
            if (!token_writer_document_end(w)) continue;
            add_token(s, TOKEN_EOS);
            s->documents++;
            continue;
        }
        size_t first = s->tokens;
        for (size_t i = 0; i < lengths[l]; i++) {
            add_token(s, TOKEN_SPECIALS + (uint32_t)((s->tokens - s->documents) %
                                                     (SHARDS_VOCAB - TOKEN_SPECIALS)));
        }
        token_writer_line(w, s->ids + first, lengths[l]);
    }
    REQUIRE(token_writer_commit(w, &err));
    s->items[part->shard_count++] = (ManifestShard){.path = path};
    part->shards = s->items;
    s->manifest.vocab = SHARDS_VOCAB;
    s->manifest.tokenizer_hash = SHARDS_HASH;
}

void shards_add_random(Shards *s, size_t lines, size_t longest, uint64_t key) {
    size_t *lengths = malloc(lines * sizeof *lengths);
    for (size_t l = 0; l < lines; l++) {
        lengths[l] = rng_below(key, 2 * l, 8) ? 1 + rng_below(key, 2 * l + 1, longest) : 0;
    }
    shards_add(s, lengths, lines);
    free(lengths);
}

void shards_free(Shards *s) {
    for (size_t i = 0; i < s->manifest.train.shard_count; i++) free(s->items[i].path);
    free(s->ids);
}

Dataset *shards_open(const Shards *s, size_t n) {
    Dataset *d = NULL;
    Err err = {0};
    if (!dataset_open(&d, &s->manifest.train, &s->manifest, n, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return d;
}

BatchPlan batch_plan(size_t n, double rate) {
    return (BatchPlan){.seed = 3,
                       .mask_rate = rate,
                       .n = n,
                       .vocab = SHARDS_VOCAB,
                       .most_sequences = SIZE_MAX,
                       .most_tokens = SIZE_MAX};
}

size_t fill_batch(Batch *b, const Dataset *d, const BatchPlan *plan, uint64_t first, size_t count) {
    BatchCursor cursor = {.sample = first};
    size_t masked = batch_fill_train(b, &cursor, d, plan, first + count);
    CHECK(cursor.sample == first + count && cursor.text == 0);
    return masked;
}

void check_batch(const Batch *b, size_t n) {
    CHECK(b->start[0] == 0 && b->start[b->B] == b->total);
    for (size_t i = 0; i < b->B; i++) {
        size_t length = b->start[i + 1] - b->start[i];
        CHECK(length >= 2 && length <= n);
        for (size_t t = b->start[i]; t < b->start[i + 1]; t++) {
            CHECK((b->ids[t] == TOKEN_BOS) == (t == b->start[i]));
            CHECK(b->ids[t] < SHARDS_VOCAB && b->ids[t] != TOKEN_PAD);
        }
    }
    for (size_t i = 0; i < b->masked; i++) {
        CHECK(b->masked_rows[i] < b->total &&
              (i == 0 || b->masked_rows[i] > b->masked_rows[i - 1]));
        CHECK(b->labels[i] >= TOKEN_SPECIALS && b->labels[i] < SHARDS_VOCAB);
    }
}

void unmask_batch(Batch *b) {
    for (size_t i = 0; i < b->masked; i++) b->ids[b->masked_rows[i]] = b->labels[i];
}
