/* SIGTERM, SIGINT and SIGUSR1 ask long work to end at the next good moment; batch systems send
 * them.  Handlers only take a note: loops of long work ask with stop_signal_check. */
#ifndef STOP_SIGNAL_H
#define STOP_SIGNAL_H

#include <signal.h>
#include <stdbool.h>

#include "err.h"

typedef struct StopSignal {
    struct sigaction old_term, old_int, old_usr1;
} StopSignal;

/* Pairs may be inside one another: the inner ones then change nothing, and the outermost forget an
 * earlier request.  A second SIGINT ends the process at once. */
void stop_signal_install(StopSignal *out);
void stop_signal_restore(const StopSignal *saved);

/* Number of the last signal that came since, or 0; once it is not 0 it stays so. */
int stop_signal_caught(void);
const char *stop_signal_name(int number); /* "SIGTERM" */

/* False, with ERR_SIGNAL and "stopped by SIGTERM", if one came. */
bool stop_signal_check(Err *err);

#endif
