/* Operators, by Python's rules: arithmetic, comparison, membership, slices. Integers are 64 bits
 * wide; a result over that is an error. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "jinja/jinja_run.h"

/* ---- numbers ---- */

static bool is_integer(kt__jv v) {
    return v.type == KT__J_INT || v.type == KT__J_BOOL;
}

static int64_t as_int(kt__jv v) {
    return v.type == KT__J_BOOL ? v.u.b : v.u.i;
}

static double as_float(kt__jv v) {
    return v.type == KT__J_FLOAT ? v.u.f : (double)as_int(v);
}

static kt_status fail_overflow(kt__jx *x) {
    return kt__jx_fail(x, "an integer over 64 bits");
}

static kt_status zero_division(kt__jx *x) {
    return kt__jx_fail(x, "division by zero");
}

/* Python rounds the quotient down, so the remainder has the divisor's sign. */
static kt_status int_divide(kt__jx *x, int64_t a, int64_t b, bool want_mod, kt__jv *out) {
    if (b == 0) return zero_division(x);
    if (b == -1) {
        if (!want_mod && a == INT64_MIN) return fail_overflow(x);
        *out = kt__j_int(want_mod ? 0 : -a);
        return KT_OK;
    }
    int64_t q = a / b, r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) {
        q--;
        r += b;
    }
    *out = kt__j_int(want_mod ? r : q);
    return KT_OK;
}

static kt_status float_divide(kt__jx *x, double a, double b, bool want_mod, kt__jv *out) {
    if (b == 0) return zero_division(x);
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0 && (mod < 0) != (b < 0)) {
        mod += b;
        div -= 1;
    }
    if (mod == 0) mod = copysign(0, b);
    double whole = floor(div);
    if (div - whole > 0.5) whole += 1;
    if (div == 0) whole = copysign(0, a / b);
    *out = kt__j_float(want_mod ? mod : whole);
    return KT_OK;
}

static kt_status int_op(kt__jx *x, kt__jop op, int64_t a, int64_t b, kt__jv *out) {
    int64_t r = 0;
    bool over = false;
    switch (op) {
    case KT__JOP_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case KT__JOP_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case KT__JOP_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case KT__JOP_FLOORDIV: return int_divide(x, a, b, false, out);
    case KT__JOP_MOD: return int_divide(x, a, b, true, out);
    default:
        if (b == 0) return zero_division(x);
        *out = kt__j_float((double)a / (double)b);
        return KT_OK;
    }
    *out = kt__j_int(r);
    return over ? fail_overflow(x) : KT_OK;
}

static kt_status float_op(kt__jx *x, kt__jop op, double a, double b, kt__jv *out) {
    switch (op) {
    case KT__JOP_ADD: *out = kt__j_float(a + b); return KT_OK;
    case KT__JOP_SUB: *out = kt__j_float(a - b); return KT_OK;
    case KT__JOP_MUL: *out = kt__j_float(a * b); return KT_OK;
    case KT__JOP_FLOORDIV: return float_divide(x, a, b, false, out);
    case KT__JOP_MOD: return float_divide(x, a, b, true, out);
    default:
        if (b == 0) return zero_division(x);
        *out = kt__j_float(a / b);
        return KT_OK;
    }
}

kt_status kt__jx_negate(kt__jx *x, kt__jv v, bool minus, kt__jv *out) {
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(x, v);
    if (v.type == KT__J_FLOAT) {
        *out = kt__j_float(minus ? -v.u.f : v.u.f);
    } else if (is_integer(v)) {
        int64_t i = as_int(v);
        if (minus && i == INT64_MIN) return fail_overflow(x);
        *out = kt__j_int(minus ? -i : i);
    } else {
        return kt__jx_fail(x, "a value of type %s has no sign", kt__j_type_name(v));
    }
    return KT_OK;
}

/* ---- strings and lists ---- */

/* With |safe text on one side the other side is escaped, as MarkupSafe does. */
static kt_status add_strings(kt__jx *x, const kt__jstr *a, const kt__jstr *b, kt__jv *out) {
    kt__jsb text;
    bool markup = a->markup || b->markup;
    if (markup) KT__STEP(kt__jx_escape(x, a, &a));
    if (markup) KT__STEP(kt__jx_escape(x, b, &b));
    kt__jx_sink(x, &text);
    kt__jsb_reserve(&text, a->len + b->len);
    kt__jsb_add_str(&text, a);
    kt__jsb_add_str(&text, b);
    KT__STEP(kt__jx_sink_done(x, &text, out));
    ((kt__jstr *)(uintptr_t)out->u.s)->markup = markup; /* made here, not yet shared */
    return KT_OK;
}

