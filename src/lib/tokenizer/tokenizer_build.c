/* The tables of a vocabulary: attributes, bytes, hashes, merges. */
#include "tokenizer/tokenizer_load.h"

#include <math.h>

#include "base/le.h"

/* ---- token texts to bytes ---- */

/* The GPT-2 alphabet writes printable Latin-1 as itself and the other 68 bytes, in order, as U+0100
 * up. */
static int alphabet_byte(unsigned cp) {
    if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255))
        return (int)cp;
    if (cp < 256) return -1;
    if (cp <= 288) return (int)cp - 256;
    if (cp <= 322) return (int)cp - 289 + 127;
    return cp == 323 ? 173 : -1;
}

size_t kt__tok_decode_gpt2(const char *s, size_t len, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned c = (unsigned char)s[i];
        if (c >= 33 && c <= 126) {
            out[n++] = s[i];
            continue;
        }
        if (c >= 0xc2 && c <= 0xc5 && i + 1 < len) {
            unsigned c2 = (unsigned char)s[++i];
            if ((c2 & 0xc0) != 0x80) return SIZE_MAX;
            c = (c & 0x1f) << 6 | (c2 & 0x3f);
        } else if (c >= 0x80) {
            return SIZE_MAX;
        }
        int byte = alphabet_byte(c);
        if (byte < 0) return SIZE_MAX;
        out[n++] = (char)byte;
    }
    return n;
}

size_t kt__tok_decode_spm(const char *s, size_t len, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '\xe2' && len - i >= 3 && s[i + 1] == '\x96' && s[i + 2] == '\x81') {
            out[n++] = ' ';
            i += 2;
        } else {
            out[n++] = s[i];
        }
    }
    return n;
}

size_t kt__tok_decode_wordpiece(const char *s, size_t len, char *out) {
    static const char block[] = "\xe2\x96\x81";
    size_t n = len > 3 && memcmp(s, block, 3) == 0 ? 3 : 0;
    if (n) *out++ = ' ';
    if (len > n) memcpy(out, s + n, len - n);
    return n ? len - 2 : len;
}

