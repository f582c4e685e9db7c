/* Files: whole-file reads, read-only maps, atomic replacement, little-endian fields, checksums. */
#ifndef IO_H
#define IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "err.h"

typedef struct Bytes {
    unsigned char *data; /* NULL when empty; one NUL follows the last byte, not counted in size */
    size_t size;
} Bytes;

/* Reads a regular file of at most `limit` bytes.  Fails (ERR_FAILED, the message names the path)
 * when it is missing, unreadable, a directory, or larger. */
bool io_read_file(Bytes *out, const char *path, size_t limit, Err *err);
void io_bytes_free(Bytes *bytes);

/* Opens a regular file for reading; -1 with the same messages otherwise. */
typedef struct FileInfo {
    uint64_t size;
    int64_t mtime_ns; /* of the last modification */
} FileInfo;
int io_open_regular(FileInfo *info, const char *path, Err *err);
bool io_file_info(FileInfo *out, const char *path, Err *err); /* of one that can be opened */

typedef struct Map {
    const unsigned char *data;
    size_t size;
} Map;

/* Maps a regular file read-only; an empty file gives data NULL, size 0. */
bool io_map(Map *out, const char *path, Err *err);
void io_unmap(Map *map);

/* A file that appears under its final name complete or not at all: written to "<path>.tmp.<pid>" in
 * the same folder, and io_atomic_commit flushes, fsyncs, renames and fsyncs the folder.  Errors are
 * remembered: writes after a failure do nothing, and commit reports the first.  io_atomic_abort
 * removes the temporary file; harmless after commit. */
typedef struct AtomicFile {
    FILE *file;
    char *path, *temp_path;
    int error;     /* errno of the first failed write, or 0 */
    uint64_t size; /* bytes written so far */
} AtomicFile;

bool io_atomic_open(AtomicFile *out, const char *path, Err *err);
void io_atomic_write(AtomicFile *out, const void *data, size_t size);
bool io_atomic_commit(AtomicFile *out, Err *err);
void io_atomic_abort(AtomicFile *out);

/* Writes a whole small file atomically. */
bool io_write_file(const char *path, const void *data, size_t size, Err *err);

/* Removes "<path>.tmp.*" leftovers of killed processes that no longer run, in the folder `dir`. */
void io_remove_stale_temps(const char *dir);

bool io_make_dirs(const char *path, Err *err);      /* mkdir -p */
bool io_make_folder_of(const char *path, Err *err); /* the same for the folder of a file */
bool io_is_file(const char *path);
bool io_is_dir(const char *path);

/* XXH3, 64 bits (libxxhash). */
uint64_t io_hash(const void *data, size_t size);
bool io_hash_file(uint64_t *out, const char *path, Err *err); /* streamed */

/* The same hash of data that arrives in parts.  io_hash_begin returns NULL when there is no memory;
 * io_hash_end gives the hash of everything added and frees (NULL gives 0). */
typedef struct IoHash IoHash;
IoHash *io_hash_begin(void);
void io_hash_add(IoHash *hash, const void *data, size_t size);
uint64_t io_hash_end(IoHash *hash);

/* Explicit little-endian fields, byte by byte; no alignment needed. */
void io_put_u32(unsigned char *p, uint32_t v);
void io_put_u64(unsigned char *p, uint64_t v);
uint32_t io_get_u32(const unsigned char *p);
uint64_t io_get_u64(const unsigned char *p);

/* "folder/name"; malloc'd, NULL without memory. */
char *io_path_join(const char *folder, const char *name);

/* path joined to the folder of `base_file` unless path is absolute; malloc'd, caller frees. */
char *io_path_beside(const char *base_file, const char *path);

#endif
