/* The runs of a sweep: their states, from disk alone, and the processes that do them.
 *
 * A run is one training.  Point i of the configuration has the run <run>/<name>, and below it
 * finetune-<task> for each task.  Besides what the training itself writes, its folder holds
 *   given.yaml   the configuration the run was started with
 *   output.txt   stdout and stderr of its last process
 *   sweep.lock   locked by the process that runs it, and by that process's parent
 *   sweep.json   the record, written last and atomically: {index, name, task, command, values,
 *                state ("done" or "failed"), exit_code, signal, seconds}; index from 1,
 *                values by key as YAML text, task and signal only where there is one */
#ifndef SWEEP_H
#define SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "sweep_config.h"

#define SWEEP_RECORD "sweep.json"

/* From most to least urgent: the state of several runs together is the first that any has. */
typedef enum RunState {
    RUN_RUNNING,     /* a living process holds its lock, or trains in its folder */
    RUN_FAILED,      /* its record says so */
    RUN_INTERRUPTED, /* begun, neither running nor recorded: it goes on with --resume */
    RUN_PENDING,     /* no folder yet */
    RUN_DONE         /* its record says so */
} RunState;

typedef struct SweepRun {
    size_t point;
    size_t task; /* fine-tuning by this task of the configuration; SWEEP_NO_TASK: the point's own */
    char *name;  /* for messages: "k=16/finetune-sst2" */
    char *dir;
    RunState state;
    int exit_code, signal; /* of a failed run; one of them is 0 */
    double seconds;        /* of a recorded run's last process */
} SweepRun;

#define SWEEP_NO_TASK ((size_t)-1)

typedef struct Sweep {
    SweepConfig config;
    SweepRun *runs; /* point by point, a point's own run before its tasks */
    size_t run_count, per_point;
} Sweep;

typedef struct SweepOptions {
    size_t jobs;       /* processes at a time; 0: 1 */
    size_t index;      /* this point alone, from 1; 0: all */
    bool fail_fast;    /* the first failure stops the others, which save */
    bool retry_failed; /* only points with a failed run */
} SweepOptions;

/* Loads the configuration and reads the states; writes nothing. */
bool sweep_open(Sweep *out, const char *path, const char *const *overrides, size_t override_count,
                Err *err);
void sweep_close(Sweep *sweep); /* accepts a zeroed one */

void sweep_read_states(Sweep *sweep);
const char *sweep_state_name(RunState state);
RunState sweep_point_state(const Sweep *sweep, size_t point);

/* Does what is missing, interrupted or failed, in processes of the program `exe`; the tokenizer and
 * the tokens are prepared before the first.  A failure is logged with the end of its output.txt
 * when it happens, and the others go on.  Stop signals are passed on to the processes, which save.
 * err->code: ERR_CONFIG where a folder holds a run of another configuration, before anything is
 * started; ERR_SIGNAL; ERR_FAILED if any run of those chosen is not done in the end. */
bool sweep_execute(Sweep *sweep, const SweepOptions *options, const char *exe, Err *err);

/* Writes <run>/sweep.sbatch: a job array with one job for each point that sweep_execute would do,
 * each of them `exe sweep ... --index i`.  *path: of the script, malloc'd; *jobs: their number, 0:
 * nothing to do and nothing written. */
bool sweep_write_slurm(char **path, size_t *jobs, const Sweep *sweep, const SweepOptions *options,
                       const char *exe, Err *err);

/* Runs `sbatch path`, whose output goes to stdout. */
bool sweep_submit_slurm(const char *path, Err *err);

#endif
