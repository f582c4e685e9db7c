/* May a run go on with this configuration? */
#include <stdlib.h>
#include <string.h>

#include "resume.h"

/* Keys that change neither what is computed nor the course of the budget.  Text, rows and tokenizer
 * are compared by hash.  The evaluations of a fine-tuning choose its checkpoint. */
static bool may_change(const char *path, bool is_task) {
    static const char *const free_keys[] = {
        "run",          "train.threads",   "train.micro_batch",    "train.recompute",
        "train.memory", "train.log_every", "train.eval_sequences", "finetune.seeds"};
    if (!is_task && !strcmp(path, "train.eval_every")) return true;
    static const char *const free_sections[] = {"data.", "tokenizer.", "checkpoint."};
    for (size_t i = 0; i < sizeof free_keys / sizeof free_keys[0]; i++) {
        if (!strcmp(path, free_keys[i])) return true;
    }
    for (size_t i = 0; i < sizeof free_sections / sizeof free_sections[0]; i++) {
        if (!strncmp(path, free_sections[i], strlen(free_sections[i]))) return true;
    }
    return false;
}

static const char *or_none(const char *value) {
    return *value ? value : "not set";
}

bool resume_check_config(const Config *stored, const Config *given, Err *err) {
    bool ok = true;
    const char *path;
    for (size_t i = 0; ok && (path = config_key_path(i)) != NULL; i++) {
        if (may_change(path, given->finetune.task != TASK_NONE)) continue;
        char *was = config_key_value(stored, path), *is = config_key_value(given, path);
        if (!was || !is) {
            ok = err_set(err, ERR_FAILED, "no memory to compare the configurations");
        } else if (strcmp(was, is) != 0) {
            ok = err_set(err, ERR_CONFIG,
                         "%s was %s when the run was started, now it is %s: a run continues as it "
                         "began; restore the "
                         "value, or give another `run` to start a new one",
                         path, or_none(was), or_none(is));
        }
        free(was);
        free(is);
    }
    return ok;
}
