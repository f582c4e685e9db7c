/* Main of the fuzz targets, for compilers without a fuzzing engine: takes seed files, changes them
 * at random and calls fuzz_one.
 *
 *   fuzz_<name> [-t SECONDS] [-s SEED] [-o CRASH_FILE] [FILE or FOLDER...]
 *   fuzz_<name> -1 FILE...      each file once, unchanged: to repeat a crash
 *
 * An input that ends the program is written to CRASH_FILE first. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "io.h"
#include "log.h"
#include "rng.h"

enum { SEED_LIMIT = 4096, INPUT_LIMIT = 1 << 16, SLOW_SECONDS = 10 };

typedef struct Seeds {
    Bytes files[SEED_LIMIT];
    size_t count;
} Seeds;

/* The input being tried, for the handlers of its failure. */
static const uint8_t *trying;
static size_t trying_size;
static const char *crash_file = "crash.bin";

/* Weak: the sanitizers' runtime has it, other builds do not. */
#pragma weak __sanitizer_set_death_callback
void __sanitizer_set_death_callback(void (*callback)(void));

static void keep_input(void) {
    int fd = open(crash_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) return;
    size_t done = 0;
    while (done < trying_size) {
        ssize_t n = write(fd, trying + done, trying_size - done);
        if (n <= 0) break;
        done += (size_t)n;
    }
    close(fd);
    static const char NOTE[] = "the input is in the crash file\n";
    if (write(STDERR_FILENO, NOTE, sizeof NOTE - 1) < 0) return;
}

static void on_signal(int number) {
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

static void seeds_add(Seeds *seeds, const char *path) {
    if (io_is_dir(path)) {
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
            char child[4096];
            snprintf(child, sizeof child, "%s/%s", path, e->d_name);
            if (e->d_name[0] != '.') seeds_add(seeds, child);
        }
        if (dir) closedir(dir);
    } else if (seeds->count < SEED_LIMIT) {
        Err err = {0};
        if (io_read_file(&seeds->files[seeds->count], path, INPUT_LIMIT, &err))
            seeds->count++;
        else
            fprintf(stderr, "%s\n", err.msg);
    }
}

/* Draws of one input: a counter on the stream of its key. */
typedef struct Draw {
    uint64_t key, index;
} Draw;

static size_t draw_below(Draw *draw, size_t bound) {
    return (size_t)rng_below(draw->key, draw->index++, bound);
}

/* Counts and sizes near the borders of their types break readers more often than random ones. */
static void put_border_number(uint8_t *p, size_t room, Draw *draw) {
    static const uint64_t BORDERS[] = {
        0,          1,
        2,          0x7F,
        0x80,       0xFF,
        0x100,      0x7FFF,
        0xFFFF,     0x10000,
        0x7FFFFFFF, 0x80000000,
        0xFFFFFFFF, UINT64_C(1) << 32,
        INT64_MAX,  UINT64_C(1) << 63,
        UINT64_MAX,
    };
    uint64_t value = BORDERS[draw_below(draw, sizeof BORDERS / sizeof BORDERS[0])];
    size_t width = (size_t)1 << draw_below(draw, 4);
    for (size_t i = 0; i < width && i < room; i++) p[i] = (uint8_t)(value >> 8 * i);
}

/* One change of data (size bytes of INPUT_LIMIT); the new size. */
static size_t mutate(uint8_t *data, size_t size, const Seeds *seeds, Draw *draw) {
    static const char TEXT[] = "{}[]\",:#-&*!|>'%@`\t\n\r \\0123456789.eE+";
    size_t at = size ? draw_below(draw, size) : 0,
           length = size ? 1 + draw_below(draw, size - at) : 0;
    size_t room = INPUT_LIMIT - size;
    switch (draw_below(draw, 9)) {
    case 0:
        if (size) data[at] ^= (uint8_t)(1u << draw_below(draw, 8));
        return size;
    case 1:
        if (size) data[at] = (uint8_t)draw_below(draw, 256);
        return size;
    case 2:
        if (size) data[at] = (uint8_t)TEXT[draw_below(draw, sizeof TEXT)];
        return size;
    case 3:
        if (size) put_border_number(data + at, size - at, draw);
        return size;
    case 4: return at; /* cut the end off */
    case 5:            /* take a piece out */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 6: /* repeat a piece */
        if (length > room) length = room;
        memmove(data + at + length, data + at, size - at);
        return size + length;
    case 7: /* a new byte */
        if (!room) return size;
        memmove(data + at + 1, data + at, size - at);
        data[at] = (uint8_t)draw_below(draw, 256);
        return size + 1;
    default: { /* a piece of another seed over this one */
        const Bytes *other = &seeds->files[draw_below(draw, seeds->count)];
        size_t from = other->size ? draw_below(draw, other->size) : 0, count = other->size - from;
        if (count > INPUT_LIMIT - at) count = INPUT_LIMIT - at;
        if (count) memcpy(data + at, other->data + from, count);
        return at + count > size ? at + count : size;
    }
    }
}

static void try_input(const uint8_t *data, size_t size) {
    /* a block of its own: the sanitizer watches its end */
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) return;
    memcpy(exact, data, size);
    trying = data;
    trying_size = size;
    alarm(SLOW_SECONDS);
    fuzz_one(exact, size);
    alarm(0);
    free(exact);
}

int main(int argc, char **argv) {
    static Seeds seeds;
    static uint8_t data[INPUT_LIMIT];
    double seconds = 60;
    uint64_t seed = (uint64_t)time(NULL), tried = 0;
    bool once = false;
    int option;
    while ((option = getopt(argc, argv, "t:s:o:1")) != -1) {
        if (option == 't')
            seconds = atof(optarg);
        else if (option == 's')
            seed = strtoull(optarg, NULL, 0);
        else if (option == 'o')
            crash_file = optarg;
        else if (option == '1')
            once = true;
        else
            return 2;
    }
    for (int i = optind; i < argc; i++) seeds_add(&seeds, argv[i]);
    if (seeds.count == 0) seeds.count = 1; /* the empty input */
    log_quiet(true);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_input);
    signal(SIGABRT, on_signal);
    signal(SIGALRM, on_signal);

    for (size_t i = 0; i < seeds.count; i++, tried++)
        try_input(seeds.files[i].data, seeds.files[i].size);
    time_t end = time(NULL) + (time_t)seconds;
    while (!once && time(NULL) < end) {
        for (int batch = 0; batch < 16; batch++, tried++) {
            Draw draw = {rng_key(seed, RNG_TEST, tried, 0), 0};
            const Bytes *from = &seeds.files[draw_below(&draw, seeds.count)];
            size_t size = from->size;
            if (size) memcpy(data, from->data, size);
            for (size_t changes = 1 + draw_below(&draw, 6); changes > 0; changes--) {
                size = mutate(data, size, &seeds, &draw);
            }
            try_input(data, size);
        }
    }
    for (size_t i = 0; i < seeds.count; i++) io_bytes_free(&seeds.files[i]);
    printf("%s: %llu inputs from %zu seeds, seed %llu: no fault\n", argv[0],
           (unsigned long long)tried, seeds.count, (unsigned long long)seed);
    return 0;
}
