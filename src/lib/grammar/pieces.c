#include "grammar/grammar_impl.h"

#include <string.h>

#include "base/error.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY, EPS = KT__GPOOL_EPS };
enum { MAX_NEST = 64, MAX_REPEAT = 1000000, MAX_MARK_BYTES = 64 << 10, VALUE_STEPS = 1000000 };

typedef struct piece_reader {
    kt__grammar *g;
    kt_error *err;
    kt_status status;
    int nest;
} piece_reader;

static kt__gid piece_fail(piece_reader *r, const kt__json_node *node, const char *what) {
    char place[256];
    if (r->status != KT_OK) return EMPTY;
    kt__jdoc_pointer(node, place, sizeof place);
    r->status = kt__fail_at(r->err, KT_E_FORMAT, place, UINT64_MAX, "%s", what);
    return EMPTY;
}

static kt__json_node *piece_member(const kt__json_node *node, const char *name) {
    return kt__jdoc_member(node, name, strlen(name));
}

/* ---- texts ---- */

/* A text as the vocabulary spells it, before `rest`. */
static kt__gid fixed_text(piece_reader *r, const char *s, size_t n, kt__gid rest) {
    kt__buf marked;
    if (!r->g->mark.put) return kt__term_literal(&r->g->t, s, n, rest);
    kt__buf_init(&marked, MAX_MARK_BYTES);
    r->g->mark.put(r->g->mark.ctx, s, n, &marked);
    if (marked.failed && r->status == KT_OK)
        r->status = kt__fail(r->err, KT_E_LIMIT, "a piece of over %d bytes", (int)MAX_MARK_BYTES);
    kt__gid term = kt__term_literal(&r->g->t, marked.data, marked.len, rest);
    kt__buf_free(&marked);
    return term;
}

/* Characters and control tokens. */
static kt__gid free_text(kt__terms *t) {
    kt__gid control = kt__term_byte_range(t, 0xff, 0xff);
    return kt__term_star(t, kt__term_or2(t, t->any_char, control));
}

/* Any characters without the mark in them; free_: any control tokens as well, as far as the mark
 * has none of them. */
static kt__gid without_mark(piece_reader *r, const kt__json_node *mark, bool free_) {
    kt__terms *t = &r->g->t;
    kt__gid with = kt__term_cat(t, ANY, kt__term_literal(t, mark->s, mark->n, ANY));
    if (free_)
        with = kt__term_or2(t, with, kt__term_cat(t, ANY, fixed_text(r, mark->s, mark->n, ANY)));
    return kt__term_and2(t, free_ ? free_text(t) : kt__term_star(t, t->any_char),
                         kt__term_not(t, with));
}

/* Any text, control tokens included, that begins with none of these. */
static kt__gid not_piece(piece_reader *r, const kt__json_node *list) {
    kt__terms *t = &r->g->t;
    uint32_t from = t->pool.n_scratch;
    if (list->type != KT__JSON_ARRAY) return piece_fail(r, list, "expected a list of texts");
    for (const kt__json_node *kid = list->first; kid; kid = kid->next) {
        if (kid->type != KT__JSON_STRING) return piece_fail(r, kid, "expected a text");
        kt__gpool_push(&t->pool, fixed_text(r, kid->s, kid->n, ANY));
    }
    kt__gid begun = kt__term_or(t, from);
    return kt__term_and2(t, free_text(t), kt__term_not(t, begun));
}

static bool is_true(const kt__json_node *flag) {
    return flag && flag->type == KT__JSON_TRUE;
}

/* The node of schema N of the description; 0: there is none. */
static kt__snode_id schema_of(piece_reader *r, const kt__json_node *number) {
    const kt__slist *all = &r->g->schema.nodes[1].prefix;
    uint32_t n = 0;
    if (number->type != KT__JSON_NUMBER) return 0;
    for (uint32_t i = 0; i < number->n; i++) {
        if (number->s[i] < '0' || number->s[i] > '9' || n >= all->n) return 0;
        n = n * 10 + (uint32_t)(number->s[i] - '0');
    }
    return n < all->n ? all->ids[n] : 0;
}

static kt__gid until_piece(piece_reader *r, const kt__json_node *node, const kt__json_node *mark) {
    const kt__json_node *number = piece_member(node, "text");
    if (mark->type != KT__JSON_STRING || mark->n == 0)
        return piece_fail(r, mark, "a mark is a text");
    kt__gid term = without_mark(r, mark, is_true(piece_member(node, "free")));
    if (!number) return term;
    kt__snode_id id = schema_of(r, number);
    if (!id) return piece_fail(r, number, "no schema has this number");
    kt__gid text = kt__svalue_expand(&r->g->v, kt__svalue_node(&r->g->v, id), KT__V_STRING);
    term = kt__term_and2(&r->g->t, term, kt__svalue_must(&r->g->v, text));
    return kt__term_live(&r->g->t, term) ? term : EMPTY;
}

