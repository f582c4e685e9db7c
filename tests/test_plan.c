#include "plan.h"

#include <stdlib.h>

#include "activations.h"
#include "batch.h"
#include "harness.h"
#include "layer_keys.h"
#include "train_memory.h"

/* Two layers of sizes that all differ: n 11, width 12, 3 heads, ffn 20, vocabulary 37, k 5 and
 * 3. */
static ModelConfig config_small(void) {
    return (ModelConfig){.n = 11,
                         .k = {5, 3},
                         .scope = SCOPE_LAYER,
                         .layers = 2,
                         .width = 12,
                         .heads = 3,
                         .ffn = 20,
                         .vocab = 37};
}

static Config config_base(void) {
    Config config = {.train = {.batch = 8, .micro_batch = 4, .mask_rate = 0.15}};
    config.model = (ModelConfig){.n = 512,
                                 .scope = SCOPE_LAYER,
                                 .layers = 12,
                                 .width = 768,
                                 .heads = 12,
                                 .ffn = 3072,
                                 .vocab = 50000};
    for (size_t l = 0; l < config.model.layers; l++) config.model.k[l] = 128;
    return config;
}

static void check_model(const ModelConfig *model, size_t parameters, size_t projections) {
    Config config = config_base();
    config.model = *model;
    Plan plan;
    Err err = {0};
    if (!CHECK_MSG(plan_compute(&plan, &config, &err), "%s", err.msg)) return;
    CHECK_INT(plan.parameters, parameters);
    CHECK_INT(plan.projection_matrices, projections);
}

static void check_parameters(Scope scope, bool tie_kv, AttentionKind attention, size_t parameters,
                             size_t projections) {
    ModelConfig model = config_base().model;
    model.scope = scope;
    model.tie_kv = tie_kv;
    model.attention = attention;
    check_model(&model, parameters, projections);
}

/* RoBERTa-base with V = 50,000, and 65,536 parameters for each k x n matrix. */
static void test_parameters_of_sharing_modes(void) {
    check_parameters(SCOPE_HEAD, false, ATTENTION_LINFORMER, 143365712, 288);
    check_parameters(SCOPE_LAYER, false, ATTENTION_LINFORMER, 126064208, 24);
    check_parameters(SCOPE_LAYER, true, ATTENTION_LINFORMER, 125277776, 12);
    check_parameters(SCOPE_MODEL, true, ATTENTION_LINFORMER, 124556880, 1);
    check_parameters(SCOPE_LAYER, false, ATTENTION_FULL, 124491344, 0);
}

/* None to pool; taps of 4 tokens for the 64 columns of a head. */
static void test_parameters_of_poolings(void) {
    ModelConfig model = config_base().model;
    model.projection = PROJECTION_MEAN;
    check_model(&model, 124491344, 0);
    model.projection = PROJECTION_MAX;
    model.scope = SCOPE_MODEL;
    check_model(&model, 124491344, 0);
    model.projection = PROJECTION_CONV;
    check_model(&model, 124491344 + 2 * 256, 2);
    model.scope = SCOPE_LAYER;
    check_model(&model, 124491344 + 24 * 256, 24);
    model.tie_kv = true;
    check_model(&model, 124491344 + 12 * 256, 12);
    model.scope = SCOPE_HEAD;
    check_model(&model, 124491344 + 144 * 256, 144);
}

/* By hand, sequences of 7 and 11 tokens, 4 of the 18 masked:
 *   queries and output 2*18*12*24, feed-forward 2*18*12*40, both layers          55,296
 *   compress first (2*5 and 2*3 rows are fewer than 18):
 *     sequence projections 2*2*18*12*5 and *3                                     6,912
 *     key and value maps 2*10*12*24 and 2*6*12*24                                 9,216
 *   scores and sums 2*2*18*12*5 and *3                                            6,912
 *   head 2*4*12*(12+37)                                                           4,704 */
static void test_flops_by_hand(void) {
    const size_t lengths[] = {7, 11};
    ModelConfig config = config_small();
    CHECK_CLOSE(plan_forward_flops(&config, lengths, 2, 4), 83040, 0);
    CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 4), 3 * 83040, 0);

    config.tie_kv = true; /* one compression for keys and values */
    CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 4), 3 * (83040 - 3456), 0);
    config.tie_kv = false;

    config.projection = PROJECTION_FIXED; /* no gradient of E and F */
    CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 4), 3 * 83040 - 6912, 0);
    config.projection = PROJECTION_LINEAR;

    config.scope = SCOPE_HEAD; /* key and value maps of all 18 rows: 2*18*12*24 a layer */
    CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 4), 3 * (83040 - 9216 + 20736), 0);

    config.attention = ATTENTION_FULL; /* scores and sums 2*2*12*(7*7 + 11*11) a layer */
    CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 4), 3 * (55296 + 20736 + 16320 + 4704), 0);
}

