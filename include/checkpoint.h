/* The checkpoint: one flat little-endian file.  (The author of src/train/checkpoint.c keeps the byte table here: magic, version, header
 * length and checksum, JSON header, 64-byte aligned tensors, each with its checksum.) */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "err.h"
#include "io.h"
#include "params.h"

/* Where training stands; everything a resumed run needs besides weights and moments. */
typedef struct TrainState {
    uint64_t step;            /* updates done */
    uint64_t sample;          /* cursor: samples consumed of the endless shuffled stream */
    uint64_t tokens;          /* real tokens consumed */
    double elapsed_s;         /* training time, over all resumes, without downtime */
    double best_valid_loss;   /* infinity before the first evaluation */
    uint64_t best_step;
    uint64_t data_hash;       /* of the manifest */
    size_t dataset_sequences; /* epoch length the cursor counts in */
} TrainState;

/* What a checkpoint is made from, or was read into: borrowed pointers on saving. */
typedef struct CheckpointContent {
    const char *kind;         /* "pretrain" (weights and moments), "weights" */
    const Config *config;
    const TrainState *state;
    const ParamTable *table;
    const real *weights, *adam_m, *adam_v; /* moments NULL: not stored */
    Bytes tokenizer;          /* the sentencepiece model */
} CheckpointContent;

/* Atomic: the file appears complete or not at all. */
bool checkpoint_save(const char *path, const CheckpointContent *content, Err *err);

/* An open checkpoint: mapped, header parsed and validated (sizes, offsets, names, shapes against the model its config describes, header
 * checksum). */
typedef struct Checkpoint {
    Map map;
    char *kind;
    Config config;            /* with model.vocab filled in */
    TrainState state;
    ParamTable table;
    bool has_moments;
    Bytes tokenizer;          /* borrowed from the map */
    uint64_t tokenizer_hash;
    struct CheckpointEntry *entries;
    size_t entry_count;
} Checkpoint;

bool checkpoint_open(Checkpoint *out, const char *path, Err *err);
void checkpoint_close(Checkpoint *checkpoint);

/* Copies weights (and moments where the pointers are not NULL) into blocks laid out by checkpoint->table, verifying every tensor's checksum: nothing
 * is accepted from a file with one flipped byte. */
bool checkpoint_read(const Checkpoint *checkpoint, real *weights, real *adam_m, real *adam_v, Err *err);

/* Verifies all checksums and that gaps are zero, without copying. */
bool checkpoint_verify(const Checkpoint *checkpoint, Err *err);

/* Newest valid checkpoint of a run directory (last.ckpt and step-*.ckpt by step); files that are not valid are skipped with a
 * warning that says why.  *path malloc'd; false with a message if there is none. */
bool checkpoint_find_newest(char **path, const char *run_dir, Err *err);

#endif
