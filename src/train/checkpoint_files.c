/* The checkpoints of a run directory: which is the newest, which may go. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "io.h"
#include "log.h"

static const char LAST[] = "last.ckpt", STEP_PREFIX[] = "step-", SUFFIX[] = ".ckpt";

typedef struct Candidate {
    char *path;
    uint64_t step;
    bool last;
} Candidate;

typedef struct Candidates {
    Candidate *items;
    size_t count, capacity;
} Candidates;

/* The step of a file name "step-00001000.ckpt"; false for other names. */
static bool name_step(uint64_t *step, const char *name) {
    size_t prefix = sizeof STEP_PREFIX - 1;
    if (strncmp(name, STEP_PREFIX, prefix) != 0) return false;
    size_t digits = strspn(name + prefix, "0123456789");
    if (digits < 8 || digits > 18 || strcmp(name + prefix + digits, SUFFIX) != 0) return false;
    *step = strtoull(name + prefix, NULL, 10);
    return true;
}

static void candidates_free(Candidates *list) {
    for (size_t i = 0; i < list->count; i++) free(list->items[i].path);
    free(list->items);
    *list = (Candidates){0};
}

static bool candidates_add(Candidates *list, const char *dir, const char *name, uint64_t step,
                           bool last) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        Candidate *items = realloc(list->items, capacity * sizeof *items);
        if (!items) return false;
        list->items = items;
        list->capacity = capacity;
    }
    Candidate *added = &list->items[list->count];
    *added = (Candidate){.path = io_path_join(dir, name), .step = step, .last = last};
    if (!added->path) return false;
    list->count++;
    return true;
}

/* Newest first; of equal steps last.ckpt first. */
static int newer_first(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? 1 : -1;
    return (int)y->last - (int)x->last;
}

/* Checkpoint files of the folder by name, newest first (last.ckpt, whose name tells no step, before
 * all). False without memory. */
static bool candidates_list(Candidates *out, const char *dir) {
    *out = (Candidates){0};
    DIR *d = opendir(dir);
    if (!d) return true;
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(d)) != NULL;) {
        uint64_t step = UINT64_MAX;
        bool last = !strcmp(e->d_name, LAST);
        if (last || name_step(&step, e->d_name))
            ok = candidates_add(out, dir, e->d_name, step, last);
    }
    closedir(d);
    if (out->count > 1) qsort(out->items, out->count, sizeof *out->items, newer_first);
    return ok;
}

bool checkpoint_any(const char *run_dir) {
    Candidates list;
    candidates_list(&list, run_dir);
    bool any = list.count > 0;
    candidates_free(&list);
    return any;
}

/* True if training can go on from the file: every byte is verified.  *step from its header; a
 * warning says why not. */
static bool is_usable(const char *path, uint64_t *step) {
    Err err = {0};
    Checkpoint checkpoint;
    bool ok = checkpoint_open(&checkpoint, path, &err);
    if (ok) {
        *step = checkpoint.state.step;
        ok = checkpoint_verify(&checkpoint, &err);
        if (ok && checkpoint.moments == 0) {
            ok = err_set(&err, ERR_FAILED, "%s: holds weights only, training cannot go on from it",
                         path);
        }
        checkpoint_close(&checkpoint);
    }
    if (!ok) log_warn("skipped: %s", err.msg);
    return ok;
}

bool checkpoint_find_newest(char **path, const char *run_dir, Err *err) {
    Candidates list;
    const Candidate *best = NULL;
    *path = NULL;
    if (!candidates_list(&list, run_dir)) {
        candidates_free(&list);
        return err_set(err, ERR_FAILED, "%s: no memory", run_dir);
    }
    for (size_t i = 0; i < list.count; i++) {
        Candidate *c = &list.items[i];
        /* a step file older than the best so far need not be read; last.ckpt comes first and may be
         * the older one */
        if (best && !c->last && c->step <= best->step) continue;
        if (is_usable(c->path, &c->step) && (!best || c->step > best->step)) best = c;
    }
    if (best) {
        *path = list.items[best - list.items].path;
        list.items[best - list.items].path = NULL;
    } else if (list.count) {
        err_set(err, ERR_FAILED,
                "%s: none of its %zu checkpoint files is valid; to start afresh, move them away or "
                "give another `run`",
                run_dir, list.count);
    } else {
        err_set(err, ERR_FAILED, "%s: no checkpoint (last.ckpt or step-*.ckpt)", run_dir);
    }
    candidates_free(&list);
    return *path != NULL;
}

char *checkpoint_kept_before(const char *run_dir, uint64_t step) {
    Candidates list;
    char *path = NULL;
    candidates_list(&list, run_dir);
    for (size_t i = 0; i < list.count && !path; i++) {
        Candidate *c = &list.items[i];
        if (c->last || c->step >= step) continue;
        path = c->path;
        c->path = NULL;
    }
    candidates_free(&list);
    return path;
}

void checkpoint_prune(const char *run_dir, size_t keep) {
    Candidates list;
    if (keep > 0 && candidates_list(&list, run_dir)) {
        size_t kept = 0;
        for (size_t i = 0; i < list.count; i++) {
            if (!list.items[i].last && ++kept > keep) unlink(list.items[i].path);
        }
    }
    if (keep > 0) candidates_free(&list);
}
