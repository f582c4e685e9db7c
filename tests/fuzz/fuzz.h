/* A fuzz target is a file tests/fuzz/fuzz_<name>.c with this one function; driver.c is its main.
 * It must bear any bytes, and asserts what has to hold for those that are accepted: what loads can
 * be saved and reloads equal. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* data ends where size says: an exact heap block, so that reading one byte past it is noticed.
 * Returns 0. */
int fuzz_one(const uint8_t *data, size_t size);

#endif
