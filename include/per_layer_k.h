/* Projected lengths by layer, chosen from the spectra of a trained model: the "nonuniform projected
 * dimension" that the Linformer paper proposes (arXiv 2006.04768, section 4). */
#ifndef PER_LAYER_K_H
#define PER_LAYER_K_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "spectrum.h"

typedef struct PerLayerK {
    size_t layers, n;
    size_t k[CONFIG_MAX_LAYERS];
    double share[CONFIG_MAX_LAYERS]; /* that the layer's curve reaches at k */
    size_t total;                    /* sum of k */
} PerLayerK;

/* How the heads of a layer, which share one k, become one curve. */
typedef enum HeadRule {
    HEADS_MEAN, /* of their shares: the layer as a whole keeps so much */
    HEADS_EACH  /* the lowest share: no head keeps less; one head that attends to single tokens,
                   whose spectrum is flat, then decides for its layer */
} HeadRule;

/* curves (layers,length) overwritten. */
void per_layer_k_curves(double *curves, const Spectrum *spectrum, const SpectrumCurves *heads,
                        HeadRule rule);

/* The smallest k of each layer whose share is at least `wanted` (0 < wanted <= 1), rounded up to a
 * multiple, but n at most.  curves (layers,length), ascending in each row. */
void per_layer_k_reach(PerLayerK *out, const double *curves, size_t layers, size_t length, size_t n,
                       double wanted, size_t multiple);

/* k of all layers adding up to `total`, each a multiple, so that the lowest share of any layer is
 * as high as it can be.  per_layer_k_check_total must have accepted the numbers. */
void per_layer_k_split(PerLayerK *out, const double *curves, size_t layers, size_t length, size_t n,
                       size_t total, size_t multiple);

/* ERR_CONFIG when no list of multiples from 1 to n adds up to `total`; says what would. */
bool per_layer_k_check_total(size_t layers, size_t n, size_t total, size_t multiple, Err *err);

/* "[64, 128]"; reversed: from the last layer to the first. */
void per_layer_k_list(char *out, size_t size, const PerLayerK *k, bool reversed);

/* A config of the keys that go with the list: model.attention, n, layers and k.  origin: what it
 * came from, for the comment at its head; lines of at most 100 characters. */
bool per_layer_k_write(const char *path, const PerLayerK *k, const char *origin, Err *err);

#endif
