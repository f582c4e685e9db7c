/* Singular values of the attention matrices of a trained model, per layer and head, averaged over
 * many sequences, as the Linformer paper shows them in its Figure 1 (arXiv 2006.04768, section 3).
 */
#ifndef SPECTRUM_H
#define SPECTRUM_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "loaded_model.h"
#include "whole_sequences.h"

/* The matrices of a head, one a sequence; a sequence has n tokens. */
typedef enum SpectrumMap {
    SPECTRUM_ATTENTION, /* full attention: P = softmax(Q K^T / sqrt(D)), (n,n) */
    SPECTRUM_EFFECTIVE, /* Linformer: Pbar F (n,n), what maps the values of all tokens to the
                           output; of rank k at most */
    SPECTRUM_PROJECTED  /* Linformer: Pbar = softmax(Q (E K)^T / sqrt(D)), (n,k) */
} SpectrumMap;

/* What the singular values s of one matrix add up to. */
typedef enum SpectrumShare {
    SHARE_SUM,    /* (s_1 + ... + s_i) / (s_1 + ...): the paper's "normalized cumulative singular
                     value" */
    SHARE_SQUARES /* the same with s^2: 1 - (relative Frobenius error of the best rank i)^2 */
} SpectrumShare;

/* One kind of matrix.  Arrays are (layers, heads, length); index i is of the (i+1)-th largest
 * singular value. */
typedef struct SpectrumCurves {
    SpectrumMap map;
    size_t values[CONFIG_MAX_LAYERS]; /* singular values that a matrix of the layer has: n, or k */
    size_t length;                    /* the most of any layer */
    double *value;                    /* mean over the sequences; 0 past values[layer] */
    double *share;     /* mean over the sequences of the cumulative share; 1 past values[layer] */
    double *deviation; /* standard deviation of that share over the sequences; 0 for one */
} SpectrumCurves;

typedef struct Spectrum {
    size_t layers, heads, n;
    size_t sequences;         /* that were measured */
    SpectrumShare definition; /* of `share` */
    /* full attention: attention; Linformer: effective (not where the projection is no matrix) and
     * projected */
    SpectrumCurves curves[2];
    size_t maps;
} Spectrum;

typedef struct SpectrumOptions {
    size_t sequences; /* measured, spread evenly over the text; 0: all */
    SpectrumShare definition;
    const char *dump; /* an existing folder for the first sequence's matrices (spectrum_dump.h);
                         NULL: none */
} SpectrumOptions;

/* Runs the encoder over whole sequences of the text, nothing masked.  Takes n*n*12 bytes a thread
 * (n*k*12 for Linformer) beside what a training step of one sequence keeps.  Results do not depend
 * on the number of threads beyond the rounding of the forward pass.  ERR_NONFINITE when the model
 * gives values that are not finite. */
bool spectrum_measure(Spectrum *out, const LoadedModel *model, const WholeSequences *text,
                      const SpectrumOptions *options, Err *err);

/* The same on text files, which are encoded below `folder` (which must exist; the caller removes
 * it) on `threads` threads. */
bool spectrum_measure_texts(Spectrum *out, const LoadedModel *model, const PathList *texts,
                            const char *folder, size_t threads, const SpectrumOptions *options,
                            Err *err);
void spectrum_free(Spectrum *spectrum); /* accepts a zeroed Spectrum */

/* Adds the share of `values` (count, descending, not all 0) to share (count), and its square to
 * squares (count). */
void spectrum_add_shares(double *restrict share, double *restrict squares,
                         const double *restrict values, size_t count, SpectrumShare definition);

/* Whether E and F are matrices that can be shown and multiplied. */
bool spectrum_has_matrices(const ModelConfig *config);

/* "attention", "effective" or "projected", of file names and CSV. */
const char *spectrum_map_name(SpectrumMap map);

/* "P", "Pbar F" or "Pbar", of text for people. */
const char *spectrum_map_symbol(SpectrumMap map);

/* Curves of one head: pointer to its `length` shares. */
static inline const double *spectrum_share(const Spectrum *s, const SpectrumCurves *c, size_t layer,
                                           size_t head) {
    return c->share + (layer * s->heads + head) * c->length;
}

#endif
