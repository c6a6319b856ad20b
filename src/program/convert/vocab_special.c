/* Special ids, every end-of-turn id, and whether BOS and EOS are added. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "convert/vocab.h"

static const struct {
    kt__tok_role role;
    const char *name; /* "bos": bos_token of tokenizer_config.json, bos_token_id of config.json */
} special_names[] = {{KT__ROLE_BOS, "bos"},  {KT__ROLE_EOS, "eos"}, {KT__ROLE_UNK, "unk"},
                     {KT__ROLE_PAD, "pad"},  {KT__ROLE_SEP, "sep"}, {KT__ROLE_CLS, "cls"},
                     {KT__ROLE_MASK, "mask"}};
enum { N_SPECIAL = sizeof special_names / sizeof *special_names };

/* Texts that end a turn: a second end id of the model that has one is its eot. */
static const char *const turn_ends[] = {"<|eot_id|>",    "<|eot|>",         "<|im_end|>", "<|end|>",
                                        "<end_of_turn>", "<|end_of_turn|>", "<turn|>"};

/* ---- ids ---- */

/* "text" or {"content": "text"}: its id, or -1. */
static int64_t id_of_text(const kt__vocab *v, const json_t *value) {
    if (json_is_object(value)) value = json_object_get(value, "content");
    const char *s = json_string_value(value);
    return s ? kt__strmap_get(&v->ids, (kt__str){s, strlen(s)}) : -1;
}

static void name_key(const char *name, const char *tail, char out[32]) {
    size_t n = strlen(name);
    memcpy(out, name, n);
    memcpy(out + n, tail, strlen(tail) + 1);
}

static bool is_known_id(const kt__vocab *v, const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           (uint64_t)json_integer_value(value) < v->n_tokens;
}

static void find_roles(kt__vocab *v, const kt__hf_config *config) {
    for (int i = 0; i < N_SPECIAL; i++) {
        char key[32];
        kt__tok_role role = special_names[i].role;
        name_key(special_names[i].name, "_token", key);
        int64_t id = id_of_text(v, json_object_get(v->settings, key));
        if (id < 0) id = id_of_text(v, json_object_get(v->specials, key));
        name_key(special_names[i].name, "_token_id", key);
        json_t *number = kt__hf_config_get(config, key);
        if (json_is_array(number)) number = json_array_get(number, 0);
        if (id < 0 && is_known_id(v, number)) id = json_integer_value(number);
        if (id >= 0) v->role_ids[role] = (int32_t)id;
    }
}

/* ---- ends of turns ---- */

static void add_eos(kt__vocab *v, int64_t id) {
    for (size_t i = 0; i < v->n_eos; i++)
        if (v->eos_ids[i] == id) return;
    if (v->n_eos < KT__VOCAB_MAX_EOS) v->eos_ids[v->n_eos++] = (int32_t)id;
}

/* A number or a list of numbers. */
static kt_status add_eos_value(kt__vocab *v, const json_t *value, const char *file, kt_error *err) {
    size_t n = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (!is_known_id(v, id))
            return kt__fail_at(err, KT_E_FORMAT, file, UINT64_MAX,
                               "eos_token_id holds something that is no id of the %zu tokens",
                               v->n_tokens);
        add_eos(v, json_integer_value(id));
    }
    return KT_OK;
}

static bool is_turn_end(kt__str s) {
    for (size_t i = 0; i < sizeof turn_ends / sizeof *turn_ends; i++)
        if (s.len == strlen(turn_ends[i]) && memcmp(s.s, turn_ends[i], s.len) == 0) return true;
    return false;
}

/* Readers of one eos and one eot lose the others, so those two are the ones that matter most. */
static kt_status find_ends(kt__vocab *v, const kt__hf_config *config, kt_error *err) {
    if (v->role_ids[KT__ROLE_EOS] >= 0) add_eos(v, v->role_ids[KT__ROLE_EOS]);
    KT__STEP(add_eos_value(v, json_object_get(v->generation, "eos_token_id"),
                           "generation_config.json", err));
    KT__STEP(add_eos_value(v, kt__hf_config_get(config, "eos_token_id"), "config.json", err));
    if (v->role_ids[KT__ROLE_EOS] < 0 && v->n_eos) v->role_ids[KT__ROLE_EOS] = v->eos_ids[0];
    for (size_t i = 0; i < v->n_eos && v->role_ids[KT__ROLE_EOT] < 0; i++)
        if (v->eos_ids[i] != v->role_ids[KT__ROLE_EOS] && is_turn_end(v->tokens[v->eos_ids[i]]))
            v->role_ids[KT__ROLE_EOT] = v->eos_ids[i];
    return KT_OK;
}

