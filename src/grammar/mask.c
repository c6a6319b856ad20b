#include "grammar/mask.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/grammar_impl.h"

enum {
    ANY = KT__GPOOL_ANY,
    N_TERMS = 16, /* sets kept for strings of a pattern */
    N_STATES = 16,
    MASK_STEPS = 5000000,
    WORTH_KEEPING = 2000, /* nodes visited */
    FAR = 300             /* characters: more than a token has */
};

/* A set of tokens and what it is of. */
typedef struct kept {
    kt__gid term;     /* of a string; 0: unused */
    kt__gstate state; /* of the others; mode KT__M_END: unused */
    uint64_t *bits;
    uint64_t used; /* when last */
} kept;

struct kt__gmask_cache {
    const kt__gvocab *vocab;
    kept terms[N_TERMS], states[N_STATES];
    uint64_t *memory, clock;
    kt__gstate way[256]; /* after so many bytes of a token */
    uint32_t n_visited;
};

typedef struct walk {
    kt__grammar *g;
    kt__gmask_cache *c;
    const kt__gvocab *vocab;
    uint64_t *bits;
    const uint64_t *only; /* tokens that count, of a walk over suffixes */
} walk;

/* ---- life ---- */

kt_status kt__gmask_attach(kt__grammar *g, const kt__gvocab *vocab, kt_error *err) {
    size_t n = vocab->n_words, bytes = (N_TERMS + N_STATES) * n * sizeof(uint64_t);
    if (g->masks && g->masks->vocab == vocab) return KT_OK;
    kt__gmask_cache_free(g->masks);
    g->masks = kt__calloc(1, sizeof *g->masks);
    uint64_t *memory = g->masks ? kt__malloc(bytes) : NULL;
    if (!memory) {
        kt__free(g->masks);
        g->masks = NULL;
        return kt__fail_nomem(err, "masks", bytes);
    }
    g->masks->vocab = vocab;
    g->masks->memory = memory;
    for (size_t i = 0; i < N_TERMS; i++) g->masks->terms[i].bits = memory + i * n;
    for (size_t i = 0; i < N_STATES; i++) g->masks->states[i].bits = memory + (N_TERMS + i) * n;
    return KT_OK;
}

void kt__gmask_cache_free(kt__gmask_cache *c) {
    if (!c) return;
    kt__free(c->memory);
    kt__free(c);
}

size_t kt__gmask_cache_bytes(const kt__gmask_cache *c) {
    return c ? sizeof *c + (size_t)(N_TERMS + N_STATES) * c->vocab->n_words * 8 : 0;
}

/* The place of what was used longest ago. */
static kept *oldest(kept *all, size_t n) {
    kept *out = all;
    for (size_t i = 1; i < n; i++)
        if (all[i].used < out->used) out = &all[i];
    return out;
}

/* ---- walks ---- */

static void set_token(const walk *w, int32_t id) {
    for (; id >= 0; id = w->vocab->same[id]) w->bits[id / 64] |= UINT64_C(1) << id % 64;
}

static void clear_token(const walk *w, int32_t id) {
    for (; id >= 0; id = w->vocab->same[id]) w->bits[id / 64] &= ~(UINT64_C(1) << id % 64);
}

static void set_list(const walk *w, int32_t list) {
    const kt__gvocab *v = w->vocab;
    for (uint32_t i = v->suffix_begin[list]; i < v->suffix_begin[list + 1]; i++) {
        int32_t id = v->suffix_tokens[i];
        w->bits[id / 64] |= w->only[id / 64] & UINT64_C(1) << id % 64;
    }
}

