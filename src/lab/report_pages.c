/* report.md and report.html: the same tables and pictures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_internal.h"

enum { PICTURE_BYTES = 16 << 20 };

typedef struct Page {
    FILE *out;
    bool is_html;
    const Report *report;
    const ReportFigures *figures;
    const char *folder; /* of the pictures */
    bool drawn;
    bool failed; /* memory ran out */
} Page;

static const char STYLE[] =
    ":root{color-scheme:light dark;--line:#d4d4d8;--soft:#6b6b76;--back:#fff;--text:#1c1c22;"
    "--band:#f5f5f7}\n"
    "@media(prefers-color-scheme:dark){:root{--line:#3a3a44;--soft:#a0a0ad;--back:#16161b;"
    "--text:#e8e8ee;--band:#1f1f26}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--back);color:var(--text);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.25rem;margin-top:2.5rem;"
    "border-bottom:1px solid var(--line)}h3{font-size:1rem;margin-bottom:.4rem}\n"
    "p,li{max-width:60rem;overflow-wrap:anywhere}.soft,figcaption{color:var(--soft)}\n"
    ".pictures{display:grid;gap:1rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,"
    "26rem),1fr))}\n"
    "figure{margin:0;min-width:0}figure svg{display:block;width:100%;height:auto}"
    "figcaption{font-size:.85rem}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;"
    "font-size:.875rem}\n"
    "th,td{padding:.25rem .6rem;text-align:left;white-space:nowrap;border-bottom:1px solid "
    "var(--line)}th{font-weight:600}.n{text-align:right}\n"
    "tbody tr:nth-child(even){background:var(--band)}summary{cursor:pointer;font-weight:600;"
    "margin-top:1rem}\n";

/* ---- texts ---- */

static void put_text(Page *page, const char *text) {
    (page->is_html ? report_put_html : report_put_markdown)(page->out, text);
}

static void put_heading(Page *page, int level, const char *text) {
    if (page->is_html)
        fprintf(page->out, "<h%d>", level);
    else
        fprintf(page->out, "%.*s ", level, "###");
    put_text(page, text);
    if (page->is_html) fprintf(page->out, "</h%d>", level);
    fputs(page->is_html ? "\n" : "\n\n", page->out);
}

static void put_paragraph(Page *page, const char *text) {
    if (page->is_html) fputs("<p class=\"soft\">", page->out);
    put_text(page, text);
    fputs(page->is_html ? "</p>\n" : "\n\n", page->out);
}

static void put_item(Page *page, const char *name, const char *text) {
    fputs(page->is_html ? "<li>" : "- ", page->out);
    put_text(page, name);
    fputs(": ", page->out);
    put_text(page, text);
    fputs(page->is_html ? "</li>\n" : "\n", page->out);
}

static void put_list_border(Page *page, bool is_begin) {
    if (page->is_html)
        fputs(is_begin ? "<ul>\n" : "</ul>\n", page->out);
    else if (!is_begin)
        fputs("\n", page->out);
}

static void put_table(Page *page, ReportTable *table, bool is_headed) {
    if (is_headed && table->title) put_heading(page, 3, table->title);
    page->failed |= table->failed;
    if (!table->failed)
        (page->is_html ? report_write_html : report_write_markdown)(page->out, table);
    report_table_free(table);
}

/* ---- pictures ---- */

/* The grey of axes and texts becomes the page's colour of text, and the drawing's title ours. */
static void put_svg(FILE *out, const char *svg, const char *title) {
    static const char grey[] = "128,", title_end[] = "</title>";
    const char *skip = strstr(svg, "<title>");
    while (*svg) {
        size_t length = strcspn(svg, "(<r");
        fwrite(svg, 1, length, out);
        svg += length;
        if (!*svg) break;
        unsigned r = 0, g = 0, b = 0;
        int used = 0;
        if (svg == skip && strstr(svg, title_end)) {
            fputs("<title>", out);
            report_put_html(out, title);
            svg = strstr(svg, title_end);
        } else if (strncmp(svg, "rgb(", 4) == 0 && strstr(svg, grey) &&
                   sscanf(svg, "rgb(%u, %u, %u)%n", &r, &g, &b, &used) == 3 && used > 0 &&
                   r == 128 && g == 128 && b == 128) {
            fputs("var(--text)", out);
            svg += used;
        } else {
            fputc(*svg++, out);
        }
    }
}

