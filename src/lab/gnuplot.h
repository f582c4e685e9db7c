/* Pictures by the program gnuplot, where it is installed. */
#ifndef GNUPLOT_H
#define GNUPLOT_H

#include "err.h"

typedef enum GnuplotResult {
    GNUPLOT_DONE,
    GNUPLOT_MISSING, /* no such program */
    GNUPLOT_FAILED   /* err has what it said */
} GnuplotResult;

/* Runs gnuplot on the file `script` of `folder`, in that folder; what it prints goes nowhere but
 * into the message of a failure.  err is set unless all went well. */
GnuplotResult gnuplot_run(const char *folder, const char *script, Err *err);

/* Is the SVG file there, to its end?  On a full disk gnuplot stops in the middle and reports no
 * fault. */
bool gnuplot_svg_is_whole(const char *path);

#endif
