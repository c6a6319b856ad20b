/* WordPiece and unigram vocabularies of tokenizer.json, and what is done to a text before: only what
 * GGUF's keys can say is taken. */
#include "convert/vocab_reader.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "convert/vocab.h"

static kt_status refuse_setting(const char *path, kt_error *err, const char *name,
                                const char *expected) {
    return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                       "%s: %s is expected, GGUF cannot express another", name, expected);
}

static const char *type_of(const json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    return type ? type : "";
}

/* ---- WordPiece ---- */

/* Whether a switch of a tokenizer.json's part is false. One that is absent, or is null, counts as true: so Hugging Face's own
 * reader takes it. */
static bool is_off(const json_t *node, const char *name) {
    return json_is_false(json_object_get(node, name));
}

static kt_status read_bert_normalizer(kt__vocab *v, const char *path, kt_error *err) {
    const json_t *node = json_object_get(v->tokenizer, "normalizer");
    const json_t *accents = json_object_get(node, "strip_accents");
    if (strcmp(type_of(node), "BertNormalizer") != 0 || is_off(node, "clean_text") ||
        is_off(node, "handle_chinese_chars"))
        return refuse_setting(path, err, "normalizer",
                              "a BertNormalizer that cleans texts and sets Chinese characters "
                              "apart");
    v->lowercase = !is_off(node, "lowercase");
    v->strip_accents = json_is_boolean(accents) ? json_is_true(accents) : v->lowercase;
    if (strcmp(type_of(json_object_get(v->tokenizer, "pre_tokenizer")), "BertPreTokenizer") != 0)
        return refuse_setting(path, err, "pre_tokenizer", "a BertPreTokenizer");
    return KT_OK;
}

static kt_status check_wordpiece(const json_t *model, const char *path, kt_error *err) {
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    const json_t *longest = json_object_get(model, "max_input_chars_per_word");
    if (!prefix || strcmp(prefix, "##") != 0)
        return refuse_setting(path, err, "model.continuing_subword_prefix", "\"##\"");
    if (longest && json_integer_value(longest) != 100)
        return refuse_setting(path, err, "model.max_input_chars_per_word", "100");
    return KT_OK;
}

/* "##ing" continues a word: "ing"; "play" begins one: U+2581 and "play"; "[CLS]" is neither. */
static kt_status respell_piece(kt__vocab *v, size_t i, kt_error *err) {
    static const char begin[] = "\xe2\x96\x81";
    kt__str s = v->tokens[i];
    if (!s.s || (s.len > 1 && s.s[0] == '[' && s.s[s.len - 1] == ']')) return KT_OK;
    if (s.len > 2 && memcmp(s.s, "##", 2) == 0) {
        v->tokens[i] = (kt__str){s.s + 2, s.len - 2};
        return KT_OK;
    }
    char *text = kt__arena_alloc(&v->arena, s.len + sizeof begin);
    if (!text) return kt__fail_nomem(err, "tokens", s.len);
    memcpy(text, begin, sizeof begin - 1);
    memcpy(text + sizeof begin - 1, s.s, s.len);
    v->tokens[i] = (kt__str){text, s.len + sizeof begin - 1};
    return KT_OK;
}

kt_status kt__vocab_read_wordpiece(kt__vocab *v, const char *path, kt_error *err) {
    const json_t *model = json_object_get(v->tokenizer, "model");
    const char *unk = json_string_value(json_object_get(model, "unk_token"));
    int64_t unk_id = unk ? kt__vocab_listed_id(v, unk, strlen(unk)) : -1;
    KT__STEP(check_wordpiece(model, path, err));
    KT__STEP(read_bert_normalizer(v, path, err));
    KT__STEP(kt__vocab_read_ids(v, path, err));
    if (unk_id < 0)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "model.unk_token is not in model.vocab");
    v->role_ids[KT__ROLE_UNK] = (int32_t)unk_id;
    for (size_t i = 0; i < v->n_tokens; i++) {
        if (v->types[i] == KT__TOK_BYTE) v->types[i] = KT__TOK_NORMAL;
        KT__STEP(respell_piece(v, i, err));
    }
    return KT_OK;
}