static void put_figure(Page *page, const ReportFigure *figure) {
    char name[64];
    Bytes file = {0};
    snprintf(name, sizeof name, "%s.svg", figure->name);
    if (!page->is_html) {
        fprintf(page->out, "![%s](%s)\n\n", figure->name, name);
        report_put_markdown(page->out, figure->caption);
        fputs("\n\n", page->out);
        return;
    }
    char *path = io_path_join(page->folder, name);
    bool found = path && io_read_file(&file, path, PICTURE_BYTES, NULL) && file.data;
    const char *svg = found ? strstr((const char *)file.data, "<svg") : NULL;
    free(path);
    if (svg) {
        fputs("<figure>", page->out);
        put_svg(page->out, svg, figure->caption);
        fputs("<figcaption>", page->out);
        report_put_html(page->out, figure->caption);
        fputs("</figcaption></figure>\n", page->out);
    }
    io_bytes_free(&file);
}

static void put_figures(Page *page, size_t section) {
    if (page->is_html) fputs("<div class=\"pictures\">\n", page->out);
    for (size_t i = 0; i < page->figures->count; i++) {
        if (page->figures->items[i].section == section) put_figure(page, &page->figures->items[i]);
    }
    if (page->is_html) fputs("</div>\n", page->out);
}

/* ---- a section ---- */

/* A key's value in the runs that it has an effect on, which is one; NULL where there are none.
 * everywhere: it has one in all. */
static char *common_value(bool *everywhere, const Report *report, size_t section, const char *key) {
    const ReportRun *with = NULL;
    *everywhere = true;
    for (size_t i = 0; i < report->run_count; i++) {
        if (report->runs[i].section != section) continue;
        char *value = report_value(report, &report->runs[i], key);
        bool has_effect = value && strcmp(value, "-") != 0;
        free(value);
        *everywhere &= has_effect;
        if (has_effect && !with) with = &report->runs[i];
    }
    return with ? config_key_value(&with->config, key) : NULL;
}

/* What its runs have in common; or those of them that project, whose keys have no effect on the
 * others. */
static void put_common(Page *page, size_t index, bool all) {
    static const char *const keys[] = {
        "model.attention", "model.n",      "model.k",     "model.sharing", "model.projection",
        "model.layers",    "model.width",  "model.heads", "model.ffn",     "train.steps",
        "train.epochs",    "train.tokens", "train.hours", "train.batch",   "optimizer.lr"};
    const ReportSection *section = &page->report->sections[index];
    char text[1000];
    size_t put = 0;
    snprintf(text, sizeof text, all ? "All with" : "Where it has an effect,");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t k = 0, used = strlen(text);
        bool everywhere;
        while (k < section->key_count && strcmp(section->keys[k], keys[i]) != 0) k++;
        if (k < section->key_count) continue;
        char *value = common_value(&everywhere, page->report, index, keys[i]);
        if (value && *value && everywhere == all)
            snprintf(text + used, sizeof text - used, "%s %s=%.60s", put++ ? "," : "",
                     report_leaf(keys[i]), value);
        free(value);
    }
    if (put) put_paragraph(page, text);
}

/* What needs no model. */
static void put_unigram_entropy(Page *page, size_t section) {
    const Report *report = page->report;
    double lowest = INFINITY, highest = -INFINITY;
    char text[200];
    for (size_t i = 0; i < report->run_count; i++) {
        double entropy = report->runs[i].unigram_entropy;
        if (report->runs[i].section != section || isnan(entropy)) continue;
        lowest = fmin(lowest, entropy);
        highest = fmax(highest, entropy);
    }
    if (highest < lowest) return;
    if (highest - lowest < 5e-4)
        snprintf(text, sizeof text,
                 "Guessing held-out tokens by their frequency has a loss of %.3f nats, a "
                 "perplexity of %.1f.",
                 lowest, exp(lowest));
    else
        snprintf(text, sizeof text,
                 "Guessing held-out tokens by their frequency has a loss of %.3f to %.3f nats "
                 "(perplexity %.1f to %.1f), as tokenizers or texts differ.",
                 lowest, highest, exp(lowest), exp(highest));
    put_paragraph(page, text);
}

static void put_runs(Page *page, size_t section) {
    enum { OPEN_MAX = 24 };
    ReportTable table;
    report_runs_table(&table, page->report, section);
    if (page->is_html)
        fprintf(page->out, "<details%s><summary>%zu runs</summary>\n",
                table.rows <= OPEN_MAX ? " open" : "", table.rows);
    put_table(page, &table, !page->is_html);
    if (page->is_html) fputs("</details>\n", page->out);
}

