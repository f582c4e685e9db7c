#include "fill_mask.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "cross_entropy.h"
#include "encoder.h"
#include "mlm_head.h"

static const char MASK[] = "<mask>";

/* A private-use character, so in no vocabulary worth the name: pieces are not joined across it, and
 * it shows where a text really begins.  That is checked where it is used. */
static const char STOPPER[] = "\xEE\x80\x80";

/* STOPPER_PIECES: its bytes, the space that a text begins with, and room to spare. */
enum { MASK_SIZE = sizeof MASK - 1, STOPPER_SIZE = sizeof STOPPER - 1, STOPPER_PIECES = 8 };

/* Growing list of ids, and the buffer that the tokenizer fills. */
typedef struct Encoder {
    const Tokenizer *tokenizer;
    MaskedText *out;
    size_t capacity;
    uint32_t *piece_ids;
    size_t piece_capacity;
} Encoder;

static bool append(Encoder *e, const uint32_t *ids, size_t count, Err *err) {
    MaskedText *out = e->out;
    if (out->count + count > e->capacity) {
        size_t capacity = 2 * (out->count + count) + 64;
        uint32_t *grown = realloc(out->ids, capacity * sizeof *grown);
        if (!grown) return err_set(err, ERR_FAILED, "out of memory for %zu tokens", capacity);
        out->ids = grown;
        e->capacity = capacity;
    }
    if (count > 0)
        memcpy(out->ids + out->count, ids,
               count * sizeof *ids); /* ids may be NULL where there are none */
    out->count += count;
    return true;
}

static bool append_mask(Encoder *e, Err *err) {
    MaskedText *out = e->out;
    size_t *grown = realloc(out->masks, (out->mask_count + 1) * sizeof *grown);
    if (!grown) return err_set(err, ERR_FAILED, "out of memory for %zu masks", out->mask_count + 1);
    out->masks = grown;
    out->masks[out->mask_count++] = out->count;
    const uint32_t id = TOKEN_MASK;
    return append(e, &id, 1, err);
}

/* Text at the very beginning. */
static bool append_start(Encoder *e, const char *text, size_t size, Err *err) {
    size_t count;
    return tokenizer_encode(e->tokenizer, &e->piece_ids, &count, &e->piece_capacity, text, size,
                            err) &&
           append(e, e->piece_ids, count, err);
}

/* The ids of the stopper, into `ids` (STOPPER_PIECES). */
static bool encode_stopper(uint32_t *ids, size_t *count, Encoder *e, Err *err) {
    if (!tokenizer_encode(e->tokenizer, &e->piece_ids, count, &e->piece_capacity, STOPPER,
                          STOPPER_SIZE, err))
        return false;
    if (*count > STOPPER_PIECES)
        return err_set(err, ERR_FAILED, "the tokenizer cuts one character into %zu pieces", *count);
    if (*count > 0) memcpy(ids, e->piece_ids, *count * sizeof *ids);
    return true;
}

/* Text behind a mask: encoded behind the stopper, whose own pieces are then left out. */
static bool append_inner(Encoder *e, const char *text, size_t size, Err *err) {
    if (size == 0) return true;
    char *stopped = malloc(STOPPER_SIZE + size);
    if (!stopped) return err_set(err, ERR_FAILED, "out of memory for %zu bytes of text", size);
    memcpy(stopped, STOPPER, STOPPER_SIZE);
    memcpy(stopped + STOPPER_SIZE, text, size);
    uint32_t stopper[STOPPER_PIECES];
    size_t alone = 0, count = 0;
    bool ok = encode_stopper(stopper, &alone, e, err) &&
              tokenizer_encode(e->tokenizer, &e->piece_ids, &count, &e->piece_capacity, stopped,
                               STOPPER_SIZE + size, err);
    if (ok && (count < alone || memcmp(e->piece_ids, stopper, alone * sizeof *stopper) != 0))
        ok = err_set(err, ERR_FAILED,
                     "the tokenizer of this checkpoint has pieces with U+E000, which here stands "
                     "for a mask: what follows <mask> cannot be cut apart from it");
    if (ok) ok = append(e, e->piece_ids + alone, count - alone, err);
    free(stopped);
    return ok;
}

