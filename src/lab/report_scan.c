/* Finds runs below a folder. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "report_internal.h"

enum { DEPTH_MAX = 8 }; /* sweep, point, task and a few folders around them */

/* ---- lists and names ---- */

void *report_grow(void *list, size_t *count, size_t size, Err *err) {
    char *grown = realloc(list, (*count + 1) * size);
    if (!grown) {
        err_set(err, ERR_FAILED, "no memory for the report");
        return NULL;
    }
    memset(grown + *count * size, 0, size);
    (*count)++;
    return grown;
}

char *report_path(const char *dir, const char *name, Err *err) {
    char *path = io_path_join(dir, name);
    if (!path) err_set(err, ERR_FAILED, "no memory for a path");
    return path;
}

int report_compare_names(const char *a, const char *b) {
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0");
            b += strspn(b, "0");
            size_t left = strspn(a, "0123456789"), right = strspn(b, "0123456789");
            int order = left != right ? (left > right) - (left < right) : strncmp(a, b, left);
            if (order) return order;
            a += left;
            b += right;
        } else if (*a != *b) {
            break;
        } else {
            a++;
            b++;
        }
    }
    return (unsigned char)*a - (unsigned char)*b;
}

static int compare_items(const void *a, const void *b) {
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    int order = report_compare_names(left, right);
    return order ? order : strcmp(left, right);
}

bool report_add_fault(Report *report, const char *path, const char *text, Err *err) {
    size_t count = report->fault_count;
    ReportFault *grown = report_grow(report->faults, &count, sizeof *grown, err);
    if (!grown) return false;
    report->faults = grown;
    grown[count - 1] = (ReportFault){strdup(path), strdup(text)};
    report->fault_count = count;
    return (grown[count - 1].path && grown[count - 1].text) ||
           err_set(err, ERR_FAILED, "no memory for the report");
}

/* ---- folders ---- */

static bool has_file(const char *dir, const char *name) {
    char *path = io_path_join(dir, name);
    bool found = path && io_is_file(path);
    free(path);
    return found;
}

/* Seeds of a fine-tuning, which are read with it. */
static bool is_seed(const char *name) {
    return strncmp(name, "seed-", 5) == 0 && name[5] && !name[5 + strspn(name + 5, "0123456789")];
}

/* Sub-folders in order; hidden ones and seeds of a run are left out. */
static bool list_folders(char ***out, size_t *count, const char *dir, bool is_run, Err *err) {
    DIR *stream = opendir(dir);
    bool ok = true;
    *out = NULL;
    *count = 0;
    if (!stream) return true; /* not to be read: nothing is below it */
    for (struct dirent *entry; ok && (entry = readdir(stream)) != NULL;) {
        struct stat info;
        if (entry->d_name[0] == '.' || (is_run && is_seed(entry->d_name))) continue;
        char *path = report_path(dir, entry->d_name, err);
        if (!path) ok = false;
        if (ok && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
            char **grown = report_grow(*out, count, sizeof *grown, err);
            if (grown) *out = grown;
            if (grown) grown[*count - 1] = strdup(entry->d_name);
            ok = grown && (grown[*count - 1] || err_set(err, ERR_FAILED, "no memory for a path"));
        }
        free(path);
    }
    closedir(stream);
    if (ok && *count) qsort(*out, *count, sizeof **out, compare_items);
    return ok;
}

/* The folders that a folder is in, as far as they were scanned. */
typedef struct Level {
    dev_t device;
    ino_t inode;
    const struct Level *up;
    size_t depth;
} Level;

/* False where the folder is one that it is in itself, by a link, or is too deep. */
static bool enter(Level *out, const char *dir, const Level *up) {
    struct stat info;
    if (stat(dir, &info) != 0) return false;
    *out = (Level){info.st_dev, info.st_ino, up, up ? up->depth + 1 : 0};
    for (; up; up = up->up) {
        if (up->device == out->device && up->inode == out->inode) return false;
    }
    return out->depth <= DEPTH_MAX;
}

/* name: of the folder below the one that was given, "" for that itself. */
static bool scan(Report *report, const char *dir, const char *name, const Level *up, Err *err) {
    char **names;
    size_t count;
    Level level;
    if (!enter(&level, dir, up)) return true;
    bool is_run = has_file(dir, "config.yaml") || has_file(dir, "given.yaml");
    if (is_run && !report_read_run(report, dir, *name ? name : dir, err)) return false;
    bool ok = list_folders(&names, &count, dir, is_run, err);
    for (size_t i = 0; ok && i < count; i++) {
        char *path = report_path(dir, names[i], err);
        char *below = *name ? report_path(name, names[i], err) : strdup(names[i]);
        ok = path && below && scan(report, path, below, &level, err);
        free(path);
        free(below);
    }
    for (size_t i = 0; i < count; i++) free(names[i]);
    free(names);
    return ok;
}

bool report_scan(Report *report, const char *folder, const char *prefix, Err *err) {
    if (!io_is_dir(folder))
        return err_set(err, ERR_FAILED, "%s: no such folder: wanted a folder of runs", folder);
    return scan(report, folder, prefix, NULL, err);
}
