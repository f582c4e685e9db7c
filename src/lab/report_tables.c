/* Tables of a report: texts in rows, as Markdown and HTML; and the CSV files. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "report_internal.h"
#include "utf8.h"

size_t report_cut(const char *text, size_t most) {
    size_t size = strnlen(text, most), at = size;
    while (at > 0 && size - at < UTF8_MAX && ((unsigned char)text[at - 1] & 0xC0) == 0x80) at--;
    if (at == 0 || (unsigned char)text[at - 1] < 0xC0) return size;
    return utf8_length((const unsigned char *)text + at - 1, size - at + 1) ? size : at - 1;
}

/* ---- tables ---- */

void report_table_begin(ReportTable *out, const char *title, size_t texts) {
    *out = (ReportTable){.title = strdup(title), .texts = texts};
    out->failed = !out->title;
}

void report_table_put(ReportTable *table, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text[report_cut(text, sizeof text)] = '\0';
    char **grown = report_grow(table->cells, &table->cell_count, sizeof *grown, NULL);
    if (grown) table->cells = grown;
    if (grown) grown[table->cell_count - 1] = strdup(text);
    table->failed |= !grown || !grown[table->cell_count - 1];
    if (table->columns) table->rows = table->cell_count / table->columns - 1;
}

void report_table_put_number(ReportTable *table, double value, const char *format) {
    char text[64];
    snprintf(text, sizeof text, "%s", "-");
    if (isfinite(value)) snprintf(text, sizeof text, format, value);
    report_table_put(table, "%s", text);
}

void report_table_end_heads(ReportTable *table) {
    table->columns = table->cell_count;
}

void report_table_free(ReportTable *table) {
    for (size_t i = 0; i < table->cell_count; i++) free(table->cells[i]);
    free(table->cells);
    free(table->title);
    *table = (ReportTable){0};
}

void report_put_markdown(FILE *out, const char *text) {
    for (; *text; text++) {
        if (strchr("|*_<>`\\", *text)) fputc('\\', out);
        fputc(*text, out);
    }
}

void report_write_markdown(FILE *out, const ReportTable *table) {
    for (size_t row = 0; row <= table->rows; row++) {
        fputs("|", out);
        for (size_t c = 0; c < table->columns; c++) {
            fputs(" ", out);
            report_put_markdown(out, table->cells[row * table->columns + c]);
            fputs(" |", out);
        }
        fputs("\n", out);
        if (row > 0) continue;
        fputs("|", out);
        for (size_t c = 0; c < table->columns; c++) fputs(c < table->texts ? "---|" : "---:|", out);
        fputs("\n", out);
    }
    fputs("\n", out);
}

void report_put_html(FILE *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*text, out);
        }
    }
}

static void write_html_row(FILE *out, const ReportTable *table, size_t row) {
    const char *tag = row ? "td" : "th";
    fputs("<tr>", out);
    for (size_t c = 0; c < table->columns; c++) {
        fprintf(out, "<%s%s>", tag, c < table->texts ? "" : " class=\"n\"");
        report_put_html(out, table->cells[row * table->columns + c]);
        fprintf(out, "</%s>", tag);
    }
    fputs("</tr>\n", out);
}

void report_write_html(FILE *out, const ReportTable *table) {
    fputs("<div class=\"scroll\"><table>\n<thead>", out);
    write_html_row(out, table, 0);
    fputs("</thead>\n<tbody>\n", out);
    for (size_t row = 1; row <= table->rows; row++) write_html_row(out, table, row);
    fputs("</tbody></table></div>\n", out);
}

/* ---- numbers as they are shown ---- */

const char *report_quality_name(const ReportSection *section) {
    if (!section->is_task) return "perplexity";
    return section->metric == METRIC_F1    ? "F1 (%)"
           : section->metric == METRIC_MCC ? "MCC (%)"
                                           : "accuracy (%)";
}

double report_quality_shown(const ReportSection *section, double quality) {
    return section->is_task ? 100 * quality : quality;
}

/* Enough digits for differences of a percent to be seen. */
static int digits_of(double value) {
    return fabs(value) >= 1000 ? 0 : fabs(value) >= 100 ? 1 : 2;
}

void report_show_stat(char *out, size_t size, const ReportSection *section,
                      const ReportGroup *group) {
    const ReportStat *stat = &group->quality;
    double mean = report_quality_shown(section, stat->mean);
    double std = report_quality_shown(section, stat->std);
    int digits = digits_of(mean);
    if (stat->count == 0)
        snprintf(out, size, "- (0 of %zu)", group->run_count);
    else if (stat->count == 1)
        snprintf(out, size, "%.*f", digits, mean);
    else
        snprintf(out, size, "%.*f \u00b1 %.*f", digits, mean, digits, std);
    size_t used = strlen(out);
    if (stat->count && stat->count < group->run_count)
        snprintf(out + used, size - used, " (%zu of %zu)", stat->count, group->run_count);
    else if (stat->count)
        snprintf(out + used, size - used, " (%zu)", stat->count);
}

/* "-" for a mean of nothing, "12.3 ± 0.4" else. */
static void put_stat(ReportTable *table, const ReportStat *stat, double factor, int digits) {
    if (stat->count == 0)
        report_table_put(table, "-");
    else if (stat->count == 1)
        report_table_put(table, "%.*f", digits, factor * stat->mean);
    else
        report_table_put(table, "%.*f \u00b1 %.*f", digits, factor * stat->mean, digits,
                         factor * stat->std);
}

