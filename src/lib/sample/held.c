#include "sample/held.h"

#include <math.h> /* INFINITY only */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/mask.h"

enum { MAX_FINISH = 4096 };

/* Where a text is. */
typedef struct standing {
    bool free;      /* before a trigger */
    bool between;   /* a form has ended, another one may come */
    bool over;      /* nothing may come */
    bool value;     /* the first form is at a value in free text, */
    bool later;     /* or at one of its later texts */
    uint32_t match; /* of the triggers */
    bool *live;     /* [n_forms] under way */
    kt__gstate *forms;
} standing;

struct kt__held {
    kt__constraint *c;
    standing now, try;
    uint32_t way[256]; /* match after so many bytes of a token */
};

/* ---- following ---- */

static void begin_forms(const kt__constraint *c, standing *s) {
    s->free = s->value = s->later = false;
    s->match = 0;
    for (uint32_t i = 0; i < c->n_forms; i++) {
        s->live[i] = true;
        kt__grammar_start(c->forms[i], &s->forms[i]);
    }
}

static void begin_text(const kt__constraint *c, standing *s) {
    begin_forms(c, s);
    s->free = c->triggers != NULL;
}

static bool forms_take(kt__constraint *c, standing *s, const char *byte) {
    bool any = false;
    for (uint32_t i = 0; i < c->n_forms; i++) {
        size_t n = 1;
        if (s->live[i]) s->live[i] = kt__grammar_feed(c->forms[i], &s->forms[i], byte, &n);
        any |= s->live[i];
    }
    return any;
}

static bool forms_ended(kt__constraint *c, const standing *s) {
    for (uint32_t i = 0; i < c->n_forms; i++)
        if (s->live[i] && !kt__grammar_ended(c->forms[i], &s->forms[i])) return false;
    return true;
}

static bool may_end(kt__constraint *c, const standing *s) {
    bool yes = s->free || s->between || s->over;
    for (uint32_t i = 0; i < c->n_forms && !yes; i++)
        yes = s->live[i] && kt__grammar_accepts(c->forms[i], &s->forms[i]);
    return yes;
}

/* The value in free text is not whole. */
static bool in_value(kt__constraint *c, const standing *s) {
    return s->later ? !kt__grammar_accepts(c->forms[0], &s->forms[0])
                    : kt__grammar_in_value(&s->forms[0]);
}

/* Within a value in free text; *n: how many of the bytes belong to it. What a token has after the value's
 * end is text, of which the form says what it may be. */
static bool advance_value(kt__constraint *c, standing *s, const char *bytes, size_t len,
                          size_t *n) {
    *n = len;
    for (size_t i = 0; i < len; i++) {
        if (!forms_take(c, s, bytes + i)) return false;
        if (*n == len && !in_value(c, s)) *n = i + 1;
    }
    if (*n == len && in_value(c, s)) return true;
    s->value = s->later = false;
    s->free = true;
    s->match = 0;
    return true;
}

/* False: the bytes are not taken; the standing is of no use then. */
static bool advance_constraint(kt__constraint *c, standing *s, const char *bytes, size_t len) {
    size_t from = 0;
    if (s->value && !advance_value(c, s, bytes, len, &from)) return false;
    for (size_t i = from; i < len; i++) {
        if (s->over) return false;
        if (!s->free) {
            if (!forms_take(c, s, bytes + i)) return false;
            s->between = false;
            continue;
        }
        if (!c->triggers) continue;
        s->match = kt__match_step(c->triggers, s->match, (uint8_t)bytes[i]);
        if (kt__match_found(c->triggers, s->match) >= 0) begin_forms(c, s);
    }
    if (s->free || s->value || s->between || len == 0 || !forms_ended(c, s)) return true;
    s->over = !c->repeat;
    s->between = c->repeat && !c->triggers;
    if (c->repeat) begin_text(c, s);
    return true;
}

static void copy_standing(const kt__constraint *c, const standing *from, standing *to) {
    bool *live = to->live;
    kt__gstate *forms = to->forms;
    *to = *from;
    to->live = live;
    to->forms = forms;
    memcpy(live, from->live, c->n_forms * sizeof *live);
    memcpy(forms, from->forms, c->n_forms * sizeof *forms);
}

bool kt__held_takes(kt__held *h, int32_t id) {
    kt__constraint *c = h->c;
    size_t len;
    const char *bytes = kt__gvocab_token(c->vocab->tokens, id, &len);
    if (kt__held_vocab_ends(c->vocab, id) && may_end(c, &h->now)) return true;
    if (len == 0) return h->now.free;
    copy_standing(c, &h->now, &h->try);
    return advance_constraint(c, &h->try, bytes, len);
}

