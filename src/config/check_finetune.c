/* Rules and notes of the finetune section. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"

static const Origin *origin_of(const Loader *loader, const char *path) {
    return &loader->origins[schema_find(path, strlen(path)) - schema_keys];
}

static bool is_given(const Loader *loader, const char *path) {
    return origin_of(loader, path)->order > 0;
}

/* "place: message" where the key was given; without a place where it was not. */
static bool fail_at(const Loader *loader, const char *path, Err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool fail_at(const Loader *loader, const char *path, Err *err, const char *format, ...) {
    const Origin *at = origin_of(loader, path);
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (at->order == 0)
        return err_set(err, ERR_CONFIG, "%.300s: %s", loader->config->path, message);
    return source_fail(err, &at->source, at->line, at->column, "%s", message);
}

bool finetune_from_checkpoint(const Config *config) {
    const FinetuneConfig *f = &config->finetune;
    return f->task != TASK_NONE && f->init && strcmp(f->init, "none") != 0;
}

void config_take_model(Config *config, const ModelConfig *pretrained) {
    ModelConfig own = config->model;
    config->model = *pretrained;
    config->model.recompute = own.recompute;
    config->model.precision = own.precision;
    config->model.head_dropout = own.head_dropout;
    config->model.head_pooling = own.head_pooling;
    if (config_is_given(config, "model.dropout")) config->model.dropout = own.dropout;
    if (config_is_given(config, "model.attention_dropout"))
        config->model.attention_dropout = own.attention_dropout;
}

/* Keys of the section in a config without a task would be forgotten silently. */
static bool check_no_task(const Loader *loader, Err *err) {
    for (size_t i = 0; i < schema_count; i++) {
        const char *path = schema_keys[i].path;
        if (!schema_in_section(&schema_keys[i], "finetune") || strcmp(path, "finetune.task") == 0)
            continue;
        if (is_given(loader, path))
            return fail_at(loader, path, err,
                           "%s is given, but no finetune.task: wanted the task (sst2, qnli, qqp, "
                           "imdb or custom), or no finetune section in a config for pretraining",
                           path);
    }
    return true;
}

static bool check_columns(const Loader *loader, Err *err) {
    const FinetuneConfig *f = &loader->config->finetune;
    static const char *const paths[] = {"finetune.text", "finetune.text_pair", "finetune.label"};
    const char *names[] = {f->text, f->text_pair, f->label};
    bool is_custom = f->task == TASK_CUSTOM;
    for (size_t i = 0; i < 3; i++) {
        if (names[i] && !is_custom)
            return fail_at(loader, paths[i], err,
                           "%s = %s: columns are named for finetune.task = custom only; the other "
                           "tasks have theirs",
                           paths[i], names[i]);
        if (!names[i] && is_custom && i != 1)
            return fail_at(loader, "finetune.task", err,
                           "finetune.task = custom: %s is missing: wanted the name of the column",
                           paths[i]);
    }
    for (size_t i = 0; is_custom && i < 3; i++) {
        for (size_t j = 0; j < i; j++) {
            if (names[i] && names[j] && strcmp(names[i], names[j]) == 0)
                return fail_at(loader, paths[i], err, "%s = %s: is %s too: wanted another column",
                               paths[i], names[i], paths[j]);
        }
    }
    return true;
}

bool check_finetune(const Loader *loader, Err *err) {
    const Config *config = loader->config;
    const FinetuneConfig *f = &config->finetune;
    if (f->task == TASK_NONE) return check_no_task(loader, err);
    if (!f->init)
        return fail_at(loader, "finetune.task", err,
                       "finetune.init is missing: wanted the path of a pretrained checkpoint, or "
                       "`none` to train from scratch");
    bool has_valid = config->data.valid_globs.count > 0;
    if (f->holdout > 0 && has_valid)
        return fail_at(loader, "finetune.holdout", err,
                       "finetune.holdout and data.valid are both given, and one of them evaluates: "
                       "set holdout to 0, or take data.valid out");
    if (f->holdout == 0 && !has_valid)
        return fail_at(loader, "finetune.task", err,
                       "data.valid is missing: wanted labelled files to evaluate on, or a share of "
                       "the training rows, e.g. finetune.holdout = 0.1");
    return check_columns(loader, err);
}

void note_finetune(FILE *notes, const Loader *loader, NoteUnused *note) {
    static const char *const pretraining_only[] = {
        "train.init",           "train.mask_rate",  "train.short_rate",
        "train.eval_sequences", "checkpoint.every", "checkpoint.keep",
        "data.tokens",          "tokenizer.type",   "tokenizer.sample_bytes",
        "tokenizer.vocab_size", "train.memory"};
    const Config *config = loader->config;
    const FinetuneConfig *f = &config->finetune;
    if (f->task == TASK_NONE) {
        note(notes, loader, "model.head_dropout", false, "finetune.task = none");
        note(notes, loader, "model.head_pooling", false, "finetune.task = none");
        return;
    }
    for (size_t i = 0; i < sizeof pretraining_only / sizeof *pretraining_only; i++)
        note(notes, loader, pretraining_only[i], false, "a finetune.task");
    note(notes, loader, "tokenizer.model", !finetune_from_checkpoint(config),
         "finetune.init, whose tokenizer is taken");
    bool pairs = f->task == TASK_QNLI || f->task == TASK_QQP || f->text_pair;
    note(notes, loader, "finetune.truncate", !pairs, "pairs of texts");
}

bool config_check_no_task(const Config *config, Err *err) {
    char task[32];
    if (config->finetune.task == TASK_NONE) return true;
    value_text(task, sizeof task, schema_find("finetune.task", 13), config);
    return err_set(err, ERR_CONFIG,
                   "%.500s: finetune.task = %s: the config is of a fine-tuning; run it with "
                   "`linformer finetune`",
                   config->path, task);
}

bool config_check_task(const Config *config, Err *err) {
    if (config->finetune.task != TASK_NONE) return true;
    return err_set(err, ERR_CONFIG,
                   "%.500s: finetune.task is missing: wanted sst2, qnli, qqp, imdb or custom; a "
                   "config for pretraining is run with `linformer pretrain`",
                   config->path);
}