/* The same sequences in windows.  k = 5 has 4 of them for the 7 tokens (they begin at 0, 2, 4, 6
 * and 8) and all 5 for the 11; k = 3 has 2 (0, 3 and 7) and 3:
 *   key and value maps of 9 and 5 rows for a mean, 2*14*12*24                     8,064
 *   of all 18 rows for the others, 2*36*12*24                                    20,736
 *   scores and sums 4*12*(7*4 + 11*5 + 7*2 + 11*3)                                6,240
 *   a convolution's taps, keys and values of both layers, 2*2*2*18*12             1,728 */
static void test_flops_of_poolings(void) {
    const size_t lengths[] = {7, 11};
    ModelConfig config = config_small();
    double rest = 55296 + 6240 + 4704;
    for (Scope scope = SCOPE_HEAD; scope <= SCOPE_MODEL; scope++) {
        config.scope = scope;
        config.tie_kv = scope != SCOPE_LAYER;
        config.projection = PROJECTION_MEAN;
        CHECK_CLOSE(plan_forward_flops(&config, lengths, 2, 4), rest + 8064, 0);
        CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 4), 3 * (rest + 8064), 0);
        config.projection = PROJECTION_MAX;
        CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 4), 3 * (rest + 20736), 0);
        config.projection = PROJECTION_CONV;
        CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 4), 3 * (rest + 20736 + 1728), 0);
    }
}

/* A classification head on each of the two sequences, 2*2*12*(12+9), whatever is masked. */
static void test_flops_of_classifiers(void) {
    const size_t lengths[] = {7, 11};
    ModelConfig config = config_small();
    config.classes = 9;
    CHECK_CLOSE(plan_forward_flops(&config, lengths, 2, 4), 83040 - 4704 + 1008, 0);
    CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 0), 3 * (83040 - 4704 + 1008), 0);
}

/* Sequences of 2 and 3 tokens, one masked: k exceeds them, so keys and values are mapped first.
 * Widths of heads of 4: both are short in the layer of 5 and in that of 3, and have products of T T
 * with E, F, keys and values, 2*2*(2*2 + 3*3)*3*(4+5) and (4+3). */
static void test_flops_of_short_sequences(void) {
    const size_t lengths[] = {2, 3};
    ModelConfig config = config_small();
    CHECK_INT(layer_short_length(&config, 0, 2, 5), 3);
    CHECK_INT(layer_short_length(&config, 1, 2, 5), 3);
    double forward = 15360 + 5760 + 1404 + 1092 + 1176;
    CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 1), 3 * forward, 0);
    config.projection = PROJECTION_FIXED; /* no gradients of E and F: 2*2*13*3*5 and 3 */
    CHECK_CLOSE(plan_step_flops(&config, lengths, 2, 1), 3 * forward - 780 - 468, 0);
}

/* The count follows the order that the model takes, also where the rows are equal. */
static void test_flops_follow_the_model(void) {
    ModelConfig config = config_small();
    config.tie_kv =
        true; /* where rows are equal the orders differ in the number of compressions only */
    size_t compressed = 0, ties = 0, brief = 0;
    for (size_t length = 1; length <= 11; length++) {
        const size_t lengths[] = {length, 1 + length / 2};
        Batch batch = {.B = 2, .total = lengths[0] + lengths[1]};
        double wanted = 0, total = (double)batch.total;
        for (size_t l = 0; l < 2; l++) {
            double P = (double)config.k[l];
            bool compress = layer_compresses_first(&config, l, batch.B, batch.total);
            compressed += compress;
            ties += batch.total == 2 * config.k[l];
            wanted +=
                2 * 12 * (total * (24 + 40) + 24 * (compress ? 2 * P : total)); /* linear maps */
            for (size_t b = 0; b < 2; b++) { /* projections, attention */
                double T = (double)lengths[b];
                bool is_short =
                    lengths[b] <= layer_short_length(&config, l, batch.B, batch.total);
                brief += is_short;
                wanted += is_short ? 4 * T * T * 3 * (4 + P)
                                   : 2 * T * P * 12 * (compress ? 1 : 2) + 4 * T * P * 12;
            }
        }
        CHECK_CLOSE(plan_forward_flops(&config, lengths, 2, 0), wanted, 0);
    }
    CHECK(compressed > 0 && compressed < 22 && ties > 0 &&
          brief > 0); /* all orders, and a border between them */
}

static void test_memory_adds_up(void) {
    Config config = config_base();
    Plan plan, more;
    REQUIRE(plan_compute(&plan, &config, NULL));
    CHECK_INT(plan.micro_batch, 4);
    CHECK_INT(plan.memory_bytes, plan.weight_bytes + plan.grad_bytes + plan.moment_bytes +
                                     plan.activation_bytes + plan.batch_bytes);
    CHECK(plan.weight_bytes >= plan.parameters * sizeof(real));
    CHECK_CLOSE((double)plan.weight_bytes, (double)(plan.parameters * sizeof(real)),
                256 * 64); /* alignment gaps */
    CHECK_INT(plan.moment_bytes, 2 * plan.weight_bytes);

    config.train.micro_batch = 0; /* the whole batch at once */
    REQUIRE(plan_compute(&more, &config, NULL));
    CHECK_INT(more.micro_batch, 8);
    CHECK(more.activation_bytes > plan.activation_bytes);
    config.optimizer.name = OPTIMIZER_SGD;
    REQUIRE(plan_compute(&more, &config, NULL));
    CHECK_INT(more.moment_bytes, more.weight_bytes);
    /* the cost of a token does not depend on the batch: 0.15 * 4 * 511 and 0.15 * 8 * 511 round
     * differently */
    CHECK_CLOSE(plan.flops_per_token / more.flops_per_token, 1, 1e-3);
}

