#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

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
