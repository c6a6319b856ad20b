#include "engine/stage.h"

#include <string.h>

#include "base/clock.h"

int64_t kt__stage_begin(const kt_engine *engine) {
    bool on = atomic_load_explicit(&engine->profiling, memory_order_relaxed);
    return on ? kt__now_ns() : 0;
}

void kt__stage_end(kt_engine *engine, kt__stage stage, int64_t begin_ns, bool locked) {
    if (!begin_ns) return;
    int64_t ns = kt__now_ns() - begin_ns;
    if (!locked) kt__ticket_lock(&engine->turn);
    engine->profile.stage_ns[stage] += ns;
    if (!locked) kt__ticket_unlock(&engine->turn);
}

kt__profile *kt__engine_profile_on(kt_engine *engine) {
    bool on = atomic_load_explicit(&engine->profiling, memory_order_relaxed);
    return on ? &engine->profile.batches : NULL;
}

void kt_engine_profile_enable(kt_engine *engine, bool on) {
    kt__ticket_lock(&engine->turn);
    if (on) memset(&engine->profile, 0, sizeof engine->profile);
    atomic_store_explicit(&engine->profiling, on, memory_order_relaxed);
    kt__ticket_unlock(&engine->turn);
}

void kt_engine_get_profile(kt_engine *engine, kt_profile *out) {
    kt__ticket_lock(&engine->turn);
    const kt__engine_profile *p = &engine->profile;
    const int64_t *ns = p->stage_ns;
    *out = (kt_profile){
        .total_ms = (double)ns[KT__STAGE_TOTAL] * 1e-6,
        .template_ms = (double)ns[KT__STAGE_TEMPLATE] * 1e-6,
        .tokenize_ms = (double)ns[KT__STAGE_TOKENIZE] * 1e-6,
        .setup_ms = (double)ns[KT__STAGE_SETUP] * 1e-6,
        .sample_ms = (double)ns[KT__STAGE_SAMPLE] * 1e-6,
        .detokenize_ms = (double)ns[KT__STAGE_DETOKENIZE] * 1e-6,
        .callback_ms = (double)ns[KT__STAGE_CALLBACK] * 1e-6,
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
