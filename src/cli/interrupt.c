#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "io.h"
#include "log.h"

/* The folder to remove belongs to the process, as signals do. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *folder_in_use;

static void remove_tree(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        size_t size = strlen(path) + strlen(entry->d_name) + 2;
        char *inner = malloc(size);
        if (!inner) break;
        snprintf(inner, size, "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0) remove_tree(inner); /* the program puts no links there */
        free(inner);
    }
    closedir(dir);
    rmdir(path);
}

/* Without those that whoever started the program wants ignored, as nohup does. */
static void signal_set(sigset_t *set) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, signals[i]);
    }
}

static void *wait_for_signal(void *unused) {
    (void)unused;
    sigset_t set;
    int number = SIGTERM;
    signal_set(&set);
    if (sigwait(&set, &number) != 0) return NULL;
    pthread_mutex_lock(&lock); /* held to the end: no new folder from here on */
    for (int attempt = 0; folder_in_use && io_is_dir(folder_in_use) && attempt < 10; attempt++)
        remove_tree(folder_in_use); /* again if another thread was just writing into it */
    log_quiet(true);                /* takes a progress bar off the terminal */
    fprintf(stderr, "linformer: interrupted\n");
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    _exit(128 + number);
}

void interrupt_start(void) {
    sigset_t set;
    signal_set(&set);
    /* threads started later inherit the mask, so that only the waiting one gets these signals */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_signal, NULL) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

bool temp_folder_create(char **path, Err *err) {
    const char *base = getenv("TMPDIR");
    if (!base || !*base) base = "/tmp";
    size_t size = strlen(base) + sizeof "/linformer-XXXXXX";
    *path = malloc(size);
    if (!*path) return err_set(err, ERR_FAILED, "out of memory for a path");
    snprintf(*path, size, "%s/linformer-XXXXXX", base);
    pthread_mutex_lock(&lock);
    bool made = mkdtemp(*path) != NULL;
    int error = errno;
    if (made) folder_in_use = *path;
    pthread_mutex_unlock(&lock);
    if (made) return true;
    free(*path);
    *path = NULL;
    return err_set(
        err, ERR_FAILED,
        "%s: cannot make a temporary folder: %s; set TMPDIR to a folder that is writable", base,
        strerror(error));
}

void temp_folder_remove(char *path) {
    if (!path) return;
    pthread_mutex_lock(&lock);
    remove_tree(path);
    folder_in_use = NULL;
    pthread_mutex_unlock(&lock);
    free(path);
}
