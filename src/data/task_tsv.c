/* Rows of tab-separated text with a header, in GLUE's way: nothing is quoted or escaped, so a
 * quotation mark is a character like any other. */
#include <stdlib.h>
#include <string.h>

#include "task_internal.h"

/* Fills in the first `capacity` fields; returns how many the line has. */
static size_t split(Span *fields, size_t capacity, Span line) {
    const char *at = line.text, *end = line.text + line.size;
    for (size_t count = 0;; count++) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        const char *to = tab ? tab : end;
        if (count < capacity) fields[count] = (Span){at, (size_t)(to - at)};
        if (!tab) return count + 1;
        at = tab + 1;
    }
}

static bool fail_count(const TaskReader *r, size_t line, size_t found, size_t wanted, Err *err) {
    return task_fail(r, line, err, "%zu column%s, wanted %zu as in the header: %s", found,
                     found == 1 ? "" : "s", wanted,
                     found > wanted ? "a tab inside a text?"
                                    : "a row broken over two lines, or tabs that became spaces?");
}

static bool read_rows(TaskReader *r, TaskText *text, Span *fields, size_t count,
                      const size_t columns[TASK_COLUMNS], Err *err) {
    for (;;) {
        bool found;
        Span line;
        if (!task_text_line(&found, &line, text, r, err)) return false;
        if (!found) return true;
        size_t here = split(fields, count, line);
        if (here != count) return fail_count(r, text->line, here, count, err);
        Span texts[2] = {fields[columns[0]], {NULL, 0}};
        if (columns[1] != SIZE_MAX) texts[1] = fields[columns[1]];
        const Span *label = columns[2] != SIZE_MAX ? &fields[columns[2]] : NULL;
        if (!task_add_row(r, texts, label, text->line, err)) return false;
    }
}

bool task_read_tsv(TaskReader *r, ByteStream *stream, Err *err) {
    bool ok = false, found;
    size_t rows = r->out->count, columns[TASK_COLUMNS];
    TaskText text;
    Span header, *fields = NULL;
    r->unit = "column";
    if (!task_text_load(&text, r, stream, err)) return false;
    if (!task_text_line(&found, &header, &text, r, err)) goto done;
    if (!found) {
        err_set(err, ERR_FAILED, "%s: empty, wanted a header line that names the columns, and rows",
                r->place);
        goto done;
    }
    size_t count = split(NULL, 0, header);
    fields = malloc(count * sizeof *fields);
    if (!fields) {
        err_set(err, ERR_FAILED, "%s: no memory for %zu columns", r->place, count);
        goto done;
    }
    split(fields, count, header);
    if (!task_columns_find(columns, r, fields, count, 1, err)) goto done;
    if (!read_rows(r, &text, fields, count, columns, err)) goto done;
    if (r->out->count == rows) {
        err_set(err, ERR_FAILED, "%s: a header line and no rows", r->place);
        goto done;
    }
    ok = task_adopt(r, text.base, err); /* the rows point into it */
    text.base = NULL;
done:
    free(fields);
    task_text_free(&text);
    return ok;
}
