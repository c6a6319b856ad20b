/* What kentang does not do is refused, never ignored. */
#include <string.h>

#include "base/error.h"
#include "wire/wire_value.h"

static bool asks_for_something(const json_t *v) {
    bool zero = json_is_number(v) && json_number_value(v) == 0;
    return v && !zero && !kt__wire_is_empty(v);
}

static kt_status refuse_if_given(const kt__wire_reader *r, const json_t *body, const char *key,
                                 const char *why) {
    kt__wire_place at = {.key = key};
    const json_t *v = kt__wire_member(body, key);
    if (!asks_for_something(v)) return KT_OK;
    return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "not supported%s%s", why ? ": " : "",
                            why ? why : "");
}

static kt_status refuse_modalities(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "modalities"};
    const json_t *v = kt__wire_member(body, "modalities"), *item;
    size_t i;
    if (!v) return KT_OK;
    if (!json_is_array(v)) return kt__wire_fail_type(r, &at, "an array", v);
    json_array_foreach(v, i, item) {
        kt__wire_place here = {.up = &at, .index = i};
        if (json_is_string(item) && !strcmp(json_string_value(item), "text")) continue;
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &here, "only \"text\" is supported");
    }
    return KT_OK;
}

kt_status kt__wire_refuse_the_rest(const kt__wire_reader *r, const json_t *body) {
    static const struct {
        const char *key, *why;
    } refused[] = {
        {"stop_token_ids", "give \"stop\" texts"},
        {"bad_words", "see \"logit_bias\""},
        {"allowed_token_ids", "see \"logit_bias\""},
        {"use_beam_search", NULL},
        {"truncate_prompt_tokens", "a prompt is never cut"},
        {"chat_template", "the model's own is used; see /tokenize and \"prompt\" for others"},
        {"audio", NULL},
        {"web_search_options", NULL},
        {"image_data", "give an image_url in \"messages\""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        KT__STEP(refuse_if_given(r, body, refused[i].key, refused[i].why));
    return refuse_modalities(r, body);
}
