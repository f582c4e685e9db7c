#include <stdlib.h>
#include <string.h>

#include "task_file.h"
#include "utf8.h"

enum { NAME_SHOWN = 40 }; /* bytes of a name in a message */

void label_set_free(LabelSet *labels) {
    if (!labels) return;
    for (size_t i = 0; labels->names && i < labels->count; i++) free(labels->names[i]);
    free(labels->names);
    *labels = (LabelSet){0};
}

bool label_set_copy(LabelSet *out, const LabelSet *labels, Err *err) {
    *out = (LabelSet){0};
    if (labels->count == 0) return true;
    LabelSet copy = {.names = calloc(labels->count, sizeof *copy.names), .count = labels->count};
    bool ok = copy.names != NULL;
    for (size_t i = 0; ok && i < labels->count; i++) {
        size_t size = strlen(labels->names[i]) + 1;
        copy.names[i] = malloc(size);
        if (copy.names[i])
            memcpy(copy.names[i], labels->names[i], size);
        else
            ok = false;
    }
    if (!ok) {
        label_set_free(&copy);
        return err_set(err, ERR_FAILED, "no memory for %zu labels", labels->count);
    }
    *out = copy;
    return true;
}

static bool is_utf8(const char *name) {
    const unsigned char *p = (const unsigned char *)name;
    size_t left = strlen(name);
    while (left > 0) {
        size_t length = utf8_length(p, left);
        if (length == 0) return false;
        p += length;
        left -= length;
    }
    return true;
}

bool label_set_check(const LabelSet *labels, Err *err) {
    if (labels->count < 2 || labels->count > TASK_MAX_CLASSES)
        return err_set(err, ERR_FAILED, "%zu labels, wanted 2..%d", labels->count,
                       TASK_MAX_CLASSES);
    for (size_t i = 0; i < labels->count; i++) {
        const char *name = labels->names[i];
        if (!*name) return err_set(err, ERR_FAILED, "label %zu is empty", i);
        if (!is_utf8(name)) return err_set(err, ERR_FAILED, "label %zu is not UTF-8", i);
        for (size_t j = 0; j < i; j++)
            if (!strcmp(labels->names[j], name))
                return err_set(err, ERR_FAILED, "labels %zu and %zu are both \"%.*s\"", j, i,
                               NAME_SHOWN, name);
    }
    return true;
}
