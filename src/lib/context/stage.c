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

const char *kt_profile_part_name(kt_profile_part part) {
    static const char *const names[] = {
#define X(name, text) text,
        KT_PROFILE_PART_LIST(X)
#undef X
    };
    return (unsigned)part < KT_PROFILE_PARTS ? names[part] : "unknown";
}
