#include "cli/batch_replica.h"

#include <time.h>

#include "base/error.h"
#include "cli/batch_job.h"

typedef struct replica {
    kt__batch_share *share;
    kt_engine *engine;
    const kt_request_params *defaults;
    kt__batch_sink sink;
    kt__batch_line held; /* refused by a full queue, to be submitted again */
    int32_t n_live;
    kt_status status; /* of the last letter, and err */
    kt_error *err;
    bool ended;
} replica;

static void answer_process_0(void *user, uint64_t number, kt__buf *line, bool failed,
                             const kt_request_report *report) {
    replica *r = user;
    kt__batch_result result = {
        .number = number, .failed = failed, .bytes = line->data, .len = line->len};
    if (report) result.report = *report;
    r->n_live--;
    if (r->status == KT_OK) r->status = kt__batch_share_answer(r->share, &result, r->err);
}

static kt_status submit_held_line(replica *r, kt_error *err) {
    kt_status status = kt__batch_job_submit(r->engine, &r->held, &r->sink, err);
    if (status != KT_OK && status != KT_E_BUSY) return status;
    return r->status;
}

/* What waits here is submitted before more is heard. */
static kt_status take_letters(replica *r, bool *any, kt_error *err) {
    *any = false;
    if (r->held.id) KT__STEP(submit_held_line(r, err));
    while (!r->held.id && !r->ended) {
        kt__batch_heard heard;
        uint64_t number = 0;
        const char *line = NULL;
        size_t len = 0;
        KT__STEP(kt__batch_share_hear(r->share, &heard, &number, &line, &len, err));
        if (heard == KT__BATCH_HEARD_NOTHING) break;
        *any = true;
        r->ended = heard == KT__BATCH_HEARD_END;
        if (r->ended) break;
        r->n_live++;
        kt__batch_line_parse(line, len, number, r->defaults, &r->held);
        KT__STEP(submit_held_line(r, err));
    }
    return kt__batch_share_nod(r->share, err);
}

static kt_status serve_letters(replica *r, kt_error *err) {
    const struct timespec pause = {.tv_nsec = 1000000};
    int32_t left;
    bool any;
    while (!r->ended) {
        KT__STEP(take_letters(r, &any, err));
        if (r->n_live) KT__STEP(kt_engine_step(r->engine, 20000, &left, err));
        if (r->status != KT_OK) return r->status;
        if (!any && !r->n_live) (void)nanosleep(&pause, NULL);
    }
    return KT_OK;
}

kt_status kt__batch_replica_run(kt__batch_share *share, kt__session *session,
                                const kt_request_params *defaults, kt_error *err) {
    const kt_model_info *info = &session->info;
    replica r = {.share = share, .engine = session->engine, .defaults = defaults, .err = err};
    r.sink = (kt__batch_sink){answer_process_0, &r, session->model,
                              info->name[0] ? info->name : info->path, &session->lora};
    kt_status status = kt__batch_share_ready(share, session->engine_info.n_parallel,
                                             session->engine_info.n_queue_max, err);
    if (status == KT_OK) status = serve_letters(&r, err);
    kt__batch_line_free(&r.held);
    kt_engine_stop(r.engine, 0);
    return status;
}
