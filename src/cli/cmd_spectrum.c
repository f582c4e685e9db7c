#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"
#include "log.h"
#include "per_layer_k.h"
#include "spectrum.h"
#include "spectrum_files.h"
#include "threads.h"

enum { SEQUENCES_DEFAULT = 32, LIST_SIZE = CONFIG_MAX_LAYERS * 12 };

typedef struct Work {
    const Options *options;
    const char *checkpoint;
    LoadedModel model;
    char *folder;     /* of the results */
    bool made_folder; /* it was not there before */
    char *matrices;   /* --dump-matrices: a folder in it; else NULL */
    char *suggestion; /* --suggest-k, --total-k: the config; else NULL */
    size_t index, multiple;
    Spectrum spectrum;
    PerLayerK k;
    bool drawn;
} Work;

static const ModelConfig *model_of(const Work *w) {
    return &w->model.checkpoint.config.model;
}

static bool check_options(const Options *o, Err *err) {
    bool suggest = o->suggest_k > 0;
    if (suggest && o->total_k)
        return err_set(err, ERR_CONFIG,
                       "--suggest-k and --total-k both decide what k adds up to: give one of them");
    if ((o->multiple || o->each_head) && !suggest && !o->total_k)
        return err_set(err, ERR_CONFIG, "%s goes with --suggest-k or --total-k",
                       o->multiple ? "--multiple" : "--each-head");
    return true;
}

/* What can be told before the long work. */
static bool check_model(Work *w, Err *err) {
    const Options *o = w->options;
    const ModelConfig *model = model_of(w);
    size_t n = model->n, largest = model->attention == ATTENTION_FULL ? n : params_largest_k(model);
    w->multiple = o->multiple ? o->multiple : 1;
    w->index = o->index ? o->index : (largest + 3) / 4;
    if (w->index > n)
        return err_set(err, ERR_CONFIG, "--index %zu: a matrix has n = %zu singular values at most",
                       w->index, n);
    if (o->projections && !spectrum_has_matrices(model))
        return err_set(err, ERR_CONFIG, "--projections: this model has no matrices E and F");
    if (w->multiple > n)
        return err_set(err, ERR_CONFIG, "--multiple %zu: k is at most n = %zu", w->multiple, n);
    return !o->total_k || per_layer_k_check_total(model->layers, n, o->total_k, w->multiple, err);
}

/* The checkpoint's path, "-spectrum" in place of its ending. */
static char *default_folder(const char *checkpoint) {
    static const char ending[] = ".ckpt", added[] = "-spectrum";
    size_t length = strlen(checkpoint), cut = sizeof ending - 1;
    if (length > cut && !strcmp(checkpoint + length - cut, ending)) length -= cut;
    char *folder = malloc(length + sizeof added);
    if (folder) snprintf(folder, length + sizeof added, "%.*s%s", (int)length, checkpoint, added);
    return folder;
}

static bool make_folders(Work *w, Err *err) {
    const Options *o = w->options;
    w->folder = o->out ? strdup(o->out) : default_folder(w->checkpoint);
    if (w->folder && o->dump_matrices) w->matrices = io_path_join(w->folder, "matrices");
    if (w->folder && (o->suggest_k > 0 || o->total_k))
        w->suggestion = io_path_join(w->folder, "suggested-k.yaml");
    if (!w->folder || (o->dump_matrices && !w->matrices))
        return err_set(err, ERR_FAILED, "out of memory for a path");
    w->made_folder = !io_is_dir(w->folder);
    return io_make_dirs(w->folder, err) && (!w->matrices || io_make_dirs(w->matrices, err));
}

/* After a failure: a folder made for nothing goes again, unless something is in it. */
static void remove_folders(const Work *w) {
    if (w->matrices) rmdir(w->matrices);
    if (w->made_folder) rmdir(w->folder);
}

