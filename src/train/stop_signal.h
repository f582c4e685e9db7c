/* SIGTERM, SIGINT and SIGUSR1 ask a training run to finish its step, save and end; batch systems
 * send them. */
#ifndef STOP_SIGNAL_H
#define STOP_SIGNAL_H

#include <signal.h>

typedef struct StopSignal {
    struct sigaction old_term, old_int, old_usr1;
} StopSignal;

/* Installs the handlers, forgets an earlier request.  A second SIGINT ends the process at once. */
void stop_signal_install(StopSignal *out);
void stop_signal_restore(const StopSignal *saved);

/* Number of the signal that came since, or 0. */
int stop_signal_caught(void);

#endif
