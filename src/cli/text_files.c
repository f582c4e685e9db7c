#include <string.h>

#include "cli.h"

/* A table would be read with its header, labels and tabs. */
static bool check_no_table(const PathList *paths, Err *err) {
    static const char *const endings[] = {".tsv", ".tsv.gz", ".tsv.zst",
                                          ".csv", ".csv.gz", ".csv.zst"};
    for (size_t i = 0; i < paths->count; i++) {
        const char *path = paths->items[i];
        for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
            size_t size = strlen(path), end = strlen(endings[e]);
            if (size < end || strcmp(path + size - end, endings[e]) != 0) continue;
            return err_set(err, ERR_CONFIG,
                           "%s: a table is no plain text, its header and labels would be read too: "
                           "give the texts alone (cut -f takes a column); the scores of a task "
                           "need a fine-tuned checkpoint",
                           path);
        }
    }
    return true;
}

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
    return args_paths(out, args, err) && check_no_table(out, err);
}
