#include <stdlib.h>
#include <string.h>

#include "cli.h"

bool text_files(PathList *out, const Args *args, const Config *config, Err *err) {
    *out = (PathList){0};
    if (args->count == 1) {
        if (config->finetune.task != TASK_NONE)
            return err_set(
                err, ERR_CONFIG,
                "no text given, and data.valid of the checkpoint's config names the rows "
                "of a task; give text files");
        if (config->data.valid_globs.count == 0)
            return err_set(err, ERR_CONFIG,
                           "no text given, and the checkpoint's config names none in data.valid");
        return config_expand_globs(out, &config->data.valid_globs, "data.valid", err) ||
               err_context(err, "%s: the text it was evaluated on", args->items[0]);
    }
    out->items = calloc(args->count, sizeof *out->items);
    if (!out->items) return err_set(err, ERR_FAILED, "out of memory for %zu paths", args->count);
    for (size_t i = 1; i < args->count; i++) {
        char *path = strdup(args->items[i]);
        if (!path) return err_set(err, ERR_FAILED, "out of memory for %zu paths", args->count);
        out->items[out->count++] = path;
    }
    return true;
}
