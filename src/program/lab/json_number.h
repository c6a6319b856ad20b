/* Numbers of the laboratory as JSON.
 *
 * Owns: how a figure that could not be had is written: null. Inline; any thread. */
#ifndef KT_LAB_JSON_NUMBER_H
#define KT_LAB_JSON_NUMBER_H

#include <jansson.h>

/* Null where it is negative, which says unknown. */
static inline json_t *kt__json_known(double value) {
    return value < 0 ? json_null() : json_real(value);
}
/* Null where it is 0, which says not measured. */
static inline json_t *kt__json_positive(double value) {
    return value > 0 ? json_real(value) : json_null();
}

#endif
