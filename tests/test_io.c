#define _GNU_SOURCE /* unshare */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "rng.h"

enum { NOBODY = 65534, LIMIT = 1 << 20 };

static bool file_is(const char *path, const void *data, size_t size) {
    Bytes bytes = {0};
    Err err = {0};
    bool same = io_read_file(&bytes, path, SIZE_MAX / 2, &err) && bytes.size == size &&
                !memcmp(bytes.data, data, size);
    io_bytes_free(&bytes);
    return same;
}

static void test_read(void) {
    static const char TEXT[] = "one\0two\n";
    Err err = {0};
    Bytes bytes = {0};
    const char *path = test_temp_path("a");
    REQUIRE(io_write_file(path, TEXT, sizeof TEXT, &err));
    REQUIRE(io_read_file(&bytes, path, sizeof TEXT, &err));
    CHECK_INT(bytes.size, sizeof TEXT);
    CHECK(!memcmp(bytes.data, TEXT, sizeof TEXT));
    CHECK(bytes.data[bytes.size] == 0);
    io_bytes_free(&bytes);
    CHECK(bytes.data == NULL);
    io_bytes_free(&bytes);

    CHECK(!io_read_file(&bytes, path, sizeof TEXT - 1, &err));
    CHECK_STR_CONTAINS(err.msg, "9 bytes, the limit is 8");
    REQUIRE(io_write_file(path, NULL, 0, &err));
    REQUIRE(io_read_file(&bytes, path, 0, &err));
    CHECK_INT(bytes.size, 0);
    io_bytes_free(&bytes);
}

/* Every way in refuses what is not a readable regular file, at once and by name. */
static void refused(const char *path, const char *why) {
    Err err = {0};
    Bytes bytes = {0};
    Map map = {0};
    uint64_t hash;
    CHECK(!io_read_file(&bytes, path, LIMIT, &err));
    CHECK_STR_CONTAINS(err.msg, path);
    CHECK_STR_CONTAINS(err.msg, why);
    CHECK_INT(err.code, ERR_FAILED);
    CHECK(bytes.data == NULL);
    err = (Err){0};
    CHECK(!io_map(&map, path, &err));
    CHECK_STR_CONTAINS(err.msg, why);
    err = (Err){0};
    CHECK(!io_hash_file(&hash, path, &err));
    CHECK_STR_CONTAINS(err.msg, why);
}

static void test_unreadable_things(void) {
    refused(test_temp_path("missing"), "No such file");
    refused(test_temp_dir(), "is a directory");
    refused("/dev/zero", "pipe or device");
    const char *pipe_path = test_temp_path("pipe");
    REQUIRE(mkfifo(pipe_path, 0600) == 0);
    refused(pipe_path, "pipe or device"); /* and does not wait for a writer */

    const char *secret = test_temp_path("secret");
    Err err = {0};
    REQUIRE(io_write_file(secret, "x", 1, &err));
    chmod(secret, 0);
    chmod(test_temp_dir(), 0755);
    if (geteuid() == 0 && seteuid(NOBODY) != 0) test_skip("cannot give up root");
    refused(secret, "Permission denied");
    if (getuid() == 0) CHECK(seteuid(0) == 0); /* the leak checker wants to be who it was */
}

static void test_map(void) {
    Err err = {0};
    Map map = {0};
    const char *path = test_temp_path("m");
    REQUIRE(io_write_file(path, "12345", 5, &err));
    REQUIRE(io_map(&map, path, &err));
    CHECK_INT(map.size, 5);
    CHECK(!memcmp(map.data, "12345", 5));
    io_unmap(&map);
    CHECK(map.data == NULL);
    io_unmap(&map);
    REQUIRE(io_write_file(path, "", 0, &err));
    REQUIRE(io_map(&map, path, &err));
    CHECK(map.data == NULL && map.size == 0);
    io_unmap(&map);
}

