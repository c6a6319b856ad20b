#include "term/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/system.h"
#include "base/thread.h"

enum { FIRST_MS = 500, EVERY_MS = 200 };

/* "kentang: prompt 1536 of 6713 tokens, 310 tok/s, 17 s left" */
static void draw_line(kt__progress *p) {
    kt_engine_stats now;
    kt_engine_get_stats(p->engine, &now);
    uint64_t of = now.prompt_tokens - p->before.prompt_tokens;
    uint64_t found = now.cached_tokens - p->before.cached_tokens;
    uint64_t done = now.prefill_tokens - p->before.prefill_tokens;
    double seconds = (double)(kt__now_ns() - p->begin_ns) * 1e-9;
    if (now.generated_tokens != p->before.generated_tokens) return; /* the answer has begun */
    uint64_t left = of > found + done ? of - found - done : 0;
    char line[160];
    int n = snprintf(line, sizeof line, "kentang: prompt %llu of %llu tokens",
                     (unsigned long long)(found + done), (unsigned long long)of);
    if (done) {
        double rate = (double)done / seconds;
        snprintf(line + n, sizeof line - (size_t)n, ", %.0f tok/s, %.0f s left", rate,
                 (double)left / rate);
    } else {
        snprintf(line + n, sizeof line - (size_t)n, ", %.0f s", seconds);
    }
    fprintf(stderr, "\r%.*s\033[K", kt__terminal_width(KT__STDERR) - 1, line);
    fflush(stderr);
    p->shown = true;
}

/* false: it is over */
static bool wait_ms(kt__progress *p, int ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!p->over && pthread_cond_timedwait(&p->change, &p->mutex, &until) != ETIMEDOUT) {
    }
    return !p->over;
}

static void *draw_until_over(void *arg) {
    kt__progress *p = arg;
    pthread_mutex_lock(&p->mutex);
    for (int ms = FIRST_MS; wait_ms(p, ms); ms = EVERY_MS) draw_line(p);
    if (p->shown) fputs("\r\033[K", stderr);
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

void kt__progress_begin(kt__progress *p, const kt_engine *engine) {
    pthread_condattr_t attributes;
    memset(p, 0, sizeof *p);
    if (!kt__terminal_can_draw(KT__STDERR)) return;
    p->engine = engine;
    p->begin_ns = kt__now_ns();
    kt_engine_get_stats(engine, &p->before);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&p->change, &attributes);
    pthread_condattr_destroy(&attributes);
    p->running = kt__thread_start(&p->thread, "kt-progress", 0, draw_until_over, p) == 0;
}

void kt__progress_end(kt__progress *p) {
    if (!p->running) return;
    p->running = false;
    pthread_mutex_lock(&p->mutex);
    p->over = true;
    pthread_cond_signal(&p->change);
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->change);
    pthread_mutex_destroy(&p->mutex);
}

/* ---- byte progress ---- */

void kt__byte_progress_show(void *user, uint64_t done, uint64_t total) {
    kt__byte_progress *p = user;
    int64_t now = kt__now_ns();
    if (p->begun_ns == 0) {
        p->begun_ns = now;
        p->first = done;
    }
    if (now - p->shown_ns < 200000000 && done < total) return;
    p->shown_ns = now;
    p->shown = true;
    double seconds = (double)(now - p->begun_ns) * 1e-9, mib = 1.0 / (1 << 20);
    double rate = seconds > 0.2 ? (double)(done - p->first) / seconds : 0.0;
    fprintf(stderr, "\r%5.1f%%  %.0f of %.0f MiB", 100.0 * (double)done / (double)total,
            (double)done * mib, (double)total * mib);
    if (rate > 0.0)
        fprintf(stderr, ", %.0f MiB/s, %.0f s left ", rate * mib, (double)(total - done) / rate);
    fflush(stderr);
}

void kt__byte_progress_end(kt__byte_progress *progress) {
    if (progress->shown) fputc('\n', stderr);
    progress->shown = false;
}
