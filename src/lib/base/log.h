/* The log of a context: lines to the user's callback.
 *
 * Owns: level filtering, formatting, and that one line at a time reaches the callback. Any thread.
 */
#ifndef KT_BASE_LOG_H
#define KT_BASE_LOG_H

#include <kentang.h>
#include <pthread.h>

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
