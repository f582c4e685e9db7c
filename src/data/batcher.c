#include "batcher.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "config.h"
#include "mlm_mask.h"
#include "rng.h"
#include "token_file.h"
#include "tokenizer.h"

struct Dataset {
    TokenFile *files;
    char **paths;
    uint64_t *file_start; /* (files+1): tokens before each file */
    size_t file_count;
    /* (sequences+1): first token of each sequence, counted over all files; they tile the tokens */
    uint64_t *start;
    size_t sequences, capacity;
};

static bool push_start(Dataset *d, uint64_t start, Err *err) {
    if (d->sequences + 1 >= d->capacity) {
        size_t wanted = d->capacity ? 2 * d->capacity : 1024;
        uint64_t *grown = realloc(d->start, wanted * sizeof *grown);
        if (!grown)
            return err_set(err, ERR_FAILED, "no memory for a table of %zu sequences", wanted);
        d->start = grown;
        d->capacity = wanted;
    }
    d->start[d->sequences++] = start;
    return true;
}

/* Packs the lines of one file.  room: tokens a sequence takes besides its `<s>`. */
static bool pack_file(Dataset *d, const TokenFile *file, uint64_t base, size_t room, Err *err) {
    uint64_t position = base, first = base; /* of the next line and of the sequence being filled */
    for (size_t l = 0; l < file->lines; l++) {
        size_t length = token_file_line_length(file, l);
        /* a line that fits a sequence of its own is not split; a longer one must be, and so fills
         * this sequence first */
        if (length <= room && position - first + length > room) {
            if (!push_start(d, first, err)) return false;
            first = position;
        }
        position += length;
        for (; position - first > room; first += room) {
            if (!push_start(d, first, err)) return false;
        }
    }
    return position == first || push_start(d, first, err);
}

static bool open_file(Dataset *d, const char *path, const Manifest *manifest, Err *err) {
    size_t i = d->file_count;
    d->paths[i] = strdup(path);
    if (!d->paths[i]) return err_set(err, ERR_FAILED, "%s: no memory", path);
    TokenFile *file = &d->files[i];
    if (!token_file_open(file, d->paths[i], err)) return false;
    d->file_count++;
    if (file->vocab != manifest->vocab || file->tokenizer_hash != manifest->tokenizer_hash) {
        return err_set(err, ERR_FAILED,
                       "%s: made with tokenizer %016llx (%zu pieces), the manifest says %016llx "
                       "(%zu pieces); prepare the "
                       "data again",
                       path, (unsigned long long)file->tokenizer_hash, file->vocab,
                       (unsigned long long)manifest->tokenizer_hash, manifest->vocab);
    }
    d->file_start[i + 1] = d->file_start[i] + file->count;
    /* everything is read once here, so that filling a batch needs no checks */
    return token_file_verify(file, err);
}

bool dataset_open(Dataset **out, const ManifestPart *part, const Manifest *manifest, size_t n,
                  Err *err) {
    *out = NULL;
    if (n < 2)
        return err_set(err, ERR_CONFIG,
                       "model.n = %zu: a sequence holds `<s>` and text, wanted at least 2", n);
    Dataset *d = calloc(1, sizeof *d);
    if (!d) return err_set(err, ERR_FAILED, "no memory for a data set");
    d->files = calloc(part->shard_count + 1, sizeof *d->files);
    d->paths = calloc(part->shard_count + 1, sizeof *d->paths);
    d->file_start = calloc(part->shard_count + 1, sizeof *d->file_start);
    if (!d->files || !d->paths || !d->file_start) {
        err_set(err, ERR_FAILED, "no memory for %zu token shards", part->shard_count);
        goto fail;
    }
    for (size_t i = 0; i < part->shard_count; i++) {
        if (!open_file(d, part->shards[i].path, manifest, err)) goto fail;
        if (!pack_file(d, &d->files[i], d->file_start[i], n - 1, err)) goto fail;
    }
    if (d->sequences == 0) {
        err_set(err, ERR_FAILED,
                "no text in the %zu token shards of %s; name text shards in the config",
                part->shard_count, part == &manifest->valid ? "data.valid" : "data.train");
        goto fail;
    }
    d->start[d->sequences] = d->file_start[d->file_count]; /* push_start keeps room for it */
    *out = d;
    return true;
fail:
    dataset_close(d);
    return false;
}

void dataset_close(Dataset *d) {
    if (!d) return;
    for (size_t i = 0; i < d->file_count; i++) token_file_close(&d->files[i]);
    for (size_t i = 0; d->paths && d->paths[i]; i++) free(d->paths[i]);
    free(d->files);
    free(d->paths);
    free(d->file_start);
    free(d->start);
    free(d);
}