static kt_status add_lists(kt__jx *x, const kt__jlist *a, const kt__jlist *b, kt__jv *out) {
    kt__jlist *sum;
    KT__STEP(kt__jx_step(x, (a->n + b->n) / 8));
    KT__STEP(kt__jx_list(x, a->kind, a->items, a->n, &sum));
    for (size_t i = 0; i < b->n; i++) KT__STEP(kt__jx_push(x, sum, b->items[i]));
    *out = kt__j_list(sum);
    return KT_OK;
}

static kt_status repeat_string(kt__jx *x, const kt__jstr *s, int64_t times, kt__jv *out) {
    kt__jsb text;
    size_t bytes = SIZE_MAX;
    kt__jx_sink(x, &text);
    if (times <= 0 || s->len == 0) return kt__jx_sink_done(x, &text, out);
    (void)kt__mul_size((size_t)times, s->len, &bytes);
    kt__jsb_reserve(&text, bytes);
    KT__STEP(kt__jx_sink_check(x, &text));
    if (s->n_runs) KT__STEP(kt__jx_step(x, (uint64_t)times * s->n_runs / 8));
    for (int64_t i = 0; i < (s->n_runs ? times : 1); i++) kt__jsb_add_str(&text, s);
    while (text.len < bytes && !text.failed) { /* of one origin: what is there is doubled */
        size_t n = text.len < bytes - text.len ? text.len : bytes - text.len;
        kt__jsb_add(&text, text.data, n, s->from_template);
    }
    return kt__jx_sink_done(x, &text, out);
}

static kt_status repeat_list(kt__jx *x, const kt__jlist *list, int64_t times, kt__jv *out) {
    kt__jlist *all;
    KT__STEP(kt__jx_list(x, list->kind, NULL, 0, &all));
    size_t n = list->n; /* `all` is another list, but steps are counted an item */
    for (int64_t t = 0; t < times && n; t++) {
        KT__STEP(kt__jx_step(x, n));
        for (size_t i = 0; i < n; i++) KT__STEP(kt__jx_push(x, all, list->items[i]));
    }
    *out = kt__j_list(all);
    return KT_OK;
}

static bool is_plain_list(kt__jv v) {
    return v.type == KT__J_LIST && v.u.l->kind <= KT__JL_TUPLE;
}

static kt_status type_error(kt__jx *x, kt__jop op, kt__jv a, kt__jv b) {
    static const char *const names[] = {
        "+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return kt__jx_fail(x, "'%s' does not apply to %s and %s", names[op], kt__j_type_name(a),
                       kt__j_type_name(b));
}

/* What is not arithmetic: joining and repeating. */
static kt_status sequence_op(kt__jx *x, kt__jop op, kt__jv a, kt__jv b, kt__jv *out) {
    if (op == KT__JOP_ADD && a.type == KT__J_STR && b.type == KT__J_STR)
        return add_strings(x, a.u.s, b.u.s, out);
    if (op == KT__JOP_ADD && is_plain_list(a) && is_plain_list(b) && a.u.l->kind == b.u.l->kind)
        return add_lists(x, a.u.l, b.u.l, out);
    if (op == KT__JOP_MUL) {
        kt__jv seq = is_integer(a) ? b : a, times = is_integer(a) ? a : b;
        if (is_integer(times) && seq.type == KT__J_STR)
            return repeat_string(x, seq.u.s, as_int(times), out);
        if (is_integer(times) && is_plain_list(seq))
            return repeat_list(x, seq.u.l, as_int(times), out);
    }
    return type_error(x, op, a, b);
}

kt_status kt__jx_binary(kt__jx *x, kt__jop op, kt__jv a, kt__jv b, kt__jv *out) {
    if (a.type == KT__J_UNDEF) return kt__jx_undefined(x, a);
    if (b.type == KT__J_UNDEF) return kt__jx_undefined(x, b);
    if (!kt__j_is_number(a) || !kt__j_is_number(b)) return sequence_op(x, op, a, b, out);
    if (a.type == KT__J_BIGINT || b.type == KT__J_BIGINT) return fail_overflow(x);
    if (is_integer(a) && is_integer(b)) return int_op(x, op, as_int(a), as_int(b), out);
    return float_op(x, op, as_float(a), as_float(b), out);
}

