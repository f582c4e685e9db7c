/* The axes of a sweep and what it excludes, from its file. */
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "numbers.h"
#include "sweep_axes.h"

enum { SEEDS_MAX = 1000, SHOWN_MAX = 80 };

/* ---- values ---- */

static void write_quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* A value as the YAML of an override. */
static void write_value(FILE *out, const Node *node, bool inside) {
    if (node->type == NODE_SCALAR) {
        if (node->quoted || (inside && strpbrk(node->text, ",[]{}:#")))
            write_quoted(out, node->text);
        else
            fputs(node->text, out);
        return;
    }
    bool is_map = node->type == NODE_MAP;
    fputc(is_map ? '{' : '[', out);
    size_t i = 0;
    for (const Node *item = node->first; item; item = item->next, i++) {
        if (i > 0) fputs(is_map && i % 2 == 1 ? ": " : ", ", out);
        write_value(out, item, true);
    }
    fputc(is_map ? '}' : ']', out);
}

/* "key=value"; malloc'd. */
static char *override_of(const char *key, const Node *value) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    fprintf(out, "%s=", key);
    write_value(out, value, false);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

char *config_override_text(const char *key, const char *text) {
    const Node node = {.type = NODE_SCALAR, .text = (char *)text, .quoted = true};
    return override_of(key, &node);
}

/* ---- axes ---- */

static const ConfigKey *find_key(const SweepReader *r, SweepSlot slot, const Node *name, Err *err) {
    const ConfigKey *key = schema_find(name->text, strlen(name->text));
    const Given *given = &r->given[slot];
    const KeyPlace place = {&given->source, name->line, name->column};
    char section[64], *dot;
    if (key && strcmp(key->path, "run") != 0) return key;
    if (key) {
        sweep_fail(r, slot, name, err,
                   "run is no axis: every run has a folder of its own below the sweep's");
    } else if (schema_is_section(name->text, strlen(name->text))) {
        sweep_fail(r, slot, name, err,
                   "%s is a section: name its keys in full, e.g. model.k: [16, 32]", name->text);
    } else {
        snprintf(section, sizeof section, "%.60s", name->text);
        if ((dot = strchr(section, '.')) != NULL) *dot = '\0';
        bool known = dot && schema_is_section(section, strlen(section));
        schema_fail_unknown(err, &place, known ? section : "",
                            known ? strchr(name->text, '.') + 1 : name->text, "");
    }
    return NULL;
}

static SweepAxis *find_axis(SweepAxes *axes, const ConfigKey *key) {
    for (size_t i = 0; i < axes->count; i++) {
        if (axes->items[i].key == key) return &axes->items[i];
    }
    return NULL;
}

static SweepAxis *add_axis(SweepReader *r, SweepSlot slot, const Node *name, const ConfigKey *key,
                           Err *err) {
    SweepAxes *axes = &r->axes;
    if (find_axis(axes, key)) {
        sweep_fail(r, slot, name, err, "%s is given twice: it is an axis already", key->path);
        return NULL;
    }
    for (size_t i = 0; key->type == KEY_BUDGET && i < axes->count; i++) {
        if (axes->items[i].key->type != KEY_BUDGET) continue;
        sweep_fail(r, slot, name, err, "%s: a run has one budget, and %s is an axis too", key->path,
                   axes->items[i].key->path);
        return NULL;
    }
    if (axes->count == SWEEP_MAX_AXES) {
        sweep_fail(r, slot, name, err, "more than %d axes", SWEEP_MAX_AXES);
        return NULL;
    }
    char *path = strdup(key->path);
    if (!sweep_add_text(&r->sweep->axes, &r->sweep->axis_count, path, err)) return NULL;
    SweepAxis *axis = &axes->items[axes->count++];
    *axis = (SweepAxis){.key = key, .group = axes->groups};
    return axis;
}

static bool add_value(SweepReader *r, SweepAxis *axis, char *override, Err *err) {
    const char **grown = realloc(axis->overrides, (axis->count + 1) * sizeof *grown);
    if (!grown) {
        free(override);
        return fail_memory(err);
    }
    axis->overrides = grown;
    if (!sweep_add_text(&r->sweep->texts, &r->sweep->text_count, override, err)) return false;
    grown[axis->count++] = override;
    return true;
}

/* "key: [values]" */
static bool read_axis(SweepReader *r, SweepSlot slot, const Node *name, Err *err) {
    char shown[SHOWN_MAX];
    const Node *list = name->next;
    const ConfigKey *key = find_key(r, slot, name, err);
    if (!key) return false;
    node_show(shown, sizeof shown, list);
    if (list->type != NODE_LIST || list->count == 0)
        return sweep_fail(r, slot, list, err,
                          "sweep.%s: %s = %s: wanted a list of values, [a, b, ...]",
                          sweep_slots[slot].name, name->text, shown);
    SweepAxis *axis = add_axis(r, slot, name, key, err);
    if (!axis) return false;
    for (const Node *item = list->first; item; item = item->next) {
        if (item->type == NODE_SCALAR && !item->quoted && !*item->text)
            return sweep_fail(r, slot, item, err, "sweep.%s: %s: an item of the list has no value",
                              sweep_slots[slot].name, name->text);
        if (!add_value(r, axis, override_of(key->path, item), err)) return false;
    }
    return true;
}

