/* Any bytes as a text shard under each kind of name.  A reader gives clean lines or a message that
 * names the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/data/text_reader.h"
#include "../../src/data/utf8.h"
#include "fuzz.h"

static void must(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "property violated: %s\n", what);
    abort();
}

static void check_line(const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text;
    must(size > 0 && size <= TEXT_PIECE_MAX, "a line has 1 to TEXT_PIECE_MAX bytes");
    must(p[0] != ' ', "a line begins with a character");
    for (size_t i = 0; i < size;) {
        size_t n = utf8_length(p + i, size - i);
        must(n > 0, "a line is whole UTF-8");
        must(n > 1 || (p[i] >= ' ' && p[i] != 0x7F), "a line has no control characters");
        must(n != 2 || p[i] != 0xC2 || p[i + 1] >= 0xA0, "nor those of U+0080 to U+009F");
        i += n;
    }
}

static void try(const uint8_t *data, size_t size, const char *name) {
    enum { OUTPUT_LIMIT = 1 << 26 }; /* a few bytes can hold a great deal of compressed text */
    TextReader *reader;
    Err err = {0};
    TextEvent event = TEXT_LINE, last = TEXT_DOCUMENT_END;
    uint64_t lines = 0, total = 0;
    must(text_reader_open_memory(&reader, data, size, name, &err), "a reader opens");
    while (event != TEXT_END && total < OUTPUT_LIMIT) {
        const char *text;
        size_t length;
        if (!text_reader_next(&event, &text, &length, reader, &err)) {
            must(strncmp(err.msg, name, strlen(name)) == 0, "the message names the file");
            break;
        }
        if (event == TEXT_LINE)
            check_line(text, length);
        else
            must(event == TEXT_END || last == TEXT_LINE, "a document has a line");
        must(event != TEXT_END || last != TEXT_LINE, "the last document ends");
        last = event;
        lines += event == TEXT_LINE;
        total += length;
    }
    const TextCounts *c = text_reader_counts(reader);
    must(c->dropped_bytes <= c->text_bytes && c->longest_line <= c->text_bytes + 1 &&
             c->split_lines <= lines,
         "counts");
    text_reader_close(reader);
}

int fuzz_one(const uint8_t *data, size_t size) {
    try(data, size, "x.txt");
    try(data, size, "x.txt.gz");
    try(data, size, "x.txt.zst");
    return 0;
}
