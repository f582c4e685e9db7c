/* Pictures of a report: loss against steps, tokens and seconds. */
#include <math.h>
#include <string.h>

#include "picture.h"
#include "report_pictures.h"
#include "text_file.h"

enum { BINS = 120, CROWD = 12 };

typedef enum XKind { X_STEPS, X_TOKENS, X_SECONDS } XKind;

/* What the curves are drawn against. */
typedef struct X {
    XKind kind;
    double unit; /* values are shown as multiples of it */
    const char *unit_name;
} X;

static double x_of(const ReportPoint *point, X x) {
    double value = x.kind == X_STEPS    ? point->step
                   : x.kind == X_TOKENS ? point->tokens
                                        : point->seconds;
    return value / x.unit;
}

/* ---- data of a run ---- */

/* Training losses as means of neighbouring lines. */
static size_t put_training(Picture *picture, const ReportRun *run, X x, size_t index) {
    size_t width = (run->count + BINS - 1) / BINS, put = 0;
    text_file_put(&picture->script, "$t%zu << EOD\n", index);
    for (size_t begin = 0; begin < run->count; begin += width) {
        double sum = 0, at = NAN;
        size_t count = 0;
        for (size_t i = begin; i < run->count && i < begin + width; i++) {
            if (!isfinite(run->points[i].loss)) continue;
            sum += run->points[i].loss;
            at = x_of(&run->points[i], x);
            count++;
        }
        if (count == 0 || !isfinite(at)) continue;
        text_file_put(&picture->script, "%.8g %.6g\n", at, sum / (double)count);
        put++;
    }
    text_file_put(&picture->script, "EOD\n");
    return put;
}

static size_t count_evaluations(const ReportRun *run) {
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++) count += isfinite(run->points[i].valid_loss);
    return count;
}

static size_t put_evaluations(Picture *picture, const ReportRun *run, X x, size_t index) {
    size_t put = 0;
    text_file_put(&picture->script, "$v%zu << EOD\n", index);
    for (size_t i = 0; i < run->count; i++) {
        const ReportPoint *point = &run->points[i];
        if (!isfinite(point->valid_loss) || !isfinite(x_of(point, x))) continue;
        text_file_put(&picture->script, "%.8g %.6g\n", x_of(point, x), point->valid_loss);
        put++;
    }
    text_file_put(&picture->script, "EOD\n");
    return put;
}

/* ---- colours ---- */

/* A colour for each group, or, where they are many, for each value of the first axis. */
typedef struct Colours {
    const Report *report;
    const ReportSection *section;
    const ReportAxis *axis; /* NULL: by group */
    size_t count;
} Colours;

static size_t colour_of(const Colours *c, size_t group) {
    size_t v = 0;
    if (!c->axis) return group;
    while (strcmp(c->axis->values[v], c->section->groups[group].values[c->axis->key]) != 0) v++;
    return v;
}

static void put_colour_title(Picture *picture, const Colours *c, size_t colour) {
    char text[80];
    if (c->axis) {
        report_name_value(text, sizeof text, c->section->keys[c->axis->key],
                          c->axis->values[colour]);
    } else {
        const ReportGroup *group = &c->section->groups[colour];
        char *label = report_group_label(c->section, group);
        report_short_label(text, sizeof text, c->report, label ? label : "", group);
        free(label);
    }
    report_put_quoted(&picture->script, text);
}

/* ---- a picture ---- */

/* In units that make the numbers short. */
static X make_x(XKind kind, const Report *report, size_t section) {
    double largest = 0;
    X x = {kind, 1, ""};
    for (size_t i = 0; i < report->run_count; i++) {
        const ReportRun *run = &report->runs[i];
        if (run->section == section && run->count)
            largest = fmax(largest, x_of(&run->points[run->count - 1], x));
    }
    if (largest >= 1e10) return (X){kind, 1e9, "billions of "};
    if (largest >= 1e7) return (X){kind, 1e6, "millions of "};
    if (largest >= 2e4) return (X){kind, 1e3, "thousands of "};
    return x;
}

static void put_axes(Picture *picture, const ReportSection *section, X x) {
    static const char *const names[] = {"updates", "tokens", "seconds of training"};
    text_file_put(&picture->script,
                  "set xlabel '%s%s'\nset ylabel 'loss (nats a %s)'\nset xrange [0:*]\n",
                  x.unit_name, names[x.kind], section->is_task ? "row" : "masked token");
}

