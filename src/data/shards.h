/* The bytes of a text shard, decompressed as they are read (the only user of zlib and zstd). The
 * end of the name decides: .gz gzip (any number of members), .zst zstd (any number of frames),
 * anything else plain. The content must agree: a compressed file under a plain name, or the
 * reverse, is an error. */
#ifndef SHARDS_H
#define SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct ByteStream ByteStream;

/* Opens a regular file; messages begin with its path. */
bool byte_stream_open(ByteStream **out, const char *path, Err *err);

/* The same from memory, which must outlive the stream; `name` decides the kind and is used in
 * messages. */
bool byte_stream_open_memory(ByteStream **out, const void *data, size_t size, const char *name,
                             Err *err);

/* Up to capacity bytes; *got = 0 only at the end of a complete file. */
bool byte_stream_read(size_t *got, ByteStream *stream, unsigned char *buffer, size_t capacity,
                      Err *err);

const char *byte_stream_name(const ByteStream *stream);
uint64_t byte_stream_file_size(const ByteStream *stream);
uint64_t
byte_stream_file_position(const ByteStream *stream); /* bytes of the file, as stored, read so far */

/* io_hash of the file as stored; valid once byte_stream_read has given 0, and only then. */
uint64_t byte_stream_file_hash(const ByteStream *stream);

void byte_stream_close(ByteStream *stream); /* accepts NULL */

bool name_ends_with(const char *name, const char *ending);

/* .jsonl, .json or .ndjson, and .gz or .zst behind it. */
bool name_is_json_lines(const char *name);

#endif