int kt__tok_parse_byte(const char *s, size_t len) {
    if (len != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    int high = kt__hex_digit(s[3]), low = kt__hex_digit(s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool kt__tok_is_turn_mark(kt__str text) {
    static const char *const marks[] = {"<start_of_turn>", "<end_of_turn>",   "[INST]",
                                        "[/INST]",         "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"};
    static const char *const begins[] = {"<|", "<｜", "[|"}, *const ends[] = {"|>", "｜>", "|]"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (kt__tok_equals(text, marks[i])) return true;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t n = strlen(begins[i]);
        bool closed = text.len > n && text.s[text.len - 1] == ends[i][n - 1];
        if (closed &&
            (memcmp(text.s, begins[i], n) == 0 || memcmp(text.s + text.len - n, ends[i], n) == 0))
            return true;
    }
    return false;
}

static kt_status read_attr(kt__tokenizer *tok, const kt__tok_source *src, size_t i, kt__str text,
                           kt_error *err) {
    char shown[KT__TOK_SHOWN];
    int64_t type = KT__TOK_NORMAL;
    if (src->types_kv)
        type = kt__gguf_array_i64(src->types_kv, i);
    else if (src->types)
        type = src->types[i];
    else if (tok->spm && kt__tok_parse_byte(text.s, text.len) >= 0)
        type = KT__TOK_BYTE;
    if (type < KT__TOK_UNDEFINED || type > KT__TOK_BYTE)
        return kt__fail_at(err, KT_E_FORMAT, src->path, UINT64_MAX,
                           "tokenizer.ggml.token_type[%zu] is %lld; 0 to 6 are expected", i,
                           (long long)type);
    if (text.len > KT__TOK_MAX_TOKEN_BYTES)
        return kt__fail_at(err, KT_E_LIMIT, src->path, UINT64_MAX,
                           "tokenizer.ggml.tokens[%zu] has %zu bytes; at most %d are supported", i,
                           text.len, KT__TOK_MAX_TOKEN_BYTES);
    if (type == KT__TOK_BYTE && kt__tok_parse_byte(text.s, text.len) < 0) {
        if (tok->spm)
            return kt__fail_at(err, KT_E_FORMAT, src->path, UINT64_MAX,
                               "tokenizer.ggml.tokens[%zu] is \"%s\", of type byte; a text such as "
                               "<0x0A> is expected",
                               i, kt__tok_show(text, shown));
        type = KT__TOK_NORMAL;
    }
    tok->attr[i] = (uint8_t)type;
    return KT_OK;
}

/* Writes what token i decodes to; at most text.len bytes. */
static size_t decode_token(kt__tokenizer *tok, size_t i, kt__str text, char *out) {
    size_t n = SIZE_MAX;
    if (tok->attr[i] == KT__TOK_BYTE) {
        out[0] = (char)kt__tok_parse_byte(text.s, text.len);
        return 1;
    }
    bool plain = tok->attr[i] == KT__TOK_NORMAL || tok->attr[i] == KT__TOK_UNUSED;
    if (tok->spm && (plain || tok->attr[i] == KT__TOK_USER_DEFINED)) {
        /* A space as such: an added token, found in the text before merging. */
        bool added = memchr(text.s, ' ', text.len) != NULL;
        if (added || (!plain && kt__tok_is_turn_mark(text))) tok->attr[i] |= KT__TOK_NO_MERGE;
        n = tok->method == KT__TOK_WORDPIECE ? kt__tok_decode_wordpiece(text.s, text.len, out)
                                             : kt__tok_decode_spm(text.s, text.len, out);
    } else if (plain) {
        n = kt__tok_decode_gpt2(text.s, text.len, out);
    }
    if (n != SIZE_MAX) return n;
    if (text.len) memcpy(out, text.s, text.len);
    return text.len;
}

/* At least the bytes of all texts together. */
static size_t texts_bound(const kt__tok_source *src) {
    size_t total = 0;
    if (src->tokens_kv) {
        kt__str last = kt__gguf_array_str(src->tokens_kv, src->n_tokens - 1);
        return (size_t)((const uint8_t *)last.s - src->tokens_kv->data) + last.len;
    }
    for (size_t i = 0; i < src->n_tokens; i++) total += src->tokens[i].len;
    return total;
}

static kt_status build_bytes(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    size_t n = src->n_tokens, bound = texts_bound(src), at = 0;
    if (bound > UINT32_MAX)
        return kt__fail_at(err, KT_E_LIMIT, src->path, UINT64_MAX,
                           "the tokens' texts have over 4 GB");
    tok->attr = kt__malloc(n);
    tok->offset = kt__malloc((n + 1) * sizeof *tok->offset);
    tok->bytes = kt__malloc(bound + 16);
    if (!tok->attr || !tok->offset || !tok->bytes) return kt__fail_nomem(err, "tokens", bound);
    for (size_t i = 0; i < n; i++) {
        kt__str text = kt__tok_source_token(src, i);
        kt_status status = read_attr(tok, src, i, text, err);
        if (status != KT_OK) return status;
        tok->offset[i] = (uint32_t)at;
        at += decode_token(tok, i, text, tok->bytes + at);
    }
    tok->offset[n] = (uint32_t)at;
    memset(tok->bytes + at, 0, 16);
    char *shrunk = kt__realloc_array(tok->bytes, at + 16, 1);
    if (shrunk) tok->bytes = shrunk;
    return KT_OK;
}

/* ---- bytes to ids ---- */

static unsigned table_bits(size_t n) {
    unsigned bits = 4;
    while (((size_t)1 << bits) < 2 * n) bits++;
    return bits;
}

/* From the last token to the first: of equal texts the probe meets the last one first, which is the
 * one that counts. */
static void insert_tokens(kt__tokenizer *tok, const uint64_t *hashes) {
    enum { AHEAD = 16 };
    size_t mask = ((size_t)1 << tok->slot_bits) - 1;
    for (size_t i = tok->n_vocab; i-- > 0;) {
        if (i >= AHEAD) __builtin_prefetch(&tok->slots[hashes[i - AHEAD] & mask], 1);
        size_t at = hashes[i] & mask;
        while (tok->slots[at].id1) at = (at + 1) & mask;
        tok->slots[at] = (kt__tok_slot){(uint32_t)(hashes[i] >> 32), (uint32_t)i + 1};
    }
}

static kt_status build_slots(kt__tokenizer *tok, kt_error *err) {
    size_t n = tok->n_vocab;
    tok->slot_bits = table_bits(n);
    tok->slots = kt__calloc_written((size_t)1 << tok->slot_bits, sizeof *tok->slots);
    uint64_t *hashes = kt__malloc(n * sizeof *hashes);
    if (!tok->slots || !hashes) {
        kt__free(hashes);
        return kt__fail_nomem(err, "token table", n * sizeof *hashes);
    }
    for (size_t i = 0; i < n; i++) {
        kt__str b = kt__tok_bytes(tok, i);
        hashes[i] = kt__tok_hash(tok->seed, b.s, b.len);
        if (kt__tok_mergeable(tok, i) && b.len > tok->max_bytes) tok->max_bytes = b.len;
    }
    insert_tokens(tok, hashes);
    kt__free(hashes);
    return KT_OK;
}

int32_t kt__tok_lookup(const kt__tokenizer *tok, uint64_t hash, const char *s, size_t len) {
    size_t mask = ((size_t)1 << tok->slot_bits) - 1;
    uint32_t tag = (uint32_t)(hash >> 32);
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        kt__tok_slot slot = tok->slots[at];
        if (!slot.id1) return -1;
        if (slot.tag != tag) continue;
        size_t id = slot.id1 - 1;
        kt__str b = kt__tok_bytes(tok, id);
        if (b.len == len && memcmp(b.s, s, len) == 0 && kt__tok_mergeable(tok, id))
            return (int32_t)id;
    }
}

static void build_byte_ids(kt__tokenizer *tok, const kt__tok_source *src) {
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        tok->byte_id[b] = tok->spm ? -1
                                   : kt__tok_lookup(tok, kt__tok_hash(tok->seed, &c, 1), &c, 1);
    }
    if (!tok->spm) return;
    for (size_t i = 0; i < tok->n_vocab; i++) {
        kt__str text = kt__tok_source_token(src, i);
        int b = text.len == 6 ? kt__tok_parse_byte(text.s, text.len) : -1;
        if (b >= 0) tok->byte_id[b] = (int32_t)i;
    }
}

/* ---- merges ---- */

static size_t merge_slot_of(const kt__tokenizer *tok, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)(kt__tok_mix(key ^ tok->seed, 0x9e3779b97f4a7c15u) >> (64 - tok->merge_bits));
}

