#include <stdio.h>

#include "cli.h"
#include "file_lock.h"
#include "stop_signal.h"
#include "tokenizer.h"

static bool print_tokenizer(const char *path, const Tokenizer *tokenizer, bool json, Err *err) {
    size_t pieces = tokenizer_vocab_size(tokenizer);
    const char *hash = show_hash(tokenizer_hash(tokenizer));
    if (!json) {
        printf("%s: %s pieces, hash %s\n", path, show_count(pieces), hash);
        return true;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "model", path);
    cJSON_AddNumberToObject(object, "vocab", (double)pieces);
    cJSON_AddStringToObject(object, "hash", hash);
    return print_json(object, err);
}

static bool run(const Args *args, Err *err) {
    Config config;
    Tokenizer *tokenizer = NULL;
    StopSignal signals;
    int lock = -1;
    stop_signal_install(&signals);
    bool ok = load_config(&config, args, 0, err) && config_resolve_data(&config, err) &&
              tokenizer_lock(&lock, &config, err) && tokenizer_train(&config, err) &&
              tokenizer_load(&tokenizer, config.tokenizer.model, err);
    if (ok) ok = print_tokenizer(config.tokenizer.model, tokenizer, args->options.json, err);
    if (!ok && err->code == ERR_SIGNAL)
        err_set(err, ERR_SIGNAL, "%s: nothing was written; start again", err->msg);
    file_unlock(&lock);
    stop_signal_restore(&signals);
    tokenizer_destroy(tokenizer);
    config_free(&config);
    return ok;
}

static const Option options[] = {OPTION_JSON, OPTION_QUIET, OPTION_HELP, {0}};

const Command command_tokenizer = {
    .name = "tokenizer",
    .arguments = "CONFIG [section.key=value ...]",
    .summary = "train the sentencepiece model named in the config from its training text",
    .notes = "Trains anew, also where tokenizer.model exists already: `pretrain` trains it only "
             "where it is missing,\n"
             "or where it stands at its default place and was trained on other text. SIGINT, "
             "SIGTERM and SIGUSR1 end it with\n"
             "status 75.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .own_signals = true,
    .run = run,
};
