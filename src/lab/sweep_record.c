/* What the disk says of a run, and its record. */
#define _DEFAULT_SOURCE /* flock */
#include <cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "json_fields.h"
#include "sweep_internal.h"

static const size_t LARGEST_RECORD = (size_t)1 << 20;
static const char LOCK_NAME[] = "sweep.lock";

/* ---- locks */

/* True if another open file has the lock; a shared one is asked for, so that those who ask do not
 * meet each other. */
static bool is_locked(const char *path, int flags) {
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | flags) : -1;
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

/* The folder's own lock is that of a training which may have been started by hand. */
static bool is_running(const SweepRun *run) {
    char *path = sweep_path(run->dir, LOCK_NAME, NULL);
    bool running = is_locked(path, 0) || is_locked(run->dir, O_DIRECTORY);
    free(path);
    return running;
}

bool sweep_claim(int *lock, const SweepRun *run, Err *err) {
    enum { ATTEMPTS = 5 }; /* one who only looks at the states has the lock for a moment */
    const struct timespec pause = {0, 20000000};
    char *path = sweep_path(run->dir, LOCK_NAME, err);
    *lock = -1;
    if (!path || !io_make_dirs(run->dir, err)) {
        free(path);
        return false;
    }
    int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0666), error = errno;
    bool taken = false;
    for (int i = 0; fd >= 0 && i < ATTEMPTS; i++) {
        taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken) break;
        nanosleep(&pause, NULL);
    }
    if (fd < 0) err_set(err, ERR_FAILED, "%s: cannot open: %s", path, strerror(error));
    if (fd >= 0 && (taken || is_locked(run->dir, O_DIRECTORY)))
        close(fd);
    else
        *lock = fd;
    free(path);
    return fd >= 0;
}

/* ---- records */

/* False where there is none, or nothing that could be one: the run is then done again. */
static bool read_record(SweepRun *run) {
    Bytes file = {0};
    char *path = sweep_path(run->dir, SWEEP_RECORD, NULL);
    bool found = path && io_is_file(path) && io_read_file(&file, path, LARGEST_RECORD, NULL);
    free(path);
    if (!found) return false;
    cJSON *object = cJSON_ParseWithLength((const char *)file.data, file.size);
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "state"));
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(object, "exit_code"),
                *signal = cJSON_GetObjectItemCaseSensitive(object, "signal"),
                *seconds = cJSON_GetObjectItemCaseSensitive(object, "seconds");
    bool done = state && strcmp(state, "done") == 0;
    found = done || (state && strcmp(state, "failed") == 0);
    if (found) {
        run->state = done ? RUN_DONE : RUN_FAILED;
        run->exit_code = cJSON_IsNumber(code) ? code->valueint : 0;
        run->signal = cJSON_IsNumber(signal) ? signal->valueint : 0;
        run->seconds = cJSON_IsNumber(seconds) ? seconds->valuedouble : 0;
    }
    cJSON_Delete(object);
    io_bytes_free(&file);
    return found;
}

void sweep_read_record(SweepRun *run) {
    run->exit_code = run->signal = 0;
    run->seconds = 0;
    if (!read_record(run)) run->state = io_is_dir(run->dir) ? RUN_INTERRUPTED : RUN_PENDING;
}

void sweep_read_state(SweepRun *run) {
    sweep_read_record(run);
    if (run->state != RUN_PENDING && is_running(run)) run->state = RUN_RUNNING;
}

bool sweep_forget(const SweepRun *run, Err *err) {
    char *path = sweep_path(run->dir, SWEEP_RECORD, err);
    bool ok = path && (unlink(path) == 0 || errno == ENOENT ||
                       err_set(err, ERR_FAILED, "%s: cannot remove: %s", path, strerror(errno)));
    free(path);
    return ok;
}

static cJSON *record_object(const Sweep *sweep, const SweepRun *run) {
    const SweepConfig *config = &sweep->config;
    const SweepPoint *point = &config->points[run->point];
    bool is_task = run->task != SWEEP_NO_TASK || config->command == SWEEP_FINETUNE;
    cJSON *object = cJSON_CreateObject();
    json_add_count(object, "index", run->point + 1);
    cJSON_AddStringToObject(object, "name", point->name);
    if (run->task != SWEEP_NO_TASK)
        cJSON_AddStringToObject(object, "task", config->task_names[run->task]);
    cJSON_AddStringToObject(object, "command", is_task ? "finetune" : "pretrain");
    cJSON *values = cJSON_AddObjectToObject(object, "values");
    for (size_t a = 0; a < config->axis_count; a++)
        cJSON_AddStringToObject(values, config->axes[a], strchr(point->overrides[a], '=') + 1);
    cJSON_AddStringToObject(object, "state", sweep_state_name(run->state));
    json_add_count(object, "exit_code", (uint64_t)run->exit_code);
    if (run->signal) json_add_count(object, "signal", (uint64_t)run->signal);
    json_add_number(object, "seconds", run->seconds, 6);
    return object;
}

bool sweep_write_record(const Sweep *sweep, const SweepRun *run, Err *err) {
    cJSON *object = record_object(sweep, run);
    char *text = object ? cJSON_Print(object) : NULL,
         *path = sweep_path(run->dir, SWEEP_RECORD, err);
    bool ok = text && path ? io_write_file(path, text, strlen(text), err)
                           : err_set(err, ERR_FAILED, "no memory for %s", SWEEP_RECORD);
    cJSON_Delete(object);
    cJSON_free(text);
    free(path);
    return ok;
}
