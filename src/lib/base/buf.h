/* A growable byte buffer with a cap.
 *
 * Owns: bytes whose number is decided by input. It never grows over max; a failed append leaves the
 * content as it was and is remembered in `failed`, so a run of appends can be checked once. The
 * content is kept NUL-terminated (the NUL is not counted). One user at a time. */
#ifndef KT_BASE_BUF_H
#define KT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
