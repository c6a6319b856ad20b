#include "term/byte_progress.h"

#include <stdio.h>

#include "base/clock.h"

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
