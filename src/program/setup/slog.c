#include "setup/slog.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/system.h"

enum { MAX_LINE = 8192 };

static const char *const levels[] = {"error", "warn", "info", "debug"};

void kt__slog_init(kt__slog *log, int fd, bool json, kt_log_level level) {
    log->fd = fd;
    log->json = json;
    atomic_init(&log->level, (int)level);
    pthread_mutex_init(&log->lock, NULL);
}

void kt__slog_free(kt__slog *log) {
    pthread_mutex_destroy(&log->lock);
}

kt_log_level kt__slog_level(const char *name) {
    for (int i = 0; i < 4; i++) {
        if (!strcmp(name, levels[i])) return (kt_log_level)i;
    }
    return KT_LOG_INFO;
}

static void write_number(kt__buf *out, double x) {
    if (x == floor(x) && fabs(x) < 1e15) {
        (void)kt__buf_printf(out, "%.0f", x);
    } else {
        (void)kt__buf_printf(out, "%.4g", x);
    }
}

static void write_json(kt__buf *out, const char *time, kt_log_level level, const char *message,
                       const kt__slog_field *fields, size_t n) {
    (void)kt__buf_printf(out, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", time,
                         levels[level]);
    kt__json_text(out, message);
    for (size_t i = 0; i < n; i++) {
        (void)kt__buf_printf(out, ",\"%s\":", fields[i].name);
        if (fields[i].text) {
            kt__json_text(out, fields[i].text);
        } else {
            write_number(out, fields[i].number);
        }
    }
    (void)kt__buf_putc(out, '}');
}

/* Control characters would let a client write lines of its own. */
static void write_plain(kt__buf *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        (void)kt__buf_putc(out, c < 0x20 || c == 0x7f ? '?' : (char)c);
    }
}

static void write_human(kt__buf *out, const char *time, kt_log_level level, const char *message,
                        const kt__slog_field *fields, size_t n) {
    (void)kt__buf_printf(out, "%s %-5s ", time, levels[level]);
    write_plain(out, message);
    for (size_t i = 0; i < n; i++) {
        (void)kt__buf_printf(out, " %s=", fields[i].name);
        if (fields[i].text) {
            write_plain(out, fields[i].text);
        } else {
            write_number(out, fields[i].number);
        }
    }
}

void kt__slog_write(kt__slog *log, kt_log_level level, const char *message,
                    const kt__slog_field *fields, size_t n_fields) {
    char time[40];
    struct timespec now;
    struct tm utc;
    kt__buf line;
    if ((int)level > atomic_load_explicit(&log->level, memory_order_relaxed)) return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(time + len, sizeof time - len, ".%03ldZ", now.tv_nsec / 1000000);
    kt__buf_init(&line, MAX_LINE);
    if (log->json) {
        write_json(&line, time, level, message, fields, n_fields);
    } else {
        write_human(&line, time, level, message, fields, n_fields);
    }
    if (!line.failed && kt__buf_putc(&line, '\n')) {
        pthread_mutex_lock(&log->lock);
        (void)kt__fd_write(log->fd, line.data,
                           line.len); /* a log that cannot be written has nowhere to say so */
        pthread_mutex_unlock(&log->lock);
    }
    kt__buf_free(&line);
}

void kt__slog_line(kt__slog *log, kt_log_level level, const char *fmt, ...) {
    char message[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    kt__slog_write(log, level, message, NULL, 0);
}

bool kt__slog_may(kt__slog_gate *gate, int64_t every_us, unsigned *n_kept) {
    int64_t now_us = kt__now_us(), next_us = atomic_load(&gate->next_us);
    if (now_us < next_us ||
        !atomic_compare_exchange_strong(&gate->next_us, &next_us, now_us + every_us)) {
        atomic_fetch_add(&gate->n_kept, 1);
        return false;
    }
    *n_kept = atomic_exchange(&gate->n_kept, 0);
    return true;
}

void kt__slog_library(void *user, kt_log_level level, const char *line) {
    kt__slog_write(user, level, line, NULL, 0);
}