/* ---- unigram ---- */

static kt_status decode_charsmap(kt__vocab *v, kt__str text, const char *path, kt_error *err) {
    char *out = kt__arena_alloc(&v->arena, text.len / 4 * 3 + 3);
    size_t bad;
    if (!out) return kt__fail_nomem(err, "a character map", text.len);
    v->charsmap = (kt__str){out, kt__base64_decode(text.s, text.len, out, &bad)};
    if (bad == SIZE_MAX) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                       "precompiled_charsmap is not base64 at its character %zu", bad);
}

static kt_status read_pieces(kt__vocab *v, const json_t *model, const char *path, kt_error *err) {
    bool bytes = json_is_true(json_object_get(model, "byte_fallback"));
    if (v->listed_ids || v->n_listed == 0)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "model.vocab is not a list of 1 to %d pieces", KT__VOCAB_MAX_TOKENS);
    kt_status status = kt__vocab_reserve(v, v->n_listed, err);
    for (size_t i = 0; status == KT_OK && i < v->n_listed; i++) {
        const kt__vocab_entry *entry = &v->listed[i];
        if (!(fabs(entry->number) < 1e30) || entry->text.len > KT__TOK_MAX_TOKEN_BYTES)
            return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                               "model.vocab[%zu] is not a text and a score", i);
        v->tokens[i] = entry->text;
        v->scores[i] = (float)entry->number;
        v->types[i] = bytes && kt__vocab_is_byte(v->tokens[i]) ? KT__TOK_BYTE : KT__TOK_NORMAL;
    }
    return status;
}

/* The steps are the ones of a SentencePiece file, however they are cut: its character map, one space
 * for several, a space before the text. */
static kt_status read_unigram_steps(kt__vocab *v, const char *path, kt_error *err) {
    kt__vocab_steps steps;
    KT__STEP(kt__vocab_steps_read(v->tokenizer, path, &steps, err));
    v->remove_extra_spaces = 0;
    for (size_t i = 0; i < steps.n; i++) {
        if (steps.list[i].kind == KT__STEP_CHARSMAP)
            KT__STEP(decode_charsmap(v, steps.list[i].text, path, err));
        if (steps.list[i].kind == KT__STEP_JOIN_SPACES ||
            steps.list[i].kind == KT__STEP_SPLIT_SPACES)
            v->remove_extra_spaces = 1;
    }
    return KT_OK;
}

kt_status kt__vocab_read_unigram(kt__vocab *v, const char *path, kt_error *err) {
    const json_t *model = json_object_get(v->tokenizer, "model");
    const json_t *unk = json_object_get(model, "unk_id");
    KT__STEP(read_pieces(v, model, path, err));
    KT__STEP(read_unigram_steps(v, path, err));
    if (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
        (uint64_t)json_integer_value(unk) >= v->n_tokens)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "model.unk_id is no id of the %zu pieces", v->n_tokens);
    v->role_ids[KT__ROLE_UNK] = (int32_t)json_integer_value(unk);
    v->types[v->role_ids[KT__ROLE_UNK]] = KT__TOK_UNKNOWN;
    return KT_OK;
}

/* ---- vocab steps ---- */

static const char low_line[] = "\xe2\x96\x81"; /* U+2581 */

typedef struct steps_reader {
    kt__vocab_steps *out;
    const char *path;
    kt_error *err;
} steps_reader;

static kt_status refuse_step(const steps_reader *r, const char *type, const char *why) {
    return kt__fail_at(r->err, KT_E_UNSUPPORTED, r->path, UINT64_MAX,
                       "the step %.60s of a unigram tokenizer %s", type, why);
}

static const char *text_of(const json_t *node, const char *name) {
    const char *s = json_string_value(json_object_get(node, name));
    return s ? s : "";
}

