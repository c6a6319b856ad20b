#include "convert/vocab.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "convert/json_file.h"

/* Bytes of a tokenizer.json or tokenizer.model, of a smaller side file, and of all strings made. */
enum { MAX_TOKENIZER = 48 << 20, MAX_SETTINGS = 4 << 20, MAX_ARENA = 512 << 20 };

static kt_status read_side_file(const kt__vocab *v, const char *name, json_t **out, kt_error *err) {
    char *path = kt__folder_path(v->dir, name);
    if (!path) return kt__fail_nomem(err, "a path", strlen(name));
    kt_status status = kt__folder_read_json(path, MAX_SETTINGS, false, out, err);
    kt__free(path);
    return status;
}

/* tokenizer.json decides the kind; where it is absent, tokenizer.model is of the SentencePiece
 * kind. (A tokenizer.model next to a byte-level tokenizer.json is another format: tiktoken's.) */
static bool is_spm_json(const json_t *tokenizer) {
    const json_t *model = json_object_get(tokenizer, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    return type && strcmp(type, "BPE") == 0 &&
           json_is_true(json_object_get(model, "byte_fallback"));
}

static const char *const methods[] = {[KT__VOCAB_MERGES] = "BPE",
                                      [KT__VOCAB_UNIGRAM] = "Unigram",
                                      [KT__VOCAB_WORDPIECE] = "WordPiece"};
enum { N_METHODS = sizeof methods / sizeof *methods };

static kt_status find_method(kt__vocab *v, const char *path, kt_error *err) {
    const char *type = json_string_value(
        json_object_get(json_object_get(v->tokenizer, "model"), "type"));
    for (int i = 0; type && i < N_METHODS; i++) {
        if (strcmp(methods[i], type) != 0) continue;
        v->method = (kt__vocab_method)i;
        return KT_OK;
    }
    return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                       "a tokenizer of type %.40s cannot be converted (BPE, WordPiece and Unigram "
                       "can)",
                       type ? type : "(none named)");
}

static kt_status read_json_kind(kt__vocab *v, const kt__hf_config *config, const char *path,
                                kt_error *err) {
    kt_status status;
    if (v->method != KT__VOCAB_MERGES) {
        v->spm = true;
        KT__TRY((v->method == KT__VOCAB_UNIGRAM ? kt__vocab_read_unigram
                                                : kt__vocab_read_wordpiece)(v, path, err));
        return kt__vocab_add_tokens(v, path, err);
    }
    v->spm = is_spm_json(v->tokenizer);
    v->by_merges = v->spm && config->arch & KT__HF_GEMMA4S;
    KT__TRY(kt__vocab_read_bpe(v, path, err));
    KT__TRY(kt__vocab_add_tokens(v, path, err));
    if (v->by_merges) goto out;
    if (v->spm) {
        v->made_scores = true;
        KT__TRY(kt__vocab_score_merges(v, err));
    } else {
        KT__TRY(kt__vocab_find_pretok(v, path, err));
    }
out:
    return status;
}

static kt_status read_model_kind(kt__vocab *v, const char *json_path, const char *model_path,
                                 const kt__convert_notes *notes, kt_error *err) {
    v->spm = true;
    KT__STEP(kt__vocab_read_model(v, model_path, notes, err));
    KT__STEP(kt__vocab_add_tokens(v, json_path, err));
    if (v->tokenizer && v->method != KT__VOCAB_MERGES)
        return kt__fail_at(err, KT_E_UNSUPPORTED, model_path, UINT64_MAX,
                           "tokenizer.model is a unigram model and tokenizer.json is none: one of "
                           "them is not this model's");
    if (v->tokenizer) KT__STEP(kt__vocab_read_merges(v, json_path, err)); /* to compare with */
    return KT_OK;
}

kt_status kt__vocab_build(kt__vocab *v, const kt__hf_config *config, const char *json_path,
                          const char *model_path, const kt__convert_notes *notes, kt_error *err) {
    bool by_model = is_spm_json(v->tokenizer) && v->model_file && !(config->arch & KT__HF_GEMMA4S);
    bool by_json = v->tokenizer && !by_model;
    if (v->tokenizer) KT__STEP(find_method(v, json_path, err));
    if (v->tokenizer) KT__STEP(kt__vocab_list_values(v, json_path, err));
    if (by_json)
        KT__STEP(read_json_kind(v, config, json_path, err));
    else
        KT__STEP(read_model_kind(v, json_path, model_path, notes, err));
    KT__STEP(kt__vocab_cut(v, json_path, notes, err));
    KT__STEP(kt__vocab_index(v, err));
    KT__STEP(kt__vocab_find_special(v, config, err));
    if (v->tokenizer) KT__STEP(kt__vocab_check(v, json_path, notes, err));
    return KT_OK;
}

