/* The file of a sweep -> axes; sweep_points.c makes the points of them. */
#include "sweep_config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "loader.h"
#include "sweep_axes.h"

enum { FILE_MAX_BYTES = 1 << 20, SHOWN_MAX = 80 };

/* ---- the keys ---- */

const SweepKey sweep_slots[SLOTS] = {
    [SLOT_BASE] = {"base", "a path",
                   "the config of every run, from the folder of the sweep's file"},
    [SLOT_COMMAND] = {"command", "one of pretrain, finetune; default pretrain",
                      "what every run does"},
    [SLOT_GRID] = {"grid", "a mapping of keys to lists",
                   "{model.k: [16, 32], optimizer.lr: [1e-3, 2e-3]}: each value with each other's. "
                   "Any key but run; a value that is a list itself, as a k for each layer, is an "
                   "item of the list: model.k: [[64, 32], [32, 64]]"},
    [SLOT_ZIP] = {"zip", "a list of mappings",
                  "[{model.n: [128, 256], train.batch: [64, 32]}]: the first values of the keys "
                  "together, then the second, ...; one axis of the grid for each mapping"},
    [SLOT_EXCLUDE] = {"exclude", "a list of mappings",
                      "[{model.k: 16, model.sharing: kv}]: leaves out the runs that have all these "
                      "values, which are written as in the axes"},
    [SLOT_SEEDS] =
        {"seeds", "an integer from 1 to 1000",
         "as many runs of each, with seeds train.seed, train.seed + 1, ...; an axis too"},
    [SLOT_FINETUNE] = {"finetune", "a path or a list of them",
                       "configs of tasks: when a run of command pretrain is done, its best.ckpt is "
                       "fine-tuned by each, in finetune-<name> of the run's folder"},
};

void sweep_write_help(FILE *out, void (*write_wrapped)(FILE *out, const char *text)) {
    fputs("\nsweep (a file of its own for `linformer sweep`, with run and this section alone)\n",
          out);
    for (size_t i = 0; i < SLOTS; i++) {
        fprintf(out, "  sweep.%s: %s\n", sweep_slots[i].name, sweep_slots[i].values);
        write_wrapped(out, sweep_slots[i].help);
    }
}

bool sweep_fail(const SweepReader *r, SweepSlot slot, const Node *node, Err *err,
                const char *format, ...) {
    const Given *given = &r->given[slot];
    const Node *at = node ? node : given->name ? given->name : given->value;
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return source_fail(err, &given->source, at->line, at->column, "%s", message);
}

bool sweep_fail_wanted(const SweepReader *r, SweepSlot slot, const Node *node, Err *err) {
    char shown[SHOWN_MAX];
    node_show(shown, sizeof shown, node);
    return sweep_fail(r, slot, node, err, "sweep.%s = %s: wanted %s", sweep_slots[slot].name, shown,
                      sweep_slots[slot].values);
}

static bool is_text(const Node *node) {
    return node->type == NODE_SCALAR && node->text[0] != '\0';
}

/* ---- texts ---- */

