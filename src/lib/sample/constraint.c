#include "sample/held.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/mask.h"

enum {
    MAX_CHOICES = 100000,
    MAX_TEXT = 4 << 20,    /* bytes of a form, and of all its choices */
    MAX_AROUND = 64 << 10, /* of what is around it, with marks */
    GROWTH = 4 << 20       /* that a form's tables may take while answers are made, all in all */
};

/* ---- forms ---- */

static kt_status check_sizes(const kt_form *f, kt_error *err) {
    size_t bytes = f->len;
    if (f->n_choices > MAX_CHOICES)
        return kt__fail(err, KT_E_LIMIT, "%zu choices, expected at most %d", f->n_choices,
                        (int)MAX_CHOICES);
    for (size_t i = 0; i < f->n_choices; i++) bytes += strlen(f->choices[i]);
    if (bytes <= MAX_TEXT) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "a form of %zu bytes, expected at most %d", bytes,
                    (int)MAX_TEXT);
}

static kt_status read_kind(const kt_form *f, kt__grammar_source *out, kt_error *err) {
    switch (f->kind) {
    case KT_FORM_JSON_OBJECT: out->kind = KT__GRAMMAR_JSON_OBJECT; return KT_OK;
    case KT_FORM_JSON_SCHEMA: out->kind = KT__GRAMMAR_SCHEMA; break;
    case KT_FORM_GRAMMAR: out->kind = KT__GRAMMAR_GBNF; break;
    case KT_FORM_REGEX: out->kind = KT__GRAMMAR_REGEX; break;
    case KT_FORM_PIECES: out->kind = KT__GRAMMAR_PIECES; break;
    case KT_FORM_CHOICE:
        out->kind = KT__GRAMMAR_CHOICE;
        if (f->n_choices > 0) return KT_OK;
        return kt__fail(err, KT_E_ARG, "a choice of nothing");
    default: return kt__fail(err, KT_E_ARG, "form kind %d", (int)f->kind);
    }
    return f->text ? KT_OK : kt__fail(err, KT_E_ARG, "a form without its text");
}

static kt_status copy_choices(const kt_form *f, kt__gtext **out, kt_error *err) {
    *out = kt__calloc(f->n_choices + 1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "choices", f->n_choices * sizeof **out);
    for (size_t i = 0; i < f->n_choices; i++)
        (*out)[i] = (kt__gtext){f->choices[i], strlen(f->choices[i])};
    return KT_OK;
}

static kt_status mark_around(const kt__constraint *c, const char *text, kt__buf *out, kt__gtext *to,
                             kt_error *err) {
    kt__buf_init(out, MAX_AROUND);
    if (text) kt__held_vocab_mark(c->vocab, text, out);
    *to = (kt__gtext){out->data, out->len};
    if (!out->failed) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "over %d bytes around a form", (int)MAX_AROUND);
}

static void mark_piece(void *ctx, const char *text, size_t len, kt__buf *out) {
    char *copy = kt__strndup(text, len);
    if (copy)
        kt__held_vocab_mark(ctx, copy, out);
    else
        out->failed = true;
    kt__free(copy);
}

static kt__glayout layout_of(const kt_form *f, bool compact) {
    return f->blanks ? KT__LAYOUT_ANY : compact ? KT__LAYOUT_NONE : KT__LAYOUT_USUAL;
}

static kt_status add_form(kt__constraint *c, const kt_form *f, bool compact, kt_error *err) {
    kt_status status;
    kt__gtext *choices = NULL;
    kt__buf before = {0}, after = {0};
    kt__grammar_source s = {.text = f->text,
                            .len = f->len,
                            .layout = layout_of(f, compact),
                            .ordered = !f->any_order,
                            .closed = true,
                            .mark = {mark_piece, (void *)c->vocab}};
    KT__TRY(check_sizes(f, err));
    KT__TRY(read_kind(f, &s, err));
    KT__TRY(mark_around(c, f->before, &before, &s.before, err));
    KT__TRY(mark_around(c, f->after, &after, &s.after, err));
    KT__TRY(copy_choices(f, &choices, err));
    s.texts = choices;
    s.n_texts = f->n_choices;
    KT__TRY(kt__grammar_create(&s, &c->forms[c->n_forms], NULL, err));
    kt__grammar_limit(c->forms[c->n_forms], GROWTH);
    status = kt__gmask_attach(c->forms[c->n_forms++], c->vocab->tokens, err);
out:
    kt__free(choices);
    kt__buf_free(&before);
    kt__buf_free(&after);
    return status;
}

/* A pointer into a schema is one into this form's. */
static void place_error(const kt_constraint *what, size_t i, kt_error *err) {
    char pointer[sizeof err->where] = "";
    if (!err) return;
    if (what->forms[i].kind == KT_FORM_JSON_SCHEMA)
        snprintf(pointer, sizeof pointer, "%s", err->where);
    snprintf(err->where, sizeof err->where, "constraint.forms[%zu]%.110s", i, pointer);
}

