/* Texts to ids: control tokens where they are recognised, and the stretches between them. */
#include <string.h>

#include "base/error.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode.h"

enum { MAX_TEXT = INT32_MAX }; /* bytes of one text */

static void encoder_free(kt__encoder *enc) {
    kt__free(enc->memo);
    kt__free(enc->symbols);
    kt__free(enc->heap);
    kt__arena_free(&enc->arena);
}

static kt_status encode_stretch(kt__encoder *enc, const char *s, size_t len) {
    if (len == 0) return KT_OK;
    enc->stretch_ids = enc->ids->len;
    switch (enc->tok->method) {
    case KT__TOK_WORDPIECE: return kt__wordpiece_encode(enc, s, len);
    case KT__TOK_UNIGRAM: return kt__unigram_encode(enc, s, len);
    default: return enc->tok->spm ? kt__spm_encode(enc, s, len) : kt__bpe_encode(enc, s, len);
    }
}

/* Where the white space from `at` on ends. */
static size_t skip_spaces(const char *s, size_t len, size_t at) {
    size_t n;
    uint32_t cp;
    while (at < len && (kt__unicode_next(s + at, len - at, &n, &cp) & KT__UC_SPACE)) at += n;
    return at;
}

/* Where the white space before `end` begins, from `at` on. */
static size_t spaces_before(const char *s, size_t at, size_t end) {
    size_t begin = end;
    while (begin > at) {
        size_t n, back = begin - 1;
        uint32_t cp;
        while (back > at && begin - back < 4 && ((unsigned char)s[back] & 0xc0) == 0x80) back--;
        bool space = kt__unicode_next(s + back, begin - back, &n, &cp) & KT__UC_SPACE;
        if (!space || n != begin - back) break;
        begin = back;
    }
    return begin;
}

/* A text and where control tokens are recognised in it. */
typedef struct input {
    const char *s;
    size_t len;
    const kt__special_range *ranges;
    size_t n_ranges;
    bool add_bos, add_eos;
} input;

static kt_status encode_parts(kt__encoder *enc, const input *in) {
    kt__special_match match;
    size_t range = 0;
    for (size_t at = 0; at < in->len;) {
        bool found = kt__special_find(enc->tok->special, in->s, in->len, at, in->ranges,
                                      in->n_ranges, &range, &match);
        size_t end = found ? match.begin : in->len;
        if (found && match.strips & KT__TOK_LSTRIP) end = spaces_before(in->s, at, end);
        KT__STEP(encode_stretch(enc, in->s + at, end - at));
        if (!found) break;
        KT__STEP(kt__ids_push(enc->ids, match.id, enc->err));
        at = match.strips & KT__TOK_RSTRIP ? skip_spaces(in->s, in->len, match.end) : match.end;
    }
    return KT_OK;
}

static kt_status encode_input(const kt__tokenizer *tok, const input *in, kt__ids *ids,
                              kt_error *err) {
    kt_status status = KT_OK;
    size_t before = ids->len;
    kt__encoder enc = {.tok = tok, .ids = ids, .err = err};
    kt__arena_init(&enc.arena, 4096, SIZE_MAX / 2);
    if (in->len > MAX_TEXT)
        return kt__fail(err, KT_E_LIMIT, "a text of %zu bytes; at most %d are encoded at once",
                        in->len, MAX_TEXT);
    /* Where there is no memory for the memo, encoding is only slower. */
    if (in->len >= KT__MEMO_MIN_TEXT)
        enc.memo = kt__calloc((size_t)1 << KT__MEMO_BITS, sizeof *enc.memo);
    if (in->add_bos) KT__TRY(kt__ids_push(ids, tok->role_ids[KT__ROLE_BOS], err));
    KT__TRY(encode_parts(&enc, in));
    if (in->add_eos) KT__TRY(kt__ids_push(ids, tok->role_ids[KT__ROLE_EOS], err));
out:
    if (status != KT_OK) ids->len = before;
    encoder_free(&enc);
    return status;
}

static void set_bos_eos(const kt__tokenizer *tok, unsigned flags, input *in) {
    if (!(flags & KT_TOK_ADD_SPECIAL)) return;
    in->add_bos = tok->add_bos && tok->role_ids[KT__ROLE_BOS] >= 0;
    in->add_eos = tok->add_eos && tok->role_ids[KT__ROLE_EOS] >= 0;
}

