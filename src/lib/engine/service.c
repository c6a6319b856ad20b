#include "engine/service.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "context/model.h"
#include "context/stage.h"
#include "prompt/notes.h"
#include "prompt/text.h"
#include "requests/inbox.h"
#include "requests/request.h"
#include "sched/sched.h"

enum {
    DRIVEN_LOOK_MS = 200, /* how long a reader waits for the driver before it looks again */
    MOST_MS = 1 << 30     /* longer timeouts are as long as this */
};

/* ---- submitting ---- */

static kt_status copy_ids(const int32_t *ids, size_t n, int32_t **out, kt_error *err) {
    *out = kt__calloc(n + 1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "the prompt", n * sizeof **out);
    if (n) memcpy(*out, ids, n * sizeof *ids);
    return KT_OK;
}

/* The prompt's ids, for kt__free. */
static kt_status encode_prompt(const kt_engine *engine, const kt_request_params *r,
                               kt__conversation *conversation, kt__pictures *pictures,
                               int32_t **ids, size_t *n, int64_t *ns, kt_error *err) {
    int n_given = (r->prompt.ids != NULL) + (r->prompt.text != NULL) +
                  (r->prompt.messages != NULL) + (r->prompt.chat_json != NULL);
    *ids = NULL;
    *n = 0;
    if (n_given == 0 && r->prompt.n_ids == 0 && r->seq && r->seq_append)
        return copy_ids(NULL, 0, ids, err); /* continues from the sequence's logits */
    if (n_given != 1) {
        return kt__fail(err, KT_E_ARG, "%d prompts: give one of ids, text, messages and chat_json",
                        n_given);
    }
    if (r->prompt.fim_suffix && !r->prompt.text)
        return kt__fail(err, KT_E_ARG, "fim_suffix goes with a prompt given as text");
    if (r->prompt.ids) {
        *n = r->prompt.n_ids;
        return copy_ids(r->prompt.ids, r->prompt.n_ids, ids, err);
    }
    size_t most = (size_t)engine->params.n_ctx;
    if (r->overflow.shorten != KT_SHORTEN_NONE) {
        if (r->overflow.shorten != KT_SHORTEN_OLDEST_TURNS)
            return kt__fail(err, KT_E_ARG, "shorten: %d is not a known value",
                            (int)r->overflow.shorten);
        if (r->seq || !r->prompt.messages)
            return kt__fail_at(err, KT_E_UNSUPPORTED, "shorten", UINT64_MAX,
                               "shorten: only of messages that are texts, without calls of tools "
                               "or reasoning in them, and without a sequence");
        return kt__shorten_encode(engine, r, conversation, ids, n, ns, err);
    }
    return kt__text_encode_prompt(engine->model, r, conversation, pictures, most, ids, n, ns, err);
}

/* A prompt on its way. */
typedef struct made_prompt {
    int32_t *ids, *plain; /* plain: without its notes, where it is kept */
    size_t n, n_plain;
    char *question;
    int32_t *recited; /* [n_recited]: what is answered word for word; or NULL */
    size_t n_recited;
    uint64_t *opened; /* entries of the bank; NULL: what opens is not known */
    kt__conversation *conversation;
    kt__pictures pictures;
    kt__notes notes;
} made_prompt;

static void free_prompt(made_prompt *p) {
    kt__free(p->ids);
    kt__free(p->plain);
    kt__free(p->question);
    kt__free(p->recited);
    kt__free(p->opened);
    kt__conversation_free(p->conversation);
    kt__pictures_free(&p->pictures);
    kt__notes_free(&p->notes);
}

/* As it is without notes; what is said of it was said. */
static kt_status encode_plain(const kt_engine *engine, const kt_request_params *r, made_prompt *p,
                              int64_t *ns, kt_error *err) {
    kt__buf *said = p->conversation ? &p->conversation->notes : NULL;
    size_t n_said = said ? said->len : 0;
    kt_status status = encode_prompt(engine, r, p->conversation, NULL, &p->plain, &p->n_plain, ns,
                                     err);
    if (said && said->data) said->data[said->len = n_said] = '\0';
    return status;
}

/* What is recalled of the bank's entries; of a prompt that is given as tokens nothing is known. */
static kt_status keep_opened(const kt_request_params *r, made_prompt *p, kt_error *err) {
    size_t n = p->notes.n_opened;
    if (!r->corrections.bank || !r->corrections.recall || r->prompt.ids) return KT_OK;
    p->opened = kt__calloc(n + 1, sizeof *p->opened);
    if (!p->opened) return kt__fail_nomem(err, "what a conversation opens", n);
    memcpy(p->opened, p->notes.opened, n * sizeof *p->opened);
    return KT_OK;
}

