/* The words that files have for classes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task_internal.h"

enum { SHOWN_CLASSES = 10, SHOWN_WORD = 32, INTEGER_DIGITS = 18 };

void label_table_free(LabelTable *table) {
    for (size_t i = 0; i < table->count; i++) free(table->items[i].word);
    free(table->items);
    label_set_free(&table->set);
    *table = (LabelTable){0};
}

/* As strcmp of the bytes; equal beginnings: the shorter one is less. */
static int compare(const char *word, Span other) {
    size_t size = strlen(word);
    int order = memcmp(word, other.text, size < other.size ? size : other.size);
    return order ? order : (size > other.size) - (size < other.size);
}

/* Index of the first word that is not less; *equal tells if it is the wanted one. */
static size_t find_place(bool *equal, const LabelTable *table, Span word) {
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(table->items[middle].word, word) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *equal = low < table->count && compare(table->items[low].word, word) == 0;
    return low;
}

int32_t label_table_find(const LabelTable *table, Span word) {
    bool equal;
    size_t at = find_place(&equal, table, word);
    return equal ? table->items[at].class : TASK_NO_LABEL;
}

static bool insert(LabelTable *table, Span word, int32_t class, Err *err) {
    bool equal;
    size_t at = find_place(&equal, table, word);
    if (equal) return true;
    if (table->count == table->capacity) {
        size_t wanted = table->capacity ? 2 * table->capacity : 16;
        LabelWord *grown = realloc(table->items, wanted * sizeof *grown);
        if (!grown) return err_set(err, ERR_FAILED, "no memory for %zu labels", wanted);
        table->items = grown;
        table->capacity = wanted;
    }
    char *copy = malloc(word.size + 1);
    if (!copy) return err_set(err, ERR_FAILED, "no memory for a label");
    memcpy(copy, word.text, word.size);
    copy[word.size] = 0;
    memmove(table->items + at + 1, table->items + at, (table->count - at) * sizeof *table->items);
    table->items[at].word = copy;
    table->items[at].class = class;
    table->count++;
    return true;
}

bool label_table_add(LabelTable *table, Span word, Err *err) {
    return insert(table, word, (int32_t)table->count, err);
}

bool label_table_create(LabelTable *out, const TaskSpec *spec, const LabelSet *known, Err *err) {
    char *names[2] = {(char *)spec->classes[0], (char *)spec->classes[1]};
    LabelSet set = {names, 2};
    *out = (LabelTable){.open = !spec->classes[0] && !known};
    if (out->open) return true;
    bool ok = label_set_copy(&out->set, spec->classes[0] ? &set : known, err);
    for (size_t c = 0; ok && c < out->set.count; c++) {
        const char *name = out->set.names[c];
        ok = insert(out, (Span){name, strlen(name)}, (int32_t)c, err);
        for (size_t w = 0; ok && spec->classes[0] && w < 2; w++) {
            const char *word = spec->words[c][w];
            if (word) ok = insert(out, (Span){word, strlen(word)}, (int32_t)c, err);
        }
    }
    if (!ok) label_table_free(out);
    return ok;
}

void label_table_describe(char *out, size_t size, const LabelTable *table) {
    size_t classes = table->open ? table->count : table->set.count;
    out[0] = 0;
    for (size_t c = 0; c < classes && c < SHOWN_CLASSES; c++) {
        bool first = true;
        for (size_t i = 0; i < table->count; i++) {
            const char *word = table->items[i].word;
            if (table->items[i].class != (int32_t)c) continue;
            char shown[SHOWN_WORD];
            task_append(out, size, !first ? " or " : c > 0 ? ", " : "");
            task_append(out, size, task_show(shown, sizeof shown, (Span){word, strlen(word)}));
            first = false;
        }
    }
    if (classes > SHOWN_CLASSES) {
        char more[48];
        snprintf(more, sizeof more, ", ... (%zu in all)", classes);
        task_append(out, size, more);
    }
}

static bool is_integer(const char *word) {
    size_t sign = word[0] == '-', digits = strspn(word + sign, "0123456789");
    return digits > 0 && digits <= INTEGER_DIGITS && word[sign + digits] == 0;
}

static int compare_integers(const void *a, const void *b) {
    const LabelWord *x = a, *y = b;
    long long i = atoll(x->word), j = atoll(y->word);
    return i != j ? (i > j) - (i < j) : strcmp(x->word, y->word); /* 1 and 01 */
}

/* Names an open table's classes in their final order and renumbers the rows. */
static bool close_table(LabelSet *out, TaskRow *rows, size_t count, LabelTable *table, Err *err) {
    bool integers = true;
    for (size_t i = 0; i < table->count; i++)
        integers = integers && is_integer(table->items[i].word);
    if (integers && table->count > 1)
        qsort(table->items, table->count, sizeof *table->items, compare_integers);
    char **names = calloc(table->count + 1, sizeof *names);
    int32_t *final = calloc(table->count + 1, sizeof *final);
    LabelSet set = {names, table->count};
    bool ok = names && final;
    if (!ok) err_set(err, ERR_FAILED, "no memory for %zu labels", table->count);
    for (size_t i = 0; ok && i < table->count; i++) {
        names[i] = table->items[i].word;
        final[table->items[i].class] = (int32_t)i;
    }
    ok = ok && label_set_copy(out, &set, err);
    for (size_t i = 0; ok && i < count; i++) {
        if (rows[i].label != TASK_NO_LABEL) rows[i].label = final[rows[i].label];
    }
    free(names);
    free(final);
    return ok;
}

bool label_table_finish(LabelSet *out, TaskRow *rows, size_t count, LabelTable *table, Err *err) {
    if (table->open) return close_table(out, rows, count, table, err);
    *out = table->set;
    table->set = (LabelSet){0};
    return true;
}
