#include "agent/loop.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

enum { SAME_TOLD = 3, SAME_MOST = 4 };
#define DROPPED "(left out: the context is full)"

struct kt__agent {
    kt__turn_opts turn;
    kt__toolbox *box;
    kt__transcript *transcript;
    kt__agent_limits limits;
    kt__agent_hooks hooks;
    json_t *messages;
    kt__buf told; /* of the model's turns: what is not done as it was asked for */
    kt_request_report report;
    /* of the task */
    int32_t n_rounds, n_calls;
    int64_t until_us;
    char *last_call; /* and how often it came in a row */
    int n_same;
};

static void note_line(const kt__agent *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void note_line(const kt__agent *a, const char *fmt, ...) {
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (a->hooks.note) a->hooks.note(a->hooks.user, line);
}

static bool say_message(kt__agent *a, json_t *message) {
    return message && json_array_append_new(a->messages, message) == 0;
}

static bool say_text(kt__agent *a, const char *role, const char *content) {
    return say_message(a, json_pack("{s:s,s:s}", "role", role, "content", content));
}

/* ---- life ---- */

static kt_status begin_agent(kt__agent *a, const char *system, kt_error *err) {
    char *text = kt__turn_system(system);
    a->messages = json_array();
    bool said = text && a->messages && say_text(a, "system", text);
    kt__free(text);
    if (!said) return kt__fail_nomem(err, "a conversation", 0);
    kt__transcript_add(a->transcript, "tools",
                       json_pack("{s:o}", "tools", kt__toolbox_list(a->box)));
    return KT_OK;
}

kt_status kt__agent_create(const kt__turn_opts *turn, kt__toolbox *box, kt__transcript *transcript,
                           const kt__agent_limits *limits, const kt__agent_hooks *hooks,
                           const char *system, kt__agent **out, kt_error *err) {
    kt__agent *a = kt__calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return kt__fail_nomem(err, "an agent", sizeof *a);
    a->turn = *turn;
    a->box = box;
    a->transcript = transcript;
    a->limits = *limits;
    a->hooks = *hooks;
    kt__buf_init(&a->told, 1 << 17);
    kt_status status = begin_agent(a, system, err);
    if (status == KT_OK) {
        *out = a;
    } else {
        kt__agent_free(a);
    }
    return status;
}

void kt__agent_free(kt__agent *a) {
    if (!a) return;
    json_decref(a->messages);
    kt__buf_free(&a->told);
    free(a->last_call);
    kt__free(a);
}

int32_t kt__agent_n_calls(const kt__agent *a) {
    return a->n_calls;
}

/* ---- the model's turn ---- */

/* The oldest result that is still there gives way. false: there is none. */
static bool drop_oldest_result(kt__agent *a) {
    size_t i;
    json_t *m;
    json_array_foreach(a->messages, i, m) {
        const char *role = json_string_value(json_object_get(m, "role"));
        const char *content = json_string_value(json_object_get(m, "content"));
        if (!role || strcmp(role, "tool") != 0 || !content || !strcmp(content, DROPPED)) continue;
        return json_object_set_new(m, "content", json_string(DROPPED)) == 0;
    }
    return false;
}

/* What is the same as the turn before is not said again. */
static void tell_notes(kt__agent *a, const kt__buf *notes) {
    if (notes->len == a->told.len &&
        (!notes->len || !memcmp(notes->data, a->told.data, notes->len)))
        return;
    kt__buf_clear(&a->told);
    (void)kt__buf_append(&a->told, notes->data ? notes->data : "", notes->len);
    for (const char *at = a->told.len ? a->told.data : ""; *at;) {
        size_t len = strcspn(at, "\n");
        note_line(a, "%.*s", (int)(len < 1000 ? len : 1000), at);
        at += len + (at[len] == '\n');
    }
}

/* Text of a model may end within a character. */
static json_t *recorded_text(const kt__buf *text) {
    json_t *v = json_stringn(text->data ? text->data : "", text->len);
    return v ? v : json_string("(it is not UTF-8)");
}

static json_t *recorded_calls(const kt__turn *turn) {
    json_t *list = json_array();
    for (size_t i = 0; i < turn->n_calls; i++) {
        const kt__turn_call *c = &turn->calls[i];
        json_t *args = c->args ? json_incref(c->args) : recorded_text(&c->text);
        (void)json_array_append_new(
            list, json_pack("{s:s,s:s,s:o}", "id", c->id, "tool", c->name, "arguments", args));
    }
    return list;
}

static void record_turn(kt__agent *a, const kt__turn *t) {
    json_t *fields = json_pack("{s:o,s:o,s:i,s:i,s:s}", "text", recorded_text(&t->text), "calls",
                               recorded_calls(t), "prompt_tokens", (int)t->report.n_prompt,
                               "generated_tokens", (int)t->report.n_generated, "finish",
                               kt_finish_name(t->report.finish));
    if (t->reasoning.len)
        (void)json_object_set_new(fields, "reasoning", recorded_text(&t->reasoning));
    kt__transcript_add(a->transcript, "model", fields);
}

static kt_status take_turn(kt__agent *a, bool answers, kt__turn *turn, kt_error *err) {
    kt_status status;
    a->turn.answers = answers;
    a->turn.one_call = a->limits.one_call || a->limits.calls - a->n_calls <= 1;
    while ((status = kt__turn_take(&a->turn, a->messages, a->box, turn, err)) ==
               KT_E_CONTEXT_FULL &&
           drop_oldest_result(a)) {
        note_line(a, "the context is full: an old result is left out");
        kt__turn_free(turn);
    }
    tell_notes(a, &turn->notes);
    a->report = turn->report;
    if (status == KT_OK) record_turn(a, turn);
    return status;
}

/* ---- a call ---- */

typedef struct outcome {
    kt__buf text;
    bool good, cancelled;
} outcome;

static void tell_outcome(outcome *o, bool good, const char *text) {
    o->good = good;
    kt__buf_clear(&o->text);
    (void)kt__buf_puts(&o->text, text);
}

/* Allowed by a rule, by the user, or not at all. args may be replaced by the user's. */
static bool is_approved(kt__agent *a, const kt__agent_tool *tool, json_t **args, outcome *o) {
    const char *how = "rule";
    kt__approval approval = KT__APPROVED;
    if (tool->rule != KT__AGENT_ALLOW) {
        how = a->hooks.approve ? "user" : "nobody to ask";
        approval = a->hooks.approve ? a->hooks.approve(a->hooks.user, tool, args) : KT__REFUSED;
    }
    if (approval == KT__APPROVED_ALWAYS) kt__toolbox_allow(a->box, tool->name);
    kt__transcript_add(a->transcript, "approval",
                       json_pack("{s:s,s:s,s:s,s:O}", "tool", tool->name, "approval",
                                 approval == KT__REFUSED           ? "no"
                                 : approval == KT__APPROVED_ALWAYS ? "always"
                                                                   : "yes",
                                 "by", how, "arguments", *args));
    if (approval != KT__REFUSED) return true;
    tell_outcome(o, false,
                 a->hooks.approve ? "the user does not allow this call"
                                  : "this call is not allowed: nobody is there to allow it");
    return false;
}

/* The same call again and again: told at first, then not made any more. */
static bool is_repeated(kt__agent *a, const char *tool, const json_t *args, outcome *o) {
    json_t *whole = json_pack("[s,O]", tool, args);
    char *text = whole ? json_dumps(whole, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(whole);
    bool same = text && a->last_call && !strcmp(text, a->last_call);
    a->n_same = same ? a->n_same + 1 : 1;
    free(a->last_call);
    a->last_call = text;
    if (a->n_same < SAME_TOLD) return false;
    tell_outcome(o, false,
                 "this call was made before with the same arguments, and its result is above: "
                 "use it, or answer");
    return true;
}

static kt_status play_call(kt__agent *a, const kt__agent_tool *tool, const json_t *args, outcome *o,
                           kt_error *err) {
    const json_t *v = kt__transcript_next(a->transcript, tool->name, args);
    const char *text = json_string_value(json_object_get(v, "text"));
    if (!v)
        return kt__fail(err, KT_E_STATE,
                        "the transcript goes another way: it has no such call of %.64s here",
                        tool->name);
    tell_outcome(o, json_is_true(json_object_get(v, "good")), text ? text : "");
    return KT_OK;
}

static kt_status make_call(kt__agent *a, const kt__agent_tool *tool, json_t *args, outcome *o,
                           kt_error *err) {
    if (a->transcript->recorded) return play_call(a, tool, args, o, err);
    kt__buf_free(&o->text);
    o->good = kt__toolbox_call(a->box, tool, args, &o->text, &o->cancelled);
    return o->cancelled ? kt__fail(err, KT_E_CANCELLED, "cancelled") : KT_OK;
}

static void tell_call(const kt__agent *a, const char *tool, const json_t *args) {
    char *text = json_dumps(args, JSON_COMPACT | JSON_ENCODE_ANY);
    note_line(a, "-> %s %.600s", tool, text ? text : "");
    free(text);
}

static void record_result(kt__agent *a, const char *tool, const json_t *args, const outcome *o,
                          int64_t begin_us) {
    const char *text = o->text.data ? o->text.data : "";
    kt__transcript_add(a->transcript, "result",
                       json_pack("{s:s,s:O,s:b,s:o,s:I}", "tool", tool, "arguments", args, "good",
                                 o->good, "text", recorded_text(&o->text), "took_ms",
                                 (json_int_t)((kt__now_us() - begin_us) / 1000)));
    note_line(a, "<- %s%.300s", o->good ? "" : "failed: ", text);
}

/* Bytes that are no text would be refused by the template. */
static void mend_text(kt__buf *text) {
    kt__buf whole;
    json_t *probe = json_stringn(text->data ? text->data : "", text->len);
    bool good = probe && !memchr(text->data ? text->data : "", 0, text->len);
    json_decref(probe);
    if (good) return;
    kt__buf_init(&whole, text->max);
    (void)kt__buf_printf(&whole, "(%zu bytes that are no text)", text->len);
    kt__buf_free(text);
    *text = whole;
}

static kt_status do_call(kt__agent *a, const kt__turn_call *call, json_t **args, outcome *o,
                         kt_error *err) {
    const kt__agent_tool *tool = kt__toolbox_find(a->box, call->name);
    if (!tool) {
        tell_outcome(o, false, "there is no such tool any more");
        return KT_OK;
    }
    if (a->n_calls >= a->limits.calls) {
        tell_outcome(o, false, "no more calls are allowed: answer with what is known");
        return KT_OK;
    }
    a->n_calls++;
    if (!call->args) {
        tell_outcome(o, false, "the arguments are no JSON object");
        return KT_OK;
    }
    if (is_repeated(a, call->name, *args, o) || !is_approved(a, tool, args, o)) return KT_OK;
    tell_call(a, call->name, *args);
    return make_call(a, tool, *args, o, err);
}

static kt_status answer_call(kt__agent *a, const kt__turn_call *call, kt_error *err) {
    outcome o = {0};
    int64_t begin_us = kt__now_us();
    json_t *args = call->args ? json_incref(call->args) : json_object();
    kt__buf_init(&o.text, 1 << 20);
    kt_status status = do_call(a, call, &args, &o, err);
    mend_text(&o.text);
    if (status == KT_OK) {
        record_result(a, call->name, args, &o, begin_us);
        const char *text = o.text.data ? o.text.data : "";
        if (!say_message(a, kt__turn_result_message(call, text, o.good)))
            status = kt__fail_nomem(err, "a conversation", o.text.len);
    }
    json_decref(args);
    kt__buf_free(&o.text);
    return status;
}

static bool wants_stop(const kt__agent *a) {
    return a->hooks.stop && a->hooks.stop(a->hooks.user);
}

/* One after the other, in the model's order. */
static kt_status answer_calls(kt__agent *a, const kt__turn *turn, kt_error *err) {
    kt_status status = KT_OK;
    for (size_t i = 0; i < turn->n_calls && status == KT_OK; i++)
        status = wants_stop(a) ? kt__fail(err, KT_E_CANCELLED, "cancelled")
                               : answer_call(a, &turn->calls[i], err);
    return status;
}

/* ---- a task ---- */

static bool time_is_over(const kt__agent *a) {
    return a->until_us && kt__now_us() > a->until_us;
}

/* The last round has no calls: whatever is known then is the answer. */
static bool must_answer(const kt__agent *a) {
    return a->n_rounds + 1 >= a->limits.rounds || a->n_calls >= a->limits.calls ||
           a->n_same >= SAME_MOST || time_is_over(a);
}

static kt_status do_round(kt__agent *a, char **answer, kt_error *err) {
    kt__turn turn = {0};
    if (wants_stop(a)) return kt__fail(err, KT_E_CANCELLED, "cancelled");
    (void)kt__toolbox_refresh(a->box);
    kt_status status = take_turn(a, must_answer(a), &turn, err);
    mend_text(&turn.text);
    mend_text(&turn.reasoning);
    if (status == KT_OK && !say_message(a, kt__turn_message(&turn)))
        status = kt__fail_nomem(err, "a conversation", turn.text.len);
    if (status == KT_OK && turn.n_calls) {
        if (turn.text.len) note_line(a, "the model: %.300s", turn.text.data);
        status = answer_calls(a, &turn, err);
    } else if (status == KT_OK) {
        *answer = kt__buf_take(&turn.text, NULL);
        if (!*answer) status = kt__fail_nomem(err, "an answer", 0);
    }
    kt__turn_free(&turn);
    return status;
}

kt_status kt__agent_run(kt__agent *a, const char *task, char **answer, kt_error *err) {
    kt_status status = KT_OK;
    *answer = NULL;
    a->n_rounds = a->n_calls = a->n_same = 0;
    a->until_us = a->limits.time_ms ? kt__now_us() + a->limits.time_ms * 1000 : 0;
    if (!say_text(a, "user", task)) return kt__fail_nomem(err, "a conversation", strlen(task));
    kt__transcript_add(a->transcript, "task", json_pack("{s:s}", "text", task));
    for (; status == KT_OK && !*answer; a->n_rounds++) {
        if (a->n_rounds >= a->limits.rounds)
            return kt__fail(err, KT_E_LIMIT, "no answer after %d rounds", (int)a->limits.rounds);
        status = do_round(a, answer, err);
    }
    kt__transcript_add(a->transcript, status == KT_OK ? "answer" : "error",
                       json_pack("{s:s}", "text", status == KT_OK ? *answer : err->message));
    return status;
}
