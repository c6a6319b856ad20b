#include "cli/batch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"

enum {
    N_WAITING = 2, /* requests that wait at a process, so that it never does */
    NOD_US = 1000000
};

typedef enum share_letter {
    SHARE_READY, /* to process 0 */
    SHARE_RESULT,
    SHARE_NOD,
    SHARE_LINE, /* from it */
    SHARE_END
} share_letter;

kt_status kt__batch_share_open(kt__batch_share *s, kt_error *err) {
    *s = (kt__batch_share){.n = 1};
    KT__STEP(kt__peers_open(&s->peers, err));
    if (!s->peers) return KT_OK;
    s->n = kt__peers_size(s->peers);
    s->rank = kt__peers_rank(s->peers);
    return KT_OK;
}

void kt__batch_share_close(kt__batch_share *s, bool failed) {
    if (failed && s->peers) kt__peers_fail(s->peers, "the batch has failed");
    kt__peers_close(s->peers);
    kt__message_free(&s->letter);
    *s = (kt__batch_share){0};
}

static kt_status post_letter(kt__batch_share *s, int rank, kt_error *err) {
    s->said_us = kt__now_us();
    return kt__message_post(&s->letter, s->peers, rank, err);
}

static kt_status fail_letter(int rank, kt_error *err) {
    return kt__fail(err, KT_E_FORMAT, "process %d sent what is no letter of a batch", rank);
}

/* ---- process 0 ---- */

static void take_ready(kt__batch_share *s, int rank) {
    s->places[rank].n_parallel = kt__message_take(&s->letter, 1, KT_PARALLEL_MAX);
    s->places[rank].n_live_max = kt__message_take(&s->letter, 1, KT_QUEUE_MAX);
}

static void take_result(kt__batch_share *s, int rank, kt__batch_result *out) {
    kt__message *m = &s->letter;
    *out = (kt__batch_result){.number = (uint64_t)kt__message_take_64(m, 0, INT64_MAX)};
    out->failed = kt__message_take(m, 0, 1);
    out->report.n_prompt = kt__message_take(m, 0, INT32_MAX);
    out->report.n_cached = kt__message_take(m, 0, INT32_MAX);
    out->report.n_generated = kt__message_take(m, 0, INT32_MAX);
    out->report.n_drafted = kt__message_take(m, 0, INT32_MAX);
    out->report.n_accepted = kt__message_take(m, 0, INT32_MAX);
    out->bytes = kt__message_take_text(m, &out->len);
    s->places[rank].n_live--;
    if (s->places[rank].n_live < 0) m->bad = true;
}

static kt_status check_silence(const kt__batch_share *s, kt_error *err) {
    int64_t silent_s, most_s = kt__peers_deadline_s(s->peers);
    for (int r = 1; r < s->n; r++) {
        silent_s = (kt__now_us() - s->places[r].heard_us) / 1000000;
        if (s->places[r].n_live_max && silent_s > most_s)
            return kt__fail(err, KT_E_STATE,
                            "process %d on %.100s: no sign of life for %lld s "
                            "(KENTANG_MPI_DEADLINE): it has died or hangs, or the network fails",
                            r, kt__peers_host(s->peers, r), (long long)silent_s);
    }
    return KT_OK;
}

kt_status kt__batch_share_look(kt__batch_share *s, kt__batch_result *out, bool *any,
                               kt_error *err) {
    *any = false;
    while (s->peers && !*any) {
        int rank;
        int32_t kind;
        KT__STEP(kt__message_look(&s->letter, s->peers, &rank, &kind, err));
        if (rank < 0) return check_silence(s, err);
        s->places[rank].heard_us = kt__now_us();
        if (kind == SHARE_READY) take_ready(s, rank);
        *any = kind == SHARE_RESULT;
        if (*any) take_result(s, rank, out);
        if (s->letter.bad || kind > SHARE_NOD) return fail_letter(rank, err);
    }
    return KT_OK;
}

static bool all_are_ready(const kt__batch_share *s) {
    for (int r = 0; r < s->n; r++)
        if (!s->places[r].n_live_max) return false;
    return true;
}

