#include "per_layer_k.h"

#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "harness.h"
#include "io.h"

enum { LENGTH = 8 };

/* Three layers: flat, falling, and one singular value that is nearly all. */
static const double CURVES[3 * LENGTH] = {0.125, 0.25, 0.375, 0.5,  0.625, 0.75, 0.875, 1, /* */
                                          0.5,   0.75, 0.85,  0.92, 0.96,  0.98, 0.99,  1, /* */
                                          0.95,  0.96, 0.97,  0.98, 0.99,  0.99, 0.99,  1};

static void check_k(const PerLayerK *k, size_t a, size_t b, size_t c) {
    const size_t want[] = {a, b, c};
    for (size_t l = 0; l < 3; l++) {
        CHECK_INT(k->k[l], want[l]);
        size_t last = want[l] < LENGTH ? want[l] : LENGTH;
        CHECK_CLOSE(k->share[l], CURVES[l * LENGTH + last - 1], 0);
    }
    CHECK_INT(k->total, a + b + c);
}

static void test_reach(void) {
    PerLayerK k;
    per_layer_k_reach(&k, CURVES, 3, LENGTH, LENGTH, 0.9, 1);
    check_k(&k, 8, 4, 1);
    per_layer_k_reach(&k, CURVES, 3, LENGTH, LENGTH, 0.5, 1);
    check_k(&k, 4, 1, 1); /* exactly the share is enough */
    per_layer_k_reach(&k, CURVES, 3, LENGTH, LENGTH, 0.5, 3);
    check_k(&k, 6, 3, 3);
    per_layer_k_reach(&k, CURVES, 3, LENGTH, LENGTH, 0.9, 3);
    check_k(&k, 8, 6, 3); /* 9 is above n */
    per_layer_k_reach(&k, CURVES, 3, LENGTH, LENGTH, 1e-6, 1);
    check_k(&k, 1, 1, 1);
    per_layer_k_reach(&k, CURVES, 3, LENGTH, LENGTH, 1, 1);
    check_k(&k, 8, 8, 8);
}

/* Sums end at 1 up to rounding; curves of a Linformer end at its own k. */
static void test_reach_all(void) {
    static const double curve[] = {0.6, 0.9, 1 - 1e-15, 1 - 1e-15};
    PerLayerK k;
    per_layer_k_reach(&k, curve, 1, 4, 50, 1, 1);
    CHECK_INT(k.k[0], 3);
    CHECK_INT(k.n, 50);
}

static void test_split(void) {
    PerLayerK k;
    Err err = {0};
    REQUIRE(per_layer_k_check_total(3, LENGTH, 12, 1, &err));
    per_layer_k_split(&k, CURVES, 3, LENGTH, LENGTH, 3, 1);
    check_k(&k, 1, 1, 1);
    per_layer_k_split(&k, CURVES, 3, LENGTH, LENGTH, 7, 1);
    check_k(&k, 4, 2, 1); /* both at 0.5: the one with the smaller k goes on */
    double swapped[2 * LENGTH];
    memcpy(swapped, CURVES + LENGTH, LENGTH * sizeof *swapped);
    memcpy(swapped + LENGTH, CURVES, LENGTH * sizeof *swapped);
    per_layer_k_split(&k, swapped, 2, LENGTH, LENGTH, 6, 1);
    CHECK_INT(k.k[0], 2); /* whichever comes first */
    per_layer_k_split(&k, CURVES, 3, LENGTH, LENGTH, 8, 1);
    check_k(&k, 5, 2, 1);
    per_layer_k_split(&k, CURVES, 3, LENGTH, LENGTH, 12, 1);
    check_k(&k, 7, 4, 1);
    per_layer_k_split(&k, CURVES, 3, LENGTH, LENGTH, 24, 1);
    check_k(&k, 8, 8, 8);
    per_layer_k_split(&k, CURVES, 3, LENGTH, LENGTH, 15, 3);
    check_k(&k, 6, 6, 3); /* the first layer cannot grow: 9 is above n */
}

/* No list of the same total has a higher lowest share. */
static void test_split_is_best(void) {
    for (size_t total = 3; total <= 24; total++) {
        PerLayerK k;
        double best = 0, lowest = 1;
        per_layer_k_split(&k, CURVES, 3, LENGTH, LENGTH, total, 1);
        CHECK_INT(k.total, total);
        for (size_t l = 0; l < 3; l++) lowest = k.share[l] < lowest ? k.share[l] : lowest;
        for (size_t a = 1; a <= LENGTH; a++)
            for (size_t b = 1; b <= LENGTH; b++) {
                if (a + b >= total || total - a - b > LENGTH) continue;
                double shares[] = {CURVES[a - 1], CURVES[LENGTH + b - 1],
                                   CURVES[2 * LENGTH + total - a - b - 1]};
                double least = shares[0] < shares[1] ? shares[0] : shares[1];
                least = least < shares[2] ? least : shares[2];
                best = least > best ? least : best;
            }
        CHECK_CLOSE(lowest, best, 0);
    }
}

