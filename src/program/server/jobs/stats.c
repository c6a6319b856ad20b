#include "jobs/stats.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/system.h"
#include "jobs/job.h"
#include "setup/adapters.h"

/* What was planned when the model was loaded. */
static void write_plan(kt__buf *out, const kt__served_info *info) {
    const kt_mem_plan *p = &info->plan;
    (void)kt__buf_printf(
        out,
        ",\"plan\":{\"weights_bytes\":%llu,\"kv_bytes\":%llu,\"scratch_bytes\":%llu,"
        "\"tables_bytes\":%llu,\"draft_bytes\":%llu,\"total_bytes\":%llu,\"others_bytes\":%llu,"
        "\"budget_bytes\":%llu,\"weights_counted\":%s,\"kv_positions\":%lld,"
        "\"kv_f16_bytes\":%llu,\"state_bytes\":%llu,\"kv_keys\":\"%s\",\"kv_values\":\"%s\","
        "\"kv_tail\":%d,\"kv_f16_layers\":%d,\"kv_draft_bytes\":%llu,"
        "\"expert_kept_bytes\":%llu,\"expert_bytes\":%llu}",
        (unsigned long long)p->weights_bytes, (unsigned long long)p->kv_bytes,
        (unsigned long long)p->scratch_bytes, (unsigned long long)p->tables_bytes,
        (unsigned long long)p->draft_bytes, (unsigned long long)p->total_bytes,
        (unsigned long long)p->others_bytes, (unsigned long long)p->budget_bytes,
        p->weights_counted ? "true" : "false", (long long)p->kv_positions,
        (unsigned long long)p->kv_f16_bytes, (unsigned long long)p->state_bytes,
        kt_kv_type_name(p->kv_keys), kt_kv_type_name(p->kv_values), p->kv_tail, p->n_f16_layers,
        (unsigned long long)p->kv_draft_bytes, (unsigned long long)p->expert_kept_bytes,
        (unsigned long long)p->expert_bytes);
    kt__json_member(out, "tuned", info->tuned);
}

/* Of the whole file, in the background. */
static void write_hash(kt__buf *out, const kt_hash_info *h) {
    static const char *const states[] = {[KT_HASH_NONE] = "none",
                                         [KT_HASH_RUNNING] = "running",
                                         [KT_HASH_KNOWN] = "known",
                                         [KT_HASH_FAILED] = "failed"};
    (void)kt__buf_printf(out, ",\"full_hash\":{\"state\":\"%s\"", states[h->state]);
    if (h->state != KT_HASH_NONE) {
        (void)kt__buf_printf(out, ",\"bytes_done\":%llu,\"bytes_all\":%llu",
                             (unsigned long long)h->bytes_done, (unsigned long long)h->bytes_all);
    }
    if (h->state == KT_HASH_KNOWN) {
        (void)kt__buf_puts(out, ",\"hash\":\"");
        for (size_t i = 0; i < sizeof h->hash; i++) (void)kt__buf_printf(out, "%02x", h->hash[i]);
        (void)kt__buf_putc(out, '"');
    }
    (void)kt__buf_putc(out, '}');
}

/* What the controller allows now and did, and what is recommended. */
static void write_optimizer(kt__buf *out, const kt_engine_stats *st,
                            const kt_engine_params *targets) {
    kt_recommendation list[KT_ACTION_COUNT];
    size_t n = kt_optimizer_recommend(st, targets, list, KT_ACTION_COUNT);
    (void)kt__buf_printf(out,
                         ",\"optimizer\":{\"enabled\":%s,\"parallel\":%d,\"parallel_most\":%d,"
                         "\"gap_ms\":%d,\"gap_ms_most\":%d,\"actions\":{",
                         st->optimizing ? "true" : "false", (int)st->parallel_now,
                         (int)st->parallel_most, (int)st->gap_ms_now, (int)st->gap_ms_most);
    for (int i = 0; i < KT_ACTION_COUNT; i++)
        (void)kt__buf_printf(out, "%s\"%s\":%llu", i ? "," : "", kt_action_name((kt_action)i),
                             (unsigned long long)st->n_actions[i]);
    (void)kt__buf_puts(out, "},\"recommended\":[");
    for (size_t i = 0; i < n && i < KT_ACTION_COUNT; i++)
        (void)kt__buf_printf(out, "%s\"%s\"", i ? "," : "", kt_action_name(list[i].action));
    (void)kt__buf_puts(out, "]}");
}

