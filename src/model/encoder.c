#include "encoder.h"

#include <assert.h>

#include "dropout.h"
#include "embedding.h"
#include "encoder_layer.h"
#include "laps.h"
#include "layernorm.h"

/* Weight, bias and saved statistics of one LayerNorm, and the gradients of the first two. */
typedef struct Norm {
    const real *w, *b;
    NormStats stats;
    real *d_w, *d_b;
} Norm;

static Norm norm_embedding(const Pass *pass) {
    Norm norm = {pass->params->emb_ln_w, pass->params->emb_ln_b, pass->acts->emb_ln, NULL, NULL};
    if (pass->grads) norm.d_w = pass->grads->emb_ln_w, norm.d_b = pass->grads->emb_ln_b;
    return norm;
}

static Norm norm_first(const Pass *pass, size_t l) {
    const LayerParams *w = &pass->params->layers[l];
    Norm norm = {w->ln1_w, w->ln1_b, pass->acts->layers[l].ln1, NULL, NULL};
    if (pass->grads)
        norm.d_w = pass->grads->layers[l].ln1_w, norm.d_b = pass->grads->layers[l].ln1_b;
    return norm;
}

static Norm norm_second(const Pass *pass, size_t l) {
    const LayerParams *w = &pass->params->layers[l];
    Norm norm = {w->ln2_w, w->ln2_b, pass->acts->layers[l].ln2, NULL, NULL};
    if (pass->grads)
        norm.d_w = pass->grads->layers[l].ln2_w, norm.d_b = pass->grads->layers[l].ln2_b;
    return norm;
}

static Norm norm_final(const Pass *pass) {
    Norm norm = {pass->params->final_ln_w, pass->params->final_ln_b, pass->acts->final_ln, NULL,
                 NULL};
    if (pass->grads) norm.d_w = pass->grads->final_ln_w, norm.d_b = pass->grads->final_ln_b;
    return norm;
}

static void lap_norm(const Pass *pass, int passes) {
    lap_elements(pass->acts, PROFILE_LAYERNORM, pass->batch->total * pass->config->width, passes);
}

static void norm_forward(const Pass *pass, Norm norm, real *y, const real *x) {
    layernorm_forward(y, norm.stats.mean, norm.stats.rstd, x, norm.w, norm.b, pass->batch->total,
                      pass->config->width);
    lap_norm(pass, 2);
}

static void norm_recompute(const Pass *pass, Norm norm, real *y, const real *x) {
    layernorm_recompute(y, x, norm.stats.mean, norm.stats.rstd, norm.w, norm.b, pass->batch->total,
                        pass->config->width);
    lap_norm(pass, 2);
}

static void norm_backward(const Pass *pass, Norm norm, real *d_x, const real *d_y, const real *x,
                          int accumulate) {
    layernorm_backward(d_x, norm.d_w, norm.d_b, d_y, x, norm.w, norm.stats.mean, norm.stats.rstd,
                       pass->acts->norm_scratch, pass->batch->total, pass->config->width,
                       accumulate);
    lap_norm(pass, accumulate ? 4 : 3);
}

/* Dropout of the normalised embeddings, in place. */
static void embedding_dropout(const Pass *pass, real *x) {
    const Batch *batch = pass->batch;
    if (pass->acts->mode != ACTS_TRAINING) return;
    residual_dropout_forward(x, NULL, x, NULL, batch->start, batch->seq_key, batch->B,
                             pass->config->width, 0, SITE_EMBEDDING, pass->config->dropout);
    lap_elements(pass->acts, PROFILE_DROPOUT, batch->total * pass->config->width, 2);
}

/* sum (total,C): token + position; x, which may be sum: the same normalised. */
static void embed_forward(const Pass *pass, real *sum, real *x) {
    const Batch *batch = pass->batch;
    embedding_forward(sum, pass->params->token, pass->params->position, batch->ids, batch->start,
                      batch->B, pass->config->width);
    lap_elements(pass->acts, PROFILE_EMBEDDING, batch->total * pass->config->width, 3);
    norm_forward(pass, norm_embedding(pass), x, sum);
    embedding_dropout(pass, x);
}

/* d (total,C): gradient of the embedding block's output, overwritten. */
static void embed_backward(const Pass *pass, real *d) {
    const Batch *batch = pass->batch;
    size_t C = pass->config->width;
    residual_dropout_backward(d, d, batch->start, batch->seq_key, batch->B, C, 0, SITE_EMBEDDING,
                              pass->config->dropout);
    lap_elements(pass->acts, PROFILE_DROPOUT, batch->total * C, 2);
    norm_backward(pass, norm_embedding(pass), d, d, pass->acts->emb_sum, 0);
    embedding_backward(pass->grads->token, pass->grads->position, d, batch->ids, batch->start,
                       batch->B, C);
    lap_elements(pass->acts, PROFILE_EMBEDDING, batch->total * C, 5);
}