static bool measure(Work *w, const Args *args, Err *err) {
    const Options *o = w->options;
    SpectrumOptions options = {.sequences = o->sequences ? o->sequences : SEQUENCES_DEFAULT,
                               .definition = o->squared ? SHARE_SQUARES : SHARE_SUM,
                               .dump = w->matrices};
    PathList texts = {0};
    char *folder = NULL;
    bool ok =
        text_files(&texts, args, &w->model.checkpoint.config, err) &&
        temp_folder_create(&folder, err) &&
        spectrum_measure_texts(&w->spectrum, &w->model, &texts, folder, o->threads, &options, err);
    temp_folder_remove(folder);
    config_paths_free(&texts);
    if (ok && o->sequences > w->spectrum.sequences)
        log_info("the text has %zu whole sequences of n = %zu, fewer than the %zu asked for",
                 w->spectrum.sequences, w->spectrum.n, o->sequences);
    return ok;
}

static const char *attention_name(const ModelConfig *model) {
    return model->attention == ATTENTION_FULL ? "full attention" : "Linformer attention";
}

/* Of the comment in the config. */
static void describe_origin(char *text, size_t size, const Work *w) {
    const Options *o = w->options;
    const char *matrix = spectrum_map_symbol(w->spectrum.curves[0].map),
               *heads = o->each_head ? "the lowest of its heads" : "the mean of its heads",
               *s = o->squared ? "s^2" : "s";
    int at = snprintf(text, size,
                      "Projected lengths by `linformer spectrum`, from\n  %.300s\n(step %llu, %s, "
                      "%zu whole sequences of n = %zu tokens).\nThe share of a layer is %s: the k "
                      "largest singular values s of\n%s, in the sum of all %s. ",
                      w->checkpoint, (unsigned long long)w->model.checkpoint.state.step,
                      attention_name(model_of(w)), w->spectrum.sequences, w->spectrum.n, heads,
                      matrix, s);
    char *rest = text + at;
    size = (size_t)at < size ? size - (size_t)at : 0;
    if (o->total_k)
        snprintf(rest, size,
                 "The lowest of all layers is as high as it can\nbe with a total k of %zu in "
                 "multiples of %zu.",
                 o->total_k, w->multiple);
    else
        snprintf(rest, size, "k is the smallest multiple of %zu with\na share of at least %.10g.",
                 w->multiple, o->suggest_k);
}

static bool suggest(Work *w, Err *err) {
    const Options *o = w->options;
    const Spectrum *s = &w->spectrum;
    const SpectrumCurves *heads = &s->curves[0]; /* P, or Pbar F where there is an F */
    char origin[1024];
    double *curves = malloc(s->layers * heads->length * sizeof *curves);
    if (!curves)
        return err_set(err, ERR_FAILED, "out of memory for the curves of %zu layers", s->layers);
    if (model_of(w)->attention == ATTENTION_LINFORMER)
        log_warn("%s is a Linformer, so these k are bounded by its own: %s has no rank above that; "
                 "what a layer needs is told by full attention",
                 w->checkpoint, spectrum_map_symbol(heads->map));
    per_layer_k_curves(curves, s, heads, o->each_head ? HEADS_EACH : HEADS_MEAN);
    if (o->total_k)
        per_layer_k_split(&w->k, curves, s->layers, heads->length, s->n, o->total_k, w->multiple);
    else
        per_layer_k_reach(&w->k, curves, s->layers, heads->length, s->n, o->suggest_k, w->multiple);
    free(curves);
    describe_origin(origin, sizeof origin, w);
    return per_layer_k_write(w->suggestion, &w->k, origin, err);
}

static bool write_files(Work *w, Err *err) {
    w->drawn = true;
    return spectrum_write_tables(w->folder, &w->spectrum, w->index, err) &&
           (!w->suggestion || suggest(w, err)) &&
           spectrum_draw(&w->drawn, w->folder, &w->spectrum, w->index, err) &&
           (!w->options->projections ||
            spectrum_draw_projections(&w->drawn, w->folder, &w->model, err));
}

