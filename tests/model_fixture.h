/* Small whole models for tests: configuration, parameters, gradients, activations and ragged
 * batches in one place. */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "activations.h"
#include "batch.h"
#include "config.h"
#include "params.h"

typedef struct Model {
    ModelConfig config;
    ParamTable table;
    Arena weights_arena, grads_arena;
    real *weights, *grads; /* blocks */
    Params params, d_params;
    Activations acts;
} Model;

/* Two layers of sizes that all differ: n 11, width 12, 3 heads of 4, ffn 20, vocabulary 37, k 5
 * and 3; post-norm, headwise, no dropout. */
ModelConfig model_config_tiny(void);

/* Makes a configuration pool, in the i-th of MODEL_POOLINGS ways: mean, max, and conv with taps for
 * each head, one set a layer with E = F, two for the whole model. */
enum { MODEL_POOLINGS = 5 };
void model_set_pooling(ModelConfig *config, size_t i);

/* Two layers that begin by model.init: local, pre-norm, E and F without noise. */
ModelConfig model_config_local(size_t n, size_t width, size_t heads, Scope scope, size_t k);

/* A zeroed block of a table's layout; ends the test when there is no memory. */
real *model_create_block(Arena *arena, const ParamTable *table);

/* Ends the test when the model cannot be made.  Weights are model_randomize's.  Sets one thread:
 * models this small lose by more. */
void model_create(Model *out, const ModelConfig *config, size_t max_B, size_t max_total,
                  ActMode mode);

/* The same with a thread count that the later passes must keep: scratch is sized by it. */
void model_create_threads(Model *out, const ModelConfig *config, size_t max_B, size_t max_total,
                          ActMode mode, size_t threads);
void model_destroy(Model *model);

/* Weights at which every part of the model matters: matrices of a size that keeps the stream's
 * scale, biases and LayerNorm parameters away from 0 and 1.  Each tensor is a function of its
 * name and the seed. */
void model_randomize(Model *model, uint64_t seed);

/* Copies the tensors that both models have, by name; shapes must agree. */
void model_copy_weights(Model *to, const Model *from);

void model_zero_grads(Model *model);

/* The tensor of that name in the model's weights or gradients; ends the test when there is none. */
real *model_weight(Model *model, const char *name);
real *model_grad(Model *model, const char *name);

/* The sum of the classes' losses, by the log-probabilities that stand in acts.class_logits. */
double model_class_loss(const Model *model, const Batch *batch);

/* Forward pass; mean loss over the masked rows, or over the sequences where the model
 * classifies. */
double model_loss(Model *model, const Batch *batch);

/* Forward and backward pass: adds the gradient of loss_scale times the summed loss; returns that
 * scaled loss. */
double model_backward(Model *model, const Batch *batch, double loss_scale);

/* max |a - b| / max |b|; NaN if anything is. */
double array_error(const real *a, const real *b, size_t count);

/* Gradients of all tensors of two models of the same table agree: the worst array_error is at
 * most tol, each tensor's measured against its own largest gradient but not less than `floor`
 * times the largest of all tensors. */
void check_grads_equal(const Model *a, const Model *b, double floor, double tol);

/* Gradients and the loss that model_backward returns are proportional to loss_scale; the gradients
 * of the model, which are zero, are overwritten. */
void check_loss_scale(Model *model, const Batch *batch, double tol);

/* Sequences of the given lengths with random ids; every third token or so is masked, at least
 * one in each sequence. */
void model_batch_create(Batch *out, const size_t *lengths, size_t B, size_t vocab, uint64_t seed);

/* Random classes of the sequences, which model_batch_create leaves 0. */
void model_batch_classify(Batch *batch, size_t classes, uint64_t seed);

/* What the summed loss is divided by for its mean: masked rows, or sequences. */
double model_batch_divisor(const Model *model, const Batch *batch);

/* The sequences first..first+count-1 of a batch as a batch of their own; dropout keys go along. */
void batch_slice(Batch *out, const Batch *from, size_t first, size_t count);
void model_batch_destroy(Batch *batch);

#endif
