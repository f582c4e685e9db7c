/* The points of a sweep: products of axes without what is excluded, and their names. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "loader.h"
#include "sweep_axes.h"

enum { VALUE_MAX = 60, NAME_MAX_BYTES = 200 };

/* ---- products ---- */

/* Length of the axes of a group. */
static size_t group_length(const SweepAxes *axes, size_t group) {
    size_t a = 0;
    while (axes->items[a].group != group) a++;
    return axes->items[a].count;
}

static bool is_excluded(const SweepAxes *axes, const size_t *at) {
    for (size_t e = 0; e < axes->exclusion_count; e++) {
        const SweepExclusion *x = &axes->exclusions[e];
        size_t i = 0;
        while (i < x->count && at[axes->items[x->axes[i]].group] == x->values[i]) i++;
        if (i == x->count) return true;
    }
    return false;
}

/* The next place of every group, the last one first; false at the end. */
static bool advance(size_t *at, const SweepAxes *axes) {
    for (size_t g = axes->groups; g-- > 0;) {
        if (++at[g] < group_length(axes, g)) return true;
        at[g] = 0;
    }
    return false;
}

static bool add_point(SweepConfig *sweep, const SweepAxes *axes, const size_t *at, Err *err) {
    SweepPoint *point = &sweep->points[sweep->count];
    *point = (SweepPoint){.overrides = calloc(axes->count, sizeof *point->overrides)};
    if (!point->overrides) return fail_memory(err);
    sweep->count++;
    for (size_t a = 0; a < axes->count; a++)
        point->overrides[a] = axes->items[a].overrides[at[axes->items[a].group]];
    return true;
}

static bool count_product(size_t *out, const SweepConfig *sweep, const SweepAxes *axes, Err *err) {
    *out = 1;
    for (size_t g = 0; g < axes->groups; g++) {
        *out *= group_length(axes, g); /* factors are far below 2^32 / SWEEP_MAX_POINTS */
        if (*out > SWEEP_MAX_POINTS)
            return err_set(err, ERR_CONFIG, "%s: more than %d runs: take values out of the axes",
                           sweep->path, SWEEP_MAX_POINTS);
    }
    return true;
}

static bool make_points(SweepConfig *sweep, const SweepAxes *axes, Err *err) {
    size_t at[SWEEP_MAX_AXES] = {0}, product;
    if (!count_product(&product, sweep, axes, err)) return false;
    sweep->points = calloc(product, sizeof *sweep->points);
    if (!sweep->points) return fail_memory(err);
    do {
        if (!is_excluded(axes, at) && !add_point(sweep, axes, at, err)) return false;
    } while (advance(at, axes));
    return sweep->count > 0 ||
           err_set(err, ERR_CONFIG, "%s: sweep.exclude excludes every run", sweep->path);
}

/* ---- names ---- */

/* Letters, digits and ._+ as they are, a - for each stretch of anything else, and where that is too
 * long its beginning and a hash. */
static void sanitize(char *out, size_t size, const char *text) {
    size_t used = 0;
    for (const char *p = text; *p && used + 1 < size; p++) {
        bool good = isalnum((unsigned char)*p) || strchr("._+", *p) || (*p == '-' && p[1]);
        if (good && (unsigned char)*p < 128)
            out[used++] = *p;
        else if (used > 0 && out[used - 1] != '-')
            out[used++] = '-';
    }
    while (used > 0 && out[used - 1] == '-') used--;
    out[used] = '\0';
    if (used > VALUE_MAX || used == 0)
        snprintf(out + (used ? VALUE_MAX - 9 : 0), size - VALUE_MAX, "%s%08x", used ? "-" : "",
                 (unsigned)io_hash(text, strlen(text)));
}

/* The last part of the key, or all of it where another axis has the same. */
static const char *short_key(const SweepConfig *sweep, size_t axis) {
    const char *path = sweep->axes[axis], *dot = strchr(path, '.'), *leaf = dot ? dot + 1 : path;
    for (size_t i = 0; i < sweep->axis_count; i++) {
        const char *other = strchr(sweep->axes[i], '.');
        if (i != axis && strcmp(other ? other + 1 : sweep->axes[i], leaf) == 0) return path;
    }
    return leaf;
}

bool sweep_key_is_data(const char *key) {
    return strncmp(key, "data.", 5) == 0 || strncmp(key, "tokenizer.", 10) == 0 ||
           strcmp(key, "train.init") == 0; /* the checkpoint's tokenizer */
}

/* Of numbers and words the value that was understood, so that 1e-3 and 0.001 are the same; paths
 * and names as they stand in the file, because the folder of the working copy is in the others. */
static char *value_of(const SweepConfig *sweep, const SweepPoint *point, const Config *config,
                      size_t axis) {
    const char *path = sweep->axes[axis];
    KeyType type = schema_find(path, strlen(path))->type;
    if (type == KEY_GLOBS || type == KEY_PATH || type == KEY_TEXT)
        return strdup(strchr(point->overrides[axis], '=') + 1);
    return config_key_value(config, path);
}

