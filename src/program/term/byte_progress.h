/* How far a long reading or writing of bytes is: part, rate, time left, in one line drawn over itself.
 *
 * Owns: that line on standard error. Its caller knows whether one is wanted. One thread at a time. */
#ifndef KT_TERM_BYTE_PROGRESS_H
#define KT_TERM_BYTE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed to begin with. */
typedef struct kt__byte_progress {
    int64_t begun_ns, shown_ns;
    uint64_t first; /* bytes that were there when this run began */
    bool shown;
} kt__byte_progress;

/* user: a kt__byte_progress. */
void kt__byte_progress_show(void *user, uint64_t done, uint64_t total);
/* Ends the line, where there is one. */
void kt__byte_progress_end(kt__byte_progress *progress);

#endif
