/* Log lines and progress on stderr (and, once opened, a log file); stdout is left for results. */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

/* Plain line with a time stamp in the file, bare on stderr.  Thread-safe. */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, prefixed "warning: ". */
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A plain line in the log file alone: what stderr is told by other means. */
void log_file_only(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Also append every later line to `path` (a run directory's log.txt).  NULL closes it. */
bool log_open(const char *path, Err *err);

/* stderr silent (the file still gets everything); for --quiet and for tests. */
void log_quiet(bool quiet);

/* A progress display for long work.  On a terminal one line, redrawn at most 10 times a second:
 * label, bar, percent, `detail`, time left; otherwise a plain line at most every 10 seconds.
 * NO_COLOR and a dumb TERM are respected. */
typedef struct Progress Progress;
Progress *progress_start(const char *label, double total);
void progress_update(Progress *progress, double done, const char *detail); /* detail may be NULL */
void progress_finish(Progress *progress); /* clears the line; accepts NULL; frees */

#endif
