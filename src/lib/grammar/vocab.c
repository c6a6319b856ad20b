#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/le.h"

enum { MAX_DEPTH = 250, LONG_BYTES = 32, NO_QUOTE = 0 };

typedef struct piece {
    const char *s;
    uint32_t len;
    int32_t id;
} piece;

/* ---- bytes ---- */

static kt_status copy_bytes(kt__gvocab *v, const kt__gvocab_source *source, kt_error *err) {
    size_t total = 0, len, n = (size_t)v->n_vocab;
    for (int32_t id = 0; id < v->n_vocab; id++) {
        (void)source->bytes(source->ctx, id, &len);
        total += len;
    }
    if (total > UINT32_MAX) return kt__fail(err, KT_E_LIMIT, "a vocabulary of %zu bytes", total);
    v->bytes = kt__malloc(total + 1);
    v->begin = kt__calloc(n + 1, sizeof *v->begin);
    if (!v->bytes || !v->begin) return kt__fail_nomem(err, "a vocabulary's bytes", total);
    for (int32_t id = 0; id < v->n_vocab; id++) {
        const char *s = source->bytes(source->ctx, id, &len);
        size_t room = total - v->begin[id];
        if (len > room) len = room; /* never: a source says the same twice */
        if (len > 0) memcpy(v->bytes + v->begin[id], s, len);
        v->begin[id + 1] = v->begin[id] + (uint32_t)len;
    }
    return KT_OK;
}

static int by_bytes(const void *a, const void *b) {
    const piece *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->s, y->s, n);
    if (c) return c;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* ---- tries ---- */

typedef struct trie {
    kt__gvnode *nodes;
    uint32_t n, open[256], depth; /* open: the way to the last node */
} trie;

static size_t common_bytes(const piece *a, const piece *b) {
    size_t n = 0;
    while (n < a->len && n < b->len && a->s[n] == b->s[n]) n++;
    return n;
}

static void close_to(trie *t, uint32_t depth) {
    while (t->depth > depth) t->nodes[t->open[t->depth--]].end = t->n;
}

static uint32_t n_trie_nodes(const piece *pieces, size_t n) {
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += pieces[i].len - (i > 0 ? common_bytes(&pieces[i - 1], &pieces[i]) : 0);
    return (uint32_t)total;
}

/* Sorted pieces; on_end tells what the node of each one's end holds. */
static bool build_trie(trie *t, const piece *pieces, size_t n, uint32_t *ends) {
    t->nodes = kt__calloc(n_trie_nodes(pieces, n) + 1u, sizeof *t->nodes);
    if (!t->nodes) return false;
    for (size_t i = 0; i < n; i++) {
        size_t common = i > 0 ? common_bytes(&pieces[i - 1], &pieces[i]) : 0;
        close_to(t, (uint32_t)common);
        for (size_t k = common; k < pieces[i].len; k++) {
            t->open[++t->depth] = t->n;
            t->nodes[t->n++] = (kt__gvnode){
                .token = -1, .byte = (uint8_t)pieces[i].s[k], .depth = (uint8_t)t->depth};
        }
        ends[i] = t->depth ? t->open[t->depth] : UINT32_MAX;
    }
    close_to(t, 0);
    return true;
}

static bool build_tokens(kt__gvocab *v, piece *pieces, size_t n) {
    trie t = {0};
    uint32_t *ends = kt__calloc(n + 1, sizeof *ends);
    v->same = kt__malloc((size_t)v->n_vocab * sizeof *v->same);
    if (v->same) memset(v->same, -1, (size_t)v->n_vocab * sizeof *v->same);
    bool ok = ends && v->same && build_trie(&t, pieces, n, ends);
    for (size_t i = 0; ok && i < n; i++) {
        kt__gvnode *end = &t.nodes[ends[i]];
        v->same[pieces[i].id] = end->token;
        end->token = pieces[i].id;
    }
    v->nodes = t.nodes;
    v->n_nodes = t.n;
    kt__free(ends);
    return ok;
}

