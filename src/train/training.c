#define _DEFAULT_SOURCE /* flock */
#include "training.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint.h"
#include "io.h"
#include "log.h"
#include "threads.h"

bool training_is_due(uint64_t step, size_t every) {
    return every > 0 && step % every == 0;
}

bool training_path(char *out, const char *run_dir, const char *name, Err *err) {
    int length = snprintf(out, TRAINING_PATH_SIZE, "%s/%s", run_dir, name);
    if (length > 0 && length < TRAINING_PATH_SIZE) return true;
    return err_set(err, ERR_CONFIG, "run: the path is longer than %d bytes",
                   TRAINING_PATH_SIZE - 64);
}

bool training_lock(int *lock, const char *run_dir, Err *err) {
    enum { ATTEMPTS = 25 }; /* one who only looks whether a training runs has it for a moment */
    const struct timespec pause = {0, 20000000};
    *lock = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* file systems without locks do without */
    for (int i = 0; *lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;) {
        if (++i == ATTEMPTS)
            return err_set(err, ERR_FAILED,
                           "%s: another process is training in this folder; wait for it, or give "
                           "another `run`",
                           run_dir);
        nanosleep(&pause, NULL);
    }
    return true;
}

bool training_write_config(const Config *config, const char *run_dir, Err *err) {
    char path[TRAINING_PATH_SIZE];
    char *yaml = config_to_yaml(config);
    bool ok = yaml ? training_path(path, run_dir, "config.yaml", err) &&
                         io_write_file(path, yaml, strlen(yaml), err)
                   : err_set(err, ERR_FAILED, "no memory for the configuration");
    free(yaml);
    return ok;
}

void training_log_config(const Config *config) {
    char *yaml = config_to_yaml(config);
    for (char *line = yaml; line && *line;) {
        size_t length = strcspn(line, "\n");
        log_info("  %.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
    free(yaml);
}

void training_log_model(const ModelConfig *m, const ParamTable *table) {
    char attention[64];
    config_describe_attention(attention, sizeof attention, m);
    log_info("model: %zu parameters, %zu of them trained; %zu layers, width %zu, %zu heads, ffn "
             "%zu, n %zu, %s, %zu projection "
             "matrices",
             table->parameters, table->trainable, m->layers, m->width, m->heads, m->ffn, m->n,
             attention, table->projections);
}

void training_explain_early_stop(const char *run_dir, Err *err) {
    err_set(err, ERR_SIGNAL, "%s before the first step: %s", err->msg,
            checkpoint_any(run_dir) ? "continue with --resume"
                                    : "nothing trained yet; start again");
}
