/* The text of a task's file, whole in memory, and its lines. */
#include <stdlib.h>
#include <string.h>

#include "task_internal.h"
#include "utf8.h"

enum { FIRST_CAPACITY = 1 << 16 };

void task_text_free(TaskText *text) {
    free(text->base);
    *text = (TaskText){0};
}

static bool read_all(char **out, size_t *size, ByteStream *stream, Err *err) {
    uint64_t stored = byte_stream_file_size(stream);
    size_t capacity = FIRST_CAPACITY;
    /* a guess for plain files, whose size is known; others grow */
    if (stored < SIZE_MAX / 4 && capacity < stored + 2) capacity = (size_t)stored + 2;
    char *text = malloc(capacity);
    *size = 0;
    for (size_t got = 1; text && got > 0; *size += got) {
        if (*size + 1 == capacity) {
            char *grown = capacity <= SIZE_MAX / 2 ? realloc(text, capacity * 2) : NULL;
            if (!grown) break;
            text = grown;
            capacity *= 2;
        }
        if (!byte_stream_read(&got, stream, (unsigned char *)text + *size, capacity - 1 - *size,
                              err)) {
            free(text);
            return false;
        }
        if (got == 0) {
            text[*size] = 0;
            *out = text;
            return true;
        }
    }
    free(text);
    return err_set(err, ERR_FAILED, "%s: no memory for its text", byte_stream_name(stream));
}

/* Offset of the first NUL or byte that begins no well-formed character; size if all is well. */
static size_t find_fault(const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;
    while (i < size) {
        uint64_t eight;
        if (size - i >= sizeof eight) {
            memcpy(&eight, p + i, sizeof eight);
            /* no byte is above 0x7F, and none is 0: adding 0x7F to each sets its top bit, without a
             * carry */
            uint64_t top = UINT64_C(0x8080808080808080);
            if (!(eight & top) && ((eight + UINT64_C(0x7F7F7F7F7F7F7F7F)) & top) == top) {
                i += sizeof eight;
                continue;
            }
        }
        size_t length = p[i] == 0 ? 0 : utf8_length(p + i, size - i);
        if (length == 0) return i;
        i += length;
    }
    return size;
}

static bool fail_byte(const TaskReader *r, const char *text, size_t at, Err *err) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    if (text[at] == 0) {
        return task_fail(r, line, err,
                         "a NUL at byte %zu of the line, wanted text: remove it, e.g. with "
                         "tr -d '\\000'",
                         column);
    }
    return task_fail(r, line, err,
                     "byte 0x%02x at byte %zu of the line is no UTF-8: convert the file, e.g. "
                     "iconv -f WINDOWS-1252 -t UTF-8",
                     (unsigned char)text[at], column);
}

bool task_text_load(TaskText *out, TaskReader *r, ByteStream *stream, Err *err) {
    size_t size;
    *out = (TaskText){0};
    if (!read_all(&out->base, &size, stream, err)) return false;
    size_t fault = find_fault(out->base, size);
    if (fault < size) {
        fail_byte(r, out->base, fault, err);
        task_text_free(out);
        return false;
    }
    bool mark = size >= 3 && memcmp(out->base, "\xEF\xBB\xBF", 3) == 0;
    out->at = out->base + (mark ? 3 : 0);
    out->end = out->base + size;
    return true;
}

static bool is_blank(const char *at, const char *end, const char *blanks) {
    while (at < end && strchr(blanks, *at)) at++; /* the text has no NUL, which strchr would find */
    return at == end;
}

bool task_text_line(bool *found, Span *line, TaskText *text, const TaskReader *r, Err *err) {
    *found = text->at < text->end;
    if (!*found) return true;
    const char *from = text->at, *newline = memchr(from, '\n', (size_t)(text->end - from));
    const char *to = newline ? newline : text->end;
    text->line++;
    text->at = newline ? newline + 1 : text->end;
    if (to > from && to[-1] == '\r') to--;
    *line = (Span){from, (size_t)(to - from)};
    if (!is_blank(from, to, " ")) return true;
    *found = false;
    if (is_blank(text->at, text->end, " \r\n")) {
        text->at = text->end;
        return true;
    }
    return task_fail(r, text->line, err,
                     "a blank line with more text behind it, wanted one row a line: remove it");
}
