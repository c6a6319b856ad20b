/* JSON texts, byte by byte: structure, and what the schema makes of it. */
#include <string.h>

#include "grammar/grammar_impl.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY, LINE = 2 };

static const char *const literals[] = {"null", "false", "true"};

/* ---- frames ---- */

static const uint32_t *frame_words(const kt__grammar *g, const kt__gstate *s) {
    return kt__g_data(&g->t.pool, s->frame);
}

static void copy_frame(const kt__grammar *g, const kt__gstate *s, uint32_t words[KT__F_N]) {
    memcpy(words, frame_words(g, s), KT__F_N * sizeof *words);
}

static bool set_frame(kt__grammar *g, kt__gstate *s, const uint32_t words[KT__F_N]) {
    s->frame = kt__gpool_intern(&g->t.pool, KT__G_FRAME, words, KT__F_N);
    return !g->t.pool.failed;
}

static bool frame_has(const kt__grammar *g, const kt__gstate *s, uint32_t flag) {
    return s->frame && kt__gframe_word(g, s->frame, KT__F_META) & flag;
}

static kt__gid frame_formula(const kt__grammar *g, const kt__gstate *s) {
    return kt__gframe_word(g, s->frame, KT__F_FORMULA);
}

/* Of nothing that was read within a value anything stays. */
static void go(kt__gstate *s, kt__gmode mode) {
    *s = (kt__gstate){.mode = (uint8_t)mode, .frame = s->frame, .rest = s->rest};
}

/* ---- a value begins ---- */

static bool is_known(kt__gid id) {
    return id == ANY || id == EMPTY;
}

/* Outcomes that are known from the value's type alone are handed on at once. */
static kt__gid settle_known(kt__grammar *g, kt__gstate *s, kt__gid vec) {
    kt__gpool *p = &g->t.pool;
    uint32_t words[KT__F_N], from = p->n_scratch, n = kt__g_n(p, vec), n_known = 0;
    for (uint32_t i = 1; i < n; i++) n_known += is_known(kt__g_arg(p, vec, i));
    if (n_known == 0 || !s->frame) return vec;
    copy_frame(g, s, words);
    kt__gid subs = words[KT__F_SUBS];
    words[KT__F_FORMULA] = kt__svalue_settle(&g->v, words[KT__F_FORMULA], subs, vec);
    if (kt__svalue_must(&g->v, words[KT__F_FORMULA]) == EMPTY) return EMPTY;
    kt__gpool_push(p, kt__g_arg(p, vec, 0));
    for (uint32_t i = 1; i < n; i++)
        if (!is_known(kt__g_arg(p, vec, i))) kt__gpool_push(p, kt__g_arg(p, vec, i));
    uint32_t sub_from = p->n_scratch;
    kt__gpool_push(p, ANY);
    for (uint32_t i = 1; i < n; i++)
        if (!is_known(kt__g_arg(p, vec, i))) kt__gpool_push(p, kt__g_arg(p, subs, i));
    kt__gid open = kt__term_vec(&g->t, sub_from);
    words[KT__F_SUBS] = open == ANY ? 0 : open;
    vec = kt__term_vec(&g->t, from);
    return set_frame(g, s, words) ? vec : EMPTY;
}

static bool begin_container(kt__grammar *g, kt__gstate *s, kt__gid formula, bool is_array) {
    uint32_t meta = s->frame ? kt__gframe_word(g, s->frame, KT__F_META) : 0;
    uint32_t depth = meta / KT__FM_DEPTH + 1, flags = meta & KT__FM_HASHES;
    if (depth > KT__GRAMMAR_DEPTH) return false;
    if (is_array) flags |= KT__FM_ARRAY;
    if (is_array && kt__svalue_wants_unique(&g->v, formula)) flags |= KT__FM_UNIQUE | KT__FM_HASHES;
    const uint32_t words[KT__F_N] = {[KT__F_PARENT] = s->frame,
                                     [KT__F_META] = depth * KT__FM_DEPTH | flags,
                                     [KT__F_FORMULA] = formula};
    go(s, is_array ? KT__M_ITEM_OR_END : KT__M_KEY_OR_END);
    return set_frame(g, s, words);
}

