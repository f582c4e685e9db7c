#define _XOPEN_SOURCE 700 /* realpath */
#include "prepare.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "encode_shards.h"
#include "file_lock.h"
#include "io.h"
#include "log.h"
#include "manifest.h"
#include "shards.h"
#include "stop_signal.h"
#include "threads.h"
#include "token_file.h"
#include "tokenizer.h"

/* ---- the parts as the config wants them */

/* The token shard's name: the text's own name, for people, and a hash of its path, because two
 * folders may hold the same name. */
static char *token_path(const char *folder, const char *text_path) {
    const char *slash = strrchr(text_path, '/');
    const char *name = slash ? slash + 1 : text_path;
    enum { NAME_SHOWN = 80 }; /* file systems allow 255 bytes */
    char file[NAME_SHOWN + 32];
    snprintf(file, sizeof file, "%.*s.%016llx" TOKENS_ENDING, NAME_SHOWN, name,
             (unsigned long long)io_hash(text_path, strlen(text_path)));
    return io_path_join(folder, file);
}

/* hint: where it is, most likely; lists mostly keep their order, and there may be many thousands of
 * shards */
static const ManifestShard *find_text(const ManifestPart *part, const char *text_path,
                                      size_t hint) {
    if (hint < part->shard_count && strcmp(part->shards[hint].text_path, text_path) == 0)
        return &part->shards[hint];
    for (size_t i = 0; i < part->shard_count; i++) {
        if (strcmp(part->shards[i].text_path, text_path) == 0) return &part->shards[i];
    }
    return NULL;
}

/* Lists the text shards of one part: absolute paths, sizes and times, no tokens yet. */
static bool list_part(ManifestPart *out, const PathList *paths, const char *folder, Err *err) {
    *out = (ManifestPart){0};
    out->shards = calloc(paths->count + 1, sizeof *out->shards);
    if (!out->shards)
        return err_set(err, ERR_FAILED, "no memory for %zu text shards", paths->count);
    for (size_t i = 0; i < paths->count; i++) {
        FileInfo info;
        if (!io_file_info(&info, paths->items[i], err)) return false;
        char *absolute = realpath(paths->items[i], NULL);
        if (!absolute)
            return err_set(err, ERR_FAILED, "%s: cannot open: %s", paths->items[i],
                           strerror(errno));
        if (find_text(out, absolute, 0)) {
            log_warn("%s: named twice, used once", paths->items[i]);
            free(absolute);
            continue;
        }
        ManifestShard *item = &out->shards[out->shard_count++];
        *item = (ManifestShard){
            .text_path = absolute, .text_size = info.size, .text_mtime_ns = info.mtime_ns};
        item->path = token_path(folder, absolute);
        if (!item->path) return err_set(err, ERR_FAILED, "%s: no memory", absolute);
    }
    return true;
}

static bool list_texts(Manifest *out, const Config *config, Err *err) {
    const char *folder = config->data.tokens;
    if (config->data.train.count == 0 && config->data.valid.count == 0) {
        return err_set(err, ERR_CONFIG, "data.train and data.valid name no text shard");
    }
    return list_part(&out->train, &config->data.train, folder, err) &&
           list_part(&out->valid, &config->data.valid, folder, err);
}

/* ---- what is current */

/* Takes over an old shard that still fits its text; a reason otherwise. */
static bool reuse_shard(ManifestShard *item, const ManifestShard *old, const Manifest *manifest,
                        char *reason, size_t size) {
    uint64_t hash = 0;
    TokenFile file = {0};
    if (!old) {
        snprintf(reason, size, "%s is not prepared", item->text_path);
        return false;
    }
    bool same = old->text_size == item->text_size;
    /* a touched or copied file costs one reading, not another preparation */
    if (same && old->text_mtime_ns != item->text_mtime_ns) {
        same = io_hash_file(&hash, item->text_path, NULL) && hash == old->text_hash;
    }
    if (!same) {
        snprintf(reason, size, "%s has changed", item->text_path);
        return false;
    }
    bool intact = strcmp(old->path, item->path) == 0 && token_file_open(&file, item->path, NULL) &&
                  file.payload_hash == old->payload_hash &&
                  file.tokenizer_hash == manifest->tokenizer_hash && file.vocab == manifest->vocab;
    token_file_close(&file);
    if (!intact) {
        snprintf(reason, size, "%s is missing or not the manifest's", item->path);
        return false;
    }
    item->text_hash = old->text_hash;
    item->payload_hash = old->payload_hash;
    item->totals = old->totals;
    item->ready = true;
    return true;
}

