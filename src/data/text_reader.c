#include "text_reader.h"

#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "shards.h"
#include "utf8.h"

enum { INPUT_SIZE = 1 << 16 };

/* What a call of cut_line ended with. */
typedef enum Cut { CUT_MORE, CUT_PIECE, CUT_BLANK } Cut;

struct TextReader {
    ByteStream *stream;
    TextCounts counts;
    bool json;
    bool ended;           /* the stream has given everything */
    bool started;         /* a byte order mark has been looked for */
    unsigned char *input; /* INPUT_SIZE bytes of the stream */
    size_t at, filled;    /* unread part of input */

    char *piece; /* TEXT_PIECE_MAX bytes of the current line, spaces at its start left out */
    size_t piece_size;
    size_t cut_size;    /* of the piece given out last; the rest moves to the front */
    size_t after_space; /* just behind the last space in piece, 0: none */
    size_t pieces_of_line;
    uint64_t line_size;
    bool in_document; /* lines were given out since the last document end */

    char *json_line; /* one line of JSON, NUL-terminated */
    size_t json_size, json_capacity;
    uint64_t json_line_number;
    cJSON *json_object; /* owns the text being cut */
    const unsigned char *json_at, *json_end;
};

static bool no_memory(const TextReader *r, Err *err) {
    return err_set(err, ERR_FAILED, "%s: no memory to read it", byte_stream_name(r->stream));
}

static bool reader_create(TextReader **out, ByteStream *stream, Err *err) {
    *out = NULL;
    const char *name = byte_stream_name(stream);
    TextReader *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(err, ERR_FAILED, "%s: no memory to read it", name);
        byte_stream_close(stream);
        return false;
    }
    r->stream = stream;
    r->json = name_is_json_lines(name);
    r->input = malloc(INPUT_SIZE);
    r->piece = malloc(TEXT_PIECE_MAX);
    if (!r->input || !r->piece) {
        no_memory(r, err);
        text_reader_close(r);
        return false;
    }
    *out = r;
    return true;
}

bool text_reader_open(TextReader **out, const char *path, Err *err) {
    *out = NULL;
    ByteStream *stream;
    return byte_stream_open(&stream, path, err) && reader_create(out, stream, err);
}

bool text_reader_open_memory(TextReader **out, const void *data, size_t size, const char *name,
                             Err *err) {
    *out = NULL;
    ByteStream *stream;
    return byte_stream_open_memory(&stream, data, size, name, err) &&
           reader_create(out, stream, err);
}

void text_reader_close(TextReader *r) {
    if (!r) return;
    byte_stream_close(r->stream);
    cJSON_Delete(r->json_object);
    free(r->json_line);
    free(r->input);
    free(r->piece);
    free(r);
}

const TextCounts *text_reader_counts(const TextReader *r) {
    return &r->counts;
}

uint64_t text_reader_file_position(const TextReader *r) {
    return byte_stream_file_position(r->stream);
}

uint64_t text_reader_file_hash(const TextReader *r) {
    return byte_stream_file_hash(r->stream);
}

/* Reads on behind what is left of the input. */
static bool refill(TextReader *r, Err *err) {
    memmove(r->input, r->input + r->at, r->filled - r->at);
    r->filled -= r->at;
    r->at = 0;
    do { /* a byte order mark needs three bytes */
        size_t got;
        if (!byte_stream_read(&got, r->stream, r->input + r->filled, INPUT_SIZE - r->filled, err))
            return false;
        r->ended = got == 0;
        r->filled += got;
        r->counts.text_bytes += got;
    } while (!r->started && r->filled < 3 && !r->ended);
    if (!r->started) {
        r->started = true;
        if (r->filled >= 3 && memcmp(r->input, "\xEF\xBB\xBF", 3) == 0) r->at = 3;
    }
    return true;
}

/* ---- lines out of text */

static void append(TextReader *r, const unsigned char *bytes, size_t size) {
    memcpy(r->piece + r->piece_size, bytes, size);
    r->piece_size += size;
    r->line_size += size;
}

static void append_space(TextReader *r) {
    if (r->piece_size == 0) return;
    append(r, (const unsigned char *)" ", 1);
    r->after_space = r->piece_size;
}

static Cut give_piece(TextReader *r, size_t size) {
    r->cut_size = size;
    if (++r->pieces_of_line == 2) r->counts.split_lines++;
    return CUT_PIECE;
}

/* Moves what the last piece left over to the front. */
static void start_piece(TextReader *r) {
    r->piece_size -= r->cut_size;
    memmove(r->piece, r->piece + r->cut_size, r->piece_size);
    r->cut_size = 0;
    r->after_space = 0;
}

