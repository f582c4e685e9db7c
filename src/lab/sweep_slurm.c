/* A sweep as a job array of Slurm: each job does one point with --index, and needs no other. */
#define _DEFAULT_SOURCE /* realpath */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io.h"
#include "sweep_internal.h"
#include "threads.h"

/* In quotes that a shell leaves as they are. */
static void write_word(FILE *out, const char *text) {
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    }
    fputc('\'', out);
}

/* For the quotes of an option of #SBATCH; in a name of a file %a and the like have a meaning. */
static void write_quoted(FILE *out, const char *text, bool is_file) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        if (*text == '%' && is_file) fputc('%', out);
        fputc(*text, out);
    }
}

/* "1-3,7" */
static size_t write_indices(FILE *out, const Sweep *sweep, const SweepOptions *options) {
    size_t written = 0, count = sweep->config.count, first = 0;
    for (size_t p = 0; p <= count; p++) {
        bool takes = p < count && sweep_is_chosen(sweep, options, p) &&
                     sweep_point_state(sweep, p) != RUN_DONE;
        if (takes && !first) first = p + 1;
        if (takes || !first) continue;
        fprintf(out, "%s%zu", written ? "," : "", first);
        if (p > first) fprintf(out, "-%zu", p);
        written += p + 1 - first;
        first = 0;
    }
    return written;
}

/* Of a job: what the runs ask for, else this machine's share of one of --jobs. */
static bool job_threads(size_t *out, const Sweep *sweep, const SweepOptions *options, Err *err) {
    Config config;
    size_t jobs = options->jobs ? options->jobs : 1, all = threads_available();
    if (!sweep_config_point(&config, NULL, &sweep->config, 0, err)) return false;
    *out = config.train.threads ? config.train.threads : jobs < all ? all / jobs : 1;
    config_free(&config);
    return true;
}

static void write_command(FILE *out, const SweepConfig *config, const char *exe) {
    char *run = config_override_text("run", config->run_dir);
    fputs("exec ", out);
    write_word(out, exe);
    fputs(" sweep ", out);
    write_word(out, config->path);
    for (size_t i = 0; i < config->given_count; i++) {
        fputc(' ', out);
        write_word(out, config->given[i]);
    }
    fputc(' ', out);
    write_word(out, run ? run : "");
    fputs(" --index \"$SLURM_ARRAY_TASK_ID\"\n", out);
    free(run);
}

static char *script_of(size_t *jobs, const Sweep *sweep, const SweepOptions *options,
                       const char *exe, const char *folder, size_t threads) {
    char *text = NULL, *indices = NULL;
    size_t size = 0, indices_size = 0;
    const char *slash = strrchr(sweep->config.run_dir, '/');
    FILE *list = open_memstream(&indices, &indices_size);
    FILE *out = list ? open_memstream(&text, &size) : NULL;
    if (list) *jobs = write_indices(list, sweep, options);
    bool ok = list && fclose(list) == 0 && out;
    if (ok) {
        const char *run_dir = sweep->config.run_dir;
        fputs("#!/bin/bash\n#SBATCH --job-name=\"", out);
        write_quoted(out, slash ? slash + 1 : run_dir, false);
        fprintf(out, "\"\n#SBATCH --array=%s", indices);
        if (options->jobs) fprintf(out, "%%%zu", options->jobs);
        fprintf(out, "\n#SBATCH --cpus-per-task=%zu\n#SBATCH --output=\"", threads);
        write_quoted(out, *run_dir == '/' ? "" : folder, true);
        fputs(*run_dir == '/' ? "" : "/", out);
        write_quoted(out, run_dir, true);
        fputs("/slurm-%a.txt\"\n"
              "#SBATCH --open-mode=append\n#SBATCH --requeue\n"
              "# before the time limit: the run saves, and the same array goes on with it\n"
              "#SBATCH --signal=B:TERM@120\n"
              "cd ",
              out);
        write_word(out, folder);
        fputs(" || exit\n", out);
        write_command(out, &sweep->config, exe);
    }
    if (out && fclose(out) != 0) ok = false;
    free(indices);
    if (ok) return text;
    free(text);
    return NULL;
}

bool sweep_write_slurm(char **path, size_t *jobs, const Sweep *sweep, const SweepOptions *options,
                       const char *exe, Err *err) {
    size_t threads;
    *path = NULL;
    *jobs = 0;
    if (!job_threads(&threads, sweep, options, err)) return false;
    char *program = realpath(exe, NULL), *folder = realpath(".", NULL);
    char *text =
        program && folder ? script_of(jobs, sweep, options, program, folder, threads) : NULL;
    bool ok = text || err_set(err, ERR_FAILED, "no memory for the script, or no working folder");
    if (ok && *jobs > 0) {
        *path = sweep_path(sweep->config.run_dir, "sweep.sbatch", err);
        ok = *path && io_make_dirs(sweep->config.run_dir, err) &&
             io_write_file(*path, text, strlen(text), err);
    }
    free(text);
    free(program);
    free(folder);
    if (!ok) {
        free(*path);
        *path = NULL;
    }
    return ok;
}

bool sweep_submit_slurm(const char *path, Err *err) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("sbatch", "sbatch", path, (char *)NULL);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (pid < 0) return err_set(err, ERR_FAILED, "cannot start sbatch: %s", strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(err, ERR_FAILED, "no sbatch on this machine; the script is %s", path);
    return err_set(err, ERR_FAILED, "sbatch failed; the script is %s", path);
}
