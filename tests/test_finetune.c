/* Fine-tuning as a whole: seeds, resume, the best checkpoint, early ends, and what is written. */
#include <cJSON.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/train/finetune_internal.h"
#include "batcher.h"
#include "class_eval.h"
#include "finetune_fixture.h"
#include "harness.h"
#include "io.h"
#include "loaded_model.h"
#include "log.h"
#include "train_memory.h"

static cJSON *read_json(const char *run, const char *name) {
    Bytes bytes = run_file(run, name);
    cJSON *object = cJSON_Parse((const char *)bytes.data);
    io_bytes_free(&bytes);
    REQUIRE(object);
    return object;
}

static double number(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* The lines of metrics.jsonl as an array; cJSON_Delete. */
static cJSON *read_metrics(const char *folder) {
    cJSON *lines = cJSON_CreateArray();
    char *text = run_metrics(folder);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        cJSON_AddItemToArray(lines, cJSON_Parse(line));
    free(text);
    return lines;
}

static bool same_file(const char *run_a, const char *run_b, const char *name) {
    Bytes a = run_file(run_a, name), b = run_file(run_b, name);
    bool same = a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
    io_bytes_free(&a);
    io_bytes_free(&b);
    return same;
}

static bool same_metrics(const char *a, const char *b) {
    char *x = run_metrics(a), *y = run_metrics(b);
    bool same = strcmp(x, y) == 0;
    free(x);
    free(y);
    return same;
}

/* ---- learning */

static void test_learns_a_word(void) {
    task_write();
    require_run(run_finetune("run", RESUME_NEVER, OVERRIDES("model.norm=pre", "train.epochs=8")));
    cJSON *results = read_json("run", "results.json");
    const cJSON *seed = cJSON_GetArrayItem(cJSON_GetObjectItem(results, "seeds"), 0);
    CHECK_MSG(number(seed, "accuracy") > 0.95, "accuracy %g", number(seed, "accuracy"));
    CHECK(number(seed, "valid_loss") < 0.3 && number(seed, "mcc") > 0.9);
    CHECK(number(results, "majority") > 0.4 && number(results, "majority") < 0.6);
    CHECK_INT(number(results, "train_rows"), TASK_ROWS);
    CHECK_INT(number(results, "valid_rows"), TASK_VALID_ROWS);
    CHECK_INT(number(seed, "steps"), 8 * TASK_ROWS / 16);
    cJSON_Delete(results);
}

/* A pretrained encoder, the dropouts of the task, and rows far shorter than n. */
static void test_from_a_checkpoint(void) {
    task_write();
    require_run(run_finetune("run", RESUME_NEVER,
                             OVERRIDES(task_init(), "model.dropout=0.05", "model.head_dropout=0.1",
                                       "model.head_pooling=mean")));
    Checkpoint c;
    Err err = {0};
    REQUIRE(checkpoint_open(&c, run_path("run/seed-1", "best.ckpt"), &err));
    CHECK_STR(c.kind, "classifier");
    CHECK(c.labels.count == 2 && c.config.model.classes == 2);
    CHECK_STR(c.labels.names[0], "sky");
    CHECK_STR(c.labels.names[1], "water");
    CHECK(c.config.model.dropout == 0.05 && c.config.model.head_dropout == 0.1);
    CHECK(c.config.model.head_pooling == HEAD_POOLING_MEAN);
    CHECK(c.config.model.attention_dropout == 0.1); /* the checkpoint's */
    CHECK_INT(c.config.finetune.task, TASK_CUSTOM);
    CHECK_INT(c.config.train.seed, 1);
    CHECK(c.state.best_step == c.state.step && c.state.elapsed_s == 0);
    checkpoint_close(&c);
}

/* The head is new: its dropout is the task's, not what a pretraining's config said of a head. */
static void test_head_is_not_taken_over(void) {
    task_write();
    require_run(run_pretrain(
        "other", RESUME_NEVER,
        OVERRIDES("train.steps=1", "model.head_dropout=0.3", "model.head_pooling=mean")));
    char init[800];
    snprintf(init, sizeof init, "finetune.init=%s", run_path("other", "last.ckpt"));
    require_run(run_finetune("run", RESUME_NEVER, OVERRIDES(init, "train.epochs=1")));
    Checkpoint c;
    REQUIRE(checkpoint_open(&c, run_path("run/seed-1", "best.ckpt"), NULL));
    CHECK(c.config.model.head_dropout == 0);
    CHECK(c.config.model.head_pooling == HEAD_POOLING_CLS);
    checkpoint_close(&c);
}

/* Before step 1 the encoder is the checkpoint's, bit by bit, and the head is the seed's. */
static void test_encoder_is_taken_over(void) {
    Config config;
    Finetune f;
    Checkpoint c;
    Err err = {0};
    task_write();
    log_quiet(true);
    task_config(&config, "run", OVERRIDES(task_init()));
    REQUIRE(finetune_open(&f, &config, &err));
    REQUIRE(checkpoint_open(&c, run_path("pre", "last.ckpt"), &err));
    real *weights = calloc(c.table.block_reals, sizeof *weights);
    real head[2][4] = {{0}};
    REQUIRE(weights && checkpoint_read(&c, &c.table, weights, NULL, NULL, &err));
    for (uint64_t seed = 1; seed <= 2; seed++) {
        f.trainer.blocks.adam_m[3] = 1; /* of an earlier seed */
        REQUIRE(finetune_begin_seed(&f, seed, &err));
        CHECK(f.trainer.blocks.adam_m[3] == 0);
        for (size_t i = 0; i < c.table.count; i++) {
            const Tensor *from = &c.table.items[i];
            const Tensor *to = param_table_find(&f.trainer.table, from->name);
            CHECK_MSG((to == NULL) == from->head, "%s", from->name);
            if (to)
                CHECK_MSG(!memcmp(weights + from->offset,
                                  f.trainer.blocks.weights.block + to->offset,
                                  from->count * sizeof(real)),
                          "%s differs", from->name);
        }
        memcpy(head[seed - 1], f.trainer.blocks.weights.class_dense_w, sizeof head[0]);
    }
    CHECK(head[0][0] != head[1][0] && head[0][1] != 0);
    free(weights);
    checkpoint_close(&c);
    finetune_close(&f);
    config_free(&config);
}

/* A config that says nothing of the model has the checkpoint's, and sizes that follow from it. */
static void test_model_of_checkpoint(void) {
    Config config;
    Finetune f;
    Err err = {0};
    char text[2000];
    task_write();
    log_quiet(true);
    snprintf(text, sizeof text,
             "data: {train: train.tsv, valid: dev.tsv}\ntrain: {batch: 100, recompute: "
             "ffn}\nfinetune: {task: custom, "
             "init: \"%s\", text: text, label: label}\n",
             run_path("pre", "last.ckpt"));
    REQUIRE(io_write_file(test_temp_path("bare.yaml"), text, strlen(text), &err));
    REQUIRE(config_load(&config, test_temp_path("bare.yaml"), NULL, 0, &err) &&
            config_resolve_data(&config, &err));
    CHECK_INT(config.train.micro_batch, 16); /* 8192 / 512 */
    REQUIRE(finetune_open(&f, &config, &err));
    CHECK(f.config.model.n == 24 && f.config.model.k[0] == 6 && f.config.model.layers == 1);
    CHECK(f.config.model.width == 16 && f.config.model.classes == 2 && f.config.model.vocab == 360);
    CHECK_INT(f.config.model.recompute, RECOMPUTE_FFN); /* of the training, not of the checkpoint */
    CHECK_INT(f.config.train.micro_batch, 100);         /* 8192 / 24 are more */
    CHECK_INT(f.trainer.micro_tokens, 2400);
    CHECK(f.config.model.dropout == 0.1 && f.config.tokenizer.type == TOKENIZER_BPE);
    finetune_close(&f);
    config_free(&config);
}

/* ---- seeds */

/* Equal seeds give equal bytes, whatever ran before them; different ones differ. */
static void test_seeds(void) {
    task_write();
    require_run(
        run_finetune("pair", RESUME_NEVER, OVERRIDES("finetune.seeds=2", "train.epochs=1")));
    require_run(
        run_finetune("again", RESUME_NEVER, OVERRIDES("finetune.seeds=2", "train.epochs=1")));
    require_run(run_finetune("second", RESUME_NEVER, OVERRIDES("train.seed=2", "train.epochs=1")));
    CHECK(same_metrics("pair/seed-1", "again/seed-1"));
    CHECK(same_metrics("pair/seed-2", "again/seed-2"));
    CHECK(same_metrics("pair/seed-2", "second/seed-2"));
    CHECK(same_file("pair/seed-2", "second/seed-2", "best.ckpt"));
    CHECK(!same_metrics("pair/seed-1", "pair/seed-2"));
    Config config;
    Err err = {0};
    REQUIRE(config_load(&config, run_path("pair/seed-2", "config.yaml"), NULL, 0, &err));
    CHECK(config.train.seed == 2 && config.finetune.seeds == 1);
    config_free(&config);
    REQUIRE(config_load(&config, run_path("pair", "config.yaml"), NULL, 0, &err));
    CHECK(config.train.seed == 1 && config.finetune.seeds == 2);
    config_free(&config);
}

static void test_mean_and_deviation(void) {
    FinetuneSeed seeds[3] = {{.score = {0.5, 0.25, 0.1, 1.0}},
                             {.score = {0.75, 0.25, 0.3, 2.0}},
                             {.score = {0.75, 0.5, 0.2, 6.0}}};
    FinetuneResult r = {.seeds = seeds, .count = 3, .metric = METRIC_ACCURACY};
    finetune_summarize(&r);
    CHECK_CLOSE(r.mean.accuracy, 2.0 / 3, 1e-15);
    CHECK_CLOSE(r.std.accuracy, sqrt((1.0 / 36 + 1.0 / 144 + 1.0 / 144) / 2), 1e-15);
    CHECK_CLOSE(r.mean.f1, 1.0 / 3, 1e-15);
    CHECK_CLOSE(r.mean.loss, 3, 0);
    CHECK_CLOSE(r.std.loss, sqrt(7), 1e-15);
    CHECK_CLOSE(r.std.mcc, 0.1, 1e-15);
    CHECK_INT(r.best, 1); /* of equals that of the lower loss */
    seeds[2].score.loss = 1.5;
    finetune_summarize(&r);
    CHECK_INT(r.best, 2);
    seeds[2].score.loss = 2;
    finetune_summarize(&r);
    CHECK_INT(r.best, 1); /* and then the first */
    r.metric = METRIC_F1;
    finetune_summarize(&r);
    CHECK_INT(r.best, 2);
    r.count = 1;
    finetune_summarize(&r);
    CHECK(isnan(r.std.accuracy) && r.mean.accuracy == 0.5 && r.best == 0);
    char path[] = "x";
    seeds[0].checkpoint = path;
    char *text = finetune_result_json(&r);
    CHECK_STR_CONTAINS(text, "\"std\":{\"accuracy\":null,");
    free(text);
}

/* ---- evaluations */

/* At the end of each epoch, where an update reaches beyond it too, and at the end of the budget;
 * best.ckpt is of the best metric, of equals that of the lowest loss. */
static void test_evaluations(void) {
    static const struct {
        const char *overrides[5];
        size_t steps[8];
    } rows[] = {
        {{"train.batch=150", "train.epochs=2.5"}, {3, 5, 6}}, /* 320, 640 and 800 of 150s */
        {{"train.steps=5", "train.eval_every=2"}, {2, 4, 5}},
        {{"train.steps=41", "finetune.metric=mcc"}, {20, 40, 41}},
    };
    task_write();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char run[16], folder[32];
        snprintf(run, sizeof run, "run%zu", i);
        snprintf(folder, sizeof folder, "%s/seed-1", run);
        require_run(run_finetune(run, RESUME_NEVER, rows[i].overrides));
        cJSON *lines = read_metrics(folder), *result = read_json(folder, "result.json");
        size_t found = 0;
        double best = -INFINITY, best_loss = INFINITY, best_step = 0;
        const cJSON *line;
        cJSON_ArrayForEach(line, lines) {
            if (isnan(number(line, "accuracy"))) continue;
            CHECK_INT(number(line, "step"), rows[i].steps[found]);
            double metric = number(line, i == 2 ? "mcc" : "accuracy");
            double loss = number(line, "valid_loss");
            if (metric > best || (metric == best && loss < best_loss))
                best = metric, best_loss = loss, best_step = number(line, "step");
            found++;
        }
        CHECK_INT(found, 3);
        CHECK_INT(number(result, "best_step"), best_step);
        CHECK(number(result, i == 2 ? "mcc" : "accuracy") == best);
        CHECK(number(result, "valid_loss") == best_loss);
        cJSON_Delete(lines);
        cJSON_Delete(result);
    }
}

