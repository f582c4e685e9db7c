#include "run_log.h"

#include <cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "json_number.h"
#include "log.h"

static const size_t LARGEST_FILE = (size_t)1 << 31;

/* The step of a complete line (newline included) and its time; false if the line is no metrics
 * object. */
static bool line_step(uint64_t *step, double *elapsed_s, const char *line, size_t size) {
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithLengthOpts(line, size, &end, false);
    const cJSON *s = cJSON_GetObjectItemCaseSensitive(object, "step");
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(object, "elapsed_s");
    bool ok =
        end == line + size - 1 && cJSON_IsNumber(s) && s->valuedouble >= 0 && s->valuedouble < 9e15;
    if (ok) *step = (uint64_t)s->valuedouble;
    if (ok && cJSON_IsNumber(t)) *elapsed_s = t->valuedouble;
    cJSON_Delete(object);
    return ok;
}

/* Rewrites the file with the complete lines up to `step`; nothing is written where nothing is
 * dropped. */
static bool drop_lines(double *elapsed_s, const char *path, uint64_t step, Err *err) {
    Bytes old;
    if (!io_is_file(path)) return true;
    if (!io_read_file(&old, path, LARGEST_FILE, err)) return false;
    size_t kept = 0, dropped = 0;
    for (size_t at = 0; at < old.size;) {
        const unsigned char *end = memchr(old.data + at, '\n', old.size - at);
        size_t size = end ? (size_t)(end - (old.data + at)) + 1 : old.size - at;
        uint64_t line = 0;
        double time = *elapsed_s;
        if (end && line_step(&line, &time, (const char *)old.data + at, size) && line <= step) {
            memmove(old.data + kept, old.data + at, size);
            kept += size;
            *elapsed_s = time;
        } else {
            dropped++;
        }
        at += size;
    }
    if (dropped && step)
        log_info("metrics.jsonl: %zu lines after step %" PRIu64
                 " dropped, they will be written again",
                 dropped, step);
    bool ok = !dropped || io_write_file(path, old.data, kept, err);
    io_bytes_free(&old);
    return ok;
}

bool run_log_open(RunLog *out, double *elapsed_s, const char *run_dir, uint64_t step, Err *err) {
    *out = RUN_LOG_CLOSED;
    *elapsed_s = 0;
    size_t size = strlen(run_dir) + sizeof "/metrics.jsonl";
    out->path = malloc(size);
    if (!out->path) return err_set(err, ERR_FAILED, "%s: no memory", run_dir);
    snprintf(out->path, size, "%s/metrics.jsonl", run_dir);
    bool ok = drop_lines(elapsed_s, out->path, step, err);
    if (ok) {
        out->fd = open(out->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        ok = out->fd >= 0 ||
             err_set(err, ERR_FAILED, "%s: cannot open: %s", out->path, strerror(errno));
    }
    if (!ok) run_log_close(out);
    return ok;
}

/* The line with its newline; malloc'd, NULL without memory. */
static char *line_text(const Metrics *line) {
    char *text = NULL;
    cJSON *o = cJSON_CreateObject();
    bool ok = o && json_add_count(o, "step", line->step) &&
              json_add_number(o, "epoch", line->epoch, JSON_EXACT) &&
              json_add_count(o, "tokens", line->tokens) &&
              json_add_number(o, "loss", line->loss, JSON_EXACT) &&
              json_add_number(o, "lr", line->lr, JSON_EXACT) &&
              json_add_number(o, "grad_norm", line->grad_norm, JSON_EXACT) &&
              (line->length == 0 || json_add_count(o, "length", line->length)) &&
              json_add_number(o, "tokens_per_s", line->tokens_per_s, 6) &&
              json_add_number(o, "elapsed_s", line->elapsed_s, 9);
    if (ok && line->evaluated) {
        ok = json_add_number(o, "valid_loss", line->valid_loss, JSON_EXACT) &&
             json_add_number(o, "valid_ppl", line->valid_ppl, JSON_EXACT) &&
             json_add_number(o, "unigram_entropy", line->unigram_entropy, JSON_EXACT);
    }
    if (ok && line->scored) {
        ok = json_add_number(o, "valid_loss", line->valid_loss, JSON_EXACT) &&
             json_add_number(o, "accuracy", line->accuracy, JSON_EXACT) &&
             json_add_number(o, "f1", line->f1, JSON_EXACT) &&
             json_add_number(o, "mcc", line->mcc, JSON_EXACT) &&
             json_add_number(o, "majority", line->majority, JSON_EXACT);
    }
    if (ok) text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    if (!text) return NULL;
    char *with_newline = realloc(text, strlen(text) + 2);
    if (with_newline)
        strcat(with_newline, "\n");
    else
        free(text);
    return with_newline;
}

bool run_log_write(RunLog *log, const Metrics *line, Err *err) {
    char *text = line_text(line);
    if (!text) return err_set(err, ERR_FAILED, "%s: no memory for a line", log->path);
    size_t size = strlen(text);
    ssize_t written = write(log->fd, text, size);
    free(text);
    if (written == (ssize_t)size) return true;
    return err_set(err, ERR_FAILED, "%s: cannot write: %s", log->path,
                   strerror(written < 0 ? errno : ENOSPC));
}

bool run_log_sync(RunLog *log, Err *err) {
    if (fsync(log->fd) == 0 || errno == EINVAL || errno == EROFS)
        return true; /* not every file system can sync */
    return err_set(err, ERR_FAILED, "%s: cannot write: %s", log->path, strerror(errno));
}

void run_log_close(RunLog *log) {
    if (log->fd >= 0) close(log->fd);
    free(log->path);
    *log = RUN_LOG_CLOSED;
}
