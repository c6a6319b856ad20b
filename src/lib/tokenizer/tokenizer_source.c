/* The keys of a vocabulary, checked. */
#include "tokenizer/tokenizer_load.h"

#include <stdio.h>

#define KEY(name) "tokenizer.ggml." name

static const char *const role_keys[KT__ROLE_COUNT] = {
    [KT__ROLE_BOS] = KEY("bos_token_id"),
    [KT__ROLE_EOS] = KEY("eos_token_id"),
    [KT__ROLE_EOT] = KEY("eot_token_id"),
    [KT__ROLE_EOM] = KEY("eom_token_id"),
    [KT__ROLE_UNK] = KEY("unknown_token_id"),
    [KT__ROLE_SEP] = KEY("seperator_token_id"), /* so spelt by the format */
    [KT__ROLE_PAD] = KEY("padding_token_id"),
    [KT__ROLE_CLS] = KEY("cls_token_id"),
    [KT__ROLE_MASK] = KEY("mask_token_id"),
    [KT__ROLE_FIM_PRE] = KEY("fim_pre_token_id"),
    [KT__ROLE_FIM_SUF] = KEY("fim_suf_token_id"),
    [KT__ROLE_FIM_MID] = KEY("fim_mid_token_id"),
    [KT__ROLE_FIM_PAD] = KEY("fim_pad_token_id"),
    [KT__ROLE_FIM_REP] = KEY("fim_rep_token_id"),
    [KT__ROLE_FIM_SEP] = KEY("fim_sep_token_id"),
};

const char *kt__tok_show(kt__str s, char out[KT__TOK_SHOWN]) {
    size_t n = 0;
    for (size_t i = 0; i < s.len && n < KT__TOK_SHOWN - 4; i++)
        out[n++] = s.s[i] >= ' ' && s.s[i] <= '~' ? s.s[i] : '?';
    if (n < s.len) {
        memcpy(out + n, "...", 3);
        n += 3;
    }
    out[n] = '\0';
    return out;
}

kt__str kt__tok_source_token(const kt__tok_source *src, size_t i) {
    return src->tokens_kv ? kt__gguf_array_str(src->tokens_kv, i) : src->tokens[i];
}

kt__str kt__tok_source_merge(const kt__tok_source *src, size_t i) {
    return src->merges_kv ? kt__gguf_array_str(src->merges_kv, i) : src->merges[i];
}

static bool is_integer(kt__gguf_type type) {
    return type <= KT__GGUF_I32 || type == KT__GGUF_U64 || type == KT__GGUF_I64;
}

/* A special id: absent, -1 and 0xffffffff mean none. */
static kt_status read_role(const kt__gguf *gguf, const char *key, int64_t *out, kt_error *err) {
    const kt__gguf_kv *kv = kt__gguf_find(gguf, key);
    *out = -1;
    if (!kv) return KT_OK;
    if (!is_integer(kv->type))
        return kt__fail_at(err, KT_E_FORMAT, kt__gguf_path(gguf), kv->file_offset,
                           "key %s is of type %s; an integer is expected", key,
                           kt__gguf_type_name(kv->type));
    kt__gguf_kv scalar = *kv;
    scalar.elem_type = kv->type;
    int64_t id = kt__gguf_array_i64(&scalar, 0);
    *out = id == UINT32_MAX ? -1 : id;
    return KT_OK;
}

static kt_status read_flag(const kt__gguf *gguf, const char *key, int *out, kt_error *err) {
    bool value = false;
    *out = -1;
    if (!kt__gguf_find(gguf, key)) return KT_OK;
    kt_status status = kt__gguf_get_bool(gguf, key, true, &value, err);
    if (status == KT_OK) *out = value;
    return status;
}

/* An optional array that must be as long as the list of tokens. */
static kt_status read_parallel(const kt__gguf *gguf, const char *key, kt__gguf_type type, size_t n,
                               const kt__gguf_kv **out, kt_error *err) {
    kt_status status = kt__gguf_get_array(gguf, key, false, type, out, err);
    if (status != KT_OK || !*out) return status;
    if ((*out)->count != n)
        return kt__fail_at(err, KT_E_FORMAT, kt__gguf_path(gguf), (*out)->file_offset,
                           "key %s has %llu elements; %zu, one a token, are expected", key,
                           (unsigned long long)(*out)->count, n);
    return KT_OK;
}

