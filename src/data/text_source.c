#define _POSIX_C_SOURCE 200809L
#include "text_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "utf8.h"

/* Longer lines are no texts: a missing line break, or no text at all.  The tokenizer takes some 80
 * bytes for each of theirs. */
enum { LINE_MOST = 1 << 20, BLOCK_BYTES = 1 << 24 };

struct TextSource {
    const char *name; /* of the stream, or of a string, in messages */
    bool pairs;
    size_t number; /* strings or lines given so far */

    const char *const *strings;
    size_t string_count;

    FILE *stream;
    TextNotes notes; /* of its lines */
    char *text;      /* of the block's lines, one behind the other */
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

bool text_source_open_file(TextSource **out, const FinetuneConfig *config, const char *path,
                           Err *err) {
    if (!create(out, (TextSource){.name = path, .pairs = task_is_pair(config)}, err)) return false;
    TextSource *s = *out;
    s->paths.items = calloc(1, sizeof *s->paths.items);
    if (s->paths.items) s->paths.items[0] = strdup(path);
    s->paths.count = s->paths.items && s->paths.items[0] ? 1 : 0;
    bool ok = s->paths.count == 1
                  ? task_file_read(&s->file, config, NULL, &s->paths, TASK_LABELS_IGNORED, err)
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
    if (!s->stream && is_blank(text, size))
        return err_set(err, ERR_FAILED, "%s:%zu: %s is empty; wanted text in it", s->name,
                       s->number, what);
    return true;
}

static void note(size_t *count, size_t *first, size_t number) {
    if ((*count)++ == 0) *first = number;
}

static void note_row(TextSource *s, const TaskRow *row) {
    TextNotes *notes = &s->notes;
    notes->lines++;
    if (is_blank(row->text[0], row->size[0]) || (s->pairs && is_blank(row->text[1], row->size[1])))
        note(&notes->empty, &notes->first_empty, s->number);
    else if (!s->pairs && memchr(row->text[0], '\t', row->size[0]))
        note(&notes->tabbed, &notes->first_tabbed, s->number);
}

/* Room for more than *capacity elements; NULL where there is no memory. */
static void *grow(void *data, size_t *capacity, size_t element) {
    size_t wanted = 2 * *capacity + 256;
    void *grown = realloc(data, wanted * element);
    if (grown) *capacity = wanted;
    return grown;
}

/* A blank line of a stream is two empty texts. */
static bool split_pair(TaskRow *row, const TextSource *s, Err *err) {
    const char *text = row->text[0];
    size_t size = row->size[0], tabs = 0;
    for (size_t i = 0; i < size; i++) tabs += text[i] == '\t';
    if (s->stream && is_blank(text, size)) {
        row->text[0] = row->text[1] = "";
        row->size[0] = row->size[1] = 0;
        return true;
    }
    if (tabs != 1)
        return err_set(err, ERR_FAILED,
                       "%s:%zu: %zu tabs; this task wants two texts with one tab between them",
                       s->name, s->number, tabs);
    row->text[1] = (const char *)memchr(text, '\t', size) + 1;
    row->size[0] = (size_t)(row->text[1] - text) - 1;
    row->size[1] = size - row->size[0] - 1;
    return true;
}

static bool add_row(TextSource *s, const char *text, size_t size, Err *err) {
    TaskFile *file = &s->file;
    TaskRow row = {.text = {text},
                   .size = {size},
                   .label = TASK_NO_LABEL,
                   .place = s->name,
                   .line = s->number};
    if (s->pairs && !split_pair(&row, s, err)) return false;
    if (!check_text(s, s->pairs ? "the first text" : "the text", row.text[0], row.size[0], err) ||
        (s->pairs && !check_text(s, "the second text", row.text[1], row.size[1], err)))
        return false;
    if (file->count == s->row_capacity) {
        TaskRow *grown = grow(file->rows, &s->row_capacity, sizeof *grown);
        if (!grown) return fail_memory(s, err);
        file->rows = grown;
    }
    file->rows[file->count++] = row;
    if (s->stream) note_row(s, &row);
    return true;
}

static bool put_byte(TextSource *s, char byte, Err *err) {
    if (s->text_size == s->text_capacity) {
        char *grown = grow(s->text, &s->text_capacity, 1);
        if (!grown) return fail_memory(s, err);
        s->text = grown;
    }
    s->text[s->text_size++] = byte;
    return true;
}

static bool put_end(TextSource *s, size_t index, Err *err) {
    if (index == s->end_capacity) {
        size_t *grown = grow(s->ends, &s->end_capacity, sizeof *s->ends);
        if (!grown) return fail_memory(s, err);
        s->ends = grown;
    }
    s->ends[index] = s->text_size;
    return true;
}

/* Appends the bytes of a line, without its end, to the block's text; *end where there is none. */
static bool read_bytes(bool *end, TextSource *s, size_t number, Err *err) {
    size_t start = s->text_size;
    int c;
    while ((c = getc_unlocked(s->stream)) != EOF && c != '\n') {
        if (s->text_size - start == LINE_MOST)
            return err_set(err, ERR_FAILED,
                           "%s:%zu: more than %d bytes in a line; wanted a text in each: is a line "
                           "break missing?",
                           s->name, number, LINE_MOST);
        if (!put_byte(s, (char)c, err)) return false;
    }
    *end = c == EOF && s->text_size == start;
    if (c == EOF && ferror(s->stream))
        return err_set(err, ERR_FAILED, "%s:%zu: cannot be read: %s", s->name, number,
                       strerror(errno));
    return true;
}

/* Line `index` of the block. */
static bool read_line(bool *end, TextSource *s, size_t index, Err *err) {
    size_t start = s->text_size, number = s->number + index + 1;
    if (!read_bytes(end, s, number, err)) return false;
    if (*end) return true;
    char *line = s->text + start;
    size_t size = s->text_size - start;
    if (size > 0 && line[size - 1] == '\r') size--;
    if (number == 1 && size >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3)) {
        size -= 3;
        memmove(line, line + 3, size);
    }
    s->text_size = start + size;
    return put_end(s, index, err);
}

/* All lines before the first row: the text of a block moves while it grows. */
static bool read_block(TextSource *s, size_t most, Err *err) {
    size_t lines = 0;
    bool end = false;
    s->text_size = 0;
    while (lines < most && s->text_size < BLOCK_BYTES && !end) {
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

TextNotes text_source_notes(const TextSource *source) {
    return source->notes;
}
