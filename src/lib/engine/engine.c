/* kt_engine: opening, closing, information, cancelling. The roof: it knows every module below. */
#include "answer/batch.h"
#include "base/alloc.h"
#include "base/error.h"
#include "context/kv_binding.h"
#include "engine/divide.h"
#include "engine/service.h"
#include "requests/constraints.h"
#include "requests/inbox.h"
#include "requests/plan.h"
#include "requests/runner.h"
#include "requests/speculator.h"
#include "sched/sched.h"

static kt__sched_params sched_params(const kt_engine *engine, const kt__plan *plan) {
    const kt_engine_params *p = &engine->params;
    kt__optimizer_params optimizer = kt__optimizer_params_of(p);
    optimizer.n_pages = kt__plan_pages_within(plan, optimizer.memory);
    return (kt__sched_params){
        .n_parallel = p->n_parallel,
        .n_rows = p->n_ubatch,
        .n_out = engine->n_out_max,
        .page_pos = KT__PAGE_POS,
        .gap_us = (int64_t)p->gap_ms * 1000,
        .optimizer = optimizer,
        .unit_share = 0.5 / (double)kt__engine_hparams(engine)->n_layer, /* gate and up of one */
    };
}

/* The forms that pages may have. */
static kt_status prove_forms(const kt_engine *engine, kt_error *err) {
    const kt__kv_shape *shape = kt__kv_get_shape(engine->kv);
    for (int f = KT__KV_F16; f < KT__KV_FORMS; f++)
        if (f == KT__KV_F16 || f == (int)shape->k_form || f == (int)shape->v_form ||
            kt__kv_presses(engine->kv))
            KT__STEP(kt__gpu_prove_form(engine->model->device->gpu, (kt__kv_form)f, err));
    return KT_OK;
}

/* Where a device does not take it, the processor reads and writes it, and computes these layers. */
static void share_kv(kt_engine *engine) {
    kt__kv_stretch memory[KT__KV_MEMORY];
    kt__device_layers *d = engine->model->device;
    kt_error err;
    if (!d || d->n == 0) return;
    kt__kv_get_memory(engine->kv, memory);
    kt_status status = prove_forms(engine, &err);
    if (status == KT_OK) status = kt__gpu_set_create(d->gpu, &engine->gpu_kv, &err);
    for (int i = 0; status == KT_OK && i < KT__KV_MEMORY; i++)
        if (memory[i].bytes)
            status = kt__gpu_set_share(engine->gpu_kv, memory[i].data, memory[i].bytes, &err);
    if (status != KT_OK)
        kt__log_line(&engine->model->ctx->log, KT_LOG_WARN,
                     "attention is computed by the processor: %s", err.message);
}

static kt_status engine_allocate(kt_engine *engine, const kt__plan *plan, kt_error *err) {
    const kt_model *model = engine->model;
    const kt_engine_params *p = &engine->params;
    const kt__hparams *hp = &model->net->hp;
    kt__kv_shape shape = kt__engine_kv_shape(model, p);
    kt__fwd_params fwd = kt__plan_prompt_fwd(model, p, plan->n_out_max);
    fwd.on_hidden = kt__runner_on_hidden;
    fwd.on_hidden_user = engine;
    fwd.split = kt__ctx_split(model->ctx);
    engine->n_out_max = plan->n_out_max;
    kt__kv_room room = kt__plan_kv_room(&shape, p);
    room.n_states = plan->n_states;
    room.n_local = plan->n_local;
    kt__engine_press_room(engine, &room);
    KT__STEP(kt__kv_create_with(&shape, plan->n_pages, room, &engine->kv, err));
    KT__STEP(kt__engine_press(engine, err));
    kt__kv_spread(engine->kv, &model->ctx->affinity);
    share_kv(engine);
    if (engine->divided) kt__kv_set_copied(engine->kv, kt__batch_tell_copy, engine);
    fwd.device_kv = engine->gpu_kv;
    KT__STEP(
        kt__fwd_create(model->net, model->ctx->pool, model->ctx->kernels, &fwd, &engine->fwd, err));
    kt__fwd_params step = kt__plan_step_fwd(model, p);
    step.split = fwd.split;
    step.device_kv = engine->gpu_kv;
    engine->step_rows = step.n_tok_max;
    KT__STEP(kt__fwd_create(model->net, model->ctx->pool, model->ctx->kernels, &step,
                            &engine->step_fwd, err));
    KT__STEP(kt__speculator_create(engine, &engine->speculator, err));
    KT__STEP(kt__sampler_scratch_create(hp->n_vocab, &engine->scratch, err));
    engine->masked = kt__calloc((size_t)hp->n_vocab, sizeof *engine->masked);
    if (!engine->masked) {
        return kt__fail_nomem(err, "masked logits", 0);
    }
    KT__STEP(kt__prefix_create(engine->kv, 0, &engine->prefix, err));
    KT__STEP(kt__scope_create(&engine->scope, err));
    kt__constraints_budget budget = {.most = plan->constraint_bytes,
                                     .planned = plan->constraints_planned,
                                     .ctx = model->ctx->mem_given ? model->ctx : NULL};
    KT__STEP(kt__constraints_create(&budget, &engine->constraints, err));
    if (model->vision) {
        KT__STEP(kt__seer_create(model->vision, model->ctx->pool, model->ctx->kernels,
                                 model->params.exact, &engine->seer, err));
        KT__STEP(kt__views_create(model->vision, model->vision_id, &engine->views, err));
    }
    KT__STEP(kt__inbox_create(p->n_queue_max, &engine->inbox, err));
    KT__STEP(kt__runner_create(engine, &engine->runner, err));
    kt__sched_params sched = sched_params(engine, plan);
    KT__STEP(kt__sched_create(&sched, kt__runner_ops(), engine->runner, &engine->sched, err));
    kt__service_publish(engine);
    return KT_OK;
}