/* The graphics processor of a model, and the share of all batches' time that is its. */
static void write_device(kt__buf *out, const kt_model_info *model, const kt_engine_stats *st) {
    uint64_t all_us = st->prefill_us + st->decode_us;
    if (!model->device) return;
    (void)kt__buf_puts(out, ",\"device\":{");
    kt__json_member(out, "name", model->device);
    (void)kt__buf_printf(out,
                         ",\"layers\":%d,\"head\":%s,\"bytes\":%llu,\"lost\":%s,\"share\":%.3f,"
                         "\"temperature_c\":%.0f,\"power_w\":%.1f}",
                         (int)model->n_gpu_layers, model->gpu_head ? "true" : "false",
                         (unsigned long long)st->device_bytes, st->device_lost ? "true" : "false",
                         all_us ? (double)st->device_us / (double)all_us : 0.0,
                         (double)st->device_temperature_c, (double)st->device_power_w);
}

/* The store of keys and values: blocks in use, blocks kept for later prompts, and how much of the
 * prompts was found in them, or read from disk. */
static void write_kv(kt__buf *out, const kt_engine_stats *st) {
    (void)kt__buf_printf(
        out,
        ",\"kv\":{\"blocks\":%llu,\"used\":%llu,\"kept\":%llu,\"evicted\":%llu,"
        "\"pressed_q8\":%llu,\"pressed_q4\":%llu,\"now_q8\":%llu,\"now_q4\":%llu,"
        "\"looked_for_tokens\":%llu,\"found_tokens\":%llu,\"from_disk_tokens\":%llu}",
        (unsigned long long)st->kv_blocks, (unsigned long long)st->kv_blocks_used,
        (unsigned long long)st->kv_blocks_cached, (unsigned long long)st->n_evicted_blocks,
        (unsigned long long)st->n_pressed_blocks[KT_KV_Q8_0],
        (unsigned long long)st->n_pressed_blocks[KT_KV_Q4_0],
        (unsigned long long)st->kv_blocks_pressed[KT_KV_Q8_0],
        (unsigned long long)st->kv_blocks_pressed[KT_KV_Q4_0],
        (unsigned long long)st->queried_tokens, (unsigned long long)st->cached_tokens,
        (unsigned long long)st->disk_tokens);
}

/* Of a model that learns: whether what it was taught enters its prompts. */
static void write_notes(kt__buf *out, kt__served *served) {
    size_t from = out->len;
    (void)kt__buf_puts(out, ",\"notes\":{");
    if (kt__learner_table_write_verdict(kt__served_learners(served), out))
        (void)kt__buf_putc(out, '}');
    else
        out->len = from;
}

/* And what its instant loop has made of what was said, of all who use it. */
static void write_instant(kt__buf *out, kt__served *served) {
    kt_learner_info info;
    char name[KT__NAMESPACE_BYTES];
    long long steps = 0, last_us = 0;
    for (size_t i = 0;
         kt__learner_table_at(kt__served_learners(served), i, name, sizeof name, &info, NULL);
         i++) {
        steps += info.n_instant;
        if (info.instant_us) last_us = info.instant_us;
    }
    if (steps)
        (void)kt__buf_printf(out, ",\"instant\":{\"steps\":%lld,\"ms\":%.3f}", steps,
                             (double)last_us / 1e3);
}

static void write_model_stats(kt__buf *out, kt__served *served, const kt__config *config) {
    kt__served_info info;
    kt_engine_stats st;
    kt__served_get_info(served, &info);
    kt__served_get_stats(served, &st);
    (void)kt__buf_putc(out, '{');
    kt__json_member(out, "name", info.name);
    (void)kt__buf_printf(out, ",\"loaded\":%s", info.loaded ? "true" : "false");
    kt__adapters_write_names(out, config, info.name);
    if (info.loaded) {
        kt__json_member(out, "arch", info.arch);
        kt__json_member(out, "quant", info.quant);
        (void)kt__buf_printf(
            out,
            ",\"contexts\":%d,\"context\":%d,\"parallel\":%d,\"threads\":%d,\"parameters\":%llu,"
            "\"file_bytes\":%llu,\"weight_bytes\":%llu,\"kv_bytes\":%llu,\"scratch_bytes\":%llu",
            (int)info.contexts, (int)info.engine.n_ctx, (int)info.engine.n_parallel,
            (int)info.engine.n_threads, (unsigned long long)info.model.n_params,
            (unsigned long long)info.model.file_bytes, (unsigned long long)st.mem_weights_bytes,
            (unsigned long long)st.mem_kv_bytes, (unsigned long long)st.mem_scratch_bytes);
        if (info.step_us)
            (void)kt__buf_printf(out, ",\"expected_tokens_per_second\":%.1f",
                                 1e6 / (double)info.step_us);
        write_device(out, &info.model, &st);
        write_plan(out, &info);
        write_hash(out, &info.hash);
        write_optimizer(out, &st, &info.targets);
        write_kv(out, &st);
        write_notes(out, served);
        write_instant(out, served);
    }
    (void)kt__buf_printf(
        out,
        ",\"running\":%d,\"waiting\":%d,\"held\":%d,\"prompt_tokens\":%llu,\"cached_tokens\":%llu,"
        "\"generated_tokens\":%llu,\"prefill_tokens_per_second\":%.1f,\"decode_step_ms\":%.3f,"
        "\"predicted_wait_ms\":%lld}",
        st.running, st.waiting, st.held, (unsigned long long)st.prompt_tokens,
        (unsigned long long)st.cached_tokens, (unsigned long long)st.generated_tokens,
        st.prefill_tok_s, st.decode_step_us / 1e3, (long long)st.predicted_wait_ms);
}

