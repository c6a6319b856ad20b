/* Conditions on numbers, and what the beginning of a number leaves possible. */
#include <string.h>

#include "grammar/schema_value.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY, MORE_DIGITS = 20 };

typedef enum verdict { NO, YES, MAYBE } verdict;

/* Numbers from low to high; an end that is open does not belong to it. */
typedef struct interval {
    kt__decimal low, high;
    bool low_open, high_open;
} interval;

/* ---- one number ---- */

static bool is_held(const kt__snum *c, kt__num_op op, const kt__decimal *x) {
    switch (op) {
    case KT__NUM_INT: return kt__decimal_is_integer(x);
    case KT__NUM_GE: return kt__decimal_compare(x, &c->value) >= 0;
    case KT__NUM_GT: return kt__decimal_compare(x, &c->value) > 0;
    case KT__NUM_LE: return kt__decimal_compare(x, &c->value) <= 0;
    case KT__NUM_LT: return kt__decimal_compare(x, &c->value) < 0;
    case KT__NUM_EQ: return kt__decimal_compare(x, &c->value) == 0;
    default: return kt__decimal_is_multiple(x, &c->step) == 1;
    }
}

/* ---- an interval ---- */

/* Whether a number over c, or c itself where or_equal, is in the interval. */
static verdict interval_above(const interval *x, const kt__decimal *c, bool or_equal) {
    int low = kt__decimal_compare(&x->low, c), high = kt__decimal_compare(&x->high, c);
    if (low > 0 || (low == 0 && (or_equal || x->low_open))) return YES;
    if (high < 0 || (high == 0 && (!or_equal || x->high_open))) return NO;
    return MAYBE;
}

static verdict turn_verdict(verdict v) {
    return v == MAYBE ? MAYBE : v == YES ? NO : YES;
}

static bool interval_contains(const interval *x, const kt__decimal *c) {
    int low = kt__decimal_compare(&x->low, c), high = kt__decimal_compare(&x->high, c);
    return (low < 0 || (low == 0 && !x->low_open)) && (high > 0 || (high == 0 && !x->high_open));
}

/* a as a number of units of 10^exp; false: out of range. */
static bool scale_decimal(const kt__decimal *a, int32_t exp, __int128 *out) {
    const __int128 limit = (__int128)1 << 120;
    __int128 n = 0;
    if (a->n > 0 && a->exp < exp) return false;
    for (size_t i = 0; i < a->n; i++) {
        if (n > limit) return false;
        n = n * 10 + a->d[i];
    }
    for (int32_t i = exp; a->n > 0 && i < a->exp; i++) {
        if (n > limit) return false;
        n *= 10;
    }
    *out = a->negative ? -n : n;
    return n <= limit;
}

/* Whether a multiple of unit * 10^exp lies within. */
static verdict has_multiple(const interval *x, uint64_t unit, int32_t exp) {
    __int128 low, high, step = unit;
    int32_t e = exp;
    if (x->low.n > 0 && x->low.exp < e) e = x->low.exp;
    if (x->high.n > 0 && x->high.exp < e) e = x->high.exp;
    for (int32_t i = e; i < exp; i++) {
        if (step > (__int128)1 << 110) return MAYBE;
        step *= 10;
    }
    if (!scale_decimal(&x->low, e, &low) || !scale_decimal(&x->high, e, &high)) return MAYBE;
    if (x->low_open) low++;
    if (x->high_open) high--;
    if (low > high) return NO;
    __int128 below = high % step;
    if (below < 0) below += step;
    return high - below >= low ? MAYBE : NO;
}

static verdict judge_range(const kt__svalue_ctx *v, kt__gid id, const interval *x) {
    kt__num_op op = (kt__num_op)kt__g_arg(&v->t->pool, id, 0);
    const kt__snum *c = &v->s->numbers[kt__g_arg(&v->t->pool, id, 1)];
    if (kt__decimal_compare(&x->low, &x->high) == 0) return is_held(c, op, &x->low) ? YES : NO;
    switch (op) {
    case KT__NUM_INT: return has_multiple(x, 1, 0);
    case KT__NUM_GE: return interval_above(x, &c->value, true);
    case KT__NUM_GT: return interval_above(x, &c->value, false);
    case KT__NUM_LE: return turn_verdict(interval_above(x, &c->value, false));
    case KT__NUM_LT: return turn_verdict(interval_above(x, &c->value, true));
    case KT__NUM_EQ: return interval_contains(x, &c->value) ? MAYBE : NO;
    default: return has_multiple(x, c->step.unit, c->step.exp);
    }
}

static verdict judge_number(const kt__svalue_ctx *v, kt__gid id, const interval *x);