static kt_status engine_create(kt_model *model, kt_engine **out, kt_error *err) {
    *out = NULL;
    kt_engine *engine = kt__calloc(1, sizeof *engine);
    if (!engine) return kt__fail_nomem(err, "the engine", sizeof *engine);
    if (!kt__ticket_init(&engine->turn)) {
        kt__free(engine);
        return kt__fail_nomem(err, "the engine's lock", 0);
    }
    engine->model = model;
    *out = engine;
    return KT_OK;
}

static kt_status engine_follow_plan(kt_engine *engine, const kt__plan *plan, kt_error *err) {
    engine->params = plan->params;
    engine->plan = plan->mem;
    KT__STEP(kt__plan_charge(engine, plan, err));
    return engine_allocate(engine, plan, err);
}

kt_status kt_engine_open(kt_model *model, const kt_engine_params *params, kt_engine **out,
                         kt_error *err) {
    kt_status status;
    kt__plan plan;
    kt_engine *engine;
    *out = NULL;
    kt__error_clear(err);
    KT__STEP(kt__model_needs_net(model, err));
    KT__STEP(engine_create(model, &engine, err));
    kt_engine_params given = params ? *params : kt_engine_params_default();
    KT__TRY(kt__plan_make(model, &given, &plan, err));
    KT__TRY(kt__divide_begin(engine, &plan, err));
    KT__TRY(kt__divide_agree(model->ctx, engine_follow_plan(engine, &plan, err), err));
    *out = engine;
    engine = NULL;
out:
    kt_engine_close(engine);
    return status;
}

/* As many threads as were asked for there, of those that are here. */
static int32_t threads_here(const kt_model *model, int32_t n) {
    int32_t most = kt__pool_size(model->ctx->pool);
    return n < most ? n : most;
}

kt_status kt__engine_open_led(kt_model *model, const kt__plan *plan, int number, kt_engine **out,
                              kt_error *err) {
    kt__plan own = *plan;
    kt_engine *engine;
    *out = NULL;
    KT__STEP(kt__model_needs_net(model, err));
    KT__STEP(engine_create(model, &engine, err));
    own.params.n_threads = threads_here(model, own.params.n_threads);
    own.params.n_threads_batch = threads_here(model, own.params.n_threads_batch);
    engine->divided = number;
    kt_status status = engine_follow_plan(engine, &own, err);
    if (status != KT_OK) {
        kt_engine_close(engine);
        return status;
    }
    *out = engine;
    return KT_OK;
}

void kt_engine_close(kt_engine *engine) {
    if (!engine) return;
    if (engine->sched) kt_engine_stop(engine, 0);
    kt__divide_end(engine);
    kt__sched_destroy(engine->sched);
    kt__runner_destroy(engine->runner);
    kt__inbox_destroy(engine->inbox);
    kt__views_destroy(engine->views);
    kt__seer_destroy(engine->seer);
    kt__constraints_free(engine->constraints);
    kt__scope_destroy(engine->scope);
    kt__prefix_destroy(engine->prefix);
    kt__speculator_destroy(engine->speculator);
    kt__fwd_destroy(engine->step_fwd);
    kt__fwd_destroy(engine->fwd);
    kt__gpu_set_destroy(engine->gpu_kv);
    kt__kv_destroy(engine->kv);
    kt__free(engine->press_scratch);
    kt__sampler_scratch_free(engine->scratch);
    kt__free(engine->masked);
    kt__plan_discharge(engine);
    kt__ticket_destroy(&engine->turn);
    kt__free(engine);
}

void kt_engine_get_info(const kt_engine *engine, kt_engine_info *out) {
    const kt_engine_params *p = &engine->params;
    int n_now = kt_ctx_n_threads(engine->model->ctx);
    kt_engine_stats stats;
    kt_engine_get_stats(engine, &stats);
    *out = (kt_engine_info){
        .n_ctx = p->n_ctx,
        .n_batch = p->n_batch,
        .n_ubatch = p->n_ubatch,
        .n_seq_max = p->n_seq_max,
        .n_threads = p->n_threads ? p->n_threads : n_now,
        .n_threads_batch = p->n_threads_batch ? p->n_threads_batch : n_now,
        .kv_bytes_max = engine->plan.kv_bytes,
        .kv_bytes_used = stats.mem_kv_bytes,
        .scratch_bytes = engine->plan.scratch_bytes,
        .n_parallel = p->n_parallel,
        .n_queue_max = p->n_queue_max,
        .gap_ms = p->gap_ms,
        .n_draft = p->n_draft,
        .mem_budget_bytes = engine->plan.budget_bytes,
        .mem_planned_bytes = engine->plan.total_bytes,
        .kv_keys = p->kv_keys,
        .kv_values = p->kv_values,
        .kv_f16_bytes = engine->plan.kv_f16_bytes,
        .state_bytes = engine->plan.state_bytes,
        .kv_tail = p->kv_tail,
        .n_f16_layers = engine->plan.n_f16_layers,
        .kv_draft_bytes = engine->plan.kv_draft_bytes,
        .expert_kept_bytes = engine->plan.expert_kept_bytes,
        .expert_bytes = engine->plan.expert_bytes,
    };
}

void kt_engine_cancel(kt_engine *engine) {
    atomic_store(&engine->cancel, true);
}
void kt_engine_resume(kt_engine *engine) {
    atomic_store(&engine->cancel, false);
}
