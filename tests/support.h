/* What many tests need.
 *
 * Owns: nothing. Static functions; lcg and append_text from any thread, die_on from the test's. */
#ifndef KT_TESTS_SUPPORT_H
#define KT_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <kentang.h>

/* The next of a row of numbers that follows from the first one (Numerical Recipes' constants); the high bits are the
 * random ones. */
static inline uint32_t lcg(uint32_t *state) {
    return *state = *state * 1664525u + 1013904223u;
}

static inline uint32_t lcg_below(uint32_t *state, uint32_t n) {
    return (lcg(state) >> 8) % n;
}

/* in [0, 1) */
static inline double lcg_unit(uint32_t *state) {
    return (double)(lcg(state) >> 8) / 16777216.0;
}

static inline void die_on(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

/* A kt_text_fn; user: a buffer with a string in it and room enough. */
static inline bool append_text(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    strncat(user, text, len);
    return true;
}

#endif
