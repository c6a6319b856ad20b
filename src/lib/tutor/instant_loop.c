#include "tutor/instant_loop.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "context/adapter.h"
#include "tutor/served.h"

enum { ITEM_MAX = 64 << 20 };
static const kt__instant_params by_default = {.rate = 0.01f, .ewc = 0.2f};
static const char name[] = "(instant)";

void kt__loop_close(kt__loop *loop) {
    kt__instant_close(loop->of);
    *loop = (kt__loop){0};
}

static kt_status open_loop(const kt_learner *l, const kt__instant_params *params, kt__loop *loop,
                           kt_error *err) {
    const kt_model *model = l->engine->model;
    *loop = (kt__loop){.scoped = !l->params.instant_everywhere};
    return kt__instant_open(model->net, model->ctx->kernels, params, &loop->of, err);
}

static bool take_step(kt__loop *loop, const kt__feedback_item *item, uint64_t id) {
    const kt__instant_lesson lesson = {.id = id,
                                       .keys = item->keys.keys,
                                       .ids = item->keys.ids,
                                       .n = item->keys.n,
                                       .said = item->answer,
                                       .n_said = item->n_answer};
    return kt__instant_step(loop->of, &lesson);
}

/* Its adapter takes the place of the one before. */
static kt_status make_adapter(kt_learner *l, kt__loop *loop, kt_adapter **instant, kt_error *err) {
    kt__lora_part part;
    kt_adapter *made;
    kt__factors_parts(kt__instant_factors(loop->of), &part);
    if (l->params.instant_share > 0.0f) part.scale *= l->params.instant_share;
    KT__STEP(kt__adapter_of_parts(l->engine->model, &part, 1, name, loop->scoped, &made, err));
    kt_adapter_close(*instant);
    *instant = made;
    return KT_OK;
}

/* Of ids[n] those after record `from`. */
static kt_status take_steps(kt_learner *l, kt__loop *loop, const uint64_t *ids, size_t n,
                            uint64_t from, kt_bank *bank, kt_error *err) {
    kt_status status = KT_OK;
    kt__feedback_item item;
    kt__buf buf;
    kt__buf_init(&buf, ITEM_MAX);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] <= from) continue;
        KT__TRY(kt__feedback_get(l->store, ids[i], &item, &buf, err));
        if (take_step(loop, &item, ids[i]) && bank) loop->scoped &= kt__item_opens(bank, &item);
    }
out:
    kt__buf_free(&buf);
    return status;
}

kt_status kt__loop_build(kt_learner *l, uint32_t version, kt__loop *loop, kt_learned *out,
                         kt_error *err) {
    const kt__instant_params params = {l->params.instant_lr, l->params.instant_ewc};
    kt_status status;
    uint64_t *ids = NULL, from;
    size_t n;
    *loop = (kt__loop){0};
    if (!(params.rate > 0.0f)) return KT_OK;
    (void)kt__feedback_adapter(l->store, version, &from);
    KT__TRY(kt__feedback_chain(l->store, version, &ids, &n, err));
    KT__TRY(open_loop(l, &params, loop, err));
    KT__TRY(take_steps(l, loop, ids, n, from, out->bank, err));
    if (kt__instant_n_step(loop->of) > 0) KT__TRY(make_adapter(l, loop, &out->instant, err));
out:
    kt__free(ids);
    if (status != KT_OK) kt__loop_close(loop);
    return status;
}

void kt__loop_learn(kt_learner *l, const kt__feedback_item *item, uint64_t id, kt_learned *next) {
    kt__loop *loop = &l->loop;
    int64_t begin_us = kt__now_us();
    kt_error err;
    if (!loop->of || item->keys.n == 0 || !take_step(loop, item, id)) return;
    loop->scoped &= kt__item_opens(next->bank, item);
    if (make_adapter(l, loop, &next->instant, &err) != KT_OK)
        kt__log_line(&l->engine->model->ctx->log, KT_LOG_WARN,
                     "feedback %llu is answered by the instant loop from the next one on: %s",
                     (unsigned long long)id, err.message);
    loop->last_us = kt__now_us() - begin_us;
}

kt_status kt__loop_factors(kt_learner *l, const uint64_t *ids, size_t n, kt__factors **out,
                           kt_error *err) {
    const kt__instant_params own = {l->params.instant_lr, l->params.instant_ewc};
    kt__loop loop;
    kt_status status;
    *out = NULL;
    KT__STEP(open_loop(l, own.rate > 0.0f ? &own : &by_default, &loop, err));
    KT__TRY(take_steps(l, &loop, ids, n, 0, NULL, err));
    KT__TRY(kt__factors_copy(kt__instant_factors(loop.of), out, err));
out:
    kt__loop_close(&loop);
    return status;
}

/* B of the first ranks is scaled, so that both add the same. */
static void put_in(const kt__factors *from, const kt__factor *to, kt__factors *into) {
    size_t d = (size_t)to->n_col, rank = (size_t)from->rank, all = (size_t)into->rank;
    float scale = from->scale / into->scale;
    const float *a = from->values + from->of[0].a, *b = from->values + from->of[0].b;
    memcpy(into->values + to->a, a, rank * d * sizeof *a);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < rank; j++)
            into->values[to->b + i * all + j] = scale * b[i * rank + j];
}

bool kt__loop_consolidate(kt_learner *l, kt__factors *into) {
    bool done = false;
    pthread_mutex_lock(&l->changing);
    if (l->loop.of && kt__instant_n_step(l->loop.of) > 0 && into->rank >= KT__INSTANT_RANK) {
        const kt__factors *from = kt__instant_factors(l->loop.of);
        int row0;
        const kt__factor *to = kt__factors_find(into, from->of[0].block, KT__SITE_HIDDEN, &row0);
        if (to) put_in(from, to, into);
        done = to != NULL;
    }
    pthread_mutex_unlock(&l->changing);
    return done;
}
