/* Which keys of the runs of a section differ, and their values. */
#include <stdlib.h>
#include <string.h>

#include "report_internal.h"

/* ---- keys ---- */

/* Keys that come first, because they are what is compared. */
static const char *const FIRST_KEYS[] = {"model.k",          "model.n",         "model.sharing",
                                         "model.projection", "model.attention", NULL};

/* Keys that change no result, and places. */
static bool is_idle(const char *key, bool is_task) {
    static const char *const always[] = {"run",
                                         "train.seed",
                                         "train.threads",
                                         "train.micro_batch",
                                         "train.memory",
                                         "train.recompute",
                                         "train.log_every",
                                         "checkpoint.every",
                                         "checkpoint.keep",
                                         "finetune.seeds",
                                         "tokenizer.model",
                                         "tokenizer.sample_bytes",
                                         "data.tokens"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (strcmp(key, always[i]) == 0) return true;
    }
    return !is_task && strcmp(key, "train.eval_every") == 0;
}

/* Full attention has no projections; those that pool have none to share, and only those that learn
 * have a rate and weights to begin with. */
static bool has_effect(const char *key, const ModelConfig *model) {
    bool is_full = model->attention == ATTENTION_FULL;
    bool pools = model->projection == PROJECTION_MEAN || model->projection == PROJECTION_MAX;
    if (strcmp(key, "model.k") == 0 || strcmp(key, "model.projection") == 0) return !is_full;
    if (strcmp(key, "model.sharing") == 0) return !is_full && !pools;
    if (strcmp(key, "model.proj_init_std") == 0 || strcmp(key, "optimizer.proj_lr") == 0)
        return !is_full && !pools && model->projection != PROJECTION_FIXED;
    return true;
}

const char *report_leaf(const char *key) {
    const char *dot = strchr(key, '.');
    return dot ? dot + 1 : key;
}

void report_name_value(char *out, size_t size, const char *key, const char *value) {
    if (strcmp(value, "-") != 0)
        snprintf(out, size, "%s=%s", report_leaf(key), value);
    else if (strcmp(key, "model.sharing") == 0) /* sharing=none is another thing */
        snprintf(out, size, "nothing to share");
    else
        snprintf(out, size, "no %s", report_leaf(key));
}

/* ---- the checkpoints that fine-tunings begin with ---- */

/* The pretraining whose folder holds the checkpoint, or NULL. */
static const ReportRun *find_pretraining(const Report *report, const char *init) {
    const char *slash = strrchr(init, '/');
    size_t length = slash ? (size_t)(slash - init) : 0;
    for (size_t i = 0; i < report->run_count; i++) {
        const ReportRun *run = &report->runs[i];
        const char *dir = run->config.run_dir;
        if (!run->is_task && dir && strlen(dir) == length && strncmp(dir, init, length) == 0)
            return run;
    }
    return NULL;
}

const ReportRun *report_pretraining(const Report *report, const ReportRun *run) {
    const char *init = run->config.finetune.init;
    return run->is_task && init ? find_pretraining(report, init) : NULL;
}

void report_take_models(Report *report) {
    for (size_t i = 0; i < report->run_count; i++) {
        ReportRun *run = &report->runs[i];
        const ReportRun *from = run->is_only_given ? report_pretraining(report, run) : NULL;
        if (from) config_take_model(&run->config, &from->config.model);
    }
}

static bool is_of_model(const char *key) {
    return strncmp(key, "model.", 6) == 0;
}

/* Are there groups of one model that differ in the key? */
static bool differs_beside_model(const ReportSection *section, size_t key) {
    for (size_t i = 0; i < section->group_count; i++) {
        for (size_t j = i + 1; j < section->group_count; j++) {
            char **left = section->groups[i].values, **right = section->groups[j].values;
            size_t k = 0;
            while (k < section->key_count &&
                   (!is_of_model(section->keys[k]) || strcmp(left[k], right[k]) == 0))
                k++;
            if (k == section->key_count && strcmp(left[key], right[key]) != 0) return true;
        }
    }
    return false;
}

/* What tells a pretraining from others but its model, which its fine-tunings have too, and its
 * seed. */
static char *pretraining_label(const Report *report, const ReportRun *run) {
    const ReportSection *section = &report->sections[run->section];
    const ReportGroup *group = &section->groups[run->group];
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    fputs("pretrained", out);
    for (size_t k = 0; k < section->key_count; k++) {
        if (differs_beside_model(section, k))
            fprintf(out, ", %s=%s", report_leaf(section->keys[k]), group->values[k]);
    }
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

char *report_value(const Report *report, const ReportRun *run, const char *key) {
    const char *init = run->config.finetune.init;
    if (!has_effect(key, &run->config.model)) return strdup("-");
    if (run->is_task && init && strcmp(key, "finetune.init") == 0) {
        const ReportRun *from = report_pretraining(report, run);
        return from ? pretraining_label(report, from) : strdup(init);
    }
    char *value = config_key_value(&run->config, key);
    if (value && *value) return value;
    free(value);
    return strdup("none");
}

/* ---- keys of a section ---- */

/* Do two runs differ in it, of those that it has an effect on? */
static bool differs(bool *out, const Report *report, size_t section, const char *key, Err *err) {
    char *first = NULL;
    bool ok = true;
    *out = false;
    for (size_t i = 0; ok && !*out && i < report->run_count; i++) {
        if (report->runs[i].section != section) continue;
        char *value = report_value(report, &report->runs[i], key);
        ok = value || err_set(err, ERR_FAILED, "no memory to compare the runs");
        bool counts = ok && strcmp(value, "-") != 0;
        if (counts && first) *out = strcmp(first, value) != 0;
        if (counts && !first)
            first = value;
        else
            free(value);
    }
    free(first);
    return ok;
}

static bool add_key(Report *report, size_t index, const char *key, Err *err) {
    ReportSection *section = &report->sections[index];
    bool is_new = false;
    for (size_t i = 0; i < section->key_count; i++) {
        if (strcmp(section->keys[i], key) == 0) return true;
    }
    if (is_idle(key, section->is_task)) return true;
    if (!differs(&is_new, report, index, key, err)) return false;
    if (!is_new) return true;
    const char **grown = report_grow(section->keys, &section->key_count, sizeof *grown, err);
    if (!grown) return false;
    section->keys = grown;
    grown[section->key_count - 1] = key;
    return true;
}

bool report_find_keys(Report *report, size_t index, Err *err) {
    const char *key;
    for (size_t i = 0; FIRST_KEYS[i]; i++) {
        if (!add_key(report, index, FIRST_KEYS[i], err)) return false;
    }
    for (size_t i = 0; (key = config_key_path(i)) != NULL; i++) {
        if (!add_key(report, index, key, err)) return false;
    }
    return true;
}
