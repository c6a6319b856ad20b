/* How a failure or an event is described: status codes, the error record, the log of a context.
 *
 * Owns: filling a kt_error (every fallible function returns a kt_status; those at the border also take a kt_error),
 * and the lines of a context's log: filtering by level, formatting, one line at a time to the caller's function. Any
 * thread; a kt_error belongs to one caller. */
#ifndef KT_BASE_ERROR_H
#define KT_BASE_ERROR_H

#include <kentang.h>
#include <stdarg.h>

#include "base/thread.h"

/* Fills err (may be NULL) with the code and a printf-style message; returns code. where is cleared.
 */
kt_status kt__fail(kt_error *err, kt_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a place: a file, key, tensor or path, and a byte offset (UINT64_MAX: none). */
kt_status kt__fail_at(kt_error *err, kt_status code, const char *where, uint64_t offset,
                      const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* KT_E_IO of a call of the system that failed with errno `code`: the message, ": " and the system's words. where: NULL,
 * none. */
kt_status kt__fail_system(kt_error *err, int code, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* KT_E_CONTEXT_FULL of a prompt, whose message is there: the numbers. */
kt_status kt__error_set_context(kt_error *err, size_t n_tokens, size_t n_ctx);
kt_status kt__fail_nomem(kt_error *err, const char *what, size_t bytes);
/* The message, without the last part of a pointer in `where` that it begins with: for one that is to have
 * the whole place before it. */
const char *kt__error_without_place(const kt_error *err);
/* Clears err to KT_OK. */
void kt__error_clear(kt_error *err);

/* A step that may fail, in a function that has nothing to release: a failure is returned at once. */
#define KT__STEP(call)                                \
    do {                                              \
        kt_status step_status = (call);               \
        if (step_status != KT_OK) return step_status; \
    } while (0)
/* The same in one that has: status = call, and a failure leaves through the function's one `out:` label, which
 * releases and returns status. */
#define KT__TRY(call)                  \
    do {                               \
        status = (call);               \
        if (status != KT_OK) goto out; \
    } while (0)

typedef struct kt__logger {
    kt_log_fn *fn; /* NULL: silent */
    void *user;
    kt_log_level level;
    pthread_mutex_t lock;
} kt__logger;

kt_status kt__log_init(kt__logger *log, kt_log_fn *fn, void *user, kt_log_level level) KT_CHECKED;
void kt__log_free(kt__logger *log);
void kt__log_line(kt__logger *log, kt_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
