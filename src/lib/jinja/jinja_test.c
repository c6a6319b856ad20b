/* Tests: what follows "is". */
#include "jinja/jinja_ast.h"
#include "jinja/jinja_run.h"

static kt_status remainder_is(kt__jx *x, kt__jv v, kt__jv divisor, int64_t wanted, bool *out) {
    kt__jv rest;
    KT__STEP(kt__jx_binary(x, KT__JOP_MOD, v, divisor, &rest));
    *out = kt__j_equal(rest, kt__j_int(wanted), &x->steps);
    return KT_OK;
}

static bool is_same(kt__jv a, kt__jv b) {
    if (a.type != b.type) return false;
    switch (a.type) {
    case KT__J_NONE: return true;
    case KT__J_BOOL: return a.u.b == b.u.b;
    case KT__J_INT: return a.u.i == b.u.i;
    case KT__J_STR: return kt__jstr_eq(a.u.s, b.u.s);
    case KT__J_LIST: return a.u.l == b.u.l;
    case KT__J_DICT:
    case KT__J_NAMESPACE: return a.u.d == b.u.d;
    default: return false;
    }
}

/* Whether v has len() and items. */
static bool is_sequence(kt__jv v) {
    if (v.type == KT__J_LIST) return v.u.l->kind <= KT__JL_RANGE;
    return v.type == KT__J_STR || v.type == KT__J_DICT || v.type == KT__J_UNDEF;
}

static bool is_callable(kt__jv v) {
    return v.type == KT__J_MACRO || v.type == KT__J_BUILTIN || v.type == KT__J_METHOD ||
           v.type == KT__J_UNDEF || v.type == KT__J_LOOP;
}

/* Tests without arguments. */
static kt_status plain_test(kt__jx *x, uint16_t id, kt__jv v, bool *out) {
    switch (id) {
    case KT__JTEST_boolean: *out = v.type == KT__J_BOOL; break;
    case KT__JTEST_callable: *out = is_callable(v); break;
    case KT__JTEST_defined: *out = v.type != KT__J_UNDEF; break;
    case KT__JTEST_undefined: *out = v.type == KT__J_UNDEF; break;
    case KT__JTEST_even: return remainder_is(x, v, kt__j_int(2), 0, out);
    case KT__JTEST_odd: return remainder_is(x, v, kt__j_int(2), 1, out);
    case KT__JTEST_true_: *out = v.type == KT__J_BOOL && v.u.b; break;
    case KT__JTEST_false_: *out = v.type == KT__J_BOOL && !v.u.b; break;
    case KT__JTEST_float_: *out = v.type == KT__J_FLOAT; break;
    case KT__JTEST_integer: *out = v.type == KT__J_INT || v.type == KT__J_BIGINT; break;
    case KT__JTEST_number: *out = kt__j_is_number(v); break;
    case KT__JTEST_iterable: *out = kt__jx_is_iterable(v); break;
    case KT__JTEST_sequence: *out = is_sequence(v); break;
    case KT__JTEST_mapping: *out = v.type == KT__J_DICT; break;
    case KT__JTEST_string: *out = v.type == KT__J_STR; break;
    case KT__JTEST_none: *out = v.type == KT__J_NONE; break;
    default: return kt__jx_fail(x, "the test needs an argument");
    }
    return KT_OK;
}

static bool comparison_of(uint16_t id, kt__jop *op) {
    switch (id) {
    case KT__JTEST_eq:
    case KT__JTEST_equalto:
    case KT__JTEST_eq_sign: *op = KT__JOP_EQ; return true;
    case KT__JTEST_ne:
    case KT__JTEST_ne_sign: *op = KT__JOP_NE; return true;
    case KT__JTEST_lt:
    case KT__JTEST_lessthan:
    case KT__JTEST_lt_sign: *op = KT__JOP_LT; return true;
    case KT__JTEST_le:
    case KT__JTEST_le_sign: *op = KT__JOP_LE; return true;
    case KT__JTEST_gt:
    case KT__JTEST_greaterthan:
    case KT__JTEST_gt_sign: *op = KT__JOP_GT; return true;
    case KT__JTEST_ge:
    case KT__JTEST_ge_sign: *op = KT__JOP_GE; return true;
    case KT__JTEST_in: *op = KT__JOP_IN; return true;
    default: return false;
    }
}

kt_status kt__jx_test(kt__jx *x, uint16_t id, kt__jv v, const kt__jargs *args, bool *out) {
    kt__jop op;
    size_t n = args->n_pos + args->n_kw;
    KT__STEP(kt__jx_step(x, 1));
    if (n == 0) return plain_test(x, id, v, out);
    if (n == 1) {
        kt__jv arg = args->n_pos ? args->pos[0] : args->kw[0].val;
        if (comparison_of(id, &op)) return kt__jx_compare(x, op, v, arg, out);
        if (id == KT__JTEST_divisibleby) return remainder_is(x, v, arg, 0, out);
        if (id == KT__JTEST_sameas) {
            *out = is_same(v, arg);
            return KT_OK;
        }
    }
    return kt__jx_fail(x, "the test does not take %zu arguments", n);
}