static void test_atomic_replaces_at_commit(void) {
    Err err = {0};
    AtomicFile file;
    const char *path = test_temp_path("f");
    REQUIRE(io_write_file(path, "old", 3, &err));
    REQUIRE(io_atomic_open(&file, path, &err));
    io_atomic_write(&file, "new ", 4);
    io_atomic_write(&file, "text", 4);
    CHECK(file_is(path, "old", 3));
    CHECK_INT(file.size, 8);
    CHECK_INT(test_count_files(test_temp_dir()), 2);
    char wanted[1024];
    snprintf(wanted, sizeof wanted, "%s.tmp.%ld", path, (long)getpid());
    CHECK_STR(file.temp_path, wanted);
    CHECK(io_atomic_commit(&file, &err));
    CHECK(file_is(path, "new text", 8));
    CHECK_INT(test_count_files(test_temp_dir()), 1);
    io_atomic_abort(&file); /* harmless after a commit */
    CHECK(file_is(path, "new text", 8));

    REQUIRE(io_atomic_open(&file, path, &err));
    io_atomic_write(&file, "never seen", 10);
    io_atomic_abort(&file);
    CHECK(file_is(path, "new text", 8));
    CHECK_INT(test_count_files(test_temp_dir()), 1);
}

static void test_atomic_needs_a_folder(void) {
    Err err = {0};
    AtomicFile file;
    CHECK(!io_atomic_open(&file, test_temp_path("no/such/folder"), &err));
    CHECK_STR_CONTAINS(err.msg, "no/such/folder");
    CHECK_STR_CONTAINS(err.msg, "No such file or directory");
    CHECK(!io_atomic_open(&file, test_temp_dir(), &err));
    CHECK_STR_CONTAINS(err.msg, "not a regular file");
    /* a rename over it would take the device away */
    CHECK(!io_write_file("/dev/null", "x", 1, &err));
    CHECK_STR_CONTAINS(err.msg, "not a regular file");
}