/* Short sequences are more for the same tokens, each with its k rows of projected keys: as many as
 * have a row for each token. */
static void test_memory_of_pieces(void) {
    Config config = config_base();
    Plan plan;
    size_t whole, wanted;
    REQUIRE(activations_bytes(&whole, &config.model, 4, 4 * 512, ACTS_TRAINING, NULL));
    config.train.short_rate = 0.01;
    config.model.k[7] = 256;
    REQUIRE(plan_compute(&plan, &config, NULL));
    REQUIRE(activations_bytes(&wanted, &config.model, 8, 4 * 512, ACTS_TRAINING, NULL));
    CHECK_INT(plan.activation_bytes, wanted);
    config.model.k[7] = 128;
    REQUIRE(plan_compute(&plan, &config, NULL));
    REQUIRE(activations_bytes(&wanted, &config.model, 16, 4 * 512, ACTS_TRAINING, NULL));
    CHECK_INT(plan.activation_bytes, wanted);
    CHECK(wanted > whole && wanted < whole + whole / 2);
    config.train.short_rate = 0;
    REQUIRE(plan_compute(&plan, &config, NULL));
    CHECK_INT(plan.activation_bytes, whole);

    CHECK_INT(train_most_sequences(&config, 3), 3);
    config.train.short_rate = 1;
    CHECK_INT(train_most_sequences(&config, 3), 12);
    config.model.k[0] = 512;
    CHECK_INT(train_most_sequences(&config, 3), 3);
    config.model.projection = PROJECTION_MAX; /* no more keys than tokens: pieces of 8 tokens */
    CHECK_INT(train_most_sequences(&config, 3), 3 * 64);
    config.model.projection = PROJECTION_LINEAR;
    config.model.attention = ATTENTION_FULL; /* nor there */
    CHECK_INT(train_most_sequences(&config, 3), 3 * 64);
}

/* A fine-tuning has room for as many texts as their keys leave, but for no more than an update has:
 * else a large batch would take memory that no train.micro_batch could lower. */
static void test_sequences_of_tasks(void) {
    Config config = config_base();
    config.finetune.task = TASK_SST2;
    config.train.batch = 32;
    CHECK_INT(train_most_sequences(&config, 3), 12);
    CHECK_INT(train_most_sequences(&config, 16), 32);
    config.model.k[0] = 512;
    CHECK_INT(train_most_sequences(&config, 3), 3);
    config.model.attention = ATTENTION_FULL;
    CHECK_INT(train_most_sequences(&config, 3), 32);
}

static void test_overflow_is_refused(void) {
    Config config = config_base();
    config.train.micro_batch = SIZE_MAX / 256;
    Plan plan;
    Err err = {0};
    CHECK(!plan_compute(&plan, &config, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "address space");
}

static void test_budget_tokens(void) {
    Config config = config_base();
    config.train.budget = 3;
    CHECK_CLOSE(plan_budget_tokens(&config, 0, 0), 3 * 8 * 512, 0);
    config.train.budget_unit = BUDGET_EPOCHS;
    CHECK_CLOSE(plan_budget_tokens(&config, 1000, 0), 3000, 0);
    CHECK_CLOSE(plan_budget_tokens(&config, 0, 0), 0, 0);
    config.train.budget_unit = BUDGET_TOKENS;
    CHECK_CLOSE(plan_budget_tokens(&config, 0, 0), 3, 0);
    config.train.budget_unit = BUDGET_HOURS;
    CHECK_CLOSE(plan_budget_tokens(&config, 0, 10), 3 * 3600 * 10, 0);
}

const Test tests_plan[] = {
    {"parameters_of_sharing_modes", test_parameters_of_sharing_modes, 0},
    {"parameters_of_poolings", test_parameters_of_poolings, 0},
    {"flops_by_hand", test_flops_by_hand, 0},
    {"flops_of_poolings", test_flops_of_poolings, 0},
    {"flops_of_classifiers", test_flops_of_classifiers, 0},
    {"flops_of_short_sequences", test_flops_of_short_sequences, 0},
    {"flops_follow_the_model", test_flops_follow_the_model, 0},
    {"memory_adds_up", test_memory_adds_up, 0},
    {"memory_of_pieces", test_memory_of_pieces, 0},
    {"sequences_of_tasks", test_sequences_of_tasks, 0},
    {"overflow_is_refused", test_overflow_is_refused, 0},
    {"budget_tokens", test_budget_tokens, 0},
    {0},
};
