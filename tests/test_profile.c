#include "profile.h"

#include <string.h>

#include "clock.h"
#include "harness.h"
#include "layer_keys.h"
#include "mlm_head.h"
#include "model_fixture.h"
#include "plan.h"

static void spend(double seconds) {
    double end = clock_now_s() + seconds;
    while (clock_now_s() < end) {}
}

/* Every moment between the first reading and the last belongs to one part. */
static void test_laps_add_up(void) {
    Profile p = {0};
    double begin = clock_now_s();
    profile_start(&p);
    spend(0.02);
    profile_lap(&p, PROFILE_FF1, 10, 1);
    profile_lap(&p, PROFILE_LOSS, 0, 5);
    spend(0.001);
    profile_lap(&p, PROFILE_FF1, 3, 2);
    double all = clock_now_s() - begin;
    CHECK(p.parts[PROFILE_FF1].seconds >= 0.021);
    CHECK(profile_seconds(&p) <= all && profile_seconds(&p) >= all - 0.01);
    CHECK_INT(p.parts[PROFILE_FF1].laps, 2);
    CHECK_CLOSE(p.parts[PROFILE_FF1].operations, 13, 0);
    CHECK_CLOSE(p.parts[PROFILE_FF1].bytes, 3, 0);
    CHECK_CLOSE(p.parts[PROFILE_LOSS].bytes, 5, 0);

    spend(0.02); /* belongs to nobody */
    profile_start(&p);
    profile_lap(&p, PROFILE_LOSS, 0, 0);
    CHECK(profile_seconds(&p) <= all + 0.01);
    profile_clear(&p);
    CHECK_CLOSE(profile_seconds(&p), 0, 0);
    CHECK_INT(p.parts[PROFILE_FF1].laps, 0);

    profile_start(NULL);
    profile_lap(NULL, PROFILE_FF1, 1, 1);
    profile_clear(NULL);
    CHECK_CLOSE(profile_seconds(NULL), 0, 0);
}

static void test_description(void) {
    Profile p = {0};
    char text[512], small[12];
    profile_describe(text, sizeof text, &p);
    CHECK_STR(text, "nothing");
    p.parts[PROFILE_DATA].seconds = 0.25;
    p.parts[PROFILE_FF2].seconds = 0.5;
    p.parts[PROFILE_LOSS].seconds = 0.25;
    profile_describe(text, sizeof text, &p);
    CHECK_STR(text, "ff2 50.0%, data 25.0%, loss 25.0%");
    profile_describe(small, sizeof small, &p);
    CHECK_STR(small, "ff2 50.0%, ");
    for (size_t i = 0; i < PROFILE_PARTS; i++) p.parts[i].seconds = 1;
    profile_describe(text, sizeof text, &p);
    for (ProfilePart i = 0; i < PROFILE_PARTS; i++) CHECK_STR_CONTAINS(text, profile_part_name(i));
}

/* Every product of a step is recorded once: what `plan` counts, and what the backward pass of
 * attention computes again: the scores, one more product beside the four of its gradient; of short
 * sequences q k^T, the scores and the product of probabilities and F. */
static void check_step(ModelConfig config) {
    const size_t lengths[] = {11, 7, 2, 10};
    enum { B = 4, TOTAL = 30 };
    Model m;
    Batch batch;
    Profile profile = {0};
    model_create(&m, &config, B, TOTAL, ACTS_TRAINING);
    model_batch_create(&batch, lengths, B, config.vocab, test_seed());
    if (config.classes) model_batch_classify(&batch, config.classes, test_seed());
    m.acts.profile = &profile;
    profile_start(&profile);
    model_backward(&m, &batch, 1);
    double done = 0, again = 0;
    for (ProfilePart i = 0; i < PROFILE_PARTS; i++) {
        done += profile.parts[i].operations;
        CHECK(profile_part_is_product(i) || profile.parts[i].operations == 0);
        CHECK(profile.parts[i].laps == 0 || profile.parts[i].bytes > 0);
    }
    for (size_t l = 0; l < config.layers; l++) {
        size_t longer_than = layer_short_length(&config, l, B, TOTAL);
        for (size_t b = 0; b < B; b++) {
            size_t T = lengths[b], C = config.width, P = config.k[l];
            size_t keys = layer_key_rows(&config, l, T);
            again +=
                (double)(2 * T * (T > longer_than ? keys * C : T * (C + 2 * config.heads * P)));
        }
    }
    CHECK_CLOSE(done - again, plan_step_flops(&config, lengths, B, batch.masked), 0);
    CHECK_INT(profile.parts[PROFILE_ATTENTION].laps, 2 * config.layers);
    CHECK(profile.parts[PROFILE_DECODER].laps == 0 || config.classes == 0);
    model_batch_destroy(&batch);
    model_destroy(&m);
}

static void test_operations_are_those_planned(void) {
    ModelConfig config = model_config_tiny();
    check_step(config);
    config.norm = NORM_PRE;
    config.tie_kv = true;
    check_step(config);
    config.projection = PROJECTION_FIXED;
    config.classes = 3;
    check_step(config);
    config.scope = SCOPE_HEAD;
    check_step(config);
    for (size_t i = 0; i < MODEL_POOLINGS; i++) {
        model_set_pooling(&config, i);
        check_step(config);
    }
    config.attention = ATTENTION_FULL;
    check_step(config);
}

const Test tests_profile[] = {
    {"laps_add_up", test_laps_add_up, 0},
    {"description", test_description, 0},
    {"operations_are_those_planned", test_operations_are_those_planned, 0},
    {0},
};