static verdict judge_set(const kt__svalue_ctx *v, kt__gid id, kt__gkind kind, const interval *x) {
    uint32_t yes = 0, maybe = 0, n = kt__g_n(&v->t->pool, id);
    for (uint32_t i = 0; i < n; i++) {
        verdict one = judge_number(v, kt__g_arg(&v->t->pool, id, i), x);
        if (kind == KT__G_AND && one == NO) return NO;
        if (kind == KT__G_OR && one == YES) return YES;
        yes += one == YES;
        maybe += one == MAYBE;
    }
    if (kind == KT__G_AND) return maybe ? MAYBE : YES;
    if (kind == KT__G_OR) return maybe ? MAYBE : NO;
    if (yes > 1) return NO;
    return maybe ? MAYBE : yes == 1 ? YES : NO;
}

static verdict judge_number(const kt__svalue_ctx *v, kt__gid id, const interval *x) {
    kt__gkind kind = kt__g_kind(&v->t->pool, id);
    switch (kind) {
    case KT__G_ANY: return YES;
    case KT__G_AND:
    case KT__G_OR:
    case KT__G_ONE: return judge_set(v, id, kind, x);
    case KT__G_NOT: return turn_verdict(judge_number(v, kt__g_arg(&v->t->pool, id, 0), x));
    case KT__G_NUM: return judge_range(v, id, x);
    default: return NO;
    }
}

/* The greatest lower and the least upper bound that a conjunction sets narrow the interval, so that
 * "an integer from 3 to 5, a multiple of 10" is seen to be none. */
static void narrow_interval(const kt__svalue_ctx *v, kt__gid id, interval *x) {
    kt__num_op op = (kt__num_op)kt__g_arg(&v->t->pool, id, 0);
    const kt__decimal *c = &v->s->numbers[kt__g_arg(&v->t->pool, id, 1)].value;
    if ((op == KT__NUM_GE || op == KT__NUM_GT) && kt__decimal_compare(&x->low, c) <= 0) {
        x->low_open = op == KT__NUM_GT || (x->low_open && kt__decimal_compare(&x->low, c) == 0);
        x->low = *c;
    }
    if ((op == KT__NUM_LE || op == KT__NUM_LT) && kt__decimal_compare(&x->high, c) >= 0) {
        x->high_open = op == KT__NUM_LT || (x->high_open && kt__decimal_compare(&x->high, c) == 0);
        x->high = *c;
    }
}

static bool is_possible(const kt__svalue_ctx *v, kt__gid id, interval x) {
    const kt__gpool *p = &v->t->pool;
    if (judge_number(v, id, &x) == NO) return false;
    if (kt__g_kind(p, id) != KT__G_AND) return true;
    for (uint32_t i = 0; i < kt__g_n(p, id); i++)
        if (kt__g_kind(p, kt__g_arg(p, id, i)) == KT__G_NUM)
            narrow_interval(v, kt__g_arg(p, id, i), &x);
    int c = kt__decimal_compare(&x.low, &x.high);
    if (c > 0 || (c == 0 && (x.low_open || x.high_open))) return false;
    return judge_number(v, id, &x) != NO;
}

/* ---- a number's beginning ---- */

/* One more unit in the place of 10^exp. */
static void add_unit(kt__decimal *a, int32_t exp) {
    uint8_t digits[KT__DEC_DIGITS + 1] = {0};
    int32_t top = kt__decimal_top(a);
    if (a->n == 0 || top <= exp) top = exp + 1;
    int32_t n = top - exp;
    if (n > KT__DEC_DIGITS - 1) n = KT__DEC_DIGITS - 1; /* never: a number has 40 places */
    for (int32_t i = 0; i < a->n && top - kt__decimal_top(a) + i < n; i++)
        digits[1 + top - kt__decimal_top(a) + i] = a->d[i];
    int32_t at = n;
    while (digits[at] == 9) digits[at--] = 0;
    digits[at]++;
    kt__decimal out = {.negative = a->negative, .exp = exp};
    int32_t from = digits[0] ? 0 : 1, end = n;
    while (from <= n && digits[from] == 0) from++;
    while (end > from && digits[end] == 0) end--, out.exp++;
    out.n = (uint8_t)(end - from + 1);
    memcpy(out.d, digits + from, out.n);
    *a = out;
}

/* From the magnitude a to one unit of 10^exp more, without that end. */
static bool try_range(const kt__svalue_ctx *v, kt__gid id, kt__decimal a, bool negative,
                      int32_t exp) {
    kt__decimal b = a;
    a.negative = b.negative = false;
    add_unit(&b, exp);
    a.negative = b.negative = negative;
    interval x = {.low = a, .high = b, .high_open = true};
    if (negative) x = (interval){.low = b, .high = a, .low_open = true};
    return is_possible(v, id, x);
}

/* Nothing but a sign: any magnitude, by the number of its digits. */
static bool try_sign(const kt__svalue_ctx *v, kt__gid id) {
    kt__decimal a = {0};
    if (try_range(v, id, a, true, 0)) return true;
    for (int32_t exp = 0; exp < MORE_DIGITS; exp++)
        for (uint8_t digit = 1; digit < 10; digit++) {
            a = (kt__decimal){.n = 1, .exp = exp, .d = {digit}};
            if (try_range(v, id, a, true, exp)) return true;
        }
    return false;
}

