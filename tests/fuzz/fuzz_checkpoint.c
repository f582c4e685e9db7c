/* Checkpoints from memory: as they are, and with the header's length and checksum made right, so
 * that the JSON behind them is reached.  What loads must save and reload equal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "fuzz.h"

static void must(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "property violated: %s\n", what);
    abort();
}

static real *block_create(const Checkpoint *c) {
    real *block = calloc(c->table.block_reals ? c->table.block_reals : 1, sizeof *block);
    must(block != NULL, "memory within the file's size");
    return block;
}

static void save_and_reload(const Checkpoint *c) {
    Err err = {0};
    Checkpoint again;
    char path[64];
    real *blocks[3] = {block_create(c), c->moments > 0 ? block_create(c) : NULL,
                       c->moments > 1 ? block_create(c) : NULL};
    must(checkpoint_read(c, &c->table, blocks[0], blocks[1], blocks[2], &err),
         "what verifies can be read");
    CheckpointContent content = {.kind = c->kind,
                                 .config = &c->config,
                                 .state = &c->state,
                                 .table = &c->table,
                                 .weights = blocks[0],
                                 .adam_m = blocks[1],
                                 .adam_v = blocks[2],
                                 .tokenizer = c->tokenizer,
                                 .labels = c->labels.count ? &c->labels : NULL};
    snprintf(path, sizeof path, "/tmp/fuzz-checkpoint-%ld", (long)getpid());
    must(checkpoint_save(path, &content, &err) && checkpoint_open(&again, path, &err),
         "what loads can be saved and loaded");
    must(checkpoint_verify(&again, &err), "what was saved verifies");
    must(again.entry_count == c->entry_count && again.moments == c->moments, "same tensors");
    for (size_t i = 0; i < c->entry_count; i++)
        must(again.entries[i].checksum == c->entries[i].checksum, "same content");
    must(again.state.step == c->state.step && again.state.window_loss == c->state.window_loss &&
             again.state.data_hash == c->state.data_hash,
         "same state");
    must(again.labels.count == c->labels.count, "as many labels");
    for (size_t i = 0; i < c->labels.count; i++)
        must(!strcmp(again.labels.names[i], c->labels.names[i]), "same labels");
    checkpoint_close(&again);
    unlink(path);
    for (size_t i = 0; i < 3; i++) free(blocks[i]);
}

static void try_bytes(const uint8_t *data, size_t size) {
    Err err = {0};
    Checkpoint c;
    if (checkpoint_open_bytes(&c, data, size, "input", &err)) {
        if (checkpoint_verify(&c, &err))
            save_and_reload(&c);
        else
            must(err.code == ERR_FAILED && err.msg[0], "a refusal says why");
    } else {
        must(err.code == ERR_FAILED && err.msg[0], "a refusal says why");
    }
    checkpoint_close(&c);
}

int fuzz_one(const uint8_t *data, size_t size) {
    try_bytes(data, size);
    if (size < 40) return 0;
    uint8_t *copy = malloc(size);
    if (!copy) return 0;
    memcpy(copy, data, size);
    memcpy(copy, "LFCKPT\r\n\1\0\0\0\0\0\0\0", 16);
    /* the header ends where its brackets do, or the length stands as it is */
    uint64_t length = io_get_u64(copy + 24);
    for (size_t i = 32; i + 1 < size; i++) {
        if (copy[i] == ']' && copy[i + 1] == '}') {
            length = i + 2 - 32;
            break;
        }
    }
    if (length > size - 32) length = size - 32;
    io_put_u64(copy + 24, length);
    io_put_u64(copy + 16, io_hash(copy + 24, 8 + (size_t)length));
    try_bytes(copy, size);
    free(copy);
    return 0;
}
