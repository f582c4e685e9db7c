#include "task_data.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

enum { BLOCK_ROWS = 128, PAIR_SPECIALS = 4, SINGLE_SPECIALS = 2 };

/* Sequences of consecutive rows. */
typedef struct Block {
    uint32_t *ids;
    size_t count, capacity;
    size_t cut; /* sequences */
} Block;

/* What one thread works with. */
typedef struct Worker {
    TokenizerCache *cache;
    uint32_t *ids[2]; /* of the texts of one row */
    size_t count[2], capacity[2];
    char *folded; /* one text in lower case */
    size_t folded_capacity;
} Worker;

/* What all threads read. */
typedef struct Job {
    const TaskFile *file;
    const FinetuneConfig *config;
    const Tokenizer *tokenizer;
    size_t n;
} Job;

static void worker_free(Worker *w) {
    tokenizer_cache_destroy(w->cache);
    free(w->ids[0]);
    free(w->ids[1]);
    free(w->folded);
}

static bool no_memory(Err *err) {
    return err_set(err, ERR_FAILED, "no memory to encode the texts of a task");
}

static bool fold(Worker *w, const char *text, size_t size, Err *err) {
    if (size > w->folded_capacity) {
        char *grown = realloc(w->folded, 2 * size);
        if (!grown) return no_memory(err);
        w->folded = grown;
        w->folded_capacity = 2 * size;
    }
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        w->folded[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return true;
}

static bool encode_text(Worker *w, size_t t, const Job *job, const TaskRow *row, Err *err) {
    const char *text = row->text[t];
    if (job->config->letters == CASE_LOWER && row->size[t] > 0) {
        if (!fold(w, text, row->size[t], err)) return false;
        text = w->folded;
    }
    return tokenizer_encode_cached(job->tokenizer, w->cache, &w->ids[t], &w->count[t],
                                   &w->capacity[t], text, row->size[t], err);
}

static void put(Block *b, const uint32_t *ids, size_t count) {
    if (count > 0) memcpy(b->ids + b->count, ids, count * sizeof *ids);
    b->count += count;
}

static void put_one(Block *b, uint32_t id) {
    b->ids[b->count++] = id;
}

/* Tokens of either text that fit `room`, one being taken from the longer text again and again (of
 * equal ones, from the second), in one step. */
static void cut_pair(size_t keep[2], const size_t count[2], size_t room) {
    size_t shorter = count[1] < count[0], longer = 1 - shorter;
    keep[0] = count[0];
    keep[1] = count[1];
    if (count[0] + count[1] <= room) return;
    if (count[shorter] <= room / 2) {
        keep[longer] = room - count[shorter];
    } else {
        keep[0] = room - room / 2;
        keep[1] = room / 2;
    }
}

static void put_pair(Block *b, const Worker *w, size_t n) {
    size_t keep[2];
    cut_pair(keep, w->count, n - PAIR_SPECIALS);
    b->cut += keep[0] < w->count[0] || keep[1] < w->count[1];
    put_one(b, TOKEN_BOS);
    put(b, w->ids[0], keep[0]);
    put_one(b, TOKEN_EOS);
    put_one(b, TOKEN_EOS);
    put(b, w->ids[1], keep[1]);
    put_one(b, TOKEN_EOS);
}

static void put_single(Block *b, const Worker *w, size_t n, Truncate truncate) {
    size_t count = w->count[0], room = n - SINGLE_SPECIALS, head = count, tail = 0;
    if (count > room) {
        head = truncate == TRUNCATE_HEAD ? room : truncate == TRUNCATE_TAIL ? 0 : room - room / 2;
        tail = room - head;
        b->cut++;
    }
    put_one(b, TOKEN_BOS);
    put(b, w->ids[0], head);
    if (tail > 0) put(b, w->ids[0] + count - tail, tail);
    put_one(b, TOKEN_EOS);
}

/* Appends the sequence of one row; *length is its tokens. */
static bool encode_row(size_t *length, Block *b, Worker *w, const Job *job, const TaskRow *row,
                       Err *err) {
    bool pair = job->file->pairs;
    w->count[1] = 0;
    for (size_t t = 0; t < 1 + (size_t)pair; t++) {
        if (encode_text(w, t, job, row, err)) continue;
        return row->place ? err_context(err, "%.400s:%zu", row->place, row->line) : false;
    }
    size_t wanted = w->count[0] + w->count[1] + PAIR_SPECIALS;
    if (wanted > job->n) wanted = job->n;
    if (b->count + wanted > b->capacity) {
        size_t capacity = 2 * (b->count + wanted);
        uint32_t *grown = realloc(b->ids, capacity * sizeof *grown);
        if (!grown) return no_memory(err);
        b->ids = grown;
        b->capacity = capacity;
    }
    size_t before = b->count;
    if (pair)
        put_pair(b, w, job->n);
    else
        put_single(b, w, job->n, job->config->truncate);
    *length = b->count - before;
    assert(*length <= job->n);
    return true;
}

/* lengths: those of all rows, of which the block's are written. */
static bool encode_block(size_t *lengths, Block *b, Worker *w, const Job *job, size_t index,
                         Err *err) {
    size_t first = index * BLOCK_ROWS, end = first + BLOCK_ROWS;
    if (end > job->file->count) end = job->file->count;
    for (size_t i = first; i < end; i++) {
        if (!encode_row(&lengths[i], b, w, job, &job->file->rows[i], err)) return false;
    }
    return true;
}

/* All blocks, on all threads.  The fault of the first block that has one is reported, whichever
 * thread meets its own first. */
static bool encode_blocks(size_t *lengths, Block *blocks, size_t count, const Job *job, Err *err) {
    size_t failed = SIZE_MAX;
#pragma omp parallel
    {
        Worker w = {.cache = tokenizer_cache_create(job->tokenizer)};
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < count; i++) {
            Err fault = {0};
            size_t before;
#pragma omp atomic read
            before = failed;
            if (i > before || encode_block(lengths, &blocks[i], &w, job, i, &fault)) continue;
#pragma omp critical(task_data_fault)
            if (i < failed) {
#pragma omp atomic write
                failed = i;
                if (err) *err = fault;
            }
        }
        worker_free(&w);
    }
    return failed == SIZE_MAX;
}