/* The answer to a question for what was learned, and the end of the turn. */
static kt_status encode_summary(const kt_engine *engine, made_prompt *p, kt_error *err) {
    size_t len = p->notes.n_summary;
    if (!p->notes.summary) return KT_OK;
    p->recited = kt__calloc(len + 2, sizeof *p->recited);
    if (!p->recited) return kt__fail_nomem(err, "an answer's tokens", len * sizeof *p->recited);
    KT__STEP(kt_tokenize(engine->model, p->notes.summary, len, 0, p->recited, len + 1,
                         &p->n_recited, err));
    int32_t end = engine->model->info.eos_id;
    if (end >= 0) p->recited[p->n_recited++] = end;
    return KT_OK;
}

static int32_t note_tokens(const kt_engine *engine) {
    int32_t most = engine->params.n_ctx / 4;
    return most < KT__NOTES_TOKENS ? most : KT__NOTES_TOKENS;
}

/* What is known to be missing is said. */
static void tell_left(made_prompt *p, int32_t tokens) {
    kt__buf *said = p->conversation ? &p->conversation->notes : NULL;
    size_t n = p->notes.n_left;
    if (!n || !said) return;
    if (said->len) (void)kt__buf_putc(said, '\n');
    (void)kt__buf_printf(
        said,
        "%zu correction%s that the conversation names %s not in the prompt: at most "
        "%d are, within %d tokens and the context",
        n, n == 1 ? "" : "s", n == 1 ? "is" : "are", KT_NOTES_MAX, (int)tokens);
}

/* With its notes, where it fits with them; and as it is without, where it is kept. */
static kt_status encode_noted(const kt_engine *engine, const kt_request_params *r, made_prompt *p,
                              int64_t *ns, kt_error *err) {
    kt_request_params bounded = *r;
    if (!bounded.corrections.note_tokens) bounded.corrections.note_tokens = note_tokens(engine);
    KT__STEP(kt__notes_place(&p->notes, engine->model, &bounded, err));
    KT__STEP(keep_opened(r, p, err));
    KT__STEP(encode_summary(engine, p, err));
    kt_status status = encode_prompt(engine, &p->notes.request, p->conversation, &p->pictures,
                                     &p->ids, &p->n, ns, err);
    if (status == KT_E_CONTEXT_FULL && p->notes.n) {
        p->notes.n_left += p->notes.n;
        p->notes.n = 0;
        status = encode_prompt(engine, r, p->conversation, &p->pictures, &p->ids, &p->n, ns, err);
    }
    tell_left(p, bounded.corrections.note_tokens);
    if (status != KT_OK || !r->corrections.keep || r->prompt.n_pictures) return status;
    const kt__user_text *question = &p->notes.question;
    if (question->text) {
        p->question = kt__strndup(question->text, question->len);
        if (!p->question) return kt__fail_nomem(err, "a question", question->len);
    }
    return p->notes.n && !r->seq ? encode_plain(engine, r, p, ns, err) : KT_OK;
}

static kt_status encode_all(kt_engine *engine, const kt_request_params *r, made_prompt *p,
                            int64_t *ns, kt_error *err) {
    KT__STEP(kt__conversation_open(r, &p->conversation, err));
    KT__STEP(kt__pictures_open(&p->pictures, engine->views, r, err));
    return encode_noted(engine, r, p, ns, err);
}

/* The prompt's ids and what its conversation says, with the time that it took counted. */
static kt_status make_prompt(kt_engine *engine, const kt_request_params *r, made_prompt *p,
                             kt_error *err) {
    int64_t ns[2] = {0}, begin_ns = kt__now_ns();
    kt_status status = encode_all(engine, r, p, ns, err);
    int64_t all_ns = kt__now_ns() - begin_ns;
    kt__stage_add_outside(engine, KT__STAGE_TEMPLATE, ns[0]);
    kt__stage_add_outside(engine, KT__STAGE_TOKENIZE, all_ns - ns[0]);
    return status;
}

