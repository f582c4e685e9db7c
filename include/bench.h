/* Speed and memory, measured on this machine with the threads in use, on top of the functions that
 * training itself calls. The yardstick is the peak measured in the same run: a large square matrix
 * product, and a bare loop of fused multiply-adds in registers.  Every number is the median of its
 * repeats. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "profile.h"

enum { BENCH_PEAK_SIZE = 2048 };

/* GFLOP/s of gemm on a square product of this size (BENCH_PEAK_SIZE where it is to count), repeated
 * for about so many seconds but at least five times. */
bool bench_gemm_peak(double *out, size_t size, double seconds, Err *err);

/* GB/s of y = x + s y over arrays of so many bytes together (more than the caches hold, if it is to
 * count), all threads: what passes over memory can reach.  Two reads and a write an element. */
bool bench_memory_peak(double *out, size_t bytes, double seconds, Err *err);

/* GFLOP/s of fused multiply-adds on registers, all threads: what the processor can do without
 * touching memory. */
double bench_fma_peak(double seconds);

/* The same of bf16 dot products that accumulate in float; 0 where the processor or the build has
 * none. */
double bench_bf16_peak(double seconds);

/* Bytes resident now; 0 where the system does not tell. */
size_t bench_resident(void);

typedef struct BenchKernel {
    char model[16]; /* "base" or "small": whose sizes */
    char name[40];
    char shape[64];
    double seconds; /* of one call */
    double gflops;  /* GFLOP/s; 0 where memory is the limit */
    double gbytes;  /* GB/s read and written by the algorithm; 0 where arithmetic is the limit */
} BenchKernel;

typedef struct BenchKernels {
    double gemm_peak, fma_peak, bf16_peak; /* GFLOP/s */
    double cpu_share; /* processor time that the threads got for the peak, of what they asked for */
    BenchKernel *items;
    size_t count;
} BenchKernels;

/* All kernels of the model at two sizes: RoBERTa-base (8 sequences of 512) and a small one (16 of
 * 512). */
bool bench_kernels(BenchKernels *out, Err *err);
void bench_kernels_free(BenchKernels *kernels);

typedef struct BenchStepOptions {
    size_t sequences; /* a batch; 0: the config's micro_batch */
    size_t steps;     /* measured ones; 0: 10 */
    size_t warmup;    /* steps before those; 0: 3 */
    size_t peak_size; /* of the product that shows the peak; 0: BENCH_PEAK_SIZE */
    bool profile;     /* measure memory_peak too */
} BenchStepOptions;

typedef struct BenchStep {
    size_t sequences, tokens, masked, steps;
    double step_s; /* median */
    double step_min_s, step_max_s;
    double tokens_per_s;
    double gflops;      /* model operations (plan.h) per second */
    double peak_gflops; /* median of gemm peaks measured before and after */
    double fraction_of_peak;
    size_t predicted_bytes; /* plan's memory_bytes for these sequences */
    size_t start_rss;       /* resident before anything was allocated: program and libraries */
    size_t peak_rss;        /* largest while training */
    size_t page_faults;     /* of the measured steps together */
    double cpu_share;       /* processor time that the threads got, of what they asked for */
    double loss_first, loss_last;
    Profile profile;    /* of the measured steps together */
    double memory_peak; /* GB/s; 0 where not asked for */
} BenchStep;

/* Whole training steps (forward, backward, clipping, optimizer) of the config's model on
 * full-length sequences of random ids. No text and no tokenizer is needed; config->model.vocab must
 * be set. */
bool bench_step(BenchStep *out, const Config *config, const BenchStepOptions *options, Err *err);

typedef struct BenchFinetuneOptions {
    size_t pad;   /* tokens that every row is filled up to; 0: 128 */
    size_t steps; /* measured updates of each kind; 0: 50 */
} BenchFinetuneOptions;

typedef struct BenchFinetune {
    size_t pad, steps;
    size_t rows;   /* of all measured updates */
    size_t longer; /* of them longer than pad, which stay as they are in both */
    size_t ragged_tokens, padded_tokens;   /* of the same rows */
    double ragged_s, padded_s;             /* for all updates */
    double ratio;                          /* padded_s / ragged_s */
    double ratio_low, ratio_high;          /* of the updates one by one: lower and upper quartile */
    double epoch_ragged_s, epoch_padded_s; /* for as many rows as data.train has */
    double cpu_share; /* processor time that the threads got, of what they asked for */
} BenchFinetune;

/* What leaving out padding is worth: updates of a fine-tuning on the config's own rows, each made
 * once as `finetune` makes it and once with its rows filled up with `<pad>` tokens that are treated
 * as any other, in turn and in the same buffers.  The trained weights are of no use. */
bool bench_finetune(BenchFinetune *out, const Config *config, const BenchFinetuneOptions *options,
                    Err *err);

/* A model that another program measures step by step, as bench_step does it or, without
 * `training`, passes of the encoder: for comparisons in which programs take turns.  Reads a
 * command a line from `in` until it ends, and answers each with a JSON object on a line of `out`,
 * after a first one that describes the machine and the work (FILE * both):
 *     batch      {"sequences", "ids", "masked_rows", "labels"}: the batch of every step
 *     save PATH  {"saved"}: the weights as a checkpoint without tokenizer
 *     step       {"seconds", "loss"}: an update and the loss before it; else {"seconds", "rms",
 *                "first"}, of the hidden states their root mean square and the first element
 *     memory     {"peak_bytes"}: largest resident set since the model was made */
bool bench_serve(void *in, void *out, const Config *config, size_t sequences, bool training,
                 Err *err);

#endif
