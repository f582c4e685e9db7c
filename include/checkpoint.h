/* The checkpoint: one flat little-endian file with everything a resumed run or a program that uses
 * the model needs.
 *
 *   offset  size  field             rule
 *   0       8     magic             4C 46 43 4B 50 54 0D 0A ("LFCKPT\r\n": text mode damages it)
 *   8       4     version           u32, 1; others are refused
 *   12      4     zero              u32, 0
 *   16      8     header checksum   u64, XXH3-64 of bytes 24 .. 31+H
 *   24      8     header length H   u64, bytes of the JSON header, 2 .. 2^24
 *   32      H     JSON header       UTF-8, one object, see below
 *   32+H          zeros             up to D, the next multiple of 64: here the data section begins
 *   D             tensors           in the order of the header's table, each at the next multiple
 *                                   of 64 from D, zeros between them; the file ends with the last
 *                                   byte of the last tensor
 *
 * The header has exactly these members:
 *   kind             "pretrain" (weights and the optimizer's moments), "weights", or "classifier"
 *                    (weights with a classification head)
 *   config           the resolved configuration as YAML text: model, schedule, budget, optimizer,
 *                    seed (`run` is left out)
 *   vocab            pieces of the tokenizer
 *   labels           array of the names of the classes, 2 to 1000 different texts, none empty; in
 *                    kind "classifier" only
 *   tokenizer_hash   16 hex digits: XXH3-64 of the tokenizer's bytes.  Hashes are text because JSON
 *                    numbers lose bits above 2^53
 *   state            object with the members of TrainState below; best_valid_loss is null before
 *                    the first evaluation, data_hash is 16 hex digits; unfinished, an object of lr
 *                    and grad_norm, is there only where it is set
 *   tensors          array of {name, dtype, shape, offset, bytes, xxh3}: offset counts from D, xxh3
 *                    is 16 hex digits of the tensor's bytes.  First the weights in the order of the
 *                    parameter table, then "adam_m.<name>" and (AdamW) "adam_v.<name>" in the same
 *                    order, then "tokenizer".  dtype: "F32" ("F64" from a double build),
 *                    little-endian, row-major; "U8" for the tokenizer, which is the sentencepiece
 *                    model file byte by byte.
 *
 * Every byte of the file is thus fixed by a rule or covered by a checksum: one flipped byte
 * anywhere is noticed. scripts/read_checkpoint.py reads it with numpy. */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "err.h"
#include "io.h"
#include "params.h"
#include "task_file.h"

/* The evaluation after the last update was stopped: it and the metrics line are to be made yet, and
 * these are the line's numbers that nothing else tells. */
typedef struct UnfinishedStep {
    bool is_set;
    double lr, grad_norm;
} UnfinishedStep;

/* Where training stands; everything a resumed run needs besides weights and moments. Counts stay
 * below 2^53. */
typedef struct TrainState {
    uint64_t step;          /* updates done */
    uint64_t sample;        /* cursor: samples consumed of the endless shuffled stream */
    uint64_t tokens;        /* real tokens consumed */
    double elapsed_s;       /* training time over all resumes, without downtime; 0 in files
                                   unless the budget is in hours, so that equal runs write equal
                                   bytes */
    double best_valid_loss; /* infinity before the first evaluation */
    uint64_t best_step;
    double window_loss;         /* summed over the masked tokens since the last metrics line, */
    uint64_t window_masked;     /* and their number */
    uint64_t data_hash;         /* of the manifest */
    uint64_t dataset_sequences; /* epoch length the cursor counts in */
    UnfinishedStep unfinished;
} TrainState;

/* What a checkpoint is made from: borrowed pointers. */
typedef struct CheckpointContent {
    const char *kind;     /* "pretrain", "weights" or "classifier" */
    const Config *config; /* model.vocab filled in */
    const TrainState *state;
    const ParamTable *table;
    const real *weights;
    const real *adam_m, *adam_v; /* NULL in kind "weights"; adam_v also NULL for SGD */
    Bytes tokenizer;             /* the sentencepiece model */
    const LabelSet *labels;      /* names of the classes, kind "classifier"; else NULL */
} CheckpointContent;

