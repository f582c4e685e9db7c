#include "bench.h"

#include "../src/lab/bench_measure.h"
#include "harness.h"
#include "plan.h"

static void test_median(void) {
    double odd[] = {5, 1, 3}, even[] = {4, 1, 2, 9};
    CHECK_CLOSE(bench_median(odd, 3), 3, 0);
    CHECK_CLOSE(bench_median(even, 4), 3, 0);
    CHECK_CLOSE(even[0], 1, 0); /* sorted */
}

static void count_call(void *context) {
    ++*(size_t *)context;
}

/* At least five timed calls and one before, however short the time. */
static void test_repeats(void) {
    size_t calls = 0;
    CHECK(bench_measure(count_call, &calls, 0) >= 0);
    CHECK_INT(calls, 6);
    calls = 0;
    bench_measure(count_call, &calls, 10);
    CHECK_INT(calls, 201);
}

static Config config_small(void) {
    Config config = {.train = {.batch = 4, .micro_batch = 2, .mask_rate = 0.15, .seed = 3}};
    config.model = (ModelConfig){.n = 33,
                                 .k = {9, 7},
                                 .scope = SCOPE_LAYER,
                                 .layers = 2,
                                 .width = 24,
                                 .heads = 3,
                                 .ffn = 40,
                                 .vocab = 300,
                                 .proj_init_std = 0.02,
                                 .dropout = 0.1,
                                 .attention_dropout = 0.1};
    config.optimizer = (OptimizerConfig){
        .lr = 3e-3, .position_lr = 1, .proj_lr = 1, .betas = {0.9, 0.98}, .eps = 1e-6, .clip = 1};
    return config;
}

/* Real steps: the loss starts at ln V and falls, because the batch stays the same and is learned by
 * heart. */
static void test_step(void) {
    Config config = config_small();
    config.train.short_rate = 1; /* of no effect here */
    const BenchStepOptions options = {.sequences = 3, .steps = 150, .warmup = 1, .peak_size = 128};
    BenchStep s;
    Err err = {0};
    if (!CHECK_MSG(bench_step(&s, &config, &options, &err), "%s", err.msg)) return;
    CHECK_INT(s.sequences, 3);
    CHECK_INT(s.tokens, 3 * 33);
    CHECK_INT(s.steps, 150);
    CHECK(s.masked >= 3 * 4 && s.masked <= 3 * 5); /* 0.15 * 32 a sequence, rounded up or down */
    CHECK_CLOSE(s.loss_first, log(300), 0.1);
    CHECK(s.loss_last < 0.1); /* 0.02; with labels at wrong rows 0.2 */

    const size_t lengths[] = {33, 33, 33};
    CHECK_CLOSE(s.gflops * s.step_s * 1e9 / plan_step_flops(&config.model, lengths, 3, s.masked), 1,
                1e-9);
    CHECK_CLOSE(s.tokens_per_s * s.step_s, 99, 1e-6);
    CHECK_CLOSE(s.fraction_of_peak, s.gflops / s.peak_gflops, 1e-12);
    CHECK(s.step_min_s <= s.step_s && s.step_s <= s.step_max_s);
    CHECK(s.peak_gflops > 0.1 && s.peak_rss > s.start_rss / 2);

    /* the parts make up the measured steps */
    CHECK(profile_seconds(&s.profile) >= 150 * s.step_min_s * 0.99);
    CHECK(profile_seconds(&s.profile) <= 150 * s.step_max_s);
    CHECK_INT(s.profile.parts[PROFILE_OPTIMIZER].laps, 2 * 150);
    CHECK_INT(s.profile.parts[PROFILE_FF1].laps, 2 * 2 * 150);
    CHECK_CLOSE(s.memory_peak, 0, 0);

    Plan plan;
    config.train.micro_batch = 3;
    config.train.short_rate = 0;
    REQUIRE(plan_compute(&plan, &config, NULL));
    CHECK_INT(s.predicted_bytes, plan.memory_bytes);
}

static void test_memory_peak(void) {
    Config config = config_small();
    const BenchStepOptions options = {.steps = 2, .peak_size = 128, .profile = true};
    BenchStep s;
    Err err = {0};
    if (!CHECK_MSG(bench_step(&s, &config, &options, &err), "%s", err.msg)) return;
    CHECK(s.memory_peak > 0.01 && s.memory_peak < 1e5);
}

static void test_step_without_masks(void) {
    Config config = config_small();
    config.train.mask_rate = 1e-9;
    BenchStep s;
    Err err = {0};
    const BenchStepOptions options = {.steps = 1};
    CHECK(!bench_step(&s, &config, &options, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "mask_rate");
}

const Test tests_bench[] = {
    {"median", test_median, 0},
    {"repeats", test_repeats, 0},
    {"step", test_step, 0},
    {"memory_peak", test_memory_peak, 0},
    {"step_without_masks", test_step_without_masks, TEST_FLOAT},
    {0},
};
