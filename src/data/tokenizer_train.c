#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "file_lock.h"
#include "io.h"
#include "line_sample.h"
#include "log.h"
#include "spm_shim.h"
#include "stop_signal.h"
#include "text_reader.h"
#include "tokenizer.h"
#include "tokenizer_record.h"

/* The sample is the same whatever the run's seed is: runs of other seeds share a tokenizer. */
enum { SAMPLE_SEED = 1 };

/* Reads a training shard; *hash: io_hash of its file. */
static bool sample_shard(LineSample *sample, uint64_t *hash, const char *path, Progress *progress,
                         double before, Err *err) {
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
            ok = ok && stop_signal_check(err);
        }
    }
    if (ok) *hash = text_reader_file_hash(reader);
    text_reader_close(reader);
    return ok;
}

/* Reads all training shards once; text_hashes: one each. */
static bool sample_text(LineSample *sample, uint64_t *text_hashes, const Config *config, Err *err) {
    const PathList *texts = &config->data.train;
    FileInfo info;
    double total = 0, before = 0;
    if (texts->count == 0)
        return err_set(err, ERR_CONFIG, "data.train names no text shard to train the tokenizer on");
    for (size_t i = 0; i < texts->count; i++) {
        if (!io_file_info(&info, texts->items[i], err)) return false;
        total += (double)info.size;
    }
    line_sample_start(sample, SAMPLE_SEED, config->tokenizer.sample_bytes);
    Progress *progress = progress_start("sample text", total);
    bool ok = true;
    for (size_t i = 0; ok && i < texts->count; i++) {
        ok = io_file_info(&info, texts->items[i], err) &&
             sample_shard(sample, &text_hashes[i], texts->items[i], progress, before, err);
        before += (double)info.size;
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

/* sentencepiece trains without saying how far it is and cannot be stopped.  So it works on a thread
 * of its own, which owns all that it reads; a stop signal leaves that thread behind. */
typedef struct Training {
    pthread_mutex_t lock;
    pthread_cond_t end;
    bool ended, abandoned;
    LineSample sample;
    const char **lines;
    size_t *sizes;
    SpmTrainSpec spec;
    Bytes model;
    Err err;
    bool ok;
} Training;

static void training_free(Training *t) {
    if (!t) return;
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->end);
    line_sample_free(&t->sample);
    io_bytes_free(&t->model);
    free(t->lines);
    free(t->sizes);
    free(t);
}

static Training *training_create(Err *err) {
    Training *t = calloc(1, sizeof *t);
    if (t && pthread_mutex_init(&t->lock, NULL) == 0) {
        if (pthread_cond_init(&t->end, NULL) == 0) return t;
        pthread_mutex_destroy(&t->lock);
    }
    free(t);
    err_set(err, ERR_FAILED, "no memory to train a tokenizer");
    return NULL;
}

static bool training_prepare(Training *t, const Config *config, Err *err) {
    size_t count = t->sample.count;
    t->lines = malloc(count * sizeof *t->lines);
    t->sizes = malloc(count * sizeof *t->sizes);
    if (!t->lines || !t->sizes) return err_set(err, ERR_FAILED, "no memory for %zu lines", count);
    for (size_t i = 0; i < count; i++) {
        t->lines[i] = t->sample.lines[i].text;
        t->sizes[i] = t->sample.lines[i].size;
    }
    t->spec = (SpmTrainSpec){.type = config->tokenizer.type,
                             .vocab_size = config->tokenizer.vocab_size,
                             .lines = t->lines,
                             .sizes = t->sizes,
                             .count = count};
    return true;
}

static void *train(void *argument) {
    Training *t = argument;
    t->ok = spm_train(&t->model, &t->spec, &t->err);
    pthread_mutex_lock(&t->lock);
    t->ended = true;
    bool abandoned = t->abandoned;
    pthread_cond_signal(&t->end);
    pthread_mutex_unlock(&t->lock);
    if (abandoned) training_free(t);
    return NULL;
}

/* False if a stop signal came first, and says every 10 seconds that it still waits. */
static bool wait_for_end(Training *t, Err *err) {
    enum { TENTHS_BETWEEN_LINES = 100 };
    struct timespec start, next;
    clock_gettime(CLOCK_REALTIME, &start);
    pthread_mutex_lock(&t->lock);
    for (long tenths = 1; !t->ended && stop_signal_check(err); tenths++) {
        next = start;
        next.tv_nsec += tenths % 10 * 100000000;
        next.tv_sec += tenths / 10 + next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        while (!t->ended && pthread_cond_timedwait(&t->end, &t->lock, &next) == 0) {}
        if (!t->ended && tenths % TENTHS_BETWEEN_LINES == 0)
            log_info("training the tokenizer: %ld s so far", tenths / 10);
    }
    bool ended = t->ended;
    t->abandoned = !ended;
    pthread_mutex_unlock(&t->lock);
    return ended;
}

/* *training becomes NULL where its thread is left behind. */
static bool run_training(Training **training, Err *err) {
    Training *t = *training;
    pthread_t thread;
    if (pthread_create(&thread, NULL, train, t) != 0) {
        train(t);
    } else if (wait_for_end(t, err)) {
        pthread_join(thread, NULL);
    } else {
        pthread_detach(thread);
        *training = NULL;
        return false;
    }
    if (!t->ok && err) *err = t->err;
    return t->ok;
}

bool tokenizer_train(const Config *config, Err *err) {
    bool ok = false;
    const char *path = config->tokenizer.model;
    uint64_t *hashes = calloc(config->data.train.count + 1, sizeof *hashes);
    char *record = NULL;
    Tokenizer *tokenizer = NULL;
    Training *t = training_create(err);
    if (!t || !hashes) goto done;
    if (!io_make_folder_of(path, err) || !(record = tokenizer_record_lines(config, err)) ||
        !sample_text(&t->sample, hashes, config, err) || !training_prepare(t, config, err))
        goto done;
    log_info("training a tokenizer of %zu pieces on %zu of %llu lines (%.1f MB), none skipped",
             config->tokenizer.vocab_size, t->sample.count, (unsigned long long)t->sample.seen,
             (double)t->sample.bytes / 1e6);
    if (!run_training(&t, err)) goto done;
    if (!tokenizer_load_bytes(&tokenizer, t->model.data, t->model.size, path, err)) goto done;
    if (!io_write_file(path, t->model.data, t->model.size, err) ||
        !tokenizer_record_write(config, record, hashes, err))
        goto done;
    log_info("%s: %zu pieces, %s, normalisation %s", path, tokenizer_vocab_size(tokenizer),
             config->tokenizer.type == TOKENIZER_BPE ? "BPE" : "unigram",
             tokenizer_normalizer(tokenizer));
    ok = true;
done:
    if (t && !hashes) err_set(err, ERR_FAILED, "no memory to train a tokenizer");
    tokenizer_destroy(tokenizer);
    training_free(t);
    free(record);
    free(hashes);
    return ok;
}

bool tokenizer_lock(int *lock, const Config *config, Err *err) {
    size_t size = strlen(config->tokenizer.model) + sizeof ".lock";
    char *path = malloc(size);
    *lock = -1;
    if (!path) return err_set(err, ERR_FAILED, "%s: no memory", config->tokenizer.model);
    snprintf(path, size, "%s.lock", config->tokenizer.model);
    bool ok = file_lock(lock, path, err);
    free(path);
    return ok;
}

bool tokenizer_take_config(Config *config, const Tokenizer *tokenizer, Err *err) {
    static const char *const types[] = {[TOKENIZER_UNIGRAM] = "unigram", [TOKENIZER_BPE] = "bpe"};
    const TokenizerConfig *given = &config->tokenizer;
    TokenizerType type = tokenizer_type(tokenizer);
    size_t pieces = tokenizer_vocab_size(tokenizer);
    if (config_is_given(config, "tokenizer.type") && given->type != type)
        return err_set(err, ERR_CONFIG,
                       "tokenizer.type = %s, but %s is a %s model: leave the key out, or name "
                       "another tokenizer.model",
                       types[given->type], given->model, types[type]);
    if (config_is_given(config, "tokenizer.vocab_size") && given->vocab_size != pieces)
        return err_set(err, ERR_CONFIG,
                       "tokenizer.vocab_size = %zu, but %s has %zu pieces: set it to that, or name "
                       "another tokenizer.model",
                       given->vocab_size, given->model, pieces);
    config->tokenizer.type = type;
    config_set_vocab(config, pieces);
    return true;
}

bool tokenizer_ensure(const Config *config, uint64_t kept, Err *err) {
    const char *path = config->tokenizer.model;
    bool is_given = config_is_given(config, "tokenizer.model");
    uint64_t hash;
    TokenizerState state;
    if (kept && io_is_file(path) && io_hash_file(&hash, path, NULL) && hash == kept) return true;
    if (!tokenizer_state(&state, config, err)) return false;
    if (state == TOKENIZER_CURRENT) return true;
    if (state == TOKENIZER_UNRECORDED) {
        if (!is_given)
            log_warn("%s: not known what text it was trained on; `linformer tokenizer` trains it "
                     "on this one",
                     path);
        return true;
    }
    if (state == TOKENIZER_STALE && is_given) {
        log_warn("%s: was trained on other text or with other settings than the config names, and "
                 "is used as it is; `linformer tokenizer` trains it again",
                 path);
        return true;
    }
    if (is_given)
        log_warn("tokenizer.model = %s: no such file: a new tokenizer of %zu pieces is trained "
                 "there, on data.train",
                 path, config->tokenizer.vocab_size);
    else if (state == TOKENIZER_STALE)
        log_warn("%s: was trained on other text or with other settings, and is trained again; "
                 "where an earlier run is to go on, give this one a tokenizer.model and "
                 "data.tokens of its own",
                 path);
    else
        log_info("tokenizer: %s is missing, training it", path);
    return tokenizer_train(config, err);
}