static kt_status check_n_tokens(const kt__tok_source *src, uint64_t n, kt_error *err) {
    if (n < 1 || n > KT__TOK_MAX_VOCAB)
        return kt__fail_at(err, n ? KT_E_LIMIT : KT_E_FORMAT, src->path, UINT64_MAX,
                           "the vocabulary has %llu tokens; 1 to %d are supported",
                           (unsigned long long)n, KT__TOK_MAX_VOCAB);
    return KT_OK;
}

static kt_status check_n_merges(const kt__tok_source *src, uint64_t n, kt_error *err) {
    const uint64_t max = (uint64_t)KT__TOK_MAX_VOCAB * 16;
    if (n > max)
        return kt__fail_at(err, KT_E_LIMIT, src->path, UINT64_MAX,
                           "the vocabulary has %llu merges; at most %llu are supported",
                           (unsigned long long)n, (unsigned long long)max);
    return KT_OK;
}

/* Bytes, as an array of u8 or i8. */
static kt_status read_charsmap(kt__tok_source *src, const kt__gguf *gguf, kt_error *err) {
    const kt__gguf_kv *kv = NULL;
    kt_status status = kt__gguf_get_array(gguf, KEY("precompiled_charsmap"), false,
                                          KT__GGUF_TYPE_COUNT, &kv, err);
    if (status != KT_OK || !kv) return status;
    if (kv->elem_type != KT__GGUF_U8 && kv->elem_type != KT__GGUF_I8)
        return kt__fail_at(err, KT_E_FORMAT, src->path, kv->file_offset,
                           "key %s is an array of %s; bytes are expected",
                           KEY("precompiled_charsmap"), kt__gguf_type_name(kv->elem_type));
    src->charsmap = (kt__str){(const char *)kv->data, (size_t)kv->count};
    return KT_OK;
}

/* A key of our own: a list of ids. */
static kt_status read_id_list(const kt__tok_source *src, const kt__gguf *gguf, const char *key,
                              uint64_t max, const kt__gguf_kv **out, kt_error *err) {
    kt_status status = kt__gguf_get_array(gguf, key, false, KT__GGUF_TYPE_COUNT, out, err);
    const kt__gguf_kv *kv = *out;
    if (status != KT_OK || !kv) return status;
    if (!is_integer(kv->elem_type) || kv->count > max)
        return kt__fail_at(err, KT_E_FORMAT, src->path, kv->file_offset,
                           "key %s is an array of %llu %s; at most %llu integers are expected", key,
                           (unsigned long long)kv->count, kt__gguf_type_name(kv->elem_type),
                           (unsigned long long)max);
    return KT_OK;
}

/* The format has room for one eos and one eot, and for no white space that belongs to a token. */
static kt_status read_own_lists(kt__tok_source *src, const kt__gguf *gguf, kt_error *err) {
    KT__STEP(read_id_list(src, gguf, "kentang.eos_ids", KT__TOK_MAX_EOS, &src->eos_ids_kv, err));
    KT__STEP(read_id_list(src, gguf, "kentang.lstrip_ids", src->n_tokens, &src->lstrip_kv, err));
    return read_id_list(src, gguf, "kentang.rstrip_ids", src->n_tokens, &src->rstrip_kv, err);
}

