#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "finetune.h"
#include "io.h"
#include "json_fields.h"
#include "report.h"

static const char *quality_name(const ReportSection *section) {
    return section->is_task ? finetune_metric_name(section->metric) : "perplexity";
}

static void add_stat(cJSON *object, const char *name, const ReportStat *stat) {
    cJSON *member = cJSON_AddObjectToObject(object, name);
    json_add_number(member, "mean", stat->mean, 10);
    json_add_number(member, "std", stat->std, 10);
    json_add_count(member, "count", stat->count);
}

static cJSON *group_object(const ReportSection *section, const ReportGroup *group) {
    cJSON *object = cJSON_CreateObject(), *values = cJSON_AddObjectToObject(object, "values");
    for (size_t k = 0; k < section->key_count; k++)
        cJSON_AddStringToObject(values, section->keys[k], group->values[k]);
    json_add_count(object, "runs", group->run_count);
    json_add_count(object, "done", group->done);
    add_stat(object, quality_name(section), &group->quality);
    add_stat(object, "valid_loss", &group->loss);
    add_stat(object, "seconds", &group->seconds);
    add_stat(object, "tokens_per_s", &group->tokens_per_s);
    cJSON_AddBoolToObject(object, "front", group->on_front);
    return object;
}

static bool print_report_json(const Report *report, const char *folder, bool drawn, Err *err) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "report", folder);
    json_add_count(object, "runs", report->run_count);
    json_add_count(object, "left_out", report->fault_count);
    cJSON_AddBoolToObject(object, "pictures", drawn);
    cJSON *sections = cJSON_AddArrayToObject(object, "sections");
    for (size_t s = 0; s < report->section_count; s++) {
        const ReportSection *section = &report->sections[s];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddItemToArray(sections, item);
        cJSON_AddStringToObject(item, "section", section->slug);
        cJSON *groups = cJSON_AddArrayToObject(item, "groups");
        for (size_t g = 0; g < section->group_count; g++)
            cJSON_AddItemToArray(groups, group_object(section, &section->groups[g]));
    }
    return print_json(object, err);
}

static void print_report(const Report *report, const char *folder) {
    for (size_t s = 0; s < report->section_count; s++) {
        const ReportSection *section = &report->sections[s];
        size_t runs = 0, done = 0;
        for (size_t g = 0; g < section->group_count; g++) {
            runs += section->groups[g].run_count;
            done += section->groups[g].done;
        }
        printf("%s: %zu runs, %zu done, %zu configurations\n", section->title, runs, done,
               section->group_count);
    }
    for (size_t i = 0; i < report->fault_count; i++)
        printf("left out: %s: %s\n", report->faults[i].path, report->faults[i].text);
    printf("%s/report.html\n", folder);
}

static bool run(const Args *args, Err *err) {
    Report report = {0};
    bool drawn;
    char *folder = NULL;
    bool ok = report_open(&report, args->items, args->count, err);
    if (ok) {
        const char *out = args->options.out;
        folder = out ? strdup(out) : io_path_join(report.folders[0], "report");
        ok = folder || err_set(err, ERR_FAILED, "no memory for a path");
    }
    ok = ok && report_write(&drawn, &report, folder, err);
    if (ok && args->options.json)
        ok = print_report_json(&report, folder, drawn, err);
    else if (ok)
        print_report(&report, folder);
    free(folder);
    report_close(&report);
    return ok;
}

static const Option options[] = {
    {"--out", OPTION_TEXT, offsetof(Options, out), 0, 0, "FOLDER",
     "where the report goes (default: report, in the first of the folders)"},
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_report = {
    .name = "report",
    .arguments = "DIR ...",
    .summary = "tables, pictures and one page of what the runs in and below folders came to",
    .notes = "Reads config.yaml, metrics.jsonl, results.json of fine-tunings and the records of "
             "sweeps; runs that differ in the\n"
             "seed alone are one configuration. Writes report.html, a page by itself with all "
             "tables and pictures, report.md,\n"
             "runs.csv, groups.csv, curves.csv, and for each picture NAME.svg and NAME.gp, the "
             "script of gnuplot that draws it.\n"
             "Without gnuplot there are no pictures.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run,
};
