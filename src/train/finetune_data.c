/* The rows of a task: read, held out, encoded, described. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finetune_internal.h"
#include "io.h"
#include "log.h"
#include "rng.h"

enum { CLASSES_SHOWN = 10 };

/* ---- holdout */

bool finetune_is_held_out(size_t row, size_t count, double share) {
    double wanted = round(share * (double)count);
    size_t held = wanted < 1 ? 1 : (size_t)wanted;
    if (held >= count) held = count - 1;
    return rng_permute(rng_key(0, RNG_HOLDOUT, 0, 0), row, count) < held;
}

/* Moves the held-out rows of `file` to *held, whose rows are malloc'd and whose texts stay the
 * file's. */
static bool hold_out(TaskFile *held, TaskFile *file, double share, Err *err) {
    size_t count = file->count, kept = 0;
    if (count < 2)
        return err_set(err, ERR_FAILED,
                       "data.train: %zu row, of which finetune.holdout can take none: wanted at "
                       "least 2",
                       count);
    *held = (TaskFile){.rows = malloc(count * sizeof *held->rows), .pairs = file->pairs};
    if (!held->rows) return err_set(err, ERR_FAILED, "no memory for %zu rows", count);
    for (size_t i = 0; i < count; i++) {
        if (finetune_is_held_out(i, count, share))
            held->rows[held->count++] = file->rows[i];
        else
            file->rows[kept++] = file->rows[i];
    }
    file->count = kept;
    return true;
}

/* ---- reading */

/* Rows to train on and rows to evaluate on. */
typedef struct Rows {
    TaskFile file[2]; /* those held out have their texts in file[0] */
    TaskData data[2];
} Rows;

static void rows_free(Rows *rows) {
    for (size_t p = 2; p-- > 0;) {
        task_file_free(&rows->file[p]);
        task_data_free(&rows->data[p]);
    }
}

/* known: classes, or NULL for those of the training rows. */
static bool read_rows(Rows *out, const Config *config, const LabelSet *known,
                      const Tokenizer *tokenizer, Err *err) {
    const FinetuneConfig *task = &config->finetune;
    const char *const names[] = {"data.train", task->holdout > 0 ? "holdout" : "data.valid"};
    TaskFile *train = &out->file[0], *valid = &out->file[1];
    bool ok = task_file_read(train, task, known, &config->data.train, TASK_LABELS_NEEDED, err);
    if (ok && task->holdout > 0)
        ok = hold_out(valid, train, task->holdout, err);
    else if (ok)
        ok = task_file_read(valid, task, &train->labels, &config->data.valid, TASK_LABELS_NEEDED,
                            err);
    for (size_t p = 0; ok && p < 2; p++)
        ok =
            task_data_encode(&out->data[p], &out->file[p], task, tokenizer, config->model.n, err) ||
            err_context(err, "%s", names[p]);
    return ok;
}

static bool hash_rows(uint64_t *out, const TaskData parts[2], Err *err) {
    IoHash *hash = io_hash_begin();
    if (!hash) return err_set(err, ERR_FAILED, "no memory for a checksum");
    for (size_t p = 0; p < 2; p++) {
        const TaskData *data = &parts[p];
        io_hash_add(hash, data->start, (data->count + 1) * sizeof *data->start);
        io_hash_add(hash, data->ids, data->start[data->count] * sizeof *data->ids);
        io_hash_add(hash, data->labels, data->count * sizeof *data->labels);
    }
    *out = io_hash_end(hash);
    return true;
}

bool finetune_read_held_out(TaskFile *out, const Checkpoint *checkpoint, const Tokenizer *tokenizer,
                            Err *err) {
    Config config = checkpoint->config; /* shares its strings; only the list of files is its own */
    const FinetuneConfig *task = &config.finetune;
    Rows rows = {0};
    uint64_t hash = 0;
    *out = (TaskFile){0};
    config.data.train = (PathList){0};
    bool ok = config_expand_task_globs(&config.data.train, &config.data.train_globs, "data.train",
                                       task->task, err) &&
              read_rows(&rows, &config, &checkpoint->labels, tokenizer, err) &&
              hash_rows(&hash, rows.data, err);
    if (ok && hash != checkpoint->state.data_hash)
        ok = err_set(err, ERR_FAILED,
                     "%s: are not the rows that the checkpoint was trained on (hash %016" PRIx64
                     ", that was %016" PRIx64 "), so those held out cannot be told",
                     config.data.train_globs.items[0].pattern, hash, checkpoint->state.data_hash);
    if (ok) { /* the texts go with them */
        *out = rows.file[1];
        out->storage = rows.file[0].storage;
        rows.file[0].storage = NULL;
        rows.file[1] = (TaskFile){0};
    } else {
        err_context(err, "the rows that finetune.holdout took out of data.train");
    }
    rows_free(&rows);
    config_paths_free(&config.data.train);
    return ok;
}

