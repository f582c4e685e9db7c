/* Text shards to token shards on several threads. */
#ifndef ENCODE_SHARDS_H
#define ENCODE_SHARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "prepare.h"
#include "tokenizer.h"

/* Called whenever an item has become ready, by one thread at a time. */
typedef struct ShardsReady {
    void (*call)(void *context);
    void *context;
} ShardsReady;

/* Reads items[i]->text_path and writes items[i]->path, for all i, and fills in the rest of each
 * item.  Text is read and tokens are written in the shards' order by one thread at a time, in
 * blocks that any thread encodes in between: one large shard keeps all threads busy, the output
 * does not depend on their number, and memory is one block a thread. On failure some shards may
 * have been written: those that are ready.  A stop signal is a failure, ERR_SIGNAL. */
bool encode_shards(ManifestShard *const *items, size_t count, const Tokenizer *tokenizer,
                   size_t threads, const ShardsReady *ready, Err *err);

#endif
