#include "text_tokens.h"

#include <stdlib.h>

#include "io.h"

bool text_tokens_encode(Manifest *out, const LoadedModel *model, const PathList *texts,
                        const char *folder, size_t threads, Err *err) {
    *out = (Manifest){0};
    Bytes bytes = tokenizer_bytes(model->tokenizer);
    Config config = model->checkpoint.config; /* shares its strings; not freed */
    config.data = (DataConfig){.valid = *texts};
    config.data.tokens = io_path_join(folder, "tokens");
    config.tokenizer.model = io_path_join(folder, "tokenizer.model");
    config.train.threads = threads;
    bool ok = config.data.tokens && config.tokenizer.model;
    if (!ok) err_set(err, ERR_FAILED, "out of memory for a path");
    ok = ok && io_write_file(config.tokenizer.model, bytes.data, bytes.size, err) &&
         prepare_run(&config, err) && manifest_load(out, config.data.tokens, err);
    free(config.data.tokens);
    free(config.tokenizer.model);
    return ok;
}
