/* Words to ids: whole words by lookup, words met before from a memo, others by merging; and
 * byte-level BPE, which cuts with a pre-tokenizer and encodes the words. */
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode.h"

/* ---- merging ---- */

/* The merge of symbol i with the next one. */
static void rate_pair(const kt__encoder *enc, kt__symbol *symbols, size_t n, uint32_t i,
                      const char *s) {
    const kt__tokenizer *tok = enc->tok;
    kt__symbol *sym = &symbols[i];
    sym->rank = KT__NO_RANK;
    if (sym->next >= n) return;
    const kt__symbol *next = &symbols[sym->next];
    if (!tok->merges) {
        size_t len = symbols[next->next].at - sym->at;
        if (len > tok->max_bytes) return;
        const char *text = s + sym->at;
        int32_t id = kt__tok_lookup(tok, kt__tok_hash(tok->seed, text, len), text, len);
        if (id < 0) return;
        sym->into = (uint32_t)id;
        sym->rank = kt__spm_rank(tok->scores[id]);
    } else if (sym->id != KT__NO_TOKEN && next->id != KT__NO_TOKEN) {
        const kt__merge_slot *slot = kt__tok_merge(tok, (int32_t)sym->id, (int32_t)next->id);
        if (!slot->left1) return;
        sym->into = slot->id;
        sym->rank = slot->rank;
    }
}

/* Joins symbol i with the next and ranks the pairs on both sides again. */
static void merge_at(const kt__encoder *enc, kt__symbol *symbols, size_t n, uint32_t i,
                     const char *s) {
    kt__symbol *sym = &symbols[i], *gone = &symbols[sym->next];
    sym->id = sym->into;
    sym->next = gone->next;
    symbols[gone->next].prev = i;
    gone->rank = KT__NO_RANK;
    rate_pair(enc, symbols, n, i, s);
    if (sym->prev != KT__NO_SYMBOL) rate_pair(enc, symbols, n, sym->prev, s);
}

static void merge_small(const kt__encoder *enc, kt__symbol *symbols, size_t n, const char *s) {
    for (;;) {
        uint32_t best = 0, best_rank = KT__NO_RANK;
        for (uint32_t i = 0; i < n; i = symbols[i].next) {
            if (symbols[i].rank >= best_rank) continue;
            best = i;
            best_rank = symbols[i].rank;
        }
        if (best_rank == KT__NO_RANK) return;
        merge_at(enc, symbols, n, best, s);
    }
}