bool kt__svalue_number_live(const kt__svalue_ctx *v, kt__gid formula, const char *text,
                            size_t len) {
    kt__gid id = kt__svalue_must(v, formula);
    const char *dot = memchr(text, '.', len);
    bool negative = text[0] == '-';
    kt__decimal a;
    if (id == ANY || id == EMPTY) return id == ANY;
    if (len == 1 && negative) return try_sign(v, id);
    bool ends_in_dot = dot == text + len - 1;
    if (!kt__decimal_parse(text, ends_in_dot ? len - 1 : len, &a)) return false;
    int32_t exp = dot ? -(int32_t)(len - 1 - (size_t)(dot - text)) : 0;
    if (try_range(v, id, a, negative, exp)) return true;
    bool may_grow = !dot && a.n > 0;
    for (int32_t more = 1; may_grow && more < MORE_DIGITS; more++) {
        a.exp++;
        if (try_range(v, id, a, negative, more)) return true;
    }
    return false;
}

static kt__gid outcome_of(const kt__svalue_ctx *v, kt__gid id, const kt__decimal *x) {
    interval point = {.low = *x, .high = *x};
    return judge_number(v, id, &point) == YES ? ANY : EMPTY;
}

bool kt__svalue_number_fits(const kt__svalue_ctx *v, kt__gid formula, const char *text,
                            size_t len) {
    kt__gid id = kt__svalue_must(v, formula);
    kt__decimal x;
    if (id == ANY || id == EMPTY) return id == ANY;
    return kt__decimal_parse(text, len, &x) && outcome_of(v, id, &x) == ANY;
}

kt__gid kt__svalue_number_end(kt__svalue_ctx *v, kt__gid formula, const char *text, size_t len) {
    kt__gpool *p = &v->t->pool;
    kt__decimal x;
    if (formula == ANY) return ANY;
    if (!kt__decimal_parse(text, len, &x)) return EMPTY;
    if (kt__g_kind(p, formula) != KT__G_VEC) return outcome_of(v, formula, &x);
    uint32_t from = p->n_scratch;
    for (uint32_t i = 0; i < kt__g_n(p, formula); i++)
        kt__gpool_push(p, outcome_of(v, kt__g_arg(p, formula, i), &x));
    return kt__term_vec(v->t, from);
}

static bool asks_for_integer(const kt__gpool *p, kt__gid id) {
    return kt__g_kind(p, id) == KT__G_NUM && kt__g_arg(p, id, 0) == KT__NUM_INT;
}

bool kt__svalue_is_integer(const kt__svalue_ctx *v, kt__gid formula) {
    const kt__gpool *p = &v->t->pool;
    kt__gid must = kt__svalue_must(v, formula);
    if (kt__g_kind(p, must) != KT__G_AND) return asks_for_integer(p, must);
    for (uint32_t i = 0; i < kt__g_n(p, must); i++)
        if (asks_for_integer(p, kt__g_arg(p, must, i))) return true;
    return false;
}

/* ---- fractions ---- */

/* Nothing but single values. */
static bool is_values(const kt__gpool *p, kt__gid id) {
    kt__gkind kind = kt__g_kind(p, id);
    uint32_t n = kt__g_n(p, id), n_values = 0;
    if (kind == KT__G_NUM) return kt__g_arg(p, id, 0) == KT__NUM_EQ;
    if (kind != KT__G_AND && kind != KT__G_OR && kind != KT__G_ONE) return false;
    for (uint32_t i = 0; i < n; i++) n_values += is_values(p, kt__g_arg(p, id, i));
    return kind == KT__G_AND ? n_values > 0 : n_values == n;
}

/* Of the formula's own numbers: the most digits of a fraction. */
static int32_t most_digits(const kt__svalue_ctx *v, kt__gid id) {
    const kt__gpool *p = &v->t->pool;
    kt__gkind kind = kt__g_kind(p, id);
    int32_t most = 0;
    if (kind == KT__G_NUM && kt__g_arg(p, id, 0) != KT__NUM_INT) {
        const kt__decimal *x = &v->s->numbers[kt__g_arg(p, id, 1)].value;
        return x->n > 0 && x->exp < 0 ? -x->exp : 0;
    }
    if (kind != KT__G_AND && kind != KT__G_OR && kind != KT__G_ONE && kind != KT__G_NOT) return 0;
    for (uint32_t i = 0; i < kt__g_n(p, id); i++) {
        int32_t one = most_digits(v, kt__g_arg(p, id, i));
        if (one > most) most = one;
    }
    return most;
}

int32_t kt__svalue_number_digits(const kt__svalue_ctx *v, kt__gid formula, int32_t most) {
    kt__gid id = kt__svalue_must(v, formula);
    int32_t own = most_digits(v, id);
    if (is_values(&v->t->pool, id)) return own;
    return own + 1 > most ? own + 1 : most;
}
