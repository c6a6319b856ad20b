/* SentencePiece-type vocabularies: the best score first, over whole stretches of text ("llama"); or the
 * first of a list of merges, over lines ("gemma4").
 *
 * Texts are handled with plain spaces: U+2581 means a space in the vocabulary and was turned
 * into one at load; in a text it means a space, too. */
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode.h"

static const char lower_block[] = "\xe2\x96\x81";

/* The text with U+2581 as spaces and the prefix space, in the arena where it differs from s. */
static kt_status with_spaces(kt__encoder *enc, const char **s, size_t *len) {
    bool prefix = enc->tok->add_space_prefix;
    if (!prefix && !memmem(*s, *len, lower_block, 3)) return KT_OK;
    char *copy = kt__arena_alloc(&enc->arena, *len + 1);
    if (!copy) return kt__fail_nomem(enc->err, "text", *len + 1);
    size_t n = 0;
    if (prefix) copy[n++] = ' ';
    for (size_t i = 0; i < *len; i++) {
        bool block = (*s)[i] == lower_block[0] && *len - i >= 3 &&
                     memcmp(*s + i, lower_block, 3) == 0;
        copy[n++] = block ? ' ' : (*s)[i];
        if (block) i += 2;
    }
    *s = copy;
    *len = n;
    return KT_OK;
}

/* Spaces and what follows them up to the next space. */
static size_t word_end(const char *s, size_t len, size_t i) {
    while (i < len && s[i] == ' ') i++;
    const char *space = i < len ? memchr(s + i, ' ', len - i) : NULL;
    return space ? (size_t)(space - s) : len;
}

static kt_status encode_words(kt__encoder *enc, const char *s, size_t len) {
    for (size_t i = 0, end; i < len; i = end) {
        end = enc->tok->inner_space ? len : word_end(s, len, i);
        KT__STEP(kt__word_encode(enc, s + i, end - i));
    }
    return KT_OK;
}

/* A run of line ends that is a token is that token, whatever the merges say. */
static kt_status encode_line_ends(kt__encoder *enc, const char *s, size_t len) {
    const kt__tokenizer *tok = enc->tok;
    int32_t id = kt__tok_lookup(tok, kt__tok_hash(tok->seed, s, len), s, len);
    return id >= 0 ? kt__ids_push(enc->ids, id, enc->err) : kt__word_encode(enc, s, len);
}

/* Lines and the runs of line ends between them. */
static kt_status encode_lines(kt__encoder *enc, const char *s, size_t len) {
    for (size_t i = 0, end; i < len; i = end) {
        bool line_end = s[i] == '\n';
        for (end = i + 1; end < len && (s[end] == '\n') == line_end;) end++;
        KT__STEP((line_end ? encode_line_ends : encode_words)(enc, s + i, end - i));
    }
    return KT_OK;
}

kt_status kt__spm_encode(kt__encoder *enc, const char *s, size_t len) {
    kt_status status = with_spaces(enc, &s, &len);
    if (status != KT_OK) return status;
    return (enc->tok->by_merges ? encode_lines : encode_words)(enc, s, len);
}

/* Unigram vocabularies ("t5"): of all ways to write a word in pieces the one whose scores have the
 * greatest sum.
 *
 * Texts are normalised by the file's character map and handled with plain spaces, as in spm.c: one
 * before the first word and one between words. What no piece begins with is unknown, a run of it at
 * once; its bytes, where the vocabulary has tokens for all of them. Sums are in double precision;
 * of equal ones that whose last piece begins first counts. */

static const char replacement[] = "\xef\xbf\xbd";

/* ---- normalisation ---- */

/* Written so far: whether a space is owed before the next character. */
typedef struct spaced {
    const kt__tokenizer *tok;
    kt__buf *out;
    bool in_word;
} spaced;

/* U+2581 in a text is a space of the vocabulary's, which is never taken for an extra one. */
static bool put_character(spaced *sp, const char *s, size_t n) {
    bool block = n == 3 && memcmp(s, lower_block, 3) == 0;
    bool first = sp->out->len == 0;
    bool owed = first ? sp->tok->add_space_prefix : sp->tok->remove_extra_spaces;
    if (!sp->in_word && owed && !block && !kt__buf_append(sp->out, " ", 1)) return false;
    sp->in_word = true;
    return kt__buf_append(sp->out, block ? " " : s, block ? 1 : n);
}

static bool put_normalised(spaced *sp, const char *s, size_t len) {
    size_t n;
    for (size_t i = 0; i < len; i += n) {
        uint32_t cp;
        uint8_t cls = kt__unicode_next(s + i, len - i, &n, &cp);
        bool space = sp->tok->remove_extra_spaces ? cls & KT__UC_SPACE : s[i] == ' ';
        if (!space) {
            bool broken = cp == UINT32_MAX;
            if (!put_character(sp, broken ? replacement : s + i, broken ? 3 : n)) return false;
            continue;
        }
        sp->in_word = false;
        if (sp->tok->remove_extra_spaces) continue;
        if (sp->out->len == 0 && sp->tok->add_space_prefix && !kt__buf_append(sp->out, " ", 1))
            return false;
        if (!kt__buf_append(sp->out, " ", 1)) return false;
    }
    return true;
}

