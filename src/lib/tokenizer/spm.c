/* SentencePiece-type vocabularies: the best score first, over whole stretches of text ("llama"); or the
 * first of a list of merges, over lines ("gemma4").
 *
 * Texts are handled with plain spaces: U+2581 means a space in the vocabulary and was turned
 * into one at load; in a text it means a space, too. */
#include "tokenizer/tokenizer_impl.h"

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
    kt_status status = KT_OK;
    for (size_t i = 0, end; i < len; i = end) {
        end = enc->tok->inner_space ? len : word_end(s, len, i);
        KT__TRY(kt__word_encode(enc, s + i, end - i));
    }
out:
    return status;
}

/* A run of line ends that is a token is that token, whatever the merges say. */
static kt_status encode_line_ends(kt__encoder *enc, const char *s, size_t len) {
    const kt__tokenizer *tok = enc->tok;
    int32_t id = kt__tok_lookup(tok, kt__tok_hash(tok->seed, s, len), s, len);
    return id >= 0 ? kt__ids_push(enc->ids, id, enc->err) : kt__word_encode(enc, s, len);
}

/* Lines and the runs of line ends between them. */
static kt_status encode_lines(kt__encoder *enc, const char *s, size_t len) {
    kt_status status = KT_OK;
    for (size_t i = 0, end; i < len; i = end) {
        bool line_end = s[i] == '\n';
        for (end = i + 1; end < len && (s[end] == '\n') == line_end;) end++;
        KT__TRY((line_end ? encode_line_ends : encode_words)(enc, s + i, end - i));
    }
out:
    return status;
}

kt_status kt__spm_encode(kt__encoder *enc, const char *s, size_t len) {
    kt_status status = with_spaces(enc, &s, &len);
    if (status != KT_OK) return status;
    return (enc->tok->by_merges ? encode_lines : encode_words)(enc, s, len);
}
