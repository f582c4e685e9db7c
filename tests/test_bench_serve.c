#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "checkpoint.h"
#include "harness.h"
#include "plan.h"
#include "threads.h"

static const char YAML[] = "model: {n: 20, k: 6, layers: 2, width: 24, heads: 3, ffn: 40, "
                           "dropout: 0, attention_dropout: 0}\n"
                           "train: {steps: 10, batch: 4, seed: 7}\n"
                           "data: {train: nothing.txt}\n"
                           "optimizer: {lr: 1e-2}\n";

static void config_make(Config *config) {
    Err err = {0};
    REQUIRE(config_from_yaml(config, YAML, "test", &err));
    config_set_vocab(config, 300);
}

/* Answers to the commands, a line each; the greeting is the first. */
static size_t serve(cJSON **answers, size_t most, const char *commands, bool training, bool *ok,
                    Err *err) {
    Config config;
    static char line[1 << 16];
    FILE *in = tmpfile(), *out = tmpfile();
    REQUIRE(in && out);
    fputs(commands, in);
    rewind(in);
    config_make(&config);
    threads_set(1);
    *ok = bench_serve(in, out, &config, 3, training, err);
    rewind(out);
    size_t count = 0;
    while (count < most && fgets(line, sizeof line, out)) {
        answers[count] = cJSON_Parse(line);
        REQUIRE(answers[count] != NULL);
        count++;
    }
    fclose(in);
    fclose(out);
    config_free(&config);
    return count;
}

static double number(const cJSON *object, const char *name) {
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    REQUIRE(cJSON_IsNumber(member));
    return member->valuedouble;
}

static int length(const cJSON *object, const char *name) {
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(object, name));
}

static void delete_all(cJSON **answers, size_t count) {
    for (size_t i = 0; i < count; i++) cJSON_Delete(answers[i]);
}

/* The same batch every time, so that the loss falls; a checkpoint that opens, of the weights as
 * they are when it is asked for. */
static void test_training(void) {
    char commands[512];
    snprintf(commands, sizeof commands, "batch\nsave %s\nstep\nstep\nstep\nsave %s\nmemory\n",
             test_temp_path("first.ckpt"), test_temp_path("last.ckpt"));
    cJSON *a[16] = {0};
    Err err = {0};
    bool ok;
    size_t count = serve(a, 16, commands, true, &ok, &err);
    if (!CHECK_MSG(ok && count == 8, "%zu answers: %s", count, err.msg)) return;
    CHECK_CLOSE(number(a[0], "tokens"), 60, 0);
    CHECK_INT(length(a[1], "ids"), 60);
    CHECK_INT(length(a[1], "labels"), (int)number(a[0], "masked"));
    CHECK_INT(length(a[1], "masked_rows"), (int)number(a[0], "masked"));
    CHECK_CLOSE(number(a[3], "loss"), log(300), 0.1);
    CHECK(number(a[4], "loss") < number(a[3], "loss"));
    CHECK(number(a[5], "loss") < number(a[4], "loss"));
    CHECK(number(a[7], "peak_bytes") > 0);

    Config config;
    config_make(&config);
    const size_t lengths[] = {20, 20, 20};
    CHECK_CLOSE(number(a[0], "flops") /
                    plan_step_flops(&config.model, lengths, 3, (size_t)number(a[0], "masked")),
                1, 1e-12);
    config_free(&config);
    Checkpoint first, last;
    REQUIRE(checkpoint_open(&first, test_temp_path("first.ckpt"), &err));
    REQUIRE(checkpoint_open(&last, test_temp_path("last.ckpt"), &err));
    CHECK_INT(first.config.model.vocab, 300);
    CHECK_INT(last.state.step, 3);
    CHECK(first.entries[0].checksum != last.entries[0].checksum);
    checkpoint_close(&first);
    checkpoint_close(&last);
    delete_all(a, count);
}

/* Passes without a head: equal ones. */
static void test_inference(void) {
    cJSON *a[8] = {0};
    Err err = {0};
    bool ok;
    size_t count = serve(a, 8, "step\nstep\n", false, &ok, &err);
    if (!CHECK_MSG(ok && count == 3, "%zu answers: %s", count, err.msg)) return;
    CHECK_CLOSE(number(a[1], "rms"), 1, 1e-3); /* the last LayerNorm's */
    CHECK_CLOSE(number(a[1], "first"), number(a[2], "first"), 0);
    CHECK(number(a[1], "seconds") > 0);
    CHECK(cJSON_GetObjectItemCaseSensitive(a[1], "loss") == NULL);
    Config config;
    config_make(&config);
    const size_t lengths[] = {20, 20, 20};
    CHECK_CLOSE(number(a[0], "flops") / plan_forward_flops(&config.model, lengths, 3, 0), 1, 1e-12);
    config_free(&config);
    delete_all(a, count);
}

static void test_refusals(void) {
    cJSON *a[8] = {0};
    Err err = {0};
    bool ok;
    size_t count = serve(a, 8, "stop\nstep\n", false, &ok, &err);
    CHECK_INT(count, 1);
    CHECK(!ok);
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "no command \"stop\"; wanted batch, step, memory or save PATH");
    delete_all(a, count);
    count = serve(a, 8, "save /missing/folder/x.ckpt\n", true, &ok, &err);
    CHECK(!ok);
    CHECK_STR_CONTAINS(err.msg, "/missing/folder");
    delete_all(a, count);
}

const Test tests_bench_serve[] = {
    {"training", test_training, 0},
    {"inference", test_inference, 0},
    {"refusals", test_refusals, TEST_FLOAT},
    {0},
};
