#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "finetune.h"
#include "log.h"
#include "predict.h"

enum { SHOWN_CLASSES = 12, SHOWN_NAME = 24, CELL = 10 };

/* The rows that the training evaluated on. */
static bool read_own_rows(TaskFile *out, const LoadedModel *model, Err *err) {
    const Checkpoint *checkpoint = &model->checkpoint;
    const Config *config = &checkpoint->config;
    PathList files = {0};
    bool ok;
    if (config->finetune.holdout > 0) {
        ok = finetune_read_held_out(out, checkpoint, model->tokenizer, err);
        if (ok) log_info("%zu rows, held out of data.train by finetune.holdout", out->count);
    } else {
        ok = config_expand_task_globs(&files, &config->data.valid_globs, "data.valid",
                                      config->finetune.task, err) &&
             task_file_read(out, &config->finetune, &checkpoint->labels, &files, TASK_LABELS_NEEDED,
                            err);
    }
    config_paths_free(&files);
    return ok || err_context(err, "no file is given, and those of the checkpoint's config");
}

/* Of the files given, or else of the checkpoint's own. */
static bool read_rows(TaskFile *out, const Args *args, const LoadedModel *model, Err *err) {
    const Checkpoint *checkpoint = &model->checkpoint;
    PathList files = {0};
    if (args->count == 1) return read_own_rows(out, model, err);
    bool ok = args_paths(&files, args, err) &&
              task_file_read(out, &checkpoint->config.finetune, &checkpoint->labels, &files,
                             TASK_LABELS_NEEDED, err);
    config_paths_free(&files);
    return ok;
}

/* Cut between characters, control characters as `?`. */
static void short_name(char out[SHOWN_NAME], const char *name) {
    size_t size = strlen(name);
    if (size >= SHOWN_NAME) {
        size = SHOWN_NAME - 1;
        while (size > 0 && ((unsigned char)name[size] & 0xC0) == 0x80) size--;
    }
    for (size_t i = 0; i < size; i++) out[i] = (unsigned char)name[i] < 0x20 ? '?' : name[i];
    out[size] = 0;
}

static int shown_width(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* Pads by characters, which printf would count in bytes. */
static void print_cell(const char *text, int width) {
    int pad = width - shown_width(text);
    printf("%*s%s", pad > 0 ? pad : 0, "", text);
}

static void print_confusion(const ClassScore *s, const LabelSet *labels) {
    if (s->classes > SHOWN_CLASSES) {
        printf("confusion matrix of %zu classes: see --json\n", s->classes);
        return;
    }
    char names[SHOWN_CLASSES][SHOWN_NAME];
    int width = CELL;
    for (size_t c = 0; c < s->classes; c++) {
        short_name(names[c], labels->names[c]);
        if (shown_width(names[c]) > width) width = shown_width(names[c]);
    }
    print_cell("true \\ predicted", width + 6);
    for (size_t c = 0; c < s->classes; c++) {
        printf("  ");
        print_cell(names[c], width);
    }
    for (size_t t = 0; t < s->classes; t++) {
        putchar('\n');
        print_cell(names[t], width + 6);
        for (size_t p = 0; p < s->classes; p++) {
            printf("  ");
            print_cell(show_count(s->confusion[t * s->classes + p]), width);
        }
    }
    putchar('\n');
}

static void print_text(const ClassScore *s, const LabelSet *labels) {
    printf("accuracy %.4f, f1 %.4f, macro f1 %.4f, mcc %.4f, loss %.4f nats\n", s->accuracy, s->f1,
           s->macro_f1, s->mcc, s->loss);
    printf("%s rows; the most frequent class alone: accuracy %.4f\n", show_count(s->count),
           s->majority);
    print_confusion(s, labels);
}

static cJSON *confusion_json(const ClassScore *s) {
    cJSON *matrix = cJSON_CreateArray();
    for (size_t t = 0; t < s->classes; t++) {
        cJSON *row = cJSON_CreateArray();
        for (size_t p = 0; p < s->classes; p++)
            cJSON_AddItemToArray(row, cJSON_CreateNumber((double)s->confusion[t * s->classes + p]));
        cJSON_AddItemToArray(matrix, row);
    }
    return matrix;
}

static bool print_score(const ClassScore *s, const Predictor *predictor, const char *path,
                        Err *err) {
    const Checkpoint *checkpoint = &predictor->model->checkpoint;
    const LabelSet *labels = &checkpoint->labels;
    cJSON *object = cJSON_CreateObject(), *names = cJSON_CreateArray();
    for (size_t c = 0; c < labels->count; c++)
        cJSON_AddItemToArray(names, cJSON_CreateString(labels->names[c]));
    cJSON_AddNumberToObject(object, "loss", s->loss);
    cJSON_AddNumberToObject(object, "accuracy", s->accuracy);
    cJSON_AddNumberToObject(object, "f1", s->f1);
    cJSON_AddNumberToObject(object, "macro_f1", s->macro_f1);
    cJSON_AddNumberToObject(object, "mcc", s->mcc);
    cJSON_AddNumberToObject(object, "majority", s->majority);
    cJSON_AddItemToObject(object, "collapsed",
                          s->collapsed ? cJSON_CreateString(labels->names[s->collapsed - 1])
                                       : cJSON_CreateNull());
    cJSON_AddNumberToObject(object, "rows", (double)s->count);
    cJSON_AddNumberToObject(object, "cut", (double)predictor->cut);
    cJSON_AddItemToObject(object, "labels", names);
    cJSON_AddItemToObject(object, "confusion", confusion_json(s));
    cJSON_AddStringToObject(object, "checkpoint", path);
    cJSON_AddNumberToObject(object, "step", (double)checkpoint->state.step);
    return print_json(object, err);
}

bool eval_task(const Args *args, const LoadedModel *model, Err *err) {
    const Checkpoint *checkpoint = &model->checkpoint;
    const FinetuneConfig *task = &checkpoint->config.finetune;
    TaskFile rows = {0};
    Predictor predictor = {0};
    ClassScore score = {0};
    if (args->options.sequences)
        return err_set(err, ERR_CONFIG,
                       "--sequences is for pretrained checkpoints; a classifier is scored on all "
                       "rows");
    bool ok = read_rows(&rows, args, model, err) &&
              predictor_create(&predictor, model, args->options.batch, err) &&
              predictor_score(&score, &predictor, &rows, err);
    if (ok) {
        log_cut(predictor.cut, predictor.rows, checkpoint->config.model.n, task);
        if (score.collapsed)
            log_warn("all %zu rows are predicted as %s: this model tells no classes apart",
                     rows.count, checkpoint->labels.names[score.collapsed - 1]);
        if (args->options.json)
            ok = print_score(&score, &predictor, args->items[0], err);
        else
            print_text(&score, &checkpoint->labels);
    }
    class_score_free(&score);
    predictor_destroy(&predictor);
    task_file_free(&rows);
    return ok;
}