/* The scores of best.ckpt, computed again from nothing but the file and the rows, are to the last
 * bit those of the log. */
static void test_best_comes_back(void) {
    task_write();
    require_run(
        run_finetune("run", RESUME_NEVER, OVERRIDES("optimizer.lr=3e-3", "train.epochs=2")));
    LoadedModel model;
    TaskFile file;
    TaskData data;
    Activations acts;
    Batch batch;
    ClassScore score;
    Config config;
    Err err = {0};
    log_quiet(true);
    task_config(&config, "run", NULL);
    REQUIRE(loaded_model_open(&model, run_path("run/seed-1", "best.ckpt"), &err));
    const Config *own = &model.checkpoint.config;
    size_t n = own->model.n, micro_batch = class_trainer_micro_batch(own);
    REQUIRE(task_file_read(&file, &own->finetune, &model.checkpoint.labels, &config.data.valid,
                           TASK_LABELS_NEEDED, &err));
    REQUIRE(task_data_encode(&data, &file, &own->finetune, model.tokenizer, n, &err));
    REQUIRE(activations_create(&acts, &own->model, train_most_sequences(own, micro_batch),
                               micro_batch * n, ACTS_INFERENCE, &err));
    REQUIRE(batch_create(&batch, micro_batch, n, &err));
    real *log_probs = calloc(2 * data.count, sizeof *log_probs);
    REQUIRE(class_eval_predict(log_probs, &acts, &batch, &model.params, &own->model, &data, &err));
    REQUIRE(class_eval_score(&score, log_probs, &data, 2, &err));
    cJSON *result = read_json("run/seed-1", "result.json");
    CHECK(score.accuracy == number(result, "accuracy") && score.f1 == number(result, "f1"));
    CHECK(score.mcc == number(result, "mcc"));
    CHECK_MSG(score.loss == number(result, "valid_loss"), "%.17g, logged %.17g", score.loss,
              number(result, "valid_loss"));
    CHECK(score.loss < 0.69); /* not of a model that knows nothing, whose digits would agree too */
    cJSON_Delete(result);
    free(log_probs);
    class_score_free(&score);
    batch_destroy(&batch);
    activations_destroy(&acts);
    task_data_free(&data);
    task_file_free(&file);
    loaded_model_close(&model);
    config_free(&config);
}

