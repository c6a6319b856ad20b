/* How many characters the texts of a term have. */
#include "grammar/term.h"

enum { MAX_NEST = 60, UNBOUNDED = KT__TERM_UNBOUNDED };

/* ---- at least ---- */

/* A lower bound of the number of characters of a text that fits: what NOT leaves counts as 0. */
static uint64_t min_chars(const kt__terms *t, kt__gid id, int depth) {
    const kt__gpool *p = &t->pool;
    uint64_t n = 0, least = UINT32_MAX;
    if (depth > MAX_NEST) return 0;
    for (; kt__g_kind(p, id) == KT__G_CAT; id = kt__g_arg(p, id, 1))
        n += min_chars(t, kt__g_arg(p, id, 0), depth + 1);
    const uint32_t *a = kt__g_data(p, id);
    switch (kt__g_kind(p, id)) {
    case KT__G_BYTES: return n + !(a[4] | a[5]); /* of 80..bf none begins a character */
    case KT__G_REP: return a[1] ? n + a[1] * min_chars(t, a[0], depth + 1) : n;
    case KT__G_OR:
        for (uint32_t i = 0; i < kt__g_n(p, id) && least > 0; i++) {
            uint64_t one = min_chars(t, a[i], depth + 1);
            if (one < least) least = one;
        }
        return n + least;
    case KT__G_AND:
        least = 0;
        for (uint32_t i = 0; i < kt__g_n(p, id); i++) {
            uint64_t one = min_chars(t, a[i], depth + 1);
            if (one > least) least = one;
        }
        return n + least;
    case KT__G_VEC: return n + min_chars(t, a[0], depth + 1);
    default: return n;
    }
}

uint64_t kt__term_min_chars(const kt__terms *t, kt__gid id) {
    return min_chars(t, id, 0);
}

/* ---- at most ---- */

/* Bytes count as characters: there are no fewer. short_: of the shortest text; way: of the shortest
 * way to the end from wherever texts that fit go. */
typedef struct extent {
    uint64_t short_, way;
} extent;

static extent of_text(const kt__terms *t, kt__gid id, int depth);

static uint64_t greater_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static extent of_alternatives(const kt__terms *t, kt__gid id, int depth) {
    extent out = {UNBOUNDED, 0};
    for (uint32_t i = 0; i < kt__g_n(&t->pool, id); i++) {
        extent one = of_text(t, kt__g_arg(&t->pool, id, i), depth + 1);
        if (one.short_ < out.short_) out.short_ = one.short_;
        out.way = greater_of(out.way, one.way);
    }
    return out;
}

/* From within one of the kids it goes to that one's end, and through those that still must come. */
static extent of_repetition(const kt__terms *t, kt__gid id, int depth) {
    extent kid = of_text(t, kt__g_arg(&t->pool, id, 0), depth + 1);
    uint64_t min = kt__g_kind(&t->pool, id) == KT__G_REP ? kt__g_arg(&t->pool, id, 1) : 0;
    return (extent){min * kid.short_, kid.way + (min > 0 ? (min - 1) * kid.short_ : 0)};
}

static extent of_kind(const kt__terms *t, kt__gid id, int depth) {
    switch (kt__g_kind(&t->pool, id)) {
    case KT__G_ANY:
    case KT__G_EPS: return (extent){0, 0};
    case KT__G_BYTES: return (extent){1, 1};
    case KT__G_OR: return of_alternatives(t, id, depth);
    case KT__G_STAR:
    case KT__G_REP: return of_repetition(t, id, depth);
    default: return (extent){UNBOUNDED, UNBOUNDED};
    }
}

static extent of_text(const kt__terms *t, kt__gid id, int depth) {
    const kt__gpool *p = &t->pool;
    extent out = {0, 0};
    if (depth > MAX_NEST) return (extent){UNBOUNDED, UNBOUNDED};
    for (bool more = true; more;) {
        more = kt__g_kind(p, id) == KT__G_CAT;
        extent part = of_kind(t, more ? kt__g_arg(p, id, 0) : id, depth);
        out.way = greater_of(out.way + part.short_, part.way);
        out.short_ += part.short_;
        if (out.way >= UNBOUNDED || out.short_ >= UNBOUNDED) return (extent){UNBOUNDED, UNBOUNDED};
        if (more) id = kt__g_arg(p, id, 1);
    }
    return out;
}

uint64_t kt__term_way_out(const kt__terms *t, kt__gid id) {
    return of_text(t, id, 0).way;
}

/* ---- with a bound ---- */

/* The shortest texts decide. */
int kt__term_live_by_length(const kt__terms *t, kt__gid id) {
    const kt__gpool *p = &t->pool;
    uint64_t most = 0, room = UINT64_MAX;
    if (kt__g_kind(p, id) != KT__G_AND) return -1;
    for (uint32_t i = 0; i < kt__g_n(p, id); i++) {
        kt__gid kid = kt__g_arg(p, id, i), last = kid;
        if (kt__g_flags(p, kid) & KT__GF_BOOLEAN) return -1;
        while (kt__g_kind(p, last) == KT__G_CAT && kt__g_arg(p, last, 0) == t->cont)
            last = kt__g_arg(p, last, 1);
        uint64_t least = min_chars(t, kid, 0);
        if (kt__term_is_length(t, last) && kt__g_arg(p, last, 2) < room)
            room = kt__g_arg(p, last, 2);
        if (least > most) most = least;
    }
    return room == UINT64_MAX || kt__g_n(p, id) > 2 ? -1 : most <= room;
}