static Cut end_line(TextReader *r) {
    bool blank = r->piece_size == 0 && r->pieces_of_line == 0;
    Cut cut = r->piece_size > 0 ? give_piece(r, r->piece_size) : blank ? CUT_BLANK : CUT_MORE;
    if (r->line_size > r->counts.longest_line) r->counts.longest_line = r->line_size;
    r->line_size = 0;
    r->pieces_of_line = 0;
    return cut;
}

/* Bytes of the character at p that are cleaned as one, and by what: 0 means that more input must
 * come first. */
static size_t classify(bool *is_space, bool *is_dropped, const unsigned char *p, size_t left,
                       bool last) {
    unsigned char c = p[0];
    *is_space = *is_dropped = false;
    if (c < 0x80) {
        if (c == '\r' && left == 1 && !last) return 0;
        *is_space = c == ' ' || (c >= '\t' && c <= '\r');
        *is_dropped = !*is_space && (c < 0x20 || c == 0x7F);
        return 1;
    }
    if (left < UTF8_MAX && !last) return 0;
    size_t size = utf8_length(p, left);
    if (size == 2 && c == 0xC2 && p[1] < 0xA0) { /* U+0080 to U+009F */
        *is_space = p[1] == 0x85;
        *is_dropped = !*is_space;
    } else if (size == 0) {
        *is_dropped = true;
        return 1;
    }
    return size;
}

/* Takes characters from *at up to the end of a line or a full piece.  last: nothing follows end. */
static Cut cut_line(TextReader *r, const unsigned char **at, const unsigned char *end, bool last) {
    const unsigned char *p = *at;
    Cut cut = CUT_MORE;
    if (r->cut_size) start_piece(r);
    while (p < end) {
        /* the common case first: printable ASCII */
        if (*p > ' ' && *p < 0x7F && r->piece_size < TEXT_PIECE_MAX) {
            r->piece[r->piece_size++] = (char)*p++;
            r->line_size++;
            continue;
        }
        if (*p == '\n') {
            p++;
            cut = end_line(r);
            if (cut != CUT_MORE) break;
            continue;
        }
        bool is_space, is_dropped;
        size_t size = classify(&is_space, &is_dropped, p, (size_t)(end - p), last);
        if (size == 0) break;
        if (*p == '\r' && p + 1 < end && p[1] == '\n') {
            p++;
            continue;
        }
        if (is_dropped) {
            r->counts.dropped_bytes += size;
        } else if (r->piece_size + size > TEXT_PIECE_MAX) {
            cut = give_piece(r, r->after_space && !is_space ? r->after_space : r->piece_size);
            break;
        } else if (is_space) {
            append_space(r);
        } else {
            append(r, p, size);
        }
        p += size;
    }
    if (cut == CUT_MORE && p == end && last) {
        cut = end_line(r);
        if (cut == CUT_BLANK) cut = CUT_MORE; /* no line begins behind the last line end */
    }
    *at = p;
    return cut;
}

/* ---- JSON lines */

/* Gathers the next line that is not blank into json_line; *found false at the end. */
static bool read_json_line(bool *found, TextReader *r, Err *err) {
    *found = false;
    for (;;) {
        r->json_size = 0;
        bool complete = false;
        while (!complete) {
            if (r->at == r->filled && !r->ended && !refill(r, err)) return false;
            const unsigned char *from = r->input + r->at;
            const unsigned char *newline = memchr(from, '\n', r->filled - r->at);
            size_t size = newline ? (size_t)(newline - from) : r->filled - r->at;
            if (r->json_size + size > TEXT_JSON_LINE_MAX) {
                return err_set(err, ERR_FAILED,
                               "%s:%llu: a JSON line over %d bytes: split the document",
                               byte_stream_name(r->stream),
                               (unsigned long long)r->json_line_number + 1, TEXT_JSON_LINE_MAX);
            }
            if (r->json_size + size + 1 > r->json_capacity) {
                size_t wanted = 2 * (r->json_size + size + 1);
                char *grown = realloc(r->json_line, wanted);
                if (!grown) return no_memory(r, err);
                r->json_line = grown;
                r->json_capacity = wanted;
            }
            memcpy(r->json_line + r->json_size, from, size);
            r->json_size += size;
            r->at += size + (newline != NULL);
            complete = newline || (r->at == r->filled && r->ended);
            if (!newline && complete && r->json_size == 0) return true;
        }
        r->json_line[r->json_size] = 0;
        r->json_line_number++;
        for (size_t i = 0; i < r->json_size; i++) {
            if (!strchr(" \t\r", r->json_line[i]) || r->json_line[i] == 0) {
                *found = true;
                return true;
            }
        }
    }
}

/* The four hexadecimal digits of "\uXXXX" at p[0..left), or -1. */
static long escaped_unit(const char *p, size_t left) {
    if (left < 6 || p[0] != '\\' || p[1] != 'u') return -1;
    long value = 0;
    for (size_t i = 2; i < 6; i++) {
        char c = p[i];
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + 10 + (c - 'a');
        else if (c >= 'A' && c <= 'F')
            value = value * 16 + 10 + (c - 'A');
        else
            return -1;
    }
    return value;
}

