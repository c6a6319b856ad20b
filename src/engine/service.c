#include "engine/service.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/runner.h"

/* ---- life ---- */

static kt__sched_params sched_params(const kt_engine *engine) {
    const kt_engine_params *p = &engine->params;
    return (kt__sched_params){
        .n_parallel = p->n_parallel,
        .n_rows = p->n_ubatch,
        .n_out = engine->n_out_max,
        .page_pos = KT__PAGE_POS,
        .gap_us = (int64_t)p->gap_ms * 1000,
        .unit_share = 0.5 / (double)engine->model->net->hp.n_layer, /* gate and up of a layer */
    };
}

static kt_status init_locks(kt__service *s, kt_error *err) {
    if (pthread_mutex_init(&s->lock, NULL) != 0) return kt__fail_nomem(err, "a lock", 0);
    if (kt__cond_init(&s->work) == 0) {
        if (kt__cond_init(&s->idle) == 0) return KT_OK;
        pthread_cond_destroy(&s->work);
    }
    pthread_mutex_destroy(&s->lock);
    return kt__fail_nomem(err, "a lock", 0);
}

kt_status kt__service_create(kt_engine *engine, kt__service **out, kt_error *err) {
    kt__sched_params params = sched_params(engine);
    *out = NULL;
    kt__service *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "the scheduler", sizeof *s);
    s->engine = engine;
    kt_status status = init_locks(s, err);
    if (status != KT_OK) {
        kt__free(s);
        return status;
    }
    KT__TRY(kt__runner_create(engine, &s->runner, err));
    KT__TRY(kt__sched_create(&params, kt__runner_ops(), s->runner, &s->sched, err));
    kt__sched_get_load(s->sched, &s->load);
    *out = s;
    s = NULL;
out:
    kt__service_destroy(s);
    return status;
}

static void publish(kt__service *s);

static void take_inbox(kt__service *s) {
    pthread_mutex_lock(&s->lock);
    kt__live *live = s->inbox_first;
    s->inbox_first = s->inbox_last = NULL;
    pthread_mutex_unlock(&s->lock);
    while (live) {
        kt__live *next = live->next;
        for (int i = 0; i < live->n_choices; i++) {
            live->choices[i].in_sched = true;
            kt__sched_add(s->sched, &live->choices[i].task);
        }
        live = next;
    }
}

/* With the turn. */
static void end_all(kt__service *s) {
    do {
        take_inbox(s);
        kt__sched_end_all(s->sched, KT_FINISH_CANCELLED);
    } while (s->inbox_first);
    publish(s);
}

void kt__service_destroy(kt__service *s) {
    if (!s) return;
    if (s->sched) {
        kt_engine_stop(s->engine, 0);
        kt__sched_destroy(s->sched);
    }
    kt__runner_destroy(s->runner);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    kt__free(s);
}

void kt__service_settle(kt__service *s) {
    kt__sched_hold_prompts(s->sched, true);
    while (kt__sched_run_batch(s->sched)) kt__turn_pass(&s->engine->turn);
}