/* One line of the plot command; a title is only given to the first of a colour. */
static void put_line(Picture *picture, const char *data, size_t index, const Colours *c,
                     size_t colour, bool is_held_out, bool is_titled, size_t *put) {
    unsigned rgb = picture_line_colour(colour, c->count);
    text_file_put(&picture->script, "%s$%s%zu with %s", *put ? ", \\\n  " : "plot ", data, index,
                  is_held_out ? "linespoints" : "lines");
    if (is_held_out)
        text_file_put(&picture->script, " lc rgb \"#%06X\" lw 2 pt 7 ps 0.4", rgb);
    else
        text_file_put(&picture->script, " lc rgb \"#90%06X\" lw 1", rgb);
    if (is_titled) {
        text_file_put(&picture->script, " title ");
        put_colour_title(picture, c, colour);
    } else {
        text_file_put(&picture->script, " notitle");
    }
    (*put)++;
}

/* Which of a run's two lines are drawn. */
typedef struct Lines {
    size_t training, held_out; /* their points */
} Lines;

static bool is_crowded(const Report *report, size_t section) {
    size_t runs = 0, evaluated = 0;
    for (size_t i = 0; i < report->run_count; i++) {
        if (report->runs[i].section != section || report->runs[i].count == 0) continue;
        runs++;
        evaluated += count_evaluations(&report->runs[i]) >= 2;
    }
    return runs > CROWD && evaluated == runs;
}

static void put_plot(Picture *picture, const Report *report, size_t section, const Lines *lines,
                     const Colours *colours) {
    size_t put = 0;
    for (size_t colour = 0; colour < colours->count; colour++) {
        bool is_titled = colours->count > 1;
        for (size_t i = 0; i < report->run_count; i++) {
            const ReportRun *run = &report->runs[i];
            if (run->section != section || colour_of(colours, run->group) != colour) continue;
            if (lines[i].training)
                put_line(picture, "t", i, colours, colour, false, is_titled && !lines[i].held_out,
                         &put);
            if (lines[i].held_out)
                put_line(picture, "v", i, colours, colour, true, is_titled, &put);
            if (lines[i].training || lines[i].held_out) is_titled = false;
        }
    }
    text_file_put(&picture->script, "\n");
}

static bool draw(ReportFigures *out, bool *drawn, const Report *report, size_t index, XKind kind,
                 const Colours *colours, const char *folder, Err *err) {
    static const char *const names[] = {"steps", "tokens", "seconds"};
    const ReportSection *section = &report->sections[index];
    char name[48];
    Picture picture;
    bool crowded = is_crowded(report, index);
    const X x = make_x(kind, report, index);
    size_t points = 0;
    snprintf(name, sizeof name, "%.24s-loss-%s", section->slug, names[kind]);
    Lines *lines = calloc(report->run_count + 1, sizeof *lines);
    if (!lines) return err_set(err, ERR_FAILED, "no memory for a picture");
    bool ok = report_open_picture(&picture, folder, name, colours->count, err);
    for (size_t i = 0; ok && i < report->run_count; i++) {
        if (report->runs[i].section != index || report->runs[i].count == 0) continue;
        if (!crowded) lines[i].training = put_training(&picture, &report->runs[i], x, i);
        lines[i].held_out = put_evaluations(&picture, &report->runs[i], x, i);
        points += lines[i].training + lines[i].held_out;
    }
    if (ok && points == 0) io_atomic_abort(&picture.script);
    if (ok && points > 0) {
        put_axes(&picture, section, x);
        put_plot(&picture, report, index, lines, colours);
        ok = report_finish_picture(out, drawn, &picture, index, err, "%s: loss against %s.  %s",
                                   section->title, names[kind],
                                   crowded ? "Held-out loss of every run."
                                           : "Thin: training; thick with points: held-out.");
    }
    free(lines);
    return ok;
}

bool report_draw_curves(ReportFigures *out, bool *drawn, const Report *report, size_t index,
                        const ReportAxis *first, const char *folder, Err *err) {
    enum { COLOURS_MAX = 8 };
    const ReportSection *section = &report->sections[index];
    Colours colours = {.report = report, .section = section, .count = section->group_count};
    if (section->group_count > COLOURS_MAX && first) {
        colours.axis = first;
        colours.count = first->value_count;
    }
    return draw(out, drawn, report, index, X_STEPS, &colours, folder, err) &&
           draw(out, drawn, report, index, X_TOKENS, &colours, folder, err) &&
           draw(out, drawn, report, index, X_SECONDS, &colours, folder, err);
}