static const char *state_of(const kt__job *job) {
    if (job->answer.paused) return "held";
    return job->state >= KT__JOB_ANSWERING ? "running" : "waiting";
}

/* Of the prompts that are in the engine: how much of them is computed. */
static void write_prompts(kt__buf *out, const kt__job *job) {
    size_t n = 0, done = 0;
    for (size_t i = 0; i < KT__JOB_AT_ONCE; i++) {
        const kt_request *req = job->answer.parts[i].req;
        if (!req) continue;
        n += kt_request_n_prompt(req);
        done += kt_request_n_computed(req);
    }
    if (n) (void)kt__buf_printf(out, ",\"prompt_tokens\":%zu,\"prompt_done\":%zu", n, done);
}

static void write_job_stats(kt__buf *out, kt__job *job) {
    pthread_mutex_lock(&job->lock);
    (void)kt__buf_putc(out, '{');
    kt__json_member(out, "id", job->id);
    kt__json_member(out, "route", job->dialect->route);
    kt__json_member(out, "client", job->request.client);
    (void)kt__buf_printf(out, ",\"age_ms\":%lld,\"state\":\"%s\",\"unread_bytes\":%zu",
                         (long long)((kt__now_us() - job->request.begin_us) / 1000), state_of(job),
                         job->answer.out.len - job->answer.out_at);
    write_prompts(out, job);
    (void)kt__buf_putc(out, '}');
    pthread_mutex_unlock(&job->lock);
}

bool kt__stats_write_pull(kt__shared *shared, const char *before, kt__buf *out) {
    static const char *const stages[] = {[KT__PULL_FETCHING] = "fetching",
                                         [KT__PULL_DONE] = "done",
                                         [KT__PULL_STOPPED] = "stopped",
                                         [KT__PULL_FAILED] = "failed"};
    kt__pull_state now;
    if (!shared->pulls || !kt__pulls_get(shared->pulls, &now)) return false;
    (void)kt__buf_puts(out, before);
    (void)kt__buf_puts(out, "{\"object\":\"model.pull\"");
    kt__json_member(out, "name", now.asked);
    kt__json_member(out, "state", stages[now.stage]);
    (void)kt__buf_printf(out, ",\"bytes_done\":%llu,\"bytes\":%llu",
                         (unsigned long long)now.bytes_done, (unsigned long long)now.bytes);
    if (now.stage == KT__PULL_DONE) kt__json_member(out, "model", now.model);
    if (now.stage == KT__PULL_FAILED) kt__json_member(out, "error", now.why);
    (void)kt__buf_putc(out, '}');
    return true;
}

void kt__stats_write(kt__shared *s, const char *client, kt__buf *out) {
    (void)kt__buf_printf(out, "{\"version\":\"%s\",\"numerics\":%d,\"pid\":%ld,\"uptime_s\":%lld",
                         kt_version(), KENTANG_NUMERICS, kt__process_number(),
                         (long long)((kt__now_us() - s->start_us) / 1000000));
    kt__json_member(out, "isa", kt_ctx_isa(kt__models_ctx(s->models)));
    (void)kt__buf_puts(out, ",\"models\":[");
    kt__settings *settings = kt__shared_settings(s);
    for (size_t i = 0; i < kt__models_count(s->models); i++) {
        if (kt__served_is_gone(kt__models_at(s->models, i))) continue;
        if (i) (void)kt__buf_putc(out, ',');
        write_model_stats(out, kt__models_at(s->models, i), settings->config);
    }
    kt__settings_drop(settings);
    (void)kt__buf_putc(out, ']');
    (void)kt__stats_write_pull(s, ",\"pull\":", out);
    (void)kt__buf_puts(out, ",\"requests\":[");
    const char *comma = "";
    int n_others = 0;
    for (kt__job *job = kt__jobs_next(s, NULL); job; job = kt__jobs_next(s, job)) {
        if (client && strcmp(job->request.client, client) != 0) {
            n_others++;
            continue;
        }
        (void)kt__buf_puts(out, comma);
        write_job_stats(out, job);
        comma = ",";
    }
    (void)kt__buf_printf(out, "],\"other_requests\":%d}", n_others);
}
