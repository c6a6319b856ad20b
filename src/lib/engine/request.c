/* Requests that their caller waits for: kt_request_run, and short names for usual ones:
 * kt_generate, kt_chat, kt_embed. */
#include <kentang.h>
#include <string.h>

#include "base/error.h"
#include "context/stage.h"
#include "engine/service.h"
#include "requests/seq.h"

/* ---- a text's hidden states, as keys ---- */

kt_status kt_recall_keys(kt_engine *engine, const int32_t *ids, size_t n, size_t first,
                         const kt_adapter_use *adapters, size_t n_adapters, int8_t *keys,
                         kt_error *err) {
    kt_request_params request = kt_request_params_default();
    kt_request *req;
    kt_event event = {.kind = KT_EVENT_STARTED};
    kt__error_clear(err);
    if (first >= n) return kt__fail(err, KT_E_ARG, "no state is asked for");
    request.prompt.ids = ids;
    request.prompt.n_ids = n;
    request.embedding.pooling = KT_POOLING_MEAN;
    request.adapters = adapters;
    request.n_adapters = n_adapters;
    request.embedding.keys = keys;
    request.embedding.keys_first = first;
    kt_status status = kt_engine_submit(engine, &request, &req, err);
    if (status != KT_OK) return status;
    while (event.kind != KT_EVENT_FINISHED && kt_request_next_event(req, &event, -1)) {
    }
    if (event.finish == KT_FINISH_CANCELLED) {
        status = kt__fail(err, KT_E_CANCELLED, "cancelled");
    } else if (!event.embedding) {
        status = event.error ? event.error->code : KT_E_INTERNAL;
        if (err && event.error) *err = *event.error;
    }
    kt_request_close(req);
    return status;
}

/* ---- one answer, as text ---- */

typedef struct listener {
    kt_request *req;
    kt_text_fn *on_text;
    kt_part_fn *on_part;
    void *user;
    kt_request_report *report;
    size_t n_tokens; /* until the caller had enough */
    bool enough;
} listener;

static void hand_text(listener *l, const kt_event *event) {
    if (l->enough) return;
    l->n_tokens += event->id >= 0;
    if ((event->len == 0 || !l->on_text) && !l->on_part) return;
    int64_t begin_ns = kt__stage_begin(l->req->engine);
    if (!l->on_part) l->enough = !l->on_text(l->user, event->text, event->len, event->id);
    for (size_t i = 0; l->on_part && i < event->n_parts && !l->enough; i++)
        l->enough = !l->on_part(l->user, &event->parts[i]);
    kt__stage_end_outside(l->req->engine, KT__STAGE_CALLBACK, begin_ns);
    if (l->enough) kt_request_cancel(l->req);
}

static kt_status take_end(listener *l, const kt_event *event, kt_error *err) {
    *l->report = *event->report;
    if (event->finish != KT_FINISH_ERROR) return KT_OK;
    if (err) *err = *event->error;
    return event->error->code;
}

static kt_status listen_to_end(listener *l, kt_error *err) {
    kt_event event;
    while (kt_request_next_event(l->req, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN) hand_text(l, &event);
        if (event.kind == KT_EVENT_FINISHED) return take_end(l, &event, err);
    }
    return kt__fail(err, KT_E_INTERNAL, "a request ended without its last event");
}

/* Where the caller had enough, what was computed after that token goes: the sequence is what it
 * would be if each step had brought one token. */
static kt_status drop_surplus(const listener *l, kt_seq *seq, size_t n_text, kt_error *err) {
    size_t n_keep = n_text + l->n_tokens - 1;
    return kt_seq_len(seq) > n_keep ? kt_seq_truncate(seq, n_keep, err) : KT_OK;
}

static kt_status check_run(const kt_request_params *request, kt_error *err) {
    if (request->n_choices == 1 && request->embedding.pooling == KT_POOLING_NONE) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "one answer can be waited for: use kt_engine_submit for several, and for "
                    "embeddings");
}

kt_status kt_request_run(kt_engine *engine, const kt_request_params *request, kt_text_fn *on_text,
                         void *user, kt_request_report *report, kt_error *err) {
    kt_request_params r = *request;
    kt_request_report own;
    listener l = {.on_text = on_text,
                  .on_part = r.parts.split ? r.parts.on_part : NULL,
                  .user = user,
                  .report = report ? report : &own};
    r.events.on_event = NULL;
    r.events.on_ready = NULL;
    kt__error_clear(err);
    *l.report = (kt_request_report){.finish = KT_FINISH_ERROR, .stop = -1};
    kt_status status = check_run(&r, err);
    if (status == KT_OK) status = kt_engine_submit(engine, &r, &l.req, err);
    if (status != KT_OK) return status;
    status = listen_to_end(&l, err);
    size_t n_text = (size_t)kt__submitted_of(l.req)->n_text;
    kt_request_close(l.req);
    return status == KT_OK && l.enough && r.seq ? drop_surplus(&l, r.seq, n_text, err) : status;
}

static kt_request_params request_on(kt_seq *seq, const kt_gen_params *params) {
    kt_request_params r = kt_request_params_default();
    if (params) r.gen = *params;
    r.seq = seq;
    return r;
}

kt_status kt_generate(kt_seq *seq, const int32_t *ids, size_t n, const kt_gen_params *params,
                      kt_text_fn *on_text, void *user, kt_request_report *report, kt_error *err) {
    kt_request_params r = request_on(seq, params);
    r.seq_append = true;
    r.prompt.ids = ids;
    r.prompt.n_ids = n;
    return kt_request_run(seq->engine, &r, on_text, user, report, err);
}

kt_status kt_chat(kt_seq *seq, const kt_message *messages, size_t n_messages,
                  const kt_gen_params *params, kt_text_fn *on_text, void *user,
                  kt_request_report *report, kt_error *err) {
    kt_request_params r = request_on(seq, params);
    r.prompt.messages = messages;
    r.prompt.n_messages = n_messages;
    return kt_request_run(seq->engine, &r, on_text, user, report, err);
}

/* ---- embeddings ---- */

static kt_status read_embedding(const kt_event *event, float *out, kt_error *err) {
    if (event->finish == KT_FINISH_CANCELLED) return kt__fail(err, KT_E_CANCELLED, "cancelled");
    if (!event->embedding) {
        if (err && event->error) *err = *event->error;
        return event->error ? event->error->code : KT_E_INTERNAL;
    }
    memcpy(out, event->embedding, event->n_embedding * sizeof *out);
    return KT_OK;
}

kt_status kt_embed(kt_engine *engine, const int32_t *ids, size_t n, kt_pooling pooling,
                   bool normalize, float *out, kt_error *err) {
    kt_request_params request = kt_request_params_default();
    kt_request *req;
    kt_event event = {.kind = KT_EVENT_STARTED};
    request.prompt.ids = ids;
    request.prompt.n_ids = n;
    request.embedding.pooling = pooling;
    request.embedding.normalize = normalize;
    kt__error_clear(err);
    if (pooling == KT_POOLING_NONE) return kt__fail(err, KT_E_ARG, "no pooling is asked for");
    kt_status status = kt_engine_submit(engine, &request, &req, err);
    if (status != KT_OK) return status;
    while (event.kind != KT_EVENT_FINISHED && kt_request_next_event(req, &event, -1)) {
    }
    status = read_embedding(&event, out, err);
    kt_request_close(req);
    return status;
}
