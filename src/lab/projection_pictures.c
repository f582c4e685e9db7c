#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "picture.h"
#include "spectrum_files.h"
#include "text_file.h"

/* Pixels that all panels together may take across and down, and what a panel gets at least. */
enum { MOST_ACROSS = 1024, MOST_DOWN = 768, PANEL_LEAST = 24, GAP = 4 };

/* Smaller ones are drawn larger, for title and colour bar to fit. */
enum { LEAST_ACROSS = 420, LEAST_DOWN = 130 };

/* Colours stand for powers of ten: three below the largest entry, in so many steps. */
enum { LEVELS = 255, DECADES = 3 };

/* All E or all F of a model as one picture: a row of panels for each layer, a panel for each matrix
 * of the layer, positions from left to right, projected rows from top to bottom. */
typedef struct Mosaic {
    const ModelConfig *config;
    const Params *params;
    bool keys;             /* E, else F */
    size_t layers, panels; /* rows and columns of panels */
    size_t across, down;   /* pixels of a panel; a layer of small k leaves some empty */
    size_t rows;           /* the largest k */
    double most;           /* the largest size of an entry */
} Mosaic;

static size_t panel_pixels(size_t entries, size_t panels, size_t most) {
    size_t pixels = most / panels;
    if (pixels < PANEL_LEAST) pixels = PANEL_LEAST;
    return pixels < entries ? pixels : entries;
}

static Mosaic mosaic_of(const LoadedModel *model, bool keys) {
    const ModelConfig *config = &model->checkpoint.config.model;
    Mosaic m = {.config = config, .params = &model->params, .keys = keys};
    /* one matrix for all layers: layers with a smaller k use its first rows */
    m.layers = config->scope == SCOPE_MODEL ? 1 : config->layers;
    m.panels = config->scope == SCOPE_HEAD ? config->heads : 1;
    m.rows = params_largest_k(config);
    m.across = panel_pixels(config->n, m.panels, MOST_ACROSS);
    m.down = panel_pixels(m.rows, m.layers, MOST_DOWN);
    return m;
}

static size_t layer_rows(const Mosaic *m, size_t l) {
    return m->layers == 1 ? m->rows : m->config->k[l];
}

/* The matrix of a panel. */
static const real *matrix_of(const Mosaic *m, size_t l, size_t panel) {
    const LayerParams *w = &m->params->layers[l];
    return (m->keys ? w->seq_proj_k : w->seq_proj_v) + panel * layer_rows(m, l) * m->config->n;
}

/* The largest size of an entry that falls on pixel (x,y) of a panel; below 0 where there is no row.
 */
static double pixel(const Mosaic *m, size_t l, size_t panel, size_t x, size_t y) {
    size_t n = m->config->n, rows = layer_rows(m, l);
    size_t row_end = (y + 1) * m->rows / m->down, col_end = (x + 1) * n / m->across;
    const real *matrix = matrix_of(m, l, panel);
    double most = -1;
    for (size_t r = y * m->rows / m->down; r < row_end && r < rows; r++)
        for (size_t c = x * n / m->across; c < col_end; c++) {
            double size = fabs((double)matrix[r * n + c]);
            if (size > most) most = size;
        }
    return most;
}

static void find_most(Mosaic *m) {
    for (size_t l = 0; l < m->layers; l++)
        for (size_t i = 0; i < m->panels * layer_rows(m, l) * m->config->n; i++) {
            double size = fabs((double)matrix_of(m, l, 0)[i]);
            if (size > m->most) m->most = size;
        }
    if (m->most == 0) m->most = 1;
}

static int level_of(const Mosaic *m, double size) {
    double part = size > 0 ? 1 + log10(size / m->most) / DECADES : 0;
    return part > 0 ? (int)(LEVELS * part + 0.5) : 0;
}

static void put_pixels(AtomicFile *file, const Mosaic *m) {
    text_file_put(file, "$pixels << END\n");
    for (size_t y = 0; y < m->layers * (m->down + GAP) - GAP; y++) {
        size_t l = y / (m->down + GAP), row = y % (m->down + GAP);
        for (size_t x = 0; x < m->panels * (m->across + GAP) - GAP; x++) {
            size_t panel = x / (m->across + GAP), col = x % (m->across + GAP);
            double size = row < m->down && col < m->across ? pixel(m, l, panel, col, row) : -1;
            if (size < 0)
                text_file_put(file, "NaN ");
            else
                text_file_put(file, "%d ", level_of(m, size));
        }
        text_file_put(file, "\n");
    }
    text_file_put(file, "END\n");
}

/* "set xtics (...)": a name at the middle of each panel, of many only some. */
static void put_tics(AtomicFile *file, const char *axis, size_t count, size_t pixels) {
    text_file_put(file, "set %stics (", axis);
    for (size_t i = 0; i<count; i += count> 16 ? 4 : 1)
        text_file_put(file, "%s\"%zu\" %.1f", i ? ", " : "", i,
                      (double)(i * (pixels + GAP)) + (double)pixels / 2);
    text_file_put(file, ")\n");
}

static bool draw(bool *drawn, const char *folder, Mosaic *m, Err *err) {
    Picture picture;
    size_t width = m->panels * (m->across + GAP), height = m->layers * (m->down + GAP);
    const char *letter = m->config->tie_kv ? "E = F" : m->keys ? "E" : "F";
    find_most(m);
    if (!picture_open(&picture, folder, m->keys ? "projections-E" : "projections-F",
                      170 + (width < LEAST_ACROSS ? LEAST_ACROSS : width),
                      110 + (height < LEAST_DOWN ? LEAST_DOWN : height), err))
        return false;
    AtomicFile *file = &picture.script;
    picture_put_palette(&picture);
    text_file_put(file,
                  "set title \"|%s|: positions 0 to %zu across, %zu projected rows down, in each "
                  "panel\"\n"
                  "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\n"
                  "set tics scale 0\nunset border\nunset key\nset colorbox noborder\n"
                  "set logscale cb\nset format cb \"10^{%%T}\"\nset cbrange [%.6g:%.6g]\n",
                  letter, m->config->n - 1, m->rows, width - GAP - 1, height - GAP - 1,
                  m->most / pow(10, DECADES), m->most);
    put_tics(file, "x", m->panels, m->across);
    put_tics(file, "y", m->layers, m->down);
    text_file_put(file, "set xlabel \"%s\"\nset ylabel \"%s\"\n",
                  m->panels > 1 ? "head" : "all heads", m->layers > 1 ? "layer" : "all layers");
    if (m->panels == 1) text_file_put(file, "unset xtics\n");
    if (m->layers == 1) text_file_put(file, "unset ytics\n");
    put_pixels(file, m);
    text_file_put(
        file, "plot $pixels matrix using 1:2:(%.9g * 10 ** (%d * ($3 / %d.0 - 1))) with image\n",
        m->most, DECADES, LEVELS);
    return picture_draw(drawn, &picture, err);
}

bool spectrum_draw_projections(bool *drawn, const char *folder, const LoadedModel *model,
                               Err *err) {
    Mosaic keys = mosaic_of(model, true), values = mosaic_of(model, false);
    return draw(drawn, folder, &keys, err) &&
           (keys.config->tie_kv || draw(drawn, folder, &values, err));
}
