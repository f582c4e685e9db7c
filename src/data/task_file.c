#include "task_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "task_internal.h"

enum { CHUNK = 1 << 18, LABEL_LIMIT = 100 };

/* Texts and names that rows point to. */
struct TaskStorage {
    char **blocks;
    size_t count, capacity;
    char *chunk; /* of the last small block, what is not used */
    size_t left;
};

static const TaskSpec specs[] = {
    [TASK_SST2] = {.name = "sst2",
                   .text = {"sentence"},
                   .label = "label",
                   .classes = {"negative", "positive"},
                   .words = {{"0"}, {"1"}}},
    [TASK_QNLI] = {.name = "qnli",
                   .text = {"question", "sentence"},
                   .label = "label",
                   .classes = {"entailment", "not_entailment"}},
    [TASK_QQP] = {.name = "qqp",
                  .text = {"question1", "question2"},
                  .label = "is_duplicate",
                  .classes = {"not_duplicate", "duplicate"},
                  .words = {{"0"}, {"1"}}},
    [TASK_IMDB] = {.name = "imdb",
                   .text = {"text"},
                   .label = "label",
                   .classes = {"negative", "positive"},
                   .words = {{"0", "neg"}, {"1", "pos"}}},
};

TaskSpec task_spec(const FinetuneConfig *config) {
    assert(config->task != TASK_NONE);
    if (config->task != TASK_CUSTOM) return specs[config->task];
    const char *text = config->text, *pair = config->text_pair, *label = config->label;
    /* the configuration's check refuses a column with two meanings */
    assert(text && label && strcmp(text, label) != 0);
    assert(!pair || (strcmp(pair, text) != 0 && strcmp(pair, label) != 0));
    return (TaskSpec){.name = "custom", .text = {text, pair}, .label = label};
}

bool task_is_pair(const FinetuneConfig *config) {
    return task_spec(config).text[1] != NULL;
}

/* ---- storage */

bool task_adopt(TaskReader *r, char *block, Err *err) {
    struct TaskStorage *s = r->out->storage;
    if (s->count == s->capacity) {
        size_t wanted = s->capacity ? 2 * s->capacity : 16;
        char **grown = realloc(s->blocks, wanted * sizeof *grown);
        if (!grown) {
            free(block);
            return err_set(err, ERR_FAILED, "no memory for the texts of a task");
        }
        s->blocks = grown;
        s->capacity = wanted;
    }
    s->blocks[s->count++] = block;
    return true;
}

const char *task_store(TaskReader *r, const char *bytes, size_t size, Err *err) {
    struct TaskStorage *s = r->out->storage;
    if (size > s->left) {
        /* a large text has a block of its own, so that little of a chunk is lost */
        size_t wanted = size > CHUNK / 4 ? size : CHUNK;
        char *block = malloc(wanted);
        if (!block) {
            err_set(err, ERR_FAILED, "no memory for the texts of a task");
            return NULL;
        }
        if (!task_adopt(r, block, err)) return NULL;
        if (wanted == size) return memcpy(block, bytes, size);
        s->chunk = block;
        s->left = wanted;
    }
    if (size == 0) return "";
    char *out = memcpy(s->chunk, bytes, size);
    s->chunk += size;
    s->left -= size;
    return out;
}

void task_file_free(TaskFile *file) {
    struct TaskStorage *s = file->storage;
    for (size_t i = 0; s && i < s->count; i++) free(s->blocks[i]);
    if (s) free(s->blocks);
    free(s);
    free(file->rows);
    label_set_free(&file->labels);
    *file = (TaskFile){0};
}

/* ---- rows */

static Span trim(Span word) {
    while (word.size > 0 && word.text[0] == ' ') word = (Span){word.text + 1, word.size - 1};
    while (word.size > 0 && word.text[word.size - 1] == ' ') word.size--;
    return word;
}

static bool is_empty(Span text) {
    for (size_t i = 0; i < text.size; i++) {
        bool space = text.text[i] == ' ' || (text.text[i] >= '\t' && text.text[i] <= '\r');
        if (!space) return false;
    }
    return true;
}

/* A label that an open table does not have yet. */
static bool add_class(int32_t *class, TaskReader *r, Span word, size_t line, Err *err) {
    const char *name = r->spec.label;
    if (word.size > LABEL_LIMIT) {
        return task_fail(r, line, err,
                         "a label of %zu bytes, wanted at most %d: is finetune.label: %.60s right?",
                         word.size, LABEL_LIMIT, name);
    }
    for (size_t i = 0; i < word.size; i++) {
        if ((unsigned char)word.text[i] < 0x20 || word.text[i] == 0x7F)
            return task_fail(r, line, err, "a control character in the label, wanted a word");
    }
    if (r->table.count == TASK_MAX_CLASSES) {
        return task_fail(r, line, err,
                         "more than %d different labels so far: is finetune.label: %.60s right?",
                         TASK_MAX_CLASSES, name);
    }
    *class = (int32_t)r->table.count;
    return label_table_add(&r->table, word, err);
}

