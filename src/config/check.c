/* After the last key is set: rules that span keys, derived values, notes about keys without effect.
 */
#include <stdlib.h>
#include <string.h>

#include "loader.h"

enum { PLACE_MAX = 512, TEXT_MAX = 80, MICRO_BATCH_TOKENS = 8192 };

static const ConfigKey *find_key(const char *path) {
    return schema_find(path, strlen(path));
}

static const Origin *origin_of(const Loader *loader, const ConfigKey *key) {
    return &loader->origins[key - schema_keys];
}

/* As value_text, but k as it was given: its list need not have an item for each layer yet. */
static void show_value(char *out, size_t size, const Loader *loader, const ConfigKey *key) {
    Config as_given = *loader->config;
    if (key->type == KEY_K) as_given.model.layers = loader->k_count ? loader->k_count : 1;
    value_text(out, size, key, &as_given);
}

/* Two keys contradict each other: points at the one given last, and names where the other comes
 * from. */
static bool fail_pair(const Loader *loader, const char *a_path, const char *a_text,
                      const char *b_path, const char *b_text, Err *err) {
    const ConfigKey *keys[2] = {find_key(a_path), find_key(b_path)};
    bool b_last = origin_of(loader, keys[1])->order > origin_of(loader, keys[0])->order;
    const ConfigKey *last = keys[b_last], *other = keys[!b_last];
    const Origin *at = origin_of(loader, last), *from = origin_of(loader, other);
    char value[TEXT_MAX], other_value[TEXT_MAX], place[PLACE_MAX] = "the default";
    show_value(value, sizeof value, loader, last);
    show_value(other_value, sizeof other_value, loader, other);
    if (from->order > 0) source_place(place, sizeof place, &from->source, from->line, from->column);
    /* both at their defaults cannot happen: the defaults agree with each other */
    return source_fail(err, &at->source, at->line, at->column, "%s = %s: %s %s = %s (%s)",
                       last->path, value, b_last ? b_text : a_text, other->path, other_value,
                       place);
}

/* A whole batch of a large model seldom fits into memory: about 8192 tokens keep the matrix
 * products busy. */
size_t config_default_micro_batch(size_t n, size_t batch) {
    size_t wanted = n < MICRO_BATCH_TOKENS ? MICRO_BATCH_TOKENS / n : 1;
    return wanted < batch ? wanted : batch;
}

static void derive_micro_batch(Loader *loader) {
    Config *config = loader->config;
    if (origin_of(loader, find_key("train.micro_batch"))->order == 0)
        config->train.micro_batch =
            config_default_micro_batch(config->model.n, config->train.batch);
}

static bool fill_k(Loader *loader, Err *err) {
    ModelConfig *model = &loader->config->model;
    bool is_full = model->attention == ATTENTION_FULL;
    size_t given = loader->k_count ? loader->k_count : 1;
    bool is_taken = finetune_from_checkpoint(loader->config);
    /* the list is compared with the checkpoint's: the default number of layers says nothing */
    if (is_taken && loader->k_count && origin_of(loader, find_key("model.layers"))->order == 0)
        model->layers = given;
    if (loader->k_count && given != model->layers && !is_full) {
        char list_text[96], layers_text[96];
        snprintf(list_text, sizeof list_text, "a list of %zu, wanted one for each layer, and",
                 given);
        snprintf(layers_text, sizeof layers_text, "wanted one k for each layer, found %zu in",
                 given);
        return fail_pair(loader, "model.k", list_text, "model.layers", layers_text, err);
    }
    for (size_t l = 0; l < CONFIG_MAX_LAYERS; l++) {
        if (l >= model->layers)
            model->k[l] = 0;
        else if (l >= given)
            model->k[l] = model->k[given - 1];
    }
    for (size_t l = 0; l < model->layers && !is_full && !is_taken; l++) {
        if (model->k[l] > model->n)
            return fail_pair(loader, "model.k", "the projected length must be at most", "model.n",
                             "the sequence length must be at least", err);
    }
    return true;
}

