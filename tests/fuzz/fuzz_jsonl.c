/* Any bytes as JSON lines, and as the text of one document written as JSON by cJSON: that must come
 * out as the same lines as the bytes themselves, but for blank ones, which end no document here. */
#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/data/text_reader.h"
#include "fuzz.h"

static void must(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "property violated: %s\n", what);
    abort();
}

/* All lines, one after the other, each followed by a line end; NULL if the reader complains. */
static char *read_lines(size_t *documents, const void *data, size_t size, const char *name) {
    TextReader *reader;
    Err err = {0};
    TextEvent event = TEXT_LINE;
    size_t filled = 0;
    /* cleaning shortens; a line split at TEXT_PIECE_MAX gains a line end */
    char *out = malloc(2 * size + 64);
    must(out && text_reader_open_memory(&reader, data, size, name, &err), "a reader opens");
    *documents = 0;
    while (event != TEXT_END) {
        const char *text;
        size_t length;
        if (!text_reader_next(&event, &text, &length, reader, &err)) {
            must(strncmp(err.msg, name, strlen(name)) == 0, "the message names the file");
            text_reader_close(reader);
            free(out);
            return NULL;
        }
        *documents += event == TEXT_DOCUMENT_END;
        if (event != TEXT_LINE) continue;
        must(filled + length + 1 <= 2 * size + 64, "lines are no longer than the text");
        memcpy(out + filled, text, length);
        filled += length;
        out[filled++] = '\n';
    }
    out[filled] = 0;
    text_reader_close(reader);
    return out;
}

/* JSON without NULs, which cJSON cannot write, and without a byte order mark, which only files
 * begin with. */
static void try_as_text(const uint8_t *data, size_t size) {
    size_t documents;
    char *text = malloc(size + 1);
    must(text != NULL, "memory");
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == 0) text[i] = 1;
    }
    while (size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) memset(text, ' ', 3);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "text", text);
    char *json = cJSON_PrintUnformatted(object);
    must(json != NULL, "cJSON writes");
    char *from_json = read_lines(&documents, json, strlen(json), "x.jsonl");
    must(from_json != NULL, "what cJSON writes is read");
    must(documents <= 1, "one line of JSON is one document");
    char *from_text = NULL;
    size_t ignored;
    /* a text that begins like a compressed file is refused as text */
    from_text = read_lines(&ignored, text, size, "x.txt");
    must(!from_text || !strcmp(from_text, from_json), "JSON and text give the same lines");
    free(from_text);
    free(from_json);
    cJSON_free(json);
    cJSON_Delete(object);
    free(text);
}

int fuzz_one(const uint8_t *data, size_t size) {
    size_t documents;
    free(read_lines(&documents, data, size, "x.jsonl"));
    try_as_text(data, size);
    return 0;
}
