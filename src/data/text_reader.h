/* Lines and documents of a text shard, cleaned, in bounded memory.
 *
 * Text: a line is a paragraph or sentence, a blank line (spaces only) or the end of the shard ends
 * a document. JSON lines (.jsonl, .json or .ndjson, and each with .gz or .zst behind it): each line
 * is an object whose string `text` is one document; blank lines in that text end nothing.  Other
 * members are ignored.
 *
 * Cleaning: a byte order mark at the start is skipped; CR LF is LF; tab, vertical tab, form feed, a
 * lone CR and U+0085 become a space; spaces at the start of a line are left out; NUL, other control
 * characters (U+007F to U+009F among them) and bytes that are no UTF-8 are dropped and counted.  A
 * line over TEXT_PIECE_MAX bytes comes in several pieces, cut at a space where there is one, never
 * inside a character. */
#ifndef TEXT_READER_H
#define TEXT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

enum {
    TEXT_PIECE_MAX = 16 << 10,
    TEXT_JSON_LINE_MAX = 16 << 20 /* a JSON line is held whole */
};

typedef enum TextEvent {
    TEXT_LINE,         /* text[0..size), never empty or all spaces; no line end */
    TEXT_DOCUMENT_END, /* after at least one line, once for each document */
    TEXT_END           /* of the shard */
} TextEvent;

typedef struct TextCounts {
    uint64_t text_bytes; /* decompressed bytes read */
    uint64_t dropped_bytes;
    uint64_t split_lines;     /* lines that came in more than one piece */
    uint64_t empty_documents; /* JSON lines whose text has no line */
    uint64_t longest_line;    /* cleaned bytes */
} TextCounts;

typedef struct TextReader TextReader;

bool text_reader_open(TextReader **out, const char *path, Err *err);
bool text_reader_open_memory(TextReader **out, const void *data, size_t size, const char *name,
                             Err *err);

/* *text is borrowed until the next call. */
bool text_reader_next(TextEvent *event, const char **text, size_t *size, TextReader *reader,
                      Err *err);

const TextCounts *text_reader_counts(const TextReader *reader);
uint64_t text_reader_file_position(const TextReader *reader); /* bytes of the file, as stored */
uint64_t
text_reader_file_hash(const TextReader *reader); /* io_hash of the file; after TEXT_END only */
void text_reader_close(TextReader *reader);      /* accepts NULL */

#endif
