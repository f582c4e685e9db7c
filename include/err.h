/* Errors of the library: one message and one exit code, filled where the fault is found and
 * prefixed on the way up. No global state; only src/cli/main.c prints an Err and exits. */
#ifndef ERR_H
#define ERR_H

#include <stdbool.h>

/* Process exit codes; an Err carries the one its fault asks for. */
typedef enum ErrCode {
    ERR_NONE = 0,
    ERR_FAILED = 1,    /* file, data or environment fault */
    ERR_CONFIG = 2,    /* usage or configuration */
    ERR_NONFINITE = 3, /* a loss, gradient norm or probability that is not finite */
    ERR_SIGNAL = 75    /* stopped by a signal after saving; resumable (EX_TEMPFAIL) */
} ErrCode;

typedef struct Err {
    ErrCode code;
    char msg[1024];
} Err;

/* Sets code and message (printf format; cut at the buffer's end).  Returns false, so that
 * `return err_set(err, ...)` reads well.  err may be NULL. */
bool err_set(Err *err, ErrCode code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the message; keeps the code.  Returns false. */
bool err_context(Err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