/* cJSON gives strings that end at a NUL and refuses half surrogates, which other programs write.
 * Both become U+0001, which the cleaning drops and counts.  Between strings cJSON would take a NUL
 * for a space. */
static void defuse_escapes(char *line, size_t size) {
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        if (line[i] == '"') in_string = !in_string;
        if (line[i] == 0) line[i] = in_string ? 1 : '?';
        if (line[i] != '\\') continue;
        long unit = escaped_unit(line + i, size - i);
        bool high = unit >= 0xD800 && unit <= 0xDBFF, low = unit >= 0xDC00 && unit <= 0xDFFF;
        if (high) {
            long next = escaped_unit(line + i + 6, size - i - 6);
            if (next >= 0xDC00 && next <= 0xDFFF) {
                i += 11;
                continue;
            }
        }
        if (unit == 0 || high || low) memcpy(line + i + 2, "0001", 4);
        i += unit < 0 ? 1 : 5;
    }
}

static bool fail_json(const TextReader *r, Err *err, size_t column, const char *what) {
    return err_set(
        err, ERR_FAILED, "%s:%llu:%zu: %s; wanted one JSON object a line, {\"text\": \"...\"}",
        byte_stream_name(r->stream), (unsigned long long)r->json_line_number, column, what);
}

/* Opens the document of json_line. */
static bool open_json_document(TextReader *r, Err *err) {
    defuse_escapes(r->json_line, r->json_size);
    const char *end = r->json_line;
    r->json_object = cJSON_ParseWithLengthOpts(r->json_line, r->json_size, &end, false);
    size_t column = (size_t)(end - r->json_line);
    if (!r->json_object) return fail_json(r, err, column + 1, "not valid JSON here");
    column += strspn(end, " \t\r");
    if (column != r->json_size) return fail_json(r, err, column + 1, "more follows the JSON value");
    if (!cJSON_IsObject(r->json_object)) return fail_json(r, err, 1, "not a JSON object");
    const cJSON *text = NULL;
    for (const cJSON *item = r->json_object->child; item; item = item->next) {
        if (strcmp(item->string, "text") != 0) continue;
        if (text) return fail_json(r, err, 1, "the member \"text\" is there twice");
        text = item;
    }
    if (!text) return fail_json(r, err, 1, "no member \"text\"");
    if (!cJSON_IsString(text)) return fail_json(r, err, 1, "the member \"text\" is not a string");
    r->json_at = (const unsigned char *)text->valuestring;
    r->json_end = r->json_at + strlen(text->valuestring);
    return true;
}

static bool end_document(TextReader *r) {
    bool was_open = r->in_document;
    r->in_document = false;
    return was_open;
}

/* The next piece of the open JSON document, opening the next one where necessary. */
static bool next_json(TextEvent *event, TextReader *r, Err *err) {
    for (;;) {
        while (r->json_object) {
            Cut cut = cut_line(r, &r->json_at, r->json_end, true);
            if (cut == CUT_PIECE) {
                *event = TEXT_LINE;
                return true;
            }
            if (cut == CUT_BLANK) continue;
            cJSON_Delete(r->json_object);
            r->json_object = NULL;
            if (end_document(r)) {
                *event = TEXT_DOCUMENT_END;
                return true;
            }
            r->counts.empty_documents++;
        }
        bool found;
        if (!read_json_line(&found, r, err)) return false;
        if (!found) {
            *event = TEXT_END;
            return true;
        }
        if (!open_json_document(r, err)) return false;
    }
}

static bool next_text(TextEvent *event, TextReader *r, Err *err) {
    for (;;) {
        const unsigned char *p = r->input + r->at;
        Cut cut = cut_line(r, &p, r->input + r->filled, r->ended);
        r->at = (size_t)(p - r->input);
        if (cut == CUT_PIECE) {
            *event = TEXT_LINE;
            return true;
        }
        bool at_end = cut == CUT_MORE && r->ended;
        if ((cut == CUT_BLANK || at_end) && end_document(r)) {
            *event = TEXT_DOCUMENT_END;
            return true;
        }
        if (at_end) {
            *event = TEXT_END;
            return true;
        }
        if (cut == CUT_MORE && !refill(r, err)) return false;
    }
}

bool text_reader_next(TextEvent *event, const char **text, size_t *size, TextReader *r, Err *err) {
    if (!(r->json ? next_json : next_text)(event, r, err)) return false;
    *text = r->piece;
    *size = 0;
    if (*event == TEXT_LINE) {
        r->in_document = true;
        *size = r->cut_size;
    }
    return true;
}
