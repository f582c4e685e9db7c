#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "inspect.h"
#include "io.h"

/* What a file is, by its first bytes. */
typedef enum FileKind { FILE_CHECKPOINT, FILE_TOKENS, FILE_MANIFEST, FILE_TOKENIZER } FileKind;

/* An object with a "format"; of JSON lines the first one counts. */
static bool is_manifest(const Map *file) {
    cJSON *root = cJSON_ParseWithLength((const char *)file->data, file->size);
    bool has_format = cJSON_GetObjectItemCaseSensitive(root, "format") != NULL;
    cJSON_Delete(root);
    return has_format;
}

static bool detect(FileKind *out, const char *path, Err *err) {
    if (io_is_dir(path))
        return err_set(err, ERR_FAILED,
                       "%s: is a folder; give a file in it, such as best.ckpt or manifest.json",
                       path);
    Map map;
    if (!io_map(&map, path, err)) return false;
    if (map.size >= 8 && memcmp(map.data, "LFCKPT", 6) == 0)
        *out = FILE_CHECKPOINT;
    else if (map.size >= 8 && memcmp(map.data, "LFTOKENS", 8) == 0)
        *out = FILE_TOKENS;
    else if (map.size >= 1 && map.data[0] == '{' && is_manifest(&map))
        *out = FILE_MANIFEST;
    else
        *out = FILE_TOKENIZER; /* a protocol buffer: no magic; loading it decides */
    io_unmap(&map);
    return true;
}

static bool run(const Args *args, Err *err) {
    const char *path = args->items[0];
    FileKind kind = FILE_TOKENIZER;
    if (!detect(&kind, path, err)) return false;
    cJSON *object = cJSON_CreateObject();
    bool ok = false;
    switch (kind) {
    case FILE_CHECKPOINT: ok = inspect_checkpoint(object, path, args->options.stats, err); break;
    case FILE_TOKENS: ok = inspect_tokens(object, path, err); break;
    case FILE_MANIFEST: ok = inspect_manifest(object, path, err); break;
    case FILE_TOKENIZER:
        ok = inspect_tokenizer(object, path, err);
        if (!ok)
            err_context(err, "neither a checkpoint, a token shard, a manifest nor a tokenizer");
        break;
    }
    if (ok && args->options.json) return print_json(object, err);
    if (ok) inspect_print(object);
    cJSON_Delete(object);
    return ok;
}

static const Option options[] = {
    {"--stats", OPTION_FLAG, offsetof(Options, stats), 0, 0, NULL,
     "checkpoint: mean, standard deviation and largest value of every weight tensor"},
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_inspect = {
    .name = "inspect",
    .arguments = "FILE",
    .summary = "what a checkpoint, token shard, manifest or tokenizer holds: config, tensors, "
               "counts, hashes",
    .notes = "All checksums are verified.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