/* ---- strings ---- */

/* What a string without limits makes of a token; the recogniser's own rules, for a token that begins
 * between two characters. */
typedef struct scan {
    bool fits;
    uint32_t quote; /* the byte after the quote that ends the string, or NO_QUOTE */
    uint32_t n_chars, n_quotes;
} scan;

static int continuation_bytes(uint8_t b) {
    return b < 0x80 ? 0 : b < 0xc2 || b > 0xf4 ? -1 : b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
}

static bool second_byte_fits(uint8_t lead, uint8_t b) {
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return b >= low && b <= high;
}

/* After "\u": the digits that are there. Returns how far it went, or SIZE_MAX where it is refused;
 * *half: a surrogate's first half, complete, so that the second must come. */
static size_t scan_hex(const uint8_t *s, size_t at, size_t len, bool *half) {
    uint32_t c = 0;
    size_t n = 0;
    bool second = *half;
    for (; n < 4 && at < len; n++, at++) {
        int d = kt__hex_digit(s[at]);
        if (d < 0) return SIZE_MAX;
        c = c << 4 | (uint32_t)d;
        bool low_half = n == 1 && c >= 0xdc && c <= 0xdf;
        if (second ? (n == 0 && c != 0xd) || (n == 1 && !low_half) : low_half) return SIZE_MAX;
    }
    *half = !second && n == 4 && c >= 0xd800 && c <= 0xdbff;
    return at;
}

static size_t scan_escape(const uint8_t *s, size_t at, size_t len) {
    bool half = false;
    if (at == len) return at;
    if (s[at] == 'u')
        at = scan_hex(s, at + 1, len, &half);
    else
        return strchr("\"\\/bfnrt", s[at]) && s[at] ? at + 1 : SIZE_MAX;
    if (!half || at == SIZE_MAX || at == len) return at;
    if (s[at++] != '\\') return SIZE_MAX;
    if (at == len) return at;
    if (s[at++] != 'u') return SIZE_MAX;
    return scan_hex(s, at, len, &half);
}

static size_t scan_utf8(const uint8_t *s, size_t at, size_t len) {
    uint8_t lead = s[at];
    int more = continuation_bytes(lead);
    if (more < 0) return SIZE_MAX;
    at++;
    for (int i = 0; i < more && at < len; i++, at++)
        if (i == 0 ? !second_byte_fits(lead, s[at]) : s[at] < 0x80 || s[at] > 0xbf) return SIZE_MAX;
    return at;
}

static scan scan_token(const char *text, size_t len) {
    const uint8_t *s = (const uint8_t *)text;
    scan out = {.quote = NO_QUOTE};
    for (size_t i = 0; i < len; i++) out.n_quotes += s[i] == '"';
    for (size_t at = 0; at < len;) {
        if (s[at] == '"') {
            out.quote = (uint32_t)at + 1;
            break;
        }
        if (s[at] < 0x20) return out;
        out.n_chars++;
        at = s[at] == '\\' ? scan_escape(s, at + 1, len) : scan_utf8(s, at, len);
        if (at == SIZE_MAX) return out;
    }
    out.fits = true;
    return out;
}

/* Continuation bytes that come next; -1: the byte does not fit. */
static int utf8_after(const uint8_t *way, uint32_t depth, int expected) {
    uint8_t b = way[depth];
    if (expected == 0) return continuation_bytes(b);
    bool second = way[depth - 1] >= 0xc2;
    bool fits = second ? second_byte_fits(way[depth - 1], b) : b >= 0x80 && b <= 0xbf;
    return fits ? expected - 1 : -1;
}

