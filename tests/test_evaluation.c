#include <math.h>
#include <stdlib.h>

#include "../src/train/trainer_internal.h"
#include "harness.h"
#include "trainer_fixture.h"

enum { LINES = 60 };

/* Held-out loss of a checkpoint, `micro_batch` sequences at a time. */
static MlmScore evaluate(const char *checkpoint_path, const char *run, const char *micro_batch,
                         size_t sequences) {
    Trainer t;
    Config config;
    Checkpoint checkpoint;
    MlmScore score = {0};
    Err err = {0};
    log_quiet(true);
    run_config(&config, run, OVERRIDES("train.batch=40", micro_batch));
    if (!CHECK_MSG(trainer_create(&t, &config, RESUME_NEVER, &err), "%s", err.msg)) test_end();
    REQUIRE(checkpoint_open(&checkpoint, checkpoint_path, &err));
    REQUIRE(checkpoint_read(&checkpoint, &t.table, t.blocks.weights.block, NULL, NULL, &err));
    t.acts.mode = ACTS_INFERENCE;
    CHECK(evaluation_mlm(&score, &t.acts, &t.batch, &t.blocks.weights, &t.config.model, t.valid,
                         &t.plan, sequences, &err));
    size_t all = dataset_sequences(t.valid), tokens = 0; /* of the evenly spread sequences */
    for (size_t i = 0; i < score.sequences; i++)
        tokens += dataset_length(t.valid, i * all / score.sequences);
    CHECK_INT(score.tokens, tokens);
    checkpoint_close(&checkpoint);
    trainer_destroy(&t);
    config_free(&config);
    return score;
}

/* Evaluating best.ckpt gives the number that was logged when it was saved: to the last bit with the
 * same batches, and up to rounding with others. */
static void test_logged_loss_comes_back(void) {
    corpus_write(LINES);
    RunResult result =
        run_pretrain("run", RESUME_NEVER, OVERRIDES("train.batch=7", "train.eval_sequences=20"));
    CHECK_MSG(result.code == 0, "%s", result.msg);
    char *metrics = run_metrics("run"), *at = strstr(metrics, "\"valid_loss\":");
    REQUIRE(at);
    double logged = strtod(at + strlen("\"valid_loss\":"), NULL);
    free(metrics);
    const char *best = run_path("run", "best.ckpt");
    MlmScore same = evaluate(best, "same", "train.micro_batch=7", 20);
    CHECK_MSG(same.loss == logged, "%.17g, logged %.17g", same.loss, logged);
    CHECK_CLOSE(same.perplexity, exp(logged), 1e-12 * exp(logged));
    CHECK_INT(same.sequences, 20);
    CHECK(same.masked > 20 && same.tokens <= 20 * 24);
    MlmScore ones = evaluate(best, "ones", "train.micro_batch=1", 20),
             all = evaluate(best, "all", "train.micro_batch=40", 0);
    CHECK_CLOSE(ones.loss, logged,
                1e-5 * logged); /* sums of some hundred terms in another blocking */
    CHECK_INT(ones.masked, same.masked);
    CHECK(all.sequences > 20 && all.masked > same.masked && all.loss != logged);
}

const Test tests_evaluation[] = {
    {"logged_loss_comes_back", test_logged_loss_comes_back, 0},
    {0},
};
