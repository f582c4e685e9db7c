/* Files for other programs: runs.csv, groups.csv and curves.csv, with all digits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "finetune.h"
#include "report_internal.h"

void report_put_csv(FILE *out, const char *text) {
    bool quote = strpbrk(text, ",\"\n\r") != NULL;
    if (quote) fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    if (quote) fputc('"', out);
}

/* ",1.25", "," where there is no number */
static void put_number(FILE *out, double value) {
    fputc(',', out);
    if (isfinite(value)) fprintf(out, "%.10g", value);
}

static void put_stat(FILE *out, const ReportStat *stat) {
    put_number(out, stat->mean);
    put_number(out, stat->std);
}

/* All keys that differ in any section, once. */
static const char **all_keys(size_t *count, const Report *report) {
    const char **keys = NULL;
    *count = 0;
    for (size_t s = 0; s < report->section_count; s++) {
        const ReportSection *section = &report->sections[s];
        for (size_t k = 0; k < section->key_count; k++) {
            size_t i = 0;
            while (i < *count && strcmp(keys[i], section->keys[k]) != 0) i++;
            if (i < *count) continue;
            const char **grown = report_grow(keys, count, sizeof *grown, NULL);
            if (!grown) {
                free(keys);
                return NULL;
            }
            keys = grown;
            keys[i] = section->keys[k];
        }
    }
    return keys ? keys : calloc(1, sizeof *keys);
}

/* The group's value of a key; "" where the key is none of the section's. */
static const char *value_of(const ReportSection *section, const ReportGroup *group,
                            const char *key) {
    for (size_t k = 0; k < section->key_count; k++) {
        if (strcmp(section->keys[k], key) == 0) return group->values[k];
    }
    return "";
}

static void put_keys(FILE *out, const char *const *keys, size_t count, const ReportSection *section,
                     const ReportGroup *group) {
    for (size_t k = 0; k < count; k++) {
        fputc(',', out);
        report_put_csv(out, section ? value_of(section, group, keys[k]) : keys[k]);
    }
}

static void write_runs(FILE *out, const Report *report, const char *const *keys, size_t count) {
    fputs("run,section,state,seed,pretraining_seed", out);
    put_keys(out, keys, count, NULL, NULL);
    fputs(",steps,tokens,seconds,tokens_per_s,loss,valid_loss,valid_ppl,best_ppl,accuracy,f1,mcc,"
          "majority,unigram_entropy\n",
          out);
    for (size_t i = 0; i < report->run_count; i++) {
        const ReportRun *run = &report->runs[i];
        const ReportSection *section = &report->sections[run->section];
        report_put_csv(out, run->name);
        fprintf(out, ",%s,%s,%" PRIu64 ",", section->slug, sweep_state_name(run->state), run->seed);
        const ReportRun *from = report_pretraining(report, run);
        if (from) fprintf(out, "%" PRIu64, from->seed);
        put_keys(out, keys, count, section, &section->groups[run->group]);
        const double numbers[] = {run->steps,          run->tokens,    run->seconds,
                                  run->tokens_per_s,   run->loss,      run->score.loss,
                                  run->score.ppl,      run->best_ppl,  run->score.accuracy,
                                  run->score.f1,       run->score.mcc, run->majority,
                                  run->unigram_entropy};
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) put_number(out, numbers[n]);
        fputc('\n', out);
    }
}

static void write_groups(FILE *out, const Report *report, const char *const *keys, size_t count) {
    fputs("section", out);
    put_keys(out, keys, count, NULL, NULL);
    fputs(",runs,done,scored,quality,quality_mean,quality_std,valid_loss_mean,valid_loss_std,"
          "accuracy_mean,accuracy_std,f1_mean,f1_std,mcc_mean,mcc_std,seconds_mean,seconds_std,"
          "tokens_mean,tokens_std,tokens_per_s_mean,tokens_per_s_std,front\n",
          out);
    for (size_t s = 0; s < report->section_count; s++) {
        const ReportSection *section = &report->sections[s];
        for (size_t g = 0; g < section->group_count; g++) {
            const ReportGroup *group = &section->groups[g];
            report_put_csv(out, section->slug);
            put_keys(out, keys, count, section, group);
            fprintf(out, ",%zu,%zu,%zu,%s", group->run_count, group->done, group->quality.count,
                    section->is_task ? finetune_metric_name(section->metric) : "perplexity");
            put_stat(out, &group->quality);
            put_stat(out, &group->loss);
            put_stat(out, &group->accuracy);
            put_stat(out, &group->f1);
            put_stat(out, &group->mcc);
            put_stat(out, &group->seconds);
            put_stat(out, &group->tokens);
            put_stat(out, &group->tokens_per_s);
            fprintf(out, ",%d\n", group->on_front);
        }
    }
}

static void write_curves(FILE *out, const Report *report) {
    fputs("run,step,epoch,tokens,seconds,loss,valid_loss,valid_ppl,accuracy\n", out);
    for (size_t i = 0; i < report->run_count; i++) {
        const ReportRun *run = &report->runs[i];
        for (size_t p = 0; p < run->count; p++) {
            const ReportPoint *point = &run->points[p];
            const double numbers[] = {point->step,      point->epoch,   point->tokens,
                                      point->seconds,   point->loss,    point->valid_loss,
                                      point->valid_ppl, point->accuracy};
            report_put_csv(out, run->name);
            for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
                put_number(out, numbers[n]);
            fputc('\n', out);
        }
    }
}

bool report_write_csv(const Report *report, const char *folder, Err *err) {
    enum { RUNS, GROUPS, CURVES, FILES };
    static const char *const names[FILES] = {"runs.csv", "groups.csv", "curves.csv"};
    size_t count;
    const char **keys = all_keys(&count, report);
    bool ok = keys || err_set(err, ERR_FAILED, "no memory for the tables");
    for (int i = 0; ok && i < FILES; i++) {
        AtomicFile file;
        if (!(ok = report_begin_file(&file, folder, names[i], err))) break;
        if (i == RUNS) write_runs(file.file, report, keys, count);
        if (i == GROUPS) write_groups(file.file, report, keys, count);
        if (i == CURVES) write_curves(file.file, report);
        ok = report_end_file(&file, err);
    }
    free(keys);
    return ok;
}
