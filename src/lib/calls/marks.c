/* Which control tokens a parser of answers wants to see. */
#include <string.h>

#include "calls/format.h"

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
