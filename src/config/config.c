/* Loading: a file with its extends chain, then overrides, into one Config. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "loader.h"

enum { FILE_MAX_BYTES = 1 << 20, EXTENDS_MAX = 16 };

/* The files being read, from the innermost outwards: finds cycles. */
typedef struct Chain {
    const char *path;
    dev_t device;
    ino_t inode;
    size_t length;
    const struct Chain *parent;
} Chain;

/* ---- names and folders ---- */

/* Owned by the loader, because origins point to it. */
static const char *keep_name(Loader *loader, char *name) {
    char **names = name ? realloc(loader->names, (loader->name_count + 1) * sizeof *names) : NULL;
    if (!names) {
        free(name);
        return NULL;
    }
    loader->names = names;
    names[loader->name_count++] = name;
    return name;
}

/* "configs/tiny.yaml" -> "tiny" */
static char *config_stem(const char *path) {
    const char *slash = strrchr(path, '/');
    char *stem = strdup(slash ? slash + 1 : path);
    char *dot = stem ? strrchr(stem, '.') : NULL;
    if (dot && dot != stem && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0)) *dot = '\0';
    return stem;
}

/* The folder of `path` without links, so that leading ../ of a glob can be resolved in it. */
static char *absolute_folder(const char *path, Err *err) {
    char *beside = io_path_beside(path, "."); /* "folder/." or "." */
    char *folder = beside ? realpath(beside, NULL) : NULL;
    if (!folder)
        err_set(err, ERR_FAILED, "%s: cannot resolve its folder: %s", path, strerror(errno));
    free(beside);
    return folder;
}

/* Turns the loader to another text: a file, or an override (which counts as written beside ./x). */
static bool enter_source(Loader *loader, char *name, bool is_override, const char *path, Err *err) {
    free(loader->folder);
    free(loader->corpus_here);
    loader->source.is_override = is_override;
    loader->source.name = keep_name(loader, name);
    loader->folder = absolute_folder(is_override ? "x" : path, err);
    loader->corpus_here = config_stem(path);
    if (!loader->folder) return false;
    return (loader->source.name && loader->corpus_here) || fail_memory(err);
}

/* ---- keys and sections ---- */

static bool fail_duplicate(Loader *loader, const Node *key, const char *path, size_t first_line,
                           Err *err) {
    return source_fail(err, &loader->source, key->line, key->column,
                       "%s is given twice, in line %zu and in line %zu: remove one", path,
                       first_line, key->line);
}

static bool set_key(Loader *loader, const ConfigKey *key, const Node *at, const Node *value,
                    Err *err) {
    if (!value_set(loader, key, at, value, err)) return false;
    loader->origins[key - schema_keys] = (Origin){
        .source = loader->source,
        .line = at ? at->line : 0,
        .column = at ? at->column : 0,
        .order = ++loader->order,
        .layer = loader->layer,
    };
    if (key->type == KEY_GLOBS && strcmp(schema_leaf(key), "train") == 0 && loader->corpus_here) {
        char *corpus = strdup(loader->corpus_here);
        if (!corpus) return fail_memory(err);
        free(loader->corpus);
        loader->corpus = corpus;
    }
    return true;
}

/* A "key: value" line of a section ("": outside of sections). */
static bool apply_key(Loader *loader, const char *section, const Node *name, Err *err) {
    char path[128];
    const Node *value = name->next;
    int length = snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", name->text);
    const ConfigKey *key = NULL;
    if (length > 0 && (size_t)length < sizeof path) key = schema_find(path, (size_t)length);
    if (!key || !schema_in_section(key, section)) {
        char shown[80];
        node_show(shown, sizeof shown, value);
        const KeyPlace place = {&loader->source, name->line, name->column};
        return schema_fail_unknown(err, &place, section, name->text, shown);
    }
    const Origin *origin = &loader->origins[key - schema_keys];
    if (origin->order > 0 && origin->layer == loader->layer)
        return fail_duplicate(loader, name, path, origin->line, err);
    return set_key(loader, key, name, value, err);
}

static bool apply_section(Loader *loader, const Node *name, Err *err) {
    const Node *body = name->next;
    if (body->type == NODE_SCALAR && !body->quoted && body->text[0] == '\0')
        return true; /* all keys commented out */
    if (body->type != NODE_MAP) {
        char shown[80];
        node_show(shown, sizeof shown, body);
        return source_fail(err, &loader->source, name->line, name->column,
                           "%s = %s: wanted a section, \"key: value\" lines indented below it",
                           name->text, shown);
    }
    for (const Node *key = body->first; key; key = key->next->next) {
        if (!apply_key(loader, name->text, key, err)) return false;
    }
    return true;
}

