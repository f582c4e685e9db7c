#include "text_eval.h"

#include <math.h>

#include "text_tokens.h"

enum { BATCH_DEFAULT = 8 };

static bool score(TextScore *out, const LoadedModel *model, const Dataset *dataset,
                  const TextEvalOptions *options, Err *err) {
    const Config *config = &model->checkpoint.config;
    const BatchPlan plan = {.n = config->model.n, .vocab = config->model.vocab};
    size_t sequences = options->batch ? options->batch : BATCH_DEFAULT;
    if (sequences > dataset_sequences(dataset)) sequences = dataset_sequences(dataset);
    Activations acts = {0};
    Batch batch = {0};
    bool ok = activations_create(&acts, &config->model, sequences, sequences * config->model.n,
                                 ACTS_INFERENCE, err) &&
              batch_create(&batch, sequences, config->model.n, err);
    ok = ok && evaluation_mlm(&out->mlm, &acts, &batch, &model->params, &config->model, dataset,
                              &plan, options->sequences, err);
    batch_destroy(&batch);
    activations_destroy(&acts);
    if (ok && out->mlm.masked == 0)
        return err_set(err, ERR_FAILED, "none of the %zu tokens was masked: give more text",
                       out->mlm.tokens);
    if (ok && !isfinite(out->mlm.loss)) return loaded_model_fail_nonfinite(model, "the loss", err);
    return ok;
}

bool text_evaluate(TextScore *out, const LoadedModel *model, const PathList *texts,
                   const char *folder, const TextEvalOptions *options, Err *err) {
    *out = (TextScore){0};
    Manifest manifest;
    Dataset *dataset = NULL;
    if (!loaded_model_check_mlm(model, err)) return false;
    bool ok =
        text_tokens_encode(&manifest, model, texts, folder, options->threads, err) &&
        dataset_open(&dataset, &manifest.valid, &manifest, model->checkpoint.config.model.n, err) &&
        score(out, model, dataset, options, err);
    if (ok) {
        out->unigram_entropy = manifest.valid.unigram_entropy;
        out->documents = manifest.valid.totals.documents;
        out->text_bytes = manifest.valid.totals.text_bytes;
    }
    if (dataset) dataset_close(dataset);
    manifest_free(&manifest);
    return ok;
}
