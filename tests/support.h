/* What many tests need.
 *
 * Owns: nothing. Static functions; lcg and append_text from any thread, die_on and have_tier from the test's. */
#ifndef KT_TESTS_SUPPORT_H
#define KT_TESTS_SUPPORT_H

#include <kentang.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

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

/* Whether this machine runs the tier (NULL: its best, which is certain to run); name, or NULL, gets
 * what a context calls it. A tier of another build or processor is refused as such, nothing else is. */
static inline bool have_tier(const char *isa, char name[16]) {
    kt_ctx *ctx;
    kt_error err;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.isa = isa;
    cp.n_threads = 1;
    kt_status status = kt_ctx_open(&cp, &ctx, &err);
    if (status != KT_OK) {
        bool not_here = status == KT_E_UNSUPPORTED ||
                        (status == KT_E_ARG && strstr(err.message, "unknown kernel tier"));
        if (!isa || !not_here) die_on(status, &err);
        return false;
    }
    if (name) snprintf(name, 16, "%s", kt_ctx_isa(ctx));
    kt_ctx_close(ctx);
    return true;
}

/* A kt_text_fn; user: a buffer with a string in it and room enough. */
static inline bool append_text(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    strncat(user, text, len);
    return true;
}

#endif
