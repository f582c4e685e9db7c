#include "stop_signal.h"

#include <string.h>

/* A handler can reach nothing but a global. */
static volatile sig_atomic_t caught;

static void on_signal(int number) {
    caught = number;
    if (number == SIGINT) signal(SIGINT, SIG_DFL);
}

void stop_signal_install(StopSignal *out) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART; /* writes under way go on */
    sigemptyset(&action.sa_mask);
    caught = 0;
    sigaction(SIGTERM, &action, &out->old_term);
    sigaction(SIGINT, &action, &out->old_int);
    sigaction(SIGUSR1, &action, &out->old_usr1);
}

void stop_signal_restore(const StopSignal *saved) {
    sigaction(SIGTERM, &saved->old_term, NULL);
    sigaction(SIGINT, &saved->old_int, NULL);
    sigaction(SIGUSR1, &saved->old_usr1, NULL);
}

int stop_signal_caught(void) {
    return caught;
}
