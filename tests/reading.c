#include "reading.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

static void add(Reading *r, const char *text, size_t size) {
    if (r->size + size + 1 > r->capacity) {
        r->capacity = 2 * (r->size + size + 1);
        r->text = realloc(r->text, r->capacity);
        REQUIRE(r->text != NULL);
    }
    memcpy(r->text + r->size, text, size);
    r->size += size;
    r->text[r->size] = 0;
}

static Reading read_all(TextReader *reader, Reading r) {
    TextEvent event = TEXT_LINE;
    add(&r, "", 0);
    while (r.ok && event != TEXT_END) {
        const char *text;
        size_t size;
        r.ok = text_reader_next(&event, &text, &size, reader, &r.err);
        if (!r.ok) break;
        CHECK((event == TEXT_LINE) == (size > 0));
        CHECK(size <= TEXT_PIECE_MAX);
        if (event == TEXT_LINE) {
            add(&r, text, size);
            add(&r, "\n", 1);
        } else if (event == TEXT_DOCUMENT_END) {
            add(&r, "--\n", 3);
        }
    }
    if (r.ok) {
        r.counts = *text_reader_counts(reader);
        r.hash = text_reader_file_hash(reader);
    }
    text_reader_close(reader);
    return r;
}

Reading read_path(const char *path) {
    Reading r = {0};
    TextReader *reader = NULL;
    r.ok = text_reader_open(&reader, path, &r.err);
    return r.ok ? read_all(reader, r) : r;
}

Reading read_memory(const void *data, size_t size, const char *name) {
    Reading r = {0};
    TextReader *reader = NULL;
    r.ok = text_reader_open_memory(&reader, data, size, name, &r.err);
    return r.ok ? read_all(reader, r) : r;
}