static kt_status add_step(steps_reader *r, kt__vocab_step step) {
    if (r->out->n == KT__VOCAB_MAX_STEPS)
        return refuse_step(r, "list", "is longer than any that is known");
    r->out->list[r->out->n++] = step;
    return KT_OK;
}

static kt__str str_of(const json_t *node, const char *name) {
    const json_t *value = json_object_get(node, name);
    return (kt__str){text_of(node, name), json_string_length(value)};
}

/* {"pattern": {"Regex": " {2,}"}, "content": " "}, or {"pattern": {"String": " "}, "content": "U+2581"} */
static kt_status read_replace(steps_reader *r, const json_t *node) {
    const json_t *pattern = json_object_get(node, "pattern");
    kt__str content = str_of(node, "content");
    bool is_block = strcmp(content.s, low_line) == 0;
    if (strcmp(text_of(pattern, "Regex"), " {2,}") == 0 &&
        (is_block || strcmp(content.s, " ") == 0))
        return add_step(r, (kt__vocab_step){.kind = KT__STEP_JOIN_SPACES, .text = content});
    if (strcmp(text_of(pattern, "String"), " ") == 0 && is_block)
        return add_step(r, (kt__vocab_step){.kind = KT__STEP_REPLACE});
    return refuse_step(r, "Replace", "replaces what GGUF's t5 tokenizers do not");
}

static kt_status read_metaspace(steps_reader *r, const json_t *node) {
    const json_t *replacement = json_object_get(node, "replacement");
    const char *scheme = json_string_value(json_object_get(node, "prepend_scheme"));
    if (replacement && strcmp(text_of(node, "replacement"), low_line) != 0)
        return refuse_step(r, "Metaspace", "has another character than U+2581 for a space");
    bool before = scheme ? strcmp(scheme, "never") != 0
                         : !json_is_false(json_object_get(node, "add_prefix_space"));
    return add_step(r, (kt__vocab_step){.kind = KT__STEP_METASPACE,
                                        .left = before,
                                        .right = !json_is_false(json_object_get(node, "split"))});
}

static kt_status read_step(steps_reader *r, const json_t *node) {
    const char *type = text_of(node, "type");
    if (strcmp(type, "Precompiled") == 0)
        return add_step(r, (kt__vocab_step){.kind = KT__STEP_CHARSMAP,
                                            .text = str_of(node, "precompiled_charsmap")});
    if (strcmp(type, "Strip") == 0)
        return add_step(
            r, (kt__vocab_step){.kind = KT__STEP_STRIP,
                                .left = json_is_true(json_object_get(node, "strip_left")),
                                .right = json_is_true(json_object_get(node, "strip_right"))});
    if (strcmp(type, "Replace") == 0) return read_replace(r, node);
    if (strcmp(type, "Prepend") == 0 && strcmp(text_of(node, "prepend"), low_line) == 0)
        return add_step(r, (kt__vocab_step){.kind = KT__STEP_PREPEND});
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_step(r, (kt__vocab_step){.kind = KT__STEP_SPLIT_SPACES});
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(r, node);
    return refuse_step(r, type, "cannot be expressed in GGUF");
}

/* A step, or a sequence of them; null is none. */
static kt_status read_steps(steps_reader *r, const json_t *node, const char *list_name) {
    const json_t *list = json_object_get(node, list_name);
    if (!node || json_is_null(node)) return KT_OK;
    if (strcmp(text_of(node, "type"), "Sequence") != 0) return read_step(r, node);
    for (size_t i = 0; i < json_array_size(list); i++)
        KT__STEP(read_step(r, json_array_get(list, i)));
    return KT_OK;
}

kt_status kt__vocab_steps_read(const json_t *tokenizer, const char *path, kt__vocab_steps *out,
                               kt_error *err) {
    steps_reader r = {.out = out, .path = path, .err = err};
    *out = (kt__vocab_steps){.n = 0};
    KT__STEP(read_steps(&r, json_object_get(tokenizer, "normalizer"), "normalizers"));
    return read_steps(&r, json_object_get(tokenizer, "pre_tokenizer"), "pretokenizers");
}
