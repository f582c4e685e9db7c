/* Sections, and in them groups of runs that differ in the seed alone, with their means. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "report_internal.h"

/* ---- sections ---- */

/* Fine-tunings are of one section where task and rows are the same. */
static bool is_same_task(const Config *a, const Config *b) {
    static const char *const keys[] = {"finetune.task", "finetune.metric", "data.train"};
    bool same = true;
    for (size_t i = 0; same && i < sizeof keys / sizeof *keys; i++) {
        char *left = config_key_value(a, keys[i]), *right = config_key_value(b, keys[i]);
        same = left && right && strcmp(left, right) == 0;
        free(left);
        free(right);
    }
    return same;
}

/* "sst2", or of a task of one's own the name of its first file, "reviews". */
static void task_name(char *out, size_t size, const Config *config) {
    const GlobList *train = &config->data.train_globs;
    char *task = config_key_value(config, "finetune.task");
    snprintf(out, size, "%s", task ? task : "");
    free(task);
    if (config->finetune.task != TASK_CUSTOM || train->count == 0) return;
    const char *pattern = train->items[0].pattern, *slash = strrchr(pattern, '/');
    snprintf(out, size, "%s", slash ? slash + 1 : pattern);
    out[strcspn(out, ".")] = '\0';
}

static bool has_slug(const Report *report, const char *slug) {
    for (size_t s = 0; s < report->section_count; s++) {
        const char *other = report->sections[s].slug;
        if (other && strcmp(other, slug) == 0) return true;
    }
    return false;
}

/* Another of the same name has a number. */
static bool name_section(ReportSection *section, const Report *report, const ReportRun *run,
                         Err *err) {
    char name[80] = "", title[120], slug[32], base[17];
    if (run->is_task) task_name(name, sizeof name, &run->config);
    snprintf(title, sizeof title, run->is_task ? "Fine-tuning: %s" : "Pretraining", name);
    snprintf(base, sizeof base, "%.16s", run->is_task ? name : "pretraining");
    for (char *p = base; *p; p++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *p))
            *p = '-';
    }
    snprintf(slug, sizeof slug, "%s", base);
    for (unsigned n = 2; has_slug(report, slug); n++) {
        snprintf(slug, sizeof slug, "%s-%u", base, n);
        snprintf(title, sizeof title, "Fine-tuning: %s (%u)", name, n);
    }
    section->title = strdup(title);
    section->slug = strdup(slug);
    return (section->title && section->slug) || err_set(err, ERR_FAILED, "no memory for a section");
}

static bool find_section(Report *report, size_t index, Err *err) {
    ReportRun *run = &report->runs[index];
    for (size_t s = 0; s < report->section_count; s++) {
        const ReportRun *first = &report->runs[report->sections[s].first_run];
        run->section = s;
        if (run->is_task == first->is_task &&
            (!run->is_task || is_same_task(&run->config, &first->config)))
            return true;
    }
    ReportSection *grown =
        report_grow(report->sections, &report->section_count, sizeof *grown, err);
    if (!grown) return false;
    report->sections = grown;
    run->section = report->section_count - 1;
    ReportSection *section = &grown[run->section];
    section->is_task = run->is_task;
    section->metric = run->config.finetune.metric;
    section->first_run = index;
    return name_section(section, report, run, err);
}

/* ---- groups ---- */

static void free_group(ReportGroup *group, size_t key_count) {
    for (size_t k = 0; group->values && k < key_count; k++) free(group->values[k]);
    free(group->values);
    free(group->runs);
}

static bool is_equal(const ReportGroup *group, char *const *values, size_t count) {
    size_t k = 0;
    while (k < count && strcmp(group->values[k], values[k]) == 0) k++;
    return k == count;
}

static bool is_same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Of one group: the same training once more? */
static bool is_repeat(const ReportRun *a, const ReportRun *b) {
    return a->seed == b->seed && is_same_text(a->config.train.init, b->config.train.init) &&
           is_same_text(a->config.finetune.init, b->config.finetune.init);
}

/* A training counts once; that is done, if any is. */
static bool join_group(Report *report, ReportGroup *group, size_t index, Err *err) {
    ReportRun *run = &report->runs[index];
    for (size_t i = 0; i < group->run_count; i++) {
        size_t other = group->runs[i];
        if (!is_repeat(&report->runs[other], run)) continue;
        bool takes_over = report->runs[other].state != RUN_DONE && run->state == RUN_DONE;
        if (takes_over) group->runs[i] = index;
        report->runs[takes_over ? other : index].repeats = takes_over ? index : other;
        return true;
    }
    size_t *grown = report_grow(group->runs, &group->run_count, sizeof *grown, err);
    if (!grown) return false;
    group->runs = grown;
    grown[group->run_count - 1] = index;
    return true;
}

