/* Added tokens, from wherever a folder names them, and the map from texts to ids. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ending.h"
#include "base/error.h"
#include "convert/vocab.h"

kt_status kt__vocab_reserve(kt__vocab *v, size_t n, kt_error *err) {
    if (n <= v->n_tokens) return KT_OK;
    if (n > v->cap_tokens) {
        size_t cap = n + n / 8 + 64;
        kt__str *tokens = kt__realloc_array(v->tokens, cap, sizeof *tokens);
        if (tokens) v->tokens = tokens;
        float *scores = kt__realloc_array(v->scores, cap, sizeof *scores);
        if (scores) v->scores = scores;
        int32_t *types = kt__realloc_array(v->types, cap, sizeof *types);
        if (types) v->types = types;
        uint8_t *strips = kt__realloc_array(v->strips, cap, sizeof *strips);
        if (strips) v->strips = strips;
        if (!tokens || !scores || !types || !strips) return kt__fail_nomem(err, "tokens", cap);
        v->cap_tokens = cap;
    }
    memset(v->tokens + v->n_tokens, 0, (n - v->n_tokens) * sizeof *v->tokens);
    memset(v->scores + v->n_tokens, 0, (n - v->n_tokens) * sizeof *v->scores);
    memset(v->types + v->n_tokens, 0, (n - v->n_tokens) * sizeof *v->types);
    memset(v->strips + v->n_tokens, 0, (n - v->n_tokens) * sizeof *v->strips);
    v->n_tokens = n;
    return KT_OK;
}

kt_status kt__vocab_fill(kt__vocab *v, size_t n, kt_error *err) {
    kt_status status = kt__vocab_reserve(v, n, err);
    for (size_t i = 0; status == KT_OK && i < n; i++) {
        char text[32];
        if (v->tokens[i].s) continue;
        int len = snprintf(text, sizeof text, "[PAD%zu]", i);
        char *copy = kt__arena_strndup(&v->arena, text, (size_t)len);
        if (!copy) return kt__fail_nomem(err, "tokens", (size_t)len);
        v->tokens[i] = (kt__str){copy, (size_t)len};
        v->types[i] = KT__TOK_UNUSED;
        v->scores[i] = -10000.0f;
    }
    return status;
}

kt_status kt__vocab_index(kt__vocab *v, kt_error *err) {
    kt_status status = kt__vocab_fill(v, v->n_tokens, err);
    if (status != KT_OK) return status;
    if (!kt__strmap_init(&v->ids, v->n_tokens)) return kt__fail_nomem(err, "ids", v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++)
        (void)kt__strmap_put(&v->ids, v->tokens[i], (int64_t)i);
    return KT_OK;
}

/* ---- added tokens ---- */

/* Texts that steer a model although the file does not call them special. */
static bool looks_like_control(kt__str s) {
    static const char *const whole[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    static const struct {
        const char *begin, *end;
    } forms[] = {{"<|", "|>"}, {"<｜", "｜>"}, {"<unused", ">"}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (s.len == strlen(whole[i]) && memcmp(s.s, whole[i], s.len) == 0) return true;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t a = strlen(forms[i].begin), b = strlen(forms[i].end);
        if (s.len >= a + b && memcmp(s.s, forms[i].begin, a) == 0 &&
            kt__ends_with(s.s, s.len, forms[i].end))
            return true;
    }
    return false;
}

/* Tokens found in a text before merging are compared with the text itself: U+2581 is a space. */
static kt_status plain_text(kt__vocab *v, kt__str *s, kt_error *err) {
    if (v->spm || !memmem(s->s, s->len, "\xe2\x96\x81", 3)) return KT_OK;
    char *out = kt__arena_alloc(&v->arena, s->len + 1);
    size_t n = 0;
    if (!out) return kt__fail_nomem(err, "an added token", s->len);
    for (size_t i = 0; i < s->len; i++) {
        bool block = s->len - i >= 3 && memcmp(s->s + i, "\xe2\x96\x81", 3) == 0;
        out[n++] = block ? ' ' : s->s[i];
        if (block) i += 2;
    }
    *s = (kt__str){out, n};
    return KT_OK;
}

static kt_status add_text(kt__vocab *v, int64_t id, kt__str text, bool special, const char *path,
                          kt_error *err) {
    kt_status status;
    if (id < 0 || id >= KT__TOK_MAX_VOCAB || !text.s || text.len == 0 ||
        text.len > KT__TOK_MAX_TOKEN_BYTES)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "an added token has id %lld; a text and an id from 0 to %d are expected",
                           (long long)id, KT__TOK_MAX_VOCAB - 1);
    bool control = special || looks_like_control(text);
    bool is_new = (size_t)id >= v->n_tokens || !v->tokens[id].s;
    KT__TRY(kt__vocab_reserve(v, (size_t)id + 1, err));
    if (!control) KT__TRY(plain_text(v, &text, err));
    v->tokens[id] = text;
    if (is_new) v->scores[id] = -1000.0f;
    if (!is_new && (v->types[id] == KT__TOK_UNKNOWN || v->types[id] == KT__TOK_BYTE)) return KT_OK;
    v->types[id] = control ? KT__TOK_CONTROL : KT__TOK_USER_DEFINED;
out:
    return status;
}

