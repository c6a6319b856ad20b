/* Loading, asking, encoding. */
#include "tokenizer/tokenizer_load.h"

#include <stdio.h>

#include "base/clock.h"
#include "tokenizer/unicode.h"

/* ---- loading ---- */

static bool is(kt__str s, const char *text) {
    return s.s && s.len == strlen(text) && memcmp(s.s, text, s.len) == 0;
}

static kt_status choose_model(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    char shown[KT__TOK_SHOWN];
    if (is(src->model, "llama")) {
        tok->spm = true;
        snprintf(tok->kind, sizeof tok->kind, "llama");
        return KT_OK;
    }
    if (!is(src->model, "gpt2"))
        return kt__fail_at(
            err, KT_E_UNSUPPORTED, src->path, UINT64_MAX,
            "the tokenizer model \"%s\" is not supported; \"gpt2\" and \"llama\" are",
            kt__tok_show(src->model, shown));
    if (!src->pre.s)
        tok->warning = "the file names no pre-tokenizer (key tokenizer.ggml.pre); that of gpt-2 is "
                       "used, and token ids may differ from the model's own";
    tok->pre = src->pre.s ? kt__pretok_find(src->pre.s, src->pre.len)
                          : kt__pretok_find("default", 7);
    if (!tok->pre)
        return kt__fail_at(err, KT_E_UNSUPPORTED, src->path, UINT64_MAX,
                           "the pre-tokenizer \"%s\" (key tokenizer.ggml.pre) is not known to this "
                           "version; encoding with another one would give wrong ids",
                           kt__tok_show(src->pre, shown));
    snprintf(tok->kind, sizeof tok->kind, "gpt2/%s", tok->pre->name);
    return KT_OK;
}

static kt_status load(const kt__tok_source *src, kt__tokenizer **out, kt_error *err) {
    kt_status status;
    kt__tokenizer *tok = kt__calloc(1, sizeof *tok);
    if (!tok) return kt__fail_nomem(err, "tokenizer", sizeof *tok);
    tok->n_vocab = src->n_tokens;
    tok->tokens_kv = src->tokens_kv;
    tok->tokens_mem = src->tokens;
    tok->seed = kt__tok_mix((uint64_t)kt__now_ns() ^ (uintptr_t)tok, 0x9e3779b97f4a7c15u);
    KT__TRY(choose_model(tok, src, err));
    KT__TRY(kt__tok_build(tok, src, err));
    KT__TRY(kt__tok_find_roles(tok, src, err));
    KT__TRY(kt__tok_build_special(tok, src, err));
    tok->add_space_prefix = tok->spm && src->add_space_prefix != 0;
    tok->rstrip_special = tok->spm && is(src->arch, "phi3");
out:
    if (status != KT_OK) {
        kt__tokenizer_free(tok);
        tok = NULL;
    }
    *out = tok;
    return status;
}

kt_status kt__tokenizer_load(const kt__gguf *gguf, kt__tokenizer **out, kt_error *err) {
    kt__tok_source src;
    *out = NULL;
    kt_status status = kt__tok_source_gguf(&src, gguf, err);
    return status != KT_OK ? status : load(&src, out, err);
}

kt_status kt__tokenizer_new(const kt__tok_vocab *vocab, kt__tokenizer **out, kt_error *err) {
    kt__tok_source src;
    *out = NULL;
    kt_status status = kt__tok_source_mem(&src, vocab, err);
    return status != KT_OK ? status : load(&src, out, err);
}

void kt__tokenizer_free(kt__tokenizer *tok) {
    if (!tok) return;
    kt__free(tok->attr);
    kt__free(tok->offset);
    kt__free(tok->bytes);
    kt__free(tok->slots);
    kt__free((void *)tok->whole);
    kt__free(tok->merges);
    kt__free(tok->scores);
    kt__special_free(tok->special);
    kt__free(tok->eog);
    kt__free(tok);
}

/* ---- asking ---- */

const char *kt__tokenizer_kind(const kt__tokenizer *tok) {
    return tok->kind;
}

const char *kt__tokenizer_warning(const kt__tokenizer *tok) {
    return tok->warning;
}

int32_t kt__tokenizer_n_vocab(const kt__tokenizer *tok) {
    return (int32_t)tok->n_vocab;
}

int32_t kt__tokenizer_role_id(const kt__tokenizer *tok, kt__tok_role role) {
    return (unsigned)role < KT__ROLE_COUNT ? tok->role_ids[role] : -1;
}

bool kt__tokenizer_add_bos(const kt__tokenizer *tok) {
    return tok->add_bos;
}

bool kt__tokenizer_add_eos(const kt__tokenizer *tok) {
    return tok->add_eos;
}

static bool in_vocab(const kt__tokenizer *tok, int32_t id) {
    return id >= 0 && (size_t)id < tok->n_vocab;
}

kt__str kt__tokenizer_token_text(const kt__tokenizer *tok, int32_t id) {
    return in_vocab(tok, id) ? kt__tok_text(tok, (size_t)id) : (kt__str){"", 0};
}

kt__str kt__tokenizer_token_bytes(const kt__tokenizer *tok, int32_t id) {
    return in_vocab(tok, id) ? kt__tok_bytes(tok, (size_t)id) : (kt__str){"", 0};
}

kt__tok_attr kt__tokenizer_token_attr(const kt__tokenizer *tok, int32_t id) {
    return in_vocab(tok, id) ? kt__tok_attr_of(tok, (size_t)id) : KT__TOK_UNDEFINED;
}

bool kt__tokenizer_is_eog(const kt__tokenizer *tok, int32_t id) {
    for (size_t i = 0; i < tok->n_eog; i++)
        if (tok->eog[i] == id) return true;
    return false;
}

