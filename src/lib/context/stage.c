#include "context/stage.h"

#include "base/clock.h"

int64_t kt__stage_begin(const kt_engine *engine) {
    bool on = atomic_load_explicit(&engine->profiling, memory_order_relaxed);
    return on ? kt__now_ns() : 0;
}

static void add_ns(kt_engine *engine, kt__stage stage, int64_t ns) {
    atomic_fetch_add_explicit(&engine->profile.stage_ns[stage], ns, memory_order_relaxed);
}

void kt__stage_end(kt_engine *engine, kt__stage stage, int64_t begin_ns) {
    if (begin_ns) add_ns(engine, stage, kt__now_ns() - begin_ns);
}

void kt__stage_add_outside(kt_engine *engine, kt__stage stage, int64_t ns) {
    if (!kt__stage_begin(engine)) return;
    add_ns(engine, stage, ns);
    add_ns(engine, KT__STAGE_TOTAL, ns);
}

void kt__stage_end_outside(kt_engine *engine, kt__stage stage, int64_t begin_ns) {
    if (begin_ns) kt__stage_add_outside(engine, stage, kt__now_ns() - begin_ns);
}

kt__profile *kt__engine_profile_on(kt_engine *engine) {
    bool on = atomic_load_explicit(&engine->profiling, memory_order_relaxed);
    return on ? &engine->profile.batches : NULL;
}

void kt_engine_profile_enable(kt_engine *engine, bool on) {
    kt__engine_profile *p = &engine->profile;
    kt__ticket_lock(&engine->turn);
    if (on) {
        p->batches = (kt__profile){0};
        for (int i = 0; i < KT__STAGES; i++) atomic_store(&p->stage_ns[i], 0);
    }
    atomic_store_explicit(&engine->profiling, on, memory_order_relaxed);
    kt__ticket_unlock(&engine->turn);
}

static double stage_ms(const kt__engine_profile *p, kt__stage stage) {
    return (double)atomic_load(&p->stage_ns[stage]) * 1e-6;
}

void kt_engine_get_profile(kt_engine *engine, kt_profile *out) {
    const kt__engine_profile *p = &engine->profile;
    kt__ticket_lock(&engine->turn);
    *out = (kt_profile){
        .total_ms = stage_ms(p, KT__STAGE_TOTAL),
        .template_ms = stage_ms(p, KT__STAGE_TEMPLATE),
        .tokenize_ms = stage_ms(p, KT__STAGE_TOKENIZE),
        .setup_ms = stage_ms(p, KT__STAGE_SETUP),
        .sample_ms = stage_ms(p, KT__STAGE_SAMPLE),
        .detokenize_ms = stage_ms(p, KT__STAGE_DETOKENIZE),
        .callback_ms = stage_ms(p, KT__STAGE_CALLBACK),
    };
    kt__profile_read(&p->batches, KT__PHASE_PREFILL, &out->prefill);
    kt__profile_read(&p->batches, KT__PHASE_DECODE, &out->decode);
    kt__ticket_unlock(&engine->turn);
}

typedef void read_fn(const kt__profile *profile, int phase, double *ms, int n);

static size_t get_shares(kt_engine *engine, read_fn *read, int n, double *prefill_ms,
                         double *decode_ms, size_t cap) {
    int taken = cap < (size_t)n ? (int)cap : n;
    kt__ticket_lock(&engine->turn);
    read(&engine->profile.batches, KT__PHASE_PREFILL, prefill_ms, taken);
    read(&engine->profile.batches, KT__PHASE_DECODE, decode_ms, taken);
    kt__ticket_unlock(&engine->turn);
    return (size_t)n;
}

size_t kt_engine_get_profile_layers(kt_engine *engine, double *prefill_ms, double *decode_ms,
                                    size_t cap) {
    int n = engine->model->net->hp.n_layer;
    return get_shares(engine, kt__profile_read_layers, n, prefill_ms, decode_ms, cap);
}

size_t kt_engine_get_profile_threads(kt_engine *engine, double *prefill_ms, double *decode_ms,
                                     size_t cap) {
    int n = kt__pool_size(engine->model->ctx->pool);
    return get_shares(engine, kt__profile_read_threads, n, prefill_ms, decode_ms, cap);
}

const char *kt_profile_part_name(kt_profile_part part) {
    static const char *const names[] = {
#define X(name, text) text,
        KT_PROFILE_PART_LIST(X)
#undef X
    };
    return (unsigned)part < KT_PROFILE_PARTS ? names[part] : "unknown";
}
