#include <string.h>

#include "cli.h"
#include "io.h"
#include "log.h"
#include "tokenizer.h"

/* One line a note: keys that this model does not use. */
static void log_notes(const char *notes) {
    while (notes && *notes) {
        size_t length = strcspn(notes, "\n");
        log_warn("%.*s", (int)length, notes);
        notes += length + (notes[length] == '\n');
    }
}

static bool load(Config *out, const Args *args, size_t index, Err *err) {
    *out = (Config){0};
    for (size_t i = index + 1; i < args->count; i++) {
        if (!strchr(args->items[i], '='))
            return err_set(err, ERR_CONFIG,
                           "unexpected argument %s: overrides have the form section.key=value",
                           args->items[i]);
    }
    return config_load(out, args->items[index], args->items + index + 1, args->count - index - 1,
                       err);
}

bool load_config(Config *out, const Args *args, size_t index, Err *err) {
    if (!load(out, args, index, err) || !config_check_no_task(out, err)) return false;
    log_notes(out->notes);
    return true;
}

bool load_task_config(Config *out, const Args *args, size_t index, Err *err) {
    if (!load(out, args, index, err) || !config_check_task(out, err)) return false;
    log_notes(out->notes);
    return true;
}

bool take_vocab(Config *config, Err *err) {
    if (!io_is_file(config->tokenizer.model)) return true;
    Tokenizer *tokenizer;
    if (!tokenizer_load(&tokenizer, config->tokenizer.model, err)) return false;
    bool ok = tokenizer_take_config(config, tokenizer, err);
    tokenizer_destroy(tokenizer);
    return ok;
}
