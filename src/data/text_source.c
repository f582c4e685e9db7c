#define _POSIX_C_SOURCE 200809L
#include "text_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "utf8.h"

struct TextSource {
    const char *name; /* of the stream, or of a string, in messages */
    bool pairs;
    size_t number; /* strings or lines given so far */

    const char *const *strings;
    size_t string_count;

    FILE *stream;
    char *line; /* getline's */
    size_t line_capacity;
    char *text; /* of the block's lines, one behind the other */
    size_t text_size, text_capacity;
    size_t *ends; /* of the lines in it */
    size_t end_capacity;

    PathList paths; /* empty: no file */
    TaskFile file;  /* the whole file, or the rows of the block */
    size_t given;   /* rows of the file */
    size_t row_capacity;
};

static bool fail_memory(const TextSource *s, Err *err) {
    return err_set(err, ERR_FAILED, "%s:%zu: out of memory", s->name, s->number);
}

static bool create(TextSource **out, TextSource content, Err *err) {
    *out = malloc(sizeof **out);
    if (!*out) return err_set(err, ERR_FAILED, "%s: out of memory", content.name);
    **out = content;
    return true;
}

bool text_source_open_strings(TextSource **out, const char *const *strings, size_t count,
                              bool pairs, Err *err) {
    return create(
        out,
        (TextSource){.name = "argument", .pairs = pairs, .strings = strings, .string_count = count},
        err);
}

bool text_source_open_lines(TextSource **out, FILE *stream, const char *name, bool pairs,
                            Err *err) {
    return create(out, (TextSource){.name = name, .pairs = pairs, .stream = stream}, err);
}

bool text_source_open_file(TextSource **out, const FinetuneConfig *config, const LabelSet *labels,
                           const char *path, Err *err) {
    if (!create(out, (TextSource){.name = path, .pairs = task_is_pair(config)}, err)) return false;
    TextSource *s = *out;
    s->paths.items = calloc(1, sizeof *s->paths.items);
    if (s->paths.items) s->paths.items[0] = strdup(path);
    s->paths.count = s->paths.items && s->paths.items[0] ? 1 : 0;
    bool ok = s->paths.count == 1
                  ? task_file_read(&s->file, config, labels, &s->paths, TASK_LABELS_IF_THERE, err)
                  : fail_memory(s, err);
    if (!ok) {
        text_source_close(s);
        *out = NULL;
    }
    return ok;
}

void text_source_close(TextSource *source) {
    if (!source) return;
    if (source->paths.items)
        task_file_free(&source->file);
    else
        free(source->file.rows);
    config_paths_free(&source->paths);
    free(source->line);
    free(source->text);
    free(source->ends);
    free(source);
}

static bool is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!memchr(" \t\n\v\f\r", text[i], 6)) return false;
    return true;
}

static bool check_text(const TextSource *s, const char *what, const char *text, size_t size,
                       Err *err) {
    for (size_t i = 0, length; i < size; i += length) {
        if (text[i] == 0)
            return err_set(err, ERR_FAILED, "%s:%zu: byte %zu of %s is NUL; wanted UTF-8 text",
                           s->name, s->number, i + 1, what);
        length = utf8_length((const unsigned char *)text + i, size - i);
        if (length == 0)
            return err_set(err, ERR_FAILED,
                           "%s:%zu: byte %zu of %s (0x%02X) is not UTF-8; convert it, for example "
                           "with iconv",
                           s->name, s->number, i + 1, what, (unsigned)(unsigned char)text[i]);
    }
    if (is_blank(text, size))
        return err_set(err, ERR_FAILED, "%s:%zu: %s is empty; every row needs one", s->name,
                       s->number, what);
    return true;
}

