/* Pictures of a report: quality against a key and against time. */
#include "report_pictures.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "text_file.h"

enum { WIDTH = 440, HEIGHT = 330, SERIES_MAX = 8 };

/* ---- shared ---- */

void report_put_quoted(AtomicFile *script, const char *text) {
    char quoted[220];
    size_t used = 0;
    quoted[used++] = '\'';
    for (size_t i = 0, size = report_cut(text, 100); i < size; i++) {
        bool is_control = (unsigned char)text[i] < ' ' || text[i] == 127;
        if (text[i] == '\'') quoted[used++] = '\'';
        quoted[used++] = is_control ? ' ' : text[i];
    }
    quoted[used++] = '\'';
    quoted[used] = '\0';
    text_file_put(script, "%s", quoted);
}

void report_short_label(char *out, size_t size, const Report *report, const char *label,
                        const ReportGroup *group) {
    enum { SHORT = 36 };
    const char *name = report->runs[group->runs[0]].name, *end = strstr(name, ",seed=");
    int length = end ? (int)(end - name) : (int)strlen(name);
    if (strlen(label) > SHORT && length < (int)strlen(label))
        snprintf(out, size, "%.*s", length, name);
    else
        snprintf(out, size, "%s", label);
    if (strlen(out) > SHORT && size > SHORT + 4) memcpy(out + report_cut(out, SHORT), "...", 4);
}

bool report_open_picture(Picture *out, const char *folder, const char *name, size_t legends,
                         Err *err) {
    enum { PLAIN = 3, LINE = 16, LEGENDS_MAX = 20 };
    size_t lines = legends > LEGENDS_MAX ? LEGENDS_MAX : legends;
    size_t height = HEIGHT + (lines > PLAIN ? lines - PLAIN : 0) * LINE;
    if (!picture_open(out, folder, name, WIDTH, height, err)) return false;
    text_file_put(&out->script, "set key below center height 1 Left reverse noenhanced maxcols 3\n"
                                "set grid y lc rgb \"#808080\" lw 0.3\n"
                                "set xtics noenhanced\n");
    return true;
}

bool report_finish_picture(ReportFigures *out, bool *drawn, Picture *picture, size_t section,
                           Err *err, const char *caption, ...) {
    if (!picture_draw(drawn, picture, err)) return false;
    if (!*drawn) return true;
    ReportFigure *grown = report_grow(out->items, &out->count, sizeof *grown, err);
    if (!grown) return false;
    out->items = grown;
    ReportFigure *figure = &grown[out->count - 1];
    va_list args;
    figure->section = section;
    snprintf(figure->name, sizeof figure->name, "%s", picture->name);
    va_start(args, caption);
    vsnprintf(figure->caption, sizeof figure->caption, caption, args);
    va_end(args);
    figure->caption[report_cut(figure->caption, sizeof figure->caption)] = '\0';
    return true;
}

/* ---- quality against a key ---- */

static const ReportGroup *cell(const ReportSection *section, const ReportAxis *axis, size_t series,
                               size_t value) {
    size_t g = axis->groups[series * axis->value_count + value];
    return g == REPORT_NONE || section->groups[g].quality.count == 0 ? NULL : &section->groups[g];
}

static bool is_without(const ReportAxis *axis, size_t value) {
    return strcmp(axis->values[value], "-") == 0;
}

/* Where a value stands: at its number, else at its place in the list, where series stand side by
 * side. */
static double place(const ReportAxis *axis, size_t value, size_t series, size_t shown) {
    if (axis->is_numeric) return axis->numbers[value];
    return (double)value + 0.08 * ((double)series - ((double)shown - 1) / 2);
}

/* Without blanks, so that lists beside each other do not touch. */
static void put_tick(Picture *picture, const char *value) {
    char text[120];
    size_t used = 0;
    for (; *value && used + 1 < sizeof text; value++) {
        if (*value != ' ') text[used++] = *value;
    }
    text[used] = '\0';
    text[report_cut(text, sizeof text)] = '\0';
    report_put_quoted(&picture->script, text);
}

static void put_x(Picture *picture, const ReportSection *section, const ReportAxis *axis) {
    double low = INFINITY, high = 0;
    size_t shown = 0;
    text_file_put(&picture->script, "set xlabel '%s' noenhanced\nset ylabel '%s'\nset xtics (",
                  report_leaf(section->keys[axis->key]), report_quality_name(section));
    for (size_t v = 0; v < axis->value_count; v++) {
        double at = place(axis, v, 0, 1);
        if (is_without(axis, v)) continue;
        text_file_put(&picture->script, "%s", shown++ ? ", " : "");
        put_tick(picture, axis->values[v]);
        text_file_put(&picture->script, " %.10g", at);
        low = fmin(low, at);
        high = fmax(high, at);
    }
    text_file_put(&picture->script, ")\n");
    if (!axis->is_numeric)
        text_file_put(&picture->script, "set xrange [-0.5:%.1f]\n", (double)shown - 0.5);
    else if (low > 0 && high / low >= 4)
        text_file_put(&picture->script, "set logscale x 2\nset xrange [%.10g:%.10g]\n", low / 1.15,
                      high * 1.15);
    else
        text_file_put(&picture->script, "set offsets graph 0.04, graph 0.04, 0, 0\n");
}