/* ---- comparison ---- */

static kt_status contains_item(kt__jx *x, kt__jlist *list, kt__jv item, bool *out) {
    static const kt__jdict nothing;
    kt__jv ignored;
    size_t *at = list->kind == KT__JL_ITER ? &list->pos : &(size_t){0};
    *out = false;
    if (list->kind == KT__JL_KEYS &&
        kt__jdict_get(&nothing, item, &ignored, &x->steps) == KT__JKEY_BAD)
        return kt__jx_bad_key(x, item);
    while (!*out && *at < list->n) {
        KT__STEP(kt__jx_step(x, 1));
        *out = kt__j_equal(list->items[(*at)++], item, &x->steps);
    }
    return KT_OK;
}

static kt_status value_contains(kt__jx *x, kt__jv item, kt__jv in, bool *out) {
    kt__jv ignored;
    *out = false;
    switch (in.type) {
    case KT__J_UNDEF: return KT_OK;
    case KT__J_LIST: return contains_item(x, in.u.l, item, out);
    case KT__J_DICT: {
        kt__jkey_result r = kt__jdict_get(in.u.d, item, &ignored, &x->steps);
        if (r == KT__JKEY_BAD) return kt__jx_bad_key(x, item);
        *out = r == KT__JKEY_FOUND;
        return KT_OK;
    }
    case KT__J_STR:
        if (item.type != KT__J_STR) return type_error(x, KT__JOP_IN, item, in);
        KT__STEP(kt__jx_step(x, in.u.s->len / 64));
        *out = kt__jstr_find(in.u.s, item.u.s->data, item.u.s->len, 0) != SIZE_MAX;
        return KT_OK;
    default: return type_error(x, KT__JOP_IN, item, in);
    }
}

static bool order_holds(kt__jop op, int order) {
    if (order == 2) return false; /* a NaN */
    switch (op) {
    case KT__JOP_LT: return order < 0;
    case KT__JOP_LE: return order <= 0;
    case KT__JOP_GT: return order > 0;
    default: return order >= 0;
    }
}

kt_status kt__jx_compare(kt__jx *x, kt__jop op, kt__jv a, kt__jv b, bool *out) {
    int order = 0;
    switch (op) {
    case KT__JOP_EQ: *out = kt__j_equal(a, b, &x->steps); break;
    case KT__JOP_NE: *out = !kt__j_equal(a, b, &x->steps); break;
    case KT__JOP_IN: KT__STEP(value_contains(x, a, b, out)); break;
    case KT__JOP_NOT_IN:
        KT__STEP(value_contains(x, a, b, out));
        *out = !*out;
        break;
    default:
        if (a.type == KT__J_UNDEF) return kt__jx_undefined(x, a);
        if (b.type == KT__J_UNDEF) return kt__jx_undefined(x, b);
        if (!kt__j_order(a, b, &order, &x->steps) && x->steps) return type_error(x, op, a, b);
        *out = order_holds(op, order);
    }
    return kt__jx_step(x, 1);
}

/* ---- sorting ---- */

/* Merges the runs order[lo..mid) and order[mid..hi) into to; equal keys stay in their order. */
static kt_status merge_runs(kt__jx *x, const kt__jv *keys, bool reverse, const uint32_t *order,
                            size_t lo, size_t mid, size_t hi, uint32_t *to) {
    size_t a = lo, b = mid;
    for (size_t k = lo; k < hi; k++) {
        bool take_right = a == mid;
        if (a < mid && b < hi) {
            kt__jv left = keys[order[a]], right = keys[order[b]];
            KT__STEP(
                kt__jx_compare(x, reverse ? KT__JOP_GT : KT__JOP_LT, right, left, &take_right));
        }
        to[k] = take_right ? order[b++] : order[a++];
    }
    return KT_OK;
}