static bool find_class(int32_t *class, TaskReader *r, Span word, size_t line, Err *err) {
    char shown[48], known[400];
    *class = TASK_NO_LABEL;
    if (word.size == 0) {
        return task_fail(r, line, err,
                         "no label, wanted one in every row: complete it or remove "
                         "the row");
    }
    *class = label_table_find(&r->table, word);
    if (*class != TASK_NO_LABEL) return true;
    if (r->table.open) return add_class(class, r, word, line, err);
    label_table_describe(known, sizeof known, &r->table);
    if (r->spec.classes[0] && word.size == 2 && memcmp(word.text, "-1", 2) == 0) {
        return task_fail(r, line, err,
                         "the label is -1, which stands for none in GLUE's test files; wanted %s: "
                         "train and evaluate on train.tsv and dev.tsv",
                         known);
    }
    return task_fail(r, line, err, "the label '%s' is not one of the known: %s",
                     task_show(shown, sizeof shown, word), known);
}

bool task_add_row(TaskReader *r, const Span text[2], const Span *label, size_t line, Err *err) {
    TaskFile *out = r->out;
    TaskRow row = {.label = TASK_NO_LABEL, .place = r->place, .line = line};
    for (size_t t = 0; t < 2 && r->spec.text[t]; t++) {
        row.text[t] = text[t].text;
        row.size[t] = text[t].size;
        if (r->labels == TASK_LABELS_NEEDED && is_empty(text[t])) {
            return task_fail(r, line, err,
                             "the text '%.60s' is empty: complete it or remove the row",
                             r->spec.text[t]);
        }
    }
    if (label && r->spec.label && !find_class(&row.label, r, trim(*label), line, err)) return false;
    if (out->count == r->capacity) {
        size_t wanted = r->capacity ? 2 * r->capacity : 1024;
        TaskRow *grown = realloc(out->rows, wanted * sizeof *grown);
        if (!grown) return err_set(err, ERR_FAILED, "no memory for %zu rows", wanted);
        out->rows = grown;
        r->capacity = wanted;
    }
    out->rows[out->count++] = row;
    return true;
}

/* ---- files */

static bool read_stream(TaskReader *r, ByteStream *stream, Err *err) {
    bool imdb = strcmp(r->spec.name, "imdb") == 0;
    if (imdb && task_is_review(r->place)) return task_read_review(r, stream, err);
    return (name_is_json_lines(r->place) ? task_read_jsonl : task_read_tsv)(r, stream, err);
}

bool task_read_path(TaskReader *r, const char *path, Err *err) {
    ByteStream *stream;
    r->place = task_store(r, path, strlen(path) + 1, err);
    if (!r->place) return false;
    if (strcmp(r->spec.name, "imdb") == 0 && io_is_dir(path))
        return task_read_review_folder(r, r->place, err);
    if (!byte_stream_open(&stream, path, err)) return false;
    bool ok = read_stream(r, stream, err);
    byte_stream_close(stream);
    return ok;
}

/* A classifier learns nothing from one class. */
static bool check_classes(const TaskReader *r, Err *err) {
    const TaskFile *f = r->out;
    for (size_t i = 1; i < f->count; i++) {
        if (f->rows[i].label != f->rows[0].label) return true;
    }
    return err_set(err, ERR_FAILED,
                   "%.400s: %s of the training data ha%s the label '%.100s', wanted at least two "
                   "classes",
                   f->rows[0].place, f->count == 1 ? "the only row" : "every row",
                   f->count == 1 ? "s" : "s", f->labels.names[f->rows[0].label]);
}

static bool reader_start(TaskReader *r, TaskFile *out, const FinetuneConfig *config,
                         const LabelSet *known, TaskLabels labels, Err *err) {
    *out = (TaskFile){.pairs = task_is_pair(config)};
    *r = (TaskReader){.out = out, .spec = task_spec(config), .labels = labels, .unit = "column"};
    if (labels == TASK_LABELS_IGNORED) r->spec.label = NULL;
    out->storage = calloc(1, sizeof *out->storage);
    if (!out->storage) return err_set(err, ERR_FAILED, "no memory for the texts of a task");
    return label_table_create(&r->table, &r->spec, known, err);
}

/* Completes out, or empties it. */
static bool reader_end(TaskReader *r, bool ok, const LabelSet *known, Err *err) {
    TaskFile *out = r->out;
    ok = ok && label_table_finish(&out->labels, out->rows, out->count, &r->table, err);
    if (ok && r->labels == TASK_LABELS_NEEDED && !known) ok = check_classes(r, err);
    label_table_free(&r->table);
    if (!ok) task_file_free(out);
    return ok;
}

bool task_file_read(TaskFile *out, const FinetuneConfig *config, const LabelSet *known,
                    const PathList *paths, TaskLabels labels, Err *err) {
    TaskReader r;
    bool ok = reader_start(&r, out, config, known, labels, err);
    if (ok && paths->count == 0)
        ok = err_set(err, ERR_FAILED, "no files of task %s to read", r.spec.name);
    for (size_t i = 0; ok && i < paths->count; i++) ok = task_read_path(&r, paths->items[i], err);
    return reader_end(&r, ok, known, err);
}

bool task_file_read_memory(TaskFile *out, const FinetuneConfig *config, const LabelSet *known,
                           const void *data, size_t size, const char *name, TaskLabels labels,
                           Err *err) {
    TaskReader r;
    ByteStream *stream = NULL;
    bool ok = reader_start(&r, out, config, known, labels, err);
    if (ok) r.place = task_store(&r, name, strlen(name) + 1, err);
    ok = ok && r.place && byte_stream_open_memory(&stream, data, size, r.place, err) &&
         read_stream(&r, stream, err);
    byte_stream_close(stream);
    return reader_end(&r, ok, known, err);
}
