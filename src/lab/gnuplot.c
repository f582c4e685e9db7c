#include "gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_NO_FOLDER = 126, STATUS_MISSING = 127 };

/* In the child: becomes gnuplot, its output going to `output`. */
static void become_gnuplot(const char *folder, const char *script, int output) {
    sigset_t none;
    sigemptyset(&none); /* ours are blocked for the thread that waits for them */
    sigprocmask(SIG_SETMASK, &none, NULL);
    int input = open("/dev/null", O_RDONLY);
    if (input < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 ||
        chdir(folder) != 0)
        _exit(STATUS_NO_FOLDER);
    execlp("gnuplot", "gnuplot", script, (char *)NULL);
    _exit(errno == ENOENT || errno == EACCES ? STATUS_MISSING : STATUS_NO_FOLDER);
}

/* All that comes, of which text (size) keeps the beginning, as one line. */
static void read_output(char *text, size_t size, int input) {
    char chunk[512];
    size_t used = 0;
    ssize_t got;
    while ((got = read(input, chunk, sizeof chunk)) > 0 || (got < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < got && used + 1 < size; i++) {
            char c = chunk[i] == '\n' || chunk[i] == '\t' ? ' ' : chunk[i];
            if (c != ' ' || (used > 0 && text[used - 1] != ' ')) text[used++] = c;
        }
    }
    if (used > 0 && text[used - 1] == ' ') used--;
    text[used] = 0;
}

GnuplotResult gnuplot_run(const char *folder, const char *script, Err *err) {
    int ends[2], status = 0;
    char said[400];
    if (pipe(ends) != 0) {
        err_set(err, ERR_FAILED, "gnuplot: cannot make a pipe: %s", strerror(errno));
        return GNUPLOT_FAILED;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become_gnuplot(folder, script, ends[1]);
    }
    close(ends[1]);
    if (child > 0) {
        read_output(said, sizeof said, ends[0]);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    }
    close(ends[0]);
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return GNUPLOT_DONE;
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == STATUS_MISSING) {
        err_set(err, ERR_FAILED, "gnuplot is not installed (Debian: apt-get install gnuplot-nox)");
        return GNUPLOT_MISSING;
    }
    if (child < 0)
        err_set(err, ERR_FAILED, "gnuplot: cannot start it: %s", strerror(errno));
    else
        err_set(err, ERR_FAILED, "gnuplot %s/%s failed: %s", folder, script,
                said[0] ? said : "it said nothing");
    return GNUPLOT_FAILED;
}

bool gnuplot_svg_is_whole(const char *path) {
    static const char end[] = "</svg>";
    char tail[32] = "";
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    if (fseek(file, -(long)(sizeof tail - 1), SEEK_END) == 0)
        tail[fread(tail, 1, sizeof tail - 1, file)] = 0;
    fclose(file);
    return strstr(tail, end) != NULL;
}
