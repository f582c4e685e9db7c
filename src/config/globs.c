/* Globs of text shards: joining them to a folder, and finding their files. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loader.h"

char *path_expand_home(const char *path) {
    const char *home = getenv("HOME");
    if (path[0] != '~' || path[1] != '/' || !home) return strdup(path);
    size_t size = strlen(home) + strlen(path);
    char *full = malloc(size);
    if (full) snprintf(full, size, "%s%s", home, path + 1);
    return full;
}

char *glob_join(const char *folder, const char *pattern) {
    size_t length = strlen(folder);
    for (;;) { /* the folder has no links in it, so ../ is its parent in the text too */
        while (length > 0 && folder[length - 1] == '/') length--;
        if (strncmp(pattern, "./", 2) == 0) {
            pattern += 2;
        } else if (strncmp(pattern, "../", 3) == 0) {
            pattern += 3;
            while (length > 0 && folder[length - 1] != '/') length--;
        } else {
            break;
        }
        while (*pattern == '/') pattern++;
    }
    char *full = malloc(2 * length + strlen(pattern) + 2);
    if (!full) return NULL;
    char *end = full;
    for (size_t i = 0; i < length; i++) {
        if (strchr("*?[\\", folder[i])) *end++ = '\\';
        *end++ = folder[i];
    }
    *end++ = '/';
    strcpy(end, pattern);
    return full;
}

void config_paths_free(PathList *paths) {
    for (size_t i = 0; i < paths->count; i++) free(paths->items[i]);
    free(paths->items);
    *paths = (PathList){0};
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool fail_glob(const Glob *glob, const char *key, Err *err, const char *reason) {
    return err_set(err, ERR_CONFIG, "%.500s: %s = %.200s: %s", glob->place, key, glob->pattern,
                   reason);
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A folder of the original IMDB layout: it holds pos/ and neg/. */
static bool is_review_folder(const char *path) {
    static const char *const parts[] = {"pos", "neg"};
    bool all = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t size = strlen(path) + strlen(parts[i]) + 2;
        char *part = malloc(size);
        if (part) snprintf(part, size, "%s/%s", path, parts[i]);
        all = all && part && is_folder(part);
        free(part);
    }
    return all;
}

/* Appends the glob's files, sorted by bytes so that the order does not depend on the locale. */
static bool append_matches(PathList *out, const Glob *glob, const char *key, TaskKind task,
                           const glob_t *found, Err *err) {
    char **items = realloc(out->items, (out->count + found->gl_pathc) * sizeof *items);
    if (!items) return fail_memory(err);
    out->items = items;
    size_t first = out->count;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        const char *path = found->gl_pathv[i];
        if (is_folder(path) && !(task == TASK_IMDB && is_review_folder(path))) continue;
        items[out->count] = strdup(path);
        if (!items[out->count]) return fail_memory(err);
        out->count++;
    }
    if (out->count == first) {
        return fail_glob(glob, key, err,
                         task == TASK_IMDB
                             ? "names only folders: wanted files, or one that holds pos/ and neg/"
                             : "names only folders: wanted files, e.g. folder/*.txt");
    }
    qsort(items + first, out->count - first, sizeof *items, compare_paths);
    return true;
}

/* Anything but a folder that is not there: without it glob() steps over folders it may not read. */
static int stop_at(const char *path, int error) {
    (void)path;
    return error != ENOENT && error != ENOTDIR;
}

/* Why a path without wildcards is no file: glob() does not tell. */
static bool fail_no_match(const Glob *wanted, const char *key, Err *err) {
    struct stat st;
    char *path = strdup(wanted->pattern), *end = path;
    if (!path) return fail_memory(err);
    for (const char *p = path; *p; p++) {
        if (*p == '\\' && p[1]) p++;
        *end++ = *p;
    }
    *end = 0;
    errno = 0;
    bool is_hidden = stat(path, &st) != 0 && errno != ENOENT && errno != ENOTDIR;
    bool ok = fail_glob(wanted, key, err, is_hidden ? strerror(errno) : "no file matches");
    free(path);
    return ok;
}

static bool expand_glob(PathList *out, const Glob *wanted, const char *key, TaskKind task,
                        Err *err) {
    glob_t found = {0};
    int status = glob(wanted->pattern, GLOB_NOSORT, stop_at, &found);
    bool ok;
    if (status == GLOB_NOSPACE)
        ok = fail_memory(err);
    else if (status == GLOB_ABORTED)
        ok = fail_glob(wanted, key, err, "a folder in it cannot be read: permissions?");
    else if (status != 0 || found.gl_pathc == 0)
        ok = fail_no_match(wanted, key, err);
    else
        ok = append_matches(out, wanted, key, task, &found, err);
    globfree(&found);
    return ok;
}

/* One of the paths that occurs twice, or that is inside another one, a folder; or NULL. */
static const char *find_repeated(char **paths, size_t count) {
    qsort(paths, count, sizeof *paths, compare_paths);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(paths[i]);
        /* in this order, all that begin alike follow one another */
        for (size_t j = i + 1; j < count && strncmp(paths[j], paths[i], size) == 0; j++) {
            if (paths[j][size] == 0 || paths[j][size] == '/') return paths[j];
        }
    }
    return NULL;
}

/* A file that is read twice counts double, one in both lists makes the held-out loss worthless. */
static bool check_repeated(const PathList *a, const PathList *b, const char *message, Err *err) {
    size_t count = a->count + b->count;
    PathList real = {calloc(count + 1, sizeof *real.items), 0};
    bool ok = real.items != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        const char *path = i < a->count ? a->items[i] : b->items[i - a->count];
        char *resolved = realpath(path, NULL); /* links and ../ may spell one file in two ways */
        real.items[i] = resolved ? resolved : strdup(path);
        ok = real.items[i] != NULL;
        if (ok) real.count++;
    }
    if (!ok) {
        fail_memory(err);
    } else {
        const char *repeated = find_repeated(real.items, real.count);
        if (repeated) ok = err_set(err, ERR_CONFIG, "%.500s: %s", repeated, message);
    }
    config_paths_free(&real);
    return ok;
}

bool config_expand_task_globs(PathList *out, const GlobList *globs, const char *key, TaskKind task,
                              Err *err) {
    static const PathList none = {0};
    char message[128];
    bool ok = true;
    *out = (PathList){0};
    for (size_t i = 0; ok && i < globs->count; i++)
        ok = expand_glob(out, &globs->items[i], key, task, err);
    snprintf(message, sizeof message, "named twice by %s: make the globs disjoint", key);
    ok = ok && check_repeated(out, &none, message, err);
    if (!ok) config_paths_free(out);
    return ok;
}

bool config_expand_globs(PathList *out, const GlobList *globs, const char *key, Err *err) {
    return config_expand_task_globs(out, globs, key, TASK_NONE, err);
}

bool config_resolve_data(Config *config, Err *err) {
    DataConfig *data = &config->data;
    TaskKind task = config->finetune.task;
    config_paths_free(&data->train);
    config_paths_free(&data->valid);
    if (data->train_globs.count == 0) {
        return err_set(
            err, ERR_CONFIG,
            "%.500s: data.train is missing: wanted the text shards, e.g. data: {train: text/*.txt}",
            config->path);
    }
    return config_expand_task_globs(&data->train, &data->train_globs, "data.train", task, err) &&
           config_expand_task_globs(&data->valid, &data->valid_globs, "data.valid", task, err) &&
           check_repeated(
               &data->train, &data->valid,
               "named by data.train and by data.valid: keep held-out text out of training", err);
}
