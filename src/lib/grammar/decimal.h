/* Decimal numbers as JSON writes them, exactly.
 *
 * Owns: reading, comparison and the question whether one is a multiple of another. Nothing is
 * rounded. Any thread. */
#ifndef KT_GRAMMAR_DECIMAL_H
#define KT_GRAMMAR_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KT__DEC_DIGITS = 64 };

/* 0 when n is 0; else +-d[0]d[1]...d[n-1] * 10^exp, neither d[0] nor d[n-1] being 0. */
typedef struct kt__decimal {
    bool negative;
    uint8_t n;
    int32_t exp;
    uint8_t d[KT__DEC_DIGITS];
} kt__decimal;

/* s[len]: a number of JSON. False: more digits, or a greater exponent, than are kept. */
bool kt__decimal_parse(const char *s, size_t len, kt__decimal *out);
int kt__decimal_compare(const kt__decimal *a, const kt__decimal *b); /* <0, 0, >0 */
bool kt__decimal_is_integer(const kt__decimal *a);
/* 10^exp: a's magnitude is below it and not below a tenth of it; INT32_MIN for 0. */
int32_t kt__decimal_top(const kt__decimal *a);

/* A step that numbers are to be multiples of: unit * 10^exp, unit below 10^18. */
typedef struct kt__decimal_step {
    uint64_t unit;
    int32_t exp;
} kt__decimal_step;
bool kt__decimal_step_from(const kt__decimal *a,
                           kt__decimal_step *out); /* false: it does not fit */
/* -1: out of range of this arithmetic. */
int kt__decimal_is_multiple(const kt__decimal *a, const kt__decimal_step *step);

#endif
