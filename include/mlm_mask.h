/* Masking of the masked-language-model objective (BERT/RoBERTa: 15%; 80% `<mask>`, 10% random, 10% kept). */
#ifndef MLM_MASK_H
#define MLM_MASK_H

#include <stddef.h>
#include <stdint.h>

/* Number of tokens to predict out of `maskable`: floor(rate * maskable + u), u uniform of key. */
size_t mlm_mask_count(uint64_t key, size_t maskable, double rate);

/* Chooses mlm_mask_count positions without replacement among the tokens of ids (T) that are not specials, writes their
 * positions (ascending) and original ids, and replaces them in ids.  Random replacements are never specials.  Pure: a
 * function of key and arguments.  Returns the count. rows and labels hold at least T entries; scratch T entries. */
size_t mlm_mask(uint32_t *ids, uint32_t *rows, uint32_t *labels, uint32_t *scratch, size_t T, size_t vocab, double rate,
                uint64_t key);

#endif
