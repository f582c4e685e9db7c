#define _DEFAULT_SOURCE /* flock */
#include "file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "log.h"
#include "stop_signal.h"

bool file_lock(int *lock, const char *path, Err *err) {
    const struct timespec pause = {0, 100000000};
    *lock = -1;
    if (!io_make_folder_of(path, err)) return false;
    int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
    bool told = false, ok = true;
    while (ok && fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        if (!told) log_info("waiting for another process that holds %s", path);
        told = true;
        nanosleep(&pause, NULL);
        ok = stop_signal_check(err);
    }
    *lock = fd;
    if (!ok) file_unlock(lock);
    return ok;
}

void file_unlock(int *lock) {
    if (*lock >= 0) close(*lock);
    *lock = -1;
}
