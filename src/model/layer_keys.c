#include "layer_keys.h"

#include "pool_project.h"
#include "short_attention.h"

size_t layer_key_rows(const ModelConfig *config, size_t l, size_t T) {
    if (config->attention == ATTENTION_FULL) return T;
    return model_pools(config) ? pool_rows(T, config->k[l], config->n) : config->k[l];
}

bool layer_compresses_first(const ModelConfig *config, size_t l, size_t B, size_t total) {
    if (model_pools(config)) return config->projection == PROJECTION_MEAN;
    /* per projection: T P C + P C C against T C C + T P C multiply-adds a sequence */
    return config->scope != SCOPE_HEAD && B * config->k[l] < total;
}

size_t layer_short_length(const ModelConfig *config, size_t l, size_t B, size_t total) {
    if (config->attention != ATTENTION_LINFORMER || model_pools(config) ||
        layer_compresses_first(config, l, B, total))
        return 0;
    return short_attention_longest(config->width / config->heads, config->k[l], config->n);
}
