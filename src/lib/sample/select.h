/* The greatest of many floats without sorting them.
 *
 * Owns: block maxima, a heap for the greatest few, a radix search for the threshold of many.
 * -infinity means an absent entry and is never chosen; NaN is not checked for. Among equal
 * keys the lowest index is greater. Any thread. */
#ifndef KT_SAMPLE_SELECT_H
#define KT_SAMPLE_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kt__entry {
    float key;
    uint32_t index;
} kt__entry;

/* block_max[n/KT__BLOCK rounded up] and *max of key[n], n >= 1. False if some key is NaN or
 * +infinity (the maxima are then worthless). */
bool kt__select_maxima(const float *key, size_t n, float *block_max, float *max);

/* The k <= KT__TOP_MAX greatest of key[n], greatest first; returns how many there are. block_max
 * may be NULL. */
size_t kt__select_top(const float *key, size_t n, size_t k, const float *block_max, kt__entry *out);

/* A set "all keys above a threshold, and the first so many equal to it", for going through the keys
 * in the order of their index once. */
typedef struct kt__cut {
    float key;
    uint32_t n_equal; /* of the keys equal to key, how many belong (the first ones) */
} kt__cut;

/* The smallest set of the greatest keys whose weights (1 each if weight is NULL) sum to >= target
 * (inclusive) or > target; everything if that is not reached. index[n] is room to work in. Linear
 * in n. */
kt__cut kt__select_cut(const float *key, const float *weight, size_t n, double target,
                       bool inclusive, uint32_t *index);

static inline bool kt__cut_keeps(kt__cut *cut, float key) {
    if (key > cut->key) return true;
    if (key != cut->key || !cut->n_equal) return false;
    cut->n_equal--;
    return true;
}

#endif
