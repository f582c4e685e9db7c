#include <stdio.h>
#include <stdlib.h>

#include "picture.h"
#include "spectrum_files.h"
#include "text_file.h"

/* Points of a curve that a picture of its width can show. */
enum { POINTS = 160, MOST_IN_KEY = 16 };

/* Below these a title and a colour bar would not fit. */
enum { LEAST_WIDTH = 480, LEAST_HEIGHT = 220 };

/* Heat maps show values at this many layers and heads at most; beyond it colours alone. */
enum { MOST_CELLS_ACROSS = 16 };

static const char *definition_text(const Spectrum *s) {
    return s->definition == SHARE_SUM ? "singular values" : "squared singular values";
}

/* The largest shown index: singular values past it are 0 in every layer. */
static size_t columns(const Spectrum *s, const SpectrumCurves *curves) {
    return curves->map == SPECTRUM_PROJECTED ? curves->length : s->n;
}

/* One curve as lines "index share". */
static void put_curve(AtomicFile *file, const double *share, size_t count) {
    for (size_t point = 0, shown = 0; point < POINTS; point++) {
        size_t index = 1 + point * (count - 1) / (POINTS - 1);
        if (index == shown) continue;
        shown = index;
        text_file_put(file, "%zu %.5f\n", index, share[index - 1]);
    }
}

/* All heads of a layer, and their mean; mean (length) is scratch. */
static void put_layer(AtomicFile *file, const Spectrum *s, const SpectrumCurves *curves, size_t l,
                      double *mean) {
    size_t count = curves->values[l];
    text_file_put(file, "$heads%zu << END\n", l);
    for (size_t h = 0; h < s->heads; h++) {
        put_curve(file, spectrum_share(s, curves, l, h), count);
        text_file_put(file, "\n");
    }
    for (size_t i = 0; i < count; i++) {
        mean[i] = 0;
        for (size_t h = 0; h < s->heads; h++)
            mean[i] += spectrum_share(s, curves, l, h)[i] / (double)s->heads;
    }
    text_file_put(file, "END\n$layer%zu << END\n", l);
    put_curve(file, mean, count);
    text_file_put(file, "END\n");
}

static void put_plot(AtomicFile *file, const Spectrum *s) {
    size_t L = s->layers, every = (L + MOST_IN_KEY - 1) / MOST_IN_KEY;
    text_file_put(file, "plot ");
    for (size_t l = 0; l < L; l++)
        text_file_put(file, "$heads%zu with lines lc rgb \"#80%06X\" lw 0.8 notitle, \\\n", l,
                      picture_line_colour(l, L));
    for (size_t l = 0; l < L; l++) {
        text_file_put(file, "%s$layer%zu with lines lc rgb \"#%06X\" lw 2.5 ", l ? ", \\\n" : "", l,
                      picture_line_colour(l, L));
        if (l % every == 0)
            text_file_put(file, "title \"layer %zu\"", l);
        else
            text_file_put(file, "notitle");
    }
    text_file_put(file, "\n");
}

static bool draw_curves(bool *drawn, const char *folder, const Spectrum *s,
                        const SpectrumCurves *curves, size_t index, Err *err) {
    char name[40];
    Picture picture;
    double *mean = malloc(curves->length * sizeof *mean);
    if (!mean) return err_set(err, ERR_FAILED, "out of memory for %zu points", curves->length);
    snprintf(name, sizeof name, "curves-%s", spectrum_map_name(curves->map));
    bool ok = picture_open(&picture, folder, name, 760, 460, err);
    if (ok) {
        AtomicFile *file = &picture.script;
        text_file_put(file,
                      "set title \"Spectrum of %s: heads thin, layer means thick\"\n"
                      "set xlabel \"number of largest %s (vertical line: %zu)\"\n"
                      "set ylabel \"share of their sum\"\n"
                      "set xrange [1:%zu]\nset yrange [0:1]\n"
                      "set grid y lc rgb \"#808080\" lw 0.3\n"
                      "set key bottom right maxrows 8\n"
                      "set arrow from %zu, 0 to %zu, 1 nohead lc rgb \"#808080\" dt 2\n",
                      spectrum_map_symbol(curves->map), definition_text(s), index,
                      columns(s, curves), index, index);
        for (size_t l = 0; l < s->layers; l++) put_layer(file, s, curves, l, mean);
        put_plot(file, s);
        ok = picture_draw(drawn, &picture, err);
    }
    free(mean);
    return ok;
}