size_t dataset_sequences(const Dataset *d) {
    return d->sequences;
}

size_t dataset_tokens(const Dataset *d) {
    return (size_t)d->file_start[d->file_count] + d->sequences;
}

size_t dataset_length(const Dataset *d, size_t sequence) {
    return (size_t)(d->start[sequence + 1] - d->start[sequence]) + 1;
}

/* The file that holds token `at`. */
static size_t find_file(const Dataset *d, uint64_t at) {
    size_t low = 0, high = d->file_count; /* file_start[low] <= at < file_start[high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (d->file_start[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* `<s>` and the tokens of one sequence; returns their number. */
static size_t read_sequence(uint32_t *ids, const Dataset *d, size_t sequence) {
    uint64_t at = d->start[sequence];
    size_t file = find_file(d, at), length = dataset_length(d, sequence);
    ids[0] = TOKEN_BOS;
    token_file_read(ids + 1, &d->files[file], (size_t)(at - d->file_start[file]), length - 1);
    return length;
}

bool batch_bytes(size_t *out, size_t sequences, size_t n) {
    const Batch *b = NULL; /* for its types alone */
    /* sequences may be as short as a token, and each needs a key and a start */
    size_t tokens, scratch, arrays,
        per_token = sizeof *b->seq_key + sizeof *b->start + sizeof *b->ids +
                    sizeof *b->masked_rows + sizeof *b->labels + sizeof *b->classes;
    if (!size_mul(sequences, n, &tokens) || tokens > UINT32_MAX ||
        !size_mul(tokens + 1, per_token, &arrays) ||
        !size_mul(n, 3 * sizeof *b->scratch, &scratch) || arrays > SIZE_MAX - scratch)
        return false;
    *out = arrays + scratch;
    return true;
}

bool batch_create(Batch *out, size_t sequences, size_t n, Err *err) {
    *out = (Batch){0};
    size_t bytes, tokens = sequences * n;
    char *block = tokens > 0 && batch_bytes(&bytes, sequences, n) ? malloc(bytes) : NULL;
    if (!block) {
        return err_set(err, ERR_FAILED, "no memory for a batch of %zu sequences of %zu tokens",
                       sequences, n);
    }
    out->seq_key = (uint64_t *)(void *)block;
    out->start = (size_t *)(void *)(out->seq_key + tokens + 1);
    out->ids = (uint32_t *)(void *)(out->start + tokens + 1);
    out->masked_rows = out->ids + tokens;
    out->labels = out->masked_rows + tokens;
    out->classes = out->labels + tokens;
    out->scratch = out->classes + tokens;
    out->start[0] = 0;
    return true;
}

void batch_destroy(Batch *batch) {
    free(batch->seq_key); /* the block's address */
    *batch = (Batch){0};
}

static void batch_clear(Batch *batch) {
    batch->B = batch->total = batch->masked = 0;
    batch->start[0] = 0;
}

/* A whole sequence, masked, on its way into a batch, whose scratch holds it. */
typedef struct Sequence {
    uint32_t *ids, *rows, *labels; /* as in Batch; ids[0] is `<s>` */
    size_t text, masked;           /* tokens besides `<s>`; rows */
    size_t next;                   /* of the rows: those before have their place */
} Sequence;

static Sequence read_masked(Batch *batch, const Dataset *d, size_t sequence, const BatchPlan *plan,
                            uint64_t mask_key) {
    Sequence s = {.ids = batch->scratch};
    s.rows = s.ids + plan->n;
    s.labels = s.rows + plan->n;
    size_t T = read_sequence(s.ids, d, sequence);
    assert(T <= plan->n);
    s.text = T - 1;
    s.masked = mlm_mask(s.ids, s.rows, s.labels, T, plan->vocab, plan->mask_rate, mask_key);
    return s;
}

/* Appends `<s>` and the tokens from..from+size-1 of the text of s. */
static void add_piece(Batch *batch, Sequence *s, size_t from, size_t size, uint64_t seq_key) {
    uint32_t *ids = batch->ids + batch->total;
    ids[0] = s->ids[0];
    memcpy(ids + 1, s->ids + 1 + from, size * sizeof *ids);
    for (; s->next < s->masked && s->rows[s->next] <= from + size; s->next++) {
        if (s->rows[s->next] <= from) continue; /* an earlier batch's */
        batch->masked_rows[batch->masked] = (uint32_t)(batch->total + s->rows[s->next] - from);
        batch->labels[batch->masked++] = s->labels[s->next];
    }
    batch->seq_key[batch->B] = seq_key;
    batch->total += size + 1;
    batch->start[++batch->B] = batch->total;
}

/* Sample number -> epoch and sequence. */
static size_t sample_sequence(uint64_t *epoch, const Dataset *d, const BatchPlan *plan,
                              uint64_t sample) {
    *epoch = sample / d->sequences;
    uint64_t order = rng_key(plan->seed, RNG_SHUFFLE, *epoch, 0);
    return (size_t)rng_permute(order, sample % d->sequences, d->sequences);
}

/* Tokens of text in each piece of a sequence but the last; all of them: it is whole. */
static size_t piece_text(const Dataset *d, const BatchPlan *plan, uint64_t epoch, size_t sequence) {
    const double shortest = CONFIG_SHORTEST_PIECE, end = (double)plan->n + 1;
    uint64_t key = rng_key(plan->seed, RNG_SHORT, epoch, sequence);
    size_t text = dataset_length(d, sequence) - 1;
    if (rng_uniform(key, 0) >= plan->short_rate) return text;
    /* n or more where n is the shortest or less */
    size_t piece = (size_t)(shortest * pow(end / shortest, rng_uniform(key, 1)));
    return piece - 1 < text ? piece - 1 : text;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Appends the pieces of s from *from on, as many as there is room for; *from is behind the last. */
static void add_pieces(Batch *batch, size_t *from, Sequence *s, const BatchPlan *plan, size_t piece,
                       uint64_t seq_key) {
    for (size_t size; *from < s->text; *from += size) {
        size = smaller(piece, s->text - *from);
        if (batch->B == plan->most_sequences || batch->total + size + 1 > plan->most_tokens) return;
        add_piece(batch, s, *from, size, *from ? rng_u64(seq_key, *from) : seq_key);
    }
}

size_t batch_fill_train(Batch *batch, BatchCursor *cursor, const Dataset *d, const BatchPlan *plan,
                        uint64_t end) {
    assert(plan->most_sequences > 0 && plan->most_tokens >= plan->n);
    batch_clear(batch);
    while (cursor->sample < end) {
        uint64_t epoch;
        size_t sequence = sample_sequence(&epoch, d, plan, cursor->sample);
        Sequence s =
            read_masked(batch, d, sequence, plan, rng_key(plan->seed, RNG_MASK, epoch, sequence));
        add_pieces(batch, &cursor->text, &s, plan, piece_text(d, plan, epoch, sequence),
                   rng_key(plan->seed, RNG_DROPOUT, epoch, sequence));
        if (cursor->text < s.text) break; /* the batch is full */
        *cursor = (BatchCursor){.sample = cursor->sample + 1};
    }
    return batch->masked;
}

/* Tokens of a sequence that may be predicted, without copying it. */
static size_t sequence_maskable(const Dataset *d, size_t sequence) {
    enum { CHUNK = 256 };
    uint32_t ids[CHUNK];
    uint64_t at = d->start[sequence], end = d->start[sequence + 1];
    size_t file = find_file(d, at), maskable = 0;
    while (at < end) {
        size_t size = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
        token_file_read(ids, &d->files[file], (size_t)(at - d->file_start[file]), size);
        maskable += mlm_maskable(ids, size);
        at += size;
    }
    return maskable;
}

void batch_count(size_t *tokens, size_t *masked, const Dataset *d, const BatchPlan *plan,
                 uint64_t first, size_t count) {
    *tokens = *masked = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t epoch;
        size_t sequence = sample_sequence(&epoch, d, plan, first + i);
        uint64_t key = rng_key(plan->seed, RNG_MASK, epoch, sequence);
        size_t text = dataset_length(d, sequence) - 1, piece = piece_text(d, plan, epoch, sequence);
        *tokens += text + (text + piece - 1) / piece; /* a `<s>` for each piece */
        *masked += mlm_mask_count(key, sequence_maskable(d, sequence), plan->mask_rate);
    }
}

size_t batch_fill_eval(Batch *batch, const Dataset *d, const BatchPlan *plan, size_t first,
                       size_t count, size_t sample) {
    assert(sample > 0 && sample <= d->sequences);
    batch_clear(batch);
    size_t step = d->sequences / sample, rest = d->sequences % sample;
    for (size_t i = first; i < sample && i - first < count; i++) {
        size_t sequence = i * step + i * rest / sample; /* floor(i * sequences / sample) */
        /* no seed in the key: two models are asked the same questions */
        Sequence s = read_masked(batch, d, sequence, plan, rng_key(0, RNG_EVAL_MASK, 0, sequence));
        add_piece(batch, &s, 0, s.text, 0);
    }
    return batch->masked;
}