/* What local_init.h needs. */
static bool check_local_init(Loader *loader, Err *err) {
    const ModelConfig *model = &loader->config->model;
    if (model->init != INIT_SCHEME_LOCAL) return true;
    if (model->attention == ATTENTION_LINFORMER && model->projection != PROJECTION_LINEAR)
        return fail_pair(loader, "model.init", "needs model.projection = linear, found",
                         "model.projection", "wanted linear (learned E and F) with", err);
    size_t head = model->width / model->heads;
    if (head >= LOCAL_INIT_MIN_HEAD) return true;
    bool by_width = origin_of(loader, find_key("model.width"))->order >
                    origin_of(loader, find_key("model.heads"))->order;
    char init_text[128], size_text[128];
    snprintf(init_text, sizeof init_text,
             "needs heads of at least %d elements; width / heads = %zu / %zu = %zu, from",
             LOCAL_INIT_MIN_HEAD, model->width, model->heads, head);
    snprintf(size_text, sizeof size_text,
             "width / heads = %zu / %zu = %zu, wanted heads of at least %d elements for",
             model->width, model->heads, head, LOCAL_INIT_MIN_HEAD);
    return fail_pair(loader, "model.init", init_text, by_width ? "model.width" : "model.heads",
                     size_text, err);
}

static bool check_rules(Loader *loader, Err *err) {
    const Config *config = loader->config;
    bool is_fresh = !finetune_from_checkpoint(config);
    if (is_fresh && config->model.width % config->model.heads != 0)
        return fail_pair(loader, "model.heads", "must divide", "model.width",
                         "must be a multiple of", err);
    if (is_fresh && !check_local_init(loader, err)) return false;
    if (config->train.micro_batch > config->train.batch)
        return fail_pair(loader, "train.micro_batch", "must be at most", "train.batch",
                         "must be at least", err);
    return check_finetune(loader, err);
}

/* ---- derived paths ---- */

static bool derive_run_dir(Config *config, const char *stem, Err *err) {
    if (config->run_dir) return true;
    size_t size = strlen(stem) + sizeof "runs/";
    config->run_dir = malloc(size);
    if (!config->run_dir) return fail_memory(err);
    snprintf(config->run_dir, size, "runs/%s", stem);
    return true;
}

/* "<folder of run>/prepared/<corpus>-<type>-<vocab_size>/<leaf>": runs that share text and
 * tokenizer share the folder */
static char *derive_prepared(const Config *config, const char *corpus, const char *leaf) {
    size_t length = strlen(config->run_dir);
    while (length > 1 && config->run_dir[length - 1] == '/') length--; /* of "runs/x/" too */
    while (length > 0 && config->run_dir[length - 1] != '/') length--;
    char type[TEXT_MAX];
    value_text(type, sizeof type, find_key("tokenizer.type"), config);
    size_t size = length + strlen(corpus) + strlen(type) + strlen(leaf) + 64;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%.*sprepared/%s-%s-%zu/%s", (int)length, config->run_dir, corpus,
                 type, config->tokenizer.vocab_size, leaf);
    return path;
}

static bool derive_paths(Loader *loader, Err *err) {
    Config *config = loader->config;
    const char *slash = strrchr(config->path, '/');
    const char *stem = loader->corpus_here ? loader->corpus_here : slash ? slash + 1 : config->path;
    const char *corpus = loader->corpus ? loader->corpus : stem;
    if (!derive_run_dir(config, stem, err)) return false;
    if (!config->tokenizer.model)
        config->tokenizer.model = derive_prepared(config, corpus, "tokenizer.model");
    if (!config->data.tokens) config->data.tokens = derive_prepared(config, corpus, "tokens");
    return (config->tokenizer.model && config->data.tokens) || fail_memory(err);
}

/* A path that comes from a file name or folder, not from the config's text, may hold what YAML
 * cannot. */
static bool check_path_text(const char *key, const char *path, Err *err) {
    char shown[TEXT_MAX];
    if (strlen(path) <= YAML_MAX_SCALAR && text_is_printable(path, strlen(path))) return true;
    text_show(shown, sizeof shown, path);
    return err_set(err, ERR_CONFIG,
                   "%s = %s: the path is longer than %d bytes, not UTF-8, or has control "
                   "characters; a resolved config "
                   "could not hold it: rename the file or folder",
                   key, shown, YAML_MAX_SCALAR);
}

static bool check_paths(const Config *config, Err *err) {
    for (size_t i = 0; i < schema_count; i++) {
        const ConfigKey *key = &schema_keys[i];
        const void *member = schema_member_const(key, config);
        const char *path = key->type == KEY_PATH ? *(char *const *)member : NULL;
        if (path && !check_path_text(key->path, path, err)) return false;
        const GlobList *globs = key->type == KEY_GLOBS ? member : &(GlobList){0};
        for (size_t g = 0; g < globs->count; g++) {
            if (!check_path_text(key->path, globs->items[g].pattern, err)) return false;
        }
    }
    return true;
}

/* ---- notes ---- */

/* Does the main file, with the overrides, give every key that has a value?  Then it is the
 * config.yaml of a run, and its keys say nothing of what its user meant. */
