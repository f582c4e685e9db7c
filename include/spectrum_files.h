/* A spectrum as tables and pictures in a folder. */
#ifndef SPECTRUM_FILES_H
#define SPECTRUM_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "loaded_model.h"
#include "spectrum.h"

/* For each kind of matrix (spectrum_map_name), shares being cumulative:
 *   curves-<kind>.csv    layer,head,index,singular_value,share,share_std   index from 1
 *   heatmap-<kind>.csv   layer,head,index,share,share_std                  at `index` alone
 * index: 1..n. */
bool spectrum_write_tables(const char *folder, const Spectrum *spectrum, size_t index, Err *err);

/* curves-<kind>.svg and heatmap-<kind>.svg, and beside each the gnuplot script it is drawn by.  For
 * light and dark pages: the background is transparent.  Where gnuplot is missing or fails the log
 * says so, and *drawn is false; an error is only a file that cannot be written. */
bool spectrum_draw(bool *drawn, const char *folder, const Spectrum *spectrum, size_t index,
                   Err *err);

/* projections-E.svg and, unless E = F, projections-F.svg: the size of the entries of every E and F,
 * large matrices in blocks; and the scripts.  The model must have them (spectrum_has_matrices). */
bool spectrum_draw_projections(bool *drawn, const char *folder, const LoadedModel *model, Err *err);

#endif