static kt_status normalise_text(kt__encoder *enc, const char *s, size_t len, kt__buf *out) {
    spaced sp = {.tok = enc->tok, .out = out};
    bool ok = true;
    for (size_t i = 0, n; ok && i < len; i += n) {
        kt__str text;
        uint32_t cp;
        n = kt__charsmap_match(&enc->tok->charsmap, s + i, len - i, &text);
        if (n > 0) {
            ok = put_normalised(&sp, text.s, text.len);
        } else {
            (void)kt__unicode_next(s + i, len - i, &n, &cp);
            ok = put_normalised(&sp, s + i, n);
        }
    }
    return ok ? KT_OK : kt__fail_nomem(enc->err, "normalisation", len);
}

/* ---- the best pieces of a word ---- */

/* The best way to write the word up to here: its sum, and its last piece. */
typedef struct best_end {
    double sum;
    uint32_t begin;
    int32_t id; /* -1: unknown */
    bool reached;
} best_end;

static void offer_end(best_end *end, double sum, size_t begin, int32_t id) {
    if (end->reached && sum <= end->sum) return;
    *end = (best_end){sum, (uint32_t)begin, id, true};
}

static void walk_pieces(const kt__tokenizer *tok, const char *s, size_t len, size_t begin,
                        size_t n_char, best_end *ends) {
    kt__piece_walk walk = {.index = &tok->pieces};
    bool whole_character = false;
    double sum = ends[begin].sum;
    for (size_t i = begin; i < len && kt__piece_index_step(&walk, (unsigned char)s[i]); i++) {
        int32_t id = kt__piece_index_at(&walk);
        if (id < 0) continue;
        bool given = kt__tok_attr_of(tok, (size_t)id) == KT__TOK_USER_DEFINED;
        offer_end(&ends[i + 1], sum + (given ? 0.0 : (double)tok->scores[id]), begin, id);
        whole_character |= i + 1 - begin == n_char;
    }
    if (!whole_character) offer_end(&ends[begin + n_char], sum + tok->unknown_score, begin, -1);
}

static kt_status push_unknown(kt__encoder *enc, const char *s, size_t len) {
    const kt__tokenizer *tok = enc->tok;
    if (!tok->has_bytes) return kt__ids_push(enc->ids, tok->role_ids[KT__ROLE_UNK], enc->err);
    kt_status status = KT_OK;
    for (size_t i = 0; i < len && status == KT_OK; i++)
        status = kt__ids_push(enc->ids, tok->byte_id[(unsigned char)s[i]], enc->err);
    return status;
}

/* The path back from the end, turned round in `begin`: afterwards ends[b].begin is the end of the
 * piece that begins at b, and ends[b].id that piece. */
static void turn_round(best_end *ends, size_t len) {
    size_t end = len;
    uint32_t after = (uint32_t)len;
    int32_t id = -1;
    for (;;) {
        best_end here = ends[end];
        ends[end].begin = after;
        ends[end].id = id;
        if (end == 0) return;
        after = (uint32_t)end;
        id = here.id;
        end = here.begin;
    }
}

static kt_status push_path(kt__encoder *enc, const char *s, size_t len, best_end *ends) {
    kt_status status = KT_OK;
    turn_round(ends, len);
    for (size_t at = 0; at < len && status == KT_OK;) {
        size_t begin = at;
        int32_t id = ends[at].id;
        do at = ends[at].begin;
        while (id < 0 && at < len && ends[at].id < 0);
        status = id < 0 ? push_unknown(enc, s + begin, at - begin)
                        : kt__ids_push(enc->ids, id, enc->err);
    }
    return status;
}

static kt_status encode_word(kt__encoder *enc, const char *s, size_t len) {
    size_t bytes = (len + 1) * sizeof(best_end), n;
    best_end few[128], *ends = len < 128 ? few : kt__malloc(bytes);
    if (!ends) return kt__fail_nomem(enc->err, "pieces of a word", bytes);
    for (size_t i = 0; i <= len; i++) ends[i].reached = false;
    ends[0] = (best_end){.reached = true};
    for (size_t i = 0; i < len; i += n) {
        uint32_t cp;
        (void)kt__unicode_next(s + i, len - i, &n, &cp);
        if (ends[i].reached) walk_pieces(enc->tok, s, len, i, n, ends);
    }
    kt_status status = push_path(enc, s, len, ends);
    if (ends != few) kt__free(ends);
    return status;
}

/* Spaces and what follows them up to the next space. */
static size_t unigram_word_end(const char *s, size_t len, size_t i) {
    while (i < len && s[i] == ' ') i++;
    const char *space = i < len ? memchr(s + i, ' ', len - i) : NULL;
    return space ? (size_t)(space - s) : len;
}

kt_status kt__unigram_encode(kt__encoder *enc, const char *s, size_t len) {
    kt__buf text;
    kt__buf_init(&text, INT32_MAX);
    kt_status status = normalise_text(enc, s, len, &text);
    for (size_t i = 0, end; i < text.len && status == KT_OK; i = end) {
        end = enc->tok->inner_space ? text.len : unigram_word_end(text.data, text.len, i);
        status = encode_word(enc, text.data + i, end - i);
    }
    kt__buf_free(&text);
    return status;
}