static kt_status no_tokenizer(const kt__vocab *v, kt_error *err) {
    char *tekken = kt__folder_path(v->dir, "tekken.json");
    bool has_tekken = tekken && kt__file_exists(tekken);
    kt__free(tekken);
    return kt__fail_at(err, has_tekken ? KT_E_UNSUPPORTED : KT_E_IO, v->dir, UINT64_MAX,
                       "the folder has neither tokenizer.json nor tokenizer.model, and no "
                       "vocab.json with merges.txt, vocab.txt or tiktoken.model%s",
                       has_tekken ? " (tekken.json, Mistral's own form, is not read: take the "
                                    "tokenizer.json of a repository in Hugging Face's form)"
                                  : "");
}

static kt_status read_tokenizer(kt__vocab *v, const char *path, kt_error *err) {
    char *text;
    size_t len;
    KT__STEP(kt__folder_read_file(path, MAX_TOKENIZER, false, &text, &len, err));
    if (!text) return KT_OK;
    kt__vocab_hold(v, text);
    return kt__vocab_parse_tokenizer(v, text, len, path, err);
}

static kt_status load_files(kt__vocab *v, const kt__hf_config *config, const char *json_path,
                            const char *model_path, kt_error *err) {
    kt_status status;
    KT__TRY(read_side_file(v, "tokenizer_config.json", &v->settings, err));
    KT__TRY(read_side_file(v, "generation_config.json", &v->generation, err));
    KT__TRY(read_side_file(v, "added_tokens.json", &v->added, err));
    KT__TRY(read_side_file(v, "special_tokens_map.json", &v->specials, err));
    KT__TRY(read_tokenizer(v, json_path, err));
    if (v->tokenizer && !is_spm_json(v->tokenizer)) return KT_OK;
    KT__TRY(kt__folder_read_file(model_path, MAX_TOKENIZER, false, &v->model_file, &v->model_bytes,
                                 err));
    if (!v->tokenizer && !v->model_file) KT__TRY(kt__vocab_read_files(v, config, err));
    if (!v->tokenizer && !v->model_file) status = no_tokenizer(v, err);
out:
    return status;
}

void kt__vocab_init(kt__vocab *v, const char *dir) {
    *v = (kt__vocab){.dir = dir,
                     .add_bos = -1,
                     .add_eos = -1,
                     .add_space_prefix = -1,
                     .remove_extra_spaces = -1};
    kt__arena_init(&v->arena, 1 << 20, MAX_ARENA);
    for (int role = 0; role < KT__ROLE_COUNT; role++) v->role_ids[role] = -1;
}

kt_status kt__vocab_read(const char *dir, const kt__hf_config *config, size_t n_rows,
                         const kt__convert_notes *notes, kt__vocab *out, kt_error *err) {
    char *json_path = kt__folder_path(dir, "tokenizer.json");
    char *model_path = kt__folder_path(dir, "tokenizer.model");
    kt_status status;
    kt__vocab_init(out, dir);
    out->n_rows = n_rows;
    if (!json_path || !model_path) {
        status = kt__fail_nomem(err, "a path", strlen(dir));
        goto out;
    }
    KT__TRY(load_files(out, config, json_path, model_path, err));
    KT__TRY(kt__vocab_build(out, config, json_path, model_path, notes, err));
    KT__TRY(kt__vocab_read_templates(out, err));
out:
    kt__free(json_path);
    kt__free(model_path);
    return status;
}

void kt__vocab_free(kt__vocab *v) {
    json_decref(v->tokenizer);
    json_decref(v->settings);
    json_decref(v->generation);
    json_decref(v->added);
    json_decref(v->specials);
    json_decref(v->template_json);
    for (int i = 0; i < v->n_texts; i++) kt__free(v->texts[i]);
    kt__free(v->listed);
    kt__free(v->merge_parts);
    kt__strmap_free(&v->listed_at);
    kt__free(v->model_file);
    kt__free(v->tokens);
    kt__free(v->scores);
    kt__free(v->types);
    kt__free(v->strips);
    kt__strmap_free(&v->ids);
    kt__arena_free(&v->arena);
    *v = (kt__vocab){0};
}

/* ---- writing ---- */

