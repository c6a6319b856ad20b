#include "calls/format.h"

#include <string.h>

#define CALLS(id, ...) {.name = #id, __VA_ARGS__},
const kt__call_format kt__call_formats[] = {
#include "calls/formats.def"
};
#undef CALLS
const size_t kt__n_call_formats = sizeof kt__call_formats / sizeof *kt__call_formats;

#define REASON(id, ...) {.name = #id, __VA_ARGS__},
const kt__reason_format kt__reason_formats[] = {
#include "calls/reasoning.def"
};
#undef REASON
const size_t kt__n_reason_formats = sizeof kt__reason_formats / sizeof *kt__reason_formats;

static bool source_has(const char *s, size_t len, const char *sign) {
    size_t n = strlen(sign);
    for (const char *at = s; len >= n;) {
        const char *hit = memchr(at, sign[0], len - n + 1);
        if (!hit) return false;
        if (memcmp(hit, sign, n) == 0) return true;
        len -= (size_t)(hit + 1 - at);
        at = hit + 1;
    }
    return false;
}

static bool has_signs(const char *s, size_t len, const char *const *signs, size_t n) {
    if (!signs[0]) return false;
    for (size_t i = 0; i < n && signs[i]; i++)
        if (!source_has(s, len, signs[i])) return false;
    return true;
}

static const kt__call_format *format_named(const char *name) {
    for (size_t i = 0; i < kt__n_call_formats; i++)
        if (strcmp(kt__call_formats[i].name, name) == 0) return &kt__call_formats[i];
    return NULL;
}

kt__call_style kt__call_style_of(const char *source, size_t len) {
    kt__call_style style = {.calls = format_named("generic"),
                            .reasoning = &kt__reason_formats[kt__n_reason_formats - 1],
                            .generic = true};
    for (size_t i = kt__n_reason_formats; i-- > 0;)
        if (has_signs(source, len, kt__reason_formats[i].signs, 2))
            style.reasoning = &kt__reason_formats[i];
    for (size_t i = kt__n_call_formats; i-- > 0;) {
        if (!has_signs(source, len, kt__call_formats[i].signs, KT__FORMAT_SIGNS)) continue;
        style.calls = &kt__call_formats[i];
        style.generic = false;
    }
    style.tools_in_system = !style.calls->shows_tools;
    style.no_developer = !source_has(source, len, "developer");
    style.thinking = source_has(source, len, "message.thinking");
    return style;
}

bool kt__call_style_named(const char *calls, const char *reasoning, kt__call_style *out) {
    *out = (kt__call_style){.calls = format_named(calls)};
    for (size_t i = 0; i < kt__n_reason_formats; i++)
        if (strcmp(kt__reason_formats[i].name, reasoning) == 0)
            out->reasoning = &kt__reason_formats[i];
    if (!out->calls || !out->reasoning) return false;
    out->generic = strcmp(calls, "generic") == 0;
    out->tools_in_system = !out->calls->shows_tools;
    return true;
}

const char *kt__call_style_name(const kt__call_style *style) {
    return style->calls->name;
}

const char *kt__call_style_reasoning(const kt__call_style *style) {
    return style->reasoning->name;
}

const char *kt__call_style_note(const kt__call_style *style) {
    if (style->generic)
        return "the model's template knows no tools: they are described in the system message, and "
               "calls are expected as JSON between <tool_call> and </tool_call>";
    if (style->tools_in_system)
        return "the model's template does not show tools: they are described in the system message";
    return NULL;
}

/* Which control tokens a parser of answers wants to see. */

static bool stands_in(const char *literal, const char *text, size_t len) {
    return literal && memmem(literal, strlen(literal), text, len) != NULL;
}

/* harmony.c has its own markers, not rows. */
static bool marks_harmony(const char *text, size_t len) {
    return stands_in("<|start|><|end|><|message|><|channel|><|constrain|><|return|><|call|>", text,
                     len);
}

static bool marks_calls(const kt__call_format *f, const char *text, size_t len) {
    const char *const literals[] = {f->section_open, f->section_close, f->open,        f->name_end,
                                    f->close,        f->id_open,       f->id_head,     f->between,
                                    f->param_open,   f->key_end,       f->param_close, f->true_end,
                                    f->false_end,    f->quote,         f->start_tag};
    bool found = f->kind == KT__CALLS_HARMONY && marks_harmony(text, len);
    for (size_t i = 0; i < sizeof literals / sizeof literals[0] && !found; i++)
        found = stands_in(literals[i], text, len);
    return found;
}

static bool marks_reasoning(const kt__reason_format *f, const char *text, size_t len) {
    bool found = stands_in(f->open, text, len) || stands_in(f->close, text, len);
    for (size_t i = 0; i < KT__REASON_DROPS && !found; i++)
        found = stands_in(f->drop[i], text, len);
    return found;
}

bool kt__call_style_marks(const kt__call_style *style, const char *text, size_t len) {
    return len > 0 &&
           (marks_calls(style->calls, text, len) || marks_reasoning(style->reasoning, text, len));
}