/* The request gets what was made. */
static kt_status create_request(kt_engine *engine, const kt_request_params *r, made_prompt *p,
                                kt__submitted **out, kt_error *err) {
    kt_request_params noted = *r;
    if (p->notes.n)
        noted.prompt.messages = p->notes.request.prompt.messages; /* what misses are explained by */
    kt_status status = kt__submit_create(engine, &noted, p->ids, p->n, p->conversation,
                                         &p->pictures, out, err);
    p->ids = NULL;
    p->conversation = NULL;
    if (status != KT_OK) return status;
    kt__submitted *sub = *out;
    for (int i = 0; i < sub->n_choices; i++) {
        kt_request_report *report = &sub->choices[i].report;
        report->n_learned = (int32_t)p->notes.n;
        memcpy(report->learned, p->notes.ids, sizeof report->learned);
    }
    sub->scope = (kt__recall_scope){p->opened, p->notes.n_opened, p->opened != NULL};
    sub->asked = p->opened ? p->notes.asked : 0;
    sub->n_noted = (int32_t)p->notes.n;
    sub->recited = p->recited;
    sub->n_recited = p->n_recited;
    memcpy(sub->recited_of, p->notes.summary_ids, sizeof sub->recited_of);
    sub->n_recited_of = p->notes.n_listed;
    p->recited = NULL;
    sub->plain = p->plain;
    sub->n_plain = p->n_plain;
    sub->question = p->question;
    p->plain = NULL;
    p->question = NULL;
    p->opened = NULL;
    return KT_OK;
}

kt_status kt_engine_submit(kt_engine *engine, const kt_request_params *request, kt_request **out,
                           kt_error *err) {
    int64_t begin_us = kt__now_us();
    kt__submitted *sub = NULL;
    made_prompt made = {0};
    kt_status status;
    *out = NULL;
    kt__error_clear(err);
    if (request->embedding.pooling == KT_POOLING_NONE)
        KT__TRY(kt__model_generates(engine->model, err));
    KT__TRY(make_prompt(engine, request, &made, err));
    int64_t begin_ns = kt__stage_begin(engine);
    status = create_request(engine, request, &made, &sub, err);
    kt__stage_end_outside(engine, KT__STAGE_SETUP, begin_ns);
out:
    free_prompt(&made);
    if (status != KT_OK) {
        kt__inbox_note_refused(engine->inbox);
        return status;
    }
    kt_request *req = &sub->req;
    sub->submitted_us = begin_us;
    status = kt__submit_enqueue(sub, request->service.deadline_ms, err);
    if (status == KT_OK) *out = req;
    return status;
}

/* ---- figures ---- */

void kt__service_publish(kt_engine *engine) {
    const kt__engine_counts *r = &engine->counts;
    kt__sched_counts c;
    kt__sched_load load;
    kt__sched_get_counts(engine->sched, &c);
    kt__sched_get_load(engine->sched, &load);
    int64_t kept = kt__kv_n_kept(engine->kv), used = kt__kv_n_used(engine->kv);
    const kt_engine_params *p = &engine->params;
    kt__kv_forms forms;
    kt__kv_get_forms(engine->kv, &forms);
    kt_engine_stats stats = {
        .optimizing = p->optimize,
        .parallel_now = c.n_lanes,
        .parallel_most = p->n_parallel,
        .gap_ms_now = (int32_t)(c.gap_us / 1000),
        .gap_ms_most = p->gap_ms,
        .n_preempted = c.n_preempted,
        .running = c.n_running,
        .waiting = c.n_waiting,
        .held = c.n_held,
        .clients = c.n_clients,
        .prompt_tokens = r->n_prompt_tok,
        .cached_tokens = r->n_cached_tok,
        .queried_tokens = r->n_queried_tok,
        .disk_tokens = r->n_disk_tok,
        .prefill_tokens = c.n_prefill_tok,
        .generated_tokens = r->n_generated,
        .recomputed_tokens = c.n_recomputed_tok,
        .n_drafts = r->n_drafts,
        .drafted_tokens = r->n_drafted,
        .accepted_tokens = r->n_accepted,
        .n_prefill_batches = c.n_prefill_batches,
        .n_decode_batches = c.n_decode_batches,
        .prefill_us = (uint64_t)c.prefill_us,
        .decode_us = (uint64_t)(c.decode_us - r->sample_us > 0 ? c.decode_us - r->sample_us : 0),
        .sample_us = (uint64_t)r->sample_us,
        .prefill_tok_s = load.prefill_us_tok > 0 ? 1e6 / load.prefill_us_tok : 0,
        .decode_step_us = load.step_us +
                          load.step_us_lane * (load.n_decoding ? load.n_decoding : 1),
        .kv_blocks_used = (uint64_t)(used - kept),
        .kv_blocks_cached = (uint64_t)kept,
        .n_evicted_blocks = (uint64_t)kt__prefix_n_evicted(engine->prefix),
        .n_pressed_blocks =
            {[KT_KV_Q8_0] = forms.n_pressed[KT__KV_Q8], [KT_KV_Q4_0] = forms.n_pressed[KT__KV_Q4]},
        .kv_blocks_pressed = {[KT_KV_Q8_0] = (uint64_t)forms.n_pages[KT__KV_Q8],
                              [KT_KV_Q4_0] = (uint64_t)forms.n_pages[KT__KV_Q4]},
    };
    memcpy(stats.n_actions, c.n_actions, sizeof stats.n_actions);
    kt__inbox_publish(engine->inbox, &load, &stats);
}

