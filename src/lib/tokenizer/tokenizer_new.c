/* A vocabulary from its source to a tokenizer. */
#include "tokenizer/tokenizer_load.h"

#include <stdio.h>

#include "base/clock.h"

static kt_status choose_model(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    char shown[KT__TOK_SHOWN];
    static const struct {
        const char *model;
        kt__tok_method method;
    } spaced[] = {{"llama", KT__TOK_MERGES},
                  {"gemma4", KT__TOK_MERGES},
                  {"t5", KT__TOK_UNIGRAM},
                  {"bert", KT__TOK_WORDPIECE}};
    tok->by_merges = kt__tok_equals(src->model, "gemma4");
    for (size_t i = 0; i < sizeof spaced / sizeof *spaced; i++) {
        if (!kt__tok_equals(src->model, spaced[i].model)) continue;
        tok->spm = true;
        tok->method = spaced[i].method;
        snprintf(tok->kind, sizeof tok->kind, "%s", spaced[i].model);
        return KT_OK;
    }
    if (!kt__tok_equals(src->model, "gpt2"))
        return kt__fail_at(err, KT_E_UNSUPPORTED, src->path, UINT64_MAX,
                           "the tokenizer model \"%s\" is not supported; \"gpt2\", \"llama\", "
                           "\"gemma4\", \"t5\" and \"bert\" are",
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

static kt_status load_source(const kt__tok_source *src, kt__tokenizer **out, kt_error *err) {
    kt_status status;
    kt__tokenizer *tok = kt__calloc(1, sizeof *tok);
    if (!tok) return kt__fail_nomem(err, "tokenizer", sizeof *tok);
    tok->n_vocab = src->n_tokens;
    tok->tokens_kv = src->tokens_kv;
    tok->tokens_mem = src->tokens;
    tok->seed = kt__tok_mix((uint64_t)kt__now_ns() ^ (uintptr_t)tok, 0x9e3779b97f4a7c15u);
    KT__TRY(choose_model(tok, src, err));
    tok->has_strips = src->lstrip_kv || src->rstrip_kv || src->strips || kt__tok_is_phi3(tok, src);
    KT__TRY(kt__tok_build(tok, src, err));
    KT__TRY(kt__tok_find_roles(tok, src, err));
    KT__TRY(kt__tok_build_special(tok, src, err));
    int prefix = src->add_space_prefix >= 0 ? src->add_space_prefix : !tok->by_merges;
    tok->add_space_prefix = tok->spm && prefix;
    tok->remove_extra_spaces = src->remove_extra_spaces > 0;
    tok->lowercase = src->lowercase != 0;
    tok->strip_accents = src->strip_accents >= 0 ? src->strip_accents != 0 : tok->lowercase;
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
    return status != KT_OK ? status : load_source(&src, out, err);
}

kt_status kt__tokenizer_new(const kt__tok_vocab *vocab, kt__tokenizer **out, kt_error *err) {
    kt__tok_source src;
    *out = NULL;
    kt_status status = kt__tok_source_mem(&src, vocab, err);
    return status != KT_OK ? status : load_source(&src, out, err);
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
    kt__free(tok->pieces.ids);
    kt__charsmap_free(&tok->charsmap);
    kt__special_free(tok->special);
    kt__free(tok->eog);
    kt__free(tok);
}