static const char *find_mask(const char *text, const char *end) {
    for (; text + MASK_SIZE <= end; text++) {
        if (memcmp(text, MASK, MASK_SIZE) == 0) return text;
    }
    return NULL;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool encode_parts(Encoder *e, const char *text, size_t size, Err *err) {
    const char *end = text + size;
    const uint32_t first = TOKEN_BOS, last = TOKEN_EOS;
    if (!append(e, &first, 1, err)) return false;
    for (bool at_start = true;; at_start = false) {
        const char *mask = find_mask(text, end), *part_end = mask ? mask : end;
        while (part_end > text && is_space(part_end[-1])) part_end--;
        size_t part = (size_t)(part_end - text);
        if (!(at_start ? append_start(e, text, part, err) : append_inner(e, text, part, err)))
            return false;
        if (!mask) return append(e, &last, 1, err);
        if (!append_mask(e, err)) return false;
        text = mask + MASK_SIZE;
    }
}

bool masked_text_encode(MaskedText *out, const Tokenizer *tokenizer, const char *text, size_t size,
                        Err *err) {
    *out = (MaskedText){0};
    Encoder encoder = {.tokenizer = tokenizer, .out = out};
    bool ok = encode_parts(&encoder, text, size, err);
    free(encoder.piece_ids);
    if (!ok) masked_text_free(out);
    return ok;
}

void masked_text_free(MaskedText *text) {
    if (!text) return;
    free(text->ids);
    free(text->masks);
    *text = (MaskedText){0};
}

bool fill_mask_create(FillMask *out, const LoadedModel *model, Err *err) {
    const ModelConfig *config = &model->checkpoint.config.model;
    *out = (FillMask){.model = model};
    return loaded_model_check_mlm(model, err) &&
           activations_create(&out->acts, config, 1, config->n, ACTS_INFERENCE, err);
}

void fill_mask_destroy(FillMask *fill) {
    if (!fill) return;
    activations_destroy(&fill->acts);
    *fill = (FillMask){0};
}

/* The `top` largest entries of a row of probabilities, by insertion; equal ones in order of their
 * ids. */
static void take_top(Fill *fills, size_t top, const real *probabilities, size_t V) {
    size_t count = 0;
    for (size_t id = TOKEN_SPECIALS; id < V; id++) {
        double p = (double)probabilities[id];
        if (count == top && !(p > fills[top - 1].probability)) continue;
        size_t at = count < top ? count++ : top - 1;
        for (; at > 0 && p > fills[at - 1].probability; at--) fills[at] = fills[at - 1];
        fills[at] = (Fill){(uint32_t)id, p};
    }
}

bool fill_mask_predict(Fill *fills, FillMask *fill, const MaskedText *text, size_t top, Err *err) {
    const ModelConfig *config = &fill->model->checkpoint.config.model;
    assert(top >= 1 && top <= config->vocab - TOKEN_SPECIALS);
    if (text->mask_count == 0)
        return err_set(err, ERR_CONFIG,
                       "the text has no <mask>: put it where a word is to be filled in");
    if (text->count > config->n)
        return err_set(
            err, ERR_CONFIG,
            "the text has %zu tokens, <s> and </s> included; this model takes at most n = %zu",
            text->count, config->n);
    size_t start[2] = {0, text->count};
    uint64_t seq_key = 0; /* no dropout */
    Batch batch = {
        .B = 1, .total = text->count, .start = start, .ids = text->ids, .seq_key = &seq_key};
    encoder_forward(&fill->acts, &fill->model->params, config, &batch);
    for (size_t m = 0; m < text->mask_count; m++) {
        uint32_t row = (uint32_t)text->masks[m];
        mlm_head_logits(&fill->acts, &fill->model->params, config, &row, 1);
        softmax_rows(fill->acts.logits, 1, config->vocab);
        take_top(fills + m * top, top, fill->acts.logits, config->vocab);
        if (!isfinite(fills[m * top].probability))
            return loaded_model_fail_nonfinite(fill->model, "the largest probability", err);
    }
    return true;
}