static void add_expert_counts(const kt_engine *engine, kt_engine_stats *out) {
    kt__expert_counts counts;
    if (!engine->plan.expert_kept_bytes) return;
    kt__expert_store_counts(engine->model->experts, &counts);
    out->n_experts_used = counts.n_used;
    out->n_experts_missed = counts.n_missed;
    out->expert_read_bytes = counts.read_bytes;
}

static void add_device_use(const kt_engine *engine, kt_engine_stats *out) {
    if (!engine->model->device) return;
    kt__gpu_use use = kt__gpu_get_use(engine->model->gpu);
    kt__gpu_health health = kt__gpu_get_health(engine->model->gpu);
    out->device_temperature_c = health.temperature_c;
    out->device_power_w = health.power_w;
    out->device_lost = kt__gpu_is_lost(engine->model->gpu);
    out->device_bytes = use.memory_bytes;
    out->device_us = (uint64_t)(use.wait_us - engine->model->device->before_us);
}

void kt_engine_get_stats(const kt_engine *engine, kt_engine_stats *out) {
    kt__inbox_get_stats(engine->inbox, out);
    add_expert_counts(engine, out);
    add_device_use(engine, out);
    out->kv_blocks = (uint64_t)kt__kv_n_pages(engine->kv);
    out->mem_budget_bytes = engine->model->ctx->mem_bytes;
    out->mem_weights_bytes = kt__model_resident_bytes(engine->model);
    out->mem_kv_bytes = kt__kv_bytes(kt__kv_get_shape(engine->kv),
                                     (int64_t)(out->kv_blocks_used + out->kv_blocks_cached),
                                     kt__kv_n_local(engine->kv));
    out->mem_scratch_bytes = engine->plan.scratch_bytes;
}

/* ---- driving ---- */

static void take_submitted(kt_engine *engine) {
    for (kt__task *t = kt__inbox_take(engine->inbox), *next; t; t = next) {
        next = t->next;
        kt__sched_add(engine->sched, t);
    }
}

/* One step with the turn; false: nothing could run. */
static bool drive_once(kt_engine *engine) {
    kt__ticket_lock(&engine->turn);
    int64_t begin_ns = kt__stage_begin(engine);
    kt__profile_begin(kt__engine_profile_on(engine));
    take_submitted(engine);
    atomic_store(&engine->cancel_pending, false);
    if (atomic_load_explicit(&engine->cancel, memory_order_relaxed))
        kt__sched_end_all(engine->sched, KT_FINISH_CANCELLED, true);
    bool ran = kt__sched_step(engine->sched);
    kt__service_publish(engine);
    kt__profile_lap(kt__engine_profile_on(engine), KT_PROFILE_BATCH);
    kt__stage_end(engine, KT__STAGE_TOTAL, begin_ns);
    kt__ticket_unlock(&engine->turn);
    return ran;
}

bool kt__service_help(kt_engine *engine) {
    return !kt__inbox_is_driven(engine->inbox) && drive_once(engine);
}

static void *drive_thread(void *arg) {
    kt_engine *engine = arg;
    while (!kt__inbox_is_told_to_quit(engine->inbox)) {
        if (!drive_once(engine)) kt__inbox_wait_for_work(engine->inbox);
    }
    return NULL;
}

kt_status kt_engine_start(kt_engine *engine, kt_error *err) {
    kt__error_clear(err);
    if (!kt__inbox_begin_driving(engine->inbox))
        return kt__fail(err, KT_E_STATE, "the engine's thread runs already");
    int rc = kt__thread_start(&engine->driver, "kt-engine", 0, drive_thread, engine);
    if (rc == 0) return KT_OK;
    kt__inbox_end_driving(engine->inbox);
    return kt__fail(err, KT_E_NOMEM, "cannot start the engine's thread: %s", strerror(rc));
}

