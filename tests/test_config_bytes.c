/* Numbers of bytes with units, as train.memory takes them. */
#include <stdio.h>
#include <stdlib.h>

#include "config_fixture.h"
#include "harness.h"

static void test_bytes(void) {
    static const struct {
        const char *text, *shown;
        size_t wanted;
    } rows[] = {
        {"0", "0", 0},
        {"1000", "1000", 1000},
        {"5e3", "5000", 5000},
        {"3KiB", "3KiB", 3072},
        {"1536 KiB", "1536KiB", 1572864},
        {"1.5GiB", "1536MiB", 1610612736},
        {"2 GB", "1953125KiB", 2000000000},
        {"1TiB", "1TiB", (size_t)1 << 40},
        {"1.3KiB", "1331", 1331},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config c;
        char text[64];
        snprintf(text, sizeof text, "run: r\ntrain: {memory: %s}\n", rows[i].text);
        fixture_parse(&c, text);
        CHECK_INT(c.train.memory, rows[i].wanted);
        char *shown = config_key_value(&c, "train.memory");
        CHECK_STR(shown, rows[i].shown);
        free(shown);
        fixture_check_round_trip(&c);
        config_free(&c);
    }
}

static void test_refused(void) {
    static const char *const texts[] = {"8Gib",  "-1MiB",  "GiB", "1.5",   "9000TiB",
                                        "8GiBs", "8  GiB", "[1]", "1_0KiB"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Config c;
        Err err = {0};
        char text[64], wanted[64];
        snprintf(text, sizeof text, "train: {memory: %s}\n", texts[i]);
        bool read = config_from_yaml(&c, text, "text", &err);
        CHECK_MSG(!read, "accepted: %s", texts[i]);
        if (read) config_free(&c);
        snprintf(wanted, sizeof wanted, "train.memory = %s: w", texts[i]);
        CHECK_INT(err.code, ERR_CONFIG);
        CHECK_STR_CONTAINS(err.msg, wanted);
    }
}

const Test tests_config_bytes[] = {
    {"bytes", test_bytes, 0},
    {"refused", test_refused, 0},
    {0},
};
