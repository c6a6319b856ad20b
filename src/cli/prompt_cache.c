#include "cli/prompt_cache.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"

#define AT(member) offsetof(kt__prompt_cache, member)

static const kt__opt table[] = {
    {.name = "prompt-cache",
     .kind = KT__OPT_TEXT,
     .at = AT(file),
     .arg = "FILE",
     .help = "begin with what FILE holds of the prompt, and keep prompt and answer there for the "
             "next run; it belongs to one model and its options"},
    {.name = "prompt-cache-ro",
     .kind = KT__OPT_ON,
     .at = AT(read_only),
     .help = "only read the file of --prompt-cache"},
};

kt__opt_group kt__prompt_cache_group(kt__prompt_cache *cache) {
    return (kt__opt_group){"Session file", table, KT__COUNT(table), cache};
}

/* A file that cannot be used is an error, not a miss: it would be overwritten. */
kt_status kt__prompt_cache_load(const kt__prompt_cache *cache, kt_seq *seq, kt_error *err) {
    if (!cache->file) {
        if (!cache->read_only) return KT_OK;
        return kt__fail(err, KT_E_ARG, "--prompt-cache-ro needs --prompt-cache FILE");
    }
    if (access(cache->file, F_OK) != 0 && errno == ENOENT) return KT_OK;
    kt_error why;
    kt_status status = kt_seq_restore(seq, cache->file, &why);
    if (status == KT_E_FORMAT || status == KT_E_STATE) {
        return kt__fail_at(err, status, why.where, why.offset,
                           "%s; remove it, or give another --prompt-cache, to begin anew",
                           why.message);
    }
    *err = why;
    return status;
}

kt_status kt__prompt_cache_keep(const kt__prompt_cache *cache, kt_seq *seq, kt_error *err) {
    if (!cache->file || cache->read_only || !kt_seq_len(seq)) return KT_OK;
    return kt_seq_save(seq, cache->file, err);
}

kt_status kt__generate_after(kt_seq *seq, const int32_t *ids, size_t n, const kt_gen_params *params,
                             kt_text_fn *on_text, void *user, kt_gen_result *result,
                             kt_error *err) {
    const int32_t *held = kt_seq_tokens(seq);
    size_t common = 0, most = n ? n - 1 : 0; /* something is left to compute logits from */
    if (most > kt_seq_len(seq)) most = kt_seq_len(seq);
    while (common < most && held[common] == ids[common]) common++;
    kt_status status = kt_seq_truncate(seq, common, err);
    if (status != KT_OK) return status;
    status = kt_generate(seq, ids + common, n - common, params, on_text, user, result, err);
    result->n_prompt += (int32_t)common;
    result->n_cached += (int32_t)common;
    return status;
}

/* ---- by way of a request ---- */

typedef struct submitted {
    kt_text_fn *on_text;
    void *user;
    kt_gen_result *result;
    kt_error *err;
    kt_status status;
} submitted;

static void take_report(submitted *s, const kt_request_report *r) {
    *s->result = (kt_gen_result){
        .finish = r->finish,
        .seed = r->seed,
        .n_prompt = r->n_prompt,
        .n_cached = r->n_cached,
        .n_generated = r->n_generated,
        .n_drafted = r->n_drafted,
        .n_accepted = r->n_accepted,
        .prefill_ms = (double)r->prefill_us * 1e-3,
        .decode_ms = (double)(r->decode_us + r->sample_us) * 1e-3,
        .first_token_ms = (double)r->first_token_us * 1e-3,
        .sample_ms = (double)r->sample_us * 1e-3,
    };
}

static void on_event(void *user, const kt_event *event) {
    submitted *s = user;
    if (event->kind == KT_EVENT_TOKEN && event->len) {
        if (!s->on_text(s->user, event->text, event->len, event->id)) kt_request_cancel(event->req);
    }
    if (event->kind != KT_EVENT_FINISHED) return;
    take_report(s, event->report);
    if (event->finish != KT_FINISH_ERROR) return;
    s->status = event->error ? event->error->code : KT_E_INTERNAL;
    if (event->error) *s->err = *event->error;
}

kt_status kt__generate_submitted(kt_engine *engine, kt_request_params *request,
                                 const kt_gen_params *params, kt_text_fn *on_text, void *user,
                                 kt_gen_result *result, kt_error *err) {
    submitted s = {on_text, user, result, err, KT_OK};
    kt_request *req = NULL;
    int32_t left = 1;
    request->gen = *params;
    request->on_event = on_event;
    request->user = &s;
    kt_status status = kt_engine_submit(engine, request, &req, err);
    while (status == KT_OK && left) status = kt_engine_step(engine, 100000, &left, err);
    kt_request_close(req);
    return status == KT_OK ? s.status : status;
}