/* Where a comparison of the wanted shards with the old manifest stands. */
typedef struct Survey {
    ManifestShard **stale; /* into the new manifest */
    size_t stale_count;
    bool same_list; /* the old manifest has the same texts in the same order, with the same times */
    char reason[512]; /* why something is stale */
} Survey;

static void survey_part(Survey *s, ManifestPart *part, const ManifestPart *old_part,
                        const Manifest *manifest, const Manifest *old) {
    if (part->shard_count != old_part->shard_count) s->same_list = false;
    for (size_t i = 0; i < part->shard_count; i++) {
        ManifestShard *item = &part->shards[i];
        /* a shard that moved between train and valid keeps its tokens */
        const ManifestShard *before = find_text(&old->train, item->text_path, i);
        if (!before) before = find_text(&old->valid, item->text_path, i);
        char reason[sizeof s->reason];
        if (!reuse_shard(item, before, manifest, reason, sizeof reason)) {
            if (s->stale_count == 0) memcpy(s->reason, reason, sizeof reason);
            s->stale[s->stale_count++] = item;
        }
        bool same_place = i < old_part->shard_count && before == &old_part->shards[i];
        if (!same_place || before->text_mtime_ns != item->text_mtime_ns) s->same_list = false;
    }
}

static bool survey(Survey *out, Manifest *manifest, const Manifest *old, Err *err) {
    *out = (Survey){.same_list = old->complete};
    out->stale =
        calloc(manifest->train.shard_count + manifest->valid.shard_count + 1, sizeof *out->stale);
    if (!out->stale) return err_set(err, ERR_FAILED, "no memory for the list of text shards");
    survey_part(out, &manifest->train, &old->train, manifest, old);
    survey_part(out, &manifest->valid, &old->valid, manifest, old);
    if (!out->same_list && out->stale_count == 0)
        snprintf(out->reason, sizeof out->reason, "%s",
                 old->complete ? "the list of text shards changed"
                               : "the last preparation ended early");
    return true;
}

/* The old manifest, or an empty one with the reason when there is none that fits the tokenizer. */
static bool load_old(Manifest *out, const char *folder, uint64_t tokenizer_hash, char *reason,
                     size_t size) {
    Err err = {0};
    char *path = io_path_join(folder, MANIFEST_NAME);
    bool is_there = path && io_is_file(path);
    free(path);
    if (!is_there || !manifest_load(out, folder, &err)) {
        *out = (Manifest){0};
        snprintf(reason, size, is_there ? "%.400s" : "nothing is prepared in %.400s yet",
                 is_there ? err.msg : folder);
        return false;
    }
    if (out->tokenizer_hash == tokenizer_hash) return true;
    snprintf(reason, size, "the tokens in %.300s were made with another tokenizer", folder);
    manifest_free(out);
    return false;
}

bool prepare_is_current(const Config *config, char *reason, size_t reason_size) {
    bool current = false;
    Err err = {0};
    Manifest wanted = {0}, old = {0};
    Survey s = {0};
    snprintf(reason, reason_size, "no reason known");
    if (!io_hash_file(&wanted.tokenizer_hash, config->tokenizer.model, &err) ||
        !list_texts(&wanted, config, &err)) {
        snprintf(reason, reason_size, "%s", err.msg);
        goto done;
    }
    if (!load_old(&old, config->data.tokens, wanted.tokenizer_hash, reason, reason_size)) goto done;
    wanted.vocab = old.vocab;
    if (!survey(&s, &wanted, &old, &err)) {
        snprintf(reason, reason_size, "%s", err.msg);
        goto done;
    }
    current = s.stale_count == 0 && s.same_list;
    snprintf(reason, reason_size, "%s", s.reason);
done:
    free(s.stale);
    manifest_free(&wanted);
    manifest_free(&old);
    return current;
}

/* ---- totals */

/* Sums a part up; its token distribution is counted from the shards. */
static bool total_part(ManifestPart *part, size_t vocab, Err *err) {
    bool ok = false;
    uint64_t *counts = calloc(vocab, sizeof *counts);
    if (!counts) return err_set(err, ERR_FAILED, "no memory for %zu counts", vocab);
    part->totals = (TextTotals){0};
    for (size_t i = 0; i < part->shard_count; i++) {
        TokenFile file;
        if (!stop_signal_check(err)) goto done;
        if (!token_file_open(&file, part->shards[i].path, err)) goto done;
        bool good = token_file_verify(&file, err); /* ids index the counts */
        if (good) token_file_histogram(counts, &file);
        token_file_close(&file);
        if (!good) goto done;
        text_totals_add(&part->totals, &part->shards[i].totals);
    }
    double total = 0, sum = 0;
    for (size_t id = TOKEN_SPECIALS; id < vocab; id++) total += (double)counts[id];
    for (size_t id = TOKEN_SPECIALS; id < vocab; id++) {
        if (counts[id]) sum += (double)counts[id] * log((double)counts[id] / total);
    }
    part->unigram_entropy = total > 0 ? -sum / total : 0;
    ok = true;
done:
    free(counts);
    return ok;
}

