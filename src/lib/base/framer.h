/* Newline-delimited lines out of bytes that arrive in pieces.
 *
 * Owns: the bytes of the line that has not ended, at most max_line of them. A line that grows
 * longer is reported once and skipped up to its newline, so that the stream stays usable. Knows no
 * JSON and no socket. One user at a time. */
#ifndef KT_BASE_FRAMER_H
#define KT_BASE_FRAMER_H

#include "base/buf.h"

typedef enum kt__frame {
    KT__FRAME_NONE, /* no whole line yet */
    KT__FRAME_LINE,
    KT__FRAME_TOO_LONG, /* a line over max_line; it is skipped */
    KT__FRAME_NOMEM     /* no memory for it; it is skipped */
} kt__frame;

typedef struct kt__framer {
    kt__buf line;
    size_t max_line;
    bool ready, skipping; /* the line is to be cleared first; bytes up to a newline are dropped */
} kt__framer;

void kt__framer_init(kt__framer *framer, size_t max_line);
void kt__framer_free(kt__framer *framer);
/* Takes bytes from data[len] up to the end of the next line; *used says how many. Call it until
 * all are used. A line is without its newline, and without the carriage return before it; it is
 * valid until the next call. */
kt__frame kt__framer_next(kt__framer *framer, const char *data, size_t len, size_t *used,
                          const char **line, size_t *line_len);
/* At the end of input: the bytes after the last newline as a line; NONE if there are none. */
kt__frame kt__framer_end(kt__framer *framer, const char **line, size_t *line_len);
/* Bytes that are kept of a line that has not ended. */
size_t kt__framer_pending(const kt__framer *framer);
/* Drops these, and the rest of that line as it comes. */
void kt__framer_skip(kt__framer *framer);

#endif
