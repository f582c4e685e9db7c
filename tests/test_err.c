#include "err.h"

#include "harness.h"

static void test_set(void) {
    Err err = {0};
    CHECK(!err_set(&err, ERR_CONFIG, "line %d: %s", 7, "tab"));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR(err.msg, "line 7: tab");
    CHECK(!err_set(NULL, ERR_FAILED, "nobody listens"));
}

static void test_context(void) {
    Err err = {0};
    err_set(&err, ERR_FAILED, "short read");
    CHECK(!err_context(&err, "config %s", "a.yaml"));
    CHECK_STR(err.msg, "config a.yaml: short read");
    CHECK_INT(err.code, ERR_FAILED);
    CHECK(!err_context(NULL, "x"));
}

/* The message may be an argument of its own replacement. */
static void test_set_from_itself(void) {
    Err err = {0};
    err_set(&err, ERR_FAILED, "inner");
    err_set(&err, ERR_CONFIG, "outer (%s)", err.msg);
    CHECK_STR(err.msg, "outer (inner)");
    err_context(&err, "%s", err.msg);
    CHECK_STR(err.msg, "outer (inner): outer (inner)");
}

static void test_long_messages_are_cut(void) {
    Err err;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    memset(&err, 1, sizeof err);
    err_set(&err, ERR_FAILED, "%s", text);
    CHECK_INT(strlen(err.msg), sizeof err.msg - 1);
    err_context(&err, "%s", "front");
    CHECK_INT(strlen(err.msg), sizeof err.msg - 1);
    CHECK(!strncmp(err.msg, "front: xxx", 10));
    err_context(&err, "%s", text);
    CHECK_INT(strlen(err.msg), sizeof err.msg - 1);
}

const Test tests_err[] = {
    {"set", test_set, 0},
    {"context", test_context, 0},
    {"set_from_itself", test_set_from_itself, 0},
    {"long_messages_are_cut", test_long_messages_are_cut, 0},
    {0},
};
