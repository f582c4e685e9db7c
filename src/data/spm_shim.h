/* Training through sentencepiece's C++ trainer; the rest of the C++ shim is include/tokenizer.h. */
#ifndef SPM_SHIM_H
#define SPM_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "io.h"

enum {
    SPM_LINE_LIMIT = 1 << 16
}; /* bytes; the trainer skips longer lines, so callers split them first */

/* The normalisation of models trained here: sentencepiece's default, as in XLNet, T5 and XLM-R.
 * NFKC, with control characters dropped and every kind of space made one; text does not survive it
 * byte for byte ("..." for an ellipsis, ASCII for full-width digits), but no two spellings of a
 * character compete for the vocabulary. */
#define SPM_NORMALIZER "nmt_nfkc"

typedef struct SpmTrainSpec {
    TokenizerType type;
    size_t vocab_size;
    const char *const *lines; /* text, NULs and line ends already gone */
    const size_t *sizes;
    size_t count;
} SpmTrainSpec;

/* The bytes of a .model file, a function of the specification: on the same number of threads
 * everywhere, because the trainer's sums depend on it. */
bool spm_train(Bytes *model, const SpmTrainSpec *spec, Err *err);

#endif
