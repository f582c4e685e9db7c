#include "stop_signal.h"

#include <stdatomic.h>
#include <string.h>

/* A handler can reach nothing but a global; worker threads read it too. */
static atomic_int caught;

static void on_signal(int number) {
    atomic_store(&caught, number);
    if (number == SIGINT) signal(SIGINT, SIG_DFL);
}

static bool is_inside(const StopSignal *saved) {
    return saved->old_term.sa_handler == on_signal;
}

void stop_signal_install(StopSignal *out) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART; /* writes under way go on */
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, NULL, &out->old_term);
    sigaction(SIGINT, NULL, &out->old_int);
    sigaction(SIGUSR1, NULL, &out->old_usr1);
    if (is_inside(out)) return; /* what came since the outer one is still asked for */
    atomic_store(&caught, 0);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

void stop_signal_restore(const StopSignal *saved) {
    if (is_inside(saved)) return;
    sigaction(SIGTERM, &saved->old_term, NULL);
    sigaction(SIGINT, &saved->old_int, NULL);
    sigaction(SIGUSR1, &saved->old_usr1, NULL);
    atomic_store(&caught, 0);
}

int stop_signal_caught(void) {
    return atomic_load(&caught);
}

const char *stop_signal_name(int number) {
    return number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGUSR1";
}

bool stop_signal_check(Err *err) {
    int number = stop_signal_caught();
    return number == 0 || err_set(err, ERR_SIGNAL, "stopped by %s", stop_signal_name(number));
}
