/* What the tests of constraints share: a constraint from a string, and verdicts on texts. */
#ifndef KT_TESTS_GRAMMAR_FIXTURE_H
#define KT_TESTS_GRAMMAR_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"
#include "grammar/mask.h"

static inline kt_status compile_text(kt__grammar_kind kind, const char *text, kt__grammar **out,
                                     kt__refusal *why, kt_error *err) {
    const kt__grammar_source source = {
        .kind = kind, .text = text, .len = strlen(text), .layout = KT__LAYOUT_ANY};
    return kt__grammar_create(&source, out, why, err);
}

/* The constraint, or a failed test. */
static inline kt__grammar *must_compile(kt__grammar_kind kind, const char *text) {
    kt__grammar *g = NULL;
    kt__refusal why;
    kt_error err = {0};
    if (compile_text(kind, text, &g, &why, &err) != KT_OK)
        fail_msg("%s: %s %s", text, err.message, why.pointer);
    return g;
}

static inline bool fits(kt__grammar *g, const char *text) {
    kt__gstate s;
    size_t n = strlen(text);
    kt__grammar_start(g, &s);
    return kt__grammar_feed(g, &s, text, &n) && kt__grammar_accepts(g, &s);
}

/* yes and no: texts, ended by NULL. */
static inline void check_texts(kt__grammar_kind kind, const char *source, const char *const *yes,
                               const char *const *no) {
    kt__grammar *g = must_compile(kind, source);
    for (; *yes; yes++)
        if (!fits(g, *yes)) fail_msg("%s refuses %s", source, *yes);
    for (; *no; no++)
        if (fits(g, *no)) fail_msg("%s accepts %s", source, *no);
    kt__grammar_free(g);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