kt_status kt__tokenizer_encode(const kt__tokenizer *tok, const char *text, size_t len,
                               unsigned flags, kt__ids *ids, kt_error *err) {
    kt__special_range all = {0, len};
    input in = {text, len, &all, (flags & KT_TOK_PARSE_SPECIAL) ? 1 : 0, false, false};
    set_bos_eos(tok, flags, &in);
    return encode_input(tok, &in, ids, err);
}

/* ---- segments ---- */

/* One text of all segments, and the ranges that the template wrote, adjacent ones joined. */
static void join_segments(const kt__tok_segment *segments, size_t n, char *text,
                          kt__special_range *ranges, size_t *n_ranges) {
    size_t at = 0, k = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len = segments[i].len;
        if (len == 0) continue;
        memcpy(text + at, segments[i].s, len);
        if (segments[i].from_template) {
            if (k > 0 && ranges[k - 1].end == at)
                ranges[k - 1].end = at + len;
            else
                ranges[k++] = (kt__special_range){at, at + len};
        }
        at += len;
    }
    *n_ranges = k;
}

static bool begins_with_bos(const kt__tokenizer *tok, const input *in) {
    kt__special_match match;
    size_t range = 0;
    return kt__special_find(tok->special, in->s, in->len, 0, in->ranges, in->n_ranges, &range,
                            &match) &&
           match.begin == 0 && match.id == tok->role_ids[KT__ROLE_BOS];
}

kt_status kt__tokenizer_encode_segments(const kt__tokenizer *tok, const kt__tok_segment *segments,
                                        size_t n, unsigned flags, kt__ids *ids, kt_error *err) {
    kt_status status;
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        if (!kt__add_size(len, segments[i].len, &len))
            return kt__fail(err, KT_E_LIMIT, "a prompt of more bytes than memory has");
    char *text = kt__malloc(len);
    kt__special_range *ranges = kt__realloc_array(NULL, n, sizeof *ranges);
    if (!text || !ranges) {
        status = kt__fail_nomem(err, "prompt", len);
        goto out;
    }
    input in = {.s = text, .len = len, .ranges = ranges};
    join_segments(segments, n, text, ranges, &in.n_ranges);
    set_bos_eos(tok, flags, &in);
    if (in.add_bos && begins_with_bos(tok, &in)) in.add_bos = false;
    status = encode_input(tok, &in, ids, err);
out:
    kt__free(text);
    kt__free(ranges);
    return status;
}

/* Filling in the middle: a text with a gap, as models made for code were taught to read it. */

/* Codestral reads the part after the gap first, and no token marks the gap. */
static bool reads_suffix_first(const kt__tokenizer *tok, int32_t suffix_id) {
    kt__str text = kt__tokenizer_token_text(tok, suffix_id);
    return text.len == strlen("[SUFFIX]") && !memcmp(text.s, "[SUFFIX]", text.len);
}

/* A token and the part that it announces, which begins in the middle of a text: SentencePiece puts
 * no space before it. */
static kt_status encode_part(const kt__tokenizer *tok, int32_t id, const char *text, size_t len,
                             kt__ids *ids, kt_error *err) {
    kt__tokenizer inside = *tok;
    inside.add_space_prefix = false;
    kt_status status = kt__ids_push(ids, id, err);
    return status == KT_OK ? kt__tokenizer_encode(&inside, text, len, 0, ids, err) : status;
}

kt_status kt__tokenizer_encode_fim(const kt__tokenizer *tok, const char *before, size_t before_len,
                                   const char *after, size_t after_len, kt__ids *ids,
                                   kt_error *err) {
    int32_t pre = kt__tokenizer_role_id(tok, KT__ROLE_FIM_PRE);
    int32_t suf = kt__tokenizer_role_id(tok, KT__ROLE_FIM_SUF);
    int32_t mid = kt__tokenizer_role_id(tok, KT__ROLE_FIM_MID);
    bool suffix_first = suf >= 0 && reads_suffix_first(tok, suf);
    if (pre < 0 || suf < 0 || (mid < 0 && !suffix_first))
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "this model has no tokens for filling in the middle: models made for code "
                        "have them");
    if (kt__tokenizer_add_bos(tok))
        KT__STEP(kt__ids_push(ids, kt__tokenizer_role_id(tok, KT__ROLE_BOS), err));
    if (suffix_first) {
        KT__STEP(encode_part(tok, suf, after, after_len, ids, err));
        return encode_part(tok, pre, before, before_len, ids, err);
    }
    KT__STEP(encode_part(tok, pre, before, before_len, ids, err));
    KT__STEP(encode_part(tok, suf, after, after_len, ids, err));
    return kt__ids_push(ids, mid, err);
}
