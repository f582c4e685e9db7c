/* Parameters of the model.  One table (src/model/params.c) describes every tensor: name, shape,
 * weight decay, initialiser. Layout, pointers, initialisation, optimizer, checkpoints, `inspect`
 * and gradient norms by name are loops over it. Parameters, gradients and both moments are four
 * blocks of identical layout. */
#ifndef PARAMS_H
#define PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "config.h"
#include "err.h"
#include "real.h"

typedef enum Init { INIT_NORMAL, INIT_POSITION, INIT_ZERO, INIT_ONE, INIT_PROJECTION } Init;

typedef struct Tensor {
    char name[40];     /* e.g. "layer3.seq_proj_k" */
    size_t rows, cols; /* a vector has cols 1 */
    size_t offset;     /* reals from the block's start; 64-byte aligned */
    size_t count;      /* rows * cols */
    bool matrix;       /* weight decay applies under optimizer.decay: matrices */
    bool frozen;       /* fixed projection: no gradient, no update */
    bool head;         /* of either head, not of the encoder */
    Init init;
    double init_mean, init_std; /* of normal values */
} Tensor;

typedef struct ParamTable {
    Tensor *items;
    size_t count;
    size_t block_reals; /* length of a block, alignment gaps included (they stay zero) */
    size_t parameters;  /* elements of all tensors */
    size_t trainable;   /* without frozen ones */
    size_t
        projections; /* distinct E and F, as the paper counts them: 2 L h, 2 L, L or 1; kernels of a
                        convolution likewise; 0 in full attention, `mean` and `max` */
} ParamTable;

typedef struct LayerParams {
    real *q_w, *k_w, *v_w;         /* (C,C) */
    real *q_b, *k_b, *v_b;         /* (C) */
    real *seq_proj_k, *seq_proj_v; /* E, F: (P,N), or (ceil(N/P),D) taps of a convolution; H of
                                      them under scope head; the same pointer where E = F; NULL in
                                      full attention, `mean` and `max` */
    real *out_w, *out_b;           /* (C,C), (C) */
    real *ln1_w, *ln1_b;           /* (C) after attention (post) or before it (pre) */
    real *ff1_w, *ff1_b;           /* (FF,C), (FF) */
    real *ff2_w, *ff2_b;           /* (C,FF), (C) */
    real *ln2_w, *ln2_b;           /* (C) after the feed-forward block (post) or before it (pre) */
} LayerParams;

/* Views into a block: of weights, or of gradients with the same member names. */
typedef struct Params {
    real *block;
    real *token;               /* (V,C), also the decoder of the masked-language-model head */
    real *position;            /* (N,C) */
    real *emb_ln_w, *emb_ln_b; /* (C) */
    LayerParams layers[CONFIG_MAX_LAYERS];
    real *final_ln_w, *final_ln_b; /* (C), pre-norm only, else NULL */
    /* masked-language-model head; NULL where there are classes */
    real *head_w, *head_b;       /* (C,C), (C) */
    real *head_ln_w, *head_ln_b; /* (C) */
    real *head_bias;             /* (V) */
    /* classification head; NULL where there are none */
    real *class_dense_w, *class_dense_b; /* (C,C), (C) */
    real *class_out_w, *class_out_b;     /* (classes,C), (classes) */
} Params;

/* Describes the tensors of a model; fails (ERR_CONFIG) when sizes overflow. */
bool param_table_create(ParamTable *out, const ModelConfig *config, Err *err);
void param_table_destroy(ParamTable *table); /* accepts a zeroed table */
const Tensor *param_table_find(const ParamTable *table, const char *name); /* NULL if absent */

/* Largest projected length of any layer: rows of the one E of scope model. */
size_t params_largest_k(const ModelConfig *config);

/* Zeroed blocks of a table's layout, `count` of them, in an arena of their own; blocks (count)
 * overwritten. */
bool param_blocks_create(real **blocks, Arena *arena, const ParamTable *table, size_t count,
                         Err *err);

/* Points the members of *out into block (block_reals reals, 64-byte aligned). */
void params_view(Params *out, const ParamTable *table, const ModelConfig *config, real *block);

/* Name of the first tensor of a block with a value that is not finite; NULL if there is none. */
const char *params_first_nonfinite(const real *block, const ParamTable *table);

/* N(0, 0.02) matrices, zero biases, LayerNorm weights 1, projections N(0, proj_init_std) (fixed
 * ones N(0, 1/k); the taps of a convolution normal about 1/taps, which is the mean, with standard
 * deviation proj_init_std); under config->init local then what local_init.h says.  Each tensor is a
 * function of (seed, its name): models that differ in one tensor agree in the others. */
void params_init(real *block, const ParamTable *table, const ModelConfig *config, uint64_t seed);

#endif