const int32_t *kt__tokenizer_eog_ids(const kt__tokenizer *tok, size_t *n) {
    *n = tok->n_eog;
    return tok->eog;
}

/* The last token with these bytes whose text in the file is s[len]. */
static int32_t find_by_bytes(const kt__tokenizer *tok, const char *bytes, size_t n, const char *s,
                             size_t len) {
    uint64_t hash = kt__tok_hash(tok->seed, bytes, n);
    size_t mask = ((size_t)1 << tok->slot_bits) - 1;
    for (size_t at = hash & mask; tok->slots[at].id1; at = (at + 1) & mask) {
        if (tok->slots[at].tag != (uint32_t)(hash >> 32)) continue;
        size_t id = tok->slots[at].id1 - 1;
        kt__str text = kt__tok_text(tok, id);
        if (text.len == len && memcmp(text.s, s, len) == 0) return (int32_t)id;
    }
    return -1;
}

int32_t kt__tokenizer_find(const kt__tokenizer *tok, const char *s, size_t len) {
    if (len > KT__TOK_MAX_TOKEN_BYTES) return -1;
    int32_t as_is = find_by_bytes(tok, s, len, s, len), decoded = -1;
    int byte = kt__tok_parse_byte(s, len);
    char small[256], *bytes = len <= sizeof small ? small : kt__malloc(len);
    if (bytes) {
        size_t n = tok->spm ? kt__tok_decode_spm(s, len, bytes)
                            : kt__tok_decode_gpt2(s, len, bytes);
        if (byte >= 0) {
            bytes[0] = (char)byte;
            n = 1;
        }
        if (n != SIZE_MAX) decoded = find_by_bytes(tok, bytes, n, s, len);
    }
    if (bytes != small) kt__free(bytes);
    return decoded > as_is ? decoded : as_is;
}

/* ---- encoding ---- */

enum { MAX_TEXT = INT32_MAX }; /* bytes of one text */

kt_status kt__symbols_reserve(kt__encoder *enc, size_t n) {
    if (n <= enc->symbols_cap) return KT_OK;
    kt__free(enc->symbols);
    enc->symbols = kt__malloc(n * sizeof *enc->symbols);
    enc->symbols_cap = enc->symbols ? n : 0;
    if (!enc->symbols) return kt__fail_nomem(enc->err, "merging a long word", n);
    return KT_OK;
}

void kt__encoder_free(kt__encoder *enc) {
    kt__free(enc->memo);
    kt__free(enc->symbols);
    kt__free(enc->heap);
    kt__arena_free(&enc->arena);
}

static kt_status encode_stretch(kt__encoder *enc, const char *s, size_t len) {
    if (len == 0) return KT_OK;
    enc->stretch_ids = enc->ids->len;
    return enc->tok->spm ? kt__spm_encode(enc, s, len) : kt__bpe_encode(enc, s, len);
}

/* Phi-3: its chat tokens take the whitespace that follows them (rstrip, which GGUF does not store).
 */
static size_t after_special(const kt__tokenizer *tok, const char *s, size_t len, size_t at,
                            int32_t id) {
    size_t n;
    uint32_t cp;
    if (!tok->rstrip_special) return at;
    kt__str text = kt__tok_text(tok, (size_t)id);
    bool strips = !is(text, "<|endoftext|>") && !is(text, "<s>") && !is(text, "<unk>");
    while (strips && at < len && (kt__unicode_next(s + at, len - at, &n, &cp) & KT__UC_SPACE))
        at += n;
    return at;
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
    kt_status status = KT_OK;
    kt__special_match match;
    size_t range = 0;
    for (size_t at = 0; at < in->len;) {
        bool found = kt__special_find(enc->tok->special, in->s, in->len, at, in->ranges,
                                      in->n_ranges, &range, &match);
        KT__TRY(encode_stretch(enc, in->s + at, (found ? match.begin : in->len) - at));
        if (!found) break;
        KT__TRY(kt__ids_push(enc->ids, match.id, enc->err));
        at = after_special(enc->tok, in->s, in->len, match.end, match.id);
    }
out:
    return status;
}

static kt_status encode(const kt__tokenizer *tok, const input *in, kt__ids *ids, kt_error *err) {
    kt_status status = KT_OK;
    size_t before = ids->len;
    kt__encoder enc = {.tok = tok, .ids = ids, .err = err};
    kt__arena_init(&enc.arena, 4096, SIZE_MAX / 2);
    if (in->len > MAX_TEXT)
        return kt__fail(err, KT_E_LIMIT, "a text of %zu bytes; at most %d are encoded at once",
                        in->len, MAX_TEXT);
    /* Without memory for the memo it is only slower. */
    if (in->len >= KT__MEMO_MIN_TEXT)
        enc.memo = kt__calloc((size_t)1 << KT__MEMO_BITS, sizeof *enc.memo);
    if (in->add_bos) KT__TRY(kt__ids_push(ids, tok->role_ids[KT__ROLE_BOS], err));
    KT__TRY(encode_parts(&enc, in));
    if (in->add_eos) KT__TRY(kt__ids_push(ids, tok->role_ids[KT__ROLE_EOS], err));
out:
    if (status != KT_OK) ids->len = before;
    kt__encoder_free(&enc);
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
    return encode(tok, &in, ids, err);
}

/* ---- segments ---- */

/* One text of all segments, and the ranges that the template wrote, neighbours as one. */
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
    status = encode(tok, &in, ids, err);
out:
    kt__free(text);
    kt__free(ranges);
    return status;
}