void kt__held_push(kt__held *h, int32_t id) {
    size_t len;
    const char *bytes = kt__gvocab_token(h->c->vocab->tokens, id, &len);
    if (!advance_constraint(h->c, &h->now, bytes, len)) h->now.over = true;
}

/* Text by a form that takes any, as free text does. */
static bool is_any_text(kt__constraint *c, const standing *s) {
    return s->free || (!c->triggers && s->live[0] && !kt__grammar_in_value(&s->forms[0]) &&
                       kt__grammar_accepts(c->forms[0], &s->forms[0]));
}

void kt__held_begin_value(kt__held *h, uint32_t n, bool later, uint32_t indent, const char *text,
                          size_t len) {
    kt__constraint *c = h->c;
    standing *s = &h->try;
    size_t own;
    if (!is_any_text(c, &h->now)) return;
    copy_standing(c, &h->now, s);
    memset(s->live, 0, c->n_forms * sizeof *s->live);
    s->live[0] = s->value = true;
    s->free = false;
    s->later = later;
    bool begun = later ? kt__grammar_start_later(c->forms[0], &s->forms[0], n)
                       : kt__grammar_start_value(c->forms[0], &s->forms[0], n, indent);
    if (begun && advance_value(c, s, text, len, &own)) copy_standing(c, s, &h->now);
}

bool kt__held_over(const kt__held *h) {
    return h->now.over;
}

bool kt__held_is_free(const kt__held *h) {
    return h->now.free && h->now.match == 0 && h->c->n_reaching == 0;
}

/* ---- masks ---- */

static void try_token(kt__held *h, int32_t id) {
    uint64_t bit = UINT64_C(1) << id % 64;
    if (!kt__held_takes(h, id)) h->c->set[id / 64] &= ~bit;
}

static void try_below(kt__held *h, uint32_t node) {
    const kt__gvocab *v = h->c->vocab->tokens;
    for (uint32_t i = node + 1; i < v->nodes[node].end; i++)
        for (int32_t id = v->nodes[i].token; id >= 0; id = v->same[id]) try_token(h, id);
}

/* Tokens that end a trigger that has begun, and continue. */
static void try_begun(kt__held *h) {
    const kt__gvocab *v = h->c->vocab->tokens;
    const kt__match *triggers = h->c->triggers;
    h->way[0] = h->now.match;
    for (uint32_t i = 0; i < v->n_nodes;) {
        const kt__gvnode *n = &v->nodes[i];
        uint32_t at = kt__match_step(triggers, h->way[n->depth - 1], n->byte);
        bool found = kt__match_found(triggers, at) >= 0;
        h->way[n->depth] = at;
        if (found) try_below(h, i);
        bool begun = !found && kt__match_depth(triggers, at) > n->depth;
        i = begun ? i + 1 : n->end;
    }
}

static void mask_free(kt__held *h) {
    kt__constraint *c = h->c;
    const kt__gvocab *v = c->vocab->tokens;
    memset(c->set, 0xff, v->n_words * sizeof *c->set);
    for (uint32_t i = 0; i < c->n_reaching; i++) try_token(h, c->reaching[i]);
    if (h->now.match == 0) return;
    try_begun(h);
    for (uint32_t i = 0; i < v->n_hard; i++) try_token(h, v->hard[i]);
}

static kt_status mask_forms(kt__held *h, kt_error *err) {
    kt__constraint *c = h->c;
    uint32_t n_words = c->vocab->tokens->n_words, n = 0;
    for (uint32_t i = 0; i < c->n_forms; i++) {
        if (!h->now.live[i]) continue;
        uint64_t *into = n++ ? c->one : c->set;
        KT__STEP(kt__gmask_fill(c->forms[i], &h->now.forms[i], into, err));
        for (uint32_t k = 0; into == c->one && k < n_words; k++) c->set[k] |= c->one[k];
    }
    if (n == 0) memset(c->set, 0, n_words * sizeof *c->set);
    if (may_end(c, &h->now))
        for (uint32_t k = 0; k < n_words; k++) c->set[k] |= c->vocab->ends[k];
    return KT_OK;
}

/* The tokens of one word of a set, one by one: those that are fewer, in it or not. */
static void apply_word(uint64_t word, const float *logits, float *masked, size_t count) {
    bool dense = __builtin_popcountll(word) > 32;
    uint64_t few = dense ? ~word : word;
    if (dense)
        memcpy(masked, logits, count * sizeof *masked);
    else
        for (size_t i = 0; i < count; i++) masked[i] = -INFINITY;
    for (; few; few &= few - 1) {
        size_t i = (size_t)__builtin_ctzll(few);
        if (i < count) masked[i] = dense ? -INFINITY : logits[i];
    }
}

static void apply_set(const uint64_t *set, const float *logits, float *masked, size_t n) {
    for (size_t at = 0; at < n; at += 64)
        apply_word(set[at / 64], logits + at, masked + at, n - at < 64 ? n - at : 64);
}

