#include "spectrum_dump.h"

#include <stdio.h>
#include <stdlib.h>

#include "npy.h"

/* Rows go through float, value by value. */
static bool write_rows(NpyWriter *writer, const real *from, const double *from_doubles, size_t rows,
                       size_t cols) {
    float *row = malloc(cols * sizeof *row);
    bool ok = row != NULL;
    for (size_t r = 0; ok && r < rows; r++) {
        for (size_t c = 0; c < cols; c++)
            row[c] = from ? (float)from[r * cols + c] : (float)from_doubles[r * cols + c];
        ok = npy_write(writer, row, 1);
    }
    free(row);
    return ok;
}

/* One of from (rows,cols) and from_doubles. */
static bool dump(const char *folder, size_t l, size_t h, const char *what, const real *from,
                 const double *from_doubles, size_t rows, size_t cols, Err *err) {
    char name[64];
    NpyWriter writer = {0};
    snprintf(name, sizeof name, "layer%zu.head%zu.%s.npy", l, h, what);
    char *path = io_path_join(folder, name);
    bool ok = path || err_set(err, ERR_FAILED, "out of memory for a path");
    ok = ok && npy_open(&writer, path, cols, err);
    if (ok && !write_rows(&writer, from, from_doubles, rows, cols) && !writer.file.error)
        ok = err_set(err, ERR_FAILED, "%s: out of memory for a row of %zu", path, cols);
    ok = ok && npy_commit(&writer, err); /* says why a write failed */
    npy_abort(&writer);
    free(path);
    return ok;
}

bool spectrum_dump(const char *folder, const HeadSpectra *spectra, Err *err) {
    const ModelConfig *config = &spectra->config;
    HeadScratch *scratch = &spectra->threads[0];
    bool ok = true;
    for (size_t unit = 0; ok && unit < config->layers * config->heads; unit++) {
        size_t l = unit / config->heads, h = unit % config->heads;
        size_t keys = head_spectra_keys(spectra, l);
        const real *f = head_spectra_f(spectra, l, h);
        if (!head_spectra_values(scratch, spectra, l, h))
            return loaded_model_fail_nonfinite(spectra->model, "the attention", err);
        ok = dump(folder, l, h, "p", scratch->p, NULL, config->n, keys, err) &&
             dump(folder, l, h, "p_values", NULL, scratch->attention, 1, keys, err);
        if (!ok || !f) continue;
        ok = dump(folder, l, h, "pf_values", NULL, scratch->effective, 1, keys, err) &&
             ((h > 0 && config->scope != SCOPE_HEAD) ||
              dump(folder, l, h, "f", f, NULL, keys, config->n, err));
    }
    return ok;
}