kt_status kt__jx_sort(kt__jx *x, const kt__jv *keys, size_t n, bool reverse, uint32_t **out) {
    uint32_t *order = kt__arena_alloc(&x->arena, (n + 1) * sizeof *order);
    uint32_t *to = kt__arena_alloc(&x->arena, (n + 1) * sizeof *to);
    if (!order || !to) return kt__jx_nomem(x);
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n;
            KT__STEP(merge_runs(x, keys, reverse, order, lo, mid, hi, to));
        }
        uint32_t *swap = order;
        order = to;
        to = swap;
    }
    *out = order;
    return KT_OK;
}

/* ---- slices ---- */

typedef struct slice {
    int64_t start, step, n; /* n items: start, start + step, ... */
} slice;

static kt_status slice_bound(kt__jx *x, kt__jv v, int64_t otherwise, int64_t length, int64_t low,
                             int64_t high, int64_t *out) {
    *out = otherwise;
    if (v.type == KT__J_NONE) return KT_OK;
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(x, v);
    if (!is_integer(v)) return kt__jx_fail(x, "slice bounds must be integers");
    int64_t i = as_int(v);
    if (i < 0) i = i < -length ? low : i + length;
    *out = i < low ? low : i > high ? high : i;
    return KT_OK;
}

/* Python's slice.indices */
static kt_status resolve_slice(kt__jx *x, int64_t length, kt__jv start, kt__jv stop, kt__jv step,
                               slice *out) {
    int64_t end, s = 1;
    if (step.type != KT__J_NONE && !is_integer(step))
        return kt__jx_fail(x, "slice bounds must be integers");
    if (step.type != KT__J_NONE) s = as_int(step);
    if (s == 0) return kt__jx_fail(x, "a slice's step cannot be zero");
    if (s < -length - 1) s = -length - 1; /* takes one item, as any longer step does */
    if (s > length + 1) s = length + 1;
    int64_t low = s < 0 ? -1 : 0, high = s < 0 ? length - 1 : length;
    KT__STEP(slice_bound(x, start, s < 0 ? high : low, length, low, high, &out->start));
    KT__STEP(slice_bound(x, stop, s < 0 ? low : high, length, low, high, &end));
    int64_t span = s < 0 ? out->start - end : end - out->start, stride = s < 0 ? -s : s;
    out->step = s;
    out->n = span > 0 ? (span + stride - 1) / stride : 0;
    return KT_OK;
}

static kt_status slice_string(kt__jx *x, const kt__jstr *s, const slice *sl, kt__jv *out) {
    if (sl->n == 0) return kt__jx_sub(x, s, 0, 0, out);
    if (sl->step == 1) {
        size_t from = kt__jstr_offset(s, (size_t)sl->start);
        size_t to = kt__jstr_offset(s, (size_t)(sl->start + sl->n));
        if (s->n_cp != s->len) KT__STEP(kt__jx_step(x, to / 64));
        return kt__jx_sub(x, s, from, to, out);
    }
    const kt__jv *chars;
    size_t n;
    kt__jsb text;
    KT__STEP(kt__jx_items(x, kt__j_str(s), &chars, &n));
    kt__jx_sink(x, &text);
    for (int64_t i = 0; i < sl->n; i++) kt__jsb_add_str(&text, chars[sl->start + i * sl->step].u.s);
    return kt__jx_sink_done(x, &text, out);
}

kt_status kt__jx_slice(kt__jx *x, kt__jv obj, kt__jv start, kt__jv stop, kt__jv step, kt__jv *out) {
    slice sl = {0};
    kt__jlist *list;
    int64_t length;
    if (obj.type == KT__J_UNDEF) return kt__jx_undefined(x, obj);
    bool is_list = obj.type == KT__J_LIST && obj.u.l->kind <= KT__JL_RANGE;
    if (!is_list && obj.type != KT__J_STR)
        return kt__jx_fail(x, "a value of type %s cannot be sliced", kt__j_type_name(obj));
    KT__STEP(kt__jx_length(x, obj, &length));
    KT__STEP(resolve_slice(x, length, start, stop, step, &sl));
    if (!is_list) return slice_string(x, obj.u.s, &sl, out);
    KT__STEP(kt__jx_step(x, (uint64_t)sl.n / 8));
    KT__STEP(kt__jx_list(x, obj.u.l->kind, NULL, 0, &list));
    for (int64_t i = 0; i < sl.n; i++)
        KT__STEP(kt__jx_push(x, list, obj.u.l->items[sl.start + i * sl.step]));
    *out = kt__j_list(list);
    return KT_OK;
}
