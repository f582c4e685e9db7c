#define _DEFAULT_SOURCE
#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { HASH_CHUNK = 1 << 20 };

static const char TEMP_MARK[] = ".tmp.";

static bool fail_errno(Err *err, const char *path, const char *what, int error) {
    return err_set(err, ERR_FAILED, "%s: %s: %s", path, what, strerror(error));
}

int io_open_regular(FileInfo *info, const char *path, Err *err) {
    /* non-blocking, because opening a pipe nobody writes to would wait for ever */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0) {
        fail_errno(err, path, "cannot open", errno);
    } else if (fstat(fd, &st) != 0) {
        fail_errno(err, path, "cannot read", errno);
    } else if (S_ISDIR(st.st_mode)) {
        err_set(err, ERR_FAILED, "%s: is a directory, wanted a file", path);
    } else if (!S_ISREG(st.st_mode)) {
        err_set(err, ERR_FAILED, "%s: is a pipe or device, wanted a regular file", path);
    } else {
        *info = (FileInfo){(uint64_t)st.st_size,
                           (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

bool io_file_info(FileInfo *out, const char *path, Err *err) {
    int fd = io_open_regular(out, path, err);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* As read(2), but never fewer than `size` bytes before the end of the file; -1 on errors. */
static ssize_t read_full(int fd, void *buffer, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, (char *)buffer + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

bool io_read_file(Bytes *out, const char *path, size_t limit, Err *err) {
    *out = (Bytes){0};
    bool ok = false;
    unsigned char *data = NULL;
    FileInfo info;
    int fd = io_open_regular(&info, path, err);
    if (fd < 0) return false;
    uint64_t size = info.size;
    if (size > limit) {
        err_set(err, ERR_FAILED, "%s: %llu bytes, the limit is %zu", path, (unsigned long long)size,
                limit);
        goto done;
    }
    data = malloc((size_t)size + 1);
    if (!data) {
        err_set(err, ERR_FAILED, "%s: no memory for %llu bytes", path, (unsigned long long)size);
        goto done;
    }
    ssize_t got = read_full(fd, data, (size_t)size);
    if (got < 0) {
        fail_errno(err, path, "cannot read", errno);
        goto done;
    }
    data[got] = 0; /* a file that shrank meanwhile is what it is now */
    *out = (Bytes){data, (size_t)got};
    data = NULL;
    ok = true;
done:
    free(data);
    close(fd);
    return ok;
}

void io_bytes_free(Bytes *bytes) {
    free(bytes->data);
    *bytes = (Bytes){0};
}

bool io_map(Map *out, const char *path, Err *err) {
    *out = (Map){0};
    FileInfo info;
    int fd = io_open_regular(&info, path, err);
    if (fd < 0) return false;
    uint64_t size = info.size;
    bool ok = true;
    if (size > SIZE_MAX) {
        ok = err_set(err, ERR_FAILED, "%s: %llu bytes do not fit this machine's addresses", path,
                     (unsigned long long)size);
    } else if (size > 0) {
        void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED)
            ok = fail_errno(err, path, "cannot map", errno);
        else
            *out = (Map){data, (size_t)size};
    }
    close(fd); /* the map keeps the file open */
    return ok;
}

void io_unmap(Map *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (Map){0};
}

static char *string_join(const char *a, size_t a_size, const char *b) {
    size_t b_size = strlen(b);
    char *s = malloc(a_size + b_size + 1);
    if (!s) return NULL;
    memcpy(s, a, a_size);
    memcpy(s + a_size, b, b_size + 1);
    return s;
}

char *io_path_join(const char *folder, const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

bool io_atomic_open(AtomicFile *out, const char *path, Err *err) {
    *out = (AtomicFile){0};
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return err_set(err, ERR_FAILED, "%s: exists and is not a regular file, not replaced", path);
    }
    char suffix[32];
    snprintf(suffix, sizeof suffix, "%s%ld", TEMP_MARK, (long)getpid());
    out->path = string_join(path, strlen(path), "");
    out->temp_path = string_join(path, strlen(path), suffix);
    if (!out->path || !out->temp_path) {
        err_set(err, ERR_FAILED, "%s: no memory", path);
        goto fail;
    }
    int fd = open(out->temp_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    out->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!out->file) {
        fail_errno(err, out->temp_path, "cannot create", errno);
        if (fd >= 0) close(fd);
        goto fail;
    }
    return true;
fail:
    free(out->path);
    free(out->temp_path);
    *out = (AtomicFile){0};
    return false;
}

void io_atomic_write(AtomicFile *out, const void *data, size_t size) {
    if (out->error || size == 0) return;
    errno = 0;
    if (fwrite(data, 1, size, out->file) != size)
        out->error = errno ? errno : EIO;
    else
        out->size += size;
}

/* The folder part of path; malloc'd. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return string_join(".", 1, "");
    return string_join(path, slash == path ? 1 : (size_t)(slash - path), "");
}

/* Makes a rename in the folder of path survive a power cut; errno of the failure or 0. */
static int sync_folder_of(const char *path) {
    char *folder = folder_of(path);
    if (!folder) return ENOMEM;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) close(fd);
    free(folder);
    /* some network file systems cannot sync a folder, and a folder may be writable but not
     * readable: not a lost file */
    return error == EINVAL || error == ENOTSUP || error == EACCES ? 0 : error;
}

bool io_atomic_commit(AtomicFile *out, Err *err) {
    if (!out->file)
        return err_set(err, ERR_FAILED, "%s: not open for writing", out->path ? out->path : "file");
    const char *failed = "cannot write";
    int error = out->error;
    if (!error && fflush(out->file) != 0) error = errno;
    if (!error && fsync(fileno(out->file)) != 0) error = errno;
    if (fclose(out->file) != 0 && !error) error = errno;
    out->file = NULL;
    if (!error && rename(out->temp_path, out->path) != 0) {
        error = errno;
        failed = "cannot rename the temporary file to it";
    }
    if (!error) {
        free(out->temp_path); /* nothing is left to remove, whatever the folder's sync says */
        out->temp_path = NULL;
        error = sync_folder_of(out->path);
        failed = "cannot sync its folder";
    }
    if (error) {
        err_set(err, ERR_FAILED, "%s: %s (%llu bytes were to be written): %s", out->path, failed,
                (unsigned long long)out->size, strerror(error));
    }
    io_atomic_abort(out);
    return error == 0;
}

void io_atomic_abort(AtomicFile *out) {
    if (out->file) fclose(out->file);
    if (out->temp_path) unlink(out->temp_path);
    free(out->path);
    free(out->temp_path);
    *out = (AtomicFile){0};
}

bool io_write_file(const char *path, const void *data, size_t size, Err *err) {
    AtomicFile file;
    if (!io_atomic_open(&file, path, err)) return false;
    io_atomic_write(&file, data, size);
    return io_atomic_commit(&file, err);
}

/* The process that wrote a temporary file, from its name; 0 if it is no such name. */
static pid_t temp_writer(const char *name) {
    const char *mark = NULL;
    for (const char *p = name; (p = strstr(p, TEMP_MARK)) != NULL; p++) mark = p;
    if (!mark || mark == name) return 0;
    const char *digits = mark + sizeof TEMP_MARK - 1;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 9 || digits[count]) return 0;
    return (pid_t)strtol(digits, NULL, 10);
}

void io_remove_stale_temps(const char *dir) {
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        pid_t pid = temp_writer(e->d_name);
        if (pid <= 0) continue;
        /* still running, perhaps another user's */
        if (kill(pid, 0) == 0 || errno != ESRCH) continue;
        unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

bool io_make_dirs(const char *path, Err *err) {
    char *part = string_join(path, strlen(path), "");
    if (!part) return err_set(err, ERR_FAILED, "%s: no memory", path);
    bool ok = true;
    for (char *p = part; ok && *p;) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        char end = *p;
        *p = 0;
        int error = *part && mkdir(part, 0777) != 0 ? errno : 0;
        /* on a read-only file system an existing folder gives EROFS, not EEXIST */
        if (error && !io_is_dir(part)) {
            ok = error == EEXIST ? err_set(err, ERR_FAILED, "%s: exists and is not a folder", part)
                                 : fail_errno(err, part, "cannot create the folder", error);
        }
        *p = end;
    }
    free(part);
    return ok;
}

bool io_make_folder_of(const char *path, Err *err) {
    char *folder = folder_of(path);
    bool ok = folder ? io_make_dirs(folder, err) : err_set(err, ERR_FAILED, "%s: no memory", path);
    free(folder);
    return ok;
}

bool io_is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool io_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

uint64_t io_hash(const void *data, size_t size) {
    return XXH3_64bits(size ? data : "", size);
}

/* IoHash is the library's state under a name that keeps xxhash.h in this file */
IoHash *io_hash_begin(void) {
    XXH3_state_t *state = XXH3_createState();
    if (state) XXH3_64bits_reset(state);
    return (IoHash *)state;
}

void io_hash_add(IoHash *hash, const void *data, size_t size) {
    if (size) XXH3_64bits_update((XXH3_state_t *)hash, data, size);
}

uint64_t io_hash_end(IoHash *hash) {
    if (!hash) return 0;
    uint64_t value = XXH3_64bits_digest((XXH3_state_t *)hash);
    XXH3_freeState((XXH3_state_t *)hash);
    return value;
}

bool io_hash_file(uint64_t *out, const char *path, Err *err) {
    bool ok = false;
    FileInfo info;
    XXH3_state_t *state = NULL;
    unsigned char *chunk = NULL;
    int fd = io_open_regular(&info, path, err);
    if (fd < 0) return false;
    state = XXH3_createState();
    chunk = malloc(HASH_CHUNK);
    if (!state || !chunk) {
        err_set(err, ERR_FAILED, "%s: no memory", path);
        goto done;
    }
    XXH3_64bits_reset(state);
    ssize_t got;
    while ((got = read_full(fd, chunk, HASH_CHUNK)) > 0)
        XXH3_64bits_update(state, chunk, (size_t)got);
    if (got < 0) {
        fail_errno(err, path, "cannot read", errno);
        goto done;
    }
    *out = XXH3_64bits_digest(state);
    ok = true;
done:
    XXH3_freeState(state);
    free(chunk);
    close(fd);
    return ok;
}

void io_put_u32(unsigned char *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (8 * i));
}

void io_put_u64(unsigned char *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> (8 * i));
}

uint32_t io_get_u32(const unsigned char *p) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) v |= (uint32_t)p[i] << (8 * i);
    return v;
}

uint64_t io_get_u64(const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

char *io_path_beside(const char *base_file, const char *path) {
    const char *slash = strrchr(base_file, '/');
    if (path[0] == '/' || !slash) return string_join(path, strlen(path), "");
    return string_join(base_file, (size_t)(slash - base_file) + 1, path);
}
