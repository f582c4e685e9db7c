#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "io.h"
#include "log.h"
#include "run_log.h"

static Metrics line(uint64_t step, double loss) {
    return (Metrics){.step = step,
                     .epoch = 0.5,
                     .tokens = 100 * step,
                     .loss = loss,
                     .lr = 1e-4,
                     .grad_norm = 2,
                     .tokens_per_s = 1234.5678,
                     .elapsed_s = 10.0 * (double)step};
}

static void write_lines(uint64_t from, uint64_t through) {
    RunLog log;
    Err err = {0};
    double elapsed;
    REQUIRE(run_log_open(&log, &elapsed, test_temp_dir(), from - 1, &err));
    for (uint64_t s = from; s <= through; s++) {
        Metrics m = line(s, 1 / (double)s);
        CHECK(run_log_write(&log, &m, &err));
    }
    CHECK(run_log_sync(&log, &err));
    run_log_close(&log);
}

static char *content(void) {
    Bytes bytes;
    Err err = {0};
    REQUIRE(io_read_file(&bytes, test_temp_path("metrics.jsonl"), 1 << 20, &err));
    return (char *)bytes.data;
}

static void append(const char *text) {
    FILE *f = fopen(test_temp_path("metrics.jsonl"), "ab");
    REQUIRE(f);
    fputs(text, f);
    fclose(f);
}

/* Every number comes back bit by bit; the evaluation's members are there only when evaluated. */
static void test_line_round_trip(void) {
    RunLog log;
    Err err = {0};
    double elapsed = -1;
    REQUIRE(run_log_open(&log, &elapsed, test_temp_dir(), 0, &err));
    CHECK_CLOSE(elapsed, 0, 0);
    Metrics plain = line(7, 0.1 + 0.2), evaluated = line(8, 1.0 / 3);
    evaluated.evaluated = true;
    evaluated.valid_loss = 2.0 / 3;
    evaluated.valid_ppl = INFINITY; /* no JSON number: null */
    evaluated.unigram_entropy = 6.5;
    CHECK(run_log_write(&log, &plain, &err) && run_log_write(&log, &evaluated, &err));
    run_log_close(&log);
    char *text = content(), *second = strchr(text, '\n') + 1;
    cJSON *a = cJSON_Parse(text), *b = cJSON_Parse(second);
    CHECK(cJSON_GetObjectItem(a, "loss")->valuedouble == 0.1 + 0.2);
    CHECK_INT(cJSON_GetArraySize(a), 8);
    CHECK_INT(cJSON_GetArraySize(b), 11);
    CHECK(cJSON_GetObjectItem(b, "valid_loss")->valuedouble == 2.0 / 3);
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(b, "valid_ppl")));
    cJSON_Delete(a);
    cJSON_Delete(b);
    free(text);
}

