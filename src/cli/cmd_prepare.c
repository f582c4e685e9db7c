#include <stdio.h>

#include "cli.h"
#include "file_lock.h"
#include "inspect.h"
#include "log.h"
#include "prepare.h"
#include "stop_signal.h"
#include "tokenizer.h"
#include "warm_start.h"

static void print_part(const char *name, const ManifestPart *part) {
    const TextTotals *t = &part->totals;
    printf("%s: %s tokens in %s lines of %s documents, %s of text, %zu shards; unigram entropy "
           "%.3f nats\n",
           name, show_count(t->tokens), show_count(t->lines), show_count(t->documents),
           show_bytes(t->text_bytes), part->shard_count, part->unigram_entropy);
    printf("    %s unknown tokens, %s bytes dropped, %s lines split, %s empty documents\n",
           show_count(t->unknown), show_count(t->dropped_bytes), show_count(t->split_lines),
           show_count(t->empty_documents));
}

static bool print_manifest(const char *folder, const Manifest *manifest, bool json, Err *err) {
    if (!json) {
        printf("%s: vocabulary %s, data hash %s\n", folder, show_count(manifest->vocab),
               show_hash(manifest->data_hash));
        print_part("train", &manifest->train);
        print_part("valid", &manifest->valid);
        return true;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "tokens", folder);
    cJSON_AddNumberToObject(object, "vocab", (double)manifest->vocab);
    cJSON_AddStringToObject(object, "tokenizer_hash", show_hash(manifest->tokenizer_hash));
    cJSON_AddStringToObject(object, "data_hash", show_hash(manifest->data_hash));
    add_manifest_part(object, "train", &manifest->train);
    add_manifest_part(object, "valid", &manifest->valid);
    return print_json(object, err);
}

/* The tokenizer of train.init, with its hash, where the config begins with a checkpoint. */
static bool take_init(uint64_t *hash, const Config *config, Err *err) {
    Checkpoint init;
    *hash = 0;
    if (!config->train.init) return true;
    if (!warm_start_open(&init, config, err)) return false;
    bool ok = warm_start_tokenizer(&init, config, err);
    *hash = init.tokenizer_hash;
    checkpoint_close(&init);
    return ok;
}

static bool prepare(const Config *config, uint64_t init_hash, Err *err) {
    char reason[256] = "";
    if (!tokenizer_ensure(config, init_hash, err)) return false;
    if (prepare_is_current(config, reason, sizeof reason)) {
        log_info("%s is current: nothing to do", config->data.tokens);
        return true;
    }
    log_info("prepare: %s", reason);
    return prepare_run(config, err);
}

static bool run(const Args *args, Err *err) {
    Config config;
    Manifest manifest = {0};
    StopSignal signals;
    int tokenizer = -1, tokens = -1;
    uint64_t init_hash;
    stop_signal_install(&signals);
    bool ok = load_config(&config, args, 0, err) && config_resolve_data(&config, err) &&
              tokenizer_lock(&tokenizer, &config, err) && take_init(&init_hash, &config, err) &&
              take_vocab(&config, err) && prepare_lock(&tokens, &config, err) &&
              prepare(&config, init_hash, err) &&
              manifest_load(&manifest, config.data.tokens, err) &&
              print_manifest(config.data.tokens, &manifest, args->options.json, err);
    if (!ok && err->code == ERR_SIGNAL)
        err_set(err, ERR_SIGNAL, "%s: what is done is kept; start again to go on", err->msg);
    file_unlock(&tokens);
    file_unlock(&tokenizer);
    stop_signal_restore(&signals);
    manifest_free(&manifest);
    config_free(&config);
    return ok;
}

static const Option options[] = {OPTION_JSON, OPTION_QUIET, OPTION_HELP, {0}};

const Command command_prepare = {
    .name = "prepare",
    .arguments = "CONFIG [section.key=value ...]",
    .summary =
        "turn the config's text shards into token shards and a manifest that accounts for them",
    .notes = "Text shards are .txt, .gz, .zst or JSON lines with a `text` field; a blank line ends "
             "a document.\n"
             "Only what is missing or stale is done, the tokenizer included. SIGINT, SIGTERM and "
             "SIGUSR1 end it with status 75;\n"
             "started again it goes on from there.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .own_signals = true,
    .run = run,
};
