#include "numbers.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* strtod and printf follow the decimal comma of a host program's locale; configs always use the dot
 */
static locale_t c_locale_enter(locale_t *previous) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    *previous = c ? uselocale(c) : (locale_t)0;
    return c;
}

static void c_locale_leave(locale_t c, locale_t previous) {
    if (!c) return;
    uselocale(previous);
    freelocale(c);
}

static const char *skip_digits(const char *p) {
    while (*p >= '0' && *p <= '9') p++;
    return p;
}

static const char *skip_sign(const char *p) {
    return *p == '+' || *p == '-' ? p + 1 : p;
}

/* digits of the fraction that are not trailing zeros */
static size_t significant_length(const char *fraction, const char *end) {
    while (end > fraction && end[-1] == '0') end--;
    return (size_t)(end - fraction);
}

NumberFault number_read(double *out, const char *text, bool integer) {
    const char *whole = skip_sign(text);
    const char *p = skip_digits(whole);
    size_t whole_digits = (size_t)(p - whole);
    bool has_dot = *p == '.', has_exponent = false;
    const char *fraction = has_dot ? p + 1 : p;
    p = skip_digits(fraction);
    const char *fraction_end = p;
    if (whole_digits == 0 && fraction_end == fraction) return NUMBER_NOT_A_NUMBER;
    long exponent = 0;
    if (*p == 'e' || *p == 'E') {
        const char *digits = skip_sign(p + 1);
        exponent = strtol(p + 1, NULL, 10); /* saturates, which is still out of every range */
        p = skip_digits(digits);
        if (p == digits) return NUMBER_NOT_A_NUMBER;
        has_exponent = true;
    }
    if (*p == '_' && !has_dot && !has_exponent) return NUMBER_UNDERSCORE;
    if (*p != '\0') return NUMBER_NOT_A_NUMBER;
    if (whole_digits > 1 && whole[0] == '0') return NUMBER_LEADING_ZERO;
    if (integer && (has_dot || has_exponent)) {
        long needed = (long)significant_length(fraction, fraction_end);
        if (!has_exponent || exponent < needed) return NUMBER_NOT_INTEGER;
    }
    locale_t previous, c = c_locale_enter(&previous);
    double value = strtod(text, NULL);
    c_locale_leave(c, previous);
    if (!isfinite(value)) return NUMBER_TOO_LARGE;
    *out = value + 0.0; /* -0 becomes 0 */
    return NUMBER_OK;
}

/* "1e-06" -> "1.0e-6" */
static void tidy_exponent(char *out, size_t size, const char *text) {
    const char *e = strchr(text, 'e');
    if (!e) {
        snprintf(out, size, "%s", text);
        return;
    }
    const char *digits = e + 2; /* printf always writes the sign */
    while (digits[0] == '0' && digits[1] != '\0') digits++;
    int mantissa = (int)(e - text);
    bool has_dot = memchr(text, '.', (size_t)mantissa) != NULL;
    snprintf(out, size, "%.*s%se%c%s", mantissa, text, has_dot ? "" : ".0", e[1], digits);
}

void number_write(char *out, size_t size, double value) {
    char text[64];
    locale_t previous, c = c_locale_enter(&previous);
    if (value == floor(value) && fabs(value) <= NUMBER_MAX_INTEGER) {
        snprintf(text, sizeof text, "%.0f", value);
    } else {
        for (int precision = 1; precision <= 17; precision++) {
            snprintf(text, sizeof text, "%.*g", precision, value);
            if (strtod(text, NULL) == value) break;
        }
    }
    c_locale_leave(c, previous);
    tidy_exponent(out, size, text);
}

typedef struct Unit {
    const char *name;
    double bytes;
} Unit;

static const Unit units[] = {
    {"TiB", 1099511627776.0},
    {"GiB", 1073741824.0},
    {"MiB", 1048576.0},
    {"KiB", 1024.0},
    {"TB", 1e12},
    {"GB", 1e9},
    {"MB", 1e6},
    {"KB", 1e3},
};
enum { UNITS = sizeof units / sizeof *units, BINARY_UNITS = 4 };

NumberFault bytes_read(double *out, const char *text) {
    char number[64];
    double value, bytes = 1;
    size_t length = strcspn(text, " KMGT");
    const char *unit = text + length + (text[length] == ' ');
    if (length >= sizeof number) return NUMBER_NOT_A_NUMBER;
    memcpy(number, text, length);
    number[length] = '\0';
    if (text[length] != '\0') {
        size_t i = 0;
        while (i < UNITS && strcmp(unit, units[i].name) != 0) i++;
        if (i == UNITS) return NUMBER_NOT_A_NUMBER;
        bytes = units[i].bytes;
    }
    NumberFault fault = number_read(&value, number, bytes == 1);
    if (fault != NUMBER_OK) return fault;
    *out = floor(value * bytes);
    return NUMBER_OK;
}

void bytes_write(char *out, size_t size, size_t bytes) {
    for (size_t i = 0; i < BINARY_UNITS && bytes > 0; i++) {
        size_t unit = (size_t)units[i].bytes;
        if (bytes % unit != 0) continue;
        snprintf(out, size, "%zu%s", bytes / unit, units[i].name);
        return;
    }
    snprintf(out, size, "%zu", bytes);
}
