/* Look-ups in a vocabulary: its tokens, its special ids, and which token has a text. */
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/tokenizer_load.h"

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

size_t kt__tokenizer_bytes_per_id(const kt__tokenizer *tok) {
    return tok->bytes_per_id;
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

const int32_t *kt__tokenizer_eog(const kt__tokenizer *tok, size_t *n) {
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
        size_t n = tok->method == KT__TOK_WORDPIECE ? kt__tok_decode_wordpiece(s, len, bytes)
                   : tok->spm                       ? kt__tok_decode_spm(s, len, bytes)
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

/* The growable vector of ids. */

void kt__ids_init(kt__ids *ids, size_t max) {
    *ids = (kt__ids){.max = max};
}

void kt__ids_free(kt__ids *ids) {
    kt__free(ids->data);
    *ids = (kt__ids){.max = ids->max};
}

kt_status kt__ids_reserve(kt__ids *ids, size_t n, kt_error *err) {
    if (n <= ids->cap - ids->len) return KT_OK;
    if (n > ids->max - ids->len) return kt__fail(err, KT_E_LIMIT, "more than %zu tokens", ids->max);
    size_t cap = ids->cap + ids->cap / 2;
    if (cap < ids->len + n) cap = ids->len + n;
    if (cap < 64) cap = 64;
    if (cap > ids->max) cap = ids->max;
    int32_t *data = kt__realloc_array(ids->data, cap, sizeof *data);
    if (!data) return kt__fail_nomem(err, "tokens", cap);
    ids->data = data;
    ids->cap = cap;
    return KT_OK;
}

kt_status kt__ids_push(kt__ids *ids, int32_t id, kt_error *err) {
    if (ids->len == ids->cap) {
        kt_status status = kt__ids_reserve(ids, 1, err);
        if (status != KT_OK) return status;
    }
    ids->data[ids->len++] = id;
    return KT_OK;
}

int32_t *kt__ids_take(kt__ids *ids, size_t *n) {
    int32_t *data = ids->data ? ids->data : kt__malloc(sizeof *data);
    if (!data) return NULL;
    *n = ids->len;
    *ids = (kt__ids){.max = ids->max};
    return data;
}
