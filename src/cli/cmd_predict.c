#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "io.h"
#include "predict.h"
#include "threads.h"

typedef enum Format { FORMAT_TSV, FORMAT_JSON_LINES, FORMAT_JSON_OBJECT } Format;

/* Where the results go. */
typedef struct Output {
    Format format;
    const LabelSet *labels;
    char **json_names; /* of the labels, quoted */
    bool lines;        /* rows are of a file, and say which line of it */
    bool places;       /* or of a folder, and say which file */
    size_t printed;
} Output;

static bool choose_format(Format *out, const Options *options, Err *err) {
    const char *name = options->format;
    *out = options->json ? FORMAT_JSON_OBJECT : FORMAT_TSV;
    if (!name) return true;
    if (options->json)
        return err_set(err, ERR_CONFIG, "--json and --format %s: give one of them", name);
    if (!strcmp(name, "json"))
        *out = FORMAT_JSON_LINES;
    else if (strcmp(name, "tsv") != 0)
        return err_set(err, ERR_CONFIG, "--format %s: wanted tsv or json", name);
    return true;
}

static void output_free(Output *output) {
    for (size_t i = 0; output->json_names && i < output->labels->count; i++)
        cJSON_free(output->json_names[i]);
    free(output->json_names);
}

static bool output_create(Output *out, Format format, const char *file, const LabelSet *labels,
                          Err *err) {
    *out = (Output){.format = format, .labels = labels};
    out->places = file && io_is_dir(file);
    out->lines = file && !out->places;
    out->json_names = calloc(labels->count, sizeof *out->json_names);
    bool ok = out->json_names != NULL;
    for (size_t i = 0; ok && i < labels->count; i++) {
        cJSON *name = cJSON_CreateString(labels->names[i]);
        out->json_names[i] = name ? cJSON_PrintUnformatted(name) : NULL;
        cJSON_Delete(name);
        ok = out->json_names[i] != NULL;
    }
    return ok || err_set(err, ERR_FAILED, "out of memory for %zu labels", labels->count);
}

/* A name with what would end a field or a line as a space. */
static void print_field(const char *text) {
    for (; *text; text++) putchar(*text == '\t' || *text == '\n' || *text == '\r' ? ' ' : *text);
}

static void print_head(const Output *output) {
    if (output->format == FORMAT_JSON_OBJECT) printf("{\"results\":[");
    if (output->format != FORMAT_TSV) return;
    if (output->lines) printf("line\t");
    if (output->places) printf("file\t");
    printf("label\tprobability");
    for (size_t c = 0; c < output->labels->count; c++) {
        printf("\tp(");
        print_field(output->labels->names[c]);
        putchar(')');
    }
    putchar('\n');
}

static void print_tsv(const Output *output, const TaskRow *row, const double *p, size_t best) {
    if (output->lines) printf("%zu\t", row->line);
    if (output->places) {
        print_field(row->place);
        putchar('\t');
    }
    print_field(output->labels->names[best]);
    printf("\t%.7g", p[best]);
    for (size_t c = 0; c < output->labels->count; c++) printf("\t%.7g", p[c]);
    putchar('\n');
}

static bool print_json_row(const Output *output, const TaskRow *row, const double *p, size_t best,
                           Err *err) {
    bool object = output->format == FORMAT_JSON_OBJECT;
    printf("%s{", object && output->printed > 0 ? "," : "");
    if (output->lines) printf("\"line\":%zu,", row->line);
    if (output->places) {
        cJSON *place = cJSON_CreateString(row->place);
        char *text = place ? cJSON_PrintUnformatted(place) : NULL;
        cJSON_Delete(place);
        if (!text) return err_set(err, ERR_FAILED, "out of memory for a path");
        printf("\"file\":%s,", text);
        cJSON_free(text);
    }
    printf("\"label\":%s,\"probability\":%.7g,\"probabilities\":{", output->json_names[best],
           p[best]);
    for (size_t c = 0; c < output->labels->count; c++)
        printf("%s%s:%.7g", c ? "," : "", output->json_names[c], p[c]);
    printf("}}%s", object ? "" : "\n");
    return true;
}