/* Post-norm: x = LN1(x + attention(x)), x = LN2(x + ffn(x)). */
static void forward_post(const Pass *pass) {
    Activations *acts = pass->acts;
    size_t L = pass->config->layers;
    embed_forward(pass, acts->emb_sum, acts->x);
    for (size_t l = 0; l < L; l++) {
        LayerActs *a = &acts->layers[l];
        attention_block_forward(pass, l, a->sum_att, acts->x, acts->x);
        norm_forward(pass, norm_first(pass, l), acts->y, a->sum_att);
        ffn_block_forward(pass, l, a->sum_ffn, acts->y, acts->y);
        norm_forward(pass, norm_second(pass, l), l + 1 < L ? acts->x : acts->hidden, a->sum_ffn);
    }
}

/* Does the backward pass compute this much of layer l again?  The buffers that layers share still
 * hold the last layer's. */
static bool recomputes(const Pass *pass, size_t l, Recompute what) {
    return pass->config->recompute >= what && l + 1 < pass->config->layers;
}

/* Input of layer l again, from what the forward pass kept. */
static const real *recompute_input_post(const Pass *pass, size_t l) {
    Activations *acts = pass->acts;
    if (l > 0) {
        norm_recompute(pass, norm_second(pass, l - 1), acts->x, acts->layers[l - 1].sum_ffn);
    } else {
        norm_recompute(pass, norm_embedding(pass), acts->x, acts->emb_sum);
        embedding_dropout(pass, acts->x);
    }
    return acts->x;
}

static void backward_post(const Pass *pass) {
    Activations *acts = pass->acts;
    real *d = acts->d_hidden;
    for (size_t l = pass->config->layers; l-- > 0;) {
        LayerActs *a = &acts->layers[l];
        const real *x = NULL;
        norm_backward(pass, norm_second(pass, l), d, d, a->sum_ffn, 0);
        if (recomputes(pass, l, RECOMPUTE_LAYER)) {
            x = recompute_input_post(pass, l);
            attention_block_forward(pass, l, a->sum_att, x, x);
            norm_forward(pass, norm_first(pass, l), acts->y, a->sum_att);
        } else {
            norm_recompute(pass, norm_first(pass, l), acts->y, a->sum_att);
        }
        if (recomputes(pass, l, RECOMPUTE_FFN)) ffn_block_recompute(pass, l, acts->y);
        ffn_block_backward(pass, l, d, d, acts->y, 1); /* d is the residual's share already */
        norm_backward(pass, norm_first(pass, l), d, d, a->sum_att, 0);
        if (!x) x = recompute_input_post(pass, l);
        attention_block_backward(pass, l, d, d, x, 1);
    }
    embed_backward(pass, d);
}

/* Residual stream that enters layer l. */
static const real *stream(const Activations *acts, size_t l) {
    return l == 0 ? acts->stream0 : acts->layers[l - 1].sum_ffn;
}

/* Pre-norm: s += attention(LN1(s)), s += ffn(LN2(s)), and a final LayerNorm. */
static void forward_pre(const Pass *pass) {
    Activations *acts = pass->acts;
    size_t L = pass->config->layers;
    embed_forward(pass, acts->emb_sum, acts->stream0);
    for (size_t l = 0; l < L; l++) {
        LayerActs *a = &acts->layers[l];
        norm_forward(pass, norm_first(pass, l), acts->x, stream(acts, l));
        attention_block_forward(pass, l, a->sum_att, acts->x, stream(acts, l));
        norm_forward(pass, norm_second(pass, l), acts->y, a->sum_att);
        ffn_block_forward(pass, l, a->sum_ffn, acts->y, a->sum_att);
    }
    norm_forward(pass, norm_final(pass), acts->hidden, stream(acts, L));
}

static void backward_pre(const Pass *pass) {
    Activations *acts = pass->acts;
    real *d = acts->d_hidden, *d_x = acts->d_x;
    size_t L = pass->config->layers;
    norm_backward(pass, norm_final(pass), d, d, stream(acts, L), 0);
    for (size_t l = L; l-- > 0;) {
        LayerActs *a = &acts->layers[l];
        if (recomputes(pass, l, RECOMPUTE_LAYER)) {
            norm_forward(pass, norm_first(pass, l), acts->x, stream(acts, l));
            attention_block_forward(pass, l, a->sum_att, acts->x, stream(acts, l));
        }
        norm_recompute(pass, norm_second(pass, l), acts->y, a->sum_att);
        if (recomputes(pass, l, RECOMPUTE_FFN)) ffn_block_recompute(pass, l, acts->y);
        ffn_block_backward(pass, l, d_x, d, acts->y, 0);
        norm_backward(pass, norm_second(pass, l), d, d_x, a->sum_att, 1);
        if (!recomputes(pass, l, RECOMPUTE_LAYER))
            norm_recompute(pass, norm_first(pass, l), acts->x, stream(acts, l));
        attention_block_backward(pass, l, d_x, d, acts->x, 0);
        norm_backward(pass, norm_first(pass, l), d, d_x, stream(acts, l), 1);
    }
    embed_backward(pass, d);
}

/* Rows that go through a layer together in inference: whole sequences, or a part of a long one. */
typedef struct Chunk {
    Batch rows;           /* B, total and start alone */
    size_t row, sequence; /* the first, of the whole batch */
} Chunk;

