/* What a tokenizer was trained on: a text file beside it, <tokenizer.model>.made_from.
 *   line 1     16 hex digits: XXH3 of line 2 and of the contents of the texts, in their order
 *   line 2     type, vocab_size, sample_bytes; number of texts and their bytes together
 *   from 3 on  a line for each text: bytes, modification time in ns, path
 * Texts with the size, time and path recorded are taken for unchanged; otherwise their contents are
 * compared, so a text may be touched, moved or copied. */
#ifndef TOKENIZER_RECORD_H
#define TOKENIZER_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "err.h"

typedef enum TokenizerState {
    TOKENIZER_MISSING,    /* there is no such file */
    TOKENIZER_UNRECORDED, /* it was not trained here: nothing is known of its text */
    TOKENIZER_CURRENT,    /* of the text and settings of the config */
    TOKENIZER_STALE       /* of others */
} TokenizerState;

bool tokenizer_state(TokenizerState *out, const Config *config, Err *err);

/* From line 2 on, for the texts as they are now; malloc'd, NULL with the error set. */
char *tokenizer_record_lines(const Config *config, Err *err);

/* lines: as they were before the texts were read; text_hashes: io_hash of what was read. */
bool tokenizer_record_write(const Config *config, const char *lines, const uint64_t *text_hashes,
                            Err *err);

#endif
