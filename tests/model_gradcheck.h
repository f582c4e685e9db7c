/* Gradients of whole models, with either head, against differences of their loss. */
#ifndef MODEL_GRADCHECK_H
#define MODEL_GRADCHECK_H

#include "model_fixture.h"

enum { GRAD_B_LONG = 8, GRAD_B_SHORT = 17, GRAD_TOTAL_MOST = 51 };

/* Lengths 1, 2, k-1, k, k+1, n-1, n for n = 11 and both k = 5 and k = 3.  In the first batch the
 * tokens outnumber the projected rows of every layer, so shared projections compress first; in
 * the second they don't. */
extern const size_t grad_lengths_long[GRAD_B_LONG];
extern const size_t grad_lengths_short[GRAD_B_SHORT];

typedef enum GradBatches {
    GRAD_LONG = 1,
    GRAD_SHORT = 2,
    GRAD_BOTH = GRAD_LONG | GRAD_SHORT
} GradBatches;

typedef struct ModelGrad {
    Model model;
    Batch batch;
    const char *name; /* for messages */
    size_t samples;   /* elements tried of one tensor */
} ModelGrad;

/* Every parameter of grad->model on one batch of sequences of these lengths: the error is at most
 * 1e-7 of the tensor's largest gradient, and gradients are added to what the block held. */
void grad_check_batch(ModelGrad *grad, const size_t *lengths, size_t B);

/* The same for a new model of random weights on the batches above. */
void grad_check_model(const ModelConfig *config, const char *name, GradBatches batches);

/* check(scope, tie_kv) for the six ways of sharing projections. */
void grad_check_sharings(void (*check)(Scope scope, bool tie_kv));

/* Full attention under both places of the LayerNorms; the rest as in config. */
void grad_check_full(const ModelConfig *config);

#endif
