/* The server's log: lines for people or JSON objects.
 *
 * Owns: formatting, levels, one line a write. Never sees a prompt or an answer. Any thread. */
#ifndef KT_SETUP_SLOG_H
#define KT_SETUP_SLOG_H

#include <kentang.h>
#include <stdatomic.h>

#include "base/thread.h"

typedef struct kt__slog {
    int fd;
    bool json;
    _Atomic int level; /* kt_log_level */
    pthread_mutex_t lock;
} kt__slog;

/* A member of a line: a text, or a number where text is NULL. */
typedef struct kt__slog_field {
    const char *name, *text;
    double number;
} kt__slog_field;

/* For lines that a client could cause at any rate. Zero at first; any thread. */
typedef struct kt__slog_gate {
    _Atomic int64_t next_us;
    atomic_uint n_kept; /* since the last that was let through */
} kt__slog_gate;

void kt__slog_init(kt__slog *log, int fd, bool json, kt_log_level level);
void kt__slog_free(kt__slog *log);
kt_log_level kt__slog_level(const char *name); /* "warn"; INFO where unknown */
void kt__slog_write(kt__slog *log, kt_log_level level, const char *message,
                    const kt__slog_field *fields, size_t n_fields);
void kt__slog_line(kt__slog *log, kt_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether one may be written now, at most one in every_us; *n_kept: how many were not, since the
 * last. */
bool kt__slog_may(kt__slog_gate *gate, int64_t every_us, unsigned *n_kept);
/* A kt_log_fn; user is the kt__slog. */
void kt__slog_library(void *user, kt_log_level level, const char *line);

#endif