bool sweep_read_grid(SweepReader *r, Err *err) {
    const Node *map = r->given[SLOT_GRID].value;
    if (!map) return true;
    if (map->type != NODE_MAP) return sweep_fail_wanted(r, SLOT_GRID, map, err);
    for (const Node *name = map->first; name; name = name->next->next) {
        if (!read_axis(r, SLOT_GRID, name, err)) return false;
        r->axes.groups++;
    }
    return true;
}

static bool read_zip_group(SweepReader *r, const Node *map, Err *err) {
    size_t first = r->axes.count;
    if (map->type != NODE_MAP || map->count < 2)
        return sweep_fail(
            r, SLOT_ZIP, map, err,
            "sweep.zip: wanted mappings of at least two keys to lists of one length; a "
            "single key belongs into sweep.grid");
    for (const Node *name = map->first; name; name = name->next->next) {
        if (!read_axis(r, SLOT_ZIP, name, err)) return false;
        const SweepAxis *a = &r->axes.items[first], *b = &r->axes.items[r->axes.count - 1];
        if (a->count != b->count)
            return sweep_fail(
                r, SLOT_ZIP, name, err,
                "sweep.zip: %s has %zu values and %s has %zu: zipped lists are of one "
                "length",
                b->key->path, b->count, a->key->path, a->count);
    }
    r->axes.groups++;
    return true;
}

bool sweep_read_zip(SweepReader *r, Err *err) {
    const Node *list = r->given[SLOT_ZIP].value;
    if (!list) return true;
    if (list->type != NODE_LIST) return sweep_fail_wanted(r, SLOT_ZIP, list, err);
    for (const Node *item = list->first; item; item = item->next) {
        if (!read_zip_group(r, item, err)) return false;
    }
    return true;
}

bool sweep_read_seeds(SweepReader *r, const Config *base, Err *err) {
    static const char path[] = "train.seed";
    const Node *node = r->given[SLOT_SEEDS].value;
    double seeds;
    if (!node) return true;
    if (node->type != NODE_SCALAR || node->quoted ||
        number_read(&seeds, node->text, true) != NUMBER_OK || !(seeds >= 1 && seeds <= SEEDS_MAX))
        return sweep_fail_wanted(r, SLOT_SEEDS, node, err);
    const ConfigKey *key = schema_find(path, sizeof path - 1);
    SweepAxis *axis = add_axis(r, SLOT_SEEDS, NULL, key, err);
    if (!axis) return false;
    r->axes.groups++;
    for (uint64_t i = 0; i < (uint64_t)seeds; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s=%llu", path, (unsigned long long)(base->train.seed + i));
        if (!add_value(r, axis, strdup(text), err)) return false;
    }
    return true;
}

/* ---- exclusions ---- */

static bool read_excluded_value(SweepReader *r, SweepExclusion *out, const Node *name, Err *err) {
    char shown[SHOWN_MAX];
    const ConfigKey *key = find_key(r, SLOT_EXCLUDE, name, err);
    if (!key) return false;
    const SweepAxis *axis = find_axis(&r->axes, key);
    if (!axis)
        return sweep_fail(r, SLOT_EXCLUDE, name, err, "sweep.exclude: %s is no axis of this sweep",
                          name->text);
    for (size_t i = 0; i < out->count; i++) {
        if (&r->axes.items[out->axes[i]] == axis)
            return sweep_fail(r, SLOT_EXCLUDE, name, err, "sweep.exclude: %s is given twice",
                              name->text);
    }
    char *wanted = override_of(key->path, name->next);
    if (!wanted) return fail_memory(err);
    size_t i = 0;
    while (i < axis->count && strcmp(axis->overrides[i], wanted) != 0) i++;
    free(wanted);
    node_show(shown, sizeof shown, name->next);
    if (i == axis->count)
        return sweep_fail(
            r, SLOT_EXCLUDE, name->next, err,
            "sweep.exclude: %s = %s is no value of that axis; write it as it stands there",
            name->text, shown);
    out->axes[out->count] = (size_t)(axis - r->axes.items);
    out->values[out->count++] = i;
    return true;
}

bool sweep_read_exclude(SweepReader *r, Err *err) {
    const Node *list = r->given[SLOT_EXCLUDE].value;
    SweepAxes *axes = &r->axes;
    if (!list) return true;
    if (list->type != NODE_LIST) return sweep_fail_wanted(r, SLOT_EXCLUDE, list, err);
    axes->exclusions = calloc(list->count + 1, sizeof *axes->exclusions);
    if (!axes->exclusions) return fail_memory(err);
    for (const Node *item = list->first; item; item = item->next) {
        SweepExclusion *exclusion = &axes->exclusions[axes->exclusion_count++];
        exclusion->line = item->line;
        if (item->type != NODE_MAP || item->count == 0)
            return sweep_fail(r, SLOT_EXCLUDE, item, err,
                              "sweep.exclude: wanted mappings of keys to a value each");
        for (const Node *name = item->first; name; name = name->next->next) {
            if (!read_excluded_value(r, exclusion, name, err)) return false;
        }
    }
    return true;
}