/* Markers between the parts of a gemma4 answer are text that is shown. */
static void show_markers(kt__vocab *v) {
    static const char *const markers[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                          "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                          "<|\"|>"};
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        int64_t id = kt__strmap_get(&v->ids, (kt__str){markers[i], strlen(markers[i])});
        if (id >= 0) v->types[id] = KT__TOK_USER_DEFINED;
    }
}

/* Tokens that generation_config.json forbids. */
static kt_status find_suppressed(kt__vocab *v, kt_error *err) {
    const json_t *list = json_object_get(v->generation, "suppress_tokens");
    size_t n = json_array_size(list);
    if (n == 0) return KT_OK;
    v->suppressed = kt__arena_calloc(&v->arena, n, sizeof *v->suppressed);
    if (!v->suppressed) return kt__fail_nomem(err, "suppressed tokens", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (is_known_id(v, id)) v->suppressed[v->n_suppressed++] = (int32_t)json_integer_value(id);
    }
    return KT_OK;
}

/* ---- BOS and EOS ---- */

/* The TemplateProcessing step of a post-processor, alone or in a sequence. */
static const json_t *find_template(const json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    json_t *list = json_object_get(node, "processors"), *inner;
    size_t i;
    if (type && strcmp(type, "TemplateProcessing") == 0) return node;
    json_array_foreach(list, i, inner) {
        const char *inner_type = json_string_value(json_object_get(inner, "type"));
        if (inner_type && strcmp(inner_type, "TemplateProcessing") == 0) return inner;
    }
    return NULL;
}

static const json_t *special_at(const json_t *single, size_t i) {
    return json_object_get(json_object_get(json_array_get(single, i), "SpecialToken"), "id");
}

static bool is_pair_processor(const json_t *post) {
    const char *type = json_string_value(json_object_get(post, "type"));
    return type && (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0);
}

/* What the template puts around a text is what GGUF calls bos and eos, even if the model's answers
 * end otherwise (kentang.eos_ids has all ends). */
static void take_role(kt__vocab *v, kt__tok_role role, const json_t *text) {
    int64_t id = text ? id_of_text(v, text) : -1;
    if (id < 0) return;
    v->role_ids[role] = (int32_t)id;
    if (role == KT__ROLE_EOS) add_eos(v, id);
}

/* tokenizer_config.json says it, or else the template for one text begins or ends so. */
static void find_bos_rule(kt__vocab *v, const kt__hf_config *config) {
    const json_t *post = json_object_get(v->tokenizer, "post_processor");
    const json_t *single = json_object_get(find_template(post), "single");
    const json_t *add_bos = json_object_get(v->settings, "add_bos_token");
    const json_t *add_eos = json_object_get(v->settings, "add_eos_token");
    size_t n = json_array_size(single);
    const json_t *first = n ? special_at(single, 0) : NULL;
    const json_t *last = n ? special_at(single, n - 1) : NULL;
    if (is_pair_processor(post)) { /* {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]} */
        first = json_array_get(json_object_get(post, "cls"), 0);
        last = json_array_get(json_object_get(post, "sep"), 0);
    }
    if (v->tokenizer || !v->spm) {
        v->add_bos = first != NULL;
        v->add_eos = last != NULL;
    } else { /* SentencePiece alone: transformers' class adds BOS, of encoders EOS too */
        v->add_bos = 1;
        v->add_eos = (config->arch & KT__HF_ENCODERS) != 0;
    }
    if (json_is_boolean(add_bos)) v->add_bos = json_is_true(add_bos);
    if (json_is_boolean(add_eos)) v->add_eos = json_is_true(add_eos);
    take_role(v, KT__ROLE_BOS, v->add_bos || v->role_ids[KT__ROLE_BOS] < 0 ? first : NULL);
    take_role(v, KT__ROLE_EOS, v->add_eos ? last : NULL);
    if (v->role_ids[KT__ROLE_BOS] < 0) v->add_bos = 0;
    if (v->role_ids[KT__ROLE_EOS] < 0) v->add_eos = 0;
}

