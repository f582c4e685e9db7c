#include "checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_format.h"

static const char DAMAGED[] = "the file is damaged; use an earlier checkpoint";

/* Names what the file is, if its first bytes are known. */
static bool fail_magic(const unsigned char *data, Err *err) {
    static const struct {
        const char *magic;
        size_t size;
        const char *what;
    } others[] = {
        {"LFTOKENS", 8, "a token shard"}, {"PK\003\004", 4, "a zip archive (PyTorch files are)"},
        {"GGUF", 4, "a GGUF file"},       {"\x93NUMPY", 6, "a NumPy array"},
        {"\x1f\x8b", 2, "a gzip file"},
    };
    unsigned char swapped[3][CKPT_MAGIC_SIZE];
    for (size_t i = 0; i < CKPT_MAGIC_SIZE; i++) {
        for (size_t w = 0; w < 3; w++) swapped[w][i] = checkpoint_magic[i ^ ((2u << w) - 1)];
    }
    for (size_t w = 0; w < 3; w++) {
        if (!memcmp(data, swapped[w], CKPT_MAGIC_SIZE)) {
            return err_set(err, ERR_FAILED,
                           "a checkpoint with its bytes swapped in words of %d: copy it again "
                           "without conversion",
                           2 << w);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (!memcmp(data, others[i].magic, others[i].size)) {
            return err_set(err, ERR_FAILED, "not a checkpoint but %s", others[i].what);
        }
    }
    return err_set(
        err, ERR_FAILED,
        "not a checkpoint: begins with %02x %02x %02x %02x, wanted 4c 46 43 4b (\"LFCK\")", data[0],
        data[1], data[2], data[3]);
}

/* Checks the fixed fields and the header's checksum; *header_size is then within the file. */
static bool check_fixed(size_t *header_size, const unsigned char *data, size_t size, Err *err) {
    if (size < CKPT_FIXED) {
        return err_set(
            err, ERR_FAILED,
            "%zu bytes, a checkpoint has more than %d: cut off; use an earlier checkpoint", size,
            CKPT_FIXED);
    }
    if (memcmp(data, checkpoint_magic, CKPT_MAGIC_SIZE) != 0) return fail_magic(data, err);
    uint32_t version = io_get_u32(data + 8), zero = io_get_u32(data + 12);
    if (version != CKPT_VERSION) {
        return err_set(
            err, ERR_FAILED, "format version %" PRIu32 ", this program reads version %d%s", version,
            CKPT_VERSION, version > CKPT_VERSION ? ": use the newer linformer that wrote it" : "");
    }
    if (zero != 0)
        return err_set(err, ERR_FAILED, "bytes 12..15 are %" PRIu32 ", wanted 0: %s", zero,
                       DAMAGED);
    uint64_t length = io_get_u64(data + 24);
    if (length < 2 || length > CKPT_MAX_HEADER) {
        return err_set(err, ERR_FAILED, "header length %" PRIu64 ", wanted 2..%d: %s", length,
                       CKPT_MAX_HEADER, DAMAGED);
    }
    if (length > size - CKPT_FIXED) {
        return err_set(err, ERR_FAILED,
                       "%zu bytes, its header alone ends at byte %" PRIu64
                       ": cut off; use an earlier checkpoint",
                       size, CKPT_FIXED + length);
    }
    uint64_t found = io_hash(data + CKPT_HASH_FROM, (size_t)(CKPT_FIXED - CKPT_HASH_FROM + length));
    uint64_t wanted = io_get_u64(data + 16);
    if (found != wanted) {
        return err_set(err, ERR_FAILED,
                       "header checksum is %016" PRIx64 ", wanted %016" PRIx64 ": %s", found,
                       wanted, DAMAGED);
    }
    *header_size = (size_t)length;
    return true;
}

static bool check_checksum(const CheckpointEntry *entry, const void *data, Err *err) {
    uint64_t found = io_hash(data, (size_t)entry->bytes);
    if (found == entry->checksum) return true;
    return err_set(err, ERR_FAILED,
                   "tensor %s: checksum is %016" PRIx64 ", wanted %016" PRIx64 ": %s", entry->name,
                   found, entry->checksum, DAMAGED);
}

static bool check_zeros(const unsigned char *data, size_t from, size_t to, Err *err) {
    for (size_t i = from; i < to; i++) {
        if (data[i])
            return err_set(err, ERR_FAILED, "byte %zu is %d, wanted 0 between tensors: %s", i,
                           data[i], DAMAGED);
    }
    return true;
}

/* The gap in front of entry i. */
static bool check_gap(const Checkpoint *c, size_t i, Err *err) {
    uint64_t from = i ? c->entries[i - 1].offset + c->entries[i - 1].bytes : 0;
    return check_zeros(c->map.data + c->data_start, (size_t)from, (size_t)c->entries[i].offset,
                       err);
}

static const unsigned char *entry_bytes(const Checkpoint *c, size_t i) {
    return c->map.data + c->data_start + c->entries[i].offset;
}

static bool open_mapped(Checkpoint *c, Err *err) {
    size_t header_size = 0;
    uint64_t data_bytes = 0;
    if (!check_fixed(&header_size, c->map.data, c->map.size, err)) return false;
    if (!checkpoint_header_parse(c, &data_bytes, (const char *)c->map.data + CKPT_FIXED,
                                 header_size, err))
        return false;
    c->data_start = (size_t)checkpoint_align(CKPT_FIXED + header_size);
    if (c->map.size < c->data_start || c->map.size - c->data_start < data_bytes) {
        return err_set(err, ERR_FAILED,
                       "%zu bytes, its header describes %" PRIu64
                       ": cut off; use an earlier checkpoint",
                       c->map.size, c->data_start + data_bytes);
    }
    if (c->map.size - c->data_start > data_bytes) {
        return err_set(err, ERR_FAILED,
                       "%zu bytes, its header describes %" PRIu64
                       ": something follows the last tensor; %s",
                       c->map.size, c->data_start + data_bytes, DAMAGED);
    }
    if (!check_zeros(c->map.data, CKPT_FIXED + header_size, c->data_start, err)) return false;

    size_t last = c->entry_count - 1;
    if (!check_gap(c, last, err) || !check_checksum(&c->entries[last], entry_bytes(c, last), err))
        return false;
    c->tokenizer =
        (Bytes){(unsigned char *)(uintptr_t)entry_bytes(c, last), (size_t)c->entries[last].bytes};
    if (c->entries[last].checksum != c->tokenizer_hash) {
        return err_set(err, ERR_FAILED,
                       "tokenizer_hash is %016" PRIx64 ", its tokenizer's is %016" PRIx64 ": %s",
                       c->tokenizer_hash, c->entries[last].checksum, DAMAGED);
    }
    return true;
}

static bool fail_open(Checkpoint *c, const char *name, Err *err) {
    checkpoint_close(c);
    err_context(err, "%s", name);
    if (err)
        err->code =
            ERR_FAILED; /* a config inside a file is data: the user's own config is not at fault */
    return false;
}

bool checkpoint_open_bytes(Checkpoint *out, const unsigned char *data, size_t size,
                           const char *name, Err *err) {
    *out = (Checkpoint){.map = {data, size}};
    bool ok = false;
    out->path = malloc(strlen(name) + 1);
    if (out->path)
        ok = open_mapped(out, err);
    else
        err_set(err, ERR_FAILED, "no memory");
    if (ok) {
        strcpy(out->path, name);
        return true;
    }
    out->map = (Map){0}; /* not ours to unmap */
    return fail_open(out, name, err);
}

bool checkpoint_open(Checkpoint *out, const char *path, Err *err) {
    Map map;
    *out = (Checkpoint){0};
    if (!io_map(&map, path, err)) return false;
    bool ok = checkpoint_open_bytes(out, map.data, map.size, path, err);
    if (ok)
        out->owns_map = true;
    else
        io_unmap(&map);
    return ok;
}

void checkpoint_close(Checkpoint *c) {
    if (c->owns_map) io_unmap(&c->map);
    config_free(&c->config);
    label_set_free(&c->labels);
    param_table_destroy(&c->table);
    free(c->path);
    free(c->kind);
    free(c->entries);
    *c = (Checkpoint){0};
}

/* Verifies entry i and the gap in front of it; copies the entry to `copy` where that is not
 * NULL. */
static bool read_entry(const Checkpoint *c, size_t i, real *copy, Err *err) {
    const CheckpointEntry *entry = &c->entries[i];
    const void *data = entry_bytes(c, i);
    if (copy) { /* what is checked is the copy: the file may change under the map */
        memcpy(copy, data, (size_t)entry->bytes);
        data = copy;
    }
    return (check_gap(c, i, err) && check_checksum(entry, data, err)) ||
           err_context(err, "%s", c->path);
}

/* Verifies everything; copies the tensors of block b to blocks[b] where that is not NULL. */
static bool read_blocks(const Checkpoint *c, real *const blocks[3], Err *err) {
    size_t count = c->table.count;
    for (size_t i = 0; i < c->entry_count; i++) {
        real *block = i / count <= c->moments ? blocks[i / count] : NULL;
        if (!read_entry(c, i, block ? block + c->table.items[i % count].offset : NULL, err))
            return false;
    }
    return true;
}

bool checkpoint_check_vocab(const Checkpoint *c, size_t pieces, Err *err) {
    size_t vocab = c->config.model.vocab;
    if (pieces == vocab) return true;
    return err_set(err, ERR_FAILED,
                   "%s: its header says %zu pieces, its tokenizer has %zu: weights and tokenizer "
                   "are not of one model; use a file that linformer wrote",
                   c->path, vocab, pieces);
}

/* The blocks of the caller are laid out as the file's. */
static bool check_layout(const Checkpoint *c, const ParamTable *table, Err *err) {
    if (table->block_reals == c->table.block_reals && table->count == c->table.count) return true;
    return err_set(err, ERR_FAILED,
                   "%s: %zu parameters in %zu tensors, the model has %zu in %zu: another model's",
                   c->path, c->table.parameters, c->table.count, table->parameters, table->count);
}

bool checkpoint_read(const Checkpoint *c, const ParamTable *table, real *weights, real *adam_m,
                     real *adam_v, Err *err) {
    if (!check_layout(c, table, err)) return false;
    if ((adam_m && c->moments < 1) || (adam_v && c->moments < 2)) {
        return err_set(err, ERR_FAILED,
                       "%s: kind \"%s\" with %zu moment blocks: training cannot go on from it; use "
                       "last.ckpt or a "
                       "step-*.ckpt",
                       c->path, c->kind, c->moments);
    }
    real *const blocks[3] = {weights, adam_m, adam_v};
    return read_blocks(c, blocks, err);
}

/* Every encoder tensor of a is in b, with the same shape. */
static bool check_encoder(const ParamTable *a, const ParamTable *b, const char *owner_a,
                          const char *owner_b, Err *err) {
    for (size_t i = 0; i < a->count; i++) {
        const Tensor *t = &a->items[i], *other = param_table_find(b, t->name);
        if (t->head) continue;
        if (!other)
            return err_set(err, ERR_FAILED,
                           "%s has a tensor %s, %s has none: wanted the same "
                           "encoder; take layers, attention, sharing and norm from the checkpoint",
                           owner_a, t->name, owner_b);
        if (t->rows != other->rows || t->cols != other->cols)
            return err_set(err, ERR_FAILED,
                           "tensor %s is %zu x %zu in %s, %zu x %zu in %s: wanted the same "
                           "encoder; take n, k and the other sizes from the checkpoint",
                           t->name, t->rows, t->cols, owner_a, other->rows, other->cols, owner_b);
    }
    return true;
}

bool checkpoint_read_encoder(const Checkpoint *c, const ParamTable *table, real *weights,
                             Err *err) {
    if (!check_encoder(table, &c->table, "the model", "the checkpoint", err) ||
        !check_encoder(&c->table, table, "the checkpoint", "the model", err))
        return err_context(err, "%s", c->path);
    for (size_t i = 0; i < c->entry_count; i++) {
        const Tensor *from = i < c->table.count ? &c->table.items[i] : NULL;
        const Tensor *to = from && !from->head ? param_table_find(table, from->name) : NULL;
        if (!read_entry(c, i, to ? weights + to->offset : NULL, err)) return false;
    }
    return true;
}

bool checkpoint_verify(const Checkpoint *c, Err *err) {
    real *const none[3] = {NULL, NULL, NULL};
    return read_blocks(c, none, err);
}