static kt__gid json_piece(piece_reader *r, const kt__json_node *number) {
    uint32_t id = schema_of(r, number);
    if (!id) return piece_fail(r, number, "no schema has this number");
    return kt__term_json(&r->g->t, id);
}

/* ---- composites ---- */

static kt__gid read_piece(piece_reader *r, const kt__json_node *node);

static kt__gid list_piece(piece_reader *r, const kt__json_node *list) {
    kt__terms *t = &r->g->t;
    uint32_t from = t->pool.n_scratch;
    for (const kt__json_node *kid = list->first; kid; kid = kid->next)
        kt__gpool_push(&t->pool, read_piece(r, kid));
    kt__gid term = EPS;
    while (t->pool.n_scratch > from)
        term = kt__term_cat(t, t->pool.scratch[--t->pool.n_scratch], term);
    return term;
}

static kt__gid any_piece(piece_reader *r, const kt__json_node *list) {
    uint32_t from = r->g->t.pool.n_scratch;
    if (list->type != KT__JSON_ARRAY) return piece_fail(r, list, "expected a list of pieces");
    for (const kt__json_node *kid = list->first; kid; kid = kid->next)
        kt__gpool_push(&r->g->t.pool, read_piece(r, kid));
    return kt__term_or(&r->g->t, from);
}

static kt__gid with_text(piece_reader *r, const kt__json_node *node) {
    const kt__json_node *with = piece_member(node, "with");
    if (!with) return EPS;
    if (with->type != KT__JSON_STRING) return piece_fail(r, with, "expected a text");
    return fixed_text(r, with->s, with->n, EPS);
}

static bool is_must(const kt__json_node *must, uint32_t index) {
    for (const kt__json_node *n = must ? must->first : NULL; n; n = n->next) {
        uint32_t value = 0;
        for (uint32_t i = 0; i < n->n && value < MAX_REPEAT; i++)
            value = value * 10 + (uint32_t)(n->s[i] - '0');
        if (value == index) return true;
    }
    return false;
}

static bool are_numbers(const kt__json_node *list) {
    if (list->type != KT__JSON_ARRAY) return false;
    for (const kt__json_node *n = list->first; n; n = n->next) {
        if (n->type != KT__JSON_NUMBER) return false;
        for (uint32_t i = 0; i < n->n; i++)
            if (n->s[i] < '0' || n->s[i] > '9') return false;
    }
    return true;
}

static kt__gid each_piece(piece_reader *r, const kt__json_node *node, const kt__json_node *list) {
    kt__gpool *p = &r->g->t.pool;
    const kt__json_node *must = piece_member(node, "must");
    uint32_t from = p->n_scratch, i = 0;
    if (list->type != KT__JSON_ARRAY) return piece_fail(r, list, "expected a list of pieces");
    if (must && !are_numbers(must)) return piece_fail(r, must, "expected a list of numbers");
    kt__gpool_push(p, with_text(r, node));
    kt__gpool_push(p, 1);
    for (const kt__json_node *kid = list->first; kid; kid = kid->next, i++) {
        kt__gid piece = read_piece(r, kid);
        kt__gpool_push(p, piece);
        kt__gpool_push(p, is_must(must, i));
    }
    return kt__term_each(&r->g->t, from);
}

static uint32_t piece_count(piece_reader *r, const kt__json_node *node, const char *name,
                            uint32_t none) {
    const kt__json_node *number = piece_member(node, name);
    uint32_t n = 0;
    if (!number) return none;
    for (uint32_t i = 0; i < number->n && number->type == KT__JSON_NUMBER; i++) {
        if (number->s[i] < '0' || number->s[i] > '9' || n > MAX_REPEAT) {
            piece_fail(r, number, "expected a whole number up to a million");
            return 0;
        }
        n = n * 10 + (uint32_t)(number->s[i] - '0');
    }
    return n;
}