static bool begin_string(kt__grammar *g, kt__gstate *s, kt__gid term) {
    term = kt__json_strings_left(g, s, term);
    if (!kt__term_live(&g->t, term)) return false;
    bool hashes = frame_has(g, s, KT__FM_HASHES);
    go(s, KT__M_STRING);
    s->term = term;
    s->hash = hashes ? KT__STRING_HASH : 0;
    return true;
}

static bool begin_number(kt__grammar *g, kt__gstate *s, kt__gid formula, uint8_t b) {
    bool ended;
    go(s, KT__M_NUMBER);
    s->value = formula;
    return kt__json_number_step(g, s, b, &ended) && !ended;
}

static bool begin_literal(kt__grammar *g, kt__gstate *s, kt__gid outcome, uint32_t which) {
    if (kt__svalue_must(&g->v, outcome) != ANY || !kt__json_literal_left(g, s, which)) return false;
    go(s, KT__M_LITERAL);
    s->value = outcome;
    s->hex = which;
    s->lex = 1;
    return true;
}

static kt__vtype type_of_byte(uint8_t b) {
    switch (b) {
    case '{': return KT__V_OBJECT;
    case '[': return KT__V_ARRAY;
    case '"': return KT__V_STRING;
    case 'n': return KT__V_NULL;
    case 'f': return KT__V_FALSE;
    case 't': return KT__V_TRUE;
    default: return b == '-' || (b >= '0' && b <= '9') ? KT__V_NUMBER : KT__V_N;
    }
}

static bool begin_value(kt__grammar *g, kt__gstate *s, uint8_t b) {
    kt__vtype type = type_of_byte(b);
    if (type == KT__V_N) return false;
    kt__gid formula = kt__svalue_expand(&g->v, s->value, type);
    if (kt__g_kind(&g->t.pool, formula) == KT__G_VEC) formula = settle_known(g, s, formula);
    if (kt__svalue_must(&g->v, formula) == EMPTY) return false;
    switch (type) {
    case KT__V_OBJECT: return begin_container(g, s, formula, false);
    case KT__V_ARRAY: return begin_container(g, s, formula, true);
    case KT__V_STRING: return begin_string(g, s, formula);
    case KT__V_NUMBER: return begin_number(g, s, formula, b);
    default: return begin_literal(g, s, formula, (uint32_t)type - KT__V_NULL);
    }
}

/* ---- a value ends ---- */

static uint64_t text_hash(const kt__gpool *p, kt__gid text) {
    uint64_t h = 11;
    for (uint32_t i = 0; text && i < kt__g_n(p, text); i++)
        h = kt__ghash_mix(h, kt__g_arg(p, text, i));
    return h;
}

/* Members count in any order, items in theirs. */
static void add_hash(const kt__grammar *g, uint32_t words[KT__F_N], uint64_t hash) {
    uint64_t h = (uint64_t)words[KT__F_HASH_HIGH] << 32 | words[KT__F_HASH_LOW];
    if (words[KT__F_META] & KT__FM_ARRAY)
        h = kt__ghash_mix(h + 1, hash);
    else
        h += kt__ghash_mix(text_hash(&g->t.pool, words[KT__F_KEY]), hash);
    words[KT__F_HASH_LOW] = (uint32_t)h;
    words[KT__F_HASH_HIGH] = (uint32_t)(h >> 32);
}

