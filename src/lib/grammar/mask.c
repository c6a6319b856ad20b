#include "grammar/mask.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/grammar_impl.h"

enum {
    ANY = KT__GPOOL_ANY,
    N_TERMS = 16, /* sets kept for strings of a pattern */
    N_STATES = 16,
    MAX_KEYS = 2, /* ways in which a name that ends fits patterns: more are not kept apart */
    MASK_STEPS = 5000000,
    WORTH_KEEPING = 2000, /* nodes visited */
    WORTH_TOGETHER = 64,  /* tokens that follow the same text */
    FAR = 300,            /* characters: more than a token has */
    NEAR = 32,            /* bytes: few tokens have more */
    MAX_CLIP_DEPTH = 40
};

/* A set of tokens and what it is of. */
typedef struct kept {
    kt__bounded text;     /* of a string or name; term 0: unused */
    kt__gid patterns, of; /* of a name at its beginning */
    kt__gstate state;     /* of the others; mode KT__M_END: unused */
    uint64_t *bits;
    uint64_t *ends[MAX_KEYS]; /* of a name: tokens that end it so */
    kt__gid keys[MAX_KEYS];
    uint32_t n_keys; /* over MAX_KEYS: they do not fit */
    uint64_t used;   /* when last */
} kept;

/* What leaves a term as it is: kinds of bytes. */
typedef struct loops {
    kt__gid term;
    uint32_t stamp;
    uint64_t kinds;
} loops;

/* The least characters of a term. */
typedef struct term_least {
    kt__gid term;
    uint32_t stamp;
    uint64_t chars;
} term_least;

/* A string's part of a state. */
typedef struct reading {
    kt__bounded text;
    kt__gid patterns;
    kt__gid from, from_patterns; /* before the character that is under way */
    uint32_t hex, lex;
} reading;

enum { N_LOOPS = 256, N_LEAST = 1024 };
enum { N_SETS = N_TERMS * (1 + MAX_KEYS) + N_STATES + 1 };

typedef struct kt__gmask_cache {
    const kt__gvocab *vocab;
    kept terms[N_TERMS], states[N_STATES];
    uint64_t *memory, clock;
    uint64_t *begin_quoted; /* scratch: tokens that begin with the quote that ends a string */
    kt__gstate way[256];    /* after so many bytes of a token */
    reading string_way[256];
    loops loops[N_LOOPS];
    term_least least[N_LEAST];
    uint32_t n_visited;
} kt__gmask_cache;

typedef struct walk {
    kt__grammar *g;
    kt__gmask_cache *c;
    const kt__gvocab *vocab;
    uint64_t *bits;
    const uint64_t *only; /* tokens that count, of a walk over suffixes */
} walk;

/* ---- life ---- */

static void free_cache(kt__gmask_cache *c) {
    if (!c) return;
    kt__free(c->memory);
    kt__free(c);
}

kt_status kt__gmask_attach(kt__grammar *g, const kt__gvocab *vocab, kt_error *err) {
    size_t n = vocab->n_words, bytes = N_SETS * n * sizeof(uint64_t);
    if (g->masks && g->masks->vocab == vocab) return KT_OK;
    free_cache(g->masks);
    g->masks = kt__calloc(1, sizeof *g->masks);
    uint64_t *memory = g->masks ? kt__malloc(bytes) : NULL;
    if (!memory) {
        kt__free(g->masks);
        g->masks = NULL;
        return kt__fail_nomem(err, "masks", bytes);
    }
    g->masks->vocab = vocab;
    g->masks->memory = memory;
    g->free_masks = free_cache;
    g->mask_bytes = sizeof *g->masks + bytes;
    g->masks->begin_quoted = memory;
    memory += n;
    for (size_t i = 0; i < N_STATES; i++, memory += n) g->masks->states[i].bits = memory;
    for (size_t i = 0; i < N_TERMS; i++, memory += n) {
        g->masks->terms[i].bits = memory;
        for (size_t k = 0; k < MAX_KEYS; k++) g->masks->terms[i].ends[k] = memory += n;
    }
    return KT_OK;
}