void kt_engine_stop(kt_engine *engine, int64_t drain_ms) {
    if (kt__inbox_close(engine->inbox, drain_ms)) pthread_join(engine->driver, NULL);
    kt__ticket_lock(&engine->turn);
    do {
        take_submitted(engine);
        kt__sched_end_all(engine->sched, KT_FINISH_CANCELLED, false);
    } while (!kt__inbox_is_empty(engine->inbox));
    kt__service_publish(engine);
    kt__ticket_unlock(&engine->turn);
    kt__inbox_end_driving(engine->inbox);
}

kt_status kt_engine_step(kt_engine *engine, int64_t budget_us, int32_t *n_left, kt_error *err) {
    int64_t until_us = kt__now_us() + budget_us;
    kt__error_clear(err);
    if (n_left) *n_left = 0;
    if (kt__inbox_is_driven(engine->inbox))
        return kt__fail(err, KT_E_STATE, "the engine's own thread drives it");
    while (drive_once(engine) && kt__now_us() < until_us) {
    }
    if (n_left) *n_left = kt__inbox_n_live(engine->inbox);
    return KT_OK;
}

/* ---- a request ---- */

/* Milliseconds to wait before looking again: whether a thread drives may change meanwhile. */
static int64_t wait_ms(bool driven, int64_t timeout_ms, int64_t until_us) {
    int64_t most = driven ? DRIVEN_LOOK_MS : KT__SERVICE_LOOK_MS;
    int64_t left = timeout_ms < 0 ? most : (until_us - kt__now_us()) / 1000 + 1;
    return left < 0 ? 0 : left < most ? left : most;
}

bool kt_request_next_event(kt_request *req, kt_event *out, int64_t timeout_ms) {
    kt__submitted *sub = kt__submitted_of(req);
    int64_t until_us = kt__now_us() + 1000 * (timeout_ms < MOST_MS ? timeout_ms : MOST_MS);
    if (sub->on_event) return false;
    kt__events_drop_read(sub);
    for (int64_t ms = 0; !kt__events_read(sub, out, ms);) {
        if (timeout_ms == 0 || kt__events_are_over(sub)) return false;
        if (timeout_ms > 0 && kt__now_us() >= until_us) return false;
        bool driven = kt__inbox_is_driven(req->engine->inbox);
        bool ran = !driven && drive_once(req->engine);
        ms = ran ? 0 : wait_ms(driven, timeout_ms, until_us);
    }
    return true;
}

const char *kt_request_notes(const kt_request *req) {
    const kt__submitted *sub = (const kt__submitted *)(const void *)req;
    return sub->conversation && sub->conversation->notes.data ? sub->conversation->notes.data : "";
}

size_t kt_request_learned(const kt_request *req, uint64_t *ids, size_t cap) {
    const kt__submitted *sub = (const kt__submitted *)(const void *)req;
    const kt_request_report *report =
        &sub->choices[0].report; /* every choice begins with the same */
    size_t n = (size_t)sub->n_noted;
    for (size_t i = 0; i < n && i < cap; i++) ids[i] = report->learned[i];
    return n;
}

size_t kt_request_n_prompt(const kt_request *req) {
    return (size_t)((const kt__submitted *)(const void *)req)->n_text;
}

size_t kt_request_n_computed(const kt_request *req) {
    const kt__submitted *sub = (const kt__submitted *)(const void *)req;
    int32_t n = atomic_load(&sub->choices[0].work.n_computed);
    return (size_t)(n < sub->n_text ? n : sub->n_text);
}

void kt_request_cancel(kt_request *req) {
    atomic_store(&req->cancel, true);
    atomic_store(&req->engine->cancel_pending, true);
}

/* Its owner may close the sequence next. */
static void wait_for_seq(kt__submitted *sub) {
    enum { AGAIN_MS = 100 }; /* the thread that drives may stop driving */
    while (atomic_load(&sub->has_seq)) {
        if (!kt__service_help(sub->req.engine)) (void)kt__events_wait_for_seq(sub, AGAIN_MS);
    }
}

void kt_request_close(kt_request *req) {
    if (!req) return;
    kt__submitted *sub = kt__submitted_of(req);
    kt_engine *engine = req->engine;
    kt_request_cancel(req);
    if (atomic_load(&sub->has_seq)) wait_for_seq(sub);
    bool done = kt__events_detach(sub);
    if (done) {
        kt__submitted_free(sub);
    } else {
        kt__inbox_wake(engine->inbox);
    }
}