static bool build_below(kt__gvocab *v) {
    uint8_t way[256] = {0}, *kinds = kt__malloc(v->n_nodes + 1u);
    int8_t expected[256] = {0};
    uint32_t chars[256] = {0};
    v->below = kt__calloc(v->n_nodes + 1u, sizeof *v->below);
    if (!v->below || !kinds) {
        kt__free(kinds);
        return false;
    }
    for (uint32_t i = 0; i < v->n_nodes; i++) {
        const kt__gvnode *n = &v->nodes[i];
        way[n->depth] = n->byte;
        int before = expected[n->depth - 1];
        int after = before < 0 ? -1 : utf8_after(way, n->depth, before);
        expected[n->depth] = (int8_t)after;
        chars[n->depth] = before > 0 ? chars[n->depth - 1] << 8 | n->byte : n->byte;
        kinds[i] = (uint8_t)(after < 0 ? KT__GV_BROKEN : kt__gvocab_kind(n->byte));
        if (after == 0 && kt__gvocab_is_blank(chars[n->depth])) kinds[i] = KT__GV_BLANK;
    }
    for (uint32_t i = v->n_nodes; i-- > 0;) /* those below are complete by now */
        for (uint32_t kid = i + 1; kid < v->nodes[i].end; kid = v->nodes[kid].end)
            v->below[i] |= v->below[kid] | UINT64_C(1) << kinds[kid];
    kt__free(kinds);
    return true;
}

static void set_bit(uint64_t *bits, int32_t id) {
    bits[id / 64] |= UINT64_C(1) << id % 64;
}

static bool has_bit(const uint64_t *bits, int32_t id) {
    return bits[id / 64] >> id % 64 & 1;
}

/* Tokens of a set by their number of characters. */
static int32_t *sort_by_chars(const kt__gvocab *v, const uint64_t *set, uint32_t counts[257]) {
    int32_t *ids = kt__calloc((size_t)v->n_vocab + 1, sizeof *ids);
    uint32_t at[257];
    if (!ids) return NULL;
    memset(counts, 0, 257 * sizeof *counts);
    for (int32_t id = 0; id < v->n_vocab; id++) counts[v->n_chars[id] + 1] += has_bit(set, id);
    for (int i = 1; i < 257; i++) counts[i] += counts[i - 1];
    memcpy(at, counts, sizeof at);
    for (int32_t id = 0; id < v->n_vocab; id++)
        if (has_bit(set, id)) ids[at[v->n_chars[id]]++] = id;
    return ids;
}

static bool build_suffixes(kt__gvocab *v, piece *pieces, size_t n) {
    trie t = {0};
    uint32_t *ends = kt__calloc(n + 1, sizeof *ends), n_lists = 0;
    v->suffix_begin = kt__calloc(n + 2, sizeof *v->suffix_begin);
    v->suffix_tokens = kt__calloc(n + 1, sizeof *v->suffix_tokens);
    qsort(pieces, n, sizeof *pieces, by_bytes);
    bool ok = ends && v->suffix_begin && v->suffix_tokens && build_trie(&t, pieces, n, ends);
    /* list 0: of the tokens that end with the quote */
    size_t i = 0;
    for (; ok && i < n && pieces[i].len == 0; i++) v->suffix_tokens[i] = pieces[i].id;
    if (ok) v->suffix_begin[++n_lists] = (uint32_t)i;
    for (; ok && i < n; i++) {
        bool first = pieces[i - 1].len == 0 || ends[i] != ends[i - 1] || i == 0;
        if (first) {
            t.nodes[ends[i]].token = (int32_t)n_lists++;
        }
        v->suffix_tokens[i] = pieces[i].id;
        v->suffix_begin[n_lists] = (uint32_t)i + 1;
    }
    v->suffixes = t.nodes;
    v->n_suffixes = t.n;
    kt__free(ends);
    return ok;
}

