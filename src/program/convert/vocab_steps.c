#include "convert/vocab_steps.h"

#include <string.h>

#include "base/error.h"

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
    kt_status status = KT_OK;
    if (!node || json_is_null(node)) return KT_OK;
    if (strcmp(text_of(node, "type"), "Sequence") != 0) return read_step(r, node);
    for (size_t i = 0; i < json_array_size(list); i++)
        KT__TRY(read_step(r, json_array_get(list, i)));
out:
    return status;
}

kt_status kt__vocab_steps_read(const json_t *tokenizer, const char *path, kt__vocab_steps *out,
                               kt_error *err) {
    steps_reader r = {.out = out, .path = path, .err = err};
    kt_status status;
    *out = (kt__vocab_steps){.n = 0};
    KT__TRY(read_steps(&r, json_object_get(tokenizer, "normalizer"), "normalizers"));
    KT__TRY(read_steps(&r, json_object_get(tokenizer, "pre_tokenizer"), "pretokenizers"));
out:
    return status;
}