static bool note_item(kt__grammar *g, uint32_t words[KT__F_N], uint64_t hash) {
    kt__gpool *p = &g->t.pool;
    if (!kt__hashes_have(p, words[KT__F_SET], hash)) {
        words[KT__F_SET] = kt__hashes_add(p, words[KT__F_SET], hash);
        return !p->failed;
    }
    words[KT__F_FORMULA] = kt__svalue_not_unique(&g->v, words[KT__F_FORMULA]);
    return true;
}

static bool end_value(kt__grammar *g, kt__gstate *s, kt__gid outcome, uint64_t hash) {
    uint32_t words[KT__F_N];
    if (kt__svalue_must(&g->v, outcome) != ANY) return false;
    go(s, s->frame ? KT__M_AFTER : g->n_after ? KT__M_BEHIND : KT__M_END);
    if (!s->frame) return true;
    bool plain = !frame_has(g, s, KT__FM_HASHES) && !kt__gframe_word(g, s->frame, KT__F_SUBS);
    if (plain) return true;
    copy_frame(g, s, words);
    kt__gid subs = words[KT__F_SUBS];
    words[KT__F_SUBS] = 0;
    if (subs) words[KT__F_FORMULA] = kt__svalue_settle(&g->v, words[KT__F_FORMULA], subs, outcome);
    if (words[KT__F_META] & KT__FM_HASHES) add_hash(g, words, hash);
    if (words[KT__F_META] & KT__FM_UNIQUE && !note_item(g, words, hash)) return false;
    if (kt__svalue_must(&g->v, words[KT__F_FORMULA]) == EMPTY) return false;
    return set_frame(g, s, words);
}

static bool end_container(kt__grammar *g, kt__gstate *s) {
    const uint32_t *words = frame_words(g, s);
    uint64_t hash = (uint64_t)words[KT__F_HASH_HIGH] << 32 | words[KT__F_HASH_LOW];
    hash = kt__ghash_mix(hash, words[KT__F_META] & KT__FM_ARRAY ? 7 : 9);
    kt__gid parent = words[KT__F_PARENT], outcome = kt__svalue_end(&g->v, words[KT__F_FORMULA]);
    if (kt__svalue_must(&g->v, outcome) != ANY) return false;
    s->frame = parent;
    return end_value(g, s, outcome, hash);
}

/* ---- members ---- */

/* The name that was read, whole. */
static kt__gid name_text(kt__grammar *g, const kt__gstate *s) {
    kt__gpool *p = &g->t.pool;
    uint32_t words[KT__GRAMMAR_NAME_BYTES / 4 + 16] = {0};
    uint32_t n_chunks = s->chunk ? kt__g_arg(p, s->chunk, 1) : 0, len = n_chunks * 20 + s->n_text;
    kt__gid chunk = s->chunk;
    for (uint32_t i = n_chunks; i-- > 0; chunk = kt__g_arg(p, chunk, 0))
        memcpy((uint8_t *)(words + 1) + i * 20, kt__g_data(p, chunk) + 2, 20);
    memcpy((uint8_t *)(words + 1) + n_chunks * 20, s->text, s->n_text);
    words[0] = len;
    return kt__gpool_intern(p, KT__G_TEXT, words, 1 + (len + 3) / 4);
}

static bool begin_name(kt__grammar *g, kt__gstate *s, kt__gid names) {
    const uint32_t *words = frame_words(g, s);
    kt__gid used = words[KT__F_SET], formula = words[KT__F_FORMULA];
    if (names == EMPTY) return false;
    go(s, KT__M_NAME);
    s->term = names;
    s->name = g->schema.n_names > 1 ? 1 : 0;
    s->used = used;
    s->patterns = kt__svalue_patterns(&g->v, formula);
    return true;
}

static kt__gid names_after(kt__grammar *g, kt__gid formula, kt__gid used) {
    return g->ordered ? kt__svalue_names_in_order(&g->v, formula, used)
                      : kt__svalue_names(&g->v, formula, used);
}