static kt__gid some_piece(piece_reader *r, const kt__json_node *node, const kt__json_node *what) {
    kt__terms *t = &r->g->t;
    uint32_t min = piece_count(r, node, "min", 0), max = piece_count(r, node, "max", UINT32_MAX);
    kt__gid kid = read_piece(r, what), more = kt__term_cat(t, with_text(r, node), kid);
    if (max == 0) return EPS;
    uint32_t rest = max == UINT32_MAX ? max : max - 1;
    kt__gid term = kt__term_cat(t, kid, kt__term_rep(t, more, min > 0 ? min - 1 : 0, rest));
    return min > 0 ? term : kt__term_or2(t, term, EPS);
}

static kt__gid object_piece(piece_reader *r, const kt__json_node *node) {
    const kt__json_node *what;
    if ((what = piece_member(node, "json"))) return json_piece(r, what);
    if ((what = piece_member(node, "until"))) return until_piece(r, node, what);
    if ((what = piece_member(node, "any"))) return any_piece(r, what);
    if ((what = piece_member(node, "each"))) return each_piece(r, node, what);
    if ((what = piece_member(node, "some"))) return some_piece(r, node, what);
    if ((what = piece_member(node, "not"))) return not_piece(r, what);
    return piece_fail(r, node, "a piece is any, json, until, each, some or not");
}

static kt__gid read_piece(piece_reader *r, const kt__json_node *node) {
    kt__gid term = EMPTY;
    if (r->status != KT_OK) return EMPTY;
    if (++r->nest > MAX_NEST) {
        term = piece_fail(r, node, "pieces within pieces, too deep");
    } else if (node->type == KT__JSON_STRING) {
        term = fixed_text(r, node->s, node->n, EPS);
    } else if (node->type == KT__JSON_ARRAY) {
        term = list_piece(r, node);
    } else if (node->type == KT__JSON_OBJECT) {
        term = object_piece(r, node);
    } else {
        term = piece_fail(r, node, "a piece is a text, a list or an object");
    }
    r->nest--;
    return term;
}

kt_status kt__pieces_read(kt__grammar *g, kt__gid *root, kt_error *err) {
    piece_reader r = {.g = g, .err = err};
    const kt__json_node *doc = g->schema.nodes[1].json;
    const kt__json_node *pieces = doc && doc->type == KT__JSON_OBJECT ? piece_member(doc, "pieces")
                                                                      : NULL;
    if (!pieces) return kt__fail(err, KT_E_FORMAT, "no \"pieces\" in the description of a text");
    *root = read_piece(&r, pieces);
    if (r.status == KT_OK && g->t.pool.failed)
        return kt__fail(err, KT_E_LIMIT, "the description of a text is too complex");
    return r.status;
}

/* ---- following a text ---- */

/* A JSON value that may come next, and what follows it; 0: none. */
static kt__gid next_json(kt__terms *t, kt__gid term, kt__gid tail, kt__gid *rest, int depth) {
    const kt__gpool *p = &t->pool;
    kt__gid json = 0, first = kt__g_arg(p, term, 0);
    if (depth > MAX_NEST) return 0;
    switch (kt__g_kind(p, term)) {
    case KT__G_JSON: *rest = tail; return term;
    case KT__G_CAT:
        json = next_json(t, first, kt__term_cat(t, kt__g_arg(p, term, 1), tail), rest, depth + 1);
        if (json || !kt__term_nullable(t, first)) return json;
        return next_json(t, kt__g_arg(p, term, 1), tail, rest, depth + 1);
    case KT__G_OR:
        for (uint32_t i = 0; i < kt__g_n(p, term) && !json; i++)
            json = next_json(t, kt__g_arg(p, term, i), tail, rest, depth + 1);
        return json;
    case KT__G_STAR: return next_json(t, first, kt__term_cat(t, term, tail), rest, depth + 1);
    case KT__G_REP: {
        uint32_t min = kt__g_arg(p, term, 1), max = kt__g_arg(p, term, 2);
        kt__gid more = kt__term_rep(t, first, min > 0 ? min - 1 : 0,
                                    max == UINT32_MAX ? max : max - 1);
        return next_json(t, first, kt__term_cat(t, more, tail), rest, depth + 1);
    }
    default: return 0;
    }
}

static bool is_only_json(const kt__gpool *p, kt__gid term) {
    if (kt__g_kind(p, term) == KT__G_CAT) term = kt__g_arg(p, term, 0);
    return kt__g_kind(p, term) == KT__G_JSON;
}

void kt__pieces_begin(kt__grammar *g, kt__gstate *s, kt__gid term) {
    kt__gid rest, json = next_json(&g->t, term, EPS, &rest, 0);
    *s = (kt__gstate){.mode = KT__M_TEXT, .term = term};
    if (!json) return;
    uint32_t node = kt__g_arg(&g->t.pool, json, 0);
    *s = (kt__gstate){.mode = KT__M_VALUE,
                      .value = kt__svalue_node(&g->v, node),
                      .rest = rest,
                      .other = is_only_json(&g->t.pool, term) ? 0 : term};
}