const kt__merge_slot *kt__tok_merge(const kt__tokenizer *tok, int32_t left, int32_t right) {
    size_t mask = ((size_t)1 << tok->merge_bits) - 1;
    for (size_t at = merge_slot_of(tok, left, right);; at = (at + 1) & mask) {
        const kt__merge_slot *slot = &tok->merges[at];
        if (!slot->left1 || (slot->left1 == left + 1 && slot->right == right)) return slot;
    }
}

/* Of two equal merges the later one counts. */
static void insert_merge(kt__tokenizer *tok, int32_t left, int32_t right, uint32_t rank,
                         int32_t id) {
    size_t mask = ((size_t)1 << tok->merge_bits) - 1, at = merge_slot_of(tok, left, right);
    while (tok->merges[at].left1 &&
           !(tok->merges[at].left1 == left + 1 && tok->merges[at].right == right))
        at = (at + 1) & mask;
    tok->merges[at] = (kt__merge_slot){left + 1, right, rank, (uint32_t)id};
}

/* A merge on its way into the table. Blocks of them go through the steps together, and each step
 * asks for the memory that the next one reads: the tables are larger than the caches. */
typedef struct pending_merge {
    uint64_t left_hash, right_hash;
    char *bytes; /* left, then right */
    uint32_t left_len, right_len;
    int32_t left, right, id; /* -1: no token */
    bool known;              /* in the byte alphabet */
} pending_merge;

enum { MERGE_BLOCK = 32 };

