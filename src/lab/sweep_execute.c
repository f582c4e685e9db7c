/* Runs the processes of a sweep, some at a time. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "io.h"
#include "log.h"
#include "stop_signal.h"
#include "sweep_internal.h"
#include "threads.h"

static const char OUTPUT_NAME[] = "output.txt";
static const char PREPARE_OUTPUT[] = "prepare.txt";

typedef struct Job {
    pid_t pid;
    int lock;
    SweepRun *run;
    double started;
} Job;

typedef struct Scheduler {
    Sweep *sweep;
    const SweepOptions *options;
    const char *exe;
    size_t threads; /* of a run that does not say */
    bool *chosen;   /* (points) */
    bool *tried;    /* (runs) */
    size_t todo, ended, failed;
    Job *jobs; /* (jobs_max) */
    size_t job_count, jobs_max;
    int sent; /* signal passed on to the processes, 0: none, they are left to their work */
    Progress *progress;
} Scheduler;

static void pause_shortly(void) {
    const struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
}

/* ---- one process */

/* How a process ended, as a shell says it: 128 + the signal. */
static int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool ended_by(int number, int status) {
    return number && WIFSIGNALED(status) && WTERMSIG(status) == number;
}

/* Waits for a process, and passes a stop signal on to it. */
static int wait_for(pid_t pid) {
    int status = 0, sent = 0;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid) break;
        if (got < 0 && errno != EINTR) return -1;
        int caught = stop_signal_caught();
        if (caught && !sent) kill(pid, sent = caught);
        pause_shortly();
    }
    return status;
}

/* ---- text, once for all runs that share it */

static bool run_prepare(const Scheduler *s, size_t point, const char *shared_run, Err *err) {
    Arguments arguments;
    pid_t pid;
    const SweepConfig *config = &s->sweep->config;
    char *output = sweep_path(config->run_dir, PREPARE_OUTPUT, err);
    bool ok = output && io_make_dirs(config->run_dir, err) &&
              sweep_prepare_arguments(&arguments, s->sweep, point, shared_run, err);
    if (ok) {
        ok = sweep_spawn(&pid, s->exe, arguments.items, output, -1, err);
        int status = ok ? wait_for(pid) : 0;
        if (ok && stop_signal_caught()) {
            ok = stop_signal_check(err);
        } else if (ok && status != 0) {
            log_info("the text could not be prepared; the end of %s:", output);
            sweep_log_tail(output);
            bool is_config = exit_status(status) == ERR_CONFIG;
            ok = err_set(err, is_config ? ERR_CONFIG : ERR_FAILED,
                         "%s: preparing the text ended with status %d, no run was started: see %s",
                         config->path, exit_status(status), output);
        }
        arguments_free(&arguments);
    }
    free(output);
    return ok;
}

/* Tokenizer and tokens of the point, unless an earlier point has the same. */
static bool prepare_point(const Scheduler *s, char ***done, size_t *done_count, size_t point,
                          Err *err) {
    Config config;
    char *shared_run, key[8192];
    if (!sweep_config_point(&config, &shared_run, &s->sweep->config, point, err)) return false;
    snprintf(key, sizeof key, "%.4000s %.4000s", config.tokenizer.model, config.data.tokens);
    config_free(&config);
    bool known = false, ok = true;
    for (size_t i = 0; i < *done_count; i++) known = known || strcmp((*done)[i], key) == 0;
    if (!known) {
        char **grown = realloc(*done, (*done_count + 1) * sizeof *grown), *copy = strdup(key);
        if (grown) *done = grown;
        if (grown && copy)
            grown[(*done_count)++] = copy;
        else
            free(copy);
        ok = (grown && copy) || err_set(err, ERR_FAILED, "no memory for the list of texts");
        ok = ok && run_prepare(s, point, shared_run, err);
    }
    free(shared_run);
    return ok;
}

static bool prepare_texts(const Scheduler *s, Err *err) {
    const Sweep *sweep = s->sweep;
    char **done = NULL;
    size_t done_count = 0;
    bool ok = true;
    if (sweep->config.command == SWEEP_FINETUNE) return true;
    for (size_t p = 0; ok && p < sweep->config.count; p++) {
        RunState state = sweep->runs[p * sweep->per_point].state;
        if (s->chosen[p] && state != RUN_DONE && state != RUN_RUNNING)
            ok = stop_signal_check(err) && prepare_point(s, &done, &done_count, p, err);
    }
    for (size_t i = 0; i < done_count; i++) free(done[i]);
    free(done);
    return ok;
}

/* ---- runs */

/* The next run that can begin, or NULL: a task's when its pretraining is done. */
static SweepRun *next_run(const Scheduler *s) {
    const Sweep *sweep = s->sweep;
    for (size_t i = 0; i < sweep->run_count; i++) {
        SweepRun *run = &sweep->runs[i];
        if (!s->chosen[run->point] || s->tried[i] || run->state == RUN_DONE) continue;
        if (run->task != SWEEP_NO_TASK &&
            sweep->runs[run->point * sweep->per_point].state != RUN_DONE)
            continue;
        return run;
    }
    return NULL;
}