bool kt__grammar_start_value(kt__grammar *g, kt__gstate *s, uint32_t n, uint32_t indent) {
    kt__terms *t = &g->t;
    if (!g->is_pieces || n >= g->schema.nodes[1].prefix.n) return false;
    t->pool.steps = VALUE_STEPS;
    uint32_t from = t->pool.n_scratch;
    kt__gpool_push(&t->pool, EPS);
    kt__gpool_push(&t->pool, kt__term_literal(t, " ", 1, EPS));
    kt__gpool_push(&t->pool, kt__term_literal(t, "\n", 1, EPS));
    kt__gid blank = kt__term_or(t, from);
    kt__gid json = kt__term_json(t, g->schema.nodes[1].prefix.ids[n]);
    kt__pieces_begin(g, s, kt__term_cat(t, blank, kt__term_cat(t, json, free_text(t))));
    if (s->mode != KT__M_VALUE || t->pool.failed) return false;
    s->n_text = (uint8_t)(indent <= KT__GRAMMAR_INDENT ? indent : 0);
    return true;
}

bool kt__grammar_start_later(kt__grammar *g, kt__gstate *s, uint32_t n) {
    const kt__json_node *doc = g->is_pieces ? g->schema.nodes[1].json : NULL;
    const kt__json_node *piece = doc ? piece_member(doc, "later") : NULL;
    piece_reader r = {.g = g};
    if (piece) piece = piece->type == KT__JSON_ARRAY ? piece->first : NULL;
    for (; piece && n > 0; n--) piece = piece->next;
    if (!piece) return false;
    g->t.pool.steps = VALUE_STEPS;
    kt__gid term = read_piece(&r, piece);
    kt__pieces_begin(g, s, kt__term_cat(&g->t, term, free_text(&g->t)));
    return r.status == KT_OK && !g->t.pool.failed;
}

bool kt__grammar_in_value(const kt__gstate *s) {
    return s->mode != KT__M_TEXT;
}

/* A byte of characters, or of a marked token, which begins with a byte that no character has. */
static bool piece_text_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    bool marked = b == 0xff && s->lex == KT__L_PLAIN;
    if (!marked && !kt__utf8_step(s, b)) return false;
    s->term = kt__term_step(&g->t, s->term, b);
    if (s->term == EMPTY) return false;
    if (s->lex == KT__L_PLAIN) kt__pieces_begin(g, s, s->term);
    return true;
}

/* A number ends where the text continues otherwise. */
static bool number_or_rest(kt__grammar *g, kt__gstate *s, uint8_t b) {
    const kt__gstate at = *s;
    if (kt__json_step(g, s, b)) return true;
    if (!kt__json_accepts(g, &at)) return false;
    kt__pieces_begin(g, s, at.rest);
    return kt__pieces_step(g, s, b);
}

/* A value begins, or what may be in its place. */
static bool value_or_other(kt__grammar *g, kt__gstate *s, uint8_t b) {
    const kt__gstate at = *s;
    if (kt__json_step(g, s, b)) return true;
    *s = (kt__gstate){.mode = KT__M_TEXT, .term = at.other};
    if (!at.other || !piece_text_step(g, s, b)) return false;
    if (s->mode == KT__M_VALUE) s->n_text = at.n_text;
    return true;
}

bool kt__pieces_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    if (s->mode == KT__M_END) kt__pieces_begin(g, s, s->rest);
    if (s->mode == KT__M_TEXT) return piece_text_step(g, s, b);
    if (s->mode == KT__M_NUMBER && !s->frame) return number_or_rest(g, s, b);
    if (s->mode == KT__M_VALUE && !s->frame) return value_or_other(g, s, b);
    if (!kt__json_step(g, s, b)) return false;
    if (s->mode == KT__M_END) kt__pieces_begin(g, s, s->rest);
    return true;
}

bool kt__pieces_accepts(kt__grammar *g, const kt__gstate *s) {
    if (s->mode == KT__M_TEXT) return s->lex == KT__L_PLAIN && kt__term_nullable(&g->t, s->term);
    if (s->mode == KT__M_VALUE && !s->frame && s->other) return kt__term_nullable(&g->t, s->other);
    return kt__json_accepts(g, s) && kt__term_nullable(&g->t, s->rest);
}
