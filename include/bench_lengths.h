/* Time and memory against the sequence length n and the projected length k: Linformer attention
 * beside full attention in two forms, as in Table 3 and Figure 2 of the Linformer paper.
 *
 * For each n the contenders take turns, round after round, the order reversed in every other one:
 * full attention that stores its probabilities (which the paper compares with), full attention
 * block by block (model.attention: full), and Linformer at each k <= n.  In its turn a contender
 * is alone in memory: it is made, its pages are touched, it runs, it is destroyed.  A speed-up is
 * the median of the ratios of the rounds, and so no slow minute of the machine counts for one side.
 *
 * Peak memory is what the turn adds to the resident set of the process: weights, activations, the
 * batch and, in training, gradients and moments.  It is predicted before; a contender that does
 * not fit is not run. */
#ifndef BENCH_LENGTHS_H
#define BENCH_LENGTHS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"

enum { BENCH_LENGTHS_MAX = 32 }; /* values of n, or of k */

typedef enum BenchSide { BENCH_STORED, BENCH_BLOCKWISE, BENCH_LINFORMER } BenchSide;
enum { BENCH_BASELINES = 2 };

typedef struct BenchLengthsOptions {
    bool training;   /* whole updates; else forward passes of the encoder, without a head */
    const size_t *n; /* ascending */
    size_t n_count;
    const size_t *k; /* ascending; those above n are left out */
    size_t k_count;
    size_t tokens;    /* of a batch; a sequence that is longer is a batch alone */
    size_t rounds;    /* most of one n */
    double seconds;   /* for one n: rounds end when as much has passed, but not before the second */
    size_t memory;    /* bytes that largest_batch fits into */
    size_t available; /* bytes that a contender may take; 0: what the system has left */
    bool dry_run;     /* predict, run nothing */
} BenchLengthsOptions;

/* One contender at one n.  What is measured is 0 where it does not fit or nothing ran. */
typedef struct BenchCell {
    BenchSide side;
    size_t n, k;            /* k 0: full attention */
    size_t sequences;       /* a batch */
    size_t predicted_bytes; /* SIZE_MAX where they overflow */
    bool fits;
    size_t peak_bytes;    /* measured, the least of the rounds */
    size_t largest_batch; /* sequences whose predicted memory is at most options.memory */
    double flops;         /* of one batch, as plan.h counts */
    double bound;         /* operations of full attention over those of this side */
    size_t rounds;
    double seconds; /* of one batch: median of the rounds */
    /* times over those of the two baselines, by BenchSide: median, smallest and largest round */
    double speedup[BENCH_BASELINES], speedup_low[BENCH_BASELINES], speedup_high[BENCH_BASELINES];
} BenchCell;

typedef struct BenchLengths {
    BenchCell *cells; /* by n, and of one n the two baselines, then Linformer by k */
    size_t count;
    size_t available;  /* bytes, as in the options */
    double gemm_peak;  /* GFLOP/s of a large product, measured first, for the estimate */
    double estimate_s; /* that everything would take at a usual share of the peak */
    double cpu_share;  /* processor time that the threads got, of what they asked for */
} BenchLengths;

/* Called with the cells of each n as soon as they are measured. */
typedef void BenchLengthsReport(void *context, const BenchCell *cells, size_t count);

/* `config` gives everything but n, k, attention and batch; config->model.vocab must be set.
 * Progress goes to the log.  ERR_CONFIG where a list is empty, or no k is at most n. Free in any
 * case. */
bool bench_lengths(BenchLengths *out, const Config *config, const BenchLengthsOptions *options,
                   BenchLengthsReport *report, void *context, Err *err);
void bench_lengths_free(BenchLengths *lengths);

/* "stored", "blockwise", "linformer". */
const char *bench_side_name(BenchSide side);

/* Bytes of memory a contender takes: predicted_bytes.  SIZE_MAX where they overflow. */
size_t bench_cell_bytes(const Config *config, BenchSide side, size_t n, size_t k, size_t sequences,
                        bool training);

/* The most sequences of which that is at most `memory`. */
size_t bench_largest_batch(const Config *config, BenchSide side, size_t n, size_t k, bool training,
                           size_t memory);

/* Operations of one batch.  In inference the encoder's alone. */
double bench_cell_flops(const Config *config, BenchSide side, size_t n, size_t k, size_t sequences,
                        bool training);

/* The cells as comma-separated values, with a line of names first where `names`.  stream is a
 * FILE *. */
void bench_lengths_write_csv(void *stream, const BenchCell *cells, size_t count, bool training,
                             bool names);

/* Is gnuplot there and does it run?  To be asked before the work of which a picture is wanted. */
bool bench_lengths_can_draw(Err *err);

/* Time a token and peak memory against n, on logarithmic axes, as an SVG file; needs gnuplot. */
bool bench_lengths_write_svg(const char *path, const BenchLengths *lengths, bool training,
                             Err *err);

#endif
