/* A matrix of float32 as NumPy's .npy file, version 1.0, written row by row.
 *
 *   offset  size  field          here
 *   0       6     magic          93 4E 55 4D 50 59 ("\x93NUMPY")
 *   6       2     version        1, 0
 *   8       2     header length  u16 little-endian, 118: the data begins at 128, a multiple of 64
 *   10      118   header         {'descr': '<f4', 'fortran_order': False, 'shape': (R, C), },
 *                                spaces, and a line feed as the last byte
 *   128     4RC   data           little-endian floats, row by row
 */
#ifndef NPY_H
#define NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "io.h"

enum { NPY_HEADER_BYTES = 128 };

typedef struct NpyWriter {
    AtomicFile file; /* appears under its name at npy_commit, complete or not at all */
    size_t columns;
    uint64_t rows; /* written so far; the header gets them at the end */
} NpyWriter;

bool npy_open(NpyWriter *out, const char *path, size_t columns, Err *err);

/* Appends values (rows, columns).  False once a write has failed, so that a full disk ends the work
 * early; the message is npy_commit's. */
bool npy_write(NpyWriter *writer, const float *values, size_t rows);

bool npy_commit(NpyWriter *writer, Err *err);
void npy_abort(NpyWriter *writer); /* removes what was written; harmless after npy_commit */

#endif
