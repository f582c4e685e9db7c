#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gnuplot.h"
#include "log.h"
#include "text_file.h"

bool picture_open(Picture *out, const char *folder, const char *name, size_t width, size_t height,
                  Err *err) {
    *out = (Picture){.folder = folder};
    snprintf(out->name, sizeof out->name, "%s", name);
    if (!text_file_open(&out->script, err, folder, "%s.gp", name)) return false;
    text_file_put(&out->script,
                  "# gnuplot %s.gp draws %s.svg\n"
                  "set terminal svg size %zu,%zu dynamic font \"sans-serif,13\"\n"
                  "set output \"%s.svg\"\n"
                  "set border 3 lc rgb \"#808080\"\n"
                  "set tics nomirror textcolor rgb \"#808080\"\n"
                  "set key textcolor rgb \"#808080\"\n"
                  "set title textcolor rgb \"#808080\"\n"
                  "set xlabel textcolor rgb \"#808080\"\n"
                  "set ylabel textcolor rgb \"#808080\"\n",
                  name, name, width, height, name);
    return true;
}

/* By the script, which is there.  What it drew in part is removed. */
static bool draw(const Picture *picture, const char *script, Err *err) {
    char name[64];
    snprintf(name, sizeof name, "%s.svg", picture->name);
    char *path = io_path_join(picture->folder, name);
    if (!path) return err_set(err, ERR_FAILED, "out of memory for a path");
    bool ok = gnuplot_run(picture->folder, script, err) == GNUPLOT_DONE;
    if (ok && !gnuplot_svg_is_whole(path))
        ok = err_set(err, ERR_FAILED,
                     "gnuplot %s/%s: the picture it drew is not whole; is the disk full?",
                     picture->folder, script);
    if (!ok) unlink(path);
    free(path);
    return ok;
}

bool picture_draw(bool *drawn, Picture *picture, Err *err) {
    char script[64];
    Err fault = {0};
    snprintf(script, sizeof script, "%s.gp", picture->name);
    if (!io_atomic_commit(&picture->script, err)) return false;
    if (!*drawn || draw(picture, script, &fault)) return true;
    *drawn = false;
    log_warn("no pictures: %s; the tables and the scripts for gnuplot are in %s", fault.msg,
             picture->folder);
    return true;
}

/* Between the colours of a list, by linear steps. */
static unsigned between(const unsigned *colours, size_t count, double part) {
    double at = part * (double)(count - 1);
    size_t i = (size_t)at;
    if (i + 1 >= count) return colours[count - 1];
    unsigned out = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double a = (double)(colours[i] >> shift & 0xFF),
               b = (double)(colours[i + 1] >> shift & 0xFF);
        out |= (unsigned)(a + (b - a) * (at - (double)i) + 0.5) << shift;
    }
    return out;
}

unsigned picture_line_colour(size_t i, size_t count) {
    static const unsigned hues[] = {0x7A5CD6, 0x2A7FD4, 0x2F9E9E, 0x3FA34D, 0xD9A02B, 0xD9622B};
    return between(hues, sizeof hues / sizeof *hues,
                   count > 1 ? (double)i / (double)(count - 1) : 0.2);
}

/* Lightness rises along it, so that it can also be read without colours. */
static const unsigned HEAT[] = {0x2B1B52, 0x3B4F8C, 0x2B818E, 0x3FB27A, 0xA9D64B, 0xFCE94F};
enum { HEAT_COUNT = sizeof HEAT / sizeof *HEAT };

void picture_put_palette(Picture *picture) {
    text_file_put(&picture->script, "set palette defined (");
    for (size_t i = 0; i < HEAT_COUNT; i++)
        text_file_put(&picture->script, "%s%zu \"#%06X\"", i ? ", " : "", i, HEAT[i]);
    text_file_put(&picture->script, ")\n");
}

unsigned picture_text_colour(double part) {
    return part < 0.55 ? 0xFFFFFF : 0x000000;
}