bool sweep_add_text(char ***list, size_t *count, char *text, Err *err) {
    char **grown = text ? realloc(*list, (*count + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(text);
        return fail_memory(err);
    }
    *list = grown;
    grown[(*count)++] = text;
    return true;
}

/* ---- files and words ---- */

static char *resolve(const SweepReader *r, const Given *given, const char *text) {
    char *path = path_expand_home(text);
    if (!path || given->source.is_override) return path;
    char *beside = io_path_beside(r->sweep->path, path);
    free(path);
    return beside;
}

static bool read_command(SweepReader *r, Err *err) {
    const Node *node = r->given[SLOT_COMMAND].value;
    if (!node) return true;
    if (node->type != NODE_SCALAR) return sweep_fail_wanted(r, SLOT_COMMAND, node, err);
    r->sweep->command = strcmp(node->text, "finetune") == 0 ? SWEEP_FINETUNE : SWEEP_PRETRAIN;
    return r->sweep->command == SWEEP_FINETUNE || strcmp(node->text, "pretrain") == 0 ||
           sweep_fail_wanted(r, SLOT_COMMAND, node, err);
}

static bool check_command(const SweepReader *r, const Config *base, Err *err) {
    bool is_task = r->sweep->command == SWEEP_FINETUNE;
    bool ok = is_task ? config_check_task(base, err) : config_check_no_task(base, err);
    return ok || err_context(err, "%s: sweep.command = %s", r->sweep->path,
                             is_task ? "finetune" : "pretrain");
}

static bool read_base(Config *base, SweepReader *r, Err *err) {
    SweepConfig *sweep = r->sweep;
    const Given *given = &r->given[SLOT_BASE];
    if (!given->value)
        return source_fail(err, &r->source, 0, 0,
                           "sweep.base is missing: wanted the config that every run begins with");
    if (!is_text(given->value)) return sweep_fail_wanted(r, SLOT_BASE, given->value, err);
    sweep->base = resolve(r, given, given->value->text);
    if (!sweep->base) return fail_memory(err);
    const char *const *fixed = (const char *const *)sweep->fixed;
    if (config_load(base, sweep->base, fixed, sweep->fixed_count, err)) return true;
    return err_context(err, "%s: sweep.base", sweep->path);
}

/* "configs/sst2.yaml" -> "sst2" */
static char *stem_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *stem = strdup(slash ? slash + 1 : path), *dot = stem ? strrchr(stem, '.') : NULL;
    if (dot && dot != stem) *dot = '\0';
    return stem;
}

static bool add_task(SweepReader *r, const Node *node, Err *err) {
    SweepConfig *sweep = r->sweep;
    size_t count = sweep->task_count;
    if (!is_text(node)) return sweep_fail_wanted(r, SLOT_FINETUNE, node, err);
    char *name = stem_of(node->text);
    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(name, sweep->task_names[i]) != 0) continue;
        free(name);
        return sweep_fail(r, SLOT_FINETUNE, node, err,
                          "sweep.finetune: two files called %s would share a folder: rename one",
                          sweep->task_names[i]);
    }
    if (!sweep_add_text(&sweep->task_names, &count, name, err)) return false;
    if (!sweep_add_text(&sweep->tasks, &sweep->task_count,
                        resolve(r, &r->given[SLOT_FINETUNE], node->text), err)) {
        free(name);
        return false;
    }
    Config config;
    if (!sweep_config_task(&config, sweep, sweep->task_count - 1, "best.ckpt", err)) return false;
    config_free(&config);
    return true;
}

static bool read_tasks(SweepReader *r, const Config *base, Err *err) {
    const Node *node = r->given[SLOT_FINETUNE].value;
    if (!node) return true;
    if (r->sweep->command == SWEEP_FINETUNE)
        return sweep_fail(
            r, SLOT_FINETUNE, NULL, err,
            "sweep.finetune is for command pretrain, whose runs are fine-tuned then; with "
            "command finetune the task is the base's");
    if (base->data.valid_globs.count == 0)
        return sweep_fail(
            r, SLOT_FINETUNE, NULL, err,
            "sweep.finetune starts from best.ckpt, and without data.valid in %.200s there "
            "is none: name held-out text there",
            r->sweep->base);
    if (node->type != NODE_LIST) return add_task(r, node, err);
    if (node->count == 0) return sweep_fail_wanted(r, SLOT_FINETUNE, node, err);
    for (const Node *item = node->first; item; item = item->next) {
        if (!add_task(r, item, err)) return false;
    }
    return true;
}

bool sweep_config_task(Config *out, const SweepConfig *sweep, size_t task, const char *init,
                       Err *err) {
    char *override = config_override_text("finetune.init", init);
    const char *const overrides[] = {override};
    bool ok = override ? config_load(out, sweep->tasks[task], overrides, 1, err) : fail_memory(err);
    free(override);
    if (ok && !config_check_task(out, err)) {
        config_free(out);
        ok = false;
    }
    return ok || err_context(err, "%s: sweep.finetune", sweep->path);
}

/* ---- the whole ---- */

static bool set_run(SweepReader *r, const Source *source, const Node *value, const Node *at,
                    Err *err) {
    char shown[SHOWN_MAX];
    node_show(shown, sizeof shown, value);
    if (!is_text(value))
        return source_fail(err, source, at->line, at->column, "run = %s: wanted a path", shown);
    free(r->sweep->run_dir);
    char *path = r->sweep->run_dir = path_expand_home(value->text);
    if (!path) return fail_memory(err);
    for (size_t i = strlen(path); i > 1 && path[i - 1] == '/'; i--) path[i - 1] = '\0';
    return true;
}

