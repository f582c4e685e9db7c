#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "task_file.h"

enum { COUNT = 4 };

static void check(char *const names[COUNT], size_t count, const char *message) {
    char *copy[COUNT];
    memcpy(copy, names, sizeof copy);
    const LabelSet labels = {copy, count};
    Err err = {0};
    bool ok = label_set_check(&labels, &err);
    if (!message) {
        CHECK_MSG(ok, "%s", err.msg);
        return;
    }
    CHECK(!ok);
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, message);
}

static void test_names(void) {
    check((char *[COUNT]){"a", "b", "A", " a"}, 4, NULL);
    check((char *[COUNT]){"caf\xC3\xA9", "cafe"}, 2, NULL);
    check((char *[COUNT]){"a"}, 1, "1 labels, wanted 2..1000");
    check((char *[COUNT]){"a", "b"}, 0, "0 labels");
    check((char *[COUNT]){"a", "b", "b", "c"}, 4, "labels 1 and 2 are both \"b\"");
    check((char *[COUNT]){"a", ""}, 2, "label 1 is empty");
    check((char *[COUNT]){"a", "b\xC3"}, 2, "label 1 is not UTF-8");
    check((char *[COUNT]){"\xC0\x80", "b"}, 2, "label 0 is not UTF-8");
}

static void test_most(void) {
    static char text[TASK_MAX_CLASSES + 1][8];
    char *names[TASK_MAX_CLASSES + 1];
    for (size_t i = 0; i <= TASK_MAX_CLASSES; i++) {
        snprintf(text[i], sizeof text[i], "%zu", i);
        names[i] = text[i];
    }
    Err err = {0};
    const LabelSet most = {names, TASK_MAX_CLASSES}, more = {names, TASK_MAX_CLASSES + 1};
    CHECK(label_set_check(&most, &err));
    CHECK(!label_set_check(&more, &err));
    CHECK_STR_CONTAINS(err.msg, "1001 labels, wanted 2..1000");
}

/* The copy is its own, and the empty set copies to an empty set. */
static void test_copy(void) {
    char first[] = "one", *names[] = {first, "two", "three"};
    const LabelSet labels = {names, 3}, none = {0};
    LabelSet copy;
    Err err = {0};
    REQUIRE(label_set_copy(&copy, &labels, &err));
    first[0] = 'X';
    CHECK_INT(copy.count, 3);
    CHECK_STR(copy.names[0], "one");
    CHECK_STR(copy.names[2], "three");
    label_set_free(&copy);
    CHECK(copy.names == NULL && copy.count == 0);
    label_set_free(&copy); /* a zeroed set */
    label_set_free(NULL);
    copy.count = 9;
    CHECK(label_set_copy(&copy, &none, &err) && copy.count == 0 && copy.names == NULL);
}

const Test tests_label_set[] = {
    {"names", test_names, 0},
    {"most", test_most, 0},
    {"copy", test_copy, 0},
    {0},
};