/* {"content", "special", "lstrip", "rstrip", ...} */
static kt_status add_token(kt__vocab *v, int64_t id, const json_t *token, const char *path,
                           kt_error *err) {
    const json_t *content = json_object_get(token, "content");
    kt__str text = {json_string_value(content), json_string_length(content)};
    bool special = json_is_true(json_object_get(token, "special"));
    kt_status status = add_text(v, id, text, special, path, err);
    if (status != KT_OK) return status;
    bool left = json_is_true(json_object_get(token, "lstrip"));
    bool right = json_is_true(json_object_get(token, "rstrip"));
    v->strips[id] = (uint8_t)((left ? KT__TOK_LSTRIP : 0) | (right ? KT__TOK_RSTRIP : 0));
    v->has_strips = v->has_strips || left || right;
    return KT_OK;
}

/* added_tokens of tokenizer.json: [{"id", "content", "special", ...}] */
static kt_status add_listed(kt__vocab *v, const char *path, kt_error *err) {
    json_t *list = json_object_get(v->tokenizer, "added_tokens"), *token;
    size_t i;
    kt_status status = KT_OK;
    json_array_foreach(list, i, token) {
        json_t *id = json_object_get(token, "id");
        KT__TRY(add_token(v, json_is_integer(id) ? json_integer_value(id) : -1, token, path, err));
    }
out:
    return status;
}

/* added_tokens_decoder of tokenizer_config.json: {"id": {"content", "special", ...}} */
static kt_status add_decoded(kt__vocab *v, kt_error *err) {
    json_t *tokens = json_object_get(v->settings, "added_tokens_decoder"), *token;
    const char *key;
    kt_status status = KT_OK;
    json_object_foreach(tokens, key, token) {
        char *end;
        long long id = strtoll(key, &end, 10);
        KT__TRY(add_token(v, *end || !key[0] ? -1 : id, token, "tokenizer_config.json", err));
    }
out:
    return status;
}

/* added_tokens.json: {"text": id}. Which are special, special_tokens_map.json says elsewhere. */
static kt_status add_mapped_texts(kt__vocab *v, kt_error *err) {
    json_t *id, *special;
    const char *text, *name;
    kt_status status = KT_OK;
    json_object_foreach(v->added, text, id) {
        bool is_special = false;
        json_t *content = json_string(text);
        json_object_foreach(v->specials, name, special) {
            const json_t *s = json_is_object(special) ? json_object_get(special, "content")
                                                      : special;
            is_special = is_special || (json_is_string(s) && json_equal(s, content));
        }
        json_decref(content);
        kt__str kept = {text, strlen(text)}; /* the key lives as long as the file */
        KT__TRY(add_text(v, json_is_integer(id) ? json_integer_value(id) : -1, kept, is_special,
                         "added_tokens.json", err));
    }
out:
    return status;
}

kt_status kt__vocab_add_tokens(kt__vocab *v, const char *path, kt_error *err) {
    if (v->tokenizer) return add_listed(v, path, err);
    if (json_object_get(v->settings, "added_tokens_decoder")) return add_decoded(v, err);
    return add_mapped_texts(v, err);
}

kt_status kt__vocab_cut(kt__vocab *v, const char *path, const kt__convert_notes *notes,
                        kt_error *err) {
    size_t first = SIZE_MAX, n = 0;
    if (v->n_rows == 0) return KT_OK;
    for (size_t i = v->n_rows; i < v->n_tokens; i++) {
        if (!v->tokens[i].s) continue;
        if (v->types[i] != KT__TOK_CONTROL && v->types[i] != KT__TOK_USER_DEFINED)
            return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                               "token %zu, '%.60s', has no row in the embedding, which has %zu: "
                               "they do not belong together",
                               i, v->tokens[i].s, v->n_rows);
        if (first == SIZE_MAX) first = i;
        n++;
    }
    if (n == 0) return KT_OK;
    kt__convert_note(notes,
                     "%zu added tokens have no row in the embedding and are left out, first "
                     "'%.60s' (%zu)",
                     n, v->tokens[first].s, first);
    v->n_tokens = v->n_rows;
    return KT_OK;
}
