#define _DEFAULT_SOURCE /* TIOCGWINSZ */
#include "log.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"

enum { LINE_SIZE = 4096, DETAIL_SIZE = 160, LABEL_SIZE = 48, BAR_WIDTH = 20, DEFAULT_COLUMNS = 80 };

static const double REDRAW_S = 0.1, PLAIN_LINE_S = 10;

struct Progress {
    char label[LABEL_SIZE];
    char detail[DETAIL_SIZE];
    double total, done;
    double started, shown; /* seconds of the monotonic clock */
    bool drawn;            /* a bar is on the terminal's current line */
};

/* stderr and the log file belong to the process, so their state does too. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file;
static bool silent;
static Progress *current;

static bool on_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static bool in_colour(void) {
    const char *no_color = getenv("NO_COLOR");
    return on_terminal() && !(no_color && *no_color);
}

static size_t terminal_columns(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
    return DEFAULT_COLUMNS;
}

/* "1:02:03", "4:05" */
static void format_time(char *buf, size_t size, double seconds) {
    if (!(seconds >= 0 && seconds < 1e8)) {
        snprintf(buf, size, "?");
        return;
    }
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(buf, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, size, "%lu:%02lu", s / 60, s % 60);
}

static void erase_bar(void) {
    if (!current || !current->drawn) return;
    fprintf(stderr, "\r%*s\r", (int)terminal_columns() - 1, "");
    current->drawn = false;
}

/* The characters of text[0..size) that fit `columns` columns, as bytes; never cuts a UTF-8
 * sequence. */
static size_t fitting_bytes(const char *text, size_t size, size_t columns) {
    size_t i = 0;
    for (; i < size; i++) {
        bool starts_character = ((unsigned char)text[i] & 0xC0) != 0x80;
        if (starts_character && columns-- == 0) break;
    }
    return i;
}

static double progress_fraction(const Progress *p) {
    double fraction = p->total > 0 ? p->done / p->total : 0;
    return fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
}

/* "label  42%  detail  3:12 left"; with_bar puts the bar behind the label. */
static void progress_text(char *buf, size_t size, const Progress *p, bool with_bar, double now) {
    double fraction = progress_fraction(p);
    char left[32] = "?", bar[BAR_WIDTH + 4] = "";
    if (fraction > 0)
        format_time(left, sizeof left, (now - p->started) * (1 - fraction) / fraction);
    if (with_bar) {
        size_t filled = (size_t)(fraction * BAR_WIDTH);
        bar[0] = '[';
        memset(bar + 1, ' ', BAR_WIDTH);
        memset(bar + 1, '#', filled);
        memcpy(bar + 1 + BAR_WIDTH, "] ", 3);
    }
    snprintf(buf, size, "%s %s%3.0f%%%s%s  %s left", p->label, bar, floor(100 * fraction),
             p->detail[0] ? "  " : "", p->detail, left);
}

static void draw_bar(Progress *p, double now) {
    char text[LINE_SIZE];
    progress_text(text, sizeof text, p, true, now);
    /* the last column stays free: writing there would wrap on some terminals */
    size_t columns = terminal_columns() - 1;
    size_t bytes = fitting_bytes(text, strlen(text), columns);
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) used += ((unsigned char)text[i] & 0xC0) != 0x80;
    fprintf(stderr, "\r%.*s%*s", (int)bytes, text, (int)(columns - used), "");
    fflush(stderr);
    p->drawn = true;
    p->shown = now;
}

/* The lock is held, here and in write_line. */
static void write_to_file(bool warning, const char *text) {
    if (!log_file) return;
    char stamp[32];
    time_t t = time(NULL);
    struct tm local;
    localtime_r(&t, &local);
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
    fprintf(log_file, "%s  %s%s\n", stamp, warning ? "warning: " : "", text);
    fflush(log_file); /* a killed run must not lose its last lines */
}

/* One line to both places. */
static void write_line(bool warning, const char *text) {
    if (!silent) {
        erase_bar();
        const char *colour = warning && in_colour() ? "\033[33m" : "",
                   *reset = *colour ? "\033[0m" : "";
        fprintf(stderr, "%s%s%s%s\n", colour, warning ? "warning: " : "", reset, text);
        if (current && on_terminal()) draw_bar(current, clock_now_s());
    }
    write_to_file(warning, text);
}

static void log_args(bool warning, const char *format, va_list args) {
    char text[LINE_SIZE];
    vsnprintf(text, sizeof text, format, args);
    pthread_mutex_lock(&lock);
    write_line(warning, text);
    pthread_mutex_unlock(&lock);
}

void log_info(const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_args(false, format, args);
    va_end(args);
}

void log_warn(const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_args(true, format, args);
    va_end(args);
}

void log_file_only(const char *format, ...) {
    char text[LINE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    write_to_file(false, text);
    pthread_mutex_unlock(&lock);
}

bool log_open(const char *path, Err *err) {
    FILE *file = NULL;
    if (path) {
        file = fopen(path, "a");
        if (!file)
            return err_set(err, ERR_FAILED, "%s: cannot open the log: %s", path, strerror(errno));
    }
    pthread_mutex_lock(&lock);
    if (log_file) fclose(log_file);
    log_file = file;
    pthread_mutex_unlock(&lock);
    return true;
}

void log_quiet(bool quiet) {
    pthread_mutex_lock(&lock);
    if (quiet) erase_bar();
    silent = quiet;
    pthread_mutex_unlock(&lock);
}

Progress *progress_start(const char *label, double total) {
    Progress *p = calloc(1, sizeof *p);
    if (!p) return NULL; /* work goes on without a display */
    snprintf(p->label, sizeof p->label, "%s", label);
    p->total = total;
    p->started = p->shown = clock_now_s();
    pthread_mutex_lock(&lock);
    erase_bar();
    current = p;
    pthread_mutex_unlock(&lock);
    return p;
}

void progress_update(Progress *p, double done, const char *detail) {
    if (!p) return;
    double now = clock_now_s();
    pthread_mutex_lock(&lock);
    p->done = done;
    snprintf(p->detail, sizeof p->detail, "%s", detail ? detail : "");
    p->detail[fitting_bytes(p->detail, strlen(p->detail), DETAIL_SIZE)] = 0;
    bool terminal = on_terminal() && !silent;
    if (terminal && p == current && now - p->shown >= REDRAW_S) {
        draw_bar(p, now);
    } else if (!terminal && now - p->shown >= PLAIN_LINE_S) {
        char text[LINE_SIZE];
        progress_text(text, sizeof text, p, false, now);
        write_line(false, text);
        p->shown = now;
    }
    pthread_mutex_unlock(&lock);
}

void progress_finish(Progress *p) {
    if (!p) return;
    pthread_mutex_lock(&lock);
    if (p == current) {
        erase_bar();
        fflush(stderr);
        current = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(p);
}