static bool build_strings(kt__gvocab *v, piece *pieces) {
    size_t n_suffixes = 0;
    for (int32_t id = 0; id < v->n_vocab; id++) {
        size_t len;
        const char *s = kt__gvocab_token(v, id, &len);
        scan x = scan_token(s, len);
        v->n_chars[id] = (uint8_t)(x.n_chars < 255 ? x.n_chars : 255);
        if (len > MAX_DEPTH || x.n_quotes >= 3) v->hard[v->n_hard++] = id;
        if (len > LONG_BYTES) v->long_[v->n_long++] = id;
        if (!x.fits || len == 0 || len > MAX_DEPTH) continue;
        set_bit(v->free_, id);
        if (x.quote == NO_QUOTE) continue;
        set_bit(v->quoted, id);
        pieces[n_suffixes++] = (piece){s + x.quote, (uint32_t)len - x.quote, id};
    }
    v->by_chars = sort_by_chars(v, v->free_, v->n_by);
    v->quoted_by_chars = sort_by_chars(v, v->quoted, v->n_quoted_by);
    return v->by_chars && v->quoted_by_chars && build_suffixes(v, pieces, n_suffixes);
}

/* ---- life ---- */

static bool build_all(kt__gvocab *v) {
    size_t n = 0;
    piece *pieces = kt__calloc((size_t)v->n_vocab + 1, sizeof *pieces);
    if (!pieces) return false;
    for (int32_t id = 0; id < v->n_vocab; id++) {
        size_t len;
        const char *s = kt__gvocab_token(v, id, &len);
        if (len > 0 && len <= MAX_DEPTH) pieces[n++] = (piece){s, (uint32_t)len, id};
    }
    qsort(pieces, n, sizeof *pieces, by_bytes);
    bool ok = build_tokens(v, pieces, n) && build_below(v) && build_strings(v, pieces);
    kt__free(pieces);
    return ok;
}

kt_status kt__gvocab_create(const kt__gvocab_source *source, kt__gvocab **out, kt_error *err) {
    *out = NULL;
    if (source->n_vocab < 1)
        return kt__fail(err, KT_E_ARG, "a vocabulary of %d tokens", (int)source->n_vocab);
    kt__gvocab *v = kt__calloc(1, sizeof *v);
    if (!v) return kt__fail_nomem(err, "a vocabulary", sizeof *v);
    v->n_vocab = source->n_vocab;
    v->n_words = ((uint32_t)source->n_vocab + 63) / 64;
    kt_status status;
    size_t n = (size_t)v->n_vocab;
    KT__TRY(copy_bytes(v, source, err));
    v->free_ = kt__calloc(v->n_words, sizeof *v->free_);
    v->quoted = kt__calloc(v->n_words, sizeof *v->quoted);
    v->n_chars = kt__calloc(n, 1);
    v->hard = kt__calloc(n, sizeof *v->hard);
    v->long_ = kt__calloc(n, sizeof *v->long_);
    bool room = v->free_ && v->quoted && v->n_chars && v->hard && v->long_;
    if (!room || !build_all(v)) KT__TRY(kt__fail_nomem(err, "a vocabulary for masks", n * 45));
    *out = v;
    v = NULL;
out:
    kt__gvocab_free(v);
    return status;
}

void kt__gvocab_free(kt__gvocab *v) {
    if (!v) return;
    kt__free(v->bytes);
    kt__free(v->begin);
    kt__free(v->nodes);
    kt__free(v->below);
    kt__free(v->same);
    kt__free(v->free_);
    kt__free(v->quoted);
    kt__free(v->n_chars);
    kt__free(v->by_chars);
    kt__free(v->quoted_by_chars);
    kt__free(v->suffixes);
    kt__free(v->suffix_begin);
    kt__free(v->suffix_tokens);
    kt__free(v->hard);
    kt__free(v->long_);
    kt__free(v);
}

size_t kt__gvocab_bytes(const kt__gvocab *v) {
    size_t n = (size_t)v->n_vocab;
    size_t suffixes = v->n_suffixes * sizeof *v->suffixes + 2 * v->n_quoted_by[256] * 4;
    return sizeof *v + v->begin[n] + n * (4 + 4 + 1 + 4 + 4 + 4 + 4) + v->n_words * 16u + suffixes +
           v->n_nodes * (sizeof *v->nodes + 8);
}
