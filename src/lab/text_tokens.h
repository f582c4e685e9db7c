/* Text files as token shards of a model's own tokenizer. */
#ifndef TEXT_TOKENS_H
#define TEXT_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "loaded_model.h"
#include "prepare.h"

/* Encodes the texts below `folder` (which must exist; the caller removes it) on `threads` threads
 * (0: all this process may use).  The texts stand in the manifest's held-out part; manifest_free in
 * any case. */
bool text_tokens_encode(Manifest *out, const LoadedModel *model, const PathList *texts,
                        const char *folder, size_t threads, Err *err);

#endif