static void test_patience(void) {
    task_write();
    /* so small a rate changes no prediction: no metric is better than the first, whatever the loss
     * does */
    const char *const *o =
        OVERRIDES("optimizer.lr=1e-9", "train.epochs=9", "finetune.patience=2", "finetune.seeds=1");
    require_run(run_finetune("run", RESUME_NEVER, o));
    cJSON *result = read_json("run/seed-1", "result.json");
    CHECK_INT(number(result, "steps"), 3 * TASK_ROWS / 16);
    CHECK(cJSON_IsTrue(cJSON_GetObjectItem(result, "stopped_early")));
    cJSON_Delete(result);
}

/* ---- holdout */

static void test_holdout_is_a_share(void) {
    static const struct {
        size_t count;
        double share;
        size_t held;
    } rows[] = {{100, 0.25, 25}, {7, 0.01, 1}, {7, 0.999, 6}, {2, 0.5, 1}, {1000, 0.0996, 100}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t held = 0, first = 0;
        for (size_t r = 0; r < rows[i].count; r++) {
            bool is_held = finetune_is_held_out(r, rows[i].count, rows[i].share);
            held += is_held;
            first += is_held && r < rows[i].count / 2;
        }
        CHECK_INT(held, rows[i].held);
        /* spread over the file, which may be sorted by class */
        if (held >= 25) CHECK(first > held / 4 && first < held - held / 4);
    }
}