void kt__service_release(kt__service *s, bool more) {
    kt__sched_hold_prompts(s->sched, false);
    if (more) (void)kt__sched_step(s->sched);
    pthread_mutex_lock(&s->lock);
    s->nudged = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

void kt__service_on_hidden(void *user, int row, float *hidden) {
    const kt_engine *engine = user;
    if (engine->service) kt__runner_on_hidden(engine->service->runner, row, hidden);
}

kt__kv_key kt__service_root(kt__service *s, const char *scope) {
    uint8_t bytes[KT__KV_BINDING_BYTES + 512];
    size_t n, len = strlen(scope);
    if (len > 512) len = 512;
    pthread_mutex_lock(&s->lock);
    n = s->binding_bytes;
    memcpy(bytes, s->binding, n);
    pthread_mutex_unlock(&s->lock);
    memcpy(bytes + n, scope, len);
    return kt__kv_key_root(bytes, n + len);
}

/* Blocks that outlive the process are bound to the model's bytes and options; those in memory
 * belong to this engine anyway. */
void kt__engine_set_kv_store(kt_engine *engine, const kt__kv_store *store) {
    kt__service *s = engine->service;
    uint8_t binding[KT__KV_BINDING_BYTES];
    kt_error err;
    if (store && kt__engine_kv_binding(engine, binding, &err) != KT_OK) {
        kt__log_line(&engine->model->ctx->log, KT_LOG_WARN, "no disk cache: %s", err.message);
        store = NULL;
    }
    kt__turn_take(&engine->turn);
    kt__prefix_set_store(engine->prefix, store);
    pthread_mutex_lock(&s->lock);
    s->binding_bytes = store ? sizeof binding : 0;
    if (store) memcpy(s->binding, binding, sizeof binding);
    pthread_mutex_unlock(&s->lock);
    kt__turn_give(&engine->turn);
}

/* ---- submitting ---- */

kt_request_params kt_request_params_default(void) {
    return (kt_request_params){
        .text_flags = KT_TOK_ADD_SPECIAL,
        .gen = kt_gen_params_default(),
        .n_choices = 1,
        .n_logprobs = -1,
        .normalize = true,
    };
}

static kt_status copy_ids(const int32_t *ids, size_t n, int32_t **out, kt_error *err) {
    *out = kt__calloc(n + 1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "the prompt", n * sizeof **out);
    memcpy(*out, ids, n * sizeof *ids);
    return KT_OK;
}

static kt_status encode_text(const kt_model *model, const kt_request_params *r, int32_t **ids,
                             size_t *n, kt_error *err) {
    kt__ids found;
    if (!model->tok)
        return kt__fail(err, KT_E_UNSUPPORTED, "%s has no vocabulary: use token ids",
                        model->info.path);
    kt__ids_init(&found, SIZE_MAX);
    kt_status status = kt__gguf_check(model->gguf, err);
    if (status == KT_OK)
        status = kt__tokenizer_encode(model->tok, r->text, r->text_len, r->text_flags, &found, err);
    if (status == KT_OK) {
        *ids = kt__ids_take(&found, n);
        if (!*ids) status = kt__fail_nomem(err, "prompt ids", 0);
    }
    kt__ids_free(&found);
    return status;
}

/* The prompt's ids, for kt__free. */
static kt_status encode_prompt(const kt_model *model, const kt_request_params *r, int32_t **ids,
                               size_t *n, kt_error *err) {
    int n_given = (r->ids != NULL) + (r->text != NULL) + (r->messages != NULL) +
                  (r->chat_json != NULL);
    int64_t ns[2] = {0};
    *ids = NULL;
    *n = 0;
    if (n_given != 1) {
        return kt__fail(err, KT_E_ARG, "%d prompts: give one of ids, text, messages and chat_json",
                        n_given);
    }
    if (r->ids) {
        *n = r->n_ids;
        return copy_ids(r->ids, r->n_ids, ids, err);
    }
    if (r->text) return encode_text(model, r, ids, n, err);
    if (r->messages)
        return kt__chat_encode_timed(model, r->messages, r->n_messages, true, ids, n, ns, err);
    return kt__chat_encode_json(model, r->chat_json, r->chat_json_len, ids, n, err);
}

/* Everything ahead of a request that is submitted now. The lock is held. */
static kt__forecast predict(const kt__service *s, const kt__wish *wish) {
    kt__sched_load load = s->load;
    for (const kt__live *live = s->inbox_first; live; live = live->next) {
        const kt__task *task = &live->choices[0].task;
        const kt__wish before = {task->priority, kt__client_key(task->client->name), live->n_prompt,
                                 task->n_predict};
        kt__sched_load_add(&load, &before);
    }
    return kt__sched_predict(&load, wish);
}

static kt_status refuse(kt__service *s, const kt__live *live, const kt_request_params *r,
                        kt_error *err) {
    const kt__task *task = &live->choices[0].task;
    const kt__wish wish = {task->priority, kt__client_key(task->client->name), live->n_prompt,
                           (int64_t)live->n_predict * live->n_choices};
    kt__forecast f = predict(s, &wish);
    if (s->closed) {
        s->stats.n_refused_other++;
        return kt__fail(err, KT_E_STATE, "the engine is being stopped: no more requests are taken");
    }
    if (s->n_waiting >= s->engine->params.n_queue_max) {
        s->stats.n_refused_busy++;
        (void)kt__fail(err, KT_E_BUSY, "%d requests are waiting already: try again in about %.1f s",
                       s->n_waiting, (double)f.first_us / 1e6 + 0.1);
        if (err) err->retry_ms = f.first_us / 1000 + 100;
        return KT_E_BUSY;
    }
    int64_t late_us = live->n_predict > 0 ? f.all_us : f.first_us;
    if (r->deadline_ms > 0 && late_us > r->deadline_ms * 1000) {
        s->stats.n_refused_deadline++;
        (void)kt__fail(err, KT_E_DEADLINE,
                       "the answer would take about %.1f s (first token %.1f s), and the deadline "
                       "is %.1f s",
                       (double)late_us / 1e6, (double)f.first_us / 1e6,
                       (double)r->deadline_ms / 1e3);
        if (err) err->retry_ms = late_us / 1000;
        return KT_E_DEADLINE;
    }
    return KT_OK;
}

static void enqueue(kt__service *s, kt__live *live, int64_t deadline_ms) {
    int64_t t_us = kt__now_us();
    live->tokenize_us = t_us - live->submitted_us;
    for (int i = 0; i < live->n_choices; i++) {
        kt__task *task = &live->choices[i].task;
        task->arrival_us = t_us;
        task->deadline_us = deadline_ms > 0 ? live->submitted_us + deadline_ms * 1000 : INT64_MAX;
        if (live->n_predict == 0 && !task->embed) task->finish = KT_FINISH_LENGTH;
    }
    if (s->inbox_last) {
        s->inbox_last->next = live;
    } else {
        s->inbox_first = live;
    }
    s->inbox_last = live;
    s->n_waiting++;
    s->n_live++;
    s->stats.n_submitted++;
    pthread_cond_signal(&s->work);
}

kt_status kt_engine_submit(kt_engine *engine, const kt_request_params *request, kt_request **out,
                           kt_error *err) {
    kt__service *s = engine->service;
    int64_t begin_us = kt__now_us();
    kt__live *live = NULL;
    int32_t *ids;
    size_t n;
    *out = NULL;
    kt__error_clear(err);
    kt_status status = encode_prompt(engine->model, request, &ids, &n, err);
    if (status == KT_OK) status = kt__live_create(engine, request, ids, n, &live, err);
    pthread_mutex_lock(&s->lock);
    if (status != KT_OK) {
        s->stats.n_refused_other++;
    } else {
        live->submitted_us = begin_us;
        status = refuse(s, live, request, err);
    }
    if (status == KT_OK) {
        enqueue(s, live, request->deadline_ms);
        *out = &live->req;
        live = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    kt__live_free(live);
    return status;
}

/* ---- figures ---- */

/* What the driver knows becomes everybody's. With the turn. */
static void publish(kt__service *s) {
    const kt_engine *engine = s->engine;
    const kt__runner_counts *r = kt__runner_get_counts(s->runner);
    kt__sched_counts c;
    kt__sched_load load;
    kt__sched_get_counts(s->sched, &c);
    kt__sched_get_load(s->sched, &load);
    int64_t kept = kt__kv_n_kept(engine->kv), used = kt__kv_n_used(engine->kv);
    pthread_mutex_lock(&s->lock);
    kt_engine_stats *st = &s->stats;
    s->load = load;
    st->n_preempted = c.n_preempted;
    st->running = c.n_running;
    st->waiting = c.n_waiting;
    st->held = c.n_held;
    st->clients = c.n_clients;
    st->prompt_tokens = r->n_prompt_tok;
    st->cached_tokens = r->n_cached_tok;
    st->queried_tokens = r->n_queried_tok;
    st->disk_tokens = r->n_disk_tok;
    st->prefill_tokens = c.n_prefill_tok;
    st->generated_tokens = r->n_generated;
    st->recomputed_tokens = c.n_recomputed_tok;
    st->drafted_tokens = r->n_drafted;
    st->accepted_tokens = r->n_accepted;
    st->n_prefill_batches = c.n_prefill_batches;
    st->n_decode_batches = c.n_decode_batches;
    st->prefill_us = (uint64_t)c.prefill_us;
    st->decode_us = (uint64_t)(c.decode_us - r->sample_us > 0 ? c.decode_us - r->sample_us : 0);
    st->sample_us = (uint64_t)r->sample_us;
    st->prefill_tok_s = load.prefill_us_tok > 0 ? 1e6 / load.prefill_us_tok : 0;
    st->decode_step_us = load.step_us + load.step_us_lane * (load.n_decoding ? load.n_decoding : 1);
    st->kv_blocks = (uint64_t)kt__kv_n_pages(engine->kv);
    st->kv_blocks_used = (uint64_t)(used - kept);
    st->kv_blocks_cached = (uint64_t)kept;
    st->n_evicted_blocks = (uint64_t)kt__prefix_n_evicted(engine->prefix);
    pthread_mutex_unlock(&s->lock);
}

void kt_engine_get_stats(const kt_engine *engine, kt_engine_stats *out) {
    kt__service *s = engine->service;
    const kt__hparams *hp = &engine->model->net->hp;
    kt__kv_shape shape = {hp->n_layer, hp->n_head_kv, hp->head_dim_k, hp->head_dim_v};
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    const kt__wish usual = {0, kt__client_key(""), 1, 1};
    out->predicted_wait_ms = predict(s, &usual).first_us / 1000;
    if (s->inbox_first) out->waiting = out->waiting > s->n_waiting ? out->waiting : s->n_waiting;
    pthread_mutex_unlock(&s->lock);
    out->kv_blocks = (uint64_t)kt__kv_n_pages(engine->kv);
    out->mem_budget_bytes = engine->model->ctx->mem_bytes;
    out->mem_weights_bytes = engine->model->info.weight_bytes;
    out->mem_kv_bytes = (out->kv_blocks_used + out->kv_blocks_cached) * kt__kv_page_bytes(&shape);
    out->mem_scratch_bytes = engine->plan.scratch_bytes;
}

/* ---- driving ---- */

/* One step with the turn; false: nothing could run. */
static bool drive(kt__service *s) {
    kt_engine *engine = s->engine;
    kt__turn_take(&engine->turn);
    take_inbox(s);
    atomic_store(&engine->look, false);
    if (atomic_load_explicit(&engine->cancel, memory_order_relaxed))
        kt__sched_end_all(s->sched, KT_FINISH_CANCELLED);
    bool ran = kt__sched_step(s->sched);
    publish(s);
    kt__turn_give(&engine->turn);
    return ran;
}

enum { LOOK_MS = 20 }; /* how often a waiting driver looks for cancels and deadlines */

/* Until there is something to do. false: quit. */
static bool wait_for_work(kt__service *s) {
    pthread_mutex_lock(&s->lock);
    while (!s->quit && !s->inbox_first && !s->nudged) {
        if (s->n_live == 0) {
            pthread_cond_wait(&s->work, &s->lock);
        } else {
            struct timespec until = kt__time_in_ms(LOOK_MS);
            if (pthread_cond_timedwait(&s->work, &s->lock, &until) != 0) break;
        }
    }
    s->nudged = false;
    bool go_on = !s->quit;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static bool is_told_to_quit(kt__service *s) {
    pthread_mutex_lock(&s->lock);
    bool quit = s->quit;
    pthread_mutex_unlock(&s->lock);
    return quit;
}

static void *drive_thread(void *arg) {
    kt__service *s = arg;
    while (!is_told_to_quit(s)) {
        if (!drive(s) && !wait_for_work(s)) break;
    }
    return NULL;
}

kt_status kt_engine_start(kt_engine *engine, kt_error *err) {
    kt__service *s = engine->service;
    kt_status status = KT_OK;
    kt__error_clear(err);
    pthread_mutex_lock(&s->lock);
    if (s->threaded) {
        status = kt__fail(err, KT_E_STATE, "the engine's thread runs already");
    } else {
        s->quit = s->closed = false;
        int rc = pthread_create(&s->thread, NULL, drive_thread, s);
        if (rc != 0)
            status = kt__fail(err, KT_E_NOMEM, "cannot start the engine's thread: %s",
                              strerror(rc));
        s->threaded = status == KT_OK;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void wait_for_end(kt__service *s, int64_t ms) {
    struct timespec until = kt__time_in_ms(ms);
    while (s->n_live > 0 && ms != 0) {
        if (ms < 0) {
            pthread_cond_wait(&s->idle, &s->lock);
        } else if (pthread_cond_timedwait(&s->idle, &s->lock, &until) != 0) {
            return;
        }
    }
}

void kt_engine_stop(kt_engine *engine, int64_t drain_ms) {
    kt__service *s = engine->service;
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    bool threaded = s->threaded;
    if (threaded) {
        wait_for_end(s, drain_ms);
        s->quit = true;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    if (threaded) pthread_join(s->thread, NULL);
    kt__turn_take(&engine->turn);
    end_all(s);
    kt__turn_give(&engine->turn);
    pthread_mutex_lock(&s->lock);
    s->threaded = false;
    pthread_mutex_unlock(&s->lock);
}

kt_status kt_engine_step(kt_engine *engine, int64_t budget_us, int32_t *n_left, kt_error *err) {
    kt__service *s = engine->service;
    int64_t until_us = kt__now_us() + budget_us;
    kt__error_clear(err);
    pthread_mutex_lock(&s->lock);
    bool threaded = s->threaded;
    pthread_mutex_unlock(&s->lock);
    if (n_left) *n_left = 0;
    if (threaded) return kt__fail(err, KT_E_STATE, "the engine's own thread drives it");
    while (drive(s) && kt__now_us() < until_us) {
    }
    pthread_mutex_lock(&s->lock);
    if (n_left) *n_left = s->n_live;
    pthread_mutex_unlock(&s->lock);
    return KT_OK;
}

/* ---- embeddings ---- */

static kt_status read_embedding(kt_engine *engine, const kt_event *event, float *out,
                                kt_error *err) {
    if (event->finish == KT_FINISH_CANCELLED) return kt__fail(err, KT_E_CANCELLED, "cancelled");
    if (!event->embedding) {
        if (err && event->error) *err = *event->error;
        return event->error ? event->error->code : KT_E_INTERNAL;
    }
    memcpy(out, event->embedding, (size_t)engine->model->net->hp.d_model * sizeof *out);
    return KT_OK;
}

kt_status kt_embed(kt_engine *engine, const int32_t *ids, size_t n, kt_pooling pooling,
                   bool normalize, float *out, kt_error *err) {
    kt_request_params request = kt_request_params_default();
    kt_request *req;
    kt_event event;
    request.ids = ids;
    request.n_ids = n;
    request.pooling = pooling;
    request.normalize = normalize;
    kt__error_clear(err);
    if (pooling == KT_POOLING_NONE) return kt__fail(err, KT_E_ARG, "no pooling is asked for");
    kt_status status = kt_engine_submit(engine, &request, &req, err);
    if (status != KT_OK) return status;
    for (bool over = false; !over;) {
        kt_error ignored; /* refused where a thread drives */
        bool drives = kt_engine_step(engine, 0, NULL, &ignored) == KT_OK;
        over = kt_request_next_event(req, &event, drives ? 0 : 100) &&
               event.kind == KT_EVENT_FINISHED;
    }
    status = read_embedding(engine, &event, out, err);
    kt_request_close(req);
    return status;
}
