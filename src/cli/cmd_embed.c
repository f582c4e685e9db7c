#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "embed.h"
#include "log.h"
#include "npy.h"
#include "threads.h"

static bool choose_pooling(Pooling *out, const char *name, Err *err) {
    *out = POOLING_CLS;
    if (!name || !strcmp(name, "cls")) return true;
    *out = POOLING_MEAN;
    return !strcmp(name, "mean") ||
           err_set(err, ERR_CONFIG, "--pooling %s: wanted cls or mean", name);
}

static bool embed_blocks(NpyWriter *out, Embedder *embedder, TextSource *source, size_t block,
                         Err *err) {
    size_t width = embedder->model->checkpoint.config.model.width;
    float *vectors = malloc(block * width * sizeof *vectors);
    if (!vectors) return err_set(err, ERR_FAILED, "out of memory for %zu vectors", block);
    bool ok = true;
    for (;;) {
        TaskFile rows;
        ok = text_source_next(&rows, source, block, err);
        if (!ok || rows.count == 0) break;
        ok = embedder_run(vectors, embedder, &rows, err);
        if (!ok || !npy_write(out, vectors, rows.count)) break; /* npy_commit says why */
    }
    free(vectors);
    if (ok && embedder->rows == 0)
        return err_set(err, ERR_CONFIG, "no text: give it as an argument, with --file or on stdin");
    return ok;
}

static bool print_result(const Embedder *embedder, const Options *o, Err *err) {
    size_t width = embedder->model->checkpoint.config.model.width;
    if (!o->json) {
        printf("%s: %s vectors of %zu\n", o->out, show_count(embedder->rows), width);
        return true;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "out", o->out);
    cJSON_AddNumberToObject(object, "rows", (double)embedder->rows);
    cJSON_AddNumberToObject(object, "width", (double)width);
    cJSON_AddStringToObject(object, "pooling", embedder->pooling == POOLING_CLS ? "cls" : "mean");
    cJSON_AddNumberToObject(object, "cut", (double)embedder->cut);
    return print_json(object, err);
}

/* Texts to the file; on failure nothing is left of it. */
static bool embed_to_file(Embedder *embedder, const Args *args, Err *err) {
    const Checkpoint *checkpoint = &embedder->model->checkpoint;
    TextSource *source = NULL;
    NpyWriter writer = {0};
    size_t block;
    bool ok = open_texts(&source, &block, args, &embedder->task, err);
    if (!ok && args->options.file && checkpoint->labels.count == 0)
        err_context(err, "a pretrained checkpoint reads the column or member `text` of --file");
    ok = ok && npy_open(&writer, args->options.out, checkpoint->config.model.width, err) &&
         embed_blocks(&writer, embedder, source, block, err) && npy_commit(&writer, err);
    npy_abort(&writer);
    if (ok) log_text_notes(source);
    text_source_close(source);
    return ok;
}

static bool run(const Args *args, Err *err) {
    const Options *o = &args->options;
    LoadedModel model = {0};
    Embedder embedder = {0};
    Pooling pooling;
    if (!o->out)
        return err_set(err, ERR_CONFIG, "embed needs --out X.npy: the file the vectors go to");
    bool ok = choose_pooling(&pooling, o->pooling, err) && threads_start(o->threads, err) &&
              loaded_model_open(&model, args->items[0], err) &&
              embedder_create(&embedder, &model, pooling, o->batch, err) &&
              embed_to_file(&embedder, args, err) && print_result(&embedder, o, err);
    if (ok) log_cut(embedder.cut, embedder.rows, model.checkpoint.config.model.n, &embedder.task);
    if (ok && embedder.without_tokens && pooling == POOLING_MEAN)
        log_warn("%s of %s texts have no tokens (the first: line %s): zeros stand for their means",
                 show_count(embedder.without_tokens), show_count(embedder.rows),
                 show_count(embedder.first_without));
    embedder_destroy(&embedder);
    loaded_model_close(&model);
    return ok;
}

static const Option options[] = {
    {"--out", OPTION_TEXT, offsetof(Options, out), 0, 0, "X.npy",
     "where the vectors go: float32, a row for each text"},
    {"--pooling", OPTION_TEXT, offsetof(Options, pooling), 0, 0, "P",
     "cls, the vector of <s> (default), or mean, that of the text's tokens"},
    OPTION_TEXT_FILE,
    OPTION_TEXT_BATCH,
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_embed = {
    .name = "embed",
    .arguments = "CHECKPOINT [TEXT ...] --out X.npy",
    .summary = "vectors of texts, by a pretrained or fine-tuned checkpoint, as a NumPy file",
    .notes =
        "  linformer embed runs/tiny/best.ckpt 'The dog barks.' 'It rains.' --out two.npy\n"
        "  linformer embed runs/tiny/best.ckpt --pooling mean --out all.npy <lines.txt\n\n"
        "Without TEXT and --file every line of stdin is one: a blank line is an empty text and "
        "has its row (zeros for the\n"
        "mean), a tab is part of a text; a warning counts both. A TEXT that is the name of a "
        "file is refused. --file\n"
        "reads what the training data of the checkpoint's task looks like; with a pretrained "
        "checkpoint, TSV with a\n"
        "header and a column `text`, or JSON lines in .jsonl with a member `text`; either .gz "
        "or .zst.\n\n"
        "Row i of the result belongs to text i. The vectors are hidden states of the last "
        "layer: that of <s>, or (mean)\n"
        "the mean over all tokens but <s> and </s>. Texts longer than n tokens are cut as in "
        "training, by a pretrained\n"
        "checkpoint at their end. The file appears when it is complete.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run,
};
