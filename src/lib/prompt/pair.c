/* A reranker's prompt: a query and a document, as kentang.h's kt_tokenize_pair makes it. */
#include <string.h>

#include "base/error.h"
#include "context/model.h"
#include "prompt/text.h"

/* A pair's two texts and where they go. */
typedef struct pair {
    const kt_model *model;
    const char *query, *document;
    size_t query_len, document_len;
} pair;

/* ---- by a template ---- */

enum { MAX_SEGMENTS = 64 };

/* A template's text with {query} and {document} in it, cut there. */
static size_t cut_template(const pair *p, kt__str text, kt__tok_segment *out) {
    static const char query[] = "{query}", document[] = "{document}";
    size_t n = 0, done = 0;
    for (size_t at = 0; at < text.len && n + 3 <= MAX_SEGMENTS;) {
        size_t left = text.len - at;
        bool is_query = left >= sizeof query - 1 && !memcmp(text.s + at, query, sizeof query - 1);
        bool is_document = left >= sizeof document - 1 &&
                           !memcmp(text.s + at, document, sizeof document - 1);
        if (!is_query && !is_document) {
            at++;
            continue;
        }
        out[n++] = (kt__tok_segment){text.s + done, at - done, true};
        out[n++] = is_query ? (kt__tok_segment){p->query, p->query_len, false}
                            : (kt__tok_segment){p->document, p->document_len, false};
        at += is_query ? sizeof query - 1 : sizeof document - 1;
        done = at;
    }
    out[n++] = (kt__tok_segment){text.s + done, text.len - done, true};
    return n;
}

static kt_status encode_template(const pair *p, kt__str text, kt__ids *ids, kt_error *err) {
    kt__tok_segment segments[MAX_SEGMENTS];
    size_t n = cut_template(p, text, segments);
    return kt__tokenizer_encode_segments(p->model->tok, segments, n, KT_TOK_ADD_SPECIAL, ids, err);
}

/* ---- by special tokens ---- */

static kt_status push_role(const kt__tokenizer *tok, kt__tok_role role, kt__ids *ids,
                           kt_error *err) {
    int32_t id = kt__tokenizer_role_id(tok, role);
    return id < 0 ? KT_OK : kt__ids_push(ids, id, err);
}

/* BERT: [CLS] query [SEP] document [SEP]; RoBERTa's kind: <s> query </s> </s> document </s>. */
static kt_status encode_plain(const pair *p, kt__ids *ids, int32_t *pair_from, kt_error *err) {
    const kt__tokenizer *tok = p->model->tok;
    bool wordpiece = strcmp(kt__tokenizer_kind(tok), "bert") == 0;
    if (kt__tokenizer_add_bos(tok)) KT__STEP(push_role(tok, KT__ROLE_BOS, ids, err));
    KT__STEP(kt__tokenizer_encode(tok, p->query, p->query_len, 0, ids, err));
    KT__STEP(push_role(tok, KT__ROLE_EOS, ids, err));
    if (!wordpiece) KT__STEP(push_role(tok, KT__ROLE_EOS, ids, err));
    *pair_from = (int32_t)ids->len;
    KT__STEP(kt__tokenizer_encode(tok, p->document, p->document_len, 0, ids, err));
    return push_role(tok, KT__ROLE_EOS, ids, err);
}

static kt_status encode_pair(const pair *p, kt__ids *ids, int32_t *pair_from, kt_error *err) {
    const kt_model *model = p->model;
    kt__str template_ = {0};
    kt_pooling pooling;
    kt_status status;
    if (!model->tok || !model->net)
        return kt__fail(err, KT_E_UNSUPPORTED, "%s has no vocabulary or no weights",
                        model->info.path);
    KT__TRY(kt__gguf_check(model->gguf, err));
    KT__TRY(kt__model_pooling(model, KT_POOLING_RANK, &pooling, err));
    KT__TRY(
        kt__gguf_get_str(model->gguf, "tokenizer.chat_template.rerank", false, &template_, err));
    if (template_.len)
        status = encode_template(p, template_, ids, err);
    else
        status = encode_plain(p, ids, pair_from, err);
    if (status == KT_OK) status = kt__gguf_check(model->gguf, err);
out:
    return status;
}

kt_status kt_tokenize_pair(const kt_model *model, const char *query, size_t query_len,
                           const char *document, size_t document_len, int32_t **ids, size_t *n,
                           int32_t *pair_from, kt_error *err) {
    const pair p = {model, query, document, query_len, document_len};
    kt__ids found;
    *ids = NULL;
    *n = 0;
    *pair_from = 0;
    kt__error_clear(err);
    kt__ids_init(&found, SIZE_MAX);
    kt_status status = encode_pair(&p, &found, pair_from, err);
    if (status == KT_OK) {
        *ids = kt__ids_take(&found, n);
        if (!*ids) status = kt__fail_nomem(err, "token ids", 0);
    }
    kt__ids_free(&found);
    return status;
}
