/* Filling in the middle: a text with a gap, as models made for code were taught to read it. */
#include <string.h>

#include "base/error.h"
#include "tokenizer/tokenizer_impl.h"

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
    kt_status status = KT_OK;
    bool suffix_first = suf >= 0 && reads_suffix_first(tok, suf);
    if (pre < 0 || suf < 0 || (mid < 0 && !suffix_first))
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "this model has no tokens for filling in the middle: models made for code "
                        "have them");
    if (kt__tokenizer_add_bos(tok))
        KT__TRY(kt__ids_push(ids, kt__tokenizer_role_id(tok, KT__ROLE_BOS), err));
    if (suffix_first) {
        KT__TRY(encode_part(tok, suf, after, after_len, ids, err));
        return encode_part(tok, pre, before, before_len, ids, err);
    }
    KT__TRY(encode_part(tok, pre, before, before_len, ids, err));
    KT__TRY(encode_part(tok, suf, after, after_len, ids, err));
    status = kt__ids_push(ids, mid, err);
out:
    return status;
}