/* Of every cell: head, layer, share, and the colour of the number on it. */
static void put_cells(AtomicFile *file, const Spectrum *s, const SpectrumCurves *curves, size_t i,
                      double low, double high) {
    text_file_put(file, "$cells << END\n");
    for (size_t l = 0; l < s->layers; l++)
        for (size_t h = 0; h < s->heads; h++) {
            double share = spectrum_share(s, curves, l, h)[i];
            text_file_put(file, "%zu %zu %.5f %u\n", h, l, share,
                          picture_text_colour((share - low) / (high - low)));
        }
    text_file_put(file, "END\n");
}

static void find_range(double *low, double *high, const Spectrum *s, const SpectrumCurves *curves,
                       size_t i) {
    *low = 1, *high = 0;
    for (size_t l = 0; l < s->layers; l++)
        for (size_t h = 0; h < s->heads; h++) {
            double share = spectrum_share(s, curves, l, h)[i];
            if (share < *low) *low = share;
            if (share > *high) *high = share;
        }
    if (*high - *low < 0.01) *low = *high - 0.01; /* equal values are no pattern */
}

static bool draw_heatmap(bool *drawn, const char *folder, const Spectrum *s,
                         const SpectrumCurves *curves, size_t index, Err *err) {
    char name[40];
    Picture picture;
    size_t i = (index < curves->length ? index : curves->length) - 1;
    double low, high;
    bool numbers = s->layers <= MOST_CELLS_ACROSS && s->heads <= MOST_CELLS_ACROSS;
    size_t cell = numbers ? 48 : 20;
    find_range(&low, &high, s, curves, i);
    snprintf(name, sizeof name, "heatmap-%s", spectrum_map_name(curves->map));
    size_t width = 170 + s->heads * cell, height = 110 + s->layers * (numbers ? 34 : cell);
    if (width < LEAST_WIDTH) width = LEAST_WIDTH;
    if (height < LEAST_HEIGHT) height = LEAST_HEIGHT;
    if (!picture_open(&picture, folder, name, width, height, err)) return false;
    AtomicFile *file = &picture.script;
    picture_put_palette(&picture);
    text_file_put(file,
                  "set title \"%s: share of the largest %zu of %zu %s\"\n"
                  "set xlabel \"head\"\nset ylabel \"layer\"\n"
                  "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\n"
                  "set xtics %d\nset ytics %d\n"
                  "set tics scale 0\nunset border\nunset key\n"
                  "set cbrange [%.5f:%.5f]\n"
                  "set colorbox noborder\n",
                  spectrum_map_symbol(curves->map), index, columns(s, curves), definition_text(s),
                  s->heads - 1, s->layers - 1, s->heads > 16 ? 4 : 1, s->layers > 16 ? 4 : 1, low,
                  high);
    put_cells(file, s, curves, i, low, high);
    text_file_put(
        file, "plot $cells using 1:2:(0.5):(0.5):3 with boxxyerror fs solid noborder fc palette");
    if (numbers)
        text_file_put(file,
                      ", \\\n$cells using 1:2:(sprintf(\"%%.%df\", $3)):4 with labels tc rgb "
                      "variable font \",11\"",
                      high - low < 0.05 ? 3 : 2);
    text_file_put(file, "\n");
    return picture_draw(drawn, &picture, err);
}

bool spectrum_draw(bool *drawn, const char *folder, const Spectrum *spectrum, size_t index,
                   Err *err) {
    for (size_t m = 0; m < spectrum->maps; m++)
        if (!draw_curves(drawn, folder, spectrum, &spectrum->curves[m], index, err) ||
            !draw_heatmap(drawn, folder, spectrum, &spectrum->curves[m], index, err))
            return false;
    return true;
}