/* All tokens from a state on. */
static void walk_tokens(walk *w, const kt__gstate *from) {
    const kt__gvnode *nodes = w->vocab->nodes;
    kt__gstate *way = w->c->way;
    way[0] = *from;
    for (uint32_t i = 0; i < w->vocab->n_nodes;) {
        const kt__gvnode *n = &nodes[i];
        way[n->depth] = way[n->depth - 1];
        w->c->n_visited++;
        if (!kt__gstate_step(w->g, &way[n->depth], n->byte)) {
            i = n->end;
            continue;
        }
        if (n->token >= 0) set_token(w, n->token);
        i++;
    }
}

/* All that comes after a string's end. */
static void walk_suffixes(walk *w, const kt__gstate *after) {
    const kt__gvnode *nodes = w->vocab->suffixes;
    kt__gstate *way = w->c->way;
    way[0] = *after;
    set_list(w, 0);
    for (uint32_t i = 0; i < w->vocab->n_suffixes;) {
        const kt__gvnode *n = &nodes[i];
        way[n->depth] = way[n->depth - 1];
        w->c->n_visited++;
        if (!kt__gstate_step(w->g, &way[n->depth], n->byte)) {
            i = n->end;
            continue;
        }
        if (n->token >= 0) set_list(w, n->token);
        i++;
    }
}

/* Tokens that are tried by themselves, whatever a walk found. */
static void try_hard(walk *w, const kt__gstate *from) {
    for (uint32_t i = 0; i < w->vocab->n_hard; i++) {
        int32_t id = w->vocab->hard[i];
        kt__gstate s = *from;
        size_t len, at = 0;
        const char *bytes = kt__gvocab_token(w->vocab, id, &len);
        while (at < len && kt__gstate_step(w->g, &s, (uint8_t)bytes[at])) at++;
        if (at == len)
            w->bits[id / 64] |= UINT64_C(1) << id % 64;
        else
            w->bits[id / 64] &= ~(UINT64_C(1) << id % 64);
    }
}

/* ---- strings ---- */

/* The subtree after a quote: whatever follows, the string part of its tokens is right. */
static void set_subtree(const walk *w, uint32_t i) {
    for (uint32_t end = w->vocab->nodes[i].end; i < end; i++)
        if (w->vocab->nodes[i].token >= 0) set_token(w, w->vocab->nodes[i].token);
}

/* Tokens whose part before the quote, or all of them where there is none, a string of this term
 * takes from between two characters. */
static void walk_string(walk *w, kt__gid term) {
    const kt__gvnode *nodes = w->vocab->nodes;
    kt__gstate *way = w->c->way;
    way[0] = (kt__gstate){.mode = KT__M_STRING, .term = term};
    for (uint32_t i = 0; i < w->vocab->n_nodes;) {
        const kt__gvnode *n = &nodes[i];
        kt__gstate *s = &way[n->depth];
        *s = way[n->depth - 1];
        w->c->n_visited++;
        bool ends = n->byte == '"' && s->lex == KT__L_PLAIN;
        if (ends && kt__term_nullable(&w->g->t, s->term)) set_subtree(w, i);
        if (ends || !kt__json_string_step(w->g, s, n->byte)) {
            i = n->end;
            continue;
        }
        if (n->token >= 0) set_token(w, n->token);
        i++;
    }
}

static void add_tokens(uint64_t *bits, const int32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) bits[ids[i] / 64] |= UINT64_C(1) << ids[i] % 64;
}

static void remove_tokens(uint64_t *bits, const int32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) bits[ids[i] / 64] &= ~(UINT64_C(1) << ids[i] % 64);
}

/* A string of min to max more characters. */
static void fill_by_length(const kt__gvocab *v, uint32_t min, uint32_t max, uint64_t *bits) {
    uint32_t all = v->n_by[256], fit = max < 255 ? v->n_by[max + 1] : all;
    uint32_t early = v->n_quoted_by[min < 256 ? min : 256];
    if (fit < all / 2) {
        memset(bits, 0, v->n_words * sizeof *bits);
        add_tokens(bits, v->by_chars, fit);
    } else {
        memcpy(bits, v->free_, v->n_words * sizeof *bits);
        remove_tokens(bits, v->by_chars + fit, all - fit);
    }
    remove_tokens(bits, v->quoted_by_chars, early);
}

