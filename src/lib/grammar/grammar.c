#include "grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/grammar_impl.h"
#include "grammar/notation.h"
#include "grammar/schema_reader.h"

enum {
    POOL_BYTES = 16 << 20,
    MAX_POOL_BYTES = 64 << 20,
    MAX_AROUND = 65536,
    COMPILE_STEPS = 20000000, /* a step is some 20 to 100 ns */
    FEED_STEPS = 5000000
};

/* ---- compiling ---- */

static kt_status read_schema(kt__grammar *g, const char *text, size_t len, kt__refusal *why,
                             kt_error *err) {
    g->is_json = true;
    kt_status status = kt__schema_read(&g->schema, &g->t, text, len, g->use, why, err);
    if (status == KT_OK) status = kt__svalue_init(&g->v, &g->schema, &g->t, why, err);
    if (status == KT_OK) g->root = kt__svalue_node(&g->v, 1);
    return status;
}

static kt_status read_pieces(kt__grammar *g, const kt__grammar_source *source, kt__refusal *why,
                             kt_error *err) {
    if (source->after.len > 0)
        return kt__fail(err, KT_E_ARG, "a text of pieces has nothing after it");
    g->is_pieces = g->use.parts = true;
    g->mark = source->mark;
    kt_status status = read_schema(g, source->text, source->len, why, err);
    return status == KT_OK ? kt__pieces_read(g, &g->root, err) : status;
}

static kt_status read_grammar(kt__grammar *g, const kt__grammar_source *source, kt_error *err) {
    char why[KT__GBNF_WHY] = "no memory";
    kt_status status = kt__gbnf_read(&g->t, source->text, source->len, &g->root, why);
    return status == KT_OK ? KT_OK : kt__fail_at(err, status, "grammar", UINT64_MAX, "%s", why);
}

static kt_status read_regex(kt__grammar *g, const kt__grammar_source *source, kt_error *err) {
    char why[KT__REGEX_WHY] = "";
    kt_status status = kt__regex_term(&g->t, source->text, source->len, true, &g->root, why);
    return status == KT_OK ? KT_OK : kt__fail_at(err, status, "regex", UINT64_MAX, "%s", why);
}