static void test_read_only_folder(void) {
    Err err = {0};
    const char *folder = test_temp_path("locked"), *path = test_temp_path("locked/f");
    REQUIRE(io_make_dirs(folder, &err));
    REQUIRE(io_write_file(path, "kept", 4, &err));
    chmod(path, 0644);
    chmod(folder, 0555);
    chmod(test_temp_dir(), 0755);
    if (geteuid() == 0 && seteuid(NOBODY) != 0) test_skip("cannot give up root");
    CHECK(!io_write_file(path, "other", 5, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "Permission denied");
    CHECK(file_is(path, "kept", 4));
    CHECK(!io_make_dirs(test_temp_path("locked/deeper"), &err));
    CHECK_STR_CONTAINS(err.msg, "Permission denied");
    if (getuid() == 0) CHECK(seteuid(0) == 0);
}

/* Writes `total` bytes in odd pieces; the content is a function of the size. */
static bool write_pattern(const char *path, size_t total, Err *err) {
    AtomicFile file;
    unsigned char piece[1009];
    if (!io_atomic_open(&file, path, err)) return false;
    memset(piece, (int)(total & 255), sizeof piece);
    for (size_t left = total; left > 0;) {
        size_t n = left < sizeof piece ? left : sizeof piece;
        io_atomic_write(&file, piece, n);
        left -= n;
    }
    return io_atomic_commit(&file, err);
}

/* Whether path holds one of write_pattern's files, whole; sizes are congruent to what the bytes
 * say. */
static bool pattern_is_whole(const char *path, size_t least, size_t most) {
    Err err = {0};
    Map map = {0};
    if (!io_map(&map, path, &err)) return false;
    bool whole = map.size >= least && map.size <= most;
    for (size_t i = 0; whole && i < map.size; i++) whole = map.data[i] == (map.size & 255);
    io_unmap(&map);
    return whole;
}

static void test_a_write_that_fails(void) {
    Err err = {0};
    const char *path = test_temp_path("f");
    REQUIRE(write_pattern(path, 5000, &err));
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {20000, 20000};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(!write_pattern(path, 300000, &err)); /* fails while writing */
    CHECK_STR_CONTAINS(err.msg, path);
    CHECK_STR_CONTAINS(err.msg, strerror(EFBIG));
    CHECK(!write_pattern(path, 20001, &err)); /* fails in the last flush */
    CHECK_STR_CONTAINS(err.msg, strerror(EFBIG));
    CHECK(write_pattern(path, 20000, &err));
    CHECK(pattern_is_whole(path, 20000, 20000));
    CHECK_INT(test_count_files(test_temp_dir()), 1);
}

/* A small file system of this process alone, gone with it; false where that is not permitted. */
static bool mount_small(const char *folder, const char *options) {
    uid_t user = getuid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (user == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("small", folder, "tmpfs", 0, options) == 0;
}

static void test_full_file_system(void) {
    Err err = {0};
    const char *folder = test_temp_path("small"), *path = test_temp_path("small/f");
    REQUIRE(io_make_dirs(folder, &err));
    if (!mount_small(folder, "size=1m")) test_skip("may not mount a small file system here");
    REQUIRE(write_pattern(path, 300000, &err));
    CHECK(!write_pattern(path, 900000, &err)); /* the earlier file takes the room that is missing */
    CHECK_STR_CONTAINS(err.msg, path);
    CHECK_STR_CONTAINS(err.msg, strerror(ENOSPC));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK(pattern_is_whole(path, 300000, 300000));
    CHECK_INT(test_count_files(folder), 1);
    CHECK(write_pattern(path, 400000, &err));
    CHECK(pattern_is_whole(path, 400000, 400000));
    umount(folder);
}

/* A process that replaces one file for ever is killed at random moments. */
static void test_kill_while_writing(void) {
    enum { ROUNDS = 100, LEAST = 50000, MOST = 80000 };
    Err err = {0};
    const char *dir = test_temp_dir(), *path = test_temp_path("f");
    uint64_t key = rng_key(test_seed(), RNG_TEST, 9, 9);
    size_t leftovers = 0;
    REQUIRE(write_pattern(path, LEAST, &err));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            for (uint64_t i = 0;; i++)
                write_pattern(path, LEAST + (size_t)rng_below(key ^ round, i, MOST - LEAST), NULL);
        }
        struct timespec wait = {0, (long)rng_below(key, round, 5000000)};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        CHECK(pattern_is_whole(path, LEAST, MOST));
        leftovers += test_count_files(dir) > 1;
        io_remove_stale_temps(dir);
        CHECK_INT(test_count_files(dir), 1);
    }
    CHECK_MSG(leftovers > 0, "no kill hit a write: the test shows nothing");
}

static void test_stale_temps(void) {
    Err err = {0};
    pid_t dead = fork();
    REQUIRE(dead >= 0);
    if (dead == 0) _exit(0);
    waitpid(dead, NULL, 0);
    char running[128], other[128];
    snprintf(running, sizeof running, "last.ckpt.tmp.%ld", (long)getppid());
    snprintf(other, sizeof other, "last.ckpt.tmp.%ldx", (long)dead);
    const char *stay[] = {
        running, other, "a.tmp.", "a.tmp", ".tmp.999999999", "notes.tmp.12345678901234567890",
        "a.b"};
    char gone[128], twice[128];
    snprintf(gone, sizeof gone, "last.ckpt.tmp.%ld", (long)dead);
    snprintf(twice, sizeof twice, "x.tmp.1.tmp.%ld", (long)dead);
    for (size_t i = 0; i < 7; i++) REQUIRE(io_write_file(test_temp_path(stay[i]), "x", 1, &err));
    REQUIRE(io_write_file(test_temp_path(gone), "x", 1, &err));
    REQUIRE(io_write_file(test_temp_path(twice), "x", 1, &err));
    io_remove_stale_temps(test_temp_dir());
    for (size_t i = 0; i < 7; i++)
        CHECK_MSG(io_is_file(test_temp_path(stay[i])), "%s was removed", stay[i]);
    CHECK(!io_is_file(test_temp_path(gone)));
    CHECK(!io_is_file(test_temp_path(twice)));
    io_remove_stale_temps(test_temp_path("no such folder"));
}

