/* The test harness: one binary, a table of tests a module, checks that record and go on.
 *
 * tests/test_<module>.c ends with
 *     const Test tests_<module>[] = { {"sum_is_one", test_sum_is_one, 0}, ..., {0} };
 * and the Makefile collects the tables of all tests/test_*.c.  A test runs in a process of its own,
 * so a crash is a failure of that test alone; the parent never starts OpenMP or BLAS, because their
 * threads do not survive a fork. */
#ifndef HARNESS_H
#define HARNESS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Which builds a test belongs to; 0 is every build. */
typedef enum TestWhen {
    TEST_ALWAYS = 0,
    TEST_DOUBLE, /* only where real is double: gradient checks */
    TEST_FLOAT   /* only where real is float */
} TestWhen;

typedef struct Test {
    const char *name;
    void (*fn)(void);
    TestWhen when;
} Test;

typedef struct TestModule {
    const char *name;
    const Test *tests; /* ends with a zeroed entry */
} TestModule;

/* Records a failure of the running test and prints it; the first 10 of a test are printed. */
void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends the running test at once, as failed if a failure was recorded.  Cleanup of the test is
 * skipped. */
void test_end(void) __attribute__((noreturn));

/* Ends the running test as skipped: shown with the reason and counted neither as passed nor as
 * failed. */
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The seed of this run: the environment's SEED, else a fixed one. */
uint64_t test_seed(void);

/* A fresh empty folder of the running test, removed with its content afterwards; the same one at
 * every call in a test. */
const char *test_temp_dir(void);

/* Path of `name` in test_temp_dir(); one of 8 rotating static buffers. */
const char *test_temp_path(const char *name);

/* Files of a folder, hidden ones left out; ends the test if there is no such folder. */
size_t test_count_files(const char *folder);

/* |a - b| <= tol, false for NaN. */
static inline bool test_close(double a, double b, double tol) {
    return a == b || fabs(a - b) <= tol;
}

/* Records a failure when cond is false, and goes on.  Value: cond, so that `if (CHECK(p != NULL))`
 * works. */
#define CHECK(cond) test_check((cond), #cond, __FILE__, __LINE__)
bool test_check(bool ok, const char *text, const char *file, int line);

/* As CHECK, but ends the test: for what the rest of the test cannot do without. */
#define REQUIRE(cond) ((cond) ? (void)0 : (test_fail(__FILE__, __LINE__, "%s", #cond), test_end()))

/* As CHECK with a message of one's own (printf format). */
#define CHECK_MSG(cond, ...) ((cond) ? true : (test_fail(__FILE__, __LINE__, __VA_ARGS__), false))

/* |a - b| <= tol; NaN fails. */
#define CHECK_CLOSE(a, b, tol) test_check_close((a), (b), (tol), #a, #b, __FILE__, __LINE__)
bool test_check_close(double a, double b, double tol, const char *a_text, const char *b_text,
                      const char *file, int line);

/* a == b for integers up to 64 bits, shown on failure. */
#define CHECK_INT(a, b) test_check_int((long long)(a), (long long)(b), #a, #b, __FILE__, __LINE__)
bool test_check_int(long long a, long long b, const char *a_text, const char *b_text,
                    const char *file, int line);

/* Equal strings; NULL equals nothing. */
#define CHECK_STR(a, b) test_check_str((a), (b), false, #a, __FILE__, __LINE__)

/* Text contains part. */
#define CHECK_STR_CONTAINS(text, part)                                                             \
    test_check_str((text), (part), true, #text, __FILE__, __LINE__)
bool test_check_str(const char *text, const char *wanted, bool part, const char *name,
                    const char *file, int line);

/* max |a[i] - b[i]| <= tol * max |b[i]| over count elements of float or double (the size says
 * which); NaN fails. Prints the worst element on failure. */
#define CHECK_ARRAY_CLOSE(a, b, count, tol)                                                        \
    test_check_array((a), (b), (count), sizeof *(a), (tol), #a, #b, __FILE__, __LINE__)
bool test_check_array(const void *a, const void *b, size_t count, size_t elem_size, double tol,
                      const char *a_text, const char *b_text, const char *file, int line);

#endif
