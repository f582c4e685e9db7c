/* The most probable pieces for the `<mask>` places of a text. */
#ifndef FILL_MASK_H
#define FILL_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "activations.h"
#include "err.h"
#include "loaded_model.h"

/* Token ids of a text in which "<mask>" stands for a piece, as the model sees them: `<s>` text
 * `</s>`.  Masks are put in by id; a mask replaces a piece with the space before it, so that space
 * is dropped ("a <mask> b" gives `<s>` a `<mask>` b `</s>`), and what follows a mask is cut into
 * pieces as inside a text, without the space that a text begins with. */
typedef struct MaskedText {
    uint32_t *ids;
    size_t count;
    size_t *masks; /* rows of the masks in ids, ascending */
    size_t mask_count;
} MaskedText;

bool masked_text_encode(MaskedText *out, const Tokenizer *tokenizer, const char *text, size_t size,
                        Err *err);
void masked_text_free(MaskedText *text); /* accepts a zeroed struct */

typedef struct Fill {
    uint32_t id;
    double probability; /* of the softmax over the whole vocabulary */
} Fill;

/* Buffers for one text at a time. */
typedef struct FillMask {
    const LoadedModel *model; /* borrowed */
    Activations acts;
} FillMask;

bool fill_mask_create(FillMask *out, const LoadedModel *model, Err *err);
void fill_mask_destroy(FillMask *fill); /* accepts a zeroed struct */

/* fills (mask_count, top) overwritten: the top pieces of each mask, the most probable first; every
 * mask is predicted with the others still masked.  Special pieces are left out.  Fails when the
 * text has no mask or more than n tokens, and with ERR_NONFINITE when the model gives no number.
 * 1 <= top <= vocabulary size - specials. */
bool fill_mask_predict(Fill *fills, FillMask *fill, const MaskedText *text, size_t top, Err *err);

#endif