static kt_status read_arrays(kt__tok_source *src, const kt__gguf *gguf, kt_error *err) {
    KT__STEP(kt__gguf_get_array(gguf, KEY("tokens"), true, KT__GGUF_STRING, &src->tokens_kv, err));
    KT__STEP(check_n_tokens(src, src->tokens_kv->count, err));
    src->n_tokens = (size_t)src->tokens_kv->count;
    KT__STEP(read_parallel(gguf, KEY("scores"), KT__GGUF_F32, src->n_tokens, &src->scores_kv, err));
    KT__STEP(read_parallel(gguf, KEY("token_type"), KT__GGUF_TYPE_COUNT, src->n_tokens,
                           &src->types_kv, err));
    if (src->types_kv && !is_integer(src->types_kv->elem_type))
        return kt__fail_at(err, KT_E_FORMAT, src->path, src->types_kv->file_offset,
                           "key %s is an array of %s; integers are expected", KEY("token_type"),
                           kt__gguf_type_name(src->types_kv->elem_type));
    KT__STEP(kt__gguf_get_array(gguf, KEY("merges"), false, KT__GGUF_STRING, &src->merges_kv, err));
    if (src->merges_kv) KT__STEP(check_n_merges(src, src->merges_kv->count, err));
    src->n_merges = src->merges_kv ? (size_t)src->merges_kv->count : 0;
    return KT_OK;
}

kt_status kt__tok_source_gguf(kt__tok_source *src, const kt__gguf *gguf, kt_error *err) {
    *src = (kt__tok_source){.path = kt__gguf_path(gguf)};
    KT__STEP(kt__gguf_get_str(gguf, KEY("model"), true, &src->model, err));
    KT__STEP(kt__gguf_get_str(gguf, KEY("pre"), false, &src->pre, err));
    KT__STEP(kt__gguf_get_str(gguf, "general.architecture", false, &src->arch, err));
    KT__STEP(read_arrays(src, gguf, err));
    KT__STEP(read_own_lists(src, gguf, err));
    for (int role = 0; role < KT__ROLE_COUNT; role++)
        KT__STEP(read_role(gguf, role_keys[role], &src->role_ids[role], err));
    KT__STEP(read_flag(gguf, KEY("add_bos_token"), &src->add_bos, err));
    KT__STEP(read_flag(gguf, KEY("add_eos_token"), &src->add_eos, err));
    KT__STEP(read_flag(gguf, KEY("add_space_prefix"), &src->add_space_prefix, err));
    KT__STEP(read_flag(gguf, KEY("normalizer.lowercase"), &src->lowercase, err));
    KT__STEP(read_flag(gguf, KEY("normalizer.strip_accents"), &src->strip_accents, err));
    KT__STEP(read_flag(gguf, KEY("remove_extra_whitespaces"), &src->remove_extra_spaces, err));
    return read_charsmap(src, gguf, err);
}

void kt__tok_vocab_init(kt__tok_vocab *vocab) {
    *vocab = (kt__tok_vocab){.add_bos = -1,
                             .add_eos = -1,
                             .add_space_prefix = -1,
                             .lowercase = -1,
                             .strip_accents = -1,
                             .remove_extra_spaces = -1};
    for (int role = 0; role < KT__ROLE_COUNT; role++) vocab->role_ids[role] = -1;
}

static kt__str str_or_null(const char *s) {
    return (kt__str){s, s ? strlen(s) : 0};
}

kt_status kt__tok_source_mem(kt__tok_source *src, const kt__tok_vocab *vocab, kt_error *err) {
    *src = (kt__tok_source){.path = "(memory)",
                            .model = str_or_null(vocab->model),
                            .pre = str_or_null(vocab->pre),
                            .arch = str_or_null(vocab->arch),
                            .tokens = vocab->tokens,
                            .merges = vocab->merges,
                            .scores = vocab->scores,
                            .types = vocab->types,
                            .strips = vocab->strips,
                            .n_tokens = vocab->n_tokens,
                            .n_merges = vocab->merges ? vocab->n_merges : 0,
                            .add_bos = vocab->add_bos,
                            .add_eos = vocab->add_eos,
                            .add_space_prefix = vocab->add_space_prefix,
                            .lowercase = vocab->lowercase,
                            .strip_accents = vocab->strip_accents,
                            .remove_extra_spaces = vocab->remove_extra_spaces,
                            .charsmap = vocab->charsmap};
    for (int role = 0; role < KT__ROLE_COUNT; role++) src->role_ids[role] = vocab->role_ids[role];
    if (!vocab->model || !vocab->tokens)
        return kt__fail(err, KT_E_ARG, "a vocabulary needs a model and tokens");
    kt_status status = check_n_tokens(src, vocab->n_tokens, err);
    return status != KT_OK ? status : check_n_merges(src, src->n_merges, err);
}