/* Its values that are on the axis: place, mean, standard deviation. */
static size_t put_series(Picture *picture, const ReportSection *section, const ReportAxis *axis,
                         size_t series, size_t shown) {
    size_t put = 0;
    text_file_put(&picture->script, "$s%zu << EOD\n", series);
    for (size_t v = 0; v < axis->value_count; v++) {
        const ReportGroup *group = cell(section, axis, series, v);
        if (!group || is_without(axis, v)) continue;
        double std = report_quality_shown(section, group->quality.std);
        text_file_put(&picture->script, "%.10g %.6g %.6g\n", place(axis, v, series, shown),
                      report_quality_shown(section, group->quality.mean), isfinite(std) ? std : 0);
        put++;
    }
    text_file_put(&picture->script, "EOD\n");
    return put;
}

/* The mean of a series without the key, which is one level; NaN for one with it. */
static double level_of(const ReportSection *section, const ReportAxis *axis, size_t series) {
    for (size_t v = 0; v < axis->value_count; v++) {
        const ReportGroup *group = cell(section, axis, series, v);
        if (group && is_without(axis, v)) return report_quality_shown(section, group->quality.mean);
    }
    return NAN;
}

static void put_series_title(Picture *picture, const Report *report, const ReportSection *section,
                             const ReportAxis *axis, size_t series) {
    char text[80];
    const size_t *row = axis->groups + series * axis->value_count;
    while (*row == REPORT_NONE) row++;
    report_short_label(text, sizeof text, report, axis->series[series], &section->groups[*row]);
    text_file_put(&picture->script, *text ? " title " : " notitle");
    if (*text) report_put_quoted(&picture->script, text);
}

static void put_series_line(Picture *picture, size_t series, bool is_numeric, size_t points,
                            double level, size_t shown, bool is_first) {
    unsigned rgb = picture_line_colour(series, shown);
    text_file_put(&picture->script, "%s", is_first ? "plot " : ", \\\n  ");
    if (points && is_numeric && points > 1)
        text_file_put(&picture->script,
                      "$s%zu with yerrorlines lc rgb \"#%06X\" lw 1.8 pt 7 ps 0.6", series, rgb);
    else if (points) /* the points of yerrorbars would have a white rim */
        text_file_put(&picture->script,
                      "$s%zu using 1:($2-$3):(0):(2*$3) with vectors heads size graph 0.008,90 lc "
                      "rgb \"#%06X\" lw 1.8 notitle, \\\n  $s%zu with points lc rgb \"#%06X\" pt "
                      "7 ps 0.7",
                      series, rgb, series, rgb);
    else
        text_file_put(&picture->script, "%.6g with lines lc rgb \"#%06X\" lw 1.8 dt 2", level, rgb);
}

static bool draw_axis(ReportFigures *out, bool *drawn, const Report *report, size_t index,
                      const ReportAxis *axis, const char *folder, Err *err) {
    const ReportSection *section = &report->sections[index];
    char name[48], text[40];
    Picture picture;
    size_t shown = axis->series_count < SERIES_MAX ? axis->series_count : SERIES_MAX, put = 0;
    size_t points[SERIES_MAX];
    snprintf(text, sizeof text, "%s", section->keys[axis->key]);
    for (char *p = text; *p; p++) *p = *p == '.' ? '-' : *p;
    snprintf(name, sizeof name, "%.20s-%.26s", section->slug, text);
    if (!report_open_picture(&picture, folder, name, shown, err)) return false;
    put_x(&picture, section, axis);
    for (size_t s = 0; s < shown; s++) points[s] = put_series(&picture, section, axis, s, shown);
    for (size_t s = 0; s < shown; s++) {
        double level = level_of(section, axis, s);
        if (!points[s] && !isfinite(level)) continue;
        put_series_line(&picture, s, axis->is_numeric, points[s], level, shown, put++ == 0);
        put_series_title(&picture, report, section, axis, s);
    }
    text_file_put(&picture.script, "\n");
    if (put == 0) {
        io_atomic_abort(&picture.script);
        return true;
    }
    char more[60] = "";
    if (axis->series_count > shown)
        snprintf(more, sizeof more, "  %zu more combinations are in the table.",
                 axis->series_count - shown);
    return report_finish_picture(out, drawn, &picture, index, err,
                                 "%s: %s against %s%s; mean and standard deviation over "
                                 "seeds.%s",
                                 section->title, report_quality_name(section),
                                 report_leaf(section->keys[axis->key]), axis->with, more);
}