static bool place_run(Report *report, size_t index, Err *err) {
    ReportRun *run = &report->runs[index];
    ReportSection *section = &report->sections[run->section];
    ReportGroup made = {.values = calloc(section->key_count + 1, sizeof *made.values)};
    bool ok = made.values != NULL;
    for (size_t k = 0; ok && k < section->key_count; k++)
        ok = (made.values[k] = report_value(report, run, section->keys[k])) != NULL;
    if (!ok) err_set(err, ERR_FAILED, "no memory for the groups of runs");
    size_t g = 0;
    while (ok && g < section->group_count &&
           !is_equal(&section->groups[g], made.values, section->key_count))
        g++;
    if (ok && g == section->group_count) {
        ReportGroup *grown =
            report_grow(section->groups, &section->group_count, sizeof *grown, err);
        if (grown) {
            section->groups = grown;
            grown[g] = made;
            made = (ReportGroup){0};
        }
        ok = grown != NULL;
    }
    free_group(&made, section->key_count);
    return ok && join_group(report, &section->groups[g], index, err);
}

int report_order_values(const char *key, const char *a, const char *b) {
    static const char *const sharing[] = {"none", "headwise", "kv", "layerwise"};
    enum { NAMES = sizeof sharing / sizeof *sharing };
    char *end_a, *end_b;
    double left = strtod(a, &end_a), right = strtod(b, &end_b);
    bool none_a = strcmp(a, "-") == 0, none_b = strcmp(b, "-") == 0;
    if (none_a || none_b) return none_a - none_b;
    if (*a && *b && !*end_a && !*end_b && left != right) return (left > right) - (left < right);
    size_t i = 0, j = 0;
    while (i < NAMES && strcmp(a, sharing[i]) != 0) i++;
    while (j < NAMES && strcmp(b, sharing[j]) != 0) j++;
    if (strcmp(key, "model.sharing") == 0 && i != j) return i < j ? -1 : 1;
    return report_compare_names(a, b);
}

static bool comes_before(const ReportSection *section, const ReportGroup *a, const ReportGroup *b) {
    for (size_t k = 0; k < section->key_count; k++) {
        int order = report_order_values(section->keys[k], a->values[k], b->values[k]);
        if (order) return order < 0;
    }
    return false;
}

/* By insertion: groups are few. */
static void sort_groups(const ReportSection *section) {
    for (size_t i = 1; i < section->group_count; i++) {
        ReportGroup moved = section->groups[i];
        size_t j = i;
        for (; j > 0 && comes_before(section, &moved, &section->groups[j - 1]); j--)
            section->groups[j] = section->groups[j - 1];
        section->groups[j] = moved;
    }
}

/* ---- numbers ---- */

ReportStat report_stat(const double *values, size_t count) {
    ReportStat stat = {.mean = NAN, .std = NAN};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        sum += values[i];
        stat.count++;
    }
    if (stat.count == 0) return stat;
    stat.mean = sum / (double)stat.count;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i])) squares += (values[i] - stat.mean) * (values[i] - stat.mean);
    }
    if (stat.count > 1) stat.std = sqrt(squares / (double)(stat.count - 1));
    return stat;
}

/* The number that a section compares its runs by: where it is in a run. */
static size_t quality_place(const ReportSection *section) {
    if (!section->is_task) return offsetof(ReportRun, score.ppl);
    return section->metric == METRIC_F1    ? offsetof(ReportRun, score.f1)
           : section->metric == METRIC_MCC ? offsetof(ReportRun, score.mcc)
                                           : offsetof(ReportRun, score.accuracy);
}

static double number_at(const ReportRun *run, size_t place) {
    double number;
    memcpy(&number, (const char *)run + place, sizeof number);
    return number;
}

double report_quality(const ReportRun *run, const ReportSection *section) {
    return number_at(run, quality_place(section));
}

/* Of the runs that are done. */
static bool sum_up(ReportStat *out, const Report *report, const ReportGroup *group, size_t place,
                   Err *err) {
    double *values = malloc((group->run_count + 1) * sizeof *values);
    size_t count = 0;
    if (!values) return err_set(err, ERR_FAILED, "no memory for the means");
    for (size_t i = 0; i < group->run_count; i++) {
        const ReportRun *run = &report->runs[group->runs[i]];
        if (run->state == RUN_DONE) values[count++] = number_at(run, place);
    }
    *out = report_stat(values, count);
    free(values);
    return true;
}

/* The run that counts instead of one which repeats it; itself else, NULL of NULL. */
static const ReportRun *original_of(const Report *report, const ReportRun *run) {
    while (run && run->repeats != REPORT_NONE) run = &report->runs[run->repeats];
    return run;
}

/* Do two fine-tunings begin with the same pretraining, or one that repeats it? */
static bool is_same_start(const Report *report, const ReportRun *a, const ReportRun *b) {
    const ReportRun *left = original_of(report, report_pretraining(report, a)),
                    *right = original_of(report, report_pretraining(report, b));
    return left || right ? left == right
                         : is_same_text(a->config.finetune.init, b->config.finetune.init);
}

