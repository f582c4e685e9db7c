/* metrics.jsonl of a run directory: one JSON object a line, one line a step, also after a kill and
 * a resume. */
#ifndef RUN_LOG_H
#define RUN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct RunLog {
    int fd; /* -1: closed */
    char *path;
} RunLog;

/* One line. Losses are in nats. */
typedef struct Metrics {
    uint64_t step;        /* updates done */
    double epoch;         /* passes over the data, fractional */
    uint64_t tokens;      /* consumed since the start of the run */
    double loss;          /* mean over the masked tokens, or rows, since the last line */
    double lr, grad_norm; /* of the last update; the norm before clipping */
    double tokens_per_s;  /* of the updates since the last line, without evaluations and saves */
    double elapsed_s;     /* training time at the step's end, without downtime between resumes */
    bool evaluated;       /* the members below are there */
    double valid_loss, valid_ppl;
    double unigram_entropy; /* of the held-out text: what word frequencies alone reach */
    bool scored; /* the members below and valid_loss are there: the score of a classifier */
    double accuracy, f1, mcc;
    double majority; /* accuracy of the most frequent class */
} Metrics;

/* Opens run_dir/metrics.jsonl for appending and first drops every line beyond `step` and
 * whatever is not a complete line: what a killed run wrote after the checkpoint that is now
 * continued.  Whatever the file's size, it is read line by line.  step 0 begins an empty file.
 * *elapsed_s: of the last line kept, or 0. */
bool run_log_open(RunLog *out, double *elapsed_s, const char *run_dir, uint64_t step, Err *err);

/* Appends one line with one write. */
bool run_log_write(RunLog *log, const Metrics *line, Err *err);

/* To the disk, before a checkpoint that claims these lines are there. */
bool run_log_sync(RunLog *log, Err *err);

/* Accepts a closed one; a zeroed one is not closed: initialise with RUN_LOG_CLOSED. */
void run_log_close(RunLog *log);

#define RUN_LOG_CLOSED ((RunLog){.fd = -1})

#endif
