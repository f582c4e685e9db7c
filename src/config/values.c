/* One key at a time: YAML node -> member of Config, and back. */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "numbers.h"

enum { SHOWN_MAX = 80, WANTED_MAX = 256, GLOBS_MAX = 1024 };

_Static_assert(sizeof(Scope) == sizeof(unsigned) && sizeof(NormPlace) == sizeof(unsigned),
               "KEY_WORD members are read and written as unsigned");

bool value_fail(const Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                Err *err, const char *format, ...) {
    char shown[SHOWN_MAX], message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    node_show(shown, sizeof shown, node);
    return source_fail(err, &loader->source, at ? at->line : 0, at ? at->column : 0, "%s = %s: %s",
                       key->path, shown, message);
}

static bool fail_wanted(const Loader *loader, const ConfigKey *key, const Node *at,
                        const Node *node, Err *err) {
    char wanted[WANTED_MAX];
    schema_describe(wanted, sizeof wanted, key);
    return value_fail(loader, key, at, node, err, "wanted %s", wanted);
}

static bool is_null(const Node *node) {
    return node->type == NODE_SCALAR && !node->quoted &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

/* ---- numbers ---- */

static bool is_integer_key(const ConfigKey *key) {
    return key->type == KEY_SIZE || key->type == KEY_U64 || key->type == KEY_K ||
           (key->type == KEY_BUDGET && (key->unit == BUDGET_STEPS || key->unit == BUDGET_TOKENS));
}

static bool read_number(double *out, const Loader *loader, const ConfigKey *key, const Node *at,
                        const Node *node, Err *err) {
    double value = 0;
    if (node->type != NODE_SCALAR) return fail_wanted(loader, key, at, node, err);
    NumberFault fault = key->type == KEY_BYTES
                            ? bytes_read(&value, node->text)
                            : number_read(&value, node->text, is_integer_key(key));
    if (fault == NUMBER_LEADING_ZERO)
        return value_fail(loader, key, at, node, err,
                          "leading zeros are refused (some readers take 010 for 8)");
    if (fault == NUMBER_UNDERSCORE)
        return value_fail(loader, key, at, node, err, "write the number without underscores");
    if (fault != NUMBER_OK) return fail_wanted(loader, key, at, node, err);
    if (node->quoted)
        return value_fail(loader, key, at, node, err, "quotes make it text: write the bare number");
    bool low_ok = key->open & OPEN_LOW ? value > key->low : value >= key->low;
    bool high_ok = key->open & OPEN_HIGH ? value < key->high : value <= key->high;
    if (!low_ok || !high_ok) return fail_wanted(loader, key, at, node, err);
    *out = value;
    return true;
}

static bool set_pair(Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                     Err *err) {
    double pair[2];
    if (node->type != NODE_LIST || node->count != 2) return fail_wanted(loader, key, at, node, err);
    const Node *item = node->first;
    for (int i = 0; i < 2; i++, item = item->next) {
        if (!read_number(&pair[i], loader, key, item, item, err)) return false;
    }
    memcpy(schema_member(key, loader->config), pair, sizeof pair);
    return true;
}

static bool set_k(Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                  Err *err) {
    size_t *k = schema_member(key, loader->config);
    double value;
    if (node->type != NODE_LIST) {
        if (!read_number(&value, loader, key, at, node, err)) return false;
        k[0] = (size_t)value;
        loader->k_count = 0;
        return true;
    }
    if (node->count == 0 || node->count > CONFIG_MAX_LAYERS) {
        return value_fail(loader, key, at, node, err,
                          "wanted one integer for each layer, found %zu items", node->count);
    }
    size_t i = 0;
    for (const Node *item = node->first; item; item = item->next) {
        if (!read_number(&value, loader, key, item, item, err)) return false;
        k[i++] = (size_t)value;
    }
    loader->k_count = i;
    return true;
}

static bool set_budget(Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                       Err *err) {
    double value;
    if (!read_number(&value, loader, key, at, node, err)) return false;
    bool replaces = loader->layer == 0 || loader->source.is_override;
    for (size_t i = 0; !replaces && i < schema_count; i++) {
        const ConfigKey *other = &schema_keys[i];
        const Origin *origin = &loader->origins[i];
        if (other->type != KEY_BUDGET || other == key || origin->layer != loader->layer) continue;
        char place[512];
        source_place(place, sizeof place, &origin->source, origin->line, origin->column);
        return value_fail(loader, key, at, node, err,
                          "a run has one budget, and %s is given too (%s): remove one", other->path,
                          place);
    }
    loader->config->train.budget = value;
    loader->config->train.budget_unit = key->unit;
    return true;
}

/* ---- words ---- */

static bool word_index(unsigned *out, const char *const *words, const char *text) {
    for (unsigned i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool set_word(Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                     Err *err) {
    char suggestion[WANTED_MAX];
    unsigned index = 0;
    if (node->type != NODE_SCALAR) return fail_wanted(loader, key, at, node, err);
    if (!word_index(&index, key->words, node->text)) {
        const KeyPlace place = {&loader->source, at ? at->line : 0, at ? at->column : 0};
        if (!schema_refuse_causal(err, &place, key->path, node->text, node->text)) return false;
        schema_suggest_word(suggestion, sizeof suggestion, key->words, node->text);
        return value_fail(loader, key, at, node, err, "not known%s", suggestion);
    }
    memcpy(schema_member(key, loader->config), &index, sizeof index);
    return true;
}

static bool read_bool(bool *out, const Loader *loader, const ConfigKey *key, const Node *at,
                      const Node *node, Err *err) {
    bool plain = node->type == NODE_SCALAR && !node->quoted;
    bool yes = plain && strcmp(node->text, "true") == 0;
    if (!yes && !(plain && strcmp(node->text, "false") == 0))
        return value_fail(loader, key, at, node, err,
                          "%s is written true or false (not yes, no, on, off)", at->text);
    *out = yes;
    return true;
}

static bool set_sharing_map(Loader *loader, const ConfigKey *key, const Node *node, Err *err) {
    const Node *scope = NULL, *tie = NULL;
    unsigned scope_index = 0;
    bool tie_kv = false;
    for (const Node *name = node->first; name; name = name->next->next) {
        const Node **slot = strcmp(name->text, "scope") == 0    ? &scope
                            : strcmp(name->text, "tie_kv") == 0 ? &tie
                                                                : NULL;
        if (!slot)
            return value_fail(loader, key, name, node, err,
                              "unknown key %s: it takes scope and tie_kv", name->text);
        if (*slot) {
            return value_fail(loader, key, name, node, err, "%s is given twice, first in line %zu",
                              name->text, (*slot)->line);
        }
        *slot = name;
    }
    if (!scope || !tie)
        return value_fail(loader, key, node, node, err,
                          "the mapping needs both scope and tie_kv; %s is missing",
                          scope ? "tie_kv" : "scope");
    const Node *word = scope->next;
    if (word->type != NODE_SCALAR || !word_index(&scope_index, schema_scopes, word->text)) {
        for (const SharingName *s = schema_sharing; s->name && word->type == NODE_SCALAR; s++) {
            if (strcmp(s->name, word->text) == 0)
                return value_fail(
                    loader, key, scope, node, err,
                    "%s is a shorthand for scope and tie_kv together: write sharing: %s", s->name,
                    s->name);
        }
        return value_fail(loader, key, scope, node, err, "scope is one of head, layer, model");
    }
    if (!read_bool(&tie_kv, loader, key, tie, tie->next, err)) return false;
    loader->config->model.scope = (Scope)scope_index;
    loader->config->model.tie_kv = tie_kv;
    return true;
}

static bool set_sharing(Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                        Err *err) {
    if (node->type == NODE_MAP) return set_sharing_map(loader, key, node, err);
    if (node->type != NODE_SCALAR) return fail_wanted(loader, key, at, node, err);
    const char *names[8] = {NULL};
    for (size_t i = 0; schema_sharing[i].name; i++) {
        names[i] = schema_sharing[i].name;
        if (strcmp(node->text, names[i]) != 0) continue;
        loader->config->model.scope = schema_sharing[i].scope;
        loader->config->model.tie_kv = schema_sharing[i].tie_kv;
        return true;
    }
    char suggestion[WANTED_MAX];
    schema_suggest_word(suggestion, sizeof suggestion, names, node->text);
    return value_fail(
        loader, key, at, node, err, "not known%s%s", suggestion,
        strstr(suggestion, "one of") ? ", or {scope: head|layer|model, tie_kv: true|false}" : "");
}

/* ---- paths ---- */

static bool check_path(const Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                       Err *err) {
    if (node->type != NODE_SCALAR) return fail_wanted(loader, key, at, node, err);
    if (node->text[0] == '\0') return value_fail(loader, key, at, node, err, "an empty path");
    if (!node->quoted && (strcmp(node->text, "true") == 0 || strcmp(node->text, "false") == 0))
        return fail_wanted(loader, key, at, node, err);
    return true;
}

static bool set_path(Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                     Err *err) {
    if (!check_path(loader, key, at, node, err)) return false;
    char **member = schema_member(key, loader->config);
    /* a resolved config is taken as it is */
    char *path = loader->folder ? path_expand_home(node->text) : strdup(node->text);
    if (!path) return fail_memory(err);
    free(*member);
    *member = path;
    return true;
}

static bool set_text(Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                     Err *err) {
    if (node->type != NODE_SCALAR) return fail_wanted(loader, key, at, node, err);
    if (node->text[0] == '\0') return value_fail(loader, key, at, node, err, "an empty name");
    char **member = schema_member(key, loader->config);
    char *text = strdup(node->text);
    if (!text) return fail_memory(err);
    free(*member);
    *member = text;
    return true;
}

static void globs_free(GlobList *globs) {
    for (size_t i = 0; i < globs->count; i++) {
        free(globs->items[i].pattern);
        free(globs->items[i].place);
    }
    free(globs->items);
    *globs = (GlobList){0};
}

static char *glob_resolve(const Loader *loader, const char *text) {
    if (!loader->folder) return strdup(text);
    if (text[0] == '~' && text[1] == '/') return path_expand_home(text);
    return text[0] == '/' ? strdup(text) : glob_join(loader->folder, text);
}

static bool add_glob(GlobList *globs, const Loader *loader, const ConfigKey *key, const Node *at,
                     const Node *node, Err *err) {
    char place[512];
    if (!check_path(loader, key, at, node, err)) return false;
    source_place(place, sizeof place, &loader->source, at ? at->line : 0, at ? at->column : 0);
    Glob glob = {glob_resolve(loader, node->text), strdup(place)};
    if (!glob.pattern || !glob.place) {
        free(glob.pattern);
        free(glob.place);
        return fail_memory(err);
    }
    globs->items[globs->count++] = glob;
    return true;
}

static bool set_globs(Loader *loader, const ConfigKey *key, const Node *at, const Node *node,
                      Err *err) {
    GlobList globs = {0};
    bool ok = node->type != NODE_MAP || fail_wanted(loader, key, at, node, err);
    size_t count = node->type == NODE_LIST ? node->count : 1;
    if (ok && count > GLOBS_MAX)
        ok = value_fail(loader, key, at, node, err, "a list of %zu: at most %d, use globs (*.txt)",
                        count, GLOBS_MAX);
    if (ok && count > 0 && !(globs.items = calloc(count, sizeof *globs.items)))
        ok = fail_memory(err);
    if (ok && node->type == NODE_LIST) {
        for (const Node *item = node->first; ok && item; item = item->next) {
            ok = is_null(item)
                     ? value_fail(loader, key, item, node, err, "an item of the list has no value")
                     : add_glob(&globs, loader, key, item, item, err);
        }
    } else if (ok) {
        ok = add_glob(&globs, loader, key, at, node, err);
    }
    GlobList *member = schema_member(key, loader->config);
    if (ok) {
        globs_free(member);
        *member = globs;
    } else {
        globs_free(&globs);
    }
    return ok;
}

/* ---- all types ---- */

bool value_set(Loader *loader, const ConfigKey *key, const Node *at, const Node *node, Err *err) {
    double number;
    void *member = schema_member(key, loader->config);
    if (is_null(node)) {
        char wanted[WANTED_MAX];
        schema_describe(wanted, sizeof wanted, key);
        return source_fail(err, &loader->source, at ? at->line : 0, at ? at->column : 0,
                           "%s has no value: wanted %s", key->path, wanted);
    }
    switch (key->type) {
    case KEY_SIZE:
    case KEY_BYTES:
        if (!read_number(&number, loader, key, at, node, err)) return false;
        *(size_t *)member = (size_t)number;
        return true;
    case KEY_U64:
        if (!read_number(&number, loader, key, at, node, err)) return false;
        *(uint64_t *)member = (uint64_t)number;
        return true;
    case KEY_REAL: return read_number(member, loader, key, at, node, err);
    case KEY_PAIR: return set_pair(loader, key, at, node, err);
    case KEY_WORD: return set_word(loader, key, at, node, err);
    case KEY_PATH: return set_path(loader, key, at, node, err);
    case KEY_TEXT: return set_text(loader, key, at, node, err);
    case KEY_GLOBS: return set_globs(loader, key, at, node, err);
    case KEY_K: return set_k(loader, key, at, node, err);
    case KEY_SHARING: return set_sharing(loader, key, at, node, err);
    case KEY_BUDGET: return set_budget(loader, key, at, node, err);
    }
    return false;
}

/* ---- writing ---- */

static void write_number(FILE *out, double value) {
    char text[32];
    number_write(text, sizeof text, value);
    fputs(text, out);
}

/* Text that any YAML reader takes for the same string. */
static void write_string(FILE *out, const char *text) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    bool plain = strchr(text, '/') && strspn(text, safe) == strlen(text) && text[0] != '-';
    if (plain) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_k(FILE *out, const ModelConfig *model) {
    bool uniform = true;
    for (size_t l = 1; l < model->layers; l++) uniform = uniform && model->k[l] == model->k[0];
    if (uniform) {
        fprintf(out, "%zu", model->k[0]);
        return;
    }
    for (size_t l = 0; l < model->layers; l++) fprintf(out, "%s%zu", l ? ", " : "[", model->k[l]);
    fputc(']', out);
}

static void write_sharing(FILE *out, const ModelConfig *model) {
    for (const SharingName *s = schema_sharing; s->name; s++) {
        if (s->scope == model->scope && s->tie_kv == model->tie_kv) {
            fputs(s->name, out);
            return;
        }
    }
    fprintf(out, "{scope: %s, tie_kv: %s}", schema_scopes[model->scope],
            model->tie_kv ? "true" : "false");
}

static void write_globs(FILE *out, const GlobList *globs) {
    for (size_t i = 0; i < globs->count; i++) {
        fputs(i ? ", " : "[", out);
        write_string(out, globs->items[i].pattern);
    }
    fputc(']', out);
}

bool value_write(FILE *out, const ConfigKey *key, const Config *config) {
    const void *member = schema_member_const(key, config);
    char bytes[32];
    unsigned word;
    if (config->finetune.task == TASK_NONE && schema_in_section(key, "finetune")) return false;
    switch (key->type) {
    case KEY_SIZE: fprintf(out, "%zu", *(const size_t *)member); return true;
    case KEY_BYTES:
        bytes_write(bytes, sizeof bytes, *(const size_t *)member);
        fputs(bytes, out);
        return true;
    case KEY_U64: fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)member); return true;
    case KEY_REAL: write_number(out, *(const double *)member); return true;
    case KEY_PAIR:
        fputc('[', out);
        write_number(out, ((const double *)member)[0]);
        fputs(", ", out);
        write_number(out, ((const double *)member)[1]);
        fputc(']', out);
        return true;
    case KEY_WORD:
        memcpy(&word, member, sizeof word);
        fputs(key->words[word], out);
        return true;
    case KEY_PATH:
    case KEY_TEXT:
        if (*(char *const *)member) write_string(out, *(char *const *)member);
        return *(char *const *)member != NULL;
    case KEY_GLOBS:
        if (((const GlobList *)member)->count == 0) return false;
        write_globs(out, member);
        return true;
    case KEY_K: write_k(out, &config->model); return true;
    case KEY_SHARING: write_sharing(out, &config->model); return true;
    case KEY_BUDGET:
        if (config->train.budget_unit != key->unit) return false;
        write_number(out, config->train.budget);
        return true;
    }
    return false;
}

void value_text(char *out, size_t size, const ConfigKey *key, const Config *config) {
    char *full = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&full, &length);
    if (f) value_write(f, key, config);
    if (!f || fclose(f) != 0 || !full)
        snprintf(out, size, "?");
    else
        text_show(out, size, full);
    free(full);
}
