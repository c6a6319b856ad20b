#include "requests/speculator.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "context/model.h"

struct kt__speculator {
    const kt_engine *engine;
    kt__draft *draft;     /* of a draft model or of the model's own block; or NULL */
    kt__draft_ask *asks;  /* [n_lanes] */
    kt__spec_costs costs; /* of steps */
    kt__spec_state usual; /* of all answers */
    bool eager;
};

kt_status kt__speculator_create(kt_engine *engine, kt__speculator **out, kt_error *err) {
    kt_status status = KT_OK;
    *out = NULL;
    kt__speculator *p = kt__calloc(1, sizeof *p);
    if (!p) return kt__fail_nomem(err, "speculation", sizeof *p);
    p->engine = engine;
    kt__spec_init(&p->usual);
    p->asks = kt__calloc((size_t)engine->params.n_parallel, sizeof *p->asks);
    if (!p->asks) {
        status = kt__fail_nomem(err, "speculation", 0);
    } else if ((engine->params.draft && engine->params.n_draft > 0) ||
               kt__engine_uses_mtp(engine->model, &engine->params)) {
        status = kt__draft_create(engine, &p->draft, err);
    }
    if (status == KT_OK) {
        *out = p;
    } else {
        kt__speculator_destroy(p);
    }
    return status;
}

void kt__speculator_destroy(kt__speculator *p) {
    if (!p) return;
    kt__draft_destroy(p->draft);
    kt__free(p->asks);
    kt__free(p);
}

void kt__speculator_set_eager(kt__speculator *p, bool eager) {
    p->eager = eager;
}

void kt__proposals_init(const kt__speculator *p, kt__proposals *out) {
    *out = (kt__proposals){.spec = p->usual};
    out->spec.n_drafted = out->spec.n_accepted = 0;
}

/* ---- proposing ---- */

static int smaller_of(int a, int b) {
    return a < b ? a : b;
}

/* What is forced, or from the answer's own tokens, as many as pay. rows, tokens: of the step so far, expected. */
static void look_up(const kt__speculator *p, const kt__draft_slot *ask, int room, int *rows,
                    double *tokens) {
    kt__proposals *to = ask->to;
    int most = smaller_of(ask->most, room), n = smaller_of(to->n_forced, most);
    to->match = KT__SPEC_FORCED;
    if (n > 0)
        memcpy(to->ids, to->forced, (size_t)n * sizeof *to->ids);
    else if (p->engine->params.draft_from != KT_DRAFT_MODEL)
        n = kt__spec_lookup(ask->tokens, ask->n_tok, most, to->ids, &to->match);
    if (n == 0) return;
    if (!p->eager) n = kt__spec_choose(&p->costs, &to->spec, to->match, n, *rows, tokens);
    if (n == 0) kt__spec_learn(&to->spec, to->match, 0, 0);
    to->n = n;
    *rows += n;
}

/* From the draft model, for those that have none. */
static void ask_draft(kt__speculator *p, const kt__draft_slot *asks, int n, int rows, int rows_max,
                      double tokens) {
    int n_without = 0, k = 0;
    for (int i = 0; i < n; i++) n_without += asks[i].to->n == 0;
    if (!p->draft || n_without == 0) return;
    int share = (rows_max - rows) / n_without;
    for (int i = 0; i < n; i++) {
        int most = smaller_of(asks[i].most, share);
        if (asks[i].to->n > 0 || most <= 0) continue;
        asks[i].to->asked = true;
        p->asks[k++] = (kt__draft_ask){.seq = asks[i].draft_seq,
                                       .table = asks[i].table,
                                       .tokens = asks[i].tokens,
                                       .n_tok = asks[i].n_tok,
                                       .n_got = asks[i].n_tok - asks[i].to->n_first + 1,
                                       .n_left = asks[i].n_left,
                                       .most = most,
                                       .ids = asks[i].to->ids};
    }
    const kt__draft_step step = {&p->costs, rows, tokens};
    kt__draft_propose(p->draft, p->asks, k, &step, p->eager);
    k = 0;
    for (int i = 0; i < n; i++) {
        if (!asks[i].to->asked) continue;
        asks[i].to->n = p->asks[k++].n;
        asks[i].to->match = 0;
    }
}

void kt__speculate(kt__speculator *p, const kt__draft_slot *asks, int n, int rows_max) {
    int rows = n;
    double tokens = n;
    for (int i = 0; i < n; i++) {
        asks[i].to->n = 0;
        asks[i].to->asked = false;
        asks[i].to->n_tok = asks[i].n_tok;
        if (asks[i].to->n_first == 0) asks[i].to->n_first = asks[i].n_tok;
    }
    if (p->engine->params.n_draft <= 0) return;
    for (int i = 0; i < n; i++) look_up(p, &asks[i], rows_max - rows, &rows, &tokens);
    ask_draft(p, asks, n, rows, rows_max, tokens);
}

/* ---- learning ---- */

void kt__speculator_measure(kt__speculator *p, int rows, int64_t us, bool new_memory) {
    if (new_memory)
        us = kt__spec_measure_new(&p->costs, rows, us);
    else
        kt__spec_measure(&p->costs, rows, us);
    if (p->draft) kt__draft_stepped(p->draft, us);
}

void kt__speculator_learn(kt__speculator *p, kt__proposals *made, kt__draft_seq *draft_seq,
                          int n_verified, int n_accepted) {
    if (made->asked) kt__draft_learn(p->draft, draft_seq, made->n_tok, n_verified, n_accepted);
    if (n_verified == 0) return;
    if (made->asked) {
        made->spec.n_drafted += n_verified;
        made->spec.n_accepted += n_accepted;
    } else {
        kt__spec_learn(&made->spec, made->match, n_verified, n_accepted);
        kt__spec_learn(&p->usual, made->match, n_verified, n_accepted);
    }
}

void kt__speculator_trim(kt__speculator *p, kt__draft_seq *draft_seq, int64_t n_keep) {
    if (p) kt__draft_seq_trim(p->draft, draft_seq, n_keep);
}
