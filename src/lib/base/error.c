#include "base/error.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
    int exit_code;
} statuses[] = {
#define X(name, exit_code, text) {#name, text, exit_code},
    KT_STATUS_LIST(X)
#undef X
};

static unsigned index_of(kt_status status) {
    return (unsigned)status < KT_STATUS_COUNT ? (unsigned)status : (unsigned)KT_E_INTERNAL;
}

const char *kt_version(void) {
    return KT_VERSION;
}
const char *kt_status_name(kt_status status) {
    return statuses[index_of(status)].name;
}
const char *kt_status_message(kt_status status) {
    return statuses[index_of(status)].text;
}
int kt_status_exit_code(kt_status status) {
    return statuses[index_of(status)].exit_code;
}

void kt__error_clear(kt_error *err) {
    if (!err) return;
    memset(err, 0, sizeof *err);
    err->offset = UINT64_MAX;
}

static void set_error(kt_error *err, kt_status code, const char *where, uint64_t offset,
                      const char *fmt, va_list args) {
    kt__error_clear(err);
    err->code = code;
    err->offset = offset;
    if (where) snprintf(err->where, sizeof err->where, "%s", where);
    vsnprintf(err->message, sizeof err->message, fmt, args);
}

kt_status kt__fail(kt_error *err, kt_status code, const char *fmt, ...) {
    if (err) {
        va_list args;
        va_start(args, fmt);
        set_error(err, code, NULL, UINT64_MAX, fmt, args);
        va_end(args);
    }
    return code;
}

kt_status kt__error_set_context(kt_error *err, size_t n_tokens, size_t n_ctx) {
    if (err) {
        err->n_tokens = (int64_t)n_tokens;
        err->n_ctx = (int64_t)n_ctx;
    }
    return KT_E_CONTEXT_FULL;
}

kt_status kt__fail_at(kt_error *err, kt_status code, const char *where, uint64_t offset,
                      const char *fmt, ...) {
    if (err) {
        va_list args;
        va_start(args, fmt);
        set_error(err, code, where, offset, fmt, args);
        va_end(args);
    }
    return code;
}

kt_status kt__fail_system(kt_error *err, int code, const char *where, const char *fmt, ...) {
    if (err) {
        va_list args;
        va_start(args, fmt);
        set_error(err, KT_E_IO, where, UINT64_MAX, fmt, args);
        va_end(args);
        err->system = code;
        size_t n = strlen(err->message);
        snprintf(err->message + n, sizeof err->message - n, ": %s", strerror(code));
    }
    return KT_E_IO;
}

kt_status kt__fail_nomem(kt_error *err, const char *what, size_t bytes) {
    return kt__fail(err, KT_E_NOMEM, "out of memory: %zu bytes for %s", bytes, what);
}

const char *kt__error_without_place(const kt_error *err) {
    const char *last = strrchr(err->where, '/');
    size_t n = last ? strlen(last + 1) : 0;
    bool same = n > 0 && !strncmp(err->message, last + 1, n) && !strncmp(err->message + n, ": ", 2);
    return same ? err->message + n + 2 : err->message;
}

/* ---- the log ---- */

kt_status kt__log_init(kt__logger *log, kt_log_fn *fn, void *user, kt_log_level level) {
    log->fn = fn;
    log->user = user;
    log->level = level;
    return pthread_mutex_init(&log->lock, NULL) == 0 ? KT_OK : KT_E_NOMEM;
}

void kt__log_free(kt__logger *log) {
    pthread_mutex_destroy(&log->lock);
}

void kt__log_line(kt__logger *log, kt_log_level level, const char *fmt, ...) {
    char line[1024];
    if (!log->fn || level > log->level) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    pthread_mutex_lock(&log->lock);
    int depth = kt__noalloc_suspend();
    log->fn(log->user, level, line);
    kt__noalloc_resume(depth);
    pthread_mutex_unlock(&log->lock);
}
