/* Shared by the files of the report. */
#ifndef REPORT_INTERNAL_H
#define REPORT_INTERNAL_H

#include <stdio.h>

#include "io.h"
#include "report.h"

/* Appends zeroed room for one more element of that size; NULL, with err set, without memory. */
void *report_grow(void *list, size_t *count, size_t size, Err *err);

/* Names with numbers in them in the order of the numbers: k=16 before k=128. */
int report_compare_names(const char *a, const char *b);

/* "dir/name"; malloc'd. */
char *report_path(const char *dir, const char *name, Err *err);

/* ---- reading ---- */

/* Finds the runs in and below the folder, whose names begin with the prefix, "" for none.  Faults
 * are appended to the report. */
bool report_scan(Report *report, const char *folder, const char *prefix, Err *err);
bool report_add_fault(Report *report, const char *path, const char *text, Err *err);

/* Appends the run of a folder, or those of the seeds of a fine-tuning. */
bool report_read_run(Report *report, const char *dir, const char *name, Err *err);

/* metrics.jsonl of the folder, if it is there. */
bool report_read_metrics(ReportRun *run, const char *dir, Err *err);
void report_run_free(ReportRun *run);

/* ---- grouping ---- */

bool report_make_sections(Report *report, Err *err);
void report_section_free(ReportSection *section);

/* A fine-tuning that failed before it read its checkpoint does not say what model that has. */
void report_take_models(Report *report);

/* The pretraining of this report that a fine-tuning begins with, or NULL. */
const ReportRun *report_pretraining(const Report *report, const ReportRun *run);

/* The keys that differ between the runs of a section. */
bool report_find_keys(Report *report, size_t section, Err *err);

/* A key's value as it counts, "-" where it has no effect; malloc'd.  That of a checkpoint which a
 * pretraining of this report made is a name of its group. */
char *report_value(const Report *report, const ReportRun *run, const char *key);

/* The last part of a key: "k" of "model.k". */
const char *report_leaf(const char *key);

/* "k=16"; "no k" where the key has no effect. */
void report_name_value(char *out, size_t size, const char *key, const char *value);

/* Order of two values of a key: numbers by size, "-" last. */
int report_order_values(const char *key, const char *a, const char *b);

/* "k=16", behind a comma where `put` values are there already, unless it says nothing; the number
 * of values put then. */
size_t report_put_value(FILE *out, const ReportSection *section, const ReportGroup *group,
                        size_t key, size_t put);

/* "k=16, sharing=kv" of the keys that say something; malloc'd. */
char *report_group_label(const ReportSection *section, const ReportGroup *group);

/* Perplexity, or the metric of a task. */
double report_quality(const ReportRun *run, const ReportSection *section);

/* ---- writing ---- */

/* A file of the folder for the report's fprintf and fputs: what they failed to write is an error
 * of its end. */
bool report_begin_file(AtomicFile *out, const char *folder, const char *name, Err *err);
bool report_end_file(AtomicFile *file, Err *err);

/* A table for people, whose cells are texts. */
typedef struct ReportTable {
    char *title;
    char **cells; /* (rows + 1) x columns, the heads first */
    size_t columns, rows;
    size_t texts; /* so many columns of the beginning are texts, the others numbers */
    size_t cell_count;
    bool failed; /* memory ran out */
} ReportTable;

void report_table_begin(ReportTable *out, const char *title, size_t texts);
void report_table_put(ReportTable *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void report_table_end_heads(ReportTable *table); /* columns are as many as were put */
void report_table_free(ReportTable *table);
void report_table_put_number(ReportTable *table, double value, const char *format);
void report_write_markdown(FILE *out, const ReportTable *table);
void report_write_html(FILE *out, const ReportTable *table);

/* Length of the text up to `most` bytes, without a character that is cut apart there or at the
 * text's own end. */
size_t report_cut(const char *text, size_t most);

/* Text of Markdown, of HTML, and of a cell of a CSV. */
void report_put_markdown(FILE *out, const char *text);
void report_put_html(FILE *out, const char *text);
void report_put_csv(FILE *out, const char *text);

/* The tables of a section: its groups, an axis, its runs. */
void report_groups_table(ReportTable *out, const ReportSection *section);
void report_axis_table(ReportTable *out, const ReportSection *section, const ReportAxis *axis);
void report_runs_table(ReportTable *out, const Report *report, size_t section);

/* "perplexity", "accuracy (%)"; and a value as it is shown. */
const char *report_quality_name(const ReportSection *section);
double report_quality_shown(const ReportSection *section, double quality);

/* "12.34 +- 0.05 (3)", "2 of 3" where not all are done. */
void report_show_stat(char *out, size_t size, const ReportSection *section,
                      const ReportGroup *group);

/* A picture that was drawn. */
typedef struct ReportFigure {
    size_t section;
    char name[48]; /* of the file, without ending */
    char caption[600];
} ReportFigure;

typedef struct ReportFigures {
    ReportFigure *items;
    size_t count;
} ReportFigures;

/* Draws all pictures; *drawn as report_write has it. */
bool report_draw(ReportFigures *out, bool *drawn, const Report *report, const char *folder,
                 Err *err);

bool report_write_csv(const Report *report, const char *folder, Err *err);
bool report_write_pages(const Report *report, const ReportFigures *figures, bool drawn,
                        const char *folder, Err *err);

#endif
