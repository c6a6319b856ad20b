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

#endif
