#include "npy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PREAMBLE = 10, CHUNK = 1024 };

/* NPY_HEADER_BYTES of it; two numbers of 20 digits leave room for spaces. */
static void write_header(AtomicFile *file, uint64_t rows, size_t columns) {
    unsigned char bytes[NPY_HEADER_BYTES + 1] = "\x93NUMPY\x01";
    char *text = (char *)bytes + PREAMBLE;
    int length = snprintf(text, sizeof bytes - PREAMBLE,
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu, %zu), }",
                          (unsigned long long)rows, columns);
    memset(text + length, ' ', NPY_HEADER_BYTES - PREAMBLE - 1 - (size_t)length);
    bytes[NPY_HEADER_BYTES - 1] = '\n';
    bytes[8] = NPY_HEADER_BYTES - PREAMBLE;
    io_atomic_write(file, bytes, NPY_HEADER_BYTES);
}

bool npy_open(NpyWriter *out, const char *path, size_t columns, Err *err) {
    *out = (NpyWriter){.columns = columns};
    if (!io_atomic_open(&out->file, path, err)) return false;
    write_header(&out->file, 0, columns);
    return true;
}

bool npy_write(NpyWriter *writer, const float *values, size_t rows) {
    unsigned char bytes[4 * CHUNK];
    size_t count = rows * writer->columns;
    for (size_t done = 0; done < count;) {
        size_t part = count - done < CHUNK ? count - done : CHUNK;
        for (size_t i = 0; i < part; i++) {
            uint32_t bits;
            memcpy(&bits, values + done + i, sizeof bits);
            io_put_u32(bytes + 4 * i, bits);
        }
        io_atomic_write(&writer->file, bytes, 4 * part);
        done += part;
    }
    writer->rows += rows;
    return writer->file.error == 0;
}

bool npy_commit(NpyWriter *writer, Err *err) {
    AtomicFile *file = &writer->file;
    if (!file->error && fseek(file->file, 0, SEEK_SET) != 0) file->error = errno;
    uint64_t size = file->size;
    write_header(file, writer->rows, writer->columns);
    file->size = size; /* the header was counted when it was written first */
    return io_atomic_commit(file, err);
}

void npy_abort(NpyWriter *writer) {
    io_atomic_abort(&writer->file);
}
