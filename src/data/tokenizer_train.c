#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "encode_shards.h"
#include "io.h"
#include "line_sample.h"
#include "log.h"
#include "spm_shim.h"
#include "text_reader.h"
#include "threads.h"
#include "tokenizer.h"

/* Reads all training shards once. */
static bool sample_shard(LineSample *sample, const char *path, Progress *progress, double before,
                         Err *err) {
    enum { LINES_BETWEEN_UPDATES = 1024 };
    TextReader *reader;
    if (!text_reader_open(&reader, path, err)) return false;
    bool ok = true;
    TextEvent event = TEXT_LINE;
    for (size_t i = 0; ok && event != TEXT_END; i++) {
        const char *text;
        size_t size;
        ok = text_reader_next(&event, &text, &size, reader, err) &&
             (event != TEXT_LINE || line_sample_add(sample, text, size, err));
        if (i % LINES_BETWEEN_UPDATES == 0) {
            progress_update(progress, before + (double)text_reader_file_position(reader), NULL);
        }
    }
    text_reader_close(reader);
    return ok;
}

static bool sample_text(LineSample *sample, const Config *config, Err *err) {
    const PathList *texts = &config->data.train;
    double total = 0, before = 0;
    if (texts->count == 0) {
        return err_set(err, ERR_CONFIG, "data.train names no text shard to train the tokenizer on");
    }
    for (size_t i = 0; i < texts->count; i++) {
        uint64_t size;
        int64_t mtime;
        if (!stat_text(&size, &mtime, texts->items[i], err)) return false;
        total += (double)size;
    }
    line_sample_start(sample, config->train.seed, config->tokenizer.sample_bytes);
    Progress *progress = progress_start("sample text", total);
    bool ok = true;
    for (size_t i = 0; ok && i < texts->count; i++) {
        uint64_t size;
        int64_t mtime;
        ok = stat_text(&size, &mtime, texts->items[i], err) &&
             sample_shard(sample, texts->items[i], progress, before, err);
        before += (double)size;
    }
    progress_finish(progress);
    line_sample_finish(sample);
    if (ok && sample->count == 0) {
        ok = err_set(err, ERR_FAILED,
                     "the %zu shards of data.train hold no text to train the tokenizer on",
                     texts->count);
    }
    return ok;
}

/* sentencepiece trains without saying how far it is, so a second thread says that it still does. */
typedef struct Heartbeat {
    pthread_mutex_t lock;
    pthread_cond_t stop;
    bool stopped;
} Heartbeat;

static void *beat(void *argument) {
    enum { SECONDS = 10 };
    Heartbeat *h = argument;
    struct timespec start, next;
    clock_gettime(CLOCK_REALTIME, &start);
    next = start;
    pthread_mutex_lock(&h->lock);
    while (!h->stopped) {
        next.tv_sec += SECONDS;
        while (!h->stopped && pthread_cond_timedwait(&h->stop, &h->lock, &next) == 0) {}
        if (!h->stopped)
            log_info("training the tokenizer: %ld s so far", (long)(next.tv_sec - start.tv_sec));
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static bool train_on_sample(Bytes *model, const LineSample *sample, const Config *config,
                            size_t threads, Err *err) {
    bool ok = false;
    const char **lines = malloc(sample->count * sizeof *lines);
    size_t *sizes = malloc(sample->count * sizeof *sizes);
    if (!lines || !sizes) {
        err_set(err, ERR_FAILED, "no memory for %zu lines", sample->count);
        goto done;
    }
    for (size_t i = 0; i < sample->count; i++) {
        lines[i] = sample->lines[i].text;
        sizes[i] = sample->lines[i].size;
    }
    SpmTrainSpec spec = {.type = config->tokenizer.type,
                         .vocab_size = config->tokenizer.vocab_size,
                         .threads = threads,
                         .lines = lines,
                         .sizes = sizes,
                         .count = sample->count};
    Heartbeat heartbeat = {.lock = PTHREAD_MUTEX_INITIALIZER, .stop = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    bool beating = pthread_create(&thread, NULL, beat, &heartbeat) == 0;
    ok = spm_train(model, &spec, err);
    if (beating) {
        pthread_mutex_lock(&heartbeat.lock);
        heartbeat.stopped = true;
        pthread_cond_signal(&heartbeat.stop);
        pthread_mutex_unlock(&heartbeat.lock);
        pthread_join(thread, NULL);
    }
    pthread_mutex_destroy(&heartbeat.lock);
    pthread_cond_destroy(&heartbeat.stop);
done:
    free(lines);
    free(sizes);
    return ok;
}

static bool make_folder_of(const char *path, Err *err) {
    char *folder = io_path_beside(path, ".");
    if (!folder) return err_set(err, ERR_FAILED, "%s: no memory", path);
    bool ok = io_make_dirs(folder, err);
    free(folder);
    return ok;
}

bool tokenizer_train(const Config *config, Err *err) {
    bool ok = false;
    const char *path = config->tokenizer.model;
    size_t threads = config->train.threads ? config->train.threads : threads_available();
    LineSample sample = {0};
    Bytes model = {0};
    Tokenizer *tokenizer = NULL;
    if (!make_folder_of(path, err) || !sample_text(&sample, config, err)) goto done;
    log_info("training a tokenizer of %zu pieces on %zu of %llu lines (%.1f MB), none skipped",
             config->tokenizer.vocab_size, sample.count, (unsigned long long)sample.seen,
             (double)sample.bytes / 1e6);
    if (!train_on_sample(&model, &sample, config, threads, err)) goto done;
    if (!tokenizer_load_bytes(&tokenizer, model.data, model.size, path, err)) goto done;
    if (!io_write_file(path, model.data, model.size, err)) goto done;
    log_info("%s: %zu pieces, %s, normalisation %s", path, tokenizer_vocab_size(tokenizer),
             config->tokenizer.type == TOKENIZER_BPE ? "BPE" : "unigram",
             tokenizer_normalizer(tokenizer));
    ok = true;
done:
    tokenizer_destroy(tokenizer);
    io_bytes_free(&model);
    line_sample_free(&sample);
    return ok;
}
