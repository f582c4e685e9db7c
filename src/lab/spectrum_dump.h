/* The matrices of one sequence and their singular values as NumPy files, to check them by other
 * means: scripts/compare_spectrum.py. */
#ifndef SPECTRUM_DUMP_H
#define SPECTRUM_DUMP_H

#include <stdbool.h>

#include "err.h"
#include "head_spectra.h"

/* Of the sequence that went through head_spectra_forward last, in an existing folder:
 *   layer<l>.head<h>.p.npy           (n,keys) P or Pbar
 *   layer<l>.head<h>.p_values.npy    (1,keys) its singular values
 *   layer<l>.head<h>.pf_values.npy   (1,keys) those of Pbar F, where there is an F
 *   layer<l>.head<h>.f.npy           (keys,n) F, written for every head that has one of its own,
 *                                    else for head 0 alone */
bool spectrum_dump(const char *folder, const HeadSpectra *spectra, Err *err);

#endif