/* Under its lock; the lock is the job's then. */
static bool launch(Scheduler *s, SweepRun *run, int lock, Err *err) {
    Config config;
    Arguments arguments = {0};
    Job job = {.lock = lock, .run = run, .started = clock_now_s()};
    char *shared_run, *output = sweep_path(run->dir, OUTPUT_NAME, err);
    bool ok = output && sweep_run_config(&config, &shared_run, s->sweep, run, err);
    if (ok) {
        unlink(output);
        bool again = run->state == RUN_INTERRUPTED || run->state == RUN_FAILED;
        ok = sweep_run_arguments(&arguments, s->sweep, run, &config, s->threads, err) &&
             sweep_write_given(run, &config, err) && sweep_forget(run, err) &&
             sweep_spawn(&job.pid, s->exe, arguments.items, output, lock, err);
        if (ok) log_info("%s %s", again ? "again:" : "start:", run->name);
        config_free(&config);
        free(shared_run);
        arguments_free(&arguments);
    }
    free(output);
    if (!ok) return false;
    run->state = RUN_RUNNING;
    s->jobs[s->job_count++] = job;
    return true;
}

static bool start_run(Scheduler *s, SweepRun *run, Err *err) {
    int lock;
    RunState before = run->state;
    s->tried[run - s->sweep->runs] = true;
    if (!sweep_claim(&lock, run, err)) return false;
    if (lock < 0) {
        run->state = RUN_RUNNING;
        log_info("%s is at work in another process and is left to it", run->name);
        return true;
    }
    sweep_read_record(run); /* another process may have done it by now */
    if (run->state == RUN_INTERRUPTED && before == RUN_PENDING) run->state = RUN_PENDING;
    bool ok = run->state == RUN_DONE || launch(s, run, lock, err);
    if (!ok || run->state == RUN_DONE) close(lock);
    return ok;
}

static void log_failure(const SweepRun *run) {
    if (run->signal)
        log_warn("%s failed: ended by signal %d (%s) after %.1f s; the end of %s/%s:", run->name,
                 run->signal, strsignal(run->signal), run->seconds, run->dir, OUTPUT_NAME);
    else
        log_warn("%s failed with exit status %d after %.1f s; the end of %s/%s:", run->name,
                 run->exit_code, run->seconds, run->dir, OUTPUT_NAME);
    char *output = sweep_path(run->dir, OUTPUT_NAME, NULL);
    if (output) sweep_log_tail(output);
    free(output);
}

/* Records how a process ended, and takes its job off the list. */
static bool end_job(Scheduler *s, size_t index, int status, Err *err) {
    const Job job = s->jobs[index];
    SweepRun *run = job.run;
    s->jobs[index] = s->jobs[--s->job_count];
    run->seconds = clock_now_s() - job.started;
    run->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    run->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    bool stopped = run->exit_code == ERR_SIGNAL || ended_by(s->sent, status), ok = true;
    run->state = stopped ? RUN_INTERRUPTED : status == 0 ? RUN_DONE : RUN_FAILED;
    if (!stopped) ok = sweep_write_record(s->sweep, run, err);
    close(job.lock);
    s->ended++;
    if (run->state == RUN_DONE) log_info("done:  %s in %.1f s", run->name, run->seconds);
    if (run->state == RUN_INTERRUPTED) log_info("stopped: %s", run->name);
    if (run->state == RUN_FAILED) {
        s->failed++;
        log_failure(run);
    }
    return ok;
}

static bool reap(Scheduler *s, Err *err) {
    bool ok = true;
    for (size_t i = 0; i < s->job_count;) {
        int status = 0;
        pid_t got = waitpid(s->jobs[i].pid, &status, WNOHANG);
        if (got == s->jobs[i].pid)
            ok = end_job(s, i, status, ok ? err : NULL) && ok;
        else
            i++;
    }
    return ok;
}

static void pass_on(Scheduler *s, int number, const char *why) {
    s->sent = number;
    if (s->job_count > 0)
        log_info("%s: waiting for %zu run%s to save and end", why, s->job_count,
                 s->job_count == 1 ? "" : "s");
    for (size_t i = 0; i < s->job_count; i++) kill(s->jobs[i].pid, number);
}

static void show_progress(const Scheduler *s) {
    char detail[96];
    snprintf(detail, sizeof detail, "%zu of %zu runs ended, %zu at work, %zu failed", s->ended,
             s->todo, s->job_count, s->failed);
    progress_update(s->progress, (double)s->ended, detail);
}

