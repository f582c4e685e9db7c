/* Shared by the pictures of the report. */
#ifndef REPORT_PICTURES_H
#define REPORT_PICTURES_H

#include <stdlib.h>

#include "picture.h"
#include "report_internal.h"

/* A text that gnuplot takes as it is: quoted, without control characters, at most 100 bytes. */
void report_put_quoted(AtomicFile *script, const char *text);

/* The label where it is short, else the name of the group's first run, without its seed. */
void report_short_label(char *out, size_t size, const Report *report, const char *label,
                        const ReportGroup *group);

/* legends: lines below the picture. */
bool report_open_picture(Picture *out, const char *folder, const char *name, size_t legends,
                         Err *err);

/* Draws it and, where that worked, appends it with its caption. */
bool report_finish_picture(ReportFigures *out, bool *drawn, Picture *picture, size_t section,
                           Err *err, const char *caption, ...)
    __attribute__((format(printf, 6, 7)));

/* Loss against steps, tokens and seconds; first: the section's first axis, NULL for none. */
bool report_draw_curves(ReportFigures *out, bool *drawn, const Report *report, size_t section,
                        const ReportAxis *first, const char *folder, Err *err);

#endif