static bool print_rows(Output *output, const TaskFile *rows, const double *probabilities,
                       Err *err) {
    size_t classes = output->labels->count;
    for (size_t i = 0; i < rows->count; i++, output->printed++) {
        const double *p = probabilities + i * classes;
        size_t best = predict_best(p, classes);
        if (output->format == FORMAT_TSV)
            print_tsv(output, &rows->rows[i], p, best);
        else if (!print_json_row(output, &rows->rows[i], p, best, err))
            return false;
    }
    /* not only at the end: a reader of a pipe waits for it, and a full disk ends the work here */
    if (fflush(stdout) != 0 || ferror(stdout))
        return err_set(err, ERR_FAILED, "cannot write the results to stdout: %s", strerror(errno));
    return true;
}

static bool predict_blocks(Output *output, Predictor *predictor, TextSource *source, size_t block,
                           Err *err) {
    size_t classes = output->labels->count;
    double *probabilities = malloc(block * classes * sizeof *probabilities);
    if (!probabilities) return err_set(err, ERR_FAILED, "out of memory for %zu rows", block);
    bool ok = true;
    for (;;) {
        TaskFile rows;
        ok = text_source_next(&rows, source, block, err);
        if (!ok || rows.count == 0) break;
        ok = predictor_run(probabilities, predictor, &rows, err);
        if (!ok) break;
        if (output->printed == 0) print_head(output);
        ok = print_rows(output, &rows, probabilities, err);
        if (!ok) break;
    }
    free(probabilities);
    if (ok && output->printed == 0)
        return err_set(err, ERR_CONFIG, "no text: give it as an argument, with --file or on stdin");
    if (ok && output->format == FORMAT_JSON_OBJECT)
        printf("],\"rows\":%zu,\"cut\":%zu}\n", predictor->rows, predictor->cut);
    return ok;
}

static bool run(const Args *args, Err *err) {
    const Options *o = &args->options;
    LoadedModel model = {0};
    const Checkpoint *checkpoint = &model.checkpoint;
    const FinetuneConfig *task = &checkpoint->config.finetune;
    Predictor predictor = {0};
    Output output = {0};
    TextSource *source = NULL;
    Format format;
    size_t block;
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is a message, as a full disk is */
    bool ok = choose_format(&format, o, err) && threads_start(o->threads, err) &&
              loaded_model_open(&model, args->items[0], err) &&
              predictor_create(&predictor, &model, o->batch, err) &&
              output_create(&output, format, o->file, &checkpoint->labels, err) &&
              open_texts(&source, &block, args, task, err) &&
              predict_blocks(&output, &predictor, source, block, err);
    if (ok) {
        log_text_notes(source);
        log_cut(predictor.cut, predictor.rows, checkpoint->config.model.n, task);
    }
    text_source_close(source);
    output_free(&output);
    predictor_destroy(&predictor);
    loaded_model_close(&model);
    return ok;
}

static const Option options[] = {
    OPTION_TEXT_FILE,
    {"--format", OPTION_TEXT, offsetof(Options, format), 0, 0, "F",
     "tsv, a table with a header (default), or json, an object a line"},
    OPTION_TEXT_BATCH,
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_predict = {
    .name = "predict",
    .arguments = "CHECKPOINT [TEXT ...]",
    .summary = "labels of texts with the probabilities of all classes, by a fine-tuned checkpoint",
    .notes =
        "  linformer predict runs/sst2/best.ckpt 'A film to remember.'\n"
        "  linformer predict runs/sst2/best.ckpt --file test.tsv >labels.tsv\n"
        "  linformer predict runs/qqp/best.ckpt <pairs.txt\n\n"
        "Without TEXT and --file every line of stdin is one: a blank line is an empty text and "
        "has its row, and in tasks\n"
        "of one text a tab is part of it; a warning counts both. For tasks of two texts a line, "
        "or a TEXT, is both with a\n"
        "tab between them. A TEXT that is the name of a file is refused. --file reads what the "
        "task's training data looks\n"
        "like: TSV with a header, JSON lines in .jsonl, either .gz or .zst; labels are not looked "
        "at.\n\n"
        "One row for each text, in the order of the texts: label, its probability, p(x) for "
        "every class x; with --file\n"
        "first the line of the file. --format json writes {\"label\", \"probability\", "
        "\"probabilities\": {...}} a line, with\n"
        "--file also \"line\"; --json one object {\"results\": [...], \"rows\", \"cut\"}. Rows "
        "come in blocks of 4096; on a\n"
        "terminal and with --batch 1 each line is answered at once. Texts longer than n tokens "
        "are cut as in training.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run,
};