static bool set_slot(SweepReader *r, const Source *source, const Node *name, const char *leaf,
                     const Node *value, Err *err) {
    const char *names[SLOTS + 1] = {NULL};
    char suggestion[256];
    for (size_t i = 0; i < SLOTS; i++) {
        names[i] = sweep_slots[i].name;
        if (strcmp(names[i], leaf) != 0) continue;
        if (name && r->given[i].value)
            return source_fail(err, source, name->line, name->column,
                               "sweep.%s is given twice, first in line %zu", leaf,
                               r->given[i].name->line);
        r->given[i] = (Given){name, value, *source};
        return true;
    }
    schema_suggest_word(suggestion, sizeof suggestion, names, leaf);
    return source_fail(err, source, name ? name->line : 0, name ? name->column : 0,
                       "unknown key sweep.%.60s%s", leaf, suggestion);
}

static bool read_section(SweepReader *r, const Node *name, Err *err) {
    const Node *map = name->next;
    if (map->type != NODE_MAP)
        return source_fail(err, &r->source, name->line, name->column,
                           "sweep: wanted \"key: value\" lines indented below it");
    for (const Node *key = map->first; key; key = key->next->next) {
        if (!set_slot(r, &r->source, key, key->text, key->next, err)) return false;
    }
    return true;
}

static bool read_root(SweepReader *r, const Node *root, Err *err) {
    const Node *run = NULL, *sweep = NULL;
    for (const Node *name = root && root->type == NODE_MAP ? root->first : NULL; name;
         name = name->next->next) {
        const Node **slot = strcmp(name->text, "run") == 0     ? &run
                            : strcmp(name->text, "sweep") == 0 ? &sweep
                                                               : NULL;
        if (!slot)
            return source_fail(err, &r->source, name->line, name->column,
                               "%.60s: the file of a sweep has run and sweep alone; what all runs "
                               "have in common stands in sweep.base or on the command line",
                               name->text);
        if (*slot)
            return source_fail(err, &r->source, name->line, name->column,
                               "%s is given twice, first in line %zu", name->text, (*slot)->line);
        *slot = name;
    }
    if (!sweep)
        return source_fail(err, &r->source, 0, 0,
                           "no section sweep: wanted at least sweep: {base: ..., grid: ...}");
    return (!run || set_run(r, &r->source, run->next, run, err)) && read_section(r, sweep, err);
}

/* "run=..." or "sweep.key=..." */
static bool read_override(SweepReader *r, const char *text, const char *equals, Err *err) {
    char name[240], leaf[64];
    char *kept;
    Node **roots = realloc(r->roots, (r->root_count + 1) * sizeof *roots);
    if (!roots) return fail_memory(err);
    r->roots = roots;
    snprintf(name, sizeof name, "override '%.200s'", text);
    if (!(kept = strdup(name))) return fail_memory(err);
    size_t named = r->root_count;
    if (!sweep_add_text(&r->names, &named, kept, err)) return false;
    const Source source = {kept, true};
    Node **root = &r->roots[r->root_count++];
    if (!yaml_tree_parse(root, &source, equals + 1, strlen(equals + 1), err)) return false;
    if (!*root) return source_fail(err, &source, 0, 0, "no value");
    if (*text == 'r') return set_run(r, &source, *root, *root, err);
    snprintf(leaf, sizeof leaf, "%.*s", (int)(equals - text - 6), text + 6);
    return set_slot(r, &source, NULL, leaf, *root, err);
}

static bool read_overrides(SweepReader *r, const char *const *overrides, size_t count, Err *err) {
    for (size_t i = 0; i < count; i++) {
        const char *text = overrides[i], *equals = strchr(text, '=');
        bool own = equals && (strncmp(text, "run=", 4) == 0 || strncmp(text, "sweep.", 6) == 0);
        bool ok = own ? read_override(r, text, equals, err)
                      : sweep_add_text(&r->sweep->fixed, &r->sweep->fixed_count, strdup(text), err);
        if (ok && strncmp(text, "run=", 4) != 0)
            ok = sweep_add_text(&r->sweep->given, &r->sweep->given_count, strdup(text), err);
        if (!ok) return false;
    }
    return true;
}

