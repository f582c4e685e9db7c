/* UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>

enum { UTF8_MAX = 4 };

/* Bytes (1 to 4) of the well-formed character at p[0..left), or 0 if there is none. */
static inline size_t utf8_length(const unsigned char *p, size_t left) {
    if (left == 0) return 0;
    unsigned char c = p[0];
    if (c < 0x80) return 1;
    size_t size = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || left < size) return 0;
    unsigned char
        low = 0x80,
        high = 0xBF; /* of the second byte, which alone tells overlong, surrogate and too large */
    if (c == 0xE0)
        low = 0xA0;
    else if (c == 0xED)
        high = 0x9F;
    else if (c == 0xF0)
        low = 0x90;
    else if (c == 0xF4)
        high = 0x8F;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < size; i++) {
        if ((p[i] & 0xC0) != 0x80) return 0;
    }
    return size;
}

#endif