kt_status kt__held_mask(kt__held *h, const float *logits, float *masked, kt_error *err) {
    kt_status status = KT_OK;
    if (h->now.free)
        mask_free(h);
    else
        status = mask_forms(h, err);
    /* after the value a token may have a trigger, and then what no form takes */
    for (uint32_t i = 0; h->now.value && i < h->c->n_reaching; i++) try_token(h, h->c->reaching[i]);
    if (status == KT_OK) apply_set(h->c->set, logits, masked, (size_t)h->c->vocab->tokens->n_vocab);
    return status;
}

/* ---- what most likely follows ---- */

static size_t common_length(const char *a, size_t n, const char *b, size_t m) {
    size_t i = 0;
    while (i < n && i < m && a[i] == b[i]) i++;
    return i;
}

size_t kt__held_expected(kt__held *h, char *out, size_t cap) {
    kt__constraint *c = h->c;
    char other[256];
    size_t n = 0;
    bool first = true;
    if (may_end(c, &h->now)) return 0;
    if (cap > sizeof other) cap = sizeof other;
    for (uint32_t i = 0; i < c->n_forms && (first || n > 0); i++) {
        if (!h->now.live[i]) continue;
        size_t m = kt__grammar_expected(c->forms[i], &h->now.forms[i], first ? out : other, cap);
        n = first ? m : common_length(out, n, other, m);
        first = false;
    }
    const char *control = memchr(out, KT__HELD_MARK, n);
    return control ? (size_t)(control - out) : n;
}

size_t kt__held_cut(const kt__held *h, const char *text, size_t len, int32_t *ids, size_t cap) {
    size_t n_bytes, n = kt__held_vocab_cut(h->c->vocab, text, len, ids, cap, &n_bytes);
    return n == SIZE_MAX ? 0 : n < cap ? n : cap;
}

bool kt__held_spells(const kt__held *h, const int32_t *ids, size_t n, const char *text,
                     size_t len) {
    size_t at = 0, one;
    for (size_t i = 0; i < n; i++, at += one) {
        const char *bytes = kt__gvocab_token(h->c->vocab->tokens, ids[i], &one);
        if (one == 0 || one > len - at || memcmp(bytes, text + at, one) != 0) return false;
    }
    return true;
}

/* ---- a way to the end ---- */

/* The shortest that some form has. A text that is free before a trigger may end anywhere. */
static size_t finish_standing(kt__constraint *c, const standing *s, int32_t *ids, size_t cap) {
    size_t best = SIZE_MAX, n_bytes, len;
    if (may_end(c, s)) return 0;
    for (uint32_t i = 0; i < c->n_forms; i++) {
        char text[MAX_FINISH];
        if (!s->live[i] || !kt__grammar_finish(c->forms[i], &s->forms[i], text, sizeof text, &len))
            continue;
        size_t n = kt__held_vocab_cut(c->vocab, text, len, NULL, 0, &n_bytes);
        if (n >= best) continue;
        best = n;
        (void)kt__held_vocab_cut(c->vocab, text, len, ids, cap, &n_bytes);
    }
    return best;
}

size_t kt__held_finish(kt__held *h, int32_t id, int32_t *ids, size_t cap) {
    size_t len;
    if (id < 0) return finish_standing(h->c, &h->now, ids, cap);
    const char *bytes = kt__gvocab_token(h->c->vocab->tokens, id, &len);
    copy_standing(h->c, &h->now, &h->try);
    if (!advance_constraint(h->c, &h->try, bytes, len)) return SIZE_MAX;
    return finish_standing(h->c, &h->try, ids, cap);
}

/* ---- life ---- */

static bool make_standing(const kt__constraint *c, standing *s) {
    s->live = kt__calloc(c->n_forms, sizeof *s->live);
    s->forms = kt__calloc(c->n_forms, sizeof *s->forms);
    return s->live && s->forms;
}

kt_status kt__held_create(kt__constraint *c, kt__held **out, kt_error *err) {
    *out = NULL;
    kt__held *h = kt__calloc(1, sizeof *h);
    if (!h) return kt__fail_nomem(err, "a constrained answer", sizeof *h);
    h->c = c;
    bool made = make_standing(c, &h->now) && make_standing(c, &h->try);
    if (!made) {
        kt__held_free(h);
        return kt__fail_nomem(err, "a constrained answer", c->n_forms * sizeof(kt__gstate));
    }
    begin_text(c, &h->now);
    *out = h;
    return KT_OK;
}

void kt__held_free(kt__held *h) {
    if (!h) return;
    kt__free(h->now.live);
    kt__free(h->now.forms);
    kt__free(h->try.live);
    kt__free(h->try.forms);
    kt__free(h);
}