static bool is_length(const kt__grammar *g, kt__gid term) {
    return kt__g_kind(&g->t.pool, term) == KT__G_REP &&
           kt__g_arg(&g->t.pool, term, 0) == g->t.any_char;
}

/* The term without what no single token comes near. */
static kt__gid near_term(kt__grammar *g, kt__gid term) {
    kt__gpool *p = &g->t.pool;
    if (is_length(g, term)) {
        uint32_t min = kt__g_arg(p, term, 1), max = kt__g_arg(p, term, 2);
        if (min > FAR) min = FAR;
        return max > 2 * FAR ? kt__term_rep(&g->t, g->t.any_char, min, UINT32_MAX) : term;
    }
    if (kt__g_kind(p, term) != KT__G_AND) return term;
    uint32_t from = p->n_scratch;
    for (uint32_t i = 0; i < kt__g_n(p, term); i++) {
        kt__gid kid = kt__g_arg(p, term, i);
        kt__gpool_push(p, is_length(g, kid) ? near_term(g, kid) : kid);
    }
    return kt__term_and(&g->t, from);
}

static const uint64_t *kept_term(walk *w, kt__gid term) {
    kt__gmask_cache *c = w->c;
    for (size_t i = 0; i < N_TERMS; i++) {
        if (c->terms[i].term != term) continue;
        c->terms[i].used = ++c->clock;
        return c->terms[i].bits;
    }
    kept *slot = oldest(c->terms, N_TERMS);
    walk into = {.g = w->g, .c = c, .vocab = w->vocab, .bits = slot->bits};
    memset(slot->bits, 0, w->vocab->n_words * sizeof *slot->bits);
    walk_string(&into, term);
    slot->term = term;
    slot->used = ++c->clock;
    return slot->bits;
}

/* The string part for a term; scratch may be filled with it. */
static const uint64_t *string_part(walk *w, kt__gid term, uint64_t *scratch) {
    const kt__gpool *p = &w->g->t.pool;
    term = near_term(w->g, term);
    if (term == ANY) return w->vocab->free_;
    if (!is_length(w->g, term)) return kept_term(w, term);
    fill_by_length(w->vocab, kt__g_arg(p, term, 1), kt__g_arg(p, term, 2), scratch);
    return scratch;
}

/* The tokens of part that stay within the string, and of the others those that may follow its end. */
static void join_part(walk *w, const uint64_t *part, const kt__gstate *after, bool ends) {
    const kt__gvocab *v = w->vocab;
    kept *slot = NULL;
    if (part == w->bits) { /* kept aside: its bits are replaced */
        slot = oldest(w->c->states, N_STATES);
        slot->state.mode = KT__M_END;
        memcpy(slot->bits, part, v->n_words * sizeof *part);
        part = slot->bits;
    }
    for (uint32_t i = 0; i < v->n_words; i++) w->bits[i] = part[i] & ~v->quoted[i];
    w->only = part;
    if (ends) walk_suffixes(w, after);
}

static void fill_string(walk *w, const kt__gstate *s) {
    const uint64_t *part = string_part(w, s->term, w->bits);
    kt__gstate after = *s;
    after.term = ANY;
    bool ends = kt__json_close_string(w->g, &after);
    join_part(w, part, &after, ends);
    try_hard(w, s);
}

/* ---- names ---- */