/* A point's value would silently win over the command line's. */
static bool check_fixed(const SweepReader *r, Err *err) {
    for (size_t i = 0; i < r->sweep->fixed_count; i++) {
        const char *text = r->sweep->fixed[i];
        for (size_t a = 0; a < r->axes.count; a++) {
            const char *path = r->axes.items[a].key->path;
            size_t length = strlen(path);
            if (strncmp(text, path, length) == 0 && text[length] == '=')
                return err_set(err, ERR_CONFIG,
                               "override '%.200s': %s is an axis of the sweep, set sweep.grid "
                               "instead",
                               text, path);
        }
    }
    return true;
}

static bool read_all(SweepReader *r, Err *err) {
    Config base;
    if (!read_command(r, err) || !read_base(&base, r, err)) return false;
    bool ok = check_command(r, &base, err) && sweep_read_grid(r, err) && sweep_read_zip(r, err) &&
              sweep_read_seeds(r, &base, err) && sweep_read_exclude(r, err) &&
              check_fixed(r, err) && read_tasks(r, &base, err);
    config_free(&base);
    if (ok && r->axes.count == 0)
        ok = source_fail(err, &r->source, 0, 0,
                         "nothing to sweep: wanted sweep.grid, sweep.zip or sweep.seeds");
    return ok && sweep_expand(r->sweep, &r->axes, err);
}

static bool begin(SweepConfig *out, const char *path, Err *err) {
    *out = (SweepConfig){.path = strdup(path)};
    char *stem = stem_of(path);
    size_t size = stem ? strlen(stem) + sizeof "runs/" : 0;
    out->run_dir = stem ? malloc(size) : NULL;
    if (out->run_dir) snprintf(out->run_dir, size, "runs/%s", stem);
    free(stem);
    return (out->path && out->run_dir) || fail_memory(err);
}

static void reader_free(SweepReader *r) {
    for (size_t i = 0; i < r->root_count; i++) yaml_tree_free(r->roots[i]);
    for (size_t i = 1; i < r->root_count; i++) free(r->names[i]);
    for (size_t a = 0; a < r->axes.count; a++) free(r->axes.items[a].overrides);
    free(r->names);
    free(r->roots);
    free(r->axes.exclusions);
}

bool sweep_config_load(SweepConfig *out, const char *path, const char *const *overrides,
                       size_t override_count, Err *err) {
    Bytes file = {0};
    SweepReader r = {.sweep = out, .source = {path, false}};
    bool ok = begin(out, path, err);
    if (ok && !io_read_file(&file, path, FILE_MAX_BYTES, err)) {
        if (err) err->code = ERR_CONFIG;
        ok = false;
    }
    r.roots = calloc(1, sizeof *r.roots);
    r.names = calloc(1, sizeof *r.names);
    if (ok && (!r.roots || !r.names)) ok = fail_memory(err);
    if (ok) r.root_count = 1;
    ok = ok && yaml_tree_parse(&r.roots[0], &r.source, (const char *)file.data, file.size, err) &&
         read_root(&r, r.roots[0], err) && read_overrides(&r, overrides, override_count, err) &&
         read_all(&r, err);
    reader_free(&r);
    io_bytes_free(&file);
    if (!ok) sweep_config_free(out);
    return ok;
}

static void free_texts(char **texts, size_t count) {
    for (size_t i = 0; texts && i < count; i++) free(texts[i]);
    free(texts);
}

void sweep_config_free(SweepConfig *sweep) {
    for (size_t i = 0; sweep->points && i < sweep->count; i++) {
        free(sweep->points[i].name);
        free(sweep->points[i].overrides);
    }
    free(sweep->points);
    free_texts(sweep->axes, sweep->axis_count);
    free_texts(sweep->tasks, sweep->task_count);
    free_texts(sweep->task_names, sweep->task_count);
    free_texts(sweep->given, sweep->given_count);
    free_texts(sweep->fixed, sweep->fixed_count);
    free_texts(sweep->texts, sweep->text_count);
    free(sweep->path);
    free(sweep->run_dir);
    free(sweep->base);
    *sweep = (SweepConfig){0};
}