static kt_status add_forms(kt__constraint *c, const kt_constraint *what, kt_error *err) {
    kt_status status = KT_OK;
    if (what->n_forms < 1 || what->n_forms > KT__FORMS_MAX)
        return kt__fail(err, KT_E_LIMIT, "%zu forms, expected 1 to %d", what->n_forms,
                        (int)KT__FORMS_MAX);
    for (size_t i = 0; status == KT_OK && i < what->n_forms; i++) {
        status = add_form(c, &what->forms[i], what->compact, err);
        if (status != KT_OK) place_error(what, i, err);
    }
    return status;
}

/* ---- triggers ---- */

static kt_status make_triggers(kt__constraint *c, const kt_constraint *what, kt_error *err) {
    const char *texts[KT__TRIGGERS_MAX];
    size_t at[KT__TRIGGERS_MAX];
    kt__buf all;
    kt__buf_init(&all, KT__MATCH_MAX_BYTES);
    for (size_t i = 0; i < what->n_triggers; i++) {
        at[i] = all.len;
        kt__held_vocab_mark(c->vocab, what->triggers[i], &all);
        (void)kt__buf_append(&all, "", 1);
    }
    kt_status status = KT_OK;
    if (all.failed) status = kt__fail(err, KT_E_LIMIT, "the triggers are too long");
    for (size_t i = 0; status == KT_OK && i < what->n_triggers; i++) {
        texts[i] = all.data + at[i];
        if (!*texts[i]) status = kt__fail(err, KT_E_ARG, "an empty trigger");
    }
    if (status == KT_OK) status = kt__match_create(texts, what->n_triggers, &c->triggers, err);
    kt__buf_free(&all);
    return status;
}

/* Whether a trigger ends within the token, not at its end. */
static bool reaches_on(const kt__constraint *c, int32_t id) {
    size_t len;
    uint32_t at = 0;
    const char *s = kt__gvocab_token(c->vocab->tokens, id, &len);
    for (size_t i = 0; i + 1 < len; i++) {
        at = kt__match_step(c->triggers, at, (uint8_t)s[i]);
        if (kt__match_found(c->triggers, at) >= 0) return true;
    }
    return false;
}

static kt_status list_reaching(kt__constraint *c, kt_error *err) {
    int32_t n_vocab = c->vocab->tokens->n_vocab;
    for (int pass = 0; pass < 2; pass++) {
        uint32_t n = 0;
        for (int32_t id = 0; id < n_vocab; id++) {
            if (!reaches_on(c, id)) continue;
            if (pass) c->reaching[n] = id;
            n++;
        }
        c->n_reaching = n;
        if (!pass) c->reaching = kt__calloc(n + 1u, sizeof *c->reaching);
        if (!c->reaching) return kt__fail_nomem(err, "a constraint's tokens", n * 4u);
    }
    return KT_OK;
}

static kt_status add_triggers(kt__constraint *c, const kt_constraint *what, kt_error *err) {
    if (what->n_triggers == 0) return KT_OK;
    if (what->n_triggers > KT__TRIGGERS_MAX)
        return kt__fail(err, KT_E_LIMIT, "%zu triggers, expected at most %d", what->n_triggers,
                        (int)KT__TRIGGERS_MAX);
    kt_status status = make_triggers(c, what, err);
    return status == KT_OK ? list_reaching(c, err) : status;
}

/* ---- life ---- */

kt_status kt__constraint_create(const kt_constraint *what, const kt__held_vocab *vocab,
                                kt__constraint **out, kt_error *err) {
    size_t bytes = vocab->tokens->n_words * sizeof(uint64_t);
    *out = NULL;
    kt__constraint *c = kt__calloc(1, sizeof *c);
    if (!c) return kt__fail_nomem(err, "a constraint", sizeof *c);
    c->vocab = vocab;
    c->repeat = what->repeat;
    c->set = kt__malloc(bytes);
    c->one = kt__malloc(bytes);
    kt_status status;
    if (!c->set || !c->one) KT__TRY(kt__fail_nomem(err, "a constraint", 2 * bytes));
    KT__TRY(add_forms(c, what, err));
    KT__TRY(add_triggers(c, what, err));
    *out = c;
    c = NULL;
out:
    kt__constraint_free(c);
    return status;
}

void kt__constraint_free(kt__constraint *c) {
    if (!c) return;
    for (uint32_t i = 0; i < c->n_forms; i++) kt__grammar_free(c->forms[i]);
    kt__match_free(c->triggers);
    kt__free(c->reaching);
    kt__free(c->set);
    kt__free(c->one);
    kt__free(c);
}

size_t kt__constraint_bytes(const kt__constraint *c) {
    size_t bytes = sizeof *c + c->vocab->tokens->n_words * 16u + c->n_reaching * 4u;
    for (uint32_t i = 0; i < c->n_forms; i++) bytes += kt__grammar_bytes(c->forms[i]);
    return bytes;
}

bool kt__constraint_has_room(const kt__constraint *c) {
    for (uint32_t i = 0; i < c->n_forms; i++)
        if (kt__grammar_room(c->forms[i]) < GROWTH - GROWTH / 4) return false;
    return true;
}
