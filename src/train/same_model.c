#include "same_model.h"

#include <stdlib.h>
#include <string.h>

static bool is_one_of(const char *path, const char *const *list) {
    for (; *list; list++) {
        if (strcmp(path, *list) == 0) return true;
    }
    return false;
}

static bool may_differ(const char *path, const ModelConfig *stored, TakenOver taken) {
    static const char *const free_keys[] = {"model.dropout", "model.attention_dropout",
                                            "model.head_dropout", "model.head_pooling", NULL};
    static const char *const first_values[] = {"model.init", "model.proj_init_std", NULL};
    static const char *const matrices[] = {"model.sharing", "model.proj_init_std", NULL};
    static const char *const lengths[] = {"model.k", "model.projection", NULL};
    bool is_full = stored->attention == ATTENTION_FULL;
    bool has_matrices = model_has_projections(stored); /* E and F */
    return is_one_of(path, free_keys) ||
           (taken == TAKEN_WEIGHTS && is_one_of(path, first_values)) ||
           (!has_matrices && is_one_of(path, matrices)) || (is_full && is_one_of(path, lengths));
}

static bool fail_key(const Config *config, const char *path, const char *is, const char *was,
                     TakenOver taken, Err *err) {
    bool is_model = taken == TAKEN_MODEL;
    const char *place = config_given_at(config, path);
    return err_set(err, ERR_CONFIG, "%s: %s = %s%s, but %s = %s was pretrained with %s: %s",
                   place ? place : config->path, path, is, place ? "" : " (the default)",
                   is_model ? "finetune.init" : "train.init",
                   is_model ? config->finetune.init : config->train.init, was,
                   is_model ? "the model is taken over from there; leave the key out, or give "
                              "another checkpoint"
                            : "wanted the same model; set the key to that, or give another "
                              "checkpoint");
}

bool same_model_check(const Config *config, const Config *stored, TakenOver taken, Err *err) {
    bool ok = true;
    const char *path;
    for (size_t i = 0; ok && (path = config_key_path(i)) != NULL; i++) {
        if (strncmp(path, "model.", 6) != 0 || may_differ(path, &stored->model, taken)) continue;
        if (taken == TAKEN_MODEL && !config_is_given(config, path)) continue;
        char *is = config_key_value(config, path), *was = config_key_value(stored, path);
        if (!is || !was)
            ok = err_set(err, ERR_FAILED, "no memory to compare the configurations");
        else if (strcmp(is, was) != 0)
            ok = fail_key(config, path, is, was, taken, err);
        free(is);
        free(was);
    }
    return ok;
}