char *sweep_name(const SweepConfig *sweep, const SweepPoint *point, const Config *config,
                 bool data_only) {
    char *name = NULL;
    size_t size = 0, written = 0;
    FILE *out = open_memstream(&name, &size);
    if (!out) return NULL;
    for (size_t a = 0; a < sweep->axis_count; a++) {
        char text[4 * NAME_MAX_BYTES];
        if (data_only && !sweep_key_is_data(sweep->axes[a])) continue;
        char *value = value_of(sweep, point, config, a);
        sanitize(text, sizeof text, value ? value : "");
        free(value);
        fprintf(out, "%s%s=%s", written++ ? "," : "", short_key(sweep, a), text);
    }
    if (fclose(out) != 0) {
        free(name);
        return NULL;
    }
    if (size > NAME_MAX_BYTES) /* file systems allow 255 bytes */
        snprintf(name + NAME_MAX_BYTES - 9, 10, "-%08x", (unsigned)io_hash(name, size));
    return name;
}

typedef struct Named {
    const char *name;
    size_t index;
} Named;

static int compare_names(const void *a, const void *b) {
    const Named *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order ? order : (left->index > right->index) - (left->index < right->index);
}

static void list_overrides(char *out, size_t size, const SweepConfig *sweep, size_t point) {
    size_t used = 0;
    for (size_t a = 0; a < sweep->axis_count && used < size; a++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", a ? " " : "",
                                 sweep->points[point].overrides[a]);
}

static bool check_names(const SweepConfig *sweep, Err *err) {
    char first[256], second[256];
    Named *named = calloc(sweep->count, sizeof *named);
    if (!named) return fail_memory(err);
    for (size_t i = 0; i < sweep->count; i++) named[i] = (Named){sweep->points[i].name, i};
    qsort(named, sweep->count, sizeof *named, compare_names);
    bool ok = true;
    for (size_t i = 1; ok && i < sweep->count; i++) {
        if (strcmp(named[i - 1].name, named[i].name) != 0) continue;
        list_overrides(first, sizeof first, sweep, named[i - 1].index);
        list_overrides(second, sizeof second, sweep, named[i].index);
        ok = err_set(err, ERR_CONFIG,
                     "%s: runs %zu (%s) and %zu (%s) would both be called %s: they are the same, "
                     "or differ in characters that a folder's name cannot hold",
                     sweep->path, named[i - 1].index + 1, first, named[i].index + 1, second,
                     named[i].name);
    }
    free(named);
    return ok;
}

/* ---- configurations ---- */

/* The configuration of a point with that run (an override), and those of the command line. */
static bool load_point(Config *out, const SweepConfig *sweep, size_t index, const char *run,
                       Err *err) {
    const SweepPoint *point = &sweep->points[index];
    size_t count = sweep->fixed_count + sweep->axis_count + 1;
    const char **all = calloc(count, sizeof *all);
    *out = (Config){0};
    if (!all || !run) {
        free(all);
        return fail_memory(err);
    }
    for (size_t i = 0; i < sweep->fixed_count; i++) all[i] = sweep->fixed[i];
    for (size_t a = 0; a < sweep->axis_count; a++)
        all[sweep->fixed_count + a] = point->overrides[a];
    all[count - 1] = run;
    bool ok = config_load(out, sweep->base, all, count, err);
    free(all);
    if (!ok) {
        char text[256];
        list_overrides(text, sizeof text, sweep, index);
        err_context(err, "%s: run %zu (%s)", sweep->path, index + 1, text);
    }
    return ok;
}

/* Where points of these texts would have their tokenizer and tokens by default: beside the sweep's
 * folder, so that other runs of the base share them; in the sweep's folder where points differ. */
static char *shared_run_of(const SweepConfig *sweep, const char *data_name) {
    size_t size = strlen(sweep->run_dir) + strlen(data_name) + 32;
    char *path = malloc(size), *run = NULL;
    if (path && *data_name)
        snprintf(path, size, "%s/texts/%s/run", sweep->run_dir, data_name);
    else if (path)
        snprintf(path, size, "%s", sweep->run_dir);
    if (path) run = config_override_text("run", path);
    free(path);
    return run;
}

bool sweep_config_point(Config *out, char **shared_run, const SweepConfig *sweep, size_t point,
                        Err *err) {
    char *run = shared_run_of(sweep, "");
    bool ok = load_point(out, sweep, point, run, err);
    char *data = ok ? sweep_name(sweep, &sweep->points[point], out, true) : NULL;
    if (ok && (!data || *data)) {
        config_free(out);
        free(run);
        run = data ? shared_run_of(sweep, data) : NULL;
        ok = load_point(out, sweep, point, run, err);
    }
    free(data);
    if (ok && shared_run)
        *shared_run = run;
    else
        free(run);
    return ok;
}

bool sweep_expand(SweepConfig *sweep, const SweepAxes *axes, Err *err) {
    if (!make_points(sweep, axes, err)) return false;
    for (size_t i = 0; i < sweep->count; i++) {
        Config config;
        if (!sweep_config_point(&config, NULL, sweep, i, err)) return false;
        sweep->points[i].name = sweep_name(sweep, &sweep->points[i], &config, false);
        config_free(&config);
        if (!sweep->points[i].name) return fail_memory(err);
    }
    return check_names(sweep, err);
}
