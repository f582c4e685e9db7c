/* What pretraining and fine-tuning do alike around their steps: the run folder, threads, time. */
#ifndef TRAINING_H
#define TRAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "err.h"
#include "params.h"

enum { TRAINING_PATH_SIZE = 4096 };

/* True after steps every, 2 * every, ...; never for 0. */
bool training_is_due(uint64_t step, size_t every);

/* "run_dir/name" into out (TRAINING_PATH_SIZE bytes); ERR_CONFIG if it does not fit. */
bool training_path(char *out, const char *run_dir, const char *name, Err *err);

/* Two runs in one folder would mix their files: fails where another process holds the lock.  *lock:
 * a descriptor to close in the end, or -1.  The lock goes with the process, however it ends. */
bool training_lock(int *lock, const char *run_dir, Err *err);

/* Writes run_dir/config.yaml. */
bool training_write_config(const Config *config, const char *run_dir, Err *err);
void training_log_config(const Config *config);
void training_log_model(const ModelConfig *model, const ParamTable *table);

/* Behind "stopped by SIGTERM", for a run that has made no step: what to do now. */
void training_explain_early_stop(const char *run_dir, Err *err);

#endif
