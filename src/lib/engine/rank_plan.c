#include "engine/divide.h"

#include "base/error.h"
#include "context/ctx.h"

/* The second token says what one costs: the first may be preceded by what a sequence begins with. */
static kt_status eval_two(kt_engine *engine, kt_seq *seq, kt__rank_plan *out, kt_error *err) {
    const kt__division *split = &engine->model->ctx->split;
    const int32_t id = 0;
    KT__STEP(kt_seq_eval(seq, &id, 1, err));
    kt__traffic before = kt__peers_traffic(split->peers);
    *split->tally = (kt__tally){0};
    KT__STEP(kt_seq_eval(seq, &id, 1, err));
    kt__traffic after = kt__peers_traffic(split->peers);
    out->weight_bytes = split->tally->held_bytes;
    out->read_bytes = split->tally->read_bytes;
    out->traffic = (kt__traffic){.exchanges = after.exchanges - before.exchanges,
                                 .messages = after.messages - before.messages,
                                 .sent_bytes = after.sent_bytes - before.sent_bytes,
                                 .received_bytes = after.received_bytes - before.received_bytes};
    return KT_OK;
}

static kt_status run_engine(kt_model *model, const kt_engine_params *params, kt__rank_plan *out,
                            kt_error *err) {
    kt_status status;
    kt_mem_plan mem;
    kt_engine *engine = NULL;
    kt_seq *seq = NULL;
    KT__TRY(kt_engine_plan(model, params, &mem, err));
    out->kv_bytes = mem.kv_bytes + mem.kv_f16_bytes + mem.state_bytes;
    out->kv_positions = mem.kv_positions;
    KT__TRY(kt_engine_open(model, params, &engine, err));
    KT__TRY(kt_seq_open(engine, &seq, err));
    KT__TRY(eval_two(engine, seq, out, err));
out:
    kt_seq_close(seq);
    kt_engine_close(engine);
    return status;
}

kt_status kt__rank_plan_make(kt_model *model, const kt__rank_asked *asked, int rank,
                             kt__rank_plan *out, kt_error *err) {
    kt_status status;
    kt_ctx *ctx = model->ctx;
    kt__peers *peers = NULL;
    kt__tally tally = {0};
    *out = (kt__rank_plan){0};
    KT__TRY(kt__ctx_needs_whole(ctx, "plans", err));
    KT__TRY(kt__peers_plan(rank, asked->n, &peers, err));
    kt__division_init(&ctx->split, peers);
    ctx->split.tally = &tally;
    if (asked->least_bytes) ctx->split.least_bytes = asked->least_bytes;
    if (kt__division_share(&ctx->split, asked->shares))
        status = run_engine(model, asked->params, out, err);
    else
        status = kt__fail(err, KT_E_ARG, "split gives no process a part of the model");
    ctx->split = (kt__division){0};
out:
    kt__peers_close(peers);
    return status;
}
