#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "fill_mask.h"
#include "threads.h"

enum { TOP_DEFAULT = 5 };

static const char META_SPACE[] = "\xE2\x96\x81"; /* how sentencepiece writes a space */

/* Where the results go. */
typedef struct Output {
    const LoadedModel *model;
    size_t top;
    cJSON *results; /* NULL: text */
} Output;

/* The piece without the space it begins with. */
static const char *token_of(const char *piece) {
    size_t length = sizeof META_SPACE - 1;
    return strncmp(piece, META_SPACE, length) == 0 && piece[length] ? piece + length : piece;
}

static void print_text(const Output *output, const char *text, const MaskedText *masked,
                       const Fill *fills) {
    printf("%s\n", text);
    for (size_t m = 0; m < masked->mask_count; m++) {
        if (masked->mask_count > 1) printf("  mask %zu\n", m + 1);
        for (size_t i = 0; i < output->top; i++) {
            const Fill *fill = &fills[m * output->top + i];
            printf("  %7.4f  %s\n", fill->probability,
                   token_of(tokenizer_piece(output->model->tokenizer, fill->id)));
        }
    }
}

static void add_json(const Output *output, const char *text, const MaskedText *masked,
                     const Fill *fills) {
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToArray(output->results, result);
    cJSON_AddStringToObject(result, "text", text);
    cJSON *masks = cJSON_AddArrayToObject(result, "masks");
    for (size_t m = 0; m < masked->mask_count; m++) {
        cJSON *list = cJSON_CreateArray();
        cJSON_AddItemToArray(masks, list);
        for (size_t i = 0; i < output->top; i++) {
            const Fill *fill = &fills[m * output->top + i];
            const char *piece = tokenizer_piece(output->model->tokenizer, fill->id);
            cJSON *item = cJSON_CreateObject();
            cJSON_AddItemToArray(list, item);
            cJSON_AddStringToObject(item, "token", token_of(piece));
            cJSON_AddNumberToObject(item, "probability", fill->probability);
            cJSON_AddStringToObject(item, "piece", piece);
            cJSON_AddNumberToObject(item, "id", fill->id);
        }
    }
}

static bool fill_text(const Output *output, FillMask *fill, const char *text, Err *err) {
    MaskedText masked = {0};
    Fill *fills = NULL;
    bool ok = false;
    if (!masked_text_encode(&masked, output->model->tokenizer, text, strlen(text), err)) goto done;
    fills = calloc(masked.mask_count * output->top + 1, sizeof *fills);
    if (!fills) {
        err_set(err, ERR_FAILED, "out of memory for the results");
        goto done;
    }
    if (!fill_mask_predict(fills, fill, &masked, output->top, err)) {
        err_context(err, "'%.60s%s'", text, strlen(text) > 60 ? "..." : "");
        goto done;
    }
    if (output->results)
        add_json(output, text, &masked, fills);
    else
        print_text(output, text, &masked, fills);
    ok = true;
done:
    free(fills);
    masked_text_free(&masked);
    return ok;
}

/* Every line of stdin that is not empty. */
static bool fill_lines(const Output *output, FillMask *fill, Err *err) {
    char *line = NULL;
    size_t capacity = 0, number = 0, texts = 0;
    bool ok = true;
    for (ssize_t length; ok && (length = getline(&line, &capacity, stdin)) >= 0;) {
        number++;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = 0;
        if (length == 0) continue;
        texts++;
        if (strlen(line) != (size_t)length) {
            ok = err_set(err, ERR_FAILED, "stdin, line %zu: a NUL byte; wanted text", number);
        } else {
            ok = fill_text(output, fill, line, err);
            if (!ok) err_context(err, "stdin, line %zu", number);
        }
        fflush(stdout); /* an answer a line, also through a pipe */
    }
    if (ok && ferror(stdin)) ok = err_set(err, ERR_FAILED, "stdin: cannot be read");
    if (ok && texts == 0)
        ok = err_set(err, ERR_CONFIG, "no text: give it as an argument or on stdin");
    free(line);
    return ok;
}

static bool run(const Args *args, Err *err) {
    LoadedModel model = {0};
    FillMask fill = {0};
    Output output = {.model = &model, .top = args->options.top ? args->options.top : TOP_DEFAULT};
    bool ok = threads_start(args->options.threads, err) &&
              loaded_model_open(&model, args->items[0], err) &&
              fill_mask_create(&fill, &model, err);
    size_t pieces = ok ? tokenizer_vocab_size(model.tokenizer) - TOKEN_SPECIALS : 0;
    if (ok && output.top > pieces)
        ok = err_set(err, ERR_CONFIG, "--top %zu: this model has %zu pieces to choose from",
                     output.top, pieces);
    if (ok && args->options.json) output.results = cJSON_CreateArray();
    for (size_t i = 1; ok && i < args->count; i++)
        ok = fill_text(&output, &fill, args->items[i], err);
    if (ok && args->count == 1) ok = fill_lines(&output, &fill, err);
    if (ok && output.results) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToObject(object, "results", output.results);
        output.results = NULL;
        ok = print_json(object, err);
    }
    cJSON_Delete(output.results);
    fill_mask_destroy(&fill);
    loaded_model_close(&model);
    return ok;
}

static const Option options[] = {
    {"--top", OPTION_COUNT, offsetof(Options, top), 1, 1e6, "K",
     "pieces to print for each mask (default 5)"},
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_fill_mask = {
    .name = "fill-mask",
    .arguments = "CHECKPOINT [TEXT ...]",
    .summary = "the most probable pieces for every <mask> of a text",
    .notes = "  linformer fill-mask runs/tiny/best.ckpt 'The dog <mask> at the stranger.'\n\n"
             "Without TEXT every line of stdin is one. Several masks are filled independently of "
             "each other. With --json:\n"
             "{\"results\": [{\"text\", \"masks\": [[{\"token\", \"probability\", \"piece\", "
             "\"id\"}, ...], ...]}, ...]}",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run,
};
