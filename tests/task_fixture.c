#include "task_fixture.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "io.h"

FinetuneConfig task_fixture_config(TaskKind task) {
    static char text[] = "text", label[] = "label";
    FinetuneConfig config = {.task = task};
    if (task == TASK_CUSTOM) {
        config.text = text;
        config.label = label;
    }
    return config;
}

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), e = strlen(ending);
    return n >= e && strcmp(name + n - e, ending) == 0;
}

static uint32_t crc32_of(const unsigned char *p, size_t size) {
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

/* A gzip member of one block that is not compressed; returns its size. */
static size_t pack_gzip(unsigned char *out, const void *text, size_t size) {
    static const unsigned char header[] = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255, 1};
    REQUIRE(size < 65536);
    memcpy(out, header, sizeof header); /* the last byte begins the block */
    unsigned char *p = out + sizeof header;
    *p++ = (unsigned char)size;
    *p++ = (unsigned char)(size >> 8);
    *p++ = (unsigned char)~size;
    *p++ = (unsigned char)(~size >> 8);
    memcpy(p, text, size);
    p += size;
    io_put_u32(p, crc32_of(text, size));
    io_put_u32(p + 4, (uint32_t)size);
    return (size_t)(p + 8 - out);
}

/* A zstd frame of one block that is not compressed. */
static size_t pack_zstd(unsigned char *out, const void *text, size_t size) {
    static const unsigned char magic[] = {0x28, 0xB5, 0x2F, 0xFD, 0x20}; /* and a one-byte size */
    REQUIRE(size < 256);
    memcpy(out, magic, sizeof magic);
    out[5] = (unsigned char)size;
    out[6] = (unsigned char)(size << 3 | 1); /* the last block, raw, of three bytes for its size */
    out[7] = (unsigned char)(size >> 5);
    out[8] = 0;
    memcpy(out + 9, text, size);
    return 9 + size;
}

const char *task_fixture_write(const char *name, const void *text, size_t size) {
    Err err = {0};
    const char *path = test_temp_path(name);
    char *folder = strdup(path);
    unsigned char *packed = malloc(size + 64);
    REQUIRE(folder && packed);
    *strrchr(folder, '/') = 0;
    if (!io_make_dirs(folder, &err)) test_fail(__FILE__, __LINE__, "%s", err.msg);
    if (ends_with(name, ".gz")) {
        size = pack_gzip(packed, text, size);
        text = packed;
    } else if (ends_with(name, ".zst")) {
        size = pack_zstd(packed, text, size);
        text = packed;
    }
    FILE *file = fopen(path, "wb");
    REQUIRE(file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
    free(packed);
    free(folder);
    return path;
}

bool task_fixture_read(TaskFile *out, const FinetuneConfig *config, const LabelSet *known,
                       const char *name, const char *text, TaskLabels labels, Err *err) {
    char *path = (char *)task_fixture_write(name, text, strlen(text));
    return task_file_read(out, config, known, &(PathList){&path, 1}, labels, err);
}

TaskFile task_fixture_must_read(const FinetuneConfig *config, const char *name, const char *text) {
    TaskFile file;
    Err err = {0};
    if (!task_fixture_read(&file, config, NULL, name, text, TASK_LABELS_NEEDED, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return file;
}

char *task_fixture_rows(const TaskFile *file) {
    size_t size = 1;
    for (size_t i = 0; i < file->count; i++)
        size += file->rows[i].size[0] + file->rows[i].size[1] + 128;
    char *out = malloc(size), *at = out;
    REQUIRE(out != NULL);
    *at = 0;
    for (size_t i = 0; i < file->count; i++) {
        const TaskRow *row = &file->rows[i];
        bool labelled = row->label != TASK_NO_LABEL;
        CHECK(!labelled || (size_t)row->label < file->labels.count);
        CHECK((row->text[1] != NULL) == file->pairs);
        at += sprintf(at, "%.100s|", labelled ? file->labels.names[row->label] : "-");
        for (size_t t = 0; t < 1 + (size_t)file->pairs; t++) {
            memcpy(at, row->text[t], row->size[t]);
            at += row->size[t];
            *at++ = t == (size_t)file->pairs ? '\n' : '|';
        }
        *at = 0;
    }
    return out;
}

void task_fixture_check(const FinetuneConfig *config, const char *name, const char *text,
                        const char *rows) {
    TaskFile file = task_fixture_must_read(config, name, text);
    char *found = task_fixture_rows(&file);
    CHECK_STR(found, rows);
    free(found);
    task_file_free(&file);
}