/* ---- the space before a text ---- */

/* 1: prepended, 0: not, -1: this step does not say. */
static int prefix_of(const json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    if (!type) return -1;
    if (strcmp(type, "Prepend") == 0) return 1;
    if (strcmp(type, "Metaspace") != 0) return -1;
    const char *scheme = json_string_value(json_object_get(node, "prepend_scheme"));
    if (scheme) return strcmp(scheme, "never") != 0;
    return !json_is_false(json_object_get(node, "add_prefix_space"));
}

static int prefix_in(const json_t *node, const char *list_name) {
    json_t *inner;
    size_t i;
    int found = prefix_of(node);
    json_array_foreach(json_object_get(node, list_name), i, inner) {
        if (found < 0) found = prefix_of(inner);
    }
    return found;
}

static void find_space_rule(kt__vocab *v) {
    const json_t *say = json_object_get(v->settings, "add_prefix_space");
    if (!v->spm || v->method == KT__VOCAB_WORDPIECE) return;
    if (v->tokenizer) {
        int found = prefix_in(json_object_get(v->tokenizer, "normalizer"), "normalizers");
        if (found < 0)
            found = prefix_in(json_object_get(v->tokenizer, "pre_tokenizer"), "pretokenizers");
        v->add_space_prefix = found > 0;
    } else if (json_is_boolean(say)) {
        v->add_space_prefix = json_is_true(say);
    }
}

kt_status kt__vocab_find_special(kt__vocab *v, const kt__hf_config *config, kt_error *err) {
    find_roles(v, config);
    kt_status status = find_ends(v, config, err);
    if (status == KT_OK) status = find_suppressed(v, err);
    find_bos_rule(v, config);
    find_space_rule(v);
    if (v->by_merges) show_markers(v);
    return status;
}

/* Added tokens, from wherever a folder names them, and the map from texts to ids. */

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
    if (id < 0 || id >= KT__TOK_MAX_VOCAB || !text.s || text.len == 0 ||
        text.len > KT__TOK_MAX_TOKEN_BYTES)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "an added token has id %lld; a text and an id from 0 to %d are expected",
                           (long long)id, KT__TOK_MAX_VOCAB - 1);
    bool control = special || looks_like_control(text);
    bool is_new = (size_t)id >= v->n_tokens || !v->tokens[id].s;
    KT__STEP(kt__vocab_reserve(v, (size_t)id + 1, err));
    if (!control) KT__STEP(plain_text(v, &text, err));
    v->tokens[id] = text;
    if (is_new) v->scores[id] = -1000.0f;
    if (!is_new && (v->types[id] == KT__TOK_UNKNOWN || v->types[id] == KT__TOK_BYTE)) return KT_OK;
    v->types[id] = control ? KT__TOK_CONTROL : KT__TOK_USER_DEFINED;
    return KT_OK;
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
    json_array_foreach(list, i, token) {
        json_t *id = json_object_get(token, "id");
        KT__STEP(add_token(v, json_is_integer(id) ? json_integer_value(id) : -1, token, path, err));
    }
    return KT_OK;
}

/* added_tokens_decoder of tokenizer_config.json: {"id": {"content", "special", ...}} */
static kt_status add_decoded(kt__vocab *v, kt_error *err) {
    json_t *tokens = json_object_get(v->settings, "added_tokens_decoder"), *token;
    const char *key;
    json_object_foreach(tokens, key, token) {
        char *end;
        long long id = strtoll(key, &end, 10);
        KT__STEP(add_token(v, *end || !key[0] ? -1 : id, token, "tokenizer_config.json", err));
    }
    return KT_OK;
}

/* added_tokens.json: {"text": id}. Which are special, special_tokens_map.json says elsewhere. */
static kt_status add_mapped_texts(kt__vocab *v, kt_error *err) {
    json_t *id, *special;
    const char *text, *name;
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
        KT__STEP(add_text(v, json_is_integer(id) ? json_integer_value(id) : -1, kept, is_special,
                          "added_tokens.json", err));
    }
    return KT_OK;
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
