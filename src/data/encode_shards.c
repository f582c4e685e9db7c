#include "encode_shards.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "io.h"
#include "log.h"
#include "stop_signal.h"
#include "text_reader.h"
#include "token_file.h"

enum {
    BLOCK_TEXT = 64 << 10, /* a block is full when another piece might not fit */
    BLOCK_LINES = 4 << 10,
    DOCUMENT_END = UINT32_MAX /* as a line's size: the document before it ends */
};

/* Consecutive lines of one shard, and their tokens. */
typedef struct Block {
    size_t shard;
    bool first, last; /* of the shard */
    size_t lines, text_size;
    uint32_t *sizes; /* (lines) bytes of text, or DOCUMENT_END; then tokens */
    char *text;
    uint32_t *ids; /* of all lines */
    size_t id_count, id_capacity;
    uint32_t *line_ids; /* of one line */
    size_t line_capacity;
    TokenizerCache *cache;
    uint64_t unknown;
    TextCounts counts; /* of the whole shard, in its last block */
    uint64_t text_hash;
} Block;

typedef struct Pipeline {
    ManifestShard *const *items;
    size_t count;
    const Tokenizer *tokenizer;
    const ShardsReady *ready;

    pthread_mutex_t read_lock;
    TextReader *reader; /* of shard `reading`, or NULL before its first block */
    size_t reading;
    uint64_t blocks_read;
    uint64_t bytes_before; /* stored bytes of the shards before `reading` */

    pthread_mutex_t write_lock;
    pthread_cond_t turn_changed;
    uint64_t turn; /* number of the block to be written next */
    TokenWriter *writer;
    Progress *progress;
    double started;
    uint64_t text_done, stored_done, encoded, stored_documents;
    bool failed; /* guarded by write_lock, as is err */
    Err *err;
} Pipeline;

static void block_free(Block *b) {
    free(b->sizes);
    free(b->text);
    free(b->ids);
    free(b->line_ids);
    tokenizer_cache_destroy(b->cache);
}

static bool block_create(Block *b, const Tokenizer *tokenizer, Err *err) {
    *b = (Block){.cache = tokenizer_cache_create(tokenizer)};
    b->sizes = malloc(BLOCK_LINES * sizeof *b->sizes);
    b->text = malloc(BLOCK_TEXT);
    if (b->sizes && b->text) return true;
    block_free(b);
    return err_set(err, ERR_FAILED, "no memory to encode text");
}

/* ---- reading */

/* After the last line of a shard: the text must be the one that was opened. */
static bool end_shard(Pipeline *p, Block *b, Err *err) {
    const ManifestShard *item = p->items[p->reading];
    FileInfo info;
    b->last = true;
    b->counts = *text_reader_counts(p->reader);
    b->text_hash = text_reader_file_hash(p->reader);
    text_reader_close(p->reader);
    p->reader = NULL;
    if (!io_file_info(&info, item->text_path, err)) return false;
    if (info.size != item->text_size || info.mtime_ns != item->text_mtime_ns) {
        return err_set(err, ERR_FAILED,
                       "%s: changed while it was read; prepare again when it is complete",
                       item->text_path);
    }
    p->bytes_before += info.size;
    p->reading++;
    return true;
}

/* The next block; *more false when all shards have been read.  *number is its place in the order.
 */
