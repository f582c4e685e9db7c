/* Small pretraining runs for tests: a generated corpus, configurations, and runs in processes of
 * their own. */
#ifndef TRAINER_FIXTURE_H
#define TRAINER_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config.h"
#include "io.h"
#include "trainer.h"

/* Writes train.txt and valid.txt to the test's temporary folder: sentences of a small grammar,
 * `lines` of them for training. */
void corpus_write(size_t lines);

/* A list of overrides. */
#define OVERRIDES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A configuration on that corpus with outputs in the temporary folder's `run`: one layer of width
 * 16, n 24, k 6, batch 8, one thread, 360 pieces; then the overrides (NULL at the end).  Ends the
 * test if they do not load. */
void run_config(Config *out, const char *run, const char *const *overrides);

/* What a run came to. */
typedef struct RunResult {
    int code;       /* exit code: 0 or the Err's; -1: ended by a signal */
    char msg[1024]; /* the Err's message */
} RunResult;

/* It ended with that code and, unless NULL, with `fragment` in its message. */
void check_run(RunResult result, int code, const char *fragment);

/* Ends the test unless it ended well. */
void require_run(RunResult result);

/* trainer_pretrain in a child process.  The parent stays free of OpenMP: more can follow. */
RunResult run_pretrain(const char *run, ResumeMode resume, const char *const *overrides);

/* The same, not waited for; run_wait ends it. */
pid_t run_start(const char *run, ResumeMode resume, const char *const *overrides);
RunResult run_wait(pid_t pid);

/* A run of another kind: forks as run_start does, and in the child (0) it ends with what run_wait
 * gives its parent. */
pid_t run_fork(void);
void run_end(bool ok, const Err *err) __attribute__((noreturn));

/* Waits until metrics.jsonl of the run has `lines` lines; false after 60 seconds or when the
 * process ended. */
bool run_wait_lines(pid_t pid, const char *run, size_t lines);

/* Content of a file of the run; ends the test if there is none. */
Bytes run_file(const char *run, const char *name);
const char *run_path(const char *run, const char *name);

/* metrics.jsonl of the run without tokens_per_s and elapsed_s, one line a step; malloc'd. */
char *run_metrics(const char *run);

/* Both runs have the same metrics and the same bytes in last.ckpt. */
void check_runs_equal(const char *a, const char *b);

#endif
