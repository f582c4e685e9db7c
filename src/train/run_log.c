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
#include "json_fields.h"
#include "log.h"

enum { LINE_SIZE = 1 << 16 }; /* a line of metrics has some hundred bytes */

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

/* The lines of a file one after the other, in a buffer of fixed size. */
typedef struct Lines {
    FILE *file;
    char buffer[LINE_SIZE];
    size_t begin, end; /* of what has been read and not yet handed out, the current line included */
    size_t size;       /* of the current line */
    bool complete;     /* it is a whole line with its newline */
    bool cut;          /* no newline behind it: its rest follows, or the file ends */
} Lines;

/* The next line, or a piece of one too long for the buffer; false at the end of the file. */
static bool next_line(Lines *l) {
    const bool inside = l->cut;
    const char *newline;
    l->begin += l->size;
    while (!(newline = memchr(l->buffer + l->begin, '\n', l->end - l->begin))) {
        if (l->begin > 0) {
            memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
            l->end -= l->begin;
            l->begin = 0;
        }
        size_t got = fread(l->buffer + l->end, 1, LINE_SIZE - l->end, l->file);
        if (got == 0) break; /* the buffer is full, or the file ends */
        l->end += got;
    }
    l->size = newline ? (size_t)(newline - (l->buffer + l->begin)) + 1 : l->end - l->begin;
    l->cut = !newline;
    l->complete = newline && !inside;
    return l->size > 0;
}

/* What a continued run keeps of the file. */
typedef struct Kept {
    size_t dropped; /* lines that go */
    bool at_end;    /* nothing is kept behind the first of them */
    uint64_t bytes; /* kept */
    double elapsed_s;
} Kept;

/* copy NULL: only counts. */
static bool keep_lines(Kept *out, AtomicFile *copy, const char *path, uint64_t step, Err *err) {
    *out = (Kept){.at_end = true};
    Lines lines = {.file = fopen(path, "rb")};
    if (!lines.file) return err_set(err, ERR_FAILED, "%s: cannot open: %s", path, strerror(errno));
    for (bool inside = false; next_line(&lines); inside = lines.cut) {
        uint64_t at = 0;
        double time = out->elapsed_s;
        const char *text = lines.buffer + lines.begin;
        if (lines.complete && line_step(&at, &time, text, lines.size) && at <= step) {
            if (copy) io_atomic_write(copy, text, lines.size);
            out->at_end &= out->dropped == 0;
            out->bytes += lines.size;
            out->elapsed_s = time;
        } else if (!inside) {
            out->dropped++;
        }
    }
    bool ok = !ferror(lines.file);
    fclose(lines.file);
    return ok || err_set(err, ERR_FAILED, "%s: cannot read: %s", path, strerror(errno));
}

/* Copies what is kept: only where damage is followed by good lines, else the end is cut off. */
static bool rewrite(const char *path, uint64_t step, Err *err) {
    AtomicFile copy;
    Kept kept;
    if (!io_atomic_open(&copy, path, err)) return false;
    bool ok = keep_lines(&kept, &copy, path, step, err) && io_atomic_commit(&copy, err);
    io_atomic_abort(&copy);
    return ok;
}

/* Leaves the complete lines up to `step`; nothing is written where nothing is dropped. */
static bool drop_lines(double *elapsed_s, const char *path, uint64_t step, Err *err) {
    Kept kept;
    if (!io_is_file(path)) return true;
    if (!keep_lines(&kept, NULL, path, step, err)) return false;
    *elapsed_s = kept.elapsed_s;
    if (kept.dropped == 0) return true;
    if (step)
        log_info("metrics.jsonl: %zu lines after step %" PRIu64
                 " dropped, they will be written again",
                 kept.dropped, step);
    if (!kept.at_end) return rewrite(path, step, err);
    return truncate(path, (off_t)kept.bytes) == 0 ||
           err_set(err, ERR_FAILED, "%s: cannot write: %s", path, strerror(errno));
}

bool run_log_open(RunLog *out, double *elapsed_s, const char *run_dir, uint64_t step, Err *err) {
    *out = RUN_LOG_CLOSED;
    *elapsed_s = 0;
    out->path = io_path_join(run_dir, "metrics.jsonl");
    if (!out->path) return err_set(err, ERR_FAILED, "%s: no memory", run_dir);
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
