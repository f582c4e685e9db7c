/* Processes of a sweep.  They are forked and execute at once: nothing of this process's threads or
 * memory is of use to them. */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "io.h"
#include "log.h"
#include "sweep_internal.h"

enum { TAIL_LINES = 12, TAIL_BYTES = 4000, EXEC_FAILED = 127 };

/* In the child; only calls that are safe behind a fork. */
static void become(const char *exe, char *const *argv, int output, int lock, pid_t parent) {
    setpgid(0, 0); /* a terminal's Ctrl-C goes to the sweep, which passes it on once */
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(EXEC_FAILED);
#else
    (void)parent;
#endif
    int input = open("/dev/null", O_RDONLY);
    if (input < 0 || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        _exit(EXEC_FAILED);
    if (input > STDERR_FILENO) close(input);
    if (lock >= 0) fcntl(lock, F_SETFD, 0); /* stays locked as long as this process lives */
    execv(exe, argv);
    static const char text[] = "cannot execute the program\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(EXEC_FAILED);
}

bool sweep_spawn(pid_t *out, const char *exe, char *const *argv, const char *output, int lock,
                 Err *err) {
    int fd = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return err_set(err, ERR_FAILED, "%s: cannot open: %s", output, strerror(errno));
    pid_t parent = getpid(), pid = fork();
    int error = errno;
    if (pid == 0) become(exe, argv, fd, lock, parent);
    if (pid > 0) setpgid(pid, pid); /* whoever comes first */
    close(fd);
    *out = pid;
    return pid > 0 || err_set(err, ERR_FAILED, "cannot start a process: %s", strerror(error));
}

void sweep_log_tail(const char *path) {
    Bytes file;
    if (!io_read_file(&file, path, (size_t)1 << 30, NULL)) return;
    const char *text = file.data ? (const char *)file.data : "";
    size_t begin = file.size, lines = 0;
    while (begin > 0 && file.size - begin < TAIL_BYTES) {
        if (text[begin - 1] == '\n' && begin < file.size && ++lines == TAIL_LINES) break;
        begin--;
    }
    for (const char *line = text + begin; *line;) {
        size_t length = strcspn(line, "\n");
        log_info("    %.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
    io_bytes_free(&file);
}