/* Mean, lowest and highest share of the heads of a layer at the index. */
static void layer_shares(double *mean, double *lowest, double *highest, const Work *w,
                         const SpectrumCurves *curves, size_t l) {
    const Spectrum *s = &w->spectrum;
    size_t i = (w->index < curves->length ? w->index : curves->length) - 1;
    *mean = 0, *lowest = 1, *highest = 0;
    for (size_t h = 0; h < s->heads; h++) {
        double share = spectrum_share(s, curves, l, h)[i];
        *mean += share / (double)s->heads;
        if (share < *lowest) *lowest = share;
        if (share > *highest) *highest = share;
    }
}

static void print_text(const Work *w) {
    const Spectrum *s = &w->spectrum;
    char list[LIST_SIZE];
    printf("%s, step %s: %s of n = %zu; %zu whole sequences\n", w->checkpoint,
           show_count((size_t)w->model.checkpoint.state.step), attention_name(model_of(w)), s->n,
           s->sequences);
    for (size_t m = 0; m < s->maps; m++) {
        const SpectrumCurves *curves = &s->curves[m];
        printf("share of the largest %zu singular values of %s in the sum of all%s, by layer\n",
               w->index, spectrum_map_symbol(curves->map),
               s->definition == SHARE_SQUARES ? " (both squared)" : "");
        printf("%8s %8s %12s %13s\n", "", "mean", "lowest head", "highest head");
        for (size_t l = 0; l < s->layers; l++) {
            double mean, lowest, highest;
            layer_shares(&mean, &lowest, &highest, w, curves, l);
            printf("%8zu %8.4f %12.4f %13.4f\n", l, mean, lowest, highest);
        }
    }
    if (w->suggestion) {
        per_layer_k_list(list, sizeof list, &w->k, false);
        printf("k: %s, sum %zu, in %s; to train with it: pretrain CONFIG 'model.k=%s'\n", list,
               w->k.total, w->suggestion, list);
    }
    printf("tables%s in %s\n", w->drawn ? " and pictures" : "", w->folder);
}

static cJSON *map_json(const Work *w, const SpectrumCurves *curves) {
    const Spectrum *s = &w->spectrum;
    size_t i = (w->index < curves->length ? w->index : curves->length) - 1;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "kind", spectrum_map_name(curves->map));
    cJSON *means = cJSON_AddArrayToObject(object, "layer_shares");
    cJSON *layers = cJSON_AddArrayToObject(object, "shares");
    for (size_t l = 0; l < s->layers; l++) {
        double mean, lowest, highest;
        layer_shares(&mean, &lowest, &highest, w, curves, l);
        cJSON_AddItemToArray(means, cJSON_CreateNumber(mean));
        cJSON *heads = cJSON_CreateArray();
        for (size_t h = 0; h < s->heads; h++)
            cJSON_AddItemToArray(heads, cJSON_CreateNumber(spectrum_share(s, curves, l, h)[i]));
        cJSON_AddItemToArray(layers, heads);
    }
    return object;
}

static bool print_object(const Work *w, Err *err) {
    const Spectrum *s = &w->spectrum;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "checkpoint", w->checkpoint);
    cJSON_AddNumberToObject(object, "step", (double)w->model.checkpoint.state.step);
    cJSON_AddStringToObject(object, "attention",
                            model_of(w)->attention == ATTENTION_FULL ? "full" : "linformer");
    cJSON_AddNumberToObject(object, "n", (double)s->n);
    cJSON_AddNumberToObject(object, "sequences", (double)s->sequences);
    cJSON_AddStringToObject(object, "definition", s->definition == SHARE_SUM ? "sum" : "squares");
    cJSON_AddNumberToObject(object, "index", (double)w->index);
    cJSON *maps = cJSON_AddArrayToObject(object, "matrices");
    for (size_t m = 0; m < s->maps; m++) cJSON_AddItemToArray(maps, map_json(w, &s->curves[m]));
    if (w->suggestion) {
        cJSON *k = cJSON_AddArrayToObject(object, "k"),
              *shares = cJSON_AddArrayToObject(object, "k_shares");
        for (size_t l = 0; l < s->layers; l++) {
            cJSON_AddItemToArray(k, cJSON_CreateNumber((double)w->k.k[l]));
            cJSON_AddItemToArray(shares, cJSON_CreateNumber(w->k.share[l]));
        }
        cJSON_AddNumberToObject(object, "total_k", (double)w->k.total);
        cJSON_AddStringToObject(object, "config", w->suggestion);
    }
    cJSON_AddStringToObject(object, "out", w->folder);
    cJSON_AddBoolToObject(object, "pictures", w->drawn);
    return print_json(object, err);
}

