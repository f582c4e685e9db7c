/* A small checkpoint with known content, and forged ones made of it. */
#ifndef CHECKPOINT_FIXTURE_H
#define CHECKPOINT_FIXTURE_H

#include "checkpoint.h"
#include "err.h"

typedef struct CheckpointFixture {
    Config config;
    TrainState state;
    ParamTable table;
    /* element i of tensor t: a function of t and i, see checkpoint_fixture_value */
    real *weights, *adam_m, *adam_v;
    LabelSet labels; /* of the classifier; else empty */
} CheckpointFixture;

/* One layer of width 4 with 2 heads, vocabulary 6, n 5, k 3. */
void checkpoint_fixture_create(CheckpointFixture *out);

/* The same model with three classes; weights only. */
void checkpoint_fixture_create_classifier(CheckpointFixture *out);
void checkpoint_fixture_destroy(CheckpointFixture *fixture);

/* Its content as kind "pretrain", "weights" or, for the model with classes, "classifier". */
CheckpointContent checkpoint_fixture_content(const CheckpointFixture *fixture, const char *kind);

/* Value of element i of block 0 (weights), 1 or 2 (moments) at `offset` reals. */
real checkpoint_fixture_value(size_t block, size_t offset);

/* Saves the fixture of that kind to a file of the test's temporary folder and returns its bytes
 * (io_bytes_free). */
Bytes checkpoint_fixture_file(const char *kind);

/* Replaces the first `find` of the JSON header by `replace` and makes length, checksum and padding
 * agree again.  Ends the test where there is no `find`. */
Bytes checkpoint_forge(const Bytes *file, const char *find, const char *replace);

typedef struct CheckpointForgery {
    const char *name, *find, *replace, *message;
} CheckpointForgery;

/* Each forgery of the fixture of that kind is refused with its message. */
void checkpoint_check_forgeries(const char *kind, const CheckpointForgery *forgeries, size_t count);

/* Opens and verifies; true if the bytes were accepted. */
bool checkpoint_accepts(const unsigned char *data, size_t size, Err *err);

/* The bytes are refused with a message that contains `message`.  Where HOSTILE_DIR is set they are
 * also written there as `name`.ckpt: that is how tests/hostile/checkpoint came to be. */
void checkpoint_check_refused(const char *name, const unsigned char *data, size_t size,
                              const char *message);

/* No flipped byte of the fixture of that kind is accepted: each one before the tensors and at the
 * end, every `stride`-th one in them. */
void checkpoint_check_flips(const char *kind, size_t stride);

/* Nor is the fixture cut to any length: in a buffer of just that size, so that a sanitizer sees
 * each read beyond it. */
void checkpoint_check_cuts(const char *kind);

/* Start of the data section. */
size_t checkpoint_data_start(const Bytes *file);

#endif