/* All of a text but `extends`, which the caller has followed. */
static bool apply_root(Loader *loader, const Node *root, Err *err) {
    size_t lines[16] = {0}; /* where each section stands, by its index */
    for (const Node *name = root->first; name; name = name->next->next) {
        if (strcmp(name->text, "extends") == 0) continue;
        if (strcmp(name->text, "sweep") == 0)
            return source_fail(err, &loader->source, name->line, name->column,
                               "sweep: the file is of a sweep; run it with `linformer sweep`");
        if (!schema_is_section(name->text, strlen(name->text))) {
            if (!apply_key(loader, "", name, err)) return false;
            continue;
        }
        size_t index = 0;
        while (strcmp(schema_sections[index], name->text) != 0) index++;
        if (lines[index]) return fail_duplicate(loader, name, name->text, lines[index], err);
        lines[index] = name->line;
        if (!apply_section(loader, name, err)) return false;
    }
    return true;
}

static bool check_root(const Loader *loader, const Node *root, Err *err) {
    if (!root) {
        return source_fail(
            err, &loader->source, 0, 0,
            "the file is empty: wanted at least one key (`linformer help config` lists them)");
    }
    if (root->type == NODE_MAP) return true;
    return source_fail(err, &loader->source, root->line, root->column,
                       "wanted \"key: value\" lines, found %s",
                       root->type == NODE_LIST ? "a list" : "plain text");
}

/* ---- files ---- */

static bool load_chain(Loader *loader, const char *path, const Chain *parent,
                       const KeyPlace *named_at, Err *err);

/* The file that `extends` names, first: what stands in the naming file replaces it. */
static bool follow_extends(Loader *loader, const Node *root, const Chain *chain, Err *err) {
    const Node *found = NULL;
    for (const Node *name = root->first; name; name = name->next->next) {
        if (strcmp(name->text, "extends") != 0) continue;
        if (found) return fail_duplicate(loader, name, "extends", found->line, err);
        found = name;
    }
    if (!found) return true;
    const Node *value = found->next;
    if (value->type != NODE_SCALAR || value->text[0] == '\0')
        return source_fail(err, &loader->source, found->line, found->column,
                           "extends: wanted the path of one file");
    char *named = path_expand_home(value->text);
    char *base = named ? io_path_beside(chain->path, named) : NULL;
    free(named);
    if (!base) return fail_memory(err);
    const Source source = loader->source;
    const KeyPlace place = {&source, found->line, found->column};
    bool ok = load_chain(loader, base, chain, &place, err);
    free(base);
    /* the run folder holds one config's outputs: the base's must not be written to */
    free(loader->config->run_dir);
    loader->config->run_dir = NULL;
    return ok;
}

/* At the `extends` line that named the file, or bare for the file of the command line. */
static bool fail_extends(Err *err, const KeyPlace *named_at, const char *reason) {
    if (!named_at) return err_set(err, ERR_CONFIG, "%s", reason);
    return source_fail(err, named_at->source, named_at->line, named_at->column, "extends: %s",
                       reason);
}

static bool check_chain(const Chain *chain, const KeyPlace *named_at, Err *err) {
    char reason[512];
    for (const Chain *c = chain->parent; c; c = c->parent) {
        if (c->device != chain->device || c->inode != chain->inode) continue;
        snprintf(reason, sizeof reason, "a cycle: %.300s extends itself%s", chain->path,
                 c == chain->parent ? "" : " through other files");
        return fail_extends(err, named_at, reason);
    }
    if (chain->length <= EXTENDS_MAX) return true;
    snprintf(reason, sizeof reason, "a chain of more than %d files", EXTENDS_MAX);
    return fail_extends(err, named_at, reason);
}

static bool apply_file(Loader *loader, const char *path, const Node *root, const Chain *chain,
                       Err *err) {
    if (!check_root(loader, root, err) || !follow_extends(loader, root, chain, err)) return false;
    /* the base has moved the loader's place */
    if (!enter_source(loader, strdup(path), false, path, err)) return false;
    loader->layer++;
    return apply_root(loader, root, err);
}

static bool load_chain(Loader *loader, const char *path, const Chain *parent,
                       const KeyPlace *named_at, Err *err) {
    Bytes file = {0};
    Node *root = NULL;
    Err fault = {0};
    struct stat st;
    bool ok = false;
    if (!io_read_file(&file, path, FILE_MAX_BYTES, &fault)) {
        fail_extends(err, named_at, fault.msg);
        goto done;
    }
    if (stat(path, &st) != 0) {
        fail_extends(err, named_at, "the file vanished while it was read");
        goto done;
    }
    const Chain chain = {path, st.st_dev, st.st_ino, parent ? parent->length + 1 : 1, parent};
    if (!check_chain(&chain, named_at, err)) goto done;
    if (!enter_source(loader, strdup(path), false, path, err)) goto done;
    ok = yaml_tree_parse(&root, &loader->source, (const char *)file.data, file.size, err) &&
         apply_file(loader, path, root, &chain, err);
done:
    yaml_tree_free(root);
    io_bytes_free(&file);
    return ok;
}

/* ---- overrides ---- */

static char *override_name(const char *text) {
    char shown[200], name[240];
    text_show(shown, sizeof shown, text);
    snprintf(name, sizeof name, "override '%s'", shown);
    return strdup(name);
}