static bool add_row(TextSource *s, const char *text, size_t size, Err *err) {
    TaskFile *file = &s->file;
    TaskRow row = {.text = {text},
                   .size = {size},
                   .label = TASK_NO_LABEL,
                   .place = s->name,
                   .line = s->number};
    if (s->pairs) {
        const char *tab = memchr(text, '\t', size);
        size_t tabs = 0;
        for (size_t i = 0; i < size; i++) tabs += text[i] == '\t';
        if (tabs != 1)
            return err_set(err, ERR_FAILED,
                           "%s:%zu: %zu tabs; this task wants two texts with one tab between them",
                           s->name, s->number, tabs);
        row.size[0] = (size_t)(tab - text);
        row.text[1] = tab + 1;
        row.size[1] = size - row.size[0] - 1;
    }
    if (!check_text(s, s->pairs ? "the first text" : "the text", row.text[0], row.size[0], err) ||
        (s->pairs && !check_text(s, "the second text", row.text[1], row.size[1], err)))
        return false;
    if (file->count == s->row_capacity) {
        size_t capacity = 2 * s->row_capacity + 16;
        TaskRow *grown = realloc(file->rows, capacity * sizeof *grown);
        if (!grown) return fail_memory(s, err);
        file->rows = grown;
        s->row_capacity = capacity;
    }
    file->rows[file->count++] = row;
    return true;
}

/* Adds a line to the block's text. */
static bool keep_line(TextSource *s, size_t index, const char *line, size_t size, Err *err) {
    if (s->text_size + size >= s->text_capacity) {
        size_t capacity = 2 * (s->text_size + size) + 256;
        char *grown = realloc(s->text, capacity);
        if (!grown) return fail_memory(s, err);
        s->text = grown;
        s->text_capacity = capacity;
    }
    if (index >= s->end_capacity) {
        size_t capacity = 2 * index + 16;
        size_t *grown = realloc(s->ends, capacity * sizeof *grown);
        if (!grown) return fail_memory(s, err);
        s->ends = grown;
        s->end_capacity = capacity;
    }
    memcpy(s->text + s->text_size, line, size);
    s->text_size += size;
    s->ends[index] = s->text_size;
    return true;
}

/* Reads a line; *end where there is none. */
static bool read_line(bool *end, TextSource *s, size_t index, Err *err) {
    errno = 0;
    ssize_t length = getline(&s->line, &s->line_capacity, s->stream);
    *end = length < 0;
    if (*end && (ferror(s->stream) || errno == ENOMEM))
        return err_set(err, ERR_FAILED, "%s:%zu: cannot be read: %s", s->name,
                       s->number + index + 1, strerror(errno));
    if (*end) return true;
    const char *line = s->line;
    size_t size = (size_t)length;
    if (size > 0 && line[size - 1] == '\n') size--;
    if (size > 0 && line[size - 1] == '\r') size--;
    bool first = s->number + index == 0;
    if (first && size >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3)) line += 3, size -= 3;
    return keep_line(s, index, line, size, err);
}

/* All lines before the first row: the text of a block moves while it grows. */
static bool read_block(TextSource *s, size_t most, Err *err) {
    size_t lines = 0;
    bool end = false;
    s->text_size = 0;
    while (lines < most && !end) {
        if (!read_line(&end, s, lines, err)) return false;
        lines += !end;
    }
    for (size_t i = 0, start = 0; i < lines; start = s->ends[i++]) {
        s->number++;
        if (!add_row(s, s->text + start, s->ends[i] - start, err)) return false;
    }
    return true;
}

bool text_source_next(TaskFile *rows, TextSource *source, size_t most, Err *err) {
    TextSource *s = source;
    bool ok = true;
    *rows = (TaskFile){.pairs = s->pairs};
    if (s->paths.count > 0) {
        size_t left = s->file.count - s->given;
        rows->rows = s->file.rows + s->given;
        rows->count = left < most ? left : most;
        s->given += rows->count;
        return true;
    }
    s->file.count = 0;
    if (s->stream) ok = read_block(s, most, err);
    while (ok && !s->stream && s->number < s->string_count && s->file.count < most) {
        const char *text = s->strings[s->number++];
        ok = add_row(s, text, strlen(text), err);
    }
    rows->rows = s->file.rows;
    rows->count = ok ? s->file.count : 0;
    return ok;
}