static double member(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* A classifier's line: its score, and none of what only pretraining has. */
static void test_class_line(void) {
    RunLog log;
    Err err = {0};
    double elapsed;
    REQUIRE(run_log_open(&log, &elapsed, test_temp_dir(), 0, &err));
    Metrics m = line(7, 0.5);
    m.scored = true;
    m.valid_loss = 0.1;
    m.accuracy = 2.0 / 3;
    m.f1 = 0.3;
    m.mcc = -0.4;
    m.majority = 0.6;
    CHECK(run_log_write(&log, &m, &err));
    run_log_close(&log);
    char *text = content();
    cJSON *o = cJSON_Parse(text);
    CHECK_INT(cJSON_GetArraySize(o), 13);
    CHECK(member(o, "valid_loss") == 0.1 && member(o, "accuracy") == 2.0 / 3);
    CHECK(member(o, "f1") == 0.3 && member(o, "mcc") == -0.4 && member(o, "majority") == 0.6);
    CHECK(!cJSON_HasObjectItem(o, "valid_ppl"));
    cJSON_Delete(o);
    free(text);
}

/* A run killed behind its checkpoint: later lines, half a line and rubbish go, the rest stays byte
 * by byte. */
static void test_resume_drops_later_lines(void) {
    log_quiet(true);
    write_lines(1, 5);
    char *before = content();
    write_lines(6, 9);
    append("not json\n{\"step\":3}junk\n{\"no_step\":1}\n{\"step\":2,\"loss\":1.");
    RunLog log;
    Err err = {0};
    double elapsed = 0;
    REQUIRE(run_log_open(&log, &elapsed, test_temp_dir(), 5, &err));
    run_log_close(&log);
    CHECK_CLOSE(elapsed, 50, 0);
    char *after = content();
    CHECK(!strncmp(after, before, strlen(before)));
    free(before);
    before = strstr(after, "\"step\":6");
    CHECK(before == NULL);
    free(after);
    write_lines(6, 7);
    after = content();
    size_t lines = 0;
    for (const char *p = after; (p = strchr(p, '\n')) != NULL; p++) lines++;
    CHECK_INT(lines, 7);
    free(after);
}

static void test_fresh_start_empties(void) {
    write_lines(1, 5);
    RunLog log;
    Err err = {0};
    double elapsed = 3;
    REQUIRE(run_log_open(&log, &elapsed, test_temp_dir(), 0, &err));
    run_log_close(&log);
    CHECK_CLOSE(elapsed, 0, 0);
    char *text = content();
    CHECK_STR(text, "");
    free(text);
}

static void test_write_error_is_reported(void) {
    RunLog log = RUN_LOG_CLOSED;
    Err err = {0};
    double elapsed;
    CHECK(!run_log_open(&log, &elapsed, test_temp_path("missing"), 0, &err));
    CHECK_STR_CONTAINS(err.msg, "metrics.jsonl: cannot open");
    FILE *full = fopen("/dev/full", "w");
    if (!full) test_skip("no /dev/full");
    log = (RunLog){.fd = fileno(full), .path = NULL};
    Metrics m = line(1, 1);
    CHECK(!run_log_write(&log, &m, &err));
    CHECK_STR_CONTAINS(err.msg, "No space left");
    CHECK_INT(err.code, ERR_FAILED);
    fclose(full);
}

/* Leaves this process `more` bytes of address space above what it has. */
static void limit_memory(size_t more) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1) test_skip("no /proc/self/statm");
    fclose(f);
    rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    REQUIRE(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) == 0);
}

/* A file larger than memory is cut where the kept lines end, and they are not written again. */
static void test_large_file_is_cut(void) {
    log_quiet(true);
    write_lines(1, 9);
    char *whole = content(), *path = strdup(test_temp_path("metrics.jsonl"));
    REQUIRE(truncate(path, 256 << 20) == 0); /* a hole of zeros, no newline */
    struct stat before, after;
    RunLog log;
    Err err = {0};
    double elapsed;
    REQUIRE(stat(path, &before) == 0);
    limit_memory(128 << 20);
    if (!CHECK_MSG(run_log_open(&log, &elapsed, test_temp_dir(), 6, &err), "%s", err.msg))
        test_end();
    run_log_close(&log);
    CHECK_CLOSE(elapsed, 60, 0);
    char *text = content(), *end = strstr(whole, "{\"step\":7");
    REQUIRE(end);
    *end = 0;
    CHECK_STR(text, whole);
    REQUIRE(stat(path, &after) == 0);
    CHECK_INT(after.st_ino, before.st_ino); /* the same file */
    free(text);
    free(whole);
    free(path);
}

/* Good lines behind a damaged one, and behind one longer than any buffer, are kept. */
static void test_damage_in_the_middle(void) {
    log_quiet(true);
    write_lines(1, 3);
    char *first = content();
    append("{\"step\":");
    for (size_t i = 0; i < 20000; i++) append("0123456789");
    append("\n{}\nnothing\n");
    append("{\"step\":4,\"elapsed_s\":40}\n{\"step\":5,\"elapsed_s\":50}\n");
    char *damaged = content();
    RunLog log;
    Err err = {0};
    double elapsed;
    REQUIRE(run_log_open(&log, &elapsed, test_temp_dir(), 5, &err));
    run_log_close(&log);
    CHECK_CLOSE(elapsed, 50, 0);
    char *text = content(), *behind = strstr(damaged, "{\"step\":4");
    REQUIRE(behind && strlen(text) == strlen(first) + strlen(behind));
    CHECK(!memcmp(text, first, strlen(first)));
    CHECK_STR(text + strlen(first), behind);
    free(text);
    free(first);
    free(damaged);
}

const Test tests_run_log[] = {
    {"line_round_trip", test_line_round_trip, 0},
    {"class_line", test_class_line, 0},
    {"resume_drops_later_lines", test_resume_drops_later_lines, 0},
    {"large_file_is_cut", test_large_file_is_cut, TEST_FLOAT},
    {"damage_in_the_middle", test_damage_in_the_middle, 0},
    {"fresh_start_empties", test_fresh_start_empties, 0},
    {"write_error_is_reported", test_write_error_is_reported, 0},
    {0},
};
