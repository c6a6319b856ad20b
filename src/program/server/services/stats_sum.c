#include "services/stats_sum.h"

void kt__stats_add_counts(kt_engine_stats *to, const kt_engine_stats *from) {
#define ADD(member) to->member += from->member
    ADD(n_submitted);
    ADD(n_refused_busy);
    ADD(n_refused_deadline);
    ADD(n_refused_other);
    for (int i = 0; i < KT_FINISH_COUNT; i++) ADD(n_finished[i]);
    ADD(n_preempted);
    ADD(prompt_tokens);
    ADD(cached_tokens);
    ADD(queried_tokens);
    ADD(disk_tokens);
    ADD(prefill_tokens);
    ADD(generated_tokens);
    ADD(recomputed_tokens);
    ADD(n_drafts);
    ADD(drafted_tokens);
    ADD(accepted_tokens);
    ADD(n_prefill_batches);
    ADD(n_decode_batches);
    ADD(prefill_us);
    ADD(decode_us);
    ADD(sample_us);
    ADD(n_evicted_blocks);
    for (int i = 0; i < KT_KV_TYPES; i++) ADD(n_pressed_blocks[i]);
    for (int i = 0; i < KT_ACTION_COUNT; i++) ADD(n_actions[i]);
#undef ADD
}

void kt__stats_add_state(kt_engine_stats *to, const kt_engine_stats *from) {
    to->running += from->running;
    to->waiting += from->waiting;
    to->held += from->held;
    to->clients += from->clients;
    to->kv_blocks += from->kv_blocks;
    to->kv_blocks_used += from->kv_blocks_used;
    to->kv_blocks_cached += from->kv_blocks_cached;
    for (int i = 0; i < KT_KV_TYPES; i++) to->kv_blocks_pressed[i] += from->kv_blocks_pressed[i];
    to->mem_kv_bytes += from->mem_kv_bytes;
    to->mem_scratch_bytes += from->mem_scratch_bytes;
    to->parallel_now += from->parallel_now;
    to->parallel_most += from->parallel_most;
    to->prefill_tok_s += from->prefill_tok_s;
    if (from->predicted_wait_ms < to->predicted_wait_ms)
        to->predicted_wait_ms = from->predicted_wait_ms;
    if (from->decode_step_us > to->decode_step_us) to->decode_step_us = from->decode_step_us;
    if (from->gap_ms_now > to->gap_ms_now) to->gap_ms_now = from->gap_ms_now;
}