/* Atomic: the file appears complete or not at all; nothing is left behind by a save that failed. */
bool checkpoint_save(const char *path, const CheckpointContent *content, Err *err);

/* An open checkpoint: mapped; header and tokenizer checked, the tensor table compared with the
 * model its config describes. */
typedef struct Checkpoint {
    Map map;
    bool owns_map;
    char *path;
    char *kind;
    Config config; /* with model.vocab filled in; run_dir is "." */
    TrainState state;
    ParamTable table;
    size_t moments;  /* moment blocks: 0, 1 (SGD) or 2 (AdamW) */
    Bytes tokenizer; /* borrowed from the map */
    LabelSet labels; /* empty but in kind "classifier"; config.model.classes = labels.count */
    uint64_t tokenizer_hash;
    struct CheckpointEntry *entries; /* weights, moments, tokenizer */
    size_t entry_count;
    size_t data_start; /* D */
} Checkpoint;

/* One tensor of the file, for `inspect`. */
typedef struct CheckpointEntry {
    char name[56];
    const char *dtype;      /* "F32", "F64" or "U8" */
    size_t rows, cols;      /* cols 0: a vector */
    uint64_t offset, bytes; /* offset from D */
    uint64_t checksum;      /* XXH3-64 */
} CheckpointEntry;

/* Everything that fails does so with ERR_FAILED and "path: found, wanted, remedy"; allocates in
 * proportion to the file at most. */
bool checkpoint_open(Checkpoint *out, const char *path, Err *err);
void checkpoint_close(Checkpoint *checkpoint); /* accepts a zeroed Checkpoint */

/* As checkpoint_open on a file already in memory (fuzzing); the bytes stay the caller's and must
 * outlive it. */
bool checkpoint_open_bytes(Checkpoint *out, const unsigned char *data, size_t size,
                           const char *name, Err *err);

/* A token id is a row of the embedding: fails unless a tokenizer of so many pieces gives each a row
 * and none is left over.  Opening does not look into the tokenizer; whoever loads one to use it
 * with the weights asks this first. */
bool checkpoint_check_vocab(const Checkpoint *checkpoint, size_t pieces, Err *err);

/* Copies weights (and moments where the pointers are not NULL) into blocks laid out by `table`, the
 * checkpoint's own or an equal one; another is an error.  The whole file is verified, also what is
 * not copied. */
bool checkpoint_read(const Checkpoint *checkpoint, const ParamTable *table, real *weights,
                     real *adam_m, real *adam_v, Err *err);

/* Start of a fine-tuning: copies the encoder, that is all tensors but those of the heads, into a
 * block laid out by `table`; the tensors of table's head stay as they are.  The whole file
 * is verified.  Fails, naming the first tensor, where the encoders differ in tensors or shapes,
 * before anything is copied. */
bool checkpoint_read_encoder(const Checkpoint *checkpoint, const ParamTable *table, real *weights,
                             Err *err);

/* Verifies all checksums and that gaps are zero. */
bool checkpoint_verify(const Checkpoint *checkpoint, Err *err);

/* True if the run directory holds a last.ckpt or step-*.ckpt, valid or not. */
bool checkpoint_any(const char *run_dir);

/* Newest valid checkpoint with moments of a run directory (last.ckpt and step-*.ckpt by step, all
 * bytes verified); files that are not valid are skipped with a warning that says why.  *path
 * malloc'd; false with a message if there is none. */
bool checkpoint_find_newest(char **path, const char *run_dir, Err *err);

/* The newest step-*.ckpt of a run directory, by its name, of fewer than `step` updates; malloc'd,
 * NULL if there is none. */
char *checkpoint_kept_before(const char *run_dir, uint64_t step);

/* Removes the oldest step-*.ckpt files of a run directory until `keep` are left; 0 keeps all. */
void checkpoint_prune(const char *run_dir, size_t keep);

#endif