/* Is it the first run of its group that begins with this pretraining? */
static bool is_first_of_start(const Report *report, const ReportGroup *group, size_t index) {
    const ReportRun *run = &report->runs[group->runs[index]];
    size_t i = 0;
    while (i < index && !is_same_start(report, &report->runs[group->runs[i]], run)) i++;
    return i == index && run->config.finetune.init &&
           strcmp(run->config.finetune.init, "none") != 0;
}

static bool sum_up_group(const Report *report, const ReportSection *section, ReportGroup *group,
                         Err *err) {
    for (size_t i = 0; i < group->run_count; i++) {
        group->done += report->runs[group->runs[i]].state == RUN_DONE;
        group->pretrainings += section->is_task && is_first_of_start(report, group, i);
    }
    return sum_up(&group->quality, report, group, quality_place(section), err) &&
           sum_up(&group->loss, report, group, offsetof(ReportRun, score.loss), err) &&
           sum_up(&group->accuracy, report, group, offsetof(ReportRun, score.accuracy), err) &&
           sum_up(&group->f1, report, group, offsetof(ReportRun, score.f1), err) &&
           sum_up(&group->mcc, report, group, offsetof(ReportRun, score.mcc), err) &&
           sum_up(&group->seconds, report, group, offsetof(ReportRun, seconds), err) &&
           sum_up(&group->tokens, report, group, offsetof(ReportRun, tokens), err) &&
           sum_up(&group->tokens_per_s, report, group, offsetof(ReportRun, tokens_per_s), err);
}

/* Is a as good as b in both, and better in one? */
static bool dominates(const ReportSection *section, const ReportGroup *a, const ReportGroup *b) {
    double sign = section->is_task ? 1 : -1;
    double better = sign * (a->quality.mean - b->quality.mean);
    double faster = b->seconds.mean - a->seconds.mean;
    return better >= 0 && faster >= 0 && (better > 0 || faster > 0);
}

static void find_front(ReportSection *section) {
    for (size_t i = 0; i < section->group_count; i++) {
        ReportGroup *group = &section->groups[i];
        group->on_front = group->quality.count > 0 && group->seconds.count > 0;
        for (size_t j = 0; group->on_front && j < section->group_count; j++)
            group->on_front = !dominates(section, &section->groups[j], group);
    }
}

/* ---- the whole ---- */

static bool make_groups(Report *report, size_t index, Err *err) {
    ReportSection *section = &report->sections[index];
    if (!report_find_keys(report, index, err)) return false;
    for (size_t i = 0; i < report->run_count; i++) {
        if (report->runs[i].section == index && !place_run(report, i, err)) return false;
    }
    sort_groups(section);
    for (size_t g = 0; g < section->group_count; g++) {
        ReportGroup *group = &section->groups[g];
        for (size_t i = 0; i < group->run_count; i++) report->runs[group->runs[i]].group = g;
        if (!sum_up_group(report, section, group, err)) return false;
    }
    for (size_t i = 0; i < report->run_count; i++) {
        ReportRun *run = &report->runs[i];
        if (run->section == index) run->group = original_of(report, run)->group;
    }
    find_front(section);
    return true;
}

bool report_make_sections(Report *report, Err *err) {
    report_take_models(report);
    for (size_t i = 0; i < report->run_count; i++) {
        if (!find_section(report, i, err)) return false;
    }
    /* those of fine-tunings name the groups of pretrainings */
    for (int task = 0; task <= 1; task++) {
        for (size_t s = 0; s < report->section_count; s++) {
            if (report->sections[s].is_task == task && !make_groups(report, s, err)) return false;
        }
    }
    return true;
}

void report_section_free(ReportSection *section) {
    for (size_t g = 0; g < section->group_count; g++)
        free_group(&section->groups[g], section->key_count);
    free(section->groups);
    free(section->keys);
    free(section->title);
    free(section->slug);
    *section = (ReportSection){0};
}

/* The budget is given in one unit, and has nothing to say in the others. */
static bool says_nothing(const char *key, const char *value) {
    static const char *const budgets[] = {"train.steps", "train.epochs", "train.tokens",
                                          "train.hours"};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        if (strcmp(key, budgets[i]) == 0 && strcmp(value, "none") == 0) return true;
    }
    return strcmp(value, "-") == 0;
}

size_t report_put_value(FILE *out, const ReportSection *section, const ReportGroup *group,
                        size_t key, size_t put) {
    if (says_nothing(section->keys[key], group->values[key])) return put;
    fprintf(out, "%s%s=%s", put ? ", " : "", report_leaf(section->keys[key]), group->values[key]);
    return put + 1;
}

char *report_group_label(const ReportSection *section, const ReportGroup *group) {
    char *text = NULL;
    size_t size = 0, put = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t k = 0; k < section->key_count; k++)
        put = report_put_value(out, section, group, k, put);
    if (!put) fputs(section->key_count ? "default" : section->title, out);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
