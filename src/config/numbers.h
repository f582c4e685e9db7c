/* Numbers as configs write them: decimal only, independent of the locale, exact in both directions.
 */
#ifndef CONFIG_NUMBERS_H
#define CONFIG_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

/* Largest integer a key can hold: every integer up to it is exact in a double, so also in JSON. */
#define NUMBER_MAX_INTEGER 9007199254740991.0 /* 2^53 - 1 */

typedef enum NumberFault {
    NUMBER_OK,
    NUMBER_NOT_A_NUMBER,
    NUMBER_NOT_INTEGER,
    NUMBER_LEADING_ZERO, /* 010 is 8 to some YAML readers and 10 to others */
    NUMBER_UNDERSCORE,   /* 1_000 is a number to some YAML readers and text to others */
    NUMBER_TOO_LARGE
} NumberFault;

/* Reads [sign] digits [. digits] [e [sign] digits]; a digit on one side of the dot is enough.  With
 * `integer` the text must be plain digits, or an exact integer with an exponent (5e6, 1.5e6).  *out
 * is set only on NUMBER_OK. */
NumberFault number_read(double *out, const char *text, bool integer);

/* Reads a number of bytes: a number of at least 0 as above, then perhaps a space and one of KiB,
 * MiB, GiB, TiB, KB, MB, GB, TB; fractions of a byte are dropped. */
NumberFault bytes_read(double *out, const char *text);

/* The same bytes in the largest of KiB, MiB, GiB and TiB that makes them an integer: "8GiB". */
void bytes_write(char *out, size_t size, size_t bytes);

/* The shortest decimal text that reads back as the same double.  YAML 1.1 and 1.2 readers both see
 * a number in it: an exponent always comes with a dot and a sign.  `size` of at least 32 never
 * cuts. */
void number_write(char *out, size_t size, double value);

#endif