static void put_roles(const kt__vocab *v, kt__gguf_writer *w) {
    static const struct {
        kt__tok_role role;
        const char *key;
    } keys[] = {{KT__ROLE_BOS, "bos"},     {KT__ROLE_EOS, "eos"},     {KT__ROLE_EOT, "eot"},
                {KT__ROLE_EOM, "eom"},     {KT__ROLE_UNK, "unknown"}, {KT__ROLE_SEP, "seperator"},
                {KT__ROLE_PAD, "padding"}, {KT__ROLE_CLS, "cls"},     {KT__ROLE_MASK, "mask"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", keys[i].key);
        if (v->role_ids[keys[i].role] >= 0)
            kt__gguf_put_u32(w, key, (uint32_t)v->role_ids[keys[i].role]);
    }
    if (v->n_eos) kt__gguf_put_i32s(w, "kentang.eos_ids", v->eos_ids, v->n_eos);
}

static void put_flags(const kt__vocab *v, kt__gguf_writer *w) {
    if (v->add_bos >= 0) kt__gguf_put_bool(w, "tokenizer.ggml.add_bos_token", v->add_bos != 0);
    if (v->add_eos >= 0) kt__gguf_put_bool(w, "tokenizer.ggml.add_eos_token", v->add_eos != 0);
    if (v->spm && v->add_space_prefix >= 0)
        kt__gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", v->add_space_prefix != 0);
    if (v->remove_extra_spaces >= 0)
        kt__gguf_put_bool(w, "tokenizer.ggml.remove_extra_whitespaces",
                          v->remove_extra_spaces != 0);
    if (v->charsmap.len)
        kt__gguf_put_u8s(w, "tokenizer.ggml.precompiled_charsmap", (const uint8_t *)v->charsmap.s,
                         v->charsmap.len);
    if (v->method != KT__VOCAB_WORDPIECE) return;
    kt__gguf_put_bool(w, "tokenizer.ggml.normalizer.lowercase", v->lowercase);
    kt__gguf_put_bool(w, "tokenizer.ggml.normalizer.strip_accents", v->strip_accents);
}

/* Ids of the tokens that take the white space on one side. */
static kt_status put_strips(kt__vocab *v, uint8_t flag, const char *key, kt__gguf_writer *w,
                            kt_error *err) {
    size_t n = 0;
    for (size_t i = 0; i < v->n_tokens; i++) n += (v->strips[i] & flag) != 0;
    if (n == 0) return KT_OK;
    int32_t *ids = kt__arena_calloc(&v->arena, n, sizeof *ids);
    if (!ids) return kt__fail_nomem(err, "ids", n);
    n = 0;
    for (size_t i = 0; i < v->n_tokens; i++)
        if (v->strips[i] & flag) ids[n++] = (int32_t)i;
    kt__gguf_put_i32s(w, key, ids, n);
    return KT_OK;
}

static void put_templates(const kt__vocab *v, kt__gguf_writer *w) {
    kt__str names[KT__VOCAB_MAX_TEMPLATES];
    size_t n = 0;
    for (size_t i = 0; i < v->n_templates; i++) {
        char key[128];
        const kt__chat_text *t = &v->templates[i];
        snprintf(key, sizeof key, "tokenizer.chat_template%s%.*s", t->name.len ? "." : "",
                 (int)t->name.len, t->name.s);
        kt__gguf_put_str(w, key, t->text);
        if (t->name.len) names[n++] = t->name;
    }
    if (n) kt__gguf_put_strs(w, "tokenizer.chat_templates", names, n);
}

kt_status kt__vocab_put(kt__vocab *v, int64_t n_rows, kt__gguf_writer *w, kt_error *err) {
    KT__STEP(kt__vocab_fill(v, (size_t)n_rows, err));
    kt__gguf_put_str(w, "tokenizer.ggml.model", kt__vocab_model_name(v));
    if (!v->by_merges) kt__gguf_put_str(w, "tokenizer.ggml.pre", v->spm ? "default" : v->pre);
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", v->tokens, (uint64_t)n_rows);
    if (v->spm && v->method != KT__VOCAB_WORDPIECE && !v->by_merges)
        kt__gguf_put_f32s(w, "tokenizer.ggml.scores", v->scores, (uint64_t)n_rows);
    kt__gguf_put_i32s(w, "tokenizer.ggml.token_type", v->types, (uint64_t)n_rows);
    if (!v->spm || v->by_merges)
        kt__gguf_put_strs(w, "tokenizer.ggml.merges", v->merges, v->n_merges);
    put_roles(v, w);
    put_flags(v, w);
    if (v->n_suppressed)
        kt__gguf_put_i32s(w, "tokenizer.ggml.suppress_tokens", v->suppressed, v->n_suppressed);
    KT__STEP(put_strips(v, KT__TOK_LSTRIP, "kentang.lstrip_ids", w, err));
    KT__STEP(put_strips(v, KT__TOK_RSTRIP, "kentang.rstrip_ids", w, err));
    put_templates(v, w);
    return KT_OK;
}