/* Runs until nothing can begin any more and nothing is at work. */
static bool schedule(Scheduler *s, Err *err) {
    bool ok = true;
    for (;;) {
        SweepRun *run;
        if (!s->sent && stop_signal_caught())
            pass_on(s, stop_signal_caught(), stop_signal_name(stop_signal_caught()));
        if (!s->sent && s->options->fail_fast && s->failed) pass_on(s, SIGTERM, "a run failed");
        while (ok && !s->sent && s->job_count < s->jobs_max && (run = next_run(s)) != NULL)
            ok = start_run(s, run, err);
        if (!ok && !s->sent) pass_on(s, SIGTERM, "the sweep cannot go on");
        if (s->job_count == 0 && (!ok || s->sent || !next_run(s))) return ok;
        pause_shortly();
        ok = reap(s, ok ? err : NULL) && ok;
        show_progress(s);
    }
}

/* ---- the whole */

static bool choose(Scheduler *s, Err *err) {
    const Sweep *sweep = s->sweep;
    const SweepOptions *options = s->options;
    if (options->index > sweep->config.count)
        return err_set(err, ERR_CONFIG, "--index %zu: %s has the runs 1 to %zu", options->index,
                       sweep->config.path, sweep->config.count);
    for (size_t i = 0; i < sweep->run_count; i++) {
        const SweepRun *run = &sweep->runs[i];
        s->chosen[run->point] = sweep_is_chosen(sweep, options, run->point);
        if (!s->chosen[run->point]) continue;
        if (run->state != RUN_DONE && run->state != RUN_RUNNING) s->todo++;
        if (run->state != RUN_PENDING && run->state != RUN_RUNNING &&
            !sweep_check_given(sweep, run, err))
            return false;
    }
    return true;
}

static bool allocate(Scheduler *s, Err *err) {
    size_t jobs = s->options->jobs ? s->options->jobs : 1;
    s->jobs_max = jobs < s->sweep->run_count ? jobs : s->sweep->run_count;
    s->chosen = calloc(s->sweep->config.count, sizeof *s->chosen);
    s->tried = calloc(s->sweep->run_count, sizeof *s->tried);
    s->jobs = calloc(s->jobs_max, sizeof *s->jobs);
    return (s->chosen && s->tried && s->jobs) ||
           err_set(err, ERR_FAILED, "no memory for the runs of the sweep");
}

static size_t threads_each(size_t jobs) {
    size_t all = threads_available();
    return jobs < all ? all / jobs : 1;
}

/* What came of the chosen runs: an error unless all are done. */
static bool conclude(const Scheduler *s, Err *err) {
    size_t counts[RUN_DONE + 1] = {0}, all = 0;
    char names[400] = "";
    if (!stop_signal_check(err))
        return err_set(err, ERR_SIGNAL, "%s; what was at work has saved: start again to go on",
                       err->msg);
    for (size_t i = 0; i < s->sweep->run_count; i++) {
        const SweepRun *run = &s->sweep->runs[i];
        if (!s->chosen[run->point]) continue;
        all++;
        counts[run->state]++;
        size_t used = strlen(names);
        if (run->state == RUN_FAILED)
            snprintf(names + used, sizeof names - used, "%s %s", used ? "," : "", run->name);
    }
    if (counts[RUN_FAILED])
        return err_set(err, ERR_FAILED,
                       "%zu of %zu runs failed:%s; each folder's %s says why; start again, or with "
                       "--retry-failed, to repeat them",
                       counts[RUN_FAILED], all, names, OUTPUT_NAME);
    if (counts[RUN_INTERRUPTED])
        return err_set(err, ERR_SIGNAL, "%zu of %zu runs were stopped: start again to go on",
                       counts[RUN_INTERRUPTED], all);
    if (counts[RUN_RUNNING])
        return err_set(err, ERR_FAILED,
                       "%zu of %zu runs are at work in another process: start again when it has "
                       "ended",
                       counts[RUN_RUNNING], all);
    return true;
}

static bool run_all(Scheduler *s, Err *err) {
    /* of the command alone, so that a run goes on with as many as it began with */
    s->threads = threads_each(s->jobs_max);
    log_info("%zu run%s to do, %zu at a time, train.threads %zu where no config gives it; %s",
             s->todo, s->todo == 1 ? "" : "s", s->jobs_max, s->threads, s->sweep->config.run_dir);
    if (!prepare_texts(s, err)) return false;
    s->progress = progress_start("sweep", (double)s->todo);
    bool ok = schedule(s, err);
    progress_finish(s->progress);
    return ok;
}

bool sweep_execute(Sweep *sweep, const SweepOptions *options, const char *exe, Err *err) {
    Scheduler s = {.sweep = sweep, .options = options, .exe = exe};
    StopSignal signals;
    Err ignored = {0};
    if (!err) err = &ignored;
    stop_signal_install(&signals);
    sweep_read_states(sweep);
    bool ok = allocate(&s, err) && choose(&s, err);
    if (ok && s.todo == 0) log_info("nothing to do in %s", sweep->config.run_dir);
    if (ok && s.todo > 0) ok = run_all(&s, err);
    ok = ok && conclude(&s, err);
    stop_signal_restore(&signals);
    free(s.chosen);
    free(s.tried);
    free(s.jobs);
    return ok;
}