static void test_totals_refused(void) {
    static const struct {
        size_t total, multiple;
        const char *text;
    } cases[] = {{2, 1, "a total k of 2: wanted a multiple of 1 from 3 to 24"},
                 {25, 1, "from 3 to 24, for 3 layers of n = 8"},
                 {16, 3, "a multiple of 3 from 9 to 18"},
                 {21, 3, "from 9 to 18"},
                 {27, 9, "multiples of 9: k is at most n = 8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Err err = {0};
        CHECK(!per_layer_k_check_total(3, LENGTH, cases[i].total, cases[i].multiple, &err));
        CHECK_INT(err.code, ERR_CONFIG);
        CHECK_STR_CONTAINS(err.msg, cases[i].text);
    }
    CHECK(per_layer_k_check_total(3, LENGTH, 18, 3, NULL));
}

static void test_heads(void) {
    double shares[] = {0.2, 0.6, 1, 0.8, 0.9, 1 /* layer 0 */, 0.5, 0.7, 1, 0.3, 0.9, 1};
    Spectrum s = {.layers = 2, .heads = 2, .n = 3};
    SpectrumCurves heads = {.length = 3, .share = shares};
    double curves[6];
    static const double mean[] = {0.5, 0.75, 1, 0.4, 0.8, 1}, lowest[] = {0.2, 0.6, 1, 0.3, 0.7, 1};
    per_layer_k_curves(curves, &s, &heads, HEADS_MEAN);
    for (size_t i = 0; i < 6; i++) CHECK_CLOSE(curves[i], mean[i], 1e-15);
    per_layer_k_curves(curves, &s, &heads, HEADS_EACH);
    for (size_t i = 0; i < 6; i++) CHECK_CLOSE(curves[i], lowest[i], 0);
}

/* What is written is a config, of these keys and no others, whatever the comment holds. */
static void test_written_config(void) {
    static const char origin[] = "from some\x01place: [\nsecond \"line\" # ünd\tmore";
    PerLayerK k;
    Config config;
    Bytes bytes;
    Err err = {0};
    const char *path = test_temp_path("k.yaml");
    per_layer_k_reach(&k, CURVES, 3, LENGTH, LENGTH, 0.9, 1);
    REQUIRE(per_layer_k_write(path, &k, origin, &err));
    REQUIRE(io_read_file(&bytes, path, 1 << 16, &err));
    CHECK_STR_CONTAINS((const char *)bytes.data,
                       "# from some place: [\n# second \"line\" # ünd more\n");
    CHECK_STR_CONTAINS((const char *)bytes.data, "# Sum of k: 13;");
    CHECK_STR_CONTAINS((const char *)bytes.data, "alike: k = 4.333333333");
    CHECK_STR_CONTAINS((const char *)bytes.data, "control: [1, 4, 8]\n");
    io_bytes_free(&bytes);
    static const char *const overrides[] = {"data.train=x.txt"};
    if (CHECK_MSG(config_load(&config, path, overrides, 1, &err), "%s", err.msg)) {
        CHECK_INT(config.model.attention, ATTENTION_LINFORMER);
        CHECK_INT(config.model.n, LENGTH);
        CHECK_INT(config.model.layers, 3);
        for (size_t l = 0; l < 3; l++) CHECK_INT(config.model.k[l], k.k[l]);
        for (size_t i = 0; config_key_path(i); i++) {
            const char *key = config_key_path(i);
            bool wanted = !strcmp(key, "model.attention") || !strcmp(key, "model.n") ||
                          !strcmp(key, "model.layers") || !strcmp(key, "model.k") ||
                          !strcmp(key, "data.train");
            CHECK_MSG(config_is_given(&config, key) == wanted, "%s", key);
        }
        config_free(&config);
    }
    CHECK(!per_layer_k_write(test_temp_path("none/k.yaml"), &k, origin, &err));
    CHECK_STR_CONTAINS(err.msg, "none/k.yaml");
}

const Test tests_per_layer_k[] = {
    {"reach", test_reach, TEST_FLOAT},
    {"reach_all", test_reach_all, TEST_FLOAT},
    {"split", test_split, TEST_FLOAT},
    {"split_is_best", test_split_is_best, TEST_FLOAT},
    {"totals_refused", test_totals_refused, TEST_FLOAT},
    {"heads", test_heads, TEST_FLOAT},
    {"written_config", test_written_config, TEST_FLOAT},
    {0},
};
