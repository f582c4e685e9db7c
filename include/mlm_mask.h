/* Masking of the masked-language-model objective (BERT/RoBERTa: 15%; 80% `<mask>`, 10% random, 10%
 * kept). Special tokens are never predicted and never drawn as replacements, unlike in fairseq,
 * which masks `<s>` and `</s>` too. */
#ifndef MLM_MASK_H
#define MLM_MASK_H

#include <stddef.h>
#include <stdint.h>

/* Tokens of ids (T) that may be predicted: all but the special ones. */
size_t mlm_maskable(const uint32_t *ids, size_t T);

/* Number of tokens to predict out of `maskable`: floor(rate * maskable + u), u uniform of key; at
 * most maskable. */
size_t mlm_mask_count(uint64_t key, size_t maskable, double rate);

/* Chooses mlm_mask_count positions without replacement among the maskable tokens of ids (T), every
 * set of that size with equal probability, writes their positions (ascending) and original ids, and
 * replaces them in ids.  Pure: a function of key and arguments.  Returns the count, which may be 0.
 * rows and labels hold at least T entries. */
size_t mlm_mask(uint32_t *ids, uint32_t *rows, uint32_t *labels, size_t T, size_t vocab,
                double rate, uint64_t key);

#endif