/* Every row is in one part, and the parts are the same for every seed. */
static void test_holdout_splits_rows(void) {
    Config config;
    Finetune f, whole;
    Err err = {0};
    task_write();
    log_quiet(true);
    const char *text = "data: {train: train.tsv}\nfinetune: {task: custom, init: none, text: text, "
                       "label: label, holdout: 0.3}\nmodel: {n: 24, k: 6, layers: 1, width: 16, "
                       "heads: 2, ffn: 32}\n";
    char tokenizer[800];
    snprintf(tokenizer, sizeof tokenizer, "tokenizer.model=%s",
             test_temp_path("prepared/run-bpe-360/tokenizer.model"));
    REQUIRE(io_write_file(test_temp_path("hold.yaml"), text, strlen(text), &err));
    const char *const overrides[] = {tokenizer, "train.seed=5"};
    for (size_t seed = 0; seed < 2; seed++) {
        REQUIRE(config_load(&config, test_temp_path("hold.yaml"), overrides, 1 + seed, &err) &&
                config_resolve_data(&config, &err));
        REQUIRE(finetune_open(&f, &config, &err));
        CHECK_INT(f.valid.count, TASK_ROWS * 3 / 10);
        CHECK_INT(f.train.count, TASK_ROWS - f.valid.count);
        Config all;
        task_config(&all, "run", NULL);
        REQUIRE(finetune_open(&whole, &all, &err));
        size_t at[2] = {0};
        for (size_t i = 0; i < whole.train.count; i++) {
            bool held = finetune_is_held_out(i, whole.train.count, 0.3);
            const TaskData *part = held ? &f.valid : &f.train;
            size_t row = at[held]++, length = task_data_length(&whole.train, i);
            REQUIRE(row < part->count && task_data_length(part, row) == length);
            CHECK(!memcmp(part->ids + part->start[row], whole.train.ids + whole.train.start[i],
                          length * sizeof *part->ids));
            CHECK_INT(part->labels[row], whole.train.labels[i]);
        }
        finetune_close(&whole);
        finetune_close(&f);
        config_free(&all);
        config_free(&config);
    }
}