/* Names of the schema, and those that were used, go on in their own way. */
static void walk_known_names(walk *w, const kt__gstate *from) {
    const kt__gvnode *nodes = w->vocab->nodes;
    kt__gstate *way = w->c->way;
    way[0] = *from;
    for (uint32_t i = 0; i < w->vocab->n_nodes;) {
        const kt__gvnode *n = &nodes[i];
        kt__gstate *s = &way[n->depth];
        *s = way[n->depth - 1];
        w->c->n_visited++;
        if (!kt__gstate_step(w->g, s, n->byte)) {
            for (uint32_t k = i; k < n->end; k++)
                if (nodes[k].token >= 0) clear_token(w, nodes[k].token);
            i = n->end;
            continue;
        }
        bool other = s->mode == KT__M_NAME && s->lex == KT__L_PLAIN && !s->name && !s->used;
        if (other && s->frame == from->frame) {
            i = n->end;
            continue;
        }
        if (n->token >= 0) set_token(w, n->token);
        i++;
    }
}

static void fill_name(walk *w, const kt__gstate *s) {
    kt__gstate after = *s;
    bool ends = kt__json_close_other_name(w->g, &after);
    join_part(w, w->vocab->free_, &after, ends);
    if (s->name || s->used) walk_known_names(w, s);
    try_hard(w, s);
}

static bool is_open_name(const kt__grammar *g, const kt__gstate *s) {
    uint32_t n_chunks = s->chunk ? kt__g_arg(&g->t.pool, s->chunk, 1) : 0;
    return s->mode == KT__M_NAME && s->lex == KT__L_PLAIN && s->term == ANY && !s->patterns &&
           (n_chunks + 1) * sizeof s->text + FAR < KT__GRAMMAR_NAME_BYTES;
}

static bool is_plain_string(const kt__grammar *g, const kt__gstate *s) {
    return s->mode == KT__M_STRING && s->lex == KT__L_PLAIN && !s->hash &&
           kt__g_kind(&g->t.pool, s->term) != KT__G_VEC;
}

/* ---- all ---- */

static void fill_other(walk *w, const kt__gstate *s) {
    kt__gmask_cache *c = w->c;
    size_t bytes = w->vocab->n_words * sizeof *w->bits;
    for (size_t i = 0; i < N_STATES; i++) {
        if (c->states[i].state.mode == KT__M_END || memcmp(&c->states[i].state, s, sizeof *s) != 0)
            continue;
        c->states[i].used = ++c->clock;
        memcpy(w->bits, c->states[i].bits, bytes);
        return;
    }
    memset(w->bits, 0, bytes);
    walk_tokens(w, s);
    try_hard(w, s);
    if (c->n_visited < WORTH_KEEPING) return;
    kept *slot = oldest(c->states, N_STATES);
    memcpy(slot->bits, w->bits, bytes);
    slot->state = *s;
    slot->used = ++c->clock;
}

/* What a walk tried is forgotten once half of the memory is in use. */
static void forget_from(kt__grammar *g, uint32_t mark) {
    for (size_t i = 0; i < N_TERMS; i++)
        if (g->masks->terms[i].term >= mark) g->masks->terms[i].term = 0;
    kt__terms_rollback(&g->t, mark);
    g->v.stamp++;
}

kt_status kt__gmask_fill(kt__grammar *g, const kt__gstate *state, uint64_t *bits, kt_error *err) {
    walk w = {.g = g, .c = g->masks, .vocab = g->masks->vocab, .bits = bits};
    kt__gpool *p = &g->t.pool;
    uint32_t mark = p->n;
    bool scarce = p->n > p->cap / 2;
    p->steps = MASK_STEPS;
    w.c->n_visited = 0;
    g->v.keep_below = scarce ? mark : UINT32_MAX;
    if (state->mode == KT__M_END)
        memset(bits, 0, w.vocab->n_words * sizeof *bits);
    else if (g->is_json && is_plain_string(g, state))
        fill_string(&w, state);
    else if (g->is_json && is_open_name(g, state))
        fill_name(&w, state);
    else
        fill_other(&w, state);
    g->v.keep_below = UINT32_MAX;
    if (scarce && p->n > mark) forget_from(g, mark);
    if (p->failed) return kt__fail(err, KT_E_LIMIT, "the constraint is out of memory or steps");
    return KT_OK;
}