static int by_text(const void *a, const void *b) {
    const kt__gtext *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->s, y->s, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static kt_status read_choice(kt__grammar *g, const kt__grammar_source *source, kt_error *err) {
    size_t n = 0;
    kt__gtext *texts = kt__calloc(source->n_texts + 1, sizeof *texts);
    if (!texts) return kt__fail_nomem(err, "a choice", source->n_texts * sizeof *texts);
    if (source->n_texts > 0) memcpy(texts, source->texts, source->n_texts * sizeof *texts);
    qsort(texts, source->n_texts, sizeof *texts, by_text);
    for (size_t i = 0; i < source->n_texts; i++)
        if (n == 0 || by_text(&texts[n - 1], &texts[i]) != 0) texts[n++] = texts[i];
    g->root = kt__term_one_of(&g->t, texts, n);
    kt__free(texts);
    return KT_OK;
}

static kt_status compile_source(kt__grammar *g, const kt__grammar_source *source, kt__refusal *why,
                                kt_error *err) {
    static const char any_object[] = "{\"type\":\"object\"}";
    switch (source->kind) {
    case KT__GRAMMAR_SCHEMA: return read_schema(g, source->text, source->len, why, err);
    case KT__GRAMMAR_JSON_OBJECT:
        return read_schema(g, any_object, sizeof any_object - 1, why, err);
    case KT__GRAMMAR_GBNF: return read_grammar(g, source, err);
    case KT__GRAMMAR_REGEX: return read_regex(g, source, err);
    case KT__GRAMMAR_CHOICE: return read_choice(g, source, err);
    case KT__GRAMMAR_PIECES: return read_pieces(g, source, why, err);
    }
    return kt__fail(err, KT_E_ARG, "an unknown kind of constraint");
}

static void start_body(kt__grammar *g, kt__gstate *s) {
    if (g->is_pieces) {
        kt__pieces_begin(g, s, g->root);
        return;
    }
    *s = (kt__gstate){.mode = g->is_json ? KT__M_VALUE : KT__M_TEXT};
    if (g->is_json)
        s->value = g->root;
    else
        s->term = g->root;
}

static bool body_may_end(kt__grammar *g, const kt__gstate *s) {
    return s->lex == KT__L_PLAIN && kt__term_nullable(&g->t, s->term);
}

/* Some text fits, as far as that is seen at the first byte. */
static kt_status check_first_byte(kt__grammar *g, kt__refusal *why, kt_error *err) {
    kt__gstate start, s;
    start_body(g, &start);
    bool live = g->is_pieces ? kt__pieces_accepts(g, &start)
                : g->is_json ? kt__json_accepts(g, &start)
                             : body_may_end(g, &start);
    for (unsigned b = 0; b < 256 && !live; b++) {
        s = start;
        bool blank = g->is_json && !g->is_pieces && (b == ' ' || b == '\n');
        live = !blank && kt__gstate_step(g, &s, (uint8_t)b);
    }
    if (g->t.pool.failed)
        return kt__fail(err, KT_E_LIMIT, "the constraint is too complex: over %d steps or %zu MiB",
                        (int)COMPILE_STEPS, kt__gpool_bytes(&g->t.pool) >> 20);
    if (live) return KT_OK;
    *why = (kt__refusal){.why = "no text fits"};
    return kt__fail(err, KT_E_UNSUPPORTED, "no text fits the constraint");
}

static kt_status keep_around(kt__grammar *g, const kt__grammar_source *source, kt_error *err) {
    const kt__gtext *before = &source->before, *after = &source->after;
    if (before->len > MAX_AROUND || after->len > MAX_AROUND)
        return kt__fail(err, KT_E_LIMIT, "more than %d bytes around a constraint", MAX_AROUND);
    g->around = kt__malloc(before->len + after->len + 1);
    if (!g->around) return kt__fail_nomem(err, "a constraint", before->len + after->len);
    if (before->len) memcpy(g->around, before->s, before->len);
    if (after->len) memcpy(g->around + before->len, after->s, after->len);
    g->n_before = before->len;
    g->n_after = after->len;
    return KT_OK;
}

static kt_status create_grammar(const kt__grammar_source *source, bool closed, kt__grammar **out,
                                kt__refusal *reason, kt_error *err) {
    *reason = (kt__refusal){0};
    *out = NULL;
    kt__grammar *g = kt__calloc(1, sizeof *g);
    if (!g) return kt__fail_nomem(err, "a constraint", sizeof *g);
    g->kind = source->kind;
    g->layout = source->layout;
    g->ordered = source->ordered;
    g->use = (kt__schema_use){.written = source->closed, .closed = closed};
    size_t bytes = POOL_BYTES + 16 * source->len;
    kt_status status;
    KT__TRY(kt__terms_init(&g->t, bytes < MAX_POOL_BYTES ? bytes : MAX_POOL_BYTES, err));
    g->t.pool.steps = COMPILE_STEPS;
    KT__TRY(compile_source(g, source, reason, err));
    KT__TRY(check_first_byte(g, reason, err));
    KT__TRY(keep_around(g, source, err));
    *out = g;
    g = NULL;
out:
    kt__grammar_free(g);
    return status;
}

kt_status kt__grammar_create(const kt__grammar_source *source, kt__grammar **out, kt__refusal *why,
                             kt_error *err) {
    kt__refusal unused, *reason = why ? why : &unused;
    kt_status status = create_grammar(source, source->closed, out, reason, err);
    bool again = status == KT_E_UNSUPPORTED || status == KT_E_LIMIT;
    return source->closed && again ? create_grammar(source, false, out, reason, err) : status;
}

void kt__grammar_free(kt__grammar *g) {
    if (!g) return;
    if (g->masks) g->free_masks(g->masks);
    kt__svalue_free(&g->v);
    kt__schema_free(&g->schema);
    kt__terms_free(&g->t);
    kt__free(g->around);
    kt__free(g);
}

/* ---- accounts ---- */

void kt__grammar_limit(kt__grammar *g, size_t bytes) {
    kt__gpool *p = &g->t.pool;
    if (bytes / 4 < p->cap - p->n) p->cap = p->n + (uint32_t)(bytes / 4);
    while (p->table_cap > p->table_mask + 1 && p->table_cap > p->cap / 4) p->table_cap /= 2;
}

size_t kt__grammar_room(const kt__grammar *g) {
    return g->t.pool.failed ? 0 : (size_t)(g->t.pool.cap - g->t.pool.n) * 4;
}

size_t kt__grammar_bytes(const kt__grammar *g) {
    size_t rows = (size_t)g->t.n_rows * 1028;
    size_t schema = g->schema.arena.used_bytes +
                    (size_t)g->schema.n_nodes * (sizeof(kt__snode) + 32);
    return sizeof *g + kt__gpool_bytes(&g->t.pool) + rows + schema + g->mask_bytes;
}

size_t kt__grammar_bytes_used(const kt__grammar *g) {
    size_t rows = 0;
    for (uint32_t i = 0; i < g->t.n_rows; i++) rows += g->t.row_owner[i] ? 1024 : 0;
    return sizeof *g + ((size_t)g->t.pool.n + g->t.pool.table_mask) * 4 + rows +
           g->schema.arena.used_bytes + (size_t)g->schema.n_nodes * (sizeof(kt__snode) + 32) +
           g->mask_bytes;
}

const char *kt__grammar_notes(const kt__grammar *g) {
    return g->schema.notes.data ? g->schema.notes.data : "";
}

kt_status kt__grammar_status(const kt__grammar *g) {
    return g->t.pool.failed;
}

/* ---- following a text ---- */

void kt__grammar_start(kt__grammar *g, kt__gstate *s) {
    start_body(g, s);
    if (g->n_before) *s = (kt__gstate){.mode = KT__M_BEFORE};
}

bool kt__around_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    bool before = s->mode == KT__M_BEFORE;
    if ((uint8_t)g->around[before ? s->hex : g->n_before + s->hex] != b) return false;
    if (++s->hex < (before ? g->n_before : g->n_after)) return true;
    if (before)
        start_body(g, s);
    else
        *s = (kt__gstate){.mode = KT__M_END};
    return true;
}

