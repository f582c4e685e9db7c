/* How alike two words are, for suggestions after a typing error. */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>

enum { WORD_MAX = 40 };

/* Edit distance without regard to case and to - or _; WORD_MAX where a word is too long to be a
 * typing error.  Two swapped neighbours count as one edit. */
size_t word_distance(const char *a, const char *b);

#endif