/* A second name may come at all; its set of names has the one before. */
static bool next_member(kt__grammar *g, kt__gstate *s) {
    kt__gpool *p = &g->t.pool;
    uint32_t words[KT__F_N];
    copy_frame(g, s, words);
    kt__gid key = words[KT__F_KEY];
    if (key) {
        uint8_t name[KT__GRAMMAR_NAME_BYTES + 64];
        uint32_t len = kt__g_arg(p, key, 0);
        memcpy(name, kt__g_data(p, key) + 1, len);
        words[KT__F_SET] = kt__names_add(p, words[KT__F_SET], name, len);
    }
    words[KT__F_KEY] = 0;
    kt__gid names = names_after(g, words[KT__F_FORMULA], words[KT__F_SET]);
    if (names == EMPTY) return false;
    go(s, KT__M_KEY);
    s->term = names;
    return set_frame(g, s, words);
}

/* The patterns that the name fits, behind the name's index. */
kt__gid kt__json_name_key(kt__grammar *g, const kt__gstate *s, uint32_t name) {
    kt__gpool *p = &g->t.pool;
    uint32_t from = p->n_scratch;
    kt__gpool_push(p, name);
    if (s->patterns) {
        kt__gid all = kt__svalue_patterns(&g->v, frame_formula(g, s));
        for (uint32_t i = 1; i < kt__g_n(p, all); i++)
            if (kt__term_nullable(&g->t, kt__g_arg(p, s->patterns, i)))
                kt__gpool_push(p, kt__g_arg(p, all, i));
    }
    kt__gid key = kt__gpool_intern(p, KT__G_KEY, p->scratch + from, p->n_scratch - from);
    p->n_scratch = from;
    return key;
}

static bool take_member(kt__grammar *g, kt__gstate *s, kt__gid key, kt__gid text) {
    uint32_t words[KT__F_N];
    copy_frame(g, s, words);
    kt__svalue_step step = kt__svalue_member(&g->v, words[KT__F_FORMULA], key);
    if (step.outer == EMPTY || !kt__svalue_possible(&g->v, step.inner)) return false;
    words[KT__F_FORMULA] = step.outer;
    words[KT__F_SUBS] = step.subs;
    words[KT__F_KEY] = text;
    go(s, KT__M_COLON);
    s->value = step.inner;
    return set_frame(g, s, words);
}

static bool close_name(kt__grammar *g, kt__gstate *s) {
    uint32_t name = s->name ? g->schema.trie[s->name].name : 0;
    if (!kt__term_nullable(&g->t, s->term) || kt__names_ends(&g->t.pool, s->used)) return false;
    kt__gid text = name_text(g, s), key = kt__json_name_key(g, s, name);
    return take_member(g, s, key, text);
}

bool kt__json_close_name_as(kt__grammar *g, kt__gstate *s, kt__gid key) {
    return take_member(g, s, key, 0);
}

bool kt__json_close_string(kt__grammar *g, kt__gstate *s) {
    kt__gpool *p = &g->t.pool;
    if (s->mode == KT__M_NAME) return close_name(g, s);
    if (!kt__term_nullable(&g->t, s->term)) return false;
    kt__gid outcome = ANY;
    if (kt__g_kind(p, s->term) == KT__G_VEC) {
        uint32_t from = p->n_scratch;
        for (uint32_t i = 0; i < kt__g_n(p, s->term); i++)
            kt__gpool_push(p, kt__term_nullable(&g->t, kt__g_arg(p, s->term, i)) ? ANY : EMPTY);
        outcome = kt__term_vec(&g->t, from);
    }
    return end_value(g, s, outcome, s->hash);
}

/* ---- items ---- */

static bool next_item(kt__grammar *g, kt__gstate *s) {
    uint32_t words[KT__F_N];
    copy_frame(g, s, words);
    kt__svalue_step step = kt__svalue_item(&g->v, words[KT__F_FORMULA]);
    if (step.outer == EMPTY || !kt__svalue_possible(&g->v, step.inner)) return false;
    words[KT__F_FORMULA] = step.outer;
    words[KT__F_SUBS] = step.subs;
    go(s, KT__M_VALUE);
    s->value = step.inner;
    return set_frame(g, s, words) && kt__json_item_left(g, s, step.inner);
}

