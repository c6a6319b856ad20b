/* Growing arrays.
 *
 * Owns: the rule by which an array's memory grows. The array, its length and its capacity are the
 * caller's; it starts as NULL and 0 and is released by kt__free. One user at a time. */
#ifndef KT_BASE_VEC_H
#define KT_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for `need` items in all, where `items` is a pointer variable and `cap` a size_t that
 * holds how many fit. false: no memory, and the array is as it was. A capacity doubles, so n
 * appends cost O(n). */
#define kt__vec_reserve(items, cap, need) \
    kt__vec_reserve_bytes((void *)&(items), &(cap), (need), sizeof *(items))

bool kt__vec_reserve_bytes(void *items, size_t *cap, size_t need, size_t item_bytes);

#endif
