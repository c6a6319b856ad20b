#include "requests/hold.h"

#include <string.h>

#include "base/error.h"
#include "calls/constraint.h"

/* A constraint in the making; what it points to lives as long as this. */
typedef struct holding {
    kt__call_constraint calls;
    kt_form forms[2];
    const char *trigger;
    kt_constraint made;
} holding;

static void add_note(kt__buf *notes, const char *text, size_t len) {
    if (!len) return;
    if (notes->len) (void)kt__buf_putc(notes, '\n');
    (void)kt__buf_append(notes, text, len);
}

/* The texts that calls may be, and what a user should know of them. */
static kt_status describe_calls(kt__submitted *sub, const kt_request_params *r,
                                kt__call_constraint *out, kt_error *err) {
    kt__conversation *c = sub->conversation;
    const kt__call_style *style = &sub->req.engine->model->style;
    const kt__call_rules rules = {.tools = c->tools,
                                  .choice = c->choice,
                                  .one_call = r->one_call,
                                  .prompt_tail = c->tail,
                                  .prompt_tail_len = c->tail_len};
    kt_status status = kt__call_constraint_make(style, &rules, out, err);
    if (status != KT_OK) return kt__conversation_fail_in("tools", status, err);
    const char *note = kt__call_style_note(style);
    if (note) add_note(&c->notes, note, strlen(note));
    if (out->notes.data) add_note(&c->notes, out->notes.data, out->notes.len);
    return KT_OK;
}

/* Calls that must come are the whole answer, reasoning included; so is text without calls, and what
 * is either, but these two only where the request holds the answer to nothing else. Calls that may
 * come after a mark follow it: among free text, or instead of what the request asks for. */
static kt_status add_calls(holding *h, kt__submitted *sub, const kt_request_params *r,
                           kt_error *err) {
    bool beside = r->constraint.n_forms == 1 && !r->constraint.n_triggers;
    kt_status status = describe_calls(sub, r, &h->calls, err);
    if (status != KT_OK || !h->calls.text.len) return status;
    kt_form form = {.kind = KT_FORM_PIECES, .text = h->calls.text.data, .len = h->calls.text.len};
    bool must = !h->calls.trigger[0];
    bool may_be_text = sub->conversation->choice.mode == KT__TOOL_NONE ||
                       (must && sub->conversation->choice.mode == KT__TOOL_AUTO);
    if (r->constraint.n_forms && may_be_text) return KT_OK;
    if (r->constraint.n_forms && !must && !beside)
        return kt__fail_at(err, KT_E_UNSUPPORTED, "tools", UINT64_MAX,
                           "tools: they go with one form of the answer, without triggers");
    if (must || !beside) {
        h->trigger = h->calls.trigger;
        h->forms[0] = form;
        h->made = (kt_constraint){.forms = h->forms,
                                  .n_forms = 1,
                                  .triggers = must ? NULL : &h->trigger,
                                  .n_triggers = must ? 0 : 1,
                                  .repeat = !must && !r->one_call,
                                  .compact = r->constraint.compact};
        return KT_OK;
    }
    form.before = h->calls.trigger;
    h->forms[0] = r->constraint.forms[0];
    h->forms[1] = form;
    h->made = (kt_constraint){.forms = h->forms, .n_forms = 2, .compact = r->constraint.compact};
    return KT_OK;
}

/* Where the answer begins inside reasoning, a form comes after that. */
static void wait_for_answer(holding *h, const kt__submitted *sub) {
    bool thinks = sub->conversation && sub->conversation->thinks;
    h->trigger = thinks ? kt__conversation_closing(sub->req.engine->model) : NULL;
    if (!h->trigger || !h->made.n_forms || h->made.n_triggers) return;
    h->made.triggers = &h->trigger;
    h->made.n_triggers = 1;
}

kt_status kt__hold_lend(kt__submitted *sub, const kt_request_params *request, kt_error *err) {
    const kt__conversation *c = sub->conversation;
    holding h = {.made = request->constraint};
    bool calls = c && c->tools;
    kt_status status = calls ? add_calls(&h, sub, request, err) : KT_OK;
    bool whole = h.made.forms == h.forms && !h.calls.trigger[0]; /* reasoning is within it */
    if (status == KT_OK && !whole && !(h.made.n_triggers)) wait_for_answer(&h, sub);
    if (status == KT_OK)
        status = kt__constraints_lend(sub->req.engine, &h.made, &sub->constraint, err);
    kt__call_constraint_free(&h.calls);
    return status;
}
