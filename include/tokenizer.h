/* sentencepiece behind a C interface (src/data/tokenizer_spm.cc is the only C++ in the tree).
 * Special pieces, all control symbols, so that no raw text can produce them: `<s>` 0, `<pad>` 1,
 * `</s>` 2, `<unk>` 3, `<mask>` 4.  Byte fallback is on.  A model with other ids is refused. */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "err.h"
#include "io.h"

enum {
    TOKEN_BOS = 0,
    TOKEN_PAD = 1,
    TOKEN_EOS = 2,
    TOKEN_UNK = 3,
    TOKEN_MASK = 4,
    TOKEN_SPECIALS = 5
};

typedef struct Tokenizer Tokenizer;

/* From a .model file, or from its bytes (a checkpoint carries them).  The five special ids are
 * checked. */
bool tokenizer_load(Tokenizer **out, const char *path, Err *err);
bool tokenizer_load_bytes(Tokenizer **out, const void *data, size_t size, const char *name,
                          Err *err);
void tokenizer_destroy(Tokenizer *tokenizer);

size_t tokenizer_vocab_size(const Tokenizer *tokenizer); /* pieces, specials included */
uint64_t tokenizer_hash(const Tokenizer *tokenizer);     /* io_hash of the model's bytes */
Bytes tokenizer_bytes(const Tokenizer *tokenizer);       /* the model file's bytes; borrowed */
const char *tokenizer_normalizer(const Tokenizer *tokenizer);
TokenizerType tokenizer_type(const Tokenizer *tokenizer);

/* Records in config what the tokenizer in use is: type and number of pieces.  ERR_CONFIG where
 * tokenizer.type or tokenizer.vocab_size was given and says something else. */
bool tokenizer_take_config(Config *config, const Tokenizer *tokenizer, Err *err);

/* Ids of `size` bytes of UTF-8 text, no specials added, into a growing buffer owned by the caller
 * (*ids realloc'd, *capacity updated; zero-initialise both).  Thread-safe for concurrent calls. */
bool tokenizer_encode(const Tokenizer *tokenizer, uint32_t **ids, size_t *count, size_t *capacity,
                      const char *text, size_t size, Err *err);

/* The same for much text, a thread at a time with a cache of its own: the tokens of frequent words
 * are remembered where that cannot change the result, which is BPE with the normalisation of models
 * trained here.  (Unigram sums scores in float over the whole line, so where two segmentations of a
 * word tie, the words before it decide.)  cache may be NULL. */
typedef struct TokenizerCache TokenizerCache;
TokenizerCache *
tokenizer_cache_create(const Tokenizer *tokenizer);  /* NULL where it would be of no use */
void tokenizer_cache_destroy(TokenizerCache *cache); /* accepts NULL */
bool tokenizer_encode_cached(const Tokenizer *tokenizer, TokenizerCache *cache, uint32_t **ids,
                             size_t *count, size_t *capacity, const char *text, size_t size,
                             Err *err);

/* Text of ids; malloc'd.  Specials are written by name. */
char *tokenizer_decode(const Tokenizer *tokenizer, const uint32_t *ids, size_t count);

/* The piece itself, e.g. "\xe2\x96\x81the"; borrowed until destroy. */
const char *tokenizer_piece(const Tokenizer *tokenizer, uint32_t id);

/* Trains the model named in config->tokenizer on a bounded sample of lines from config->data.train
 * and writes it atomically, with a record beside it of what it was trained on.  Its bytes are a
 * function of text and tokenizer settings alone.  Long lines are split first, so none is skipped.
 * Shows progress; a stop signal ends it with ERR_SIGNAL (see tokenizer_train.c for what that leaves
 * running until the process ends). */
bool tokenizer_train(const Config *config, Err *err);

/* Trains the tokenizer where it is missing, and, at its default place, where it was trained on
 * other text or with other settings; one that tokenizer.model names is then used with a warning.
 * kept: hash of a tokenizer that is used in any case; 0: none. */
bool tokenizer_ensure(const Config *config, uint64_t kept, Err *err);

/* The lock of those who train the tokenizer, or use it and must have it stay what it is. */
bool tokenizer_lock(int *lock, const Config *config, Err *err);

#endif
