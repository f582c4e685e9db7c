/* The columns that a task reads, among those that a file has. */
#include <stdio.h>
#include <string.h>

#include "task_internal.h"

enum { SHOWN_COLUMNS = 12, SHOWN_NAME = 32, LIST_SIZE = SHOWN_COLUMNS * (SHOWN_NAME + 4) };

static bool is_named(Span name, const char *wanted) {
    return strlen(wanted) == name.size && memcmp(wanted, name.text, name.size) == 0;
}

static bool has_column(const Span *names, size_t count, const char *wanted) {
    for (size_t i = 0; i < count; i++) {
        if (is_named(names[i], wanted)) return true;
    }
    return false;
}

/* The task other than r's whose texts the columns hold, or NULL; none for custom, whose columns are
 * chosen on purpose. */
static const char *task_of_columns(size_t *texts, const TaskReader *r, const Span *names,
                                   size_t count) {
    static const TaskKind kinds[] = {TASK_QNLI, TASK_QQP, TASK_SST2, TASK_IMDB}; /* pairs first */
    bool custom = r->spec.classes[0] == NULL;
    for (size_t i = 0; !custom && i < sizeof kinds / sizeof *kinds; i++) {
        TaskSpec other = task_spec(&(FinetuneConfig){.task = kinds[i]});
        bool all = true;
        *texts = 0;
        for (size_t t = 0; t < 2 && other.text[t]; t++, ++*texts)
            all = all && has_column(names, count, other.text[t]);
        if (all && strcmp(other.name, r->spec.name) != 0) return other.name;
    }
    return NULL;
}

static void list_columns(char *out, size_t size, const Span *names, size_t count) {
    out[0] = 0;
    for (size_t i = 0; i < count && i < SHOWN_COLUMNS; i++) {
        char name[SHOWN_NAME];
        if (i > 0) task_append(out, size, ", ");
        task_append(out, size, task_show(name, sizeof name, names[i]));
    }
    if (count > SHOWN_COLUMNS) task_append(out, size, ", ...");
    if (count == 0) task_append(out, size, "none");
}

static void list_wanted(char *out, size_t size, const TaskReader *r) {
    Span names[TASK_COLUMNS];
    size_t count = 0;
    for (size_t t = 0; t < 2 && r->spec.text[t]; t++)
        names[count++] = (Span){r->spec.text[t], strlen(r->spec.text[t])};
    if (r->spec.label) names[count++] = (Span){r->spec.label, strlen(r->spec.label)};
    list_columns(out, size, names, count);
}

/* What to do about a missing column. */
static const char *find_remedy(const TaskReader *r, const Span *names, size_t count,
                               bool label_only) {
    bool custom = r->spec.classes[0] == NULL, tsv = strcmp(r->unit, "column") == 0;
    if (label_only) {
        return custom ? "finetune.label names it"
                      : "GLUE's test files have no labels: train and evaluate on its train.tsv and "
                        "dev.tsv";
    }
    if (tsv && count > 0 && names[0].size > 0 && names[0].text[0] == '{')
        return "the name of a file of JSON lines is to end in .jsonl";
    if (tsv && count == 1 &&
        (memchr(names[0].text, ',', names[0].size) || memchr(names[0].text, ';', names[0].size)))
        return "columns are separated by tabs";
    if (custom) return "finetune.text, finetune.text_pair and finetune.label name them";
    return tsv ? "the first line must name the columns; for other names use finetune.task: custom"
               : "for other names use finetune.task: custom";
}

/* missing: a wanted column, or NULL: they are there, but those of another task too. */
static bool fail_columns(const TaskReader *r, const Span *names, size_t count, const char *missing,
                         size_t line, Err *err) {
    char found[LIST_SIZE], wanted[LIST_SIZE], remedy[160];
    size_t texts;
    const char *other = task_of_columns(&texts, r, names, count);
    list_columns(found, sizeof found, names, count);
    list_wanted(wanted, sizeof wanted, r);
    bool label_only = missing && missing == r->spec.label;
    if (other && !label_only)
        snprintf(remedy, sizeof remedy, "these are the %ss of finetune.task: %s", r->unit, other);
    else
        snprintf(remedy, sizeof remedy, "%s", find_remedy(r, names, count, label_only));
    if (!missing) {
        return task_fail(r, line, err, "found the %ss %s; task %s wants %s: %s", r->unit, found,
                         r->spec.name, wanted, remedy);
    }
    return task_fail(r, line, err, "no %s '%.60s'; found %s; task %s wants %s: %s", r->unit,
                     missing, found, r->spec.name, wanted, remedy);
}

bool task_columns_find(size_t found[TASK_COLUMNS], const TaskReader *r, const Span *names,
                       size_t count, size_t line, Err *err) {
    const char *wanted[TASK_COLUMNS] = {r->spec.text[0], r->spec.text[1], r->spec.label};
    for (size_t c = 0; c < TASK_COLUMNS; c++) {
        found[c] = SIZE_MAX;
        if (!wanted[c]) continue;
        for (size_t i = 0; i < count; i++) {
            if (!is_named(names[i], wanted[c])) continue;
            if (found[c] != SIZE_MAX) {
                return task_fail(r, line, err, "the %s '%.60s' is there twice, wanted once",
                                 r->unit, wanted[c]);
            }
            found[c] = i;
        }
        if (found[c] == SIZE_MAX) return fail_columns(r, names, count, wanted[c], line, err);
    }
    /* a QNLI file has all that SST-2 wants, and a question besides */
    size_t texts;
    if (!r->spec.text[1] && task_of_columns(&texts, r, names, count) && texts == 2)
        return fail_columns(r, names, count, NULL, line, err);
    return true;
}
