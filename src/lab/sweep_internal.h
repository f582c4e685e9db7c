/* Shared by the files of the sweep. */
#ifndef SWEEP_INTERNAL_H
#define SWEEP_INTERNAL_H

#include <sys/types.h>

#include "sweep.h"

/* "dir/name"; malloc'd. */
char *sweep_path(const char *dir, const char *name, Err *err);

/* The configuration of a run; *shared_run (NULL for a task) as sweep_config_point has it. */
bool sweep_run_config(Config *out, char **shared_run, const Sweep *sweep, const SweepRun *run,
                      Err *err);

/* True if sweep_execute would begin with the point. */
bool sweep_is_chosen(const Sweep *sweep, const SweepOptions *options, size_t point);

/* ---- records and locks ---- */

/* The state of a run's folder, and of a recorded one the rest. */
void sweep_read_state(SweepRun *run);

/* The same of a run that this process has claimed. */
void sweep_read_record(SweepRun *run);

/* Takes the run, whose folder is made, for this process: *lock, to be closed; -1 where another
 * process has it. */
bool sweep_claim(int *lock, const SweepRun *run, Err *err);

/* Removes the record of an earlier failure; and writes one. */
bool sweep_forget(const SweepRun *run, Err *err);
bool sweep_write_record(const Sweep *sweep, const SweepRun *run, Err *err);

/* ---- arguments ---- */

enum { ARGUMENTS_MAX = 256 };

typedef struct Arguments {
    char *items[ARGUMENTS_MAX]; /* owned; NULL after the last */
    size_t count;
    bool failed; /* memory or room ran out */
} Arguments;

void arguments_free(Arguments *list);

/* Of `prepare` for the texts of a point, and of a run with its configuration. */
bool sweep_prepare_arguments(Arguments *out, const Sweep *sweep, size_t point,
                             const char *shared_run, Err *err);
bool sweep_run_arguments(Arguments *out, const Sweep *sweep, const SweepRun *run,
                         const Config *config, size_t threads, Err *err);

/* Writes given.yaml; and fails with ERR_CONFIG if the one that is there is of a run that could not
 * go on with the configuration of now.  A run without a config.yaml of its own has trained nothing:
 * it may begin again with another. */
bool sweep_write_given(const SweepRun *run, const Config *config, Err *err);
bool sweep_check_given(const Sweep *sweep, const SweepRun *run, Err *err);

/* ---- processes ---- */

/* Starts exe with the arguments (NULL after the last), its output at the end of the file.  The lock
 * is kept open by the process.  A process is asked to stop when its parent ends. */
bool sweep_spawn(pid_t *out, const char *exe, char *const *argv, const char *output, int lock,
                 Err *err);

/* Logs the last lines of a file. */
void sweep_log_tail(const char *path);

#endif
