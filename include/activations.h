/* Every intermediate of the encoder in one arena.  Only what the backward pass reads is kept per
 * layer; the rest is scratch shared by the layers, and GELU outputs, LayerNorm outputs and
 * attention probabilities are recomputed.  With RECOMPUTE_FFN the layers also share ff_pre, and
 * with RECOMPUTE_LAYER everything but sum_ffn and ln2, from which the next layer's input follows:
 * the backward pass then computes them again, layer by layer, to the same bits.
 *
 * In inference all rows have projected keys and values, and of each layer everything else is made
 * for a chunk of rows at a time: what grows with the batch is the residual stream, its LayerNorm
 * (pre-norm) and what keys and values need.  Arrays that are (rows,...) below have total rows in
 * training and chunk_rows in inference. */
#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "attention.h"
#include "config.h"
#include "err.h"
#include "mixed_gemm.h"
#include "profile.h"
#include "real.h"

typedef enum ActMode {
    ACTS_INFERENCE, /* layers share one set of buffers, chunk by chunk; no gradients, no dropout */
    ACTS_TRAINING
} ActMode;

/* Row statistics of one LayerNorm. */
typedef struct NormStats {
    real *mean, *rstd; /* (total) */
} NormStats;

typedef struct LayerActs {
    real *sum_att; /* (rows,C) residual sum after attention; read by the LayerNorm that follows */
    real *sum_ffn; /* (rows,C) residual sum after the feed-forward block */
    NormStats ln1, ln2;
    real *q; /* (rows,C) */
    real *k_pre,
        *v_pre; /* compress-first: E x and F x (B*P,C), only k_pre where E = F; project-first: k and
                   v before compression (total,C); NULL in full attention.  Pooling: likewise, in
                   k_pre alone the mean of x (rows,C), or k and v (total,C) */
    real *kp, *vp; /* (B*P,C) projected keys and values; (total,C) in full attention; (rows,C) where
                      the model pools, no more rows than B*P or total */
    real *att_out; /* (rows,C) concatenated heads, before the output map */
    real *lse;     /* (rows,H) */
    real *ff_pre;  /* (rows,FF) before the GELU */
} LayerActs;

typedef struct Activations {
    Arena arena;
    ActMode mode;
    size_t max_B, max_total;       /* capacity */
    size_t chunk_rows;             /* most rows of a chunk, in inference */
    const AttentionKernel *kernel; /* borrowed; set by benchmarks, NULL: the functions of
                                      attention.h */
    bool wants_keys;               /* set by who reads kp and vp of sequences of any length */
    Profile *profile; /* borrowed, set by who wants to know where the time goes; NULL: nobody */

    /* kept for backward */
    real *emb_sum; /* (total,C) token + position; NULL in inference */
    NormStats emb_ln;
    real *stream0; /* (total,C) pre-norm: input of layer 0's residual stream; else NULL */
    LayerActs layers[CONFIG_MAX_LAYERS];
    NormStats final_ln; /* pre-norm */
    real *hidden; /* (total,C) result of the encoder; in inference the stream that leads there */

    /* scratch of one block at a time */
    real *x;             /* (total,C) input of an attention block; NULL in post-norm inference */
    real *y;             /* (rows,C) input of a feed-forward block */
    real *ff_act;        /* (rows,FF) */
    real *row_sums;      /* (B*P) E 1 of each sequence */
    real *attention;     /* scratch of attention.h and of short_attention.h */
    size_t *key_start;   /* (B+1) first row of each sequence in kp and vp */
    size_t *chunk_start; /* (B+1) first row of each sequence in a chunk */
    Mixed mixed;         /* of the linear maps; its scratch only where the precision needs it */

    /* training only */
    real *
        d_hidden; /* (total,C) gradient of hidden, then of whatever the backward pass has reached */
    real *d_branch;    /* (total,C) */
    real *d_q, *d_att; /* (total,C) */
    real *d_kp, *d_vp; /* as kp */
    real *d_x;  /* (total,C) gradient of a block's input, pre-norm; NULL for post (added to d_hidden
                   in place) */
    real *d_ff; /* (total,FF) */
    real *norm_scratch; /* layernorm_scratch(C) */
    real *bias_scratch; /* (B*P) */

    /* masked-language-model head, head_rows rows at a time; NULL and 0 where there are classes */
    size_t head_rows; /* rows of a chunk; the logits of a chunk take about 64 MiB */
    real *head_x, *head_pre, *head_act,
        *head_h; /* (head_rows,C) gathered, dense, GELU, LayerNorm */
    NormStats head_ln;
    real *logits;           /* (head_rows,V) */
    real *row_loss;         /* (head_rows); (B) with a classification head */
    real *d_head, *d_head2; /* (head_rows,C) training only; (B,C) with a classification head */

    /* classification head; NULL where there are no classes */
    uint32_t *class_rows; /* (B) rows of the `<s>` */
    size_t *class_start;  /* (B+1) 0, 1, ..., B: a row a sequence, for dropout */
    real *class_x;        /* (B,C) pooled hidden states, after dropout */
    real *class_tanh;     /* (B,C) */
    real *class_h;        /* (B,C) the same after dropout; training only */
    real *class_logits;   /* (B,classes) */
} Activations;

/* Sizes everything for batches of up to max_B sequences and max_total tokens and allocates once.
 * Fails (ERR_CONFIG) where config->precision does not work here, and on sizes that overflow. */
bool activations_create(Activations *out, const ModelConfig *config, size_t max_B, size_t max_total,
                        ActMode mode, Err *err);
void activations_destroy(Activations *acts); /* accepts a zeroed struct */

/* Bytes activations_create would allocate. */
bool activations_bytes(size_t *out, const ModelConfig *config, size_t max_B, size_t max_total,
                       ActMode mode, Err *err);

#endif