/* ---- quality against time ---- */

/* "a", "b", ... beside its point, and the group behind the letter in the list. */
static void put_time_label(Picture *picture, char *list, size_t size, const ReportSection *section,
                           const ReportGroup *group, size_t index) {
    size_t used = strlen(list);
    char *label = report_group_label(section, group);
    snprintf(list + used, size - used, "%s (%c) %.*s", index ? "," : "", (char)('a' + index),
             label ? (int)report_cut(label, 100) : 0, label ? label : "");
    list[report_cut(list, size)] = '\0';
    free(label);
    text_file_put(&picture->script,
                  "set label '%c' at %.8g, %.8g center offset -1.1, %s textcolor rgb \"#D9622B\"\n",
                  (char)('a' + index), group->seconds.mean,
                  report_quality_shown(section, group->quality.mean),
                  section->is_task ? "0.7" : "-0.7"); /* on the better side, off the dotted line */
}

/* The front in the order of time, with letters as long as there are some. */
static void put_front(Picture *picture, char *list, size_t size, const ReportSection *section) {
    enum { LETTERS = 8 };
    const ReportGroup *front[LETTERS];
    size_t count = 0;
    double last = -INFINITY;
    text_file_put(&picture->script, "$front << EOD\n");
    for (;;) {
        const ReportGroup *next = NULL;
        for (size_t g = 0; g < section->group_count; g++) {
            const ReportGroup *group = &section->groups[g];
            if (group->on_front && group->seconds.mean > last &&
                (!next || group->seconds.mean < next->seconds.mean))
                next = group;
        }
        if (!next) break;
        if (count < LETTERS) front[count++] = next;
        last = next->seconds.mean;
        text_file_put(&picture->script, "%.8g %.8g\n", last,
                      report_quality_shown(section, next->quality.mean));
    }
    text_file_put(&picture->script, "EOD\n");
    for (size_t i = 0; i < count; i++) put_time_label(picture, list, size, section, front[i], i);
}

static bool draw_time(ReportFigures *out, bool *drawn, const Report *report, size_t index,
                      const char *folder, Err *err) {
    const ReportSection *section = &report->sections[index];
    char name[48];
    Picture picture;
    char list[400] = "";
    size_t known = 0;
    for (size_t g = 0; g < section->group_count; g++)
        known += section->groups[g].quality.count && section->groups[g].seconds.count;
    if (known < 2) return true;
    snprintf(name, sizeof name, "%.24s-time", section->slug);
    if (!report_open_picture(&picture, folder, name, 2, err)) return false;
    text_file_put(&picture.script,
                  "set xlabel 'seconds of training'\nset ylabel '%s'\n"
                  "set offsets graph 0.06, graph 0.06, graph 0.08, graph 0.04\n$all << EOD\n",
                  report_quality_name(section));
    for (size_t g = 0; g < section->group_count; g++) {
        const ReportGroup *group = &section->groups[g];
        if (group->quality.count && group->seconds.count)
            text_file_put(&picture.script, "%.8g %.8g\n", group->seconds.mean,
                          report_quality_shown(section, group->quality.mean));
    }
    text_file_put(&picture.script, "EOD\n");
    put_front(&picture, list, sizeof list, section);
    text_file_put(&picture.script,
                  "plot $all with points pt 6 ps 0.8 lw 1.5 lc rgb \"#2A7FD4\" title 'a "
                  "configuration', \\\n  $front with steps dt 3 lw 1.5 lc rgb \"#D9622B\" notitle, "
                  "\\\n  $front with points pt 7 ps 0.9 lc rgb \"#D9622B\" title 'none is both "
                  "better and faster'\n");
    return report_finish_picture(out, drawn, &picture, index, err,
                                 "%s: %s against the time of training; means over seeds.  "
                                 "No configuration is both better and faster than%s.",
                                 section->title, report_quality_name(section), list);
}

/* ---- all ---- */

bool report_draw(ReportFigures *out, bool *drawn, const Report *report, const char *folder,
                 Err *err) {
    bool ok = true;
    *out = (ReportFigures){0};
    *drawn = true;
    for (size_t s = 0; ok && s < report->section_count; s++) {
        size_t count;
        ReportAxis *axes = report_axes(&count, &report->sections[s]);
        ok = axes || err_set(err, ERR_FAILED, "no memory for the pictures");
        for (size_t a = 0; ok && a < count; a++)
            ok = draw_axis(out, drawn, report, s, &axes[a], folder, err);
        ok = ok && draw_time(out, drawn, report, s, folder, err) &&
             report_draw_curves(out, drawn, report, s, count ? axes : NULL, folder, err);
        report_axes_free(axes, count);
    }
    return ok;
}