static kt_status split_merge(const kt__tok_source *src, size_t i, kt__str *left, kt__str *right,
                             kt_error *err) {
    char shown[KT__TOK_SHOWN];
    kt__str merge = kt__tok_source_merge(src, i);
    const char *space = merge.len > 1 ? memchr(merge.s + 1, ' ', merge.len - 1) : NULL;
    if (!space || space + 1 == merge.s + merge.len || merge.s[0] == ' ' ||
        merge.len > 2 * KT__TOK_MAX_TOKEN_BYTES + 1)
        return kt__fail_at(err, KT_E_FORMAT, src->path, UINT64_MAX,
                           "tokenizer.ggml.merges[%zu] is \"%s\"; two texts with a space between "
                           "are expected",
                           i, kt__tok_show(merge, shown));
    *left = (kt__str){merge.s, (size_t)(space - merge.s)};
    *right = (kt__str){space + 1, merge.len - left->len - 1};
    return KT_OK;
}

static kt_status prepare_merge(const kt__tokenizer *tok, const kt__tok_source *src, size_t i,
                               pending_merge *m, kt_error *err) {
    kt__str left = {0}, right = {0};
    kt_status status = split_merge(src, i, &left, &right, err);
    if (status != KT_OK) return status;
    size_t (*decode)(const char *, size_t, char *) = tok->spm ? kt__tok_decode_spm
                                                              : kt__tok_decode_gpt2;
    size_t n = decode(left.s, left.len, m->bytes);
    size_t n2 = n == SIZE_MAX ? n : decode(right.s, right.len, m->bytes + n);
    m->known = n2 != SIZE_MAX;
    if (!m->known) return KT_OK;
    m->left_len = (uint32_t)n;
    m->right_len = (uint32_t)n2;
    m->left_hash = kt__tok_hash(tok->seed, m->bytes, n);
    m->right_hash = kt__tok_hash(tok->seed, m->bytes + n, n2);
    size_t mask = ((size_t)1 << tok->slot_bits) - 1;
    __builtin_prefetch(&tok->slots[m->left_hash & mask]);
    __builtin_prefetch(&tok->slots[m->right_hash & mask]);
    return KT_OK;
}

/* The token in the slot where the probe begins: usually the one that will be found. */
static size_t likely_token(const kt__tokenizer *tok, uint64_t hash) {
    kt__tok_slot slot = tok->slots[hash & (((size_t)1 << tok->slot_bits) - 1)];
    return slot.id1 ? slot.id1 - 1 : 0;
}

static void prefetch_tokens(const kt__tokenizer *tok, const pending_merge *block, size_t n) {
    for (size_t k = 0; k < n; k++) {
        if (!block[k].known) continue;
        __builtin_prefetch(&tok->offset[likely_token(tok, block[k].left_hash)]);
        __builtin_prefetch(&tok->offset[likely_token(tok, block[k].right_hash)]);
    }
    for (size_t k = 0; k < n; k++) {
        if (!block[k].known) continue;
        __builtin_prefetch(tok->bytes + tok->offset[likely_token(tok, block[k].left_hash)]);
        __builtin_prefetch(tok->bytes + tok->offset[likely_token(tok, block[k].right_hash)]);
    }
}

/* The merged token; most vocabularies number their tokens in the order of the merges, so the one
 * after the last is tried first. */
static int32_t merged_token(const kt__tokenizer *tok, const char *s, size_t len, int32_t guess) {
    if (guess >= 0 && (size_t)guess < tok->n_vocab && kt__tok_mergeable(tok, (size_t)guess)) {
        kt__str b = kt__tok_bytes(tok, (size_t)guess);
        if (b.len == len && memcmp(b.s, s, len) == 0) return guess;
    }
    return kt__tok_lookup(tok, kt__tok_hash(tok->seed, s, len), s, len);
}

static void find_tokens(const kt__tokenizer *tok, pending_merge *m, int32_t *last_id) {
    m->left = m->right = m->id = -1;
    if (m->known) m->left = kt__tok_lookup(tok, m->left_hash, m->bytes, m->left_len);
    if (m->left >= 0)
        m->right = kt__tok_lookup(tok, m->right_hash, m->bytes + m->left_len, m->right_len);
    if (m->right >= 0)
        m->id = merged_token(tok, m->bytes, (size_t)m->left_len + m->right_len, *last_id + 1);
    if (m->id < 0) return;
    *last_id = m->id;
    __builtin_prefetch(&tok->merges[merge_slot_of(tok, m->left, m->right)], 1);
}