static void add_hash(uint64_t *hash, const ManifestPart *part) {
    for (size_t i = 0; i < part->shard_count; i++) {
        unsigned char pair[16];
        io_put_u64(pair, *hash);
        io_put_u64(pair + 8, part->shards[i].payload_hash);
        *hash = io_hash(pair, sizeof pair);
    }
}

static bool total_manifest(Manifest *manifest, Err *err) {
    if (!total_part(&manifest->train, manifest->vocab, err) ||
        !total_part(&manifest->valid, manifest->vocab, err)) {
        return false;
    }
    manifest->data_hash = 0;
    add_hash(&manifest->data_hash, &manifest->train);
    add_hash(&manifest->data_hash, &manifest->valid);
    return true;
}

/* The same content under two names would be trained on and tested with. */
static bool check_contents(const Manifest *manifest, Err *err) {
    for (size_t i = 0; i < manifest->valid.shard_count; i++) {
        const ManifestShard *v = &manifest->valid.shards[i];
        for (size_t j = 0; j < manifest->train.shard_count; j++) {
            const ManifestShard *t = &manifest->train.shards[j];
            if (t->text_hash != v->text_hash || t->text_size != v->text_size || t->text_size == 0)
                continue;
            return err_set(
                err, ERR_FAILED,
                "%s (data.valid) has the same content as %s (data.train): held-out text must "
                "not be trained on",
                v->text_path, t->text_path);
        }
    }
    return true;
}

static bool check_text(const ManifestPart *part, Err *err) {
    for (size_t i = 0; i < part->shard_count; i++) {
        if (part->shards[i].totals.tokens == 0)
            log_warn("%s: holds no text", part->shards[i].text_path);
    }
    if (part->shard_count == 0 || part->totals.tokens > 0) return true;
    if (part->shard_count == 1)
        return err_set(err, ERR_FAILED, "%s: holds no text", part->shards[0].text_path);
    return err_set(err, ERR_FAILED, "%s and %zu more text shards: hold no text",
                   part->shards[0].text_path, part->shard_count - 1);
}

static void log_part(const char *name, const ManifestPart *part) {
    const TextTotals *t = &part->totals;
    if (part->shard_count == 0) return;
    log_info("%s: %zu shards, %llu documents, %llu lines, %llu tokens (%.2f bytes each), unigram "
             "entropy %.3f nats",
             name, part->shard_count, (unsigned long long)t->documents,
             (unsigned long long)t->lines, (unsigned long long)t->tokens,
             t->tokens ? (double)t->text_bytes / (double)t->tokens : 0, part->unigram_entropy);
    if (t->unknown + t->dropped_bytes + t->split_lines + t->empty_documents > 0) {
        log_info("%s: %llu unknown tokens, %llu bytes dropped (control characters, no UTF-8), %llu "
                 "long lines split, "
                 "%llu empty documents",
                 name, (unsigned long long)t->unknown, (unsigned long long)t->dropped_bytes,
                 (unsigned long long)t->split_lines, (unsigned long long)t->empty_documents);
    }
}

/* ---- running */

/* The names a folder's token shards have: "<anything>.<16 hex digits>.tok". */
static bool is_token_name(const char *name) {
    enum { HASH = 16, TAIL = 1 + HASH + sizeof TOKENS_ENDING - 1 };
    size_t length = strlen(name);
    if (length <= TAIL || !name_ends_with(name, TOKENS_ENDING)) return false;
    const char *tail = name + length - TAIL;
    return tail[0] == '.' && strspn(tail + 1, "0123456789abcdef") == HASH;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Token shards that no text of the manifest has: of texts that are no longer wanted. */
static void remove_unlisted(const Manifest *manifest, const char *folder) {
    const ManifestPart *parts[] = {&manifest->train, &manifest->valid};
    size_t count = 0;
    const char **names = calloc(parts[0]->shard_count + parts[1]->shard_count + 1, sizeof *names);
    DIR *dir = names ? opendir(folder) : NULL;
    for (size_t p = 0; dir && p < 2; p++) {
        for (size_t i = 0; i < parts[p]->shard_count; i++)
            names[count++] = strrchr(parts[p]->shards[i].path, '/') + 1;
    }
    if (names) qsort(names, count, sizeof *names, compare_names);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        const char *name = e->d_name;
        if (is_token_name(name) && !bsearch(&name, names, count, sizeof *names, compare_names))
            unlinkat(dirfd(dir), name, 0);
    }
    if (dir) closedir(dir);
    free(names);
}

