/* What runs came to, from their folders alone: curves, means over seeds, tables, pictures, a page.
 *
 * A run is a folder with config.yaml (or given.yaml of a sweep) and metrics.jsonl; of a fine-tuning
 * every seed is a run, and its score is the one in results.json or the seed's result.json.  Runs of
 * one kind and task make a section; the keys whose values differ between them are its keys, those
 * that change no result apart; runs that differ in the seed alone make a group. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "err.h"
#include "sweep.h"

#define REPORT_NONE ((size_t)-1)

/* A line of metrics.jsonl; NaN for what it has not, or has as null. */
typedef struct ReportPoint {
    double step, epoch, tokens, seconds;
    double loss;       /* of training, nats */
    double valid_loss; /* of the held-out text or rows */
    double valid_ppl, accuracy, unigram_entropy;
} ReportPoint;

/* On held-out text or rows; NaN where the run has no such number. */
typedef struct ReportScore {
    double loss, ppl;         /* of a pretraining: its last evaluation */
    double accuracy, f1, mcc; /* of a fine-tuning: its best checkpoint's, and that one's loss */
} ReportScore;

typedef struct ReportRun {
    char *dir;  /* as found */
    char *name; /* below the folder that was given, "k=16,seed=1" */
    Config config;
    bool is_task;
    bool
        is_only_given; /* it wrote no config.yaml: the configuration is what it was to start with */
    uint64_t seed;
    RunState state; /* RUN_INTERRUPTED: neither running nor complete */
    ReportPoint *points;
    size_t count;
    size_t damaged; /* lines of metrics.jsonl that are none */
    ReportScore score;
    double best_ppl;        /* of any evaluation */
    double unigram_entropy; /* of its held-out text: the loss of guessing by frequency; else NaN */
    double majority;        /* accuracy of the most frequent class; NaN: not known */
    double steps, tokens, seconds, tokens_per_s, loss; /* of the last line */
    size_t section, group;
    size_t repeats; /* run of the same configuration and seed, which counts instead of this one;
                       REPORT_NONE: none */
} ReportRun;

/* Over the runs of a group that are done and have the number.  std divides by count - 1 and is NaN
 * for one run; mean is NaN for none. */
typedef struct ReportStat {
    double mean, std;
    size_t count;
} ReportStat;

typedef struct ReportGroup {
    char **values; /* of the section's keys; "-": the key has no effect */
    size_t *runs;
    size_t run_count, done;
    size_t pretrainings; /* that its fine-tunings begin with, 0 where that is none */
    /* the quality is perplexity, or the metric of finetune.metric, from 0 to 1 */
    ReportStat quality, loss, accuracy, f1, mcc, seconds, tokens, tokens_per_s;
    bool on_front; /* no other group is both better and faster */
} ReportGroup;

typedef struct ReportSection {
    bool is_task;
    ClassMetric metric; /* of a task */
    char *title;        /* "Pretraining", "Fine-tuning: sst2" */
    char *slug;         /* "pretraining", for names of files */
    const char **keys;  /* "model.k"; in the order of importance */
    size_t key_count;
    ReportGroup *groups; /* ordered by their values */
    size_t group_count;
    size_t first_run; /* of the report's runs, any of the section */
} ReportSection;

typedef struct ReportFault {
    char *path, *text;
} ReportFault;

typedef struct Report {
    char **folders; /* that were given */
    size_t folder_count;
    ReportRun *runs;
    size_t run_count;
    ReportSection *sections;
    size_t section_count;
    ReportFault *faults; /* what was left out, and why */
    size_t fault_count;
} Report;

/* Reads all runs in and below the folders; writes nothing.  What cannot be read is left out and
 * listed.  Fails with ERR_FAILED where a folder is missing or there is no run at all. */
bool report_open(Report *out, const char *const *folders, size_t count, Err *err);
void report_close(Report *report); /* accepts a zeroed one */

/* Writes report.html, report.md, runs.csv, groups.csv, curves.csv and the pictures, each as
 * <name>.gp and <name>.svg, into the folder, which is made.  Without gnuplot a warning is logged
 * and the pictures are left out: *drawn is then false. */
bool report_write(bool *drawn, const Report *report, const char *folder, Err *err);

/* Mean and sample standard deviation of the finite values. */
ReportStat report_stat(const double *values, size_t count);

/* What a key sets side by side: its values against each other, for each combination of the keys
 * that do not follow from it. */
typedef struct ReportAxis {
    size_t key;      /* of the section */
    char **values;   /* in order; "-" is the last */
    double *numbers; /* of the values; NaN for one that is no number */
    size_t value_count;
    bool is_numeric; /* all values but "-" are numbers */
    char *with;      /* keys that follow it, ", batch 16, 8"; "" if none */
    char **series;   /* "sharing=kv"; "" where there is one alone */
    size_t series_count;
    /* (series_count x value_count) index of the group, REPORT_NONE where there is none */
    size_t *groups;
} ReportAxis;

/* The axes of a section, in the order of its keys.  NULL without memory; *count is 0 where nothing
 * differs. */
ReportAxis *report_axes(size_t *count, const ReportSection *section);
void report_axes_free(ReportAxis *axes, size_t count);

#endif