static void test_make_dirs(void) {
    Err err = {0};
    CHECK(io_make_dirs(test_temp_path("a/b//c/"), &err));
    CHECK(io_is_dir(test_temp_path("a/b/c")));
    CHECK(io_make_dirs(test_temp_path("a/b/c"), &err));
    CHECK(io_make_dirs("/", &err));
    CHECK(io_make_dirs(".", &err));
    REQUIRE(io_write_file(test_temp_path("file"), "x", 1, &err));
    CHECK(!io_make_dirs(test_temp_path("file"), &err));
    CHECK_STR_CONTAINS(err.msg, "not a folder");
    CHECK(!io_make_dirs(test_temp_path("file/below"), &err));
    CHECK_STR_CONTAINS(err.msg, "file");
    CHECK(!io_is_dir(test_temp_path("file")) && io_is_file(test_temp_path("file")));
    CHECK(!io_is_file(test_temp_dir()) && !io_is_file(test_temp_path("none")) &&
          !io_is_dir(test_temp_path("none")));
}

static void test_hash(void) {
    Err err = {0};
    /* the published value of XXH3-64 of nothing */
    CHECK(io_hash(NULL, 0) == UINT64_C(0x2D06800538D394C2));
    enum { SIZE = 3000000 }; /* several chunks and a rest */
    unsigned char *data = malloc(SIZE);
    REQUIRE(data != NULL);
    for (size_t i = 0; i < SIZE; i++) data[i] = (unsigned char)rng_u64(1, i);
    uint64_t hash = 0;
    REQUIRE(io_write_file(test_temp_path("h"), data, SIZE, &err));
    REQUIRE(io_hash_file(&hash, test_temp_path("h"), &err));
    CHECK(hash == io_hash(data, SIZE));
    data[SIZE / 2] ^= 1;
    CHECK(hash != io_hash(data, SIZE));
    free(data);
}

static void test_little_endian(void) {
    unsigned char p[9] = {0};
    io_put_u32(p + 1, 0x01020304u);
    CHECK(p[0] == 0 && p[1] == 4 && p[2] == 3 && p[3] == 2 && p[4] == 1 && p[5] == 0);
    CHECK(io_get_u32(p + 1) == 0x01020304u);
    io_put_u64(p + 1, UINT64_C(0xF102030405060708));
    CHECK(p[1] == 8 && p[8] == 0xF1);
    CHECK(io_get_u64(p + 1) == UINT64_C(0xF102030405060708));
    io_put_u32(p, 0xFFFFFFFFu);
    CHECK(io_get_u32(p) == 0xFFFFFFFFu);
}

static void test_path_beside(void) {
    static const char *const CASES[][3] = {
        {"configs/a.yaml", "b.yaml", "configs/b.yaml"},
        {"a.yaml", "b.yaml", "b.yaml"},
        {"configs/a.yaml", "/x/b.yaml", "/x/b.yaml"},
        {"/a.yaml", "b", "/b"},
        {"x/y/z", "../b", "x/y/../b"},
        {"x/", "b", "x/b"},
    };
    for (size_t i = 0; i < 6; i++) {
        char *path = io_path_beside(CASES[i][0], CASES[i][1]);
        CHECK_STR(path, CASES[i][2]);
        free(path);
    }
}

const Test tests_io[] = {
    {"read", test_read, 0},
    {"unreadable_things", test_unreadable_things, 0},
    {"map", test_map, 0},
    {"atomic_replaces_at_commit", test_atomic_replaces_at_commit, 0},
    {"atomic_needs_a_folder", test_atomic_needs_a_folder, 0},
    {"read_only_folder", test_read_only_folder, 0},
    {"a_write_that_fails", test_a_write_that_fails, 0},
    {"full_file_system", test_full_file_system, 0},
    {"kill_while_writing", test_kill_while_writing, 0},
    {"stale_temps", test_stale_temps, 0},
    {"make_dirs", test_make_dirs, 0},
    {"hash", test_hash, 0},
    {"little_endian", test_little_endian, 0},
    {"path_beside", test_path_beside, 0},
    {0},
};