static bool read_block(bool *more, uint64_t *number, Block *b, Pipeline *p, Err *err) {
    *more = p->reading < p->count;
    if (!*more) return true;
    *number = p->blocks_read++;
    b->shard = p->reading;
    b->first = p->reader == NULL;
    b->last = false;
    b->lines = b->text_size = 0;
    ManifestShard *item = p->items[p->reading];
    if (!p->reader) {
        FileInfo info;
        if (!io_file_info(&info, item->text_path, err)) return false;
        item->text_size = info.size;
        item->text_mtime_ns = info.mtime_ns;
        if (!text_reader_open(&p->reader, item->text_path, err)) return false;
    }
    while (b->text_size + TEXT_PIECE_MAX <= BLOCK_TEXT && b->lines < BLOCK_LINES) {
        TextEvent event;
        const char *text;
        size_t size;
        if (!text_reader_next(&event, &text, &size, p->reader, err)) return false;
        if (event == TEXT_END) return end_shard(p, b, err);
        memcpy(b->text + b->text_size, text, size);
        b->text_size += size;
        b->sizes[b->lines++] = event == TEXT_LINE ? (uint32_t)size : DOCUMENT_END;
    }
    return true;
}

/* ---- encoding */

static bool encode_block(Block *b, const Tokenizer *tokenizer, Err *err) {
    const char *text = b->text;
    b->id_count = 0;
    b->unknown = 0;
    for (size_t l = 0; l < b->lines; l++) {
        if (b->sizes[l] == DOCUMENT_END) continue;
        size_t count;
        if (!tokenizer_encode_cached(tokenizer, b->cache, &b->line_ids, &count, &b->line_capacity,
                                     text, b->sizes[l], err))
            return false;
        text += b->sizes[l];
        if (b->id_count + count > b->id_capacity) {
            size_t wanted = 2 * (b->id_count + count);
            uint32_t *grown = realloc(b->ids, wanted * sizeof *grown);
            if (!grown) return err_set(err, ERR_FAILED, "no memory for %zu tokens", wanted);
            b->ids = grown;
            b->id_capacity = wanted;
        }
        for (size_t i = 0; i < count; i++) b->unknown += b->line_ids[i] == TOKEN_UNK;
        if (count > 0) memcpy(b->ids + b->id_count, b->line_ids, count * sizeof *b->ids);
        b->id_count += count;
        b->sizes[l] = (uint32_t)count;
    }
    return true;
}

/* ---- writing */

/* Closes the token shard and fills in what is known now. */
static bool finish_shard(Pipeline *p, const Block *b, Err *err) {
    ManifestShard *item = p->items[b->shard];
    TextTotals *totals = &item->totals;
    TokenWriter *writer = p->writer;
    p->writer = NULL;
    if (!token_writer_commit(writer, err)) return false;
    TokenFile file;
    if (!token_file_open(&file, item->path, err)) return false;
    totals->documents = file.documents;
    totals->lines = file.lines;
    totals->tokens = file.count;
    totals->text_bytes = b->counts.text_bytes;
    totals->dropped_bytes = b->counts.dropped_bytes;
    totals->split_lines = b->counts.split_lines;
    totals->empty_documents += b->counts.empty_documents;
    totals->longest_line = b->counts.longest_line;
    item->text_hash = b->text_hash;
    item->payload_hash = file.payload_hash;
    token_file_close(&file);
    if (p->encoded + totals->documents != totals->tokens) {
        return err_set(err, ERR_FAILED,
                       "%s: %llu tokens written, but %llu encoded and %llu document ends",
                       item->path, (unsigned long long)totals->tokens,
                       (unsigned long long)p->encoded, (unsigned long long)totals->documents);
    }
    item->ready = true;
    p->ready->call(p->ready->context);
    return true;
}

static bool write_block(Pipeline *p, const Block *b, Err *err) {
    ManifestShard *item = p->items[b->shard];
    if (b->first) {
        item->totals = (TextTotals){0};
        p->encoded = 0;
        if (!token_writer_open(&p->writer, item->path, tokenizer_vocab_size(p->tokenizer),
                               tokenizer_hash(p->tokenizer), err)) {
            return false;
        }
    }
    const uint32_t *ids = b->ids;
    for (size_t l = 0; l < b->lines; l++) {
        if (b->sizes[l] == DOCUMENT_END) {
            /* lines of characters that the normalisation drops give no token */
            if (!token_writer_document_end(p->writer)) item->totals.empty_documents++;
            continue;
        }
        token_writer_line(p->writer, ids, b->sizes[l]);
        ids += b->sizes[l];
    }
    p->encoded += b->id_count;
    item->totals.unknown += b->unknown;
    p->text_done += b->text_size;
    return !b->last || finish_shard(p, b, err);
}