static bool is_resolved(const Loader *loader) {
    for (size_t i = 0; i < schema_count; i++) {
        const Origin *origin = &loader->origins[i];
        if (origin->order > 0 && origin->layer >= loader->main_layer) continue;
        char *value = config_key_value(loader->config, schema_keys[i].path);
        bool has_value = value && *value;
        free(value);
        if (has_value) return false;
    }
    return true;
}

/* "key is not used by because" if the key was given in the main file or an override; what a base
 * gives is meant for other configs too. */
static void note_unused(FILE *notes, const Loader *loader, const char *path, bool is_used,
                        const char *because) {
    const Origin *origin = origin_of(loader, find_key(path));
    char place[PLACE_MAX];
    if (is_used || origin->order == 0 || origin->layer < loader->main_layer) return;
    if (origin->layer == loader->main_layer && is_resolved(loader)) return;
    source_place(place, sizeof place, &origin->source, origin->line, origin->column);
    fprintf(notes, "%s: %s has no effect with %s\n", place, path, because);
}

static void note_projection(FILE *notes, const Loader *loader) {
    const ModelConfig *model = &loader->config->model;
    static const char *const keys[] = {"model.k", "model.sharing", "model.projection",
                                       "model.proj_init_std", "optimizer.proj_lr"};
    if (model->attention == ATTENTION_FULL) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            note_unused(notes, loader, keys[i], false, "model.attention = full");
        return;
    }
    char because[TEXT_MAX] = "model.projection = ";
    size_t length = strlen(because);
    value_text(because + length, sizeof because - length, find_key("model.projection"),
               loader->config);
    bool has_any = model_has_projections(model),
         learned = has_any && model->projection != PROJECTION_FIXED;
    note_unused(notes, loader, "model.sharing", has_any, because);
    note_unused(notes, loader, "optimizer.proj_lr", learned, because);
    note_unused(notes, loader, "model.proj_init_std", learned, because);
}

static bool write_notes(Loader *loader, Err *err) {
    Config *config = loader->config;
    size_t length = 0;
    FILE *notes = open_memstream(&config->notes, &length);
    if (!notes) return fail_memory(err);
    bool adamw = config->optimizer.name == OPTIMIZER_ADAMW;
    note_projection(notes, loader);
    note_unused(notes, loader, "optimizer.betas", adamw, "optimizer.name = sgd");
    note_unused(notes, loader, "optimizer.eps", adamw, "optimizer.name = sgd");
    note_unused(notes, loader, "optimizer.momentum", !adamw, "optimizer.name = adamw");
    note_unused(notes, loader, "optimizer.decay", config->optimizer.weight_decay > 0,
                "optimizer.weight_decay = 0");
    note_unused(notes, loader, "train.short_rate", config->model.n > CONFIG_SHORTEST_PIECE,
                "a model.n of at most 8");
    note_unused(notes, loader, "train.memory",
                origin_of(loader, find_key("train.micro_batch"))->order == 0,
                "train.micro_batch given");
    note_unused(notes, loader, "checkpoint.keep", config->checkpoint.every > 0,
                "checkpoint.every = 0");
    note_finetune(notes, loader, note_unused);
    if (fclose(notes) != 0) return fail_memory(err);
    if (length == 0) {
        free(config->notes);
        config->notes = NULL;
    }
    return true;
}

/* An evaluation of a task reads all its rows: once an epoch is enough, unless asked otherwise. */
static void derive_eval_every(Loader *loader) {
    bool given = origin_of(loader, find_key("train.eval_every"))->order > 0;
    if (loader->config->finetune.task != TASK_NONE && !given) loader->config->train.eval_every = 0;
}

static bool record_given(Loader *loader, Err *err) {
    char place[PLACE_MAX];
    char **given_at = calloc(schema_count, sizeof *given_at);
    if (!given_at) return fail_memory(err);
    loader->config->given_at = given_at;
    for (size_t i = 0; i < schema_count; i++) {
        const Origin *at = &loader->origins[i];
        if (at->order == 0) continue;
        source_place(place, sizeof place, &at->source, at->line, at->column);
        given_at[i] = strdup(place);
        if (!given_at[i]) return fail_memory(err);
    }
    return true;
}

bool loader_finish(Loader *loader, Err *err) {
    if (!record_given(loader, err)) return false;
    derive_micro_batch(loader);
    derive_eval_every(loader);
    if (!fill_k(loader, err) || !check_rules(loader, err)) return false;
    config_set_vocab(loader->config, loader->config->tokenizer.vocab_size);
    return derive_paths(loader, err) && check_paths(loader->config, err) &&
           write_notes(loader, err);
}