static bool run(const Args *args, Err *err) {
    Work w = {.options = &args->options, .checkpoint = args->items[0]};
    bool ok = check_options(w.options, err) && threads_start(w.options->threads, err) &&
              loaded_model_open(&w.model, w.checkpoint, err) && check_model(&w, err) &&
              make_folders(&w, err) && measure(&w, args, err) && write_files(&w, err);
    if (ok && w.options->json)
        ok = print_object(&w, err);
    else if (ok)
        print_text(&w);
    else
        remove_folders(&w);
    spectrum_free(&w.spectrum);
    loaded_model_close(&w.model);
    free(w.folder);
    free(w.matrices);
    free(w.suggestion);
    return ok;
}

static const Option options[] = {
    {"--out", OPTION_TEXT, offsetof(Options, out), 0, 0, "DIR",
     "folder of the results (default: CHECKPOINT with -spectrum in place of .ckpt)"},
    {"--sequences", OPTION_COUNT, offsetof(Options, sequences), 1, 1e9, "N",
     "average over so many whole sequences, spread evenly over the text (default 32)"},
    {"--index", OPTION_COUNT, offsetof(Options, index), 1, 1e9, "I",
     "heat maps show the share of the largest I (default n/4; Linformer: k/4)"},
    {"--squared", OPTION_FLAG, offsetof(Options, squared), 0, 0, NULL,
     "shares of the squared singular values (default: of the values, as in the paper)"},
    {"--suggest-k", OPTION_NUMBER, offsetof(Options, suggest_k), 1e-6, 1, "S",
     "write a config with the smallest k of each layer that reaches the share S, e.g. 0.9"},
    {"--total-k", OPTION_COUNT, offsetof(Options, total_k), 1, 1e9, "K",
     "write one whose k add up to K, the layers' shares being as equal as can be"},
    {"--multiple", OPTION_COUNT, offsetof(Options, multiple), 1, 1e9, "M",
     "k in multiples of M, --suggest-k rounding up (default 1)"},
    {"--each-head", OPTION_FLAG, offsetof(Options, each_head), 0, 0, NULL,
     "the share counts for every head of a layer, not for their mean"},
    {"--projections", OPTION_FLAG, offsetof(Options, projections), 0, 0, NULL,
     "pictures of E and F"},
    {"--dump-matrices", OPTION_FLAG, offsetof(Options, dump_matrices), 0, 0, NULL,
     "the first sequence's matrices and singular values as .npy in DIR/matrices"},
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_spectrum = {
    .name = "spectrum",
    .arguments = "CHECKPOINT [TEXT ...]",
    .summary = "singular values of the attention matrices of a checkpoint, and k by layer from "
               "them",
    .notes =
        "  linformer spectrum runs/full/best.ckpt --suggest-k 0.9 --multiple 8\n"
        "  linformer spectrum runs/full/best.ckpt valid.txt --total-k 512 --multiple 8 --out "
        "same-total\n\n"
        "TEXTs are text shards as for eval; without any, the held-out text that the checkpoint's "
        "config names. Each matrix\n"
        "is of one head and one sequence of exactly n tokens, nothing masked: P of full attention; "
        "of Linformer Pbar (n x k)\n"
        "and Pbar F (n x n), the map from all values to the output. DIR gets, for each kind, "
        "curves-*.csv (mean singular\n"
        "values, and the share of the sum that the largest i have, mean and standard deviation "
        "over the sequences) and\n"
        "heatmap-*.csv (that share at --index), both also as .svg with the gnuplot script they are "
        "drawn by. A config from\n"
        "--suggest-k or --total-k is suggested-k.yaml: model.k and what goes with it. A "
        "config of one's own that gives\n"
        "k takes the list as an override: linformer pretrain CONFIG 'model.k=[K, ...]'.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run,
};