/* ---- the tables of a section ---- */

/* "3", "2 of 3" where not all count; "4 (2 pretrainings)" where seeds of fine-tunings stand beside
 * those of their pretrainings. */
static void put_seeds(ReportTable *table, const ReportGroup *group) {
    char text[80];
    size_t used = 0;
    if (group->quality.count < group->run_count)
        used = (size_t)snprintf(text, sizeof text, "%zu of ", group->quality.count);
    used += (size_t)snprintf(text + used, sizeof text - used, "%zu", group->run_count);
    if (group->pretrainings > 1)
        snprintf(text + used, sizeof text - used, " (%zu pretrainings)", group->pretrainings);
    report_table_put(table, "%s", text);
}

void report_groups_table(ReportTable *out, const ReportSection *section) {
    report_table_begin(out, "Means over seeds", section->key_count);
    for (size_t k = 0; k < section->key_count; k++)
        report_table_put(out, "%s", report_leaf(section->keys[k]));
    report_table_put(out, "%s", report_quality_name(section));
    report_table_put(out, "seeds");
    report_table_put(out, "held-out loss");
    if (section->is_task) {
        report_table_put(out, "F1 (%%)");
        report_table_put(out, "MCC (%%)");
    }
    report_table_put(out, "seconds");
    report_table_put(out, "tokens/s");
    report_table_put(out, "front");
    report_table_end_heads(out);
    for (size_t g = 0; g < section->group_count; g++) {
        const ReportGroup *group = &section->groups[g];
        double factor = section->is_task ? 100 : 1;
        for (size_t k = 0; k < section->key_count; k++)
            report_table_put(out, "%s", group->values[k]);
        put_stat(out, &group->quality, factor, digits_of(factor * group->quality.mean));
        put_seeds(out, group);
        put_stat(out, &group->loss, 1, 3);
        if (section->is_task) {
            put_stat(out, &group->f1, 100, 2);
            put_stat(out, &group->mcc, 100, 2);
        }
        put_stat(out, &group->seconds, 1, 1);
        report_table_put_number(out, group->tokens_per_s.mean, "%.0f");
        report_table_put(out, "%s", group->on_front ? "\u2605" : "");
    }
}

void report_axis_table(ReportTable *out, const ReportSection *section, const ReportAxis *axis) {
    char title[400], text[80];
    const char *leaf = report_leaf(section->keys[axis->key]);
    snprintf(title, sizeof title, "%s against %s%s", report_quality_name(section), leaf,
             axis->with);
    *title = (char)toupper((unsigned char)*title);
    bool is_named = axis->series_count > 1 || *axis->series[0];
    report_table_begin(out, title, is_named);
    if (is_named) report_table_put(out, "%s", "");
    for (size_t v = 0; v < axis->value_count; v++) {
        report_name_value(text, sizeof text, section->keys[axis->key], axis->values[v]);
        report_table_put(out, "%s", text);
    }
    report_table_end_heads(out);
    for (size_t s = 0; s < axis->series_count; s++) {
        if (is_named)
            report_table_put(out, "%s", *axis->series[s] ? axis->series[s] : "the others");
        for (size_t v = 0; v < axis->value_count; v++) {
            size_t g = axis->groups[s * axis->value_count + v];
            *text = '\0';
            if (g != REPORT_NONE) report_show_stat(text, sizeof text, section, &section->groups[g]);
            report_table_put(out, "%s", text);
        }
    }
}

void report_runs_table(ReportTable *out, const Report *report, size_t index) {
    const ReportSection *section = &report->sections[index];
    report_table_begin(out, "Runs", 2);
    report_table_put(out, "run");
    report_table_put(out, "state");
    report_table_put(out, "seed");
    if (section->is_task) report_table_put(out, "pretraining's seed");
    report_table_put(out, "steps");
    report_table_put(out, "tokens");
    report_table_put(out, "seconds");
    report_table_put(out, "training loss");
    report_table_put(out, "held-out loss");
    report_table_put(out, "%s", report_quality_name(section));
    report_table_put(out, "%s", section->is_task ? "majority (%)" : "best perplexity");
    report_table_end_heads(out);
    for (size_t i = 0; i < report->run_count; i++) {
        const ReportRun *run = &report->runs[i];
        if (run->section != index) continue;
        report_table_put(out, "%s", run->name);
        report_table_put(out, "%s", sweep_state_name(run->state));
        report_table_put(out, "%llu", (unsigned long long)run->seed);
        const ReportRun *from = report_pretraining(report, run);
        if (section->is_task && from)
            report_table_put(out, "%llu", (unsigned long long)from->seed);
        else if (section->is_task)
            report_table_put(out, "-");
        report_table_put_number(out, run->steps, "%.0f");
        report_table_put_number(out, run->tokens, "%.0f");
        report_table_put_number(out, run->seconds, "%.1f");
        report_table_put_number(out, run->loss, "%.4f");
        report_table_put_number(out, run->score.loss, "%.4f");
        report_table_put_number(out, report_quality_shown(section, report_quality(run, section)),
                                "%.2f");
        report_table_put_number(out, section->is_task ? 100 * run->majority : run->best_ppl,
                                "%.2f");
    }
}
