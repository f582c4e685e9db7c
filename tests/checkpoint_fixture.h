/* A small checkpoint with known content, and forged ones made of it. */
#ifndef CHECKPOINT_FIXTURE_H
#define CHECKPOINT_FIXTURE_H

#include "checkpoint.h"
#include "err.h"

typedef struct CheckpointFixture {
    Config config;
    TrainState state;
    ParamTable table;
    real *weights, *adam_m,
        *adam_v; /* element i of tensor t: a function of t and i, see fixture_value */
} CheckpointFixture;

/* One layer of width 4 with 2 heads, vocabulary 6, n 5, k 3. */
void checkpoint_fixture_create(CheckpointFixture *out);
void checkpoint_fixture_destroy(CheckpointFixture *fixture);

/* Its content as kind "pretrain" or "weights". */
CheckpointContent checkpoint_fixture_content(const CheckpointFixture *fixture, const char *kind);

/* Value of element i of block 0 (weights), 1 or 2 (moments) at `offset` reals. */
real checkpoint_fixture_value(size_t block, size_t offset);

/* Saves it to a file of the test's temporary folder and returns its bytes (io_bytes_free). */
Bytes checkpoint_fixture_file(const char *kind);

/* Replaces the first `find` of the JSON header by `replace` and makes length, checksum and padding
 * agree again.  Ends the test where there is no `find`. */
Bytes checkpoint_forge(const Bytes *file, const char *find, const char *replace);

/* Start of the data section. */
size_t checkpoint_data_start(const Bytes *file);

#endif
