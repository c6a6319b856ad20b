/* tokenizer.model as a vocabulary. */
#include <string.h>

#include "base/error.h"
#include "convert/sentencepiece.h"
#include "convert/vocab.h"

static kt_status check_model(const kt__sp_model *m, const char *path,
                             const kt__convert_notes *notes, kt_error *err) {
    if (m->model_type == KT__SP_UNIGRAM) return KT_OK;
    if (m->model_type != KT__SP_BPE)
        return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                           "a SentencePiece model of type %d is not supported (1, unigram, and 2, "
                           "BPE, are)",
                           m->model_type);
    if (m->charsmap.len)
        kt__convert_note(notes, "tokenizer.model normalises characters, which GGUF's llama "
                                "tokenizers do not: rare characters may be encoded otherwise");
    if (m->remove_extra_whitespaces)
        kt__convert_note(notes, "tokenizer.model removes extra spaces, which GGUF's llama "
                                "tokenizers do not");
    return KT_OK;
}

kt_status kt__vocab_read_model(kt__vocab *v, const char *path, const kt__convert_notes *notes,
                               kt_error *err) {
    kt__sp_model m;
    kt_status status;
    size_t size = v->model_bytes;
    KT__TRY(kt__sp_parse(v->model_file, size, path, &v->arena, &m, err));
    KT__TRY(check_model(&m, path, notes, err));
    KT__TRY(kt__vocab_reserve(v, m.n, err));
    for (size_t i = 0; i < m.n; i++) {
        v->tokens[i] = m.pieces[i].text;
        v->scores[i] = m.pieces[i].score;
        v->types[i] = m.pieces[i].type;
        if (m.pieces[i].type == KT__TOK_UNKNOWN) v->role_ids[KT__ROLE_UNK] = (int32_t)i;
    }
    v->add_space_prefix = m.add_dummy_prefix;
    if (m.model_type != KT__SP_UNIGRAM) goto out;
    v->method = KT__VOCAB_UNIGRAM;
    v->charsmap = m.charsmap;
    v->remove_extra_spaces = m.remove_extra_whitespaces;
out:
    return status;
}
