#define _GNU_SOURCE /* posix_openpt and its company */
#include "log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "io.h"

enum { LIMIT = 1 << 20 };

static char *contents(const char *path) {
    Bytes bytes = {0};
    Err err = {0};
    REQUIRE(io_read_file(&bytes, path, LIMIT, &err));
    return (char *)bytes.data;
}

/* stderr goes to a file of the test; the one of before is returned. */
static int capture_stderr(const char *path) {
    fflush(stderr);
    int kept = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(kept >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
    return kept;
}

static void restore_stderr(int kept) {
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
}

static size_t count_of(const char *text, const char *part) {
    size_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) n++;
    return n;
}

static void test_lines(void) {
    Err err = {0};
    const char *log_path = test_temp_path("log.txt"), *err_path = test_temp_path("stderr");
    int kept = capture_stderr(err_path);
    bool opened = log_open(log_path, &err);
    log_info("step %d", 5);
    log_warn("slow %s", "disk");
    log_quiet(true);
    log_info("only in the file");
    log_quiet(false);
    log_open(NULL, NULL);
    log_info("only on stderr");
    log_open(log_path, &err);
    log_info("appended");
    char *unclosed = contents(log_path);
    log_open(NULL, NULL);
    restore_stderr(kept);

    CHECK(opened);
    char *shown = contents(err_path), *logged = contents(log_path);
    CHECK_STR(unclosed, logged); /* a process that is killed has lost no line */
    free(unclosed);
    CHECK_STR(shown, "step 5\nwarning: slow disk\nonly on stderr\nappended\n");
    CHECK_INT(count_of(logged, "\n"), 4);
    CHECK_STR_CONTAINS(logged, "  step 5\n");
    CHECK_STR_CONTAINS(logged, "  warning: slow disk\n");
    CHECK_STR_CONTAINS(logged, "  only in the file\n");
    CHECK_STR_CONTAINS(logged, "  appended\n");
    int year = 0, second = -1;
    CHECK(sscanf(logged, "%d-%*d-%*d %*d:%*d:%d  step", &year, &second) == 2 && year > 2000 &&
          second >= 0);
    free(shown);
    free(logged);
}

static void test_open_fails(void) {
    Err err = {0};
    CHECK(!log_open(test_temp_path("no/folder/log.txt"), &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "no/folder/log.txt");
}

static void *write_lines(void *arg) {
    char text[200];
    memset(text, 'a' + *(int *)arg, sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int i = 0; i < 200; i++) log_info("%s", text);
    return NULL;
}

static void test_threads_do_not_mix_lines(void) {
    Err err = {0};
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3};
    log_quiet(true);
    REQUIRE(log_open(test_temp_path("log.txt"), &err));
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, write_lines, &numbers[i]) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    log_open(NULL, NULL);
    log_quiet(false);
    char *logged = contents(test_temp_path("log.txt"));
    CHECK_INT(count_of(logged, "\n"), 800);
    for (char *line = strtok(logged, "\n"); line; line = strtok(NULL, "\n")) {
        const char *text = strrchr(line, ' ') + 1;
        CHECK_INT(strspn(text, (char[]){*text, 0}), 199);
    }
    free(logged);
}

static void test_plain_progress_is_sparse(void) {
    const char *path = test_temp_path("stderr");
    int kept = capture_stderr(path);
    Progress *p = progress_start("count", 1000);
    for (int i = 0; i <= 1000; i++) progress_update(p, i, "detail");
    progress_finish(p);
    progress_finish(NULL);
    progress_update(NULL, 1, NULL);
    restore_stderr(kept);
    char *shown = contents(path);
    CHECK_STR(shown, ""); /* less than ten seconds have gone by */
    free(shown);
}

static void pause_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* What a progress display of about 350 ms leaves on a terminal of `columns`. */
static void on_terminal(char *out, size_t size, const char *term, unsigned short columns) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        test_skip("no pseudo-terminals here");
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY), kept = dup(STDERR_FILENO);
    REQUIRE(slave >= 0 && kept >= 0);
    struct winsize window = {.ws_row = 24, .ws_col = columns};
    ioctl(slave, TIOCSWINSZ, &window);
    dup2(slave, STDERR_FILENO);
    setenv("TERM", term, 1);

    Progress *p = progress_start("train", 200);
    pause_ms(110);
    for (int i = 0; i < 24; i++) {
        progress_update(p, 50 + i, "loss 2.50 \xC3\xA9\xC3\xA9\xC3\xA9");
        if (i == 12) log_warn("a line between");
        pause_ms(10);
    }
    progress_finish(p);
    log_info("after");
    restore_stderr(kept);
    fcntl(master, F_SETFL, O_NONBLOCK);
    size_t used = 0;
    for (ssize_t n; used + 1 < size && (n = read(master, out + used, size - 1 - used)) > 0;)
        used += (size_t)n;
    out[used] = 0;
    close(slave);
    close(master);
}

static void test_terminal_progress(void) {
    static char out[1 << 16];
    setenv("NO_COLOR", "1", 1);
    on_terminal(out, sizeof out, "xterm", 100);
    CHECK_STR_CONTAINS(out, "train [#####               ]  25%  loss 2.50");
    CHECK_STR_CONTAINS(out, " left");
    CHECK_STR_CONTAINS(out, "\rwarning: a line between\r\n\rtrain [");
    CHECK(strchr(out, 033) == NULL);
    size_t draws = count_of(out, "\rtrain ");
    /* at most 10 a second and one after the line */
    CHECK_MSG(draws >= 2 && draws <= 5, "%zu redraws", draws);
    const char *after = strstr(out, "\rafter");
    CHECK(after && strstr(after, "train") == NULL);

    on_terminal(out, sizeof out, "xterm", 32);
    for (char *line = strtok(out, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        size_t width = 0;
        for (const char *c = line; *c; c++) width += ((unsigned char)*c & 0xC0) != 0x80;
        CHECK_MSG(width <= 31, "\"%s\" does not fit", line);
    }

    /* cut between the second and the third of the accents */
    on_terminal(out, sizeof out, "xterm", 48);
    CHECK_STR_CONTAINS(out, "loss 2.50 \xC3\xA9\xC3\xA9\r");
    unsetenv("NO_COLOR");
    on_terminal(out, sizeof out, "xterm", 100);
    CHECK_STR_CONTAINS(out, "\033[33mwarning: \033[0ma line between");

    on_terminal(out, sizeof out, "dumb", 100);
    CHECK_STR(out, "warning: a line between\r\nafter\r\n");
}

const Test tests_log[] = {
    {"lines", test_lines, 0},
    {"open_fails", test_open_fails, 0},
    {"threads_do_not_mix_lines", test_threads_do_not_mix_lines, 0},
    {"plain_progress_is_sparse", test_plain_progress_is_sparse, 0},
    {"terminal_progress", test_terminal_progress, 0},
    {0},
};
