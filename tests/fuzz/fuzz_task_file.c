/* Any bytes as files of tasks: TSV and JSON lines, with and without labels.  What is read holds
 * what its header promises, and written again it reads equal. */
#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/data/utf8.h"
#include "fuzz.h"
#include "task_file.h"

static void must(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "property violated: %s\n", what);
    abort();
}

static void check_text(const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        size_t length = utf8_length(p + i, size - i);
        must(length > 0, "texts are UTF-8");
        must(p[i] != 0, "texts have no NUL");
        i += length;
    }
}

static void check_rows(const TaskFile *f, TaskLabels labels) {
    must(f->count > 0, "a file has rows");
    for (size_t i = 0; i < f->count; i++) {
        const TaskRow *row = &f->rows[i];
        must((row->text[1] != NULL) == f->pairs, "two texts are a pair");
        for (size_t t = 0; t < 1 + (size_t)f->pairs; t++) check_text(row->text[t], row->size[t]);
        must(row->label >= TASK_NO_LABEL && row->label < (int32_t)f->labels.count, "a known class");
        must(row->line > 0 && (i == 0 || row->line > row[-1].line), "lines ascend");
        must((row->label != TASK_NO_LABEL) == (labels == TASK_LABELS_NEEDED),
             "labels are those that were needed");
    }
}

/* The same rows and names. */
static void check_equal(const TaskFile *a, const TaskFile *b) {
    must(a->count == b->count && a->labels.count == b->labels.count, "as many rows and classes");
    for (size_t l = 0; l < a->labels.count; l++)
        must(!strcmp(a->labels.names[l], b->labels.names[l]), "the same names");
    for (size_t i = 0; i < a->count; i++) {
        const TaskRow *x = &a->rows[i], *y = &b->rows[i];
        must(x->label == y->label, "the same class");
        for (size_t t = 0; t < 1 + (size_t)a->pairs; t++) {
            must(x->size[t] == y->size[t] && !memcmp(x->text[t], y->text[t], x->size[t]),
                 "the same text");
        }
    }
}

static void add_text(cJSON *object, const char *name, const char *text, size_t size) {
    char *copy = malloc(size + 1);
    must(copy != NULL, "memory");
    if (size > 0) memcpy(copy, text, size);
    copy[size] = 0;
    must(cJSON_AddStringToObject(object, name, copy) != NULL, "memory");
    free(copy);
}

static void write_as_json(const TaskFile *f, const FinetuneConfig *config, const LabelSet *known,
                          TaskLabels labels) {
    size_t size = 0;
    char *text = NULL;
    TaskFile again;
    Err err = {0};
    for (size_t i = 0; i < f->count; i++) {
        const TaskRow *row = &f->rows[i];
        cJSON *object = cJSON_CreateObject();
        add_text(object, config->text, row->text[0], row->size[0]);
        if (f->pairs) add_text(object, config->text_pair, row->text[1], row->size[1]);
        if (row->label != TASK_NO_LABEL)
            cJSON_AddStringToObject(object, config->label, f->labels.names[row->label]);
        char *line = cJSON_PrintUnformatted(object);
        must(line != NULL, "cJSON writes");
        text = realloc(text, size + strlen(line) + 2);
        must(text != NULL, "memory");
        size += (size_t)sprintf(text + size, "%s\n", line);
        cJSON_free(line);
        cJSON_Delete(object);
    }
    bool ok = task_file_read_memory(&again, config, known, text, size, "y.jsonl", labels, &err);
    if (!ok) fprintf(stderr, "%s\n%s", err.msg, text);
    must(ok, "what was read can be written and read again");
    check_equal(f, &again);
    task_file_free(&again);
    free(text);
}

static void try(const uint8_t *data, size_t size, const char *name, const FinetuneConfig *config,
                const LabelSet *known, TaskLabels labels) {
    TaskFile f;
    Err err = {0};
    if (!task_file_read_memory(&f, config, known, data, size, name, labels, &err)) {
        must(strncmp(err.msg, name, strlen(name)) == 0, "the message names the file");
        check_text(err.msg, strlen(err.msg));
        must(f.rows == NULL && f.storage == NULL && f.labels.names == NULL, "nothing is left");
        return;
    }
    check_rows(&f, labels);
    if (config->task == TASK_CUSTOM) write_as_json(&f, config, known, labels);
    task_file_free(&f);
}

int fuzz_one(const uint8_t *data, size_t size) {
    static char text[] = "text", other[] = "other", label[] = "label", a[] = "a", b[] = "b";
    char *names[] = {a, b};
    LabelSet known = {names, 2};
    FinetuneConfig one = {.task = TASK_CUSTOM, .text = text, .label = label}, two = one;
    two.text_pair = other;
    FinetuneConfig sst2 = {.task = TASK_SST2}, imdb = {.task = TASK_IMDB};
    static const char *const forms[] = {"x.tsv", "x.jsonl"};
    for (size_t i = 0; i < 2; i++) {
        try(data, size, forms[i], &one, NULL, TASK_LABELS_NEEDED);
        try(data, size, forms[i], &two, NULL, TASK_LABELS_NEEDED);
        try(data, size, forms[i], &one, &known, TASK_LABELS_IGNORED);
        try(data, size, forms[i], &two, NULL, TASK_LABELS_IGNORED);
        try(data, size, forms[i], &sst2, NULL, TASK_LABELS_NEEDED);
    }
    try(data, size, "pos/1_7.txt", &imdb, &known, TASK_LABELS_NEEDED);
    return 0;
}