static bool term_byte(kt__grammar *g, kt__gstate *s, uint8_t b) {
    if (!kt__utf8_step(s, b)) return false;
    s->term = kt__term_step(&g->t, s->term, b);
    return s->term != KT__GPOOL_EMPTY;
}

bool kt__text_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    if (s->mode == KT__M_END) return false;
    if (g->n_after == 0) return term_byte(g, s, b);
    const kt__gstate at = *s;
    if (term_byte(g, s, b)) return true;
    if (!body_may_end(g, &at)) return false;
    *s = (kt__gstate){.mode = KT__M_BEHIND};
    return kt__around_step(g, s, b);
}

bool kt__grammar_feed(kt__grammar *g, kt__gstate *s, const char *bytes, size_t *n) {
    for (size_t i = 0; i < *n; i++) {
        g->t.pool.steps = FEED_STEPS;
        if (kt__gstate_step(g, s, (uint8_t)bytes[i]) && !g->t.pool.failed) continue;
        *n = i;
        return false;
    }
    return true;
}

bool kt__grammar_accepts(kt__grammar *g, const kt__gstate *s) {
    if (g->t.pool.failed) return false;
    if (g->is_pieces && s->mode < KT__M_BEFORE) return kt__pieces_accepts(g, s);
    if (s->mode == KT__M_END) return true;
    if (s->mode >= KT__M_BEFORE) return false;
    if (g->is_json) return kt__json_accepts(g, s);
    return g->n_after == 0 && body_may_end(g, s);
}

static bool is_in_string(const kt__gstate *s) {
    return (s->mode == KT__M_STRING || s->mode == KT__M_NAME) && s->lex == KT__L_PLAIN;
}

/* A character that a string has as an escape only. */
static bool needs_escape(kt__grammar *g, const kt__gstate *s) {
    for (unsigned b = 0; b < 0x20; b++)
        if (kt__term_step(&g->t, s->term, (uint8_t)b) != KT__GPOOL_EMPTY) return true;
    return kt__term_step(&g->t, s->term, '"') != KT__GPOOL_EMPTY ||
           kt__term_step(&g->t, s->term, '\\') != KT__GPOOL_EMPTY;
}

/* How many bytes may follow; more than one are not counted further. */
static int next_bytes(kt__grammar *g, const kt__gstate *s, uint8_t *only) {
    bool in_string = is_in_string(s);
    int n = 0;
    for (unsigned b = 0; b < 256 && n < 2; b++) {
        kt__gstate next = *s;
        if (b == '\\' && in_string && !needs_escape(g, s)) continue;
        if (!kt__gstate_step(g, &next, (uint8_t)b)) continue;
        *only = (uint8_t)b;
        n++;
    }
    return n;
}

bool kt__grammar_ended(kt__grammar *g, const kt__gstate *s) {
    uint8_t only;
    if (g->t.pool.failed) return true;
    if (s->mode == KT__M_END && !g->is_pieces) return true;
    bool is_text = (!g->is_json || g->is_pieces) && s->mode == KT__M_TEXT;
    return is_text && g->n_after == 0 && next_bytes(g, s, &only) == 0;
}

/* Whether a space is a token of its own here: most vocabularies have it in one with what follows, but for digits. */
static bool number_follows(kt__grammar *g, const kt__gstate *s) {
    for (const char *b = "\"{[tfn"; *b; b++) {
        kt__gstate next = *s;
        if (kt__gstate_step(g, &next, (uint8_t)*b)) return false;
    }
    return true;
}

size_t kt__grammar_expected(kt__grammar *g, const kt__gstate *state, char *out, size_t cap) {
    kt__gstate s = *state;
    size_t n = 0, n_sure = 0; /* without a space that what follows may be in one token with */
    g->t.pool.steps = FEED_STEPS;
    while (n < cap && !kt__grammar_accepts(g, &s)) {
        uint8_t next;
        bool only = next_bytes(g, &s, &next) == 1;
        if (!only) next = kt__layout_usual(g, &s);
        if ((!only && !next) || !kt__gstate_step(g, &s, next)) break;
        out[n++] = (char)next;
        if (only || next != ' ' || number_follows(g, &s)) n_sure = n;
    }
    return n_sure;
}