static void put_section(Page *page, size_t index) {
    const ReportSection *section = &page->report->sections[index];
    ReportTable table;
    size_t count;
    put_heading(page, 2, section->title);
    put_common(page, index, true);
    put_common(page, index, false);
    put_unigram_entropy(page, index);
    put_figures(page, index);
    ReportAxis *axes = report_axes(&count, section);
    page->failed |= !axes;
    for (size_t a = 0; axes && a < count; a++) {
        report_axis_table(&table, section, &axes[a]);
        put_table(page, &table, true);
    }
    if (count > 0)
        put_paragraph(page, "Mean, standard deviation over seeds, and the number of seeds; \"2 of "
                            "3\" where the others are not done or have no such number.");
    report_axes_free(axes, count);
    report_groups_table(&table, section);
    put_table(page, &table, true);
    if (section->group_count > 1)
        put_paragraph(page, "\u2605: no other configuration is both better and faster. Seconds are "
                            "of training alone, as measured; they compare where the machine and "
                            "what else ran on it were the same.");
    put_runs(page, index);
}

/* ---- the page ---- */

static void put_head(Page *page, const char *title) {
    if (!page->is_html) return;
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          page->out);
    report_put_html(page->out, title);
    fprintf(page->out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", STYLE);
}

static void put_summary(Page *page) {
    const Report *report = page->report;
    size_t counts[RUN_DONE + 1] = {0}, repeats = 0;
    char text[500];
    for (size_t i = 0; i < report->run_count; i++) {
        counts[report->runs[i].state]++;
        repeats += report->runs[i].repeats != REPORT_NONE;
    }
    snprintf(text, sizeof text, "%zu run%s: %zu done", report->run_count,
             report->run_count == 1 ? "" : "s", counts[RUN_DONE]);
    for (int state = RUN_RUNNING; state < RUN_DONE; state++) {
        size_t used = strlen(text);
        if (counts[state])
            snprintf(text + used, sizeof text - used, ", %zu %s", counts[state],
                     sweep_state_name((RunState)state));
    }
    size_t used = strlen(text);
    if (repeats)
        snprintf(text + used, sizeof text - used,
                 "; %zu repeat%s the configuration and seed of another and count%s once with it",
                 repeats, repeats == 1 ? "s" : "", repeats == 1 ? "s" : "");
    used = strlen(text);
    snprintf(text + used, sizeof text - used,
             ". Means are over runs that are done.%s The numbers are in runs.csv, groups.csv and "
             "curves.csv.",
             page->drawn ? ""
                         : " There are no pictures, because gnuplot was missing or failed (Debian: "
                           "apt-get install gnuplot-nox).");
    put_paragraph(page, text);
}

/* Lines of metrics that are none, and what was left out. */
static void put_faults(Page *page) {
    const Report *report = page->report;
    bool begun = false;
    char text[80];
    for (size_t i = 0; i < report->run_count + report->fault_count; i++) {
        const ReportRun *run = i < report->run_count ? &report->runs[i] : NULL;
        if (run && run->damaged == 0) continue;
        if (!begun) put_heading(page, 2, "Left out");
        if (!begun) put_list_border(page, true);
        begun = true;
        if (run) snprintf(text, sizeof text, "%zu damaged lines of metrics.jsonl", run->damaged);
        const ReportFault *fault = run ? NULL : &report->faults[i - report->run_count];
        put_item(page, run ? run->name : fault->path, run ? text : fault->text);
    }
    if (begun) put_list_border(page, false);
}

static bool write_page(const Report *report, const ReportFigures *figures, bool drawn,
                       const char *folder, bool is_html, Err *err) {
    AtomicFile file;
    char title[300] = "Runs of";
    if (!report_begin_file(&file, folder, is_html ? "report.html" : "report.md", err)) return false;
    Page page = {file.file, is_html, report, figures, folder, drawn, false};
    for (size_t i = 0; i < report->folder_count; i++) {
        size_t used = strlen(title);
        snprintf(title + used, sizeof title - used, "%s %s", i ? "," : "", report->folders[i]);
    }
    title[report_cut(title, sizeof title)] = '\0';
    put_head(&page, title);
    put_heading(&page, 1, title);
    put_summary(&page);
    for (size_t s = 0; s < report->section_count; s++) put_section(&page, s);
    put_faults(&page);
    if (is_html) fputs("</body>\n</html>\n", page.out);
    if (!page.failed) return report_end_file(&file, err);
    io_atomic_abort(&file);
    return err_set(err, ERR_FAILED, "no memory for the tables of the report");
}

bool report_write_pages(const Report *report, const ReportFigures *figures, bool drawn,
                        const char *folder, Err *err) {
    return write_page(report, figures, drawn, folder, false, err) &&
           write_page(report, figures, drawn, folder, true, err);
}
