#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_format.h"
#include "optimizer.h"

const unsigned char checkpoint_magic[CKPT_MAGIC_SIZE] = {'L', 'F', 'C', 'K', 'P', 'T', '\r', '\n'};

/* Puts one tensor at the next aligned offset behind *end. */
static bool entry_place(CheckpointEntry *entry, uint64_t *end, size_t elements, size_t elem_size) {
    uint64_t aligned;
    if (__builtin_add_overflow(*end, (uint64_t)(CKPT_ALIGN - 1), &aligned)) return false;
    entry->offset = aligned / CKPT_ALIGN * CKPT_ALIGN;
    return !__builtin_mul_overflow((uint64_t)elements, (uint64_t)elem_size, &entry->bytes) &&
           !__builtin_add_overflow(entry->offset, entry->bytes, end);
}

bool checkpoint_entries_create(CheckpointEntry **out, size_t *count, uint64_t *data_bytes,
                               const ParamTable *table, size_t moments, size_t tokenizer_bytes,
                               Err *err) {
    static const char *const prefixes[] = {"", "adam_m.", "adam_v."};
    *count = table->count * (1 + moments) + 1;
    CheckpointEntry *entries = calloc(*count, sizeof *entries), *e = entries;
    if (!entries) return err_set(err, ERR_FAILED, "no memory for a table of %zu tensors", *count);
    uint64_t end = 0;
    bool fits = true;
    for (size_t block = 0; block <= moments; block++) {
        for (size_t i = 0; i < table->count; i++, e++) {
            const Tensor *t = &table->items[i];
            snprintf(e->name, sizeof e->name, "%s%s", prefixes[block], t->name);
            e->dtype = CKPT_DTYPE;
            e->rows = t->rows;
            e->cols = t->matrix ? t->cols : 0;
            fits = fits && entry_place(e, &end, t->count, sizeof(real));
        }
    }
    snprintf(e->name, sizeof e->name, "tokenizer");
    e->dtype = "U8";
    e->rows = tokenizer_bytes;
    fits = fits && entry_place(e, &end, tokenizer_bytes, 1);
    if (!fits) {
        free(entries);
        return err_set(err, ERR_FAILED, "the tensors' sizes overflow 64 bits");
    }
    *out = entries;
    *data_bytes = end;
    return true;
}

/* The bytes of entry `i`. */
static const void *entry_data(const CheckpointContent *content, size_t i) {
    const real *blocks[] = {content->weights, content->adam_m, content->adam_v};
    size_t block = i / content->table->count;
    if (block > 2 || !blocks[block]) return content->tokenizer.data;
    return blocks[block] + content->table->items[i % content->table->count].offset;
}

static void write_zeros(AtomicFile *file, uint64_t until) {
    static const unsigned char zeros[CKPT_ALIGN];
    io_atomic_write(file, zeros, (size_t)(until - file->size));
}

static void write_fixed(AtomicFile *file, const char *header, size_t header_size) {
    unsigned char fixed[CKPT_FIXED] = {0};
    memcpy(fixed, checkpoint_magic, CKPT_MAGIC_SIZE);
    io_put_u32(fixed + 8, CKPT_VERSION);
    io_put_u64(fixed + 24, header_size);
    IoHash *hash = io_hash_begin();
    if (!hash) {
        file->error = 12; /* ENOMEM */
        return;
    }
    io_hash_add(hash, fixed + CKPT_HASH_FROM, CKPT_FIXED - CKPT_HASH_FROM);
    io_hash_add(hash, header, header_size);
    io_put_u64(fixed + 16, io_hash_end(hash));
    io_atomic_write(file, fixed, sizeof fixed);
    io_atomic_write(file, header, header_size);
}

/* What would be refused on opening is not written. */
static bool check_labels(const CheckpointContent *content, Err *err) {
    size_t classes = content->config->model.classes;
    assert((classes > 0) == !strcmp(content->kind, CKPT_CLASSIFIER));
    assert((classes > 0) == (content->labels != NULL));
    if (classes == 0) return true;
    assert(content->labels->count == classes);
    return label_set_check(content->labels, err);
}

bool checkpoint_save(const char *path, const CheckpointContent *content, Err *err) {
    bool ok = false;
    CheckpointEntry *entries = NULL;
    char *header = NULL;
    AtomicFile file = {0};
    size_t count = 0, moments = (content->adam_m ? 1 : 0) + (content->adam_v ? 1 : 0);
    uint64_t data_bytes = 0;

    if (!check_labels(content, err)) return err_context(err, "%s", path);
    if (!checkpoint_entries_create(&entries, &count, &data_bytes, content->table, moments,
                                   content->tokenizer.size, err)) {
        err_context(err, "%s", path);
        goto done;
    }
    for (size_t i = 0; i < count; i++)
        entries[i].checksum = io_hash(entry_data(content, i), (size_t)entries[i].bytes);
    header = checkpoint_header_write(content, entries, count);
    if (!header) {
        err_set(err, ERR_FAILED, "%s: no memory for the header", path);
        goto done;
    }
    if (!io_atomic_open(&file, path, err)) goto done;
    write_fixed(&file, header, strlen(header));
    uint64_t data_start = checkpoint_align(CKPT_FIXED + strlen(header));
    for (size_t i = 0; i < count && !file.error; i++) {
        write_zeros(&file, data_start + entries[i].offset);
        io_atomic_write(&file, entry_data(content, i), (size_t)entries[i].bytes);
    }
    ok = io_atomic_commit(&file, err);
done:
    free(header);
    free(entries);
    return ok;
}
