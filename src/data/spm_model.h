/* What sentencepiece's C++ interface does not tell about a .model file: its normaliser, and whether
 * the file is whole. The file is a protocol buffer (ModelProto of sentencepiece_model.proto): field
 * 1 a piece, repeated; 2 the trainer's settings; 3 the normaliser's. */
#ifndef SPM_MODEL_H
#define SPM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct SpmModel {
    bool is_bpe;
    size_t pieces;            /* counted in the file */
    char normalizer[64];      /* name of the normalisation rules */
    bool dummy_prefix;        /* a space is put before the text */
    bool remove_extra_spaces; /* runs of spaces become one */
    bool words_are_separate;  /* no piece reaches over a space: words can be encoded one by one */
    bool has_user_symbols;
} SpmModel;

/* Fails (ERR_FAILED) unless data is a complete model: every field whole, as many pieces as the
 * trainer's settings say, and a character map whose every jump stays inside it (sentencepiece
 * itself does not check that). */
bool spm_model_read(SpmModel *out, const unsigned char *data, size_t size, Err *err);

#endif
