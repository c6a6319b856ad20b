/* Bytes whose number is decided by input: a growable buffer with a cap, and the lines of a stream.
 *
 * Owns: the memory of both. One user at a time. */
#ifndef KT_BASE_BUF_H
#define KT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

/* A buffer never grows over max; a failed append leaves the content as it was and is remembered in `failed`, so a run
 * of appends can be checked once. The content is kept NUL-terminated (the NUL is not counted). */

typedef struct kt__buf {
    char *data; /* NULL while empty and unused */
    size_t len, cap, max;
    bool failed; /* an append was refused: out of memory or over max */
} kt__buf;

void kt__buf_init(kt__buf *buf, size_t max);
void kt__buf_free(kt__buf *buf);
void kt__buf_clear(kt__buf *buf); /* keeps the memory */
bool kt__buf_reserve(kt__buf *buf, size_t extra);
bool kt__buf_append(kt__buf *buf, const void *data, size_t len);
bool kt__buf_puts(kt__buf *buf, const char *s);
bool kt__buf_putc(kt__buf *buf, char c);
bool kt__buf_printf(kt__buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The content as a heap string for kt__free (also when empty); the buffer is empty afterwards.
 * NULL: no memory. */
char *kt__buf_take(kt__buf *buf, size_t *len);

/* Growing arrays.
 *
 * Owns: the rule by which an array's memory grows. The array, its length and its capacity are the
 * caller's; it starts as NULL and 0 and is released by kt__free. One user at a time. */

/* Makes room for `need` items in all, where `items` is a pointer variable and `cap` a size_t that
 * holds how many fit. false: no memory, and the array is as it was. A capacity doubles, so n
 * appends cost O(n). */
#define kt__vec_reserve(items, cap, need) \
    kt__vec_reserve_bytes((void *)&(items), &(cap), (need), sizeof *(items))

bool kt__vec_reserve_bytes(void *items, size_t *cap, size_t need, size_t item_bytes);

/* Newline-delimited lines out of bytes that arrive in parts. A framer has the bytes of the line that has not ended,
 * at most max_line of them. A longer line is reported once and skipped up to its newline, so that the stream stays
 * usable. Knows no JSON and no socket. */

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