static bool fail_override_key(Loader *loader, const char *text, size_t length, const Node *value,
                              Err *err) {
    char path[128], shown[80];
    const Source *source = &loader->source;
    snprintf(path, sizeof path, "%.*s", (int)(length < 100 ? length : 100), text);
    char *dot = strchr(path, '.');
    if (strcmp(path, "extends") == 0)
        return source_fail(err, source, 0, 0, "extends stands in files only");
    if (schema_is_section(path, strlen(path)))
        return source_fail(err, source, 0, 0, "set one key of the section at a time: %s.key=value",
                           path);
    if (strncmp(path, "model.sharing.", 14) == 0)
        return source_fail(err, source, 0, 0,
                           "set the whole: 'model.sharing={scope: layer, tie_kv: false}'");
    node_show(shown, sizeof shown, value);
    const KeyPlace place = {source, 0, 0};
    if (!dot || !schema_is_section(path, (size_t)(dot - path)))
        return schema_fail_unknown(err, &place, "", path, shown);
    *dot = '\0';
    return schema_fail_unknown(err, &place, path, dot + 1, shown);
}

static bool apply_override(Loader *loader, const char *text, Err *err) {
    if (!enter_source(loader, override_name(text), true, loader->config->path, err)) return false;
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return source_fail(err, &loader->source, 0, 0, "wanted section.key=value");
    size_t length = (size_t)(equals - text);
    const ConfigKey *key = schema_find(text, length);
    Node *parsed = NULL;
    if (!yaml_tree_parse(&parsed, &loader->source, equals + 1, strlen(equals + 1), err))
        return false;
    const Node empty = {.type = NODE_SCALAR, .text = (char[]){""}};
    const Node *value = parsed ? parsed : &empty;
    bool ok = key ? set_key(loader, key, NULL, value, err)
                  : fail_override_key(loader, text, length, value, err);
    yaml_tree_free(parsed);
    return ok;
}

/* ---- a whole load ---- */

/* A parser for each scalar would take longer than reading the files. */
static bool apply_default(Loader *loader, const ConfigKey *key, Err *err) {
    const Node scalar = {.type = NODE_SCALAR, .text = (char *)key->fallback};
    if (key->fallback[0] != '[') return value_set(loader, key, NULL, &scalar, err);
    Node *list = NULL;
    size_t length = strlen(key->fallback);
    bool ok = yaml_tree_parse(&list, &loader->source, key->fallback, length, err) &&
              value_set(loader, key, NULL, list, err);
    yaml_tree_free(list);
    return ok;
}

static bool apply_defaults(Loader *loader, Err *err) {
    loader->source = (Source){"default", true};
    for (size_t i = 0; i < schema_count; i++) {
        if (schema_keys[i].fallback && !apply_default(loader, &schema_keys[i], err)) return false;
    }
    return true;
}

static bool loader_begin(Loader *loader, Config *out, const char *path, Err *err) {
    memset(out, 0, sizeof *out);
    *loader = (Loader){.config = out};
    loader->origins = calloc(schema_count, sizeof *loader->origins);
    out->path = strdup(path);
    if (!loader->origins || !out->path) return fail_memory(err);
    return apply_defaults(loader, err);
}

static bool loader_end(Loader *loader, bool ok) {
    for (size_t i = 0; i < loader->name_count; i++) free(loader->names[i]);
    free(loader->names);
    free(loader->origins);
    free(loader->folder);
    free(loader->corpus);
    free(loader->corpus_here);
    if (!ok) config_free(loader->config);
    return ok;
}

bool config_load(Config *out, const char *path, const char *const *overrides, size_t override_count,
                 Err *err) {
    Loader loader;
    bool ok = loader_begin(&loader, out, path, err) && load_chain(&loader, path, NULL, NULL, err);
    loader.main_layer = loader.layer++;
    for (size_t i = 0; ok && i < override_count; i++)
        ok = apply_override(&loader, overrides[i], err);
    ok = ok && loader_finish(&loader, err);
    return loader_end(&loader, ok);
}

bool config_parse(Config *out, const char *yaml, size_t size, const char *name, Err *err) {
    Loader loader;
    Node *root = NULL;
    bool ok = loader_begin(&loader, out, name, err);
    loader.source = (Source){name, false};
    loader.layer = loader.main_layer = 1;
    ok = ok && yaml_tree_parse(&root, &loader.source, yaml, size, err) &&
         check_root(&loader, root, err);
    for (const Node *key = ok ? root->first : NULL; ok && key; key = key->next->next) {
        if (strcmp(key->text, "extends") == 0)
            ok = source_fail(err, &loader.source, key->line, key->column,
                             "extends stands in files only");
    }
    ok = ok && apply_root(&loader, root, err) && loader_finish(&loader, err);
    yaml_tree_free(root);
    return loader_end(&loader, ok);
}

bool config_from_yaml(Config *out, const char *yaml, const char *name, Err *err) {
    return config_parse(out, yaml, strlen(yaml), name, err);
}