/* The next part of the batch, of at most `most` rows; false at its end. */
static bool next_chunk(Chunk *chunk, const Batch *batch, size_t most) {
    size_t row = chunk->row + chunk->rows.total, b = chunk->sequence, count = 1;
    if (row == batch->total) return false;
    while (batch->start[b + 1] <= row) b++;
    size_t end = batch->start[b + 1];
    if (end - batch->start[b] > most) {
        end = end - row > most ? row + most : end;
    } else {
        while (b + count < batch->B && batch->start[b + count + 1] - row <= most) count++;
        end = batch->start[b + count];
    }
    chunk->row = row;
    chunk->sequence = b;
    chunk->rows.B = count;
    chunk->rows.total = end - row;
    chunk->rows.start[0] = 0;
    for (size_t i = 1; i < count; i++) chunk->rows.start[i] = batch->start[b + i] - row;
    chunk->rows.start[count] = end - row;
    return true;
}

/* Queries of the chunk, keys and values of its sequences. */
static AttentionShape chunk_shape(const AttentionShape *whole, const Chunk *chunk) {
    AttentionShape shape = *whole;
    shape.B = chunk->rows.B;
    shape.start = chunk->rows.start;
    shape.seq_key = NULL;
    shape.key_start += chunk->sequence;
    shape.first_sequence = chunk->sequence;
    shape.first_query = chunk->row - whole->start[chunk->sequence];
    size_t length = whole->start[chunk->sequence + 1] - whole->start[chunk->sequence];
    if (length > chunk->rows.total) shape.longer_than = 0; /* however short this part is */
    return shape;
}

/* One layer on the rows of `part`, the first of which is `row`: attention, whose keys and values
 * are there, and feed-forward. */
static void layer_chunk(const Pass *part, const AttentionShape *shape, size_t row) {
    Activations *acts = part->acts;
    size_t l = shape->layer, before = row * part->config->width;
    LayerActs *a = &acts->layers[l];
    real *stream = acts->hidden + before;
    if (part->config->norm == NORM_POST) {
        attention_rows_forward(part, shape, row, a->sum_att, stream, stream);
        norm_forward(part, norm_first(part, l), acts->y, a->sum_att);
        ffn_block_forward(part, l, a->sum_ffn, acts->y, acts->y);
        norm_forward(part, norm_second(part, l), stream, a->sum_ffn);
    } else {
        attention_rows_forward(part, shape, row, a->sum_att, acts->x + before, stream);
        norm_forward(part, norm_second(part, l), acts->y, a->sum_att);
        ffn_block_forward(part, l, stream, acts->y, a->sum_att);
    }
}

/* The same functions as forward_post and forward_pre, a chunk of rows at a time. */
static void forward_chunks(const Pass *pass) {
    Activations *acts = pass->acts;
    bool pre = pass->config->norm == NORM_PRE;
    embed_forward(pass, acts->hidden, acts->hidden);
    for (size_t l = 0; l < pass->config->layers; l++) {
        if (pre) norm_forward(pass, norm_first(pass, l), acts->x, acts->hidden);
        AttentionShape whole = attention_keys_forward(pass, l, pre ? acts->x : acts->hidden);
        assert(whole.longer_than <= acts->chunk_rows || acts->chunk_rows == acts->max_total);
        Chunk chunk = {.rows.start = acts->chunk_start};
        Pass part = *pass;
        part.batch = &chunk.rows;
        while (next_chunk(&chunk, pass->batch, acts->chunk_rows)) {
            AttentionShape shape = chunk_shape(&whole, &chunk);
            layer_chunk(&part, &shape, chunk.row);
        }
    }
    if (pre) norm_forward(pass, norm_final(pass), acts->hidden, acts->hidden);
}

/* There are n positions; an empty sequence has no row that a head could read. */
static bool lengths_are_valid(const Batch *batch, size_t n) {
    bool valid = batch->start[0] == 0 && batch->start[batch->B] == batch->total;
    for (size_t b = 0; valid && b < batch->B; b++)
        valid = batch->start[b] < batch->start[b + 1] && batch->start[b + 1] - batch->start[b] <= n;
    return valid;
}

void encoder_forward(Activations *acts, const Params *params, const ModelConfig *config,
                     const Batch *batch) {
    assert(batch->B <= acts->max_B && batch->total <= acts->max_total);
    assert(lengths_are_valid(batch, config->n));
    Pass pass = {.acts = acts, .params = params, .config = config, .batch = batch};
    if (acts->mode == ACTS_INFERENCE)
        forward_chunks(&pass);
    else if (config->norm == NORM_POST)
        forward_post(&pass);
    else
        forward_pre(&pass);
}

void encoder_backward(Activations *acts, Params *grads, const Params *params,
                      const ModelConfig *config, const Batch *batch) {
    assert(acts->mode == ACTS_TRAINING);
    Pass pass = {.acts = acts, .params = params, .grads = grads, .config = config, .batch = batch};
    if (config->norm == NORM_POST)
        backward_post(&pass);
    else
        backward_pre(&pass);
}