/* ---- what they are */

static int compare_sizes(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* The lower of two middle lengths; 0 without memory, for it is only shown. */
static size_t median_length(const TaskData *data) {
    size_t *lengths = malloc(data->count * sizeof *lengths);
    if (!lengths) return 0;
    for (size_t i = 0; i < data->count; i++) lengths[i] = task_data_length(data, i);
    qsort(lengths, data->count, sizeof *lengths, compare_sizes);
    size_t median = lengths[(data->count - 1) / 2];
    free(lengths);
    return median;
}

/* Rows of each class. */
typedef struct ClassCounts {
    size_t *of;    /* (classes) */
    size_t top;    /* the most frequent class */
    size_t absent; /* classes without a row */
} ClassCounts;

static bool count_classes(ClassCounts *out, const LabelSet *labels, const TaskData *data,
                          Err *err) {
    *out = (ClassCounts){.of = calloc(labels->count, sizeof *out->of)};
    if (!out->of) return err_set(err, ERR_FAILED, "no memory for %zu classes", labels->count);
    for (size_t i = 0; i < data->count; i++) out->of[data->labels[i]]++;
    for (size_t c = 0; c < labels->count; c++) {
        if (out->of[c] > out->of[out->top]) out->top = c;
        out->absent += out->of[c] == 0;
    }
    return true;
}

/* "negative 120, positive 130"; the last of many classes are only counted. */
static void show_counts(char *out, size_t size, const LabelSet *labels, const ClassCounts *counts) {
    size_t used = 0;
    for (size_t c = 0; c < labels->count && c < CLASSES_SHOWN && used < size; c++)
        used += (size_t)snprintf(out + used, size - used, "%s%.40s %zu", c ? ", " : "",
                                 labels->names[c], counts->of[c]);
    if (labels->count > CLASSES_SHOWN && used < size)
        snprintf(out + used, size - used, ", and %zu classes more", labels->count - CLASSES_SHOWN);
}

static void log_part(const Finetune *f, const TaskData *data, const char *name,
                     const ClassCounts *counts) {
    char shown[640] = "";
    show_counts(shown, sizeof shown, &f->labels, counts);
    log_info("%s: %zu rows (%s); %zu tokens at the median, %zu at most, %zu rows cut to n = %zu",
             name, data->count, shown, median_length(data), data->longest, data->cut,
             f->config.model.n);
}

static void warn_of_absent(const LabelSet *labels, const char *name, const ClassCounts *counts) {
    if (counts->absent)
        log_warn("%s has no row of %zu of the %zu classes", name, counts->absent, labels->count);
}

/* There must be classes to tell apart. */
static bool describe_train(const Finetune *f, Err *err) {
    static const char name[] = "data.train";
    ClassCounts counts;
    if (!count_classes(&counts, &f->labels, &f->train, err)) return false;
    log_part(f, &f->train, name, &counts);
    bool ok = counts.of[counts.top] < f->train.count;
    if (ok)
        warn_of_absent(&f->labels, name, &counts);
    else
        err_set(err, ERR_FAILED,
                "%s: all %zu rows are of the class %.60s: wanted rows of at least two classes to "
                "tell apart",
                name, f->train.count, f->labels.names[counts.top]);
    free(counts.of);
    return ok;
}

/* Sets f->majority. */
static bool describe_valid(Finetune *f, Err *err) {
    const char *name = f->config.finetune.holdout > 0 ? "held out of data.train" : "data.valid";
    ClassCounts counts;
    if (!count_classes(&counts, &f->labels, &f->valid, err)) return false;
    log_part(f, &f->valid, name, &counts);
    warn_of_absent(&f->labels, name, &counts);
    f->majority = (double)counts.of[counts.top] / (double)f->valid.count;
    log_info("always answering the most frequent class: accuracy %.4f", f->majority);
    free(counts.of);
    return true;
}

bool finetune_read_data(Finetune *f, Err *err) {
    Rows rows = {0};
    bool ok = read_rows(&rows, &f->config, NULL, f->tokenizer, err) &&
              hash_rows(&f->data_hash, rows.data, err) &&
              label_set_copy(&f->labels, &rows.file[0].labels, err);
    if (ok) {
        f->train = rows.data[0];
        f->valid = rows.data[1];
        memset(rows.data, 0, sizeof rows.data);
    }
    rows_free(&rows);
    return ok && describe_train(f, err) && describe_valid(f, err);
}