static kt_status heap_push(kt__encoder *enc, uint64_t key) {
    if (enc->heap_len == enc->heap_cap) {
        size_t cap = enc->heap_cap + enc->heap_cap / 2 + 256;
        uint64_t *heap = kt__realloc_array(enc->heap, cap, sizeof *heap);
        if (!heap) return kt__fail_nomem(enc->err, "merging a long word", cap * sizeof *heap);
        enc->heap = heap;
        enc->heap_cap = cap;
    }
    size_t i = enc->heap_len++;
    for (; i > 0 && enc->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        enc->heap[i] = enc->heap[(i - 1) / 2];
    enc->heap[i] = key;
    return KT_OK;
}

static uint64_t heap_pop(kt__encoder *enc) {
    uint64_t *heap = enc->heap, top = heap[0], last = heap[--enc->heap_len];
    size_t n = enc->heap_len, i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

static kt_status push_pair(kt__encoder *enc, const kt__symbol *symbols, uint32_t i) {
    if (i == KT__NO_SYMBOL || symbols[i].rank == KT__NO_RANK) return KT_OK;
    return heap_push(enc, (uint64_t)symbols[i].rank << 32 | i);
}

/* A pair whose rank has changed since it was pushed is stale; its new rank was pushed, too. */
static kt_status merge_large(kt__encoder *enc, kt__symbol *symbols, size_t n, const char *s) {
    enc->heap_len = 0;
    for (uint32_t i = 0; i < n; i++) KT__STEP(push_pair(enc, symbols, i));
    while (enc->heap_len) {
        uint64_t top = heap_pop(enc);
        uint32_t i = (uint32_t)top;
        if (symbols[i].rank != top >> 32) continue;
        merge_at(enc, symbols, n, i, s);
        KT__STEP(push_pair(enc, symbols, i));
        KT__STEP(push_pair(enc, symbols, symbols[i].prev));
    }
    return KT_OK;
}

kt_status kt__merge_run(kt__encoder *enc, kt__symbol *symbols, size_t n, const char *s) {
    for (uint32_t i = 0; i < n; i++) rate_pair(enc, symbols, n, i, s);
    if (n > KT__SMALL_WORD) return merge_large(enc, symbols, n, s);
    merge_small(enc, symbols, n, s);
    return KT_OK;
}

/* ---- a word ---- */

/* Of a character, or of a byte. */
static uint32_t first_token(const kt__tokenizer *tok, const char *s, size_t len) {
    if (!tok->spm) return (uint32_t)tok->byte_id[(unsigned char)*s];
    return (uint32_t)kt__tok_lookup(tok, kt__tok_hash(tok->seed, s, len), s, len);
}

/* One symbol a byte (BPE) or a character (SPM), and the one that ends the list. Returns their
 * count. */
static size_t fill_symbols(const kt__tokenizer *tok, const char *s, size_t len,
                           kt__symbol *symbols) {
    size_t n = 0, step;
    for (size_t i = 0; i < len; i += step, n++) {
        uint32_t cp;
        step = 1;
        if (tok->spm) kt__unicode_next(s + i, len - i, &step, &cp);
        symbols[n].at = (uint32_t)i;
        if (tok->merges) symbols[n].id = first_token(tok, s + i, step);
        symbols[n].prev = n ? (uint32_t)n - 1 : KT__NO_SYMBOL;
        symbols[n].next = (uint32_t)n + 1;
    }
    symbols[n] = (kt__symbol){.at = (uint32_t)len, .rank = KT__NO_RANK};
    return n;
}

/* Unknown text gives one unknown token, however long; none where the vocabulary has none. */
static kt_status push_unknown(kt__encoder *enc) {
    kt__ids *ids = enc->ids;
    int32_t unk = enc->tok->role_ids[KT__ROLE_UNK];
    enc->saw_unknown = true;
    if (unk < 0 || (ids->len > enc->stretch_ids && ids->data[ids->len - 1] == unk)) return KT_OK;
    return kt__ids_push(ids, unk, enc->err);
}

/* A piece that is no token goes out byte by byte, if there are tokens for all its bytes. */
static kt_status push_bytes(kt__encoder *enc, const char *s, size_t len) {
    const int32_t *byte_id = enc->tok->byte_id;
    for (size_t i = 0; i < len; i++)
        if (byte_id[(unsigned char)s[i]] < 0) return push_unknown(enc);
    for (size_t i = 0; i < len; i++) {
        kt_status status = kt__ids_push(enc->ids, byte_id[(unsigned char)s[i]], enc->err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

static kt_status push_symbol(kt__encoder *enc, const kt__symbol *symbols, size_t i, const char *s) {
    const kt__tokenizer *tok = enc->tok;
    const char *text = s + symbols[i].at;
    size_t len = symbols[symbols[i].next].at - symbols[i].at;
    int32_t id = tok->merges ? (int32_t)symbols[i].id
                             : kt__tok_lookup(tok, kt__tok_hash(tok->seed, text, len), text, len);
    if (id >= 0) return kt__ids_push(enc->ids, id, enc->err);
    return tok->spm ? push_bytes(enc, text, len) : push_unknown(enc);
}

static kt_status reserve_symbols(kt__encoder *enc, size_t n) {
    if (n <= enc->symbols_cap) return KT_OK;
    kt__free(enc->symbols);
    enc->symbols = kt__malloc(n * sizeof *enc->symbols);
    enc->symbols_cap = enc->symbols ? n : 0;
    if (!enc->symbols) return kt__fail_nomem(enc->err, "merging a long word", n);
    return KT_OK;
}

static kt_status merge_word(kt__encoder *enc, const char *s, size_t len) {
    kt__symbol small[KT__SMALL_WORD + 1], *symbols = small;
    if (len > KT__SMALL_WORD) {
        KT__STEP(reserve_symbols(enc, len + 1));
        symbols = enc->symbols;
    }
    size_t n = fill_symbols(enc->tok, s, len, symbols);
    KT__STEP(kt__merge_run(enc, symbols, n, s));
    for (size_t i = 0; i < n; i = symbols[i].next) KT__STEP(push_symbol(enc, symbols, i, s));
    return KT_OK;
}

/* ---- shortcuts ---- */

/* The word as a token, if merging would give that token or need not be tried; *id is the token of
 * that text in any case, or -1. */
static bool find_whole(const kt__tokenizer *tok, uint64_t hash, const char *s, size_t len,
                       int32_t *id) {
    *id = len <= tok->max_bytes ? kt__tok_lookup(tok, hash, s, len) : -1;
    if (*id < 0) return false;
    if (tok->pre && tok->pre->whole_words) return true;
    return atomic_load_explicit(&tok->whole[*id], memory_order_relaxed) == KT__WHOLE_YES;
}

static kt__word_memo *memo_slot(kt__encoder *enc, uint64_t hash, size_t len) {
    if (!enc->memo || len > KT__MEMO_MAX_WORD) return NULL;
    return &enc->memo[hash >> (64 - KT__MEMO_BITS)];
}

static kt_status push_memo(kt__encoder *enc, const kt__word_memo *memo) {
    kt__ids *ids = enc->ids;
    kt_status status = kt__ids_reserve(ids, memo->n_ids, enc->err);
    if (status != KT_OK) return status;
    memcpy(ids->data + ids->len, ids->data + memo->first, memo->n_ids * sizeof *ids->data);
    ids->len += memo->n_ids;
    return KT_OK;
}

kt_status kt__word_encode(kt__encoder *enc, const char *s, size_t len) {
    const kt__tokenizer *tok = enc->tok;
    kt__ids *ids = enc->ids;
    int32_t id;
    uint64_t hash = kt__tok_hash(tok->seed, s, len);
    if (find_whole(tok, hash, s, len, &id)) return kt__ids_push(ids, id, enc->err);
    kt__word_memo *memo = memo_slot(enc, hash, len);
    if (memo && memo->s && memo->len == len && memcmp(memo->s, s, len) == 0)
        return push_memo(enc, memo);

    size_t first = ids->len;
    enc->saw_unknown = false;
    kt_status status = merge_word(enc, s, len);
    if (status != KT_OK) return status;
    if (id >= 0) {
        bool whole = ids->len == first + 1 && ids->data[first] == id;
        atomic_store_explicit(&tok->whole[id], whole ? KT__WHOLE_YES : KT__WHOLE_NO,
                              memory_order_relaxed);
    }
    if (memo && !enc->saw_unknown)
        *memo = (kt__word_memo){s, (uint32_t)len, (uint32_t)(ids->len - first), first};
    return KT_OK;
}

/* ---- byte-level BPE ---- */

kt_status kt__bpe_encode(kt__encoder *enc, const char *s, size_t len) {
    const kt__pretok *pre = enc->tok->pre;
    if (pre->nfc) KT__STEP(kt__unicode_nfc(&enc->arena, s, len, &s, &len, enc->err));
    kt__pretok_iter it;
    const char *word;
    size_t word_len;
    kt__pretok_begin(&it, pre->family, s, len);
    while (kt__pretok_next(&it, &word, &word_len)) KT__STEP(kt__word_encode(enc, word, word_len));
    return KT_OK;
}
