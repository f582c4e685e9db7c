#include "words.h"

#include <string.h>

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '-' ? '_' : c;
}

size_t word_distance(const char *a, const char *b) {
    size_t rows = strlen(a), columns = strlen(b);
    if (rows >= WORD_MAX || columns >= WORD_MAX) return WORD_MAX;
    size_t d[WORD_MAX][WORD_MAX];
    for (size_t i = 0; i <= rows; i++) d[i][0] = i;
    for (size_t j = 0; j <= columns; j++) d[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        for (size_t j = 1; j <= columns; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            size_t best = d[i - 1][j - 1] + (x != y);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]) &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[rows][columns];
}