/* Merges i .. i+n-1; returns how many are of no use. */
static size_t insert_block(kt__tokenizer *tok, pending_merge *block, size_t i, size_t n,
                           int32_t *last_id) {
    size_t useless = 0;
    prefetch_tokens(tok, block, n);
    for (size_t k = 0; k < n; k++) find_tokens(tok, &block[k], last_id);
    for (size_t k = 0; k < n; k++) {
        if (block[k].id < 0)
            useless++;
        else
            insert_merge(tok, block[k].left, block[k].right, (uint32_t)(i + k), block[k].id);
    }
    return useless;
}

/* Room for the bytes of a block of merges. */
static kt_status reserve_block(const kt__tok_source *src, size_t i, size_t n, kt__buf *buf,
                               pending_merge *block, kt_error *err) {
    size_t need = 0, at = 0;
    for (size_t k = 0; k < n; k++) need += kt__tok_source_merge(src, i + k).len;
    kt__buf_clear(buf);
    if (!kt__buf_reserve(buf, need)) return kt__fail_nomem(err, "merges", need);
    for (size_t k = 0; k < n; k++) {
        block[k].bytes = buf->data + at;
        at += kt__tok_source_merge(src, i + k).len;
    }
    return KT_OK;
}

/* Is there a token that only merges make? */
static bool has_merged_tokens(const kt__tokenizer *tok) {
    for (size_t i = 0; i < tok->n_vocab; i++)
        if (tok->attr[i] == KT__TOK_NORMAL && kt__tok_bytes(tok, i).len > 1) return true;
    return false;
}

static kt_status build_merges(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    if (src->n_merges == 0 && (tok->by_merges || has_merged_tokens(tok)))
        return kt__fail_at(err, KT_E_FORMAT, src->path, UINT64_MAX,
                           "key tokenizer.ggml.merges is missing; a vocabulary of the model \"%s\" "
                           "needs merges",
                           tok->kind);
    kt_status status = KT_OK;
    pending_merge block[MERGE_BLOCK];
    int32_t last_id = -1;
    size_t useless = 0;
    kt__buf buf;
    kt__buf_init(&buf, SIZE_MAX / 2);
    tok->merge_bits = table_bits(src->n_merges);
    tok->merges = kt__calloc_written((size_t)1 << tok->merge_bits, sizeof *tok->merges);
    if (!tok->merges) return kt__fail_nomem(err, "merges", src->n_merges * sizeof *tok->merges);
    for (size_t i = 0; i < src->n_merges; i += MERGE_BLOCK) {
        size_t n = src->n_merges - i < MERGE_BLOCK ? src->n_merges - i : MERGE_BLOCK;
        KT__TRY(reserve_block(src, i, n, &buf, block, err));
        for (size_t k = 0; k < n; k++) KT__TRY(prepare_merge(tok, src, i + k, &block[k], err));
        useless += insert_block(tok, block, i, n, &last_id);
    }
    if (useless)
        tok->warning =
            "some merges of the vocabulary name texts that are no tokens; they are ignored";
out:
    kt__buf_free(&buf);
    return status;
}

/* ---- SentencePiece ---- */

static kt_status build_scores(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    if (!src->scores_kv && !src->scores)
        return kt__fail_at(err, KT_E_FORMAT, src->path, UINT64_MAX,
                           "key tokenizer.ggml.scores is missing; a vocabulary of the model "
                           "\"%s\" needs one score a token",
                           tok->kind);
    tok->scores = kt__malloc(tok->n_vocab * sizeof *tok->scores);
    if (!tok->scores) return kt__fail_nomem(err, "scores", tok->n_vocab * sizeof *tok->scores);
    for (size_t i = 0; i < tok->n_vocab; i++) {
        float score = src->scores_kv ? kt__gguf_array_f32(src->scores_kv, i) : src->scores[i];
        if (isnan(score))
            return kt__fail_at(err, KT_E_FORMAT, src->path, UINT64_MAX,
                               "tokenizer.ggml.scores[%zu] is not a number", i);
        tok->scores[i] = score;
    }
    return KT_OK;
}

/* Without a token that holds a space after something else, merging never crosses from a word into
 * the space before the next, and words can be merged one by one. */