/* ---- between values ---- */

/* One space; or a line end and a few blanks. */
static bool take_blank(kt__gstate *s, uint8_t b) {
    if (s->blanks == 0) {
        s->blanks = b == '\n' ? LINE : 1;
        return b == '\n' || b == ' ';
    }
    return s->blanks >= LINE && b != '\n' && b != '\r' && s->blanks++ < LINE + KT__GRAMMAR_BLANKS;
}

/* Compact: none, but in calls one space behind a colon or a comma, as most models were taught to write them; without it a
 * small model meets tokens that it never saw there. */
static bool may_take_blank(const kt__grammar *g, const kt__gstate *s, uint8_t b) {
    if (!g->compact) return s->mode != KT__M_END;
    bool behind = s->mode == KT__M_VALUE || s->mode == KT__M_KEY;
    return g->is_pieces && s->frame && behind && b == ' ' && s->blanks == 0;
}

static bool after_value(kt__grammar *g, kt__gstate *s, uint8_t b) {
    bool is_array = frame_has(g, s, KT__FM_ARRAY);
    if (b == ',') return is_array ? next_item(g, s) : next_member(g, s);
    return b == (is_array ? ']' : '}') && end_container(g, s);
}

static bool between(kt__grammar *g, kt__gstate *s, uint8_t b) {
    if (b == ' ' || b == '\n' || b == '\t' || b == '\r')
        return may_take_blank(g, s, b) && take_blank(s, b);
    s->blanks = 0;
    switch (s->mode) {
    case KT__M_VALUE: return begin_value(g, s, b);
    case KT__M_ITEM_OR_END:
        if (b == ']') return end_container(g, s);
        return type_of_byte(b) != KT__V_N && next_item(g, s) && begin_value(g, s, b);
    case KT__M_KEY_OR_END:
        if (b == '}') return end_container(g, s);
        if (b != '"') return false;
        return begin_name(g, s, names_after(g, frame_formula(g, s), 0));
    case KT__M_KEY: return b == '"' && begin_name(g, s, s->term);
    case KT__M_COLON: s->mode = KT__M_VALUE; return b == ':';
    case KT__M_AFTER: return after_value(g, s, b);
    default: return false;
    }
}

static bool literal_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    const char *text = literals[s->hex];
    if (b != (uint8_t)text[s->lex]) return false;
    s->lex++;
    return text[s->lex] != '\0' || end_value(g, s, s->value, KT__LITERAL_HASH + s->hex);
}

static bool number_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    bool ended;
    if (!kt__json_number_step(g, s, b, &ended)) return false;
    if (!ended) return true;
    uint64_t hash = frame_has(g, s, KT__FM_HASHES) ? kt__json_number_hash(s) : 0;
    return end_value(g, s, kt__json_number_end(g, s), hash) && kt__gstate_step(g, s, b);
}

bool kt__json_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    switch (s->mode) {
    case KT__M_STRING:
    case KT__M_NAME:
        if (b == '"' && s->lex == KT__L_PLAIN) return kt__json_close_string(g, s);
        return kt__json_string_step(g, s, b);
    case KT__M_NUMBER: return number_step(g, s, b);
    case KT__M_LITERAL: return literal_step(g, s, b);
    default: return between(g, s, b);
    }
}

bool kt__json_accepts(kt__grammar *g, const kt__gstate *s) {
    if (s->mode == KT__M_END) return true;
    return s->mode == KT__M_NUMBER && !s->frame && g->n_after == 0 &&
           kt__svalue_must(&g->v, kt__json_number_end(g, s)) == ANY;
}