/* The place of what was used longest ago. */
static kept *oldest_kept(kept *all, size_t n) {
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

/* Where a text is between values, few bytes may come. */
static const char *bytes_of_mode(const kt__gstate *s) {
    switch (s->mode) {
    case KT__M_VALUE:
    case KT__M_ITEM_OR_END: return "{[]\"-0123456789tfn \n\t";
    case KT__M_KEY_OR_END:
    case KT__M_KEY: return "\"} \n\t";
    case KT__M_COLON: return ": \n\t";
    case KT__M_AFTER: return ",]} \n\t";
    case KT__M_NUMBER: return "0123456789.eE+-,]} \n";
    case KT__M_LITERAL: return "aelnrsu";
    default: return NULL;
    }
}

static void mark_first(const kt__grammar *g, const kt__gstate *from, bool first[256]) {
    bool top = !from->frame && (g->is_pieces || g->n_after > 0);
    bool open = top && (from->mode == KT__M_NUMBER || (from->mode == KT__M_VALUE && from->other));
    const char *bytes = open ? NULL : bytes_of_mode(from);
    memset(first, bytes == NULL, 256);
    for (; bytes && *bytes; bytes++) first[(uint8_t)*bytes] = true;
}

/* Between two characters: a byte that no string or name of this term has. */
static bool is_unfit(kt__grammar *g, const kt__gstate *s, uint8_t b) {
    if (s->mode != KT__M_NAME || s->lex != KT__L_PLAIN || b == '"' || b == '\\') return false;
    return b < 0x20 || kt__term_step(&g->t, s->term, b) == KT__GPOOL_EMPTY;
}

/* A byte that a term refuses need not be tried on a copy of the state. */
static bool is_refused(kt__grammar *g, const kt__gstate *s, uint8_t b) {
    bool plain = (s->mode == KT__M_STRING || s->mode == KT__M_NAME) && s->lex == KT__L_PLAIN;
    if (!plain || b < 0x20 || b >= 0x80 || b == '"' || b == '\\') return false;
    return kt__term_step(&g->t, s->term, b) == KT__GPOOL_EMPTY;
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

static bool takes_token(walk *w, const kt__gstate *from, int32_t id) {
    kt__gstate s = *from;
    size_t len, at = 0;
    const char *bytes = kt__gvocab_token(w->vocab, id, &len);
    while (at < len && kt__gstate_step(w->g, &s, (uint8_t)bytes[at])) at++;
    return at == len;
}

/* Tokens that are tried by themselves, whatever a walk found. */
static void try_hard(walk *w, const kt__gstate *from) {
    for (uint32_t i = 0; i < w->vocab->n_hard; i++) {
        int32_t id = w->vocab->hard[i];
        if (takes_token(w, from, id))
            w->bits[id / 64] |= UINT64_C(1) << id % 64;
        else
            w->bits[id / 64] &= ~(UINT64_C(1) << id % 64);
    }
}

/* ---- strings ---- */

/* The subtree after a quote: whatever follows, the string part of its tokens is right. */
static void set_subtree(const walk *w, uint32_t i, uint64_t *ends) {
    walk also = {.vocab = w->vocab, .bits = ends};
    for (uint32_t end = w->vocab->nodes[i].end; i < end; i++) {
        int32_t id = w->vocab->nodes[i].token;
        if (id < 0) continue;
        set_token(w, id);
        if (ends) set_token(&also, id);
    }
}

/* Which of the ways a name ends in this is; its set of tokens, or NULL where there are too many. */
static uint64_t *ends_of(walk *w, kept *into, kt__gid patterns, kt__gid frame) {
    const kt__gstate s = {.frame = frame, .patterns = patterns};
    kt__gid key = kt__json_name_key(w->g, &s, 0);
    for (uint32_t i = 0; i < into->n_keys && i < MAX_KEYS; i++)
        if (into->keys[i] == key) return into->ends[i];
    if (into->n_keys >= MAX_KEYS) {
        into->n_keys = MAX_KEYS + 1;
        return NULL;
    }
    into->keys[into->n_keys] = key;
    memset(into->ends[into->n_keys], 0, w->vocab->n_words * sizeof(uint64_t));
    return into->ends[into->n_keys++];
}

/* Every character whose UTF-8 begins so, white space aside, leads back to the term. `more` bytes
 * are still to come; seen: where such a beginning was found to lead back from, besides. */
static bool chars_loop(kt__terms *t, kt__gid term, kt__gid at, uint32_t begin, uint32_t more,
                       kt__gid seen[3]) {
    bool has_blanks = begin == 0xc2 || begin == 0xe1 || begin == 0xe19a || begin == 0xe2 ||
                      begin == 0xe280 || begin == 0xe281 || begin == 0xe3 || begin == 0xe380 ||
                      begin == 0xef || begin == 0xefbb;
    if (more == 0) return at == term || kt__gvocab_is_blank(begin);
    if (at == KT__GPOOL_EMPTY) return false;
    if (!has_blanks && at == seen[more - 1]) return true;
    for (unsigned b = 0x80; b <= 0xbf; b++)
        if (!chars_loop(t, term, kt__term_step(t, at, (uint8_t)b), begin << 8 | b, more - 1, seen))
            return false;
    if (!has_blanks) seen[more - 1] = at;
    return true;
}

static bool high_loops(kt__terms *t, kt__gid term) {
    kt__gid seen[3] = {0};
    for (unsigned lead = 0xc2; lead <= 0xf4; lead++) {
        uint32_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
        if (!chars_loop(t, term, kt__term_step(t, term, (uint8_t)lead), lead, more, seen))
            return false;
    }
    return true;
}

static uint64_t find_loops(kt__terms *t, kt__gid term) {
    uint64_t out = ~UINT64_C(0);
    for (unsigned b = 0x20; b < 0x7f; b++)
        if (kt__term_step(t, term, (uint8_t)b) != term)
            out &= ~(UINT64_C(1) << kt__gvocab_kind((uint8_t)b));
    out &= ~(UINT64_C(1) << KT__GV_CONTROL | UINT64_C(1) << KT__GV_BROKEN |
             UINT64_C(1) << kt__gvocab_kind('"') | UINT64_C(1) << kt__gvocab_kind('\\'));
    if (!high_loops(t, term)) out &= ~(UINT64_C(1) << KT__GV_HIGH);
    return out & ~(UINT64_C(1) << KT__GV_BLANK);
}

static uint64_t loops_of(walk *w, kt__gid term) {
    loops *l = &w->c->loops[term / 2 % N_LOOPS];
    if (l->term != term || l->stamp != w->g->v.stamp)
        *l = (loops){term, w->g->v.stamp, find_loops(&w->g->t, term)};
    return l->kinds;
}

static uint64_t least_chars(walk *w, kt__gid term) {
    term_least *l = &w->c->least[term / 2 % N_LEAST];
    if (l->term != term || l->stamp != w->g->v.stamp)
        *l = (term_least){term, w->g->v.stamp, kt__term_min_chars(&w->g->t, term)};
    return l->chars;
}

/* Nothing below a node changes what is read: all its tokens fit, those of more than NEAR bytes
 * aside where the number of characters is bounded. Within a character, what it was read from
 * counts, to which every character that loops leads back. */
static bool all_below_fit(walk *w, const reading *r, uint32_t i) {
    const kt__gvnode *n = &w->vocab->nodes[i];
    if (r->lex > KT__L_CONT_3 || n->end - i < 4) return false;
    bool within = r->lex != KT__L_PLAIN;
    kt__gid term = within ? r->from : r->text.term;
    kt__gid patterns = within ? r->from_patterns : r->patterns;
    uint64_t below = w->vocab->below[i];
    if (below & ~loops_of(w, term)) return false;
    if (r->text.max != UINT32_MAX && r->text.max < NEAR + least_chars(w, term)) return false;
    return !patterns || !(below & ~loops_of(w, patterns));
}

static bool is_bounded(const kt__bounded *text) {
    return text->min > 0 || text->max != UINT32_MAX;
}

static bool reading_terms(walk *w, reading *r, uint8_t b, bool begins) {
    kt__terms *t = &w->g->t;
    if (begins && !kt__bounded_count(&r->text)) return false;
    r->text.term = kt__term_step(t, r->text.term, b);
    if (r->patterns) r->patterns = kt__term_step(t, r->patterns, b);
    if (r->text.term == KT__GPOOL_EMPTY) return false;
    return !is_bounded(&r->text) ||
           kt__bounded_live(t, &r->text, r->lex, least_chars(w, r->text.term));
}

/* A byte of an escape, which may be a character besides the bound only where the joined term takes
 * it. */
static bool escape_byte(walk *w, reading *r, uint8_t b) {
    kt__gstate s = {.mode = KT__M_STRING, .lex = (uint8_t)r->lex, .hex = r->hex};
    bool bounded = is_bounded(&r->text);
    if (bounded) {
        kt__gstate joined = s;
        joined.term = kt__bounded_join(&w->g->t, &r->text);
        if (!kt__json_string_step(w->g, &joined, b)) return false;
    }
    s.term = r->text.term;
    s.patterns = r->patterns;
    if (!kt__json_string_step(w->g, &s, b)) return false;
    if (bounded && s.lex == KT__L_PLAIN && !kt__bounded_count(&r->text)) return false;
    r->text.term = s.term;
    r->patterns = s.patterns;
    r->lex = s.lex;
    r->hex = s.hex;
    return true;
}

/* One byte of a string or name that is not its end. */
static bool string_byte(walk *w, reading *r, uint8_t b) {
    bool begins = r->lex == KT__L_PLAIN;
    if (begins && b >= 0x20 && b < 0x80 && b != '\\') return reading_terms(w, r, b, true);
    bool utf8 = begins ? b >= 0x80 : r->lex <= KT__L_CONT_3;
    if (!utf8) return escape_byte(w, r, b);
    kt__gstate s = {.mode = KT__M_STRING, .lex = (uint8_t)r->lex, .hex = r->hex};
    if (!kt__utf8_step(&s, b)) return false;
    r->lex = s.lex;
    r->hex = s.hex;
    return reading_terms(w, r, b, begins);
}

static void set_below(const walk *w, uint32_t i) {
    for (uint32_t end = w->vocab->nodes[i++].end; i < end; i++)
        if (w->vocab->nodes[i].token >= 0) set_token(w, w->vocab->nodes[i].token);
}

static bool is_plain_name(const kt__gstate *s) {
    return s->mode == KT__M_NAME && s->lex == KT__L_PLAIN;
}

/* Further from its greatest length than a token is long. */
static bool name_is_open(const kt__grammar *g, const kt__gstate *s) {
    uint32_t n_chunks = s->chunk ? kt__g_arg(&g->t.pool, s->chunk, 1) : 0;
    return (n_chunks + 1) * sizeof s->text + FAR < KT__GRAMMAR_NAME_BYTES;
}

/* A name of any text that comes near its greatest length has to end now, where it may: to try what could still follow
 * would keep a text for each token of the vocabulary. */
static void end_long_name(walk *w, const kt__gstate *from, bool first[256]) {
    kt__gstate after = *from;
    bool any = is_plain_name(from) && !from->name && from->term == ANY && !from->patterns;
    if (!any || name_is_open(w->g, from) || !kt__gstate_step(w->g, &after, '"')) return;
    memset(first, 0, 256 * sizeof *first);
    first['"'] = true;
}

/* All tokens from a state on. */
static void walk_tokens(walk *w, const kt__gstate *from) {
    const kt__gvnode *nodes = w->vocab->nodes;
    kt__gstate *way = w->c->way;
    bool first[256];
    way[0] = *from;
    mark_first(w->g, from, first);
    end_long_name(w, from, first);
    for (uint32_t i = 0; i < w->vocab->n_nodes;) {
        const kt__gvnode *n = &nodes[i];
        bool skip = (n->depth == 1 && !first[n->byte]) ||
                    is_refused(w->g, &way[n->depth - 1], n->byte);
        if (!skip) {
            way[n->depth] = way[n->depth - 1];
            w->c->n_visited++;
            skip = !kt__gstate_step(w->g, &way[n->depth], n->byte);
        }
        if (skip) {
            i = n->end;
            continue;
        }
        if (n->token >= 0) set_token(w, n->token);
        const kt__gstate *s = &way[n->depth];
        const reading r = {.text = {s->term, 0, UINT32_MAX}, .lex = s->lex};
        bool all = s->mode == KT__M_TEXT && s->lex == KT__L_PLAIN && all_below_fit(w, &r, i);
        if (all) set_below(w, i);
        i = all ? n->end : i + 1;
    }
}

/* A byte that is a character by itself and is so, of a string that nothing but its term bounds:
 * what most nodes are. */
static bool is_simple(const reading *before, uint8_t b) {
    return before->lex == KT__L_PLAIN && !before->patterns && !is_bounded(&before->text) &&
           b >= 0x20 && b < 0x80 && b != '\\';
}

static bool next_reading(walk *w, const reading *before, uint8_t b, reading *r) {
    if (is_simple(before, b)) {
        r->text = before->text;
        r->text.term = kt__term_step(&w->g->t, before->text.term, b);
        r->patterns = r->hex = 0;
        r->lex = KT__L_PLAIN;
        return r->text.term != KT__GPOOL_EMPTY;
    }
    *r = *before;
    if (r->lex == KT__L_PLAIN) {
        r->from = r->text.term;
        r->from_patterns = r->patterns;
    }
    return string_byte(w, r, b);
}

/* Tokens whose part before the quote, or all of them where there is none, a string of this term
 * takes from between two characters. frame: of a name whose patterns matter, else 0. */
static void walk_string(walk *w, kept *into, kt__gid frame) {
    const kt__gvnode *nodes = w->vocab->nodes;
    const uint32_t n_nodes = w->vocab->n_nodes;
    reading *way = w->c->string_way;
    way[0] = (reading){.text = into->text, .patterns = into->patterns};
    for (uint32_t i = 0; i < n_nodes; w->c->n_visited++) {
        const kt__gvnode *n = &nodes[i];
        const reading *before = &way[n->depth - 1];
        reading *r = &way[n->depth];
        bool ends = n->byte == '"' && before->lex == KT__L_PLAIN;
        if (ends && before->text.min == 0 && kt__term_nullable(&w->g->t, before->text.term))
            set_subtree(w, i, frame ? ends_of(w, into, before->patterns, frame) : NULL);
        if (ends || !next_reading(w, before, n->byte, r)) {
            i = n->end;
            continue;
        }
        if (n->token >= 0) set_token(w, n->token);
        bool all = all_below_fit(w, r, i);
        if (all) set_below(w, i);
        i = all ? n->end : i + 1;
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

/* Counts that no token of at most NEAR bytes reaches make no difference to it. */
static kt__gid clip_count(kt__grammar *g, kt__gid term, uint32_t limit) {
    const kt__gpool *p = &g->t.pool;
    uint32_t min = kt__g_arg(p, term, 1), max = kt__g_arg(p, term, 2);
    uint64_t least = kt__term_min_chars(&g->t, kt__g_arg(p, term, 0));
    if (least == 0 || max <= limit / least) return term;
    limit = (uint32_t)(limit / least);
    return kt__term_rep(&g->t, kt__g_arg(p, term, 0), min > limit ? limit + 1 : min, UINT32_MAX);
}

static kt__gid clip_term(kt__grammar *g, kt__gid term, uint32_t limit, int depth) {
    kt__gpool *p = &g->t.pool;
    kt__gkind kind = kt__g_kind(p, term);
    if (depth > MAX_CLIP_DEPTH) return term;
    if (kind == KT__G_REP) return clip_count(g, term, limit);
    if (kind == KT__G_CAT) {
        kt__gid rest = clip_term(g, kt__g_arg(p, term, 1), limit, depth + 1);
        return kt__term_cat(&g->t, clip_term(g, kt__g_arg(p, term, 0), limit, depth + 1), rest);
    }
    if (kind != KT__G_OR && kind != KT__G_VEC) return term;
    uint32_t from = p->n_scratch;
    for (uint32_t i = 0; i < kt__g_n(p, term); i++)
        kt__gpool_push(p, clip_term(g, kt__g_arg(p, term, i), limit, depth + 1));
    return kind == KT__G_OR ? kt__term_or(&g->t, from) : kt__term_vec(&g->t, from);
}

/* What a string's term comes to for tokens of at most NEAR bytes. A bound on the characters makes
 * no difference where every text has room to end after such a token; otherwise it is counted
 * next to the term, so that the same place in a pattern is the same term wherever the string is. */
static kt__bounded near_text(kt__grammar *g, kt__gid term) {
    kt__bounded text;
    if (!kt__bounded_split(&g->t, term, &text))
        return (kt__bounded){clip_term(g, term, NEAR, 0), 0, UINT32_MAX};
    if (text.max >= NEAR + kt__term_way_out(&g->t, text.term)) text.max = UINT32_MAX;
    if (text.max != UINT32_MAX) return text;
    text.term = clip_term(g, text.term, NEAR, 0);
    if (text.min > NEAR) text.min = NEAR + 1;
    return text;
}

static bool is_text_of(const kept *k, const kt__bounded *text) {
    return k->text.term == text->term && k->text.min == text->min && k->text.max == text->max;
}

static kept *kept_term(walk *w, const kt__bounded *text, kt__gid patterns, kt__gid frame) {
    kt__gmask_cache *c = w->c;
    kt__gid of = 0;
    if (frame) of = kt__svalue_patterns(&w->g->v, kt__gframe_word(w->g, frame, KT__F_FORMULA));
    for (size_t i = 0; i < N_TERMS; i++) {
        kept *k = &c->terms[i];
        if (!is_text_of(k, text) || k->patterns != patterns || k->of != of) continue;
        k->used = ++c->clock;
        return k;
    }
    kept *slot = oldest_kept(c->terms, N_TERMS);
    walk into = {.g = w->g, .c = c, .vocab = w->vocab, .bits = slot->bits};
    memset(slot->bits, 0, w->vocab->n_words * sizeof *slot->bits);
    slot->text = *text;
    slot->patterns = patterns;
    slot->of = of;
    slot->n_keys = 0;
    slot->used = ++c->clock;
    walk_string(&into, slot, frame);
    return slot;
}

/* The string part for a term; scratch may be filled with it. *clipped: long tokens may be in it
 * that do not fit. */
static const uint64_t *string_part(walk *w, kt__gid term, uint64_t *scratch, bool *clipped) {
    const kt__gpool *p = &w->g->t.pool;
    *clipped = false;
    if (term == ANY) return w->vocab->free_;
    if (kt__term_is_length(&w->g->t, term)) {
        fill_by_length(w->vocab, kt__g_arg(p, term, 1), kt__g_arg(p, term, 2), scratch);
        return scratch;
    }
    kt__bounded near = near_text(w->g, term);
    *clipped = near.term != term;
    return kept_term(w, &near, 0, 0)->bits;
}

/* The tokens of part that stay within the string. A part that lies in the result's own memory is
 * moved out of it. */
static const uint64_t *stay_within(walk *w, const uint64_t *part) {
    const kt__gvocab *v = w->vocab;
    if (part == w->bits) {
        kept *slot = oldest_kept(w->c->states, N_STATES);
        slot->state.mode = KT__M_END;
        memcpy(slot->bits, part, v->n_words * sizeof *part);
        part = slot->bits;
    }
    for (uint32_t i = 0; i < v->n_words; i++) w->bits[i] = part[i] & ~v->quoted[i];
    return part;
}

static void try_long(walk *w, const kt__gstate *s) {
    for (uint32_t i = 0; i < w->vocab->n_long; i++) {
        int32_t id = w->vocab->long_[i];
        uint64_t bit = UINT64_C(1) << id % 64;
        if (w->bits[id / 64] & bit && !takes_token(w, s, id)) w->bits[id / 64] &= ~bit;
    }
}

/* Tokens that end the string and continue: those of `set`, after the term at its end. */
static void end_together(walk *w, const kt__gstate *s, kt__gid term, uint64_t *set) {
    kt__gstate after = *s;
    after.term = term;
    w->only = set;
    if (kt__gstate_step(w->g, &after, '"')) walk_suffixes(w, &after);
}

/* What is read of a token before the quote that ends the string. */
static kt__gid term_at_end(walk *w, kt__gid term, int32_t id) {
    reading r = {.text = {term, 0, UINT32_MAX}};
    size_t len, at = 0;
    const char *bytes = kt__gvocab_token(w->vocab, id, &len);
    for (; at < len && (bytes[at] != '"' || r.lex != KT__L_PLAIN); at++)
        if (!string_byte(w, &r, (uint8_t)bytes[at])) return KT__GPOOL_EMPTY;
    return r.text.term;
}

static void try_tokens(walk *w, const kt__gstate *s, const uint64_t *part, uint32_t from,
                       uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        int32_t id = w->vocab->quoted_by_chars[i];
        uint64_t bit = part[id / 64] & UINT64_C(1) << id % 64;
        if (bit && takes_token(w, s, id)) w->bits[id / 64] |= bit;
    }
}

/* The same for tokens from..to, which all come to this term. */
static void end_run(walk *w, const kt__gstate *s, const uint64_t *part, uint32_t from, uint32_t to,
                    kt__gid term) {
    uint64_t *set = w->c->begin_quoted;
    const int32_t *ids = w->vocab->quoted_by_chars;
    if (term == KT__GPOOL_EMPTY) return;
    if (to - from < WORTH_TOGETHER) {
        try_tokens(w, s, part, from, to);
        return;
    }
    for (uint32_t i = from; i < to; i++)
        set[ids[i] / 64] |= part[ids[i] / 64] & UINT64_C(1) << ids[i] % 64;
    end_together(w, s, term, set);
    for (uint32_t i = from; i < to; i++) set[ids[i] / 64] = 0;
}

/* Where what was read decides over what may follow the string: tokens after which it is the same
 * follow the same text. They are by their number of characters, so where lengths decide, they are
 * together. */
static void end_by_runs(walk *w, const kt__gstate *s, const uint64_t *part) {
    const kt__gvocab *v = w->vocab;
    uint32_t from = v->n_quoted_by[1], end = v->n_quoted_by[256];
    kt__gid term = KT__GPOOL_EMPTY;
    for (uint32_t i = from; i < end; i++) {
        int32_t id = v->quoted_by_chars[i];
        bool in = part[id / 64] >> id % 64 & 1;
        kt__gid next = in ? term_at_end(w, s->term, id) : term;
        if (next == term) continue;
        end_run(w, s, part, from, i, term);
        from = i;
        term = next;
    }
    end_run(w, s, part, from, end, term);
}

/* Tokens that begin with the quote all follow the same text; unless the string's hash matters,
 * others go by runs. */
static void end_by_trial(walk *w, const kt__gstate *s, const uint64_t *part) {
    const kt__gvocab *v = w->vocab;
    uint64_t *first = w->c->begin_quoted;
    memset(first, 0, v->n_words * sizeof *first);
    if (s->hash)
        try_tokens(w, s, part, v->n_quoted_by[1], v->n_quoted_by[256]);
    else
        end_by_runs(w, s, part);
    for (uint32_t i = 0; i < v->n_quoted_by[1]; i++) {
        int32_t id = v->quoted_by_chars[i];
        first[id / 64] |= part[id / 64] & UINT64_C(1) << id % 64;
    }
    end_together(w, s, s->term, first);
}

static kt__gid held_term(const kt__grammar *g, kt__gid term) {
    while (kt__g_kind(&g->t.pool, term) == KT__G_VEC) term = kt__g_arg(&g->t.pool, term, 0);
    return term;
}

static void fill_string(walk *w, const kt__gstate *s) {
    bool clipped;
    kt__gid term = held_term(w->g, s->term);
    const uint64_t *part = stay_within(w, string_part(w, term, w->bits, &clipped));
    kt__gstate after = *s;
    after.term = ANY;
    w->only = part;
    if (s->hash || term != s->term)
        end_by_trial(w, s, part);
    else if (kt__json_close_string(w->g, &after))
        walk_suffixes(w, &after);
    if (clipped) try_long(w, s);
    try_hard(w, s);
}

/* ---- names ---- */

/* Names of the schema, and those that were used, continue in their own way. */
static void walk_known_names(walk *w, const kt__gstate *from) {
    const kt__gvnode *nodes = w->vocab->nodes;
    kt__gstate *way = w->c->way;
    way[0] = *from;
    for (uint32_t i = 0; i < w->vocab->n_nodes;) {
        const kt__gvnode *n = &nodes[i];
        kt__gstate *s = &way[n->depth];
        *s = way[n->depth - 1];
        w->c->n_visited++;
        bool known_unfit = is_unfit(w->g, s, n->byte); /* not among the tokens in any case */
        if (known_unfit || !kt__gstate_step(w->g, s, n->byte)) {
            for (uint32_t k = i; k < n->end && !known_unfit; k++)
                if (nodes[k].token >= 0) clear_token(w, nodes[k].token);
            i = n->end;
            continue;
        }
        bool other = s->mode == KT__M_NAME && s->lex <= KT__L_CONT_3 && !s->name && !s->used;
        if (other && s->frame == from->frame) {
            i = n->end;
            continue;
        }
        if (n->token >= 0) set_token(w, n->token);
        i++;
    }
}

/* Tokens that end the name, by the patterns it then fits. */
static void end_name(walk *w, const kt__gstate *s, kt__gid key, const uint64_t *ends) {
    kt__gstate after = *s;
    w->only = ends;
    if (kt__json_close_name_as(w->g, &after, key)) walk_suffixes(w, &after);
}

static void fill_plain_name(walk *w, const kt__gstate *s) {
    kt__gid key = kt__gpool_intern(&w->g->t.pool, KT__G_KEY, &(uint32_t){0}, 1);
    end_name(w, s, key, stay_within(w, w->vocab->free_));
}

/* False: too many kinds of names. */
static bool fill_pattern_name(walk *w, const kt__gstate *s) {
    kt__bounded near = near_text(w->g, s->term);
    kt__gid patterns = clip_term(w->g, s->patterns, NEAR, 0);
    kept *part = kept_term(w, &near, patterns, s->frame);
    if (part->n_keys > MAX_KEYS) return false;
    (void)stay_within(w, part->bits);
    for (uint32_t i = 0; i < part->n_keys; i++) end_name(w, s, part->keys[i], part->ends[i]);
    if (near.term != s->term || patterns != s->patterns) try_long(w, s);
    return true;
}

static bool fill_name(walk *w, const kt__gstate *s) {
    if (!s->patterns)
        fill_plain_name(w, s);
    else if (!fill_pattern_name(w, s))
        return false;
    if (s->name || s->used) walk_known_names(w, s);
    try_hard(w, s);
    return true;
}

static bool is_open_name(const kt__grammar *g, const kt__gstate *s) {
    return is_plain_name(s) && (s->term == ANY || s->patterns) && name_is_open(g, s);
}

static bool is_plain_string(const kt__gstate *s) {
    return s->mode == KT__M_STRING && s->lex == KT__L_PLAIN;
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
    kept *slot = oldest_kept(c->states, N_STATES);
    memcpy(slot->bits, w->bits, bytes);
    slot->state = *s;
    slot->used = ++c->clock;
}

/* What a walk tried is forgotten once half of the memory is in use. */
static void forget_from(kt__grammar *g, uint32_t mark) {
    for (size_t i = 0; i < N_TERMS; i++)
        if (g->masks->terms[i].text.term >= mark || g->masks->terms[i].patterns >= mark ||
            g->masks->terms[i].of >= mark)
            g->masks->terms[i].text.term = 0;
    kt__terms_rollback(&g->t, mark);
    g->v.stamp++;
}

kt_status kt__gmask_fill(kt__grammar *g, const kt__gstate *state, uint64_t *bits, kt_error *err) {
    walk w = {.g = g, .c = g->masks, .vocab = g->masks->vocab, .bits = bits};
    kt__gpool *p = &g->t.pool;
    uint32_t mark = p->n;
    bool scarce = kt__gpool_is_scarce(p);
    p->steps = MASK_STEPS;
    w.c->n_visited = 0;
    g->v.keep_below = scarce ? mark : UINT32_MAX;
    if (state->mode == KT__M_END && !g->is_pieces)
        memset(bits, 0, w.vocab->n_words * sizeof *bits);
    else if (g->is_json && is_plain_string(state))
        fill_string(&w, state);
    else if (!g->is_json || !is_open_name(g, state) || !fill_name(&w, state))
        fill_other(&w, state);
    g->v.keep_below = UINT32_MAX;
    if (scarce && p->n > mark) forget_from(g, mark);
    if (p->failed) return kt__fail(err, KT_E_LIMIT, "the constraint is out of memory or steps");
    return KT_OK;
}