static bool has_inner_space(const kt__tokenizer *tok) {
    for (size_t i = 0; i < tok->n_vocab; i++) {
        if (!kt__tok_mergeable(tok, i)) continue;
        kt__str b = kt__tok_bytes(tok, i);
        size_t lead = 0;
        while (lead < b.len && b.s[lead] == ' ') lead++;
        if (lead < b.len && memchr(b.s + lead, ' ', b.len - lead)) return true;
    }
    return false;
}

/* ---- the least number of tokens of a text ---- */

/* Text may be longer than what its tokens decode to: U+2581 is taken for a space, and NFC makes three
 * bytes of at most nine (Hangul, Greek with its marks). */
static size_t longest_text_of_a_byte(const kt__tokenizer *tok) {
    if (tok->spm) return 3;
    return tok->pre && tok->pre->nfc ? 4 : 1;
}

static size_t count_bytes_per_id(const kt__tokenizer *tok) {
    size_t most = 0;
    if (tok->has_strips) return 0; /* any number of blanks goes with a special token */
    if (tok->method != KT__TOK_MERGES) return 0; /* so does what normalisation drops */
    for (int i = 0; i < 256; i++) {
        if (tok->byte_id[i] < 0) return 0; /* bytes without a token are dropped */
    }
    for (size_t i = 0; i < tok->n_vocab; i++) {
        kt__str b = kt__tok_bytes(tok, i);
        if (b.len > most) most = b.len;
    }
    return most * longest_text_of_a_byte(tok);
}

/* ---- whole pieces ---- */

static kt_status build_pieces(kt__tokenizer *tok, const char *path, kt_error *err) {
    kt__piece_index *p = &tok->pieces;
    size_t bytes = tok->n_vocab * sizeof *p->ids;
    *p = (kt__piece_index){.bytes = tok->bytes, .offset = tok->offset, .ids = kt__malloc(bytes)};
    if (!p->ids) return kt__fail_nomem(err, "pieces", bytes);
    for (size_t i = 0; i < tok->n_vocab; i++) {
        kt__str b = kt__tok_bytes(tok, i);
        if (!kt__tok_mergeable(tok, i) || b.len == 0) continue;
        if (b.len > KT__PIECE_MAX_BYTES)
            return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                               "tokenizer.ggml.tokens[%zu] is a piece of %zu bytes; at most %d are "
                               "supported",
                               i, b.len, KT__PIECE_MAX_BYTES);
        p->ids[p->n++] = (uint32_t)i;
    }
    kt__piece_index_sort(p);
    return KT_OK;
}

/* What is unknown costs 10 more than the worst piece, as in SentencePiece. */
static kt_status build_unigram(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    const double penalty = 10.0;
    double least = INFINITY;
    for (size_t i = 0; i < tok->n_vocab; i++)
        if (kt__tok_attr_of(tok, i) == KT__TOK_NORMAL && (double)tok->scores[i] < least)
            least = (double)tok->scores[i];
    tok->unknown_score = (isfinite(least) ? least : 0.0) - penalty;
    tok->has_bytes = true;
    for (int b = 0; b < 256; b++) tok->has_bytes = tok->has_bytes && tok->byte_id[b] >= 0;
    return kt__charsmap_init(&tok->charsmap, src->charsmap, src->path, err);
}

/* ---- all of it ---- */

kt_status kt__tok_build(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    kt_status status;
    KT__TRY(build_bytes(tok, src, err));
    KT__TRY(build_slots(tok, err));
    build_byte_ids(tok, src);
    if (tok->method != KT__TOK_MERGES) KT__TRY(build_pieces(tok, src->path, err));
    if (tok->spm && tok->method != KT__TOK_WORDPIECE) {
        if (!tok->by_merges) KT__TRY(build_scores(tok, src, err));
        tok->inner_space = has_inner_space(tok);
    }
    if (tok->method == KT__TOK_UNIGRAM) KT__TRY(build_unigram(tok, src, err));
    if (!tok->spm || tok->by_merges) KT__TRY(build_merges(tok, src, err));
    tok->bytes_per_id = count_bytes_per_id(tok);
    tok->whole = kt__calloc(tok->n_vocab, sizeof *tok->whole);
    if (!tok->whole) status = kt__fail_nomem(err, "token bits", tok->n_vocab);
out:
    return status;
}