/* What is done so far, saved now and then: a preparation that is killed loses little. */
typedef struct Saving {
    const Manifest *manifest;
    const char *folder;
    double saved; /* clock_now_s */
} Saving;

static void save_unfinished(void *context) {
    enum { SECONDS_BETWEEN = 10 };
    Saving *s = context;
    if (clock_now_s() - s->saved < SECONDS_BETWEEN) return;
    manifest_save(s->manifest, s->folder, NULL); /* only time is lost without it */
    s->saved = clock_now_s();
}

static bool any_ready(const Manifest *manifest) {
    const ManifestPart *parts[] = {&manifest->train, &manifest->valid};
    for (size_t p = 0; p < 2; p++) {
        for (size_t i = 0; i < parts[p]->shard_count; i++) {
            if (parts[p]->shards[i].ready) return true;
        }
    }
    return false;
}

static bool encode_stale(const Survey *s, const Manifest *manifest, const Config *config,
                         const Tokenizer *tokenizer, Err *err) {
    if (s->stale_count == 0) return true;
    size_t threads = config->train.threads ? config->train.threads : threads_available();
    Saving saving = {manifest, config->data.tokens, clock_now_s()};
    const ShardsReady ready = {save_unfinished, &saving};
    log_info("prepare: %zu of %zu text shards on %zu threads", s->stale_count,
             manifest->train.shard_count + manifest->valid.shard_count, threads);
    return encode_shards(s->stale, s->stale_count, tokenizer, threads, &ready, err);
}

/* Totals and checks of what has been encoded. */
static bool finish_manifest(Manifest *manifest, Err *err) {
    manifest->complete = check_contents(manifest, err) && total_manifest(manifest, err) &&
                         check_text(&manifest->train, err) && check_text(&manifest->valid, err);
    return manifest->complete;
}

static bool begin_manifest(Manifest *out, const Config *config, const Tokenizer *tokenizer,
                           Err *err) {
    out->tokenizer_hash = tokenizer_hash(tokenizer);
    out->vocab = tokenizer_vocab_size(tokenizer);
    out->normalizer = strdup(tokenizer_normalizer(tokenizer));
    return list_texts(out, config, err) && io_make_dirs(config->data.tokens, err);
}

bool prepare_run(const Config *config, Err *err) {
    bool ok = false;
    const char *folder = config->data.tokens;
    Tokenizer *tokenizer = NULL;
    Manifest manifest = {0}, old = {0};
    Survey s = {0};
    char reason[512];
    if (!tokenizer_load(&tokenizer, config->tokenizer.model, err) ||
        !begin_manifest(&manifest, config, tokenizer, err))
        goto done;
    io_remove_stale_temps(folder);
    bool had_old = load_old(&old, folder, manifest.tokenizer_hash, reason, sizeof reason);
    if (!survey(&s, &manifest, &old, err)) goto done;
    if (had_old && s.stale_count == 0 && s.same_list) {
        log_info("%s: %zu token shards are current", folder,
                 manifest.train.shard_count + manifest.valid.shard_count);
        ok = true;
        goto done;
    }
    if (!encode_stale(&s, &manifest, config, tokenizer, err) || !finish_manifest(&manifest, err)) {
        if (any_ready(&manifest)) manifest_save(&manifest, folder, NULL);
        goto done;
    }
    if (!manifest_save(&manifest, folder, err)) goto done;
    remove_unlisted(&manifest, folder);
    log_part("train", &manifest.train);
    log_part("valid", &manifest.valid);
    ok = true;
done:
    free(s.stale);
    manifest_free(&manifest);
    manifest_free(&old);
    tokenizer_destroy(tokenizer);
    return ok;
}

bool prepare_lock(int *lock, const Config *config, Err *err) {
    char *path = io_path_join(config->data.tokens, ".lock");
    *lock = -1;
    bool ok = path ? file_lock(lock, path, err)
                   : err_set(err, ERR_FAILED, "%s: no memory", config->data.tokens);
    free(path);
    return ok;
}