/* Joins the blocks; out->start[i+1] holds the length of row i. */
static bool join_blocks(TaskData *out, const Block *blocks, size_t count, Err *err) {
    for (size_t i = 0; i < out->count; i++) {
        size_t length = out->start[i + 1];
        if (length > out->longest) out->longest = length;
        out->start[i + 1] += out->start[i];
    }
    out->ids = malloc((out->start[out->count] + 1) * sizeof *out->ids);
    if (!out->ids) return no_memory(err);
    size_t at = 0;
    for (size_t b = 0; b < count; b++) {
        if (blocks[b].count > 0)
            memcpy(out->ids + at, blocks[b].ids, blocks[b].count * sizeof *out->ids);
        at += blocks[b].count;
        out->cut += blocks[b].cut;
    }
    assert(at == out->start[out->count]);
    return true;
}

bool task_data_encode(TaskData *out, const TaskFile *file, const FinetuneConfig *config,
                      const Tokenizer *tokenizer, size_t n, Err *err) {
    Job job = {file, config, tokenizer, n};
    size_t specials = file->pairs ? PAIR_SPECIALS : SINGLE_SPECIALS, texts = file->pairs ? 2 : 1;
    size_t block_count = (file->count + BLOCK_ROWS - 1) / BLOCK_ROWS;
    *out = (TaskData){.count = file->count};
    if (n < specials + texts) {
        return err_set(err, ERR_CONFIG,
                       "model.n = %zu: %zu special tokens go around %s, wanted at least %zu", n,
                       specials, file->pairs ? "two texts" : "a text", specials + texts);
    }
    Block *blocks = calloc(block_count + 1, sizeof *blocks);
    out->start = calloc(file->count + 1, sizeof *out->start);
    out->labels = malloc((file->count + 1) * sizeof *out->labels);
    bool ok = blocks && out->start && out->labels;
    if (!ok) no_memory(err);
    ok = ok && encode_blocks(out->start + 1, blocks, block_count, &job, err) &&
         join_blocks(out, blocks, block_count, err);
    for (size_t i = 0; ok && i < file->count; i++) out->labels[i] = file->rows[i].label;
    for (size_t b = 0; blocks && b < block_count; b++) free(blocks[b].ids);
    free(blocks);
    if (!ok) task_data_free(out);
    return ok;
}

void task_data_free(TaskData *data) {
    free(data->start);
    free(data->ids);
    free(data->labels);
    *data = (TaskData){0};
}

void task_batch_fill(Batch *batch, const TaskData *data, const size_t *rows, size_t count,
                     uint64_t seed, uint64_t epoch) {
    batch->B = count;
    batch->total = batch->masked = 0;
    batch->start[0] = 0;
    for (size_t i = 0; i < count; i++) {
        size_t row = rows[i], length = task_data_length(data, row);
        int32_t label = data->labels[row];
        memcpy(batch->ids + batch->total, data->ids + data->start[row],
               length * sizeof *batch->ids);
        batch->seq_key[i] = rng_key(seed, RNG_DROPOUT, epoch, row);
        batch->classes[i] = label == TASK_NO_LABEL ? 0 : (uint32_t)label;
        batch->total += length;
        batch->start[i + 1] = batch->total;
    }
}

size_t task_batch_fit(const TaskData *data, const size_t *rows, size_t count, size_t max_sequences,
                      size_t max_tokens) {
    size_t fit = 0, tokens = 0;
    assert(count > 0);
    while (fit < count && fit < max_sequences) {
        size_t length = task_data_length(data, rows[fit]);
        if (length > max_tokens - tokens) break;
        tokens += length;
        fit++;
    }
    return fit > 0 ? fit : 1;
}

/* Does row a come after row b? */
static bool is_after(const TaskData *data, size_t a, size_t b) {
    size_t x = task_data_length(data, a), y = task_data_length(data, b);
    return x != y ? x < y : a > b;
}

/* Lets rows[root] sink to its place in a heap whose top comes last. */
static void sink(size_t *rows, size_t root, size_t count, const TaskData *data) {
    size_t row = rows[root];
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && is_after(data, rows[child + 1], rows[child])) child++;
        if (!is_after(data, rows[child], row)) break;
        rows[root] = rows[child];
    }
    rows[root] = row;
}

/* A heap sort: it needs neither memory nor a comparison function without context. */
void task_rows_sort(size_t *rows, size_t count, const TaskData *data) {
    for (size_t i = count / 2; i-- > 0;) sink(rows, i, count, data);
    for (size_t last = count; last-- > 1;) {
        size_t top = rows[0];
        rows[0] = rows[last];
        rows[last] = top;
        sink(rows, 0, last, data);
    }
}
