/* Pictures as SVG files, by gnuplot from a script that stays beside the picture.  They are for
 * light and dark pages: no background, middle grey for text and lines. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "io.h"

typedef struct Picture {
    AtomicFile script; /* commands are added with text_file_put */
    const char *folder;
    char name[48];
} Picture;

/* Begins folder/name.gp, which draws folder/name.svg of that size in pixels.  folder is borrowed.
 */
bool picture_open(Picture *out, const char *folder, const char *name, size_t width, size_t height,
                  Err *err);

/* Finishes the script and runs gnuplot.  Where that is missing or fails, the log says so once and
 * *drawn becomes false, which also keeps later pictures from trying; an error is only a script that
 * cannot be written. */
bool picture_draw(bool *drawn, Picture *picture, Err *err);

/* 0xRRGGBB of line i of count, in an order of hues. */
unsigned picture_line_colour(size_t i, size_t count);

/* Sets the palette of heat maps, from dark to bright; and the colour of text on a cell whose value
 * is at `part` (0 to 1) of the palette. */
void picture_put_palette(Picture *picture);
unsigned picture_text_colour(double part);

#endif
