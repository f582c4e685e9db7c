#include "loaded_model.h"

bool loaded_model_open(LoadedModel *out, const char *path, Err *err) {
    *out = (LoadedModel){0};
    Checkpoint *checkpoint = &out->checkpoint;
    bool ok = checkpoint_open(checkpoint, path, err) &&
              arena_create(&out->arena, checkpoint->table.block_reals * sizeof(real), err);
    if (ok) {
        real *weights = arena_take(&out->arena, checkpoint->table.block_reals, sizeof(real));
        ok = checkpoint_read(checkpoint, weights, NULL, NULL, err) &&
             tokenizer_load_bytes(&out->tokenizer, checkpoint->tokenizer.data, checkpoint->tokenizer.size, path, err);
        if (ok) params_view(&out->params, &checkpoint->table, &checkpoint->config.model, weights);
    }
    if (!ok) loaded_model_close(out);
    return ok;
}

void loaded_model_close(LoadedModel *model) {
    if (!model) return;
    tokenizer_destroy(model->tokenizer);
    arena_destroy(&model->arena);
    checkpoint_close(&model->checkpoint);
    *model = (LoadedModel){0};
}