/* As long as it takes to read their models. */
static kt_status await_others(kt__batch_share *s, kt_error *err) {
    const struct timespec pause = {.tv_nsec = 2000000};
    kt__batch_result none;
    bool any;
    while (!all_are_ready(s)) {
        KT__STEP(kt__batch_share_look(s, &none, &any, err));
        if (any) return fail_letter(1, err);
        (void)nanosleep(&pause, NULL);
    }
    return KT_OK;
}

kt_status kt__batch_share_ready(kt__batch_share *s, int32_t n_parallel, int32_t n_queue_max,
                                kt_error *err) {
    int32_t n_live_max = n_parallel + N_WAITING < n_queue_max ? n_parallel + N_WAITING
                                                              : n_queue_max;
    if (s->rank == 0) {
        s->places[0].n_parallel = n_parallel;
        s->places[0].n_live_max = n_live_max;
        return await_others(s, err);
    }
    kt__message_begin(&s->letter, SHARE_READY);
    kt__message_put(&s->letter, n_parallel);
    kt__message_put(&s->letter, n_live_max);
    return post_letter(s, 0, err);
}

int kt__batch_share_choose(const kt__batch_share *s, int32_t n_here) {
    int best = -1;
    double least = 0;
    for (int r = 0; r < s->n; r++) {
        int32_t n_live = r == 0 ? n_here : s->places[r].n_live;
        double load = (double)n_live / (double)s->places[r].n_parallel;
        if (n_live >= s->places[r].n_live_max || (best >= 0 && load >= least)) continue;
        best = r;
        least = load;
    }
    return best;
}

kt_status kt__batch_share_send(kt__batch_share *s, int rank, uint64_t number, const char *line,
                               size_t len, kt_error *err) {
    kt__message_begin(&s->letter, SHARE_LINE);
    kt__message_put_64(&s->letter, (int64_t)number);
    kt__message_put_bytes(&s->letter, line, len);
    s->places[rank].n_live++;
    return post_letter(s, rank, err);
}

kt_status kt__batch_share_end(kt__batch_share *s, kt_error *err) {
    for (int r = 1; r < s->n; r++) {
        kt__message_begin(&s->letter, SHARE_END);
        KT__STEP(post_letter(s, r, err));
    }
    return KT_OK;
}

/* ---- the others ---- */

kt_status kt__batch_share_hear(kt__batch_share *s, kt__batch_heard *heard, uint64_t *number,
                               const char **line, size_t *len, kt_error *err) {
    int rank;
    int32_t kind;
    *heard = KT__BATCH_HEARD_NOTHING;
    KT__STEP(kt__message_look(&s->letter, s->peers, &rank, &kind, err));
    if (rank < 0) return KT_OK;
    *heard = kind == SHARE_END ? KT__BATCH_HEARD_END : KT__BATCH_HEARD_LINE;
    if (kind == SHARE_END) return KT_OK;
    *number = (uint64_t)kt__message_take_64(&s->letter, 0, INT64_MAX);
    *line = kt__message_take_text(&s->letter, len);
    return kind == SHARE_LINE && !s->letter.bad ? KT_OK : fail_letter(rank, err);
}

kt_status kt__batch_share_answer(kt__batch_share *s, const kt__batch_result *r, kt_error *err) {
    kt__message *m = &s->letter;
    kt__message_begin(m, SHARE_RESULT);
    kt__message_put_64(m, (int64_t)r->number);
    const int32_t counts[] = {r->failed,           r->report.n_prompt,
                              r->report.n_cached,  r->report.n_generated,
                              r->report.n_drafted, r->report.n_accepted};
    kt__message_put_words(m, counts, sizeof counts / sizeof *counts);
    kt__message_put_bytes(m, r->bytes, r->len);
    return post_letter(s, 0, err);
}

kt_status kt__batch_share_nod(kt__batch_share *s, kt_error *err) {
    if (kt__now_us() - s->said_us < NOD_US) return KT_OK;
    kt__message_begin(&s->letter, SHARE_NOD);
    return post_letter(s, 0, err);
}

/* ---- batch replica ---- */

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
