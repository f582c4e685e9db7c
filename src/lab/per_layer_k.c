#include "per_layer_k.h"

#include <stdio.h>
#include <string.h>

#include "io.h"

/* Bytes of a list of CONFIG_MAX_LAYERS numbers. */
enum { LIST_SIZE = CONFIG_MAX_LAYERS * 12 };

void per_layer_k_curves(double *curves, const Spectrum *spectrum, const SpectrumCurves *heads,
                        HeadRule rule) {
    size_t H = spectrum->heads, length = heads->length;
    for (size_t l = 0; l < spectrum->layers; l++) {
        double *curve = curves + l * length;
        for (size_t i = 0; i < length; i++) {
            double sum = 0, lowest = 1;
            for (size_t h = 0; h < H; h++) {
                double share = spectrum_share(spectrum, heads, l, h)[i];
                sum += share;
                if (share < lowest) lowest = share;
            }
            curve[i] = rule == HEADS_MEAN ? sum / (double)H : lowest;
        }
    }
}

/* Past its end a curve stays at 1. */
static double share_at(const double *curves, size_t length, size_t l, size_t k) {
    return k <= length ? curves[l * length + k - 1] : 1;
}

static void finish(PerLayerK *out, const double *curves, size_t length) {
    out->total = 0;
    for (size_t l = 0; l < out->layers; l++) {
        out->share[l] = share_at(curves, length, l, out->k[l]);
        out->total += out->k[l];
    }
}

void per_layer_k_reach(PerLayerK *out, const double *curves, size_t layers, size_t length, size_t n,
                       double wanted, size_t multiple) {
    *out = (PerLayerK){.layers = layers, .n = n};
    /* a sum of shares ends at 1 up to rounding only */
    const double reached = wanted < 1 ? wanted : 1 - 1e-12;
    for (size_t l = 0; l < layers; l++) {
        size_t k = 1;
        while (k < n && !(share_at(curves, length, l, k) >= reached)) k++;
        k = (k + multiple - 1) / multiple * multiple;
        out->k[l] = k < n ? k : n;
    }
    finish(out, curves, length);
}

/* The layer with the lowest share among those that can take one more multiple; of equals the one
 * with the smallest k. */
static size_t lowest_layer(const PerLayerK *k, const double *curves, size_t length,
                           size_t multiple) {
    size_t best = k->layers;
    double lowest = 0;
    for (size_t l = 0; l < k->layers; l++) {
        if (k->k[l] + multiple > k->n) continue;
        double share = share_at(curves, length, l, k->k[l]);
        if (best == k->layers || share < lowest || (share == lowest && k->k[l] < k->k[best]))
            best = l, lowest = share;
    }
    return best;
}

bool per_layer_k_check_total(size_t layers, size_t n, size_t total, size_t multiple, Err *err) {
    size_t least = layers * multiple, most = layers * (n / multiple * multiple);
    if (multiple > n)
        return err_set(err, ERR_CONFIG, "multiples of %zu: k is at most n = %zu", multiple, n);
    if (total >= least && total <= most && total % multiple == 0) return true;
    return err_set(err, ERR_CONFIG,
                   "a total k of %zu: wanted a multiple of %zu from %zu to %zu, for %zu layers of "
                   "n = %zu",
                   total, multiple, least, most, layers, n);
}

void per_layer_k_split(PerLayerK *out, const double *curves, size_t layers, size_t length, size_t n,
                       size_t total, size_t multiple) {
    *out = (PerLayerK){.layers = layers, .n = n};
    for (size_t l = 0; l < layers; l++) out->k[l] = multiple;
    for (size_t given = layers * multiple; given < total; given += multiple)
        out->k[lowest_layer(out, curves, length, multiple)] += multiple;
    finish(out, curves, length);
}

void per_layer_k_list(char *out, size_t size, const PerLayerK *k, bool reversed) {
    size_t at = (size_t)snprintf(out, size, "[");
    for (size_t l = 0; l < k->layers && at < size; l++)
        at += (size_t)snprintf(out + at, size - at, "%s%zu", l ? ", " : "",
                               k->k[reversed ? k->layers - 1 - l : l]);
    if (at < size) snprintf(out + at, size - at, "]");
}

static void put_text(AtomicFile *file, const char *text) {
    io_atomic_write(file, text, strlen(text));
}

/* As lines of a comment; control characters, which YAML refuses even there, become blanks. */
static void put_comment(AtomicFile *file, const char *text) {
    put_text(file, "# ");
    for (; *text; text++) {
        bool control = (unsigned char)*text < 0x20 || *text == 0x7F;
        if (*text == '\n')
            put_text(file, "\n# ");
        else
            io_atomic_write(file, control ? " " : text, 1);
    }
    put_text(file, "\n");
}

static void put_shares(AtomicFile *file, const PerLayerK *k) {
    put_text(file, "# Share that each layer reaches:");
    for (size_t l = 0; l < k->layers; l++) {
        char text[32];
        snprintf(text, sizeof text, "%s%.4f", l > 0 && l % 10 == 0 ? "\n#   " : " ", k->share[l]);
        put_text(file, text);
    }
    put_text(file, "\n");
}

bool per_layer_k_write(const char *path, const PerLayerK *k, const char *origin, Err *err) {
    char list[LIST_SIZE], reversed[LIST_SIZE], text[LIST_SIZE + 200];
    AtomicFile file;
    if (!io_atomic_open(&file, path, err)) return false;
    per_layer_k_list(list, sizeof list, k, false);
    per_layer_k_list(reversed, sizeof reversed, k, true);
    put_comment(&file, origin);
    put_shares(&file, k);
    snprintf(text, sizeof text, "# Sum of k: %zu; the same for all layers alike: k = %.10g.\n",
             k->total, (double)k->total / (double)k->layers);
    put_text(&file, text);
    snprintf(text, sizeof text, "# The reverse allocation, for a control: %s\n", reversed);
    put_text(&file, text);
    snprintf(text, sizeof text,
             "model:\n  attention: linformer\n  n: %zu\n  layers: %zu\n  k: %s\n", k->n, k->layers,
             list);
    put_text(&file, text);
    return io_atomic_commit(&file, err);
}
