#include "warm_start.h"

#include <inttypes.h>

#include "io.h"
#include "log.h"
#include "same_model.h"

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
    ok = ok && same_model_check(config, &out->config, TAKEN_WEIGHTS, err);
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