/* ---- an update */

/* Gradients of an update do not depend on how it is cut, dropout included. */
static void test_micro_batches_add_up(void) {
    static const char *const sizes[] = {"train.micro_batch=16", "train.micro_batch=1",
                                        "train.micro_batch=3"};
    real *wanted = NULL;
    double wanted_loss = 0;
    Err err = {0};
    task_write();
    log_quiet(true);
    for (size_t i = 0; i < 3; i++) {
        Config config;
        Finetune f;
        task_config(&config, "run",
                    OVERRIDES(sizes[i], "model.dropout=0.2", "model.attention_dropout=0.2",
                              "model.head_dropout=0.3"));
        REQUIRE(finetune_open(&f, &config, &err) && finetune_begin_seed(&f, 1, &err));
        finetune_order(f.rows, &f, 0, 16);
        double loss = class_trainer_gradients(&f.trainer, f.rows, &f.train, 16, 7);
        size_t size = f.trainer.table.block_reals;
        const real *grads = f.trainer.blocks.grads.block;
        if (!wanted) {
            wanted = malloc(size * sizeof *wanted);
            REQUIRE(wanted);
            memcpy(wanted, grads, size * sizeof *wanted);
            wanted_loss = loss;
        }
        CHECK_CLOSE(loss, wanted_loss, 1e-5 * wanted_loss); /* float sums in another order */
        for (size_t t = 0; t < f.trainer.table.count; t++) {
            const Tensor *tensor = &f.trainer.table.items[t];
            CHECK_ARRAY_CLOSE(grads + tensor->offset, wanted + tensor->offset, tensor->count, 2e-5);
        }
        /* other dropout in another update */
        CHECK(class_trainer_gradients(&f.trainer, f.rows, &f.train, 16, 8) != loss);
        finetune_close(&f);
        config_free(&config);
    }
    free(wanted);
}

/* Each epoch has every row once, in an order of its own. */
static void test_order(void) {
    Config config;
    Finetune f;
    Err err = {0};
    task_write();
    log_quiet(true);
    task_config(&config, "run", NULL);
    REQUIRE(finetune_open(&f, &config, &err) && finetune_begin_seed(&f, 3, &err));
    size_t rows[2 * TASK_ROWS], seen[TASK_ROWS] = {0}, moved = 0, part[40];
    finetune_order(rows, &f, 0, 2 * TASK_ROWS);
    for (size_t i = 0; i < 2 * TASK_ROWS; i++) seen[rows[i]] += i < TASK_ROWS ? 1 : 100;
    for (size_t i = 0; i < TASK_ROWS; i++) {
        CHECK_INT(seen[i], 101);
        moved += rows[i] != rows[TASK_ROWS + i];
    }
    CHECK(moved > TASK_ROWS / 2);
    finetune_order(part, &f, TASK_ROWS - 20, 40); /* wherever one begins */
    CHECK(!memcmp(part, rows + TASK_ROWS - 20, sizeof part));
    finetune_close(&f);
    config_free(&config);
}

const Test tests_finetune[] = {
    {"learns_a_word", test_learns_a_word, TEST_FLOAT},
    {"from_a_checkpoint", test_from_a_checkpoint, TEST_FLOAT},
    {"head_is_not_taken_over", test_head_is_not_taken_over, TEST_FLOAT},
    {"encoder_is_taken_over", test_encoder_is_taken_over, 0},
    {"model_of_checkpoint", test_model_of_checkpoint, 0},
    {"seeds", test_seeds, TEST_FLOAT},
    {"mean_and_deviation", test_mean_and_deviation, 0},
    {"evaluations", test_evaluations, TEST_FLOAT},
    {"best_comes_back", test_best_comes_back, TEST_FLOAT},
    {"patience", test_patience, TEST_FLOAT},
    {"holdout_is_a_share", test_holdout_is_a_share, 0},
    {"holdout_splits_rows", test_holdout_splits_rows, TEST_FLOAT},
    {"micro_batches_add_up", test_micro_batches_add_up, 0},
    {"order", test_order, TEST_FLOAT},
    {0},
};
