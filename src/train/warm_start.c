#include "warm_start.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "log.h"

/* Model keys that may differ: they shape no tensor that is taken over. */
static bool may_differ(const char *path, const ModelConfig *model) {
    static const char *const always[] = {"model.dropout", "model.attention_dropout",
                                         "model.head_dropout", "model.init",
                                         "model.proj_init_std"};
    static const char *const unused_if_full[] = {"model.k", "model.sharing", "model.projection"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (strcmp(path, always[i]) == 0) return true;
    }
    for (size_t i = 0; i < sizeof unused_if_full / sizeof *unused_if_full; i++) {
        if (model->attention == ATTENTION_FULL && strcmp(path, unused_if_full[i]) == 0) return true;
    }
    return false;
}

static bool check_model(const Config *given, const Config *stored, Err *err) {
    bool ok = true;
    const char *path;
    for (size_t i = 0; ok && (path = config_key_path(i)) != NULL; i++) {
        if (strncmp(path, "model.", 6) != 0 || may_differ(path, &stored->model)) continue;
        char *is = config_key_value(given, path), *was = config_key_value(stored, path);
        if (!is || !was)
            ok = err_set(err, ERR_FAILED, "no memory to compare the configurations");
        else if (strcmp(is, was) != 0)
            ok = err_set(err, ERR_CONFIG,
                         "%s = %s, but train.init = %s was pretrained with %s: wanted the same "
                         "model; set the key to that, or give another checkpoint",
                         path, is, given->train.init, was);
        free(is);
        free(was);
    }
    return ok;
}

bool warm_start_open(Checkpoint *out, const Config *config, Err *err) {
    const char *path = config->train.init;
    if (!io_is_file(path))
        return err_set(err, ERR_FAILED,
                       "train.init = %s: no such file: wanted a checkpoint of `linformer "
                       "pretrain`; leave the key out to start from fresh weights",
                       path);
    if (!checkpoint_open(out, path, err)) return err_context(err, "train.init");
    bool ok = true;
    if (out->labels.count > 0)
        ok = err_set(err, ERR_FAILED,
                     "train.init = %s: a fine-tuned classifier has no masked-language-model head: "
                     "wanted the checkpoint of a pretraining",
                     path);
    ok = ok && check_model(config, &out->config, err);
    if (ok)
        log_info("weights: from %s, step %" PRIu64 " of its pretraining", path, out->state.step);
    else
        checkpoint_close(out);
    return ok;
}

bool warm_start_tokenizer(const Checkpoint *init, const Config *config, Err *err) {
    const char *path = config->tokenizer.model;
    uint64_t hash = 0;
    if (!io_is_file(path)) {
        log_info("tokenizer: %s is missing, written from %s", path, config->train.init);
        return io_make_folder_of(path, err) &&
               io_write_file(path, init->tokenizer.data, init->tokenizer.size, err);
    }
    if (!io_hash_file(&hash, path, err)) return false;
    if (hash == init->tokenizer_hash) return true;
    return err_set(err, ERR_FAILED,
                   "%s: is not the tokenizer of train.init = %s (hash %016" PRIx64
                   ", that one's is %016" PRIx64
                   "): wanted that one; name it with tokenizer.model, or a path where no file is "
                   "and it is written there",
                   path, config->train.init, hash, init->tokenizer_hash);
}
