/* The matrices behind a spectrum: one forward pass that keeps what every layer's attention reads,
 * then the singular values of one head at a time, on as many threads as one likes. */
#ifndef HEAD_SPECTRA_H
#define HEAD_SPECTRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "activations.h"
#include "arena.h"
#include "batch.h"
#include "config.h"
#include "err.h"
#include "loaded_model.h"

/* Of one thread. */
typedef struct HeadScratch {
    real *p;           /* (n,keys) the head's probabilities, of the last head_spectra_values */
    double *a;         /* (n,keys) or (keys,n) what LAPACK takes apart */
    double *attention; /* (keys) singular values of p */
    double *effective; /* (keys) those of p F */
    double *work;
} HeadScratch;

typedef struct HeadSpectra {
    const LoadedModel *model; /* borrowed */
    ModelConfig config;       /* of the forward pass: the model's without dropout */
    Activations acts;
    Batch batch; /* one sequence of n */
    Arena arena;
    /* F = lower q (svd.h), by layer and matrix of the layer; NULL where there is no F */
    double *lower[CONFIG_MAX_LAYERS];
    HeadScratch *threads; /* as many as a parallel region may have */
} HeadSpectra;

bool head_spectra_create(HeadSpectra *out, const LoadedModel *model, Err *err);
void head_spectra_destroy(HeadSpectra *spectra); /* accepts a zeroed struct */

/* ids (n) through the encoder. */
void head_spectra_forward(HeadSpectra *spectra, const uint32_t *ids);

/* Keys of a head in layer l: n, or k. */
size_t head_spectra_keys(const HeadSpectra *spectra, size_t l);

/* The head's F (k,n); NULL where there is none. */
const real *head_spectra_f(const HeadSpectra *spectra, size_t l, size_t h);

/* Fills scratch->p and attention, and effective where there is an F.  False when the matrix is not
 * finite or LAPACK gives up. */
bool head_spectra_values(HeadScratch *scratch, const HeadSpectra *spectra, size_t l, size_t h);

#endif
