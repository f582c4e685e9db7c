#include "text_eval.h"

#include <stdlib.h>
#include <string.h>

#include "data_fixture.h"
#include "harness.h"
#include "io.h"
#include "lab_fixture.h"

enum { TEXT_SIZE = 6000 };

static TextScore score(const LoadedModel *model, const char *folder, const char *text_path,
                       TextEvalOptions options) {
    TextScore out;
    Err err = {0};
    char *paths[] = {strdup(text_path)};
    REQUIRE(io_make_dirs(test_temp_path(folder), &err));
    const PathList texts = {paths, 1};
    options.threads = 1;
    if (!text_evaluate(&out, model, &texts, test_temp_path(folder), &options, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    free(paths[0]);
    return out;
}

/* The same as preparing the text by hand and evaluating the data set. */
static double loss_by_hand(const LoadedModel *model, const char *text_path, size_t sequences) {
    Config config;
    Manifest manifest;
    Dataset *dataset;
    Activations acts;
    Batch batch;
    MlmScore out;
    Bytes bytes = tokenizer_bytes(model->tokenizer);
    const ModelConfig *m = &model->checkpoint.config.model;
    data_fixture_config(&config);
    data_fixture_add(&config.data.train, text_path);
    REQUIRE(io_write_file(config.tokenizer.model, bytes.data, bytes.size, NULL));
    REQUIRE(prepare_run(&config, NULL));
    REQUIRE(manifest_load(&manifest, config.data.tokens, NULL));
    REQUIRE(dataset_open(&dataset, &manifest.train, &manifest, m->n, NULL));
    REQUIRE(activations_create(&acts, m, 1, m->n, ACTS_INFERENCE, NULL));
    REQUIRE(batch_create(&batch, 1, m->n, NULL));
    const BatchPlan plan = {.n = m->n, .vocab = m->vocab};
    CHECK(evaluation_mlm(&out, &acts, &batch, &model->params, m, dataset, &plan, sequences, NULL));
    batch_destroy(&batch);
    activations_destroy(&acts);
    dataset_close(dataset);
    manifest_free(&manifest);
    data_fixture_free(&config);
    return out.loss;
}

static void test_scores(void) {
    LoadedModel model;
    lab_fixture_model(&model);
    char *text = data_fixture_text(5, TEXT_SIZE),
         *path = data_fixture_write("held-out.txt", text, TEXT_SIZE);
    TextScore all = score(&model, "a", path, (TextEvalOptions){0});
    CHECK_INT(all.text_bytes, TEXT_SIZE);
    CHECK(all.mlm.sequences > 20 && all.mlm.masked > 100);
    CHECK(all.unigram_entropy > 3 && all.unigram_entropy < 6.1);
    CHECK_CLOSE(all.mlm.perplexity, exp(all.mlm.loss), 1e-9 * all.mlm.perplexity);
    CHECK_CLOSE(all.mlm.loss, loss_by_hand(&model, path, 0), 1e-6);

    /* another number of sequences at a time is another GEMM blocking, nothing else */
    TextScore again = score(&model, "b", path, (TextEvalOptions){.batch = 3});
    CHECK_CLOSE(again.mlm.loss, all.mlm.loss, 1e-5);
    CHECK_INT(again.mlm.masked, all.mlm.masked);

    TextScore few = score(&model, "c", path, (TextEvalOptions){.sequences = 5});
    CHECK_INT(few.mlm.sequences, 5);
    CHECK_CLOSE(few.mlm.loss, loss_by_hand(&model, path, 5), 1e-6);
    CHECK(fabs(few.mlm.loss - all.mlm.loss) > 1e-6);
    free(text);
    free(path);
    loaded_model_close(&model);
}

/* A loss that is no number is a failure, not a score. */
static void test_nonfinite_model(void) {
    static const real bad[] = {(real)NAN, (real)INFINITY};
    LoadedModel model;
    TextScore out;
    lab_fixture_model(&model);
    char *text = data_fixture_text(5, 2000), *path = data_fixture_write("a.txt", text, 2000);
    PathList texts = {&path, 1};
    const TextEvalOptions options = {.threads = 1};
    for (size_t i = 0; i < 2; i++) {
        Err err = {0};
        model.params.head_w[3] = bad[i];
        CHECK(!text_evaluate(&out, &model, &texts, test_temp_dir(), &options, &err));
        CHECK_INT(err.code, ERR_NONFINITE);
        CHECK_STR_CONTAINS(err.msg, "head_w");
        CHECK_STR_CONTAINS(err.msg, "model.ckpt");
    }
    free(path);
    free(text);
    loaded_model_close(&model);
}

static void test_refused_texts(void) {
    LoadedModel model;
    lab_fixture_model(&model);
    Err err = {0};
    TextScore out;
    char empty[] = "empty.txt", missing[] = "missing.txt";
    char *empty_path = data_fixture_write(empty, "\n\n", 2),
         *missing_path = strdup(test_temp_path(missing));
    const TextEvalOptions options = {.threads = 1};
    PathList texts = {&empty_path, 1};
    CHECK(!text_evaluate(&out, &model, &texts, test_temp_dir(), &options, &err));
    CHECK_INT(err.code, ERR_FAILED);
    texts.items = &missing_path;
    CHECK(!text_evaluate(&out, &model, &texts, test_temp_dir(), &options, &err));
    CHECK_STR_CONTAINS(err.msg, missing);
    free(empty_path);
    free(missing_path);
    loaded_model_close(&model);
}

const Test tests_text_eval[] = {
    {"scores", test_scores, 0},
    {"nonfinite_model", test_nonfinite_model, 0},
    {"refused_texts", test_refused_texts, TEST_FLOAT},
    {0},
};
