/* Stop strings in streamed text, across token boundaries.
 *
 * Owns: what is held back. Text that could still become a stop string is held, all other text is
 * released at once; a stop string itself is never released. The first stop to be complete ends the
 * text; of several that complete at the same byte, the longest. Fed with whole UTF-8 characters it
 * releases whole characters. No allocation after creation. One user at a time. */
#ifndef KT_SAMPLE_STOPS_H
#define KT_SAMPLE_STOPS_H

#include <kentang.h>

typedef struct kt__stops kt__stops;

/* Released text, in order: part[0], then part[1]; either may be empty. Valid until the next call,
 * part[1] as long as the bytes that were pushed. */
typedef struct kt__stops_text {
    const char *part[2];
    size_t len[2];
    int stop; /* index of the stop string that ended the text, or -1 */
} kt__stops_text;

enum { KT__STOPS_MAX = 1024 }; /* strings */

/* stop[n] is copied. KT_E_ARG for an empty one or one that is not UTF-8; KT_E_LIMIT for too many.
 */
kt_status KT_CHECKED kt__stops_create(const char *const *stop, size_t n, kt__stops **out,
                                      kt_error *err);
void kt__stops_free(kt__stops *stops);

/* After a stop was reported nothing more is released. */
kt__stops_text kt__stops_push(kt__stops *stops, const char *bytes, size_t len);
/* The end of the text: releases what was held back. */
kt__stops_text kt__stops_flush(kt__stops *stops);

#endif
