#include "loaded_model.h"

#include "log.h"
#include "mixed_gemm.h"

/* The weights are float whatever trained them. */
static void choose_precision(Checkpoint *checkpoint) {
    Precision *precision = &checkpoint->config.model.precision;
    Err why = {0};
    if (mixed_check(*precision, &why)) return;
    log_warn("%s: %s: computing in fp32", checkpoint->path, why.msg);
    *precision = PRECISION_FP32;
}

bool loaded_model_open(LoadedModel *out, const char *path, Err *err) {
    *out = (LoadedModel){0};
    Checkpoint *checkpoint = &out->checkpoint;
    real *weights = NULL;
    bool ok = checkpoint_open(checkpoint, path, err) &&
              param_blocks_create(&weights, &out->arena, &checkpoint->table, 1, err) &&
              checkpoint_read(checkpoint, &checkpoint->table, weights, NULL, NULL, err) &&
              tokenizer_load_bytes(&out->tokenizer, checkpoint->tokenizer.data,
                                   checkpoint->tokenizer.size, path, err) &&
              checkpoint_check_vocab(checkpoint, tokenizer_vocab_size(out->tokenizer), err);
    if (ok) {
        choose_precision(checkpoint);
        params_view(&out->params, &checkpoint->table, &checkpoint->config.model, weights);
    } else {
        loaded_model_close(out);
    }
    return ok;
}

bool loaded_model_check_mlm(const LoadedModel *model, Err *err) {
    const Checkpoint *c = &model->checkpoint;
    if (c->config.model.classes == 0) return true;
    return err_set(err, ERR_FAILED,
                   "%s: a classifier of %zu classes (%s, %s%s), which predicts no tokens; give the "
                   "checkpoint of a pretraining",
                   c->path, c->labels.count, c->labels.names[0], c->labels.names[1],
                   c->labels.count > 2 ? ", ..." : "");
}

bool loaded_model_check_classifier(const LoadedModel *model, Err *err) {
    const Checkpoint *c = &model->checkpoint;
    if (c->config.model.classes > 0) return true;
    return err_set(err, ERR_FAILED,
                   "%s: kind \"%s\" has no classes; give the checkpoint of a fine-tuning "
                   "(linformer finetune makes one from this)",
                   c->path, c->kind);
}

bool loaded_model_fail_nonfinite(const LoadedModel *model, const char *what, Err *err) {
    const char *name = params_first_nonfinite(model->params.block, &model->checkpoint.table);
    return err_set(err, ERR_NONFINITE,
                   "%s: %s is not finite; first weight that is not: %s. The training behind it "
                   "went wrong; use another checkpoint",
                   model->checkpoint.path, what, name ? name : "none, they are only too large");
}

void loaded_model_close(LoadedModel *model) {
    if (!model) return;
    tokenizer_destroy(model->tokenizer);
    arena_destroy(&model->arena);
    checkpoint_close(&model->checkpoint);
    *model = (LoadedModel){0};
}