static void show_progress(Pipeline *p, uint64_t stored_bytes) {
    char detail[64];
    double seconds = clock_now_s() - p->started;
    snprintf(detail, sizeof detail, "%.1f MB of text, %.1f MB/s", (double)p->text_done / 1e6,
             seconds > 0 ? (double)p->text_done / 1e6 / seconds : 0);
    progress_update(p->progress, (double)stored_bytes, detail);
}

static void fail(Pipeline *p, const Err *err) {
    pthread_mutex_lock(&p->write_lock);
    if (!p->failed && p->err) *p->err = *err; /* the first fault is the one reported */
    p->failed = true;
    pthread_cond_broadcast(&p->turn_changed);
    pthread_mutex_unlock(&p->write_lock);
}

static bool has_failed(Pipeline *p) {
    pthread_mutex_lock(&p->write_lock);
    bool failed = p->failed;
    pthread_mutex_unlock(&p->write_lock);
    return failed;
}

static void *work(void *argument) {
    Pipeline *p = argument;
    Block block = {0};
    Err err = {0};
    bool ok = block_create(&block, p->tokenizer, &err), more = true;
    while (ok && more && !has_failed(p)) {
        uint64_t number = 0, stored = 0;
        ok = stop_signal_check(&err);
        if (!ok) break;
        pthread_mutex_lock(&p->read_lock);
        ok = read_block(&more, &number, &block, p, &err);
        stored = p->bytes_before + (p->reader ? text_reader_file_position(p->reader) : 0);
        pthread_mutex_unlock(&p->read_lock);
        if (!ok || !more) break;
        ok = encode_block(&block, p->tokenizer, &err);
        if (!ok) break;
        pthread_mutex_lock(&p->write_lock);
        while (p->turn != number && !p->failed) pthread_cond_wait(&p->turn_changed, &p->write_lock);
        if (!p->failed) {
            ok = write_block(p, &block, &err);
            show_progress(p, stored);
            p->turn++;
            pthread_cond_broadcast(&p->turn_changed);
        }
        pthread_mutex_unlock(&p->write_lock);
    }
    if (!ok) fail(p, &err);
    block_free(&block);
    return NULL;
}

bool encode_shards(ManifestShard *const *items, size_t count, const Tokenizer *tokenizer,
                   size_t threads, const ShardsReady *ready, Err *err) {
    Pipeline p = {.items = items,
                  .count = count,
                  .tokenizer = tokenizer,
                  .ready = ready,
                  .err = err,
                  .started = clock_now_s(),
                  .read_lock = PTHREAD_MUTEX_INITIALIZER,
                  .write_lock = PTHREAD_MUTEX_INITIALIZER,
                  .turn_changed = PTHREAD_COND_INITIALIZER};
    double stored_bytes = 0;
    for (size_t i = 0; i < count; i++) stored_bytes += (double)items[i]->text_size;
    pthread_t *others = calloc(threads, sizeof *others);
    if (!others) return err_set(err, ERR_FAILED, "no memory for %zu threads", threads);
    p.progress = progress_start("prepare", stored_bytes);
    size_t started = 0;
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, &p) == 0)
        started++;
    work(&p); /* this thread works too, so fewer threads than asked for only cost time */
    for (size_t i = 0; i < started; i++) pthread_join(others[i], NULL);
    progress_finish(p.progress);
    text_reader_close(p.reader);
    token_writer_abort(p.writer);
    pthread_mutex_destroy(&p.read_lock);
    pthread_mutex_destroy(&p.write_lock);
    pthread_cond_destroy(&p.turn_changed);
    free(others);
    return !p.failed;
}
