#include "requests/draft.h"

#include <string.h>

#include "answer/batch.h"
#include "answer/spec.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "context/model.h"
#include "kv/f16_copies.h"

enum {
    ROWS = 64,       /* of a draft batch: what it follows a step, at most */
    MOST_POS = 4096, /* of an answer's text that it remembers, so that its K/V stay small */
    MOST_LANES = 4,  /* answers whose text it remembers: with more in a step, rows are not to be had
                        for nothing, and proposals do not pay */
    READY_ROWS = 2,  /* after an answer: the last step's tokens, part of proposing, */
    AGAIN_ROWS = 16, /* and with recurrent layers those that were proposed and right */
    LANE_STATES = 3  /* of the text, of proposals, and the next one */
};

/* The share of proposals that may be right, where nothing is known: trying costs little. */
static const double hopeful = 0.85;

struct kt__draft {
    kt_engine *engine;
    kt__draft_block *block; /* or NULL: a model follows texts; the next members are its */
    const kt_model *model;
    kt__fwd *fwd;
    kt__kv *kv;
    int n_lanes;
    kt__seg *segs;         /* [n_lanes] */
    kt__seg_state *states; /* [n_lanes] theirs, with recurrent layers */
    kt__draft_seq **seqs;  /* [n_lanes] whose they are */
    int32_t *ids;          /* [ROWS] */
    int32_t *out_rows;     /* [n_lanes] */
    kt__draft_ask **ready; /* [n_lanes] those that have been followed */
    kt__draft_gate gate;
    double usual_right; /* of all answers */
};

/* Whether a model proposes that has to follow each text itself. */
static bool has_follower(const kt_engine_params *p) {
    return p->draft && !kt__model_is_assistant(p->draft);
}

/* ---- life ---- */

static kt_status check_assistant(const kt_model *model, const kt_model *draft, kt_error *err) {
    if (!kt__model_is_assistant(draft)) return KT_OK;
    if (!kt__ctx_split(model->ctx)) return kt__net_check_host(draft->net, model->net, err);
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "%s reads the model's keys and values, which several processes divide: leave "
                    "--draft-model out",
                    draft->net->hp.arch);
}

kt_status kt__draft_check(const kt_model *model, const kt_model *draft, kt_error *err) {
    KT__STEP(kt__model_needs_net(draft, err));
    KT__STEP(check_assistant(model, draft, err));
    if (draft->ctx != model->ctx)
        return kt__fail(err, KT_E_ARG, "the draft model was opened in another context");
    int32_t n = model->net->hp.n_vocab;
    if (draft->net->hp.n_vocab != n) {
        return kt__fail(err, KT_E_ARG,
                        "the draft model has %d tokens and the model %d: they must share the "
                        "vocabulary",
                        draft->net->hp.n_vocab, n);
    }
    for (int32_t i = 0; model->tok && draft->tok && i < n; i++) {
        kt__str a = kt__tokenizer_token_text(model->tok, i);
        kt__str b = kt__tokenizer_token_text(draft->tok, i);
        if (a.len == b.len && (a.len == 0 || memcmp(a.s, b.s, a.len) == 0)) continue;
        return kt__fail(err, KT_E_ARG,
                        "token %d differs between the model and its draft model: they must share "
                        "the vocabulary",
                        i);
    }
    return KT_OK;
}

/* Positions of an answer's text, its end. */
static int32_t positions_of(const kt_engine_params *p) {
    return p->n_ctx < MOST_POS ? p->n_ctx : MOST_POS;
}

static int32_t lanes_of(const kt_engine_params *p) {
    return p->n_parallel < MOST_LANES ? p->n_parallel : MOST_LANES;
}

static int64_t n_pages_for(const kt_engine_params *p) {
    return lanes_of(p) * (int64_t)kt__pages_of(positions_of(p));
}

/* In 8 bits, since a proposal need not be the model's best; as computed with recurrent layers, whose
 * states cannot go back to where a page begins, and with plain attention. */
static kt__kv_shape shape_of(const kt_model *draft) {
    kt__kv_shape shape = kt__model_kv_shape(draft);
    bool as_computed = shape.state_bytes > 0 || draft->params.plain_attention;
    kt_kv_type type = as_computed ? KT_KV_F16 : KT_KV_Q8_0;
    const kt_engine_params own = {.kv_keys = type, .kv_values = type, .draft_from = KT_DRAFT_TEXT};
    return kt__engine_kv_shape(draft, &own);
}

/* An answer's last page and that of its proposals, and a batch's, in f16; each page may have parts
 * in layers with a window. */
static kt__kv_room room_of(const kt_engine_params *p) {
    return (kt__kv_room){.n_kept = 2 * lanes_of(p) + ROWS / KT__PAGE_POS + 1,
                         .n_states = lanes_of(p) * LANE_STATES,
                         .n_local = (int32_t)n_pages_for(p)};
}

static uint64_t kv_bytes_for(const kt__kv_shape *shape, const kt_engine_params *p) {
    uint64_t bytes = (uint64_t)n_pages_for(p) * kt__kv_page_bytes(shape);
    if (!kt__kv_is_quantised(shape)) return bytes;
    return bytes + (uint64_t)room_of(p).n_kept * kt__f16_copies_kept_bytes(shape);
}

static kt__fwd_params fwd_params(const kt_model *draft, const kt__kv_shape *shape,
                                 const kt_engine_params *p) {
    return (kt__fwd_params){.n_tok_max = ROWS > p->n_parallel ? ROWS : p->n_parallel,
                            .n_out_max = p->n_parallel,
                            .n_ctx = positions_of(p),
                            .keys_quantised = shape->k_form != KT__KV_F16,
                            .exact = draft->params.exact,
                            .plain_attention = draft->params.plain_attention};
}

uint64_t kt__draft_plan_bytes(const kt_model *model, const kt_engine_params *p) {
    const kt_model *draft = p->draft;
    uint64_t weights = draft->ctx->mem_given || !draft->params.use_mmap
                           ? kt__model_resident_bytes(draft)
                           : 0;
    if (kt__model_is_assistant(draft)) return weights + kt__draft_block_plan_bytes(model, p);
    kt__kv_shape shape = shape_of(draft);
    kt__fwd_params fwd = fwd_params(draft, &shape, p);
    uint64_t states = (uint64_t)lanes_of(p) * LANE_STATES * shape.state_bytes;
    return weights + states + kv_bytes_for(&shape, p) + kt__fwd_plan_bytes(draft->net, &fwd);
}

static kt_status create_follower(kt__draft *d, kt_error *err) {
    kt_status status;
    const kt_engine *engine = d->engine;
    const kt_model *model = engine->params.draft;
    kt__kv_shape shape = shape_of(model);
    kt__fwd_params fwd = fwd_params(model, &shape, &engine->params);
    size_t lanes = (size_t)engine->params.n_parallel;
    d->model = model;
    d->n_lanes = engine->params.n_parallel;
    kt__draft_gate_init(&d->gate, (double)model->info.decode_bytes /
                                      (double)engine->model->info.decode_bytes);
    KT__TRY(kt__kv_create_with(&shape, n_pages_for(&engine->params), room_of(&engine->params),
                               &d->kv, err));
    kt__kv_spread(d->kv, &model->ctx->affinity);
    KT__TRY(kt__fwd_create(model->net, model->ctx->pool, model->ctx->kernels, &fwd, &d->fwd, err));
    d->segs = kt__calloc(lanes, sizeof *d->segs);
    d->states = kt__calloc(lanes, sizeof *d->states);
    d->seqs = kt__calloc(lanes, sizeof *d->seqs);
    d->ids = kt__calloc((size_t)fwd.n_tok_max, sizeof *d->ids);
    d->out_rows = kt__calloc(lanes, sizeof *d->out_rows);
    d->ready = kt__calloc(lanes, sizeof *d->ready);
    if (!d->segs || !d->states || !d->seqs || !d->ids || !d->out_rows || !d->ready)
        status = kt__fail_nomem(err, "the draft model's lists", 0);
out:
    return status;
}

kt_status kt__draft_create(kt_engine *engine, kt__draft **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__draft *d = kt__calloc(1, sizeof *d);
    if (!d) return kt__fail_nomem(err, "drafts", sizeof *d);
    d->engine = engine;
    d->usual_right = hopeful;
    if (has_follower(&engine->params)) {
        status = create_follower(d, err);
    } else {
        kt__draft_gate_init(&d->gate, kt__draft_block_size(engine));
        d->gate.warm_steps = !engine->params.draft; /* a block's head and keys are in use already */
        status = kt__draft_block_create(engine, &d->block, err);
    }
    if (status == KT_OK)
        *out = d;
    else
        kt__draft_destroy(d);
    return status;
}

void kt__draft_destroy(kt__draft *d) {
    if (!d) return;
    kt__draft_block_destroy(d->block);
    kt__fwd_destroy(d->fwd);
    kt__kv_destroy(d->kv);
    kt__free(d->segs);
    kt__free(d->states);
    kt__free(d->seqs);
    kt__free(d->ids);
    kt__free(d->out_rows);
    kt__free(d->ready);
    kt__free(d);
}

kt_status kt__draft_seq_init(const kt_engine *engine, kt__draft_seq *seq, kt_error *err) {
    *seq = (kt__draft_seq){0};
    if (has_follower(&engine->params))
        return kt__kv_table_init(&seq->table, positions_of(&engine->params), err);
    if (!kt__engine_keeps_states(engine->model, &engine->params)) return KT_OK;
    size_t bytes = (size_t)kt__engine_hparams(engine)->d_model * sizeof *seq->hidden;
    seq->hidden = kt__calloc(1, bytes);
    return seq->hidden ? KT_OK : kt__fail_nomem(err, "an answer's state", bytes);
}

void kt__draft_seq_free(kt__draft_seq *seq) {
    kt__free(seq->table.pages);
    kt__free(seq->hidden);
}

/* A state cannot be cut: that of the text is taken up again, if it is not beyond n positions; else
 * all is followed anew. Returns the positions that stay. */
static int32_t go_back(kt__draft *d, kt__draft_seq *seq, int64_t n) {
    if (seq->base != KT__NO_STATE && seq->n_base <= n) {
        kt__kv_state_ref(d->kv, seq->base);
        kt__kv_table_set_state(d->kv, &seq->table, seq->base, seq->n_base);
        return seq->n_base;
    }
    kt__kv_state_drop(d->kv, seq->base);
    seq->base = KT__NO_STATE;
    seq->n_base = 0;
    return 0;
}

void kt__draft_seq_trim(kt__draft *d, kt__draft_seq *seq, int64_t n_keep) {
    if (seq->n_hidden > n_keep) seq->n_hidden = 0;
    if (!d || !seq->table.pages || seq->n_done <= n_keep) return;
    if (n_keep < seq->begin) n_keep = seq->begin;
    if (kt__kv_has_states(d->kv)) n_keep = seq->begin + go_back(d, seq, n_keep - seq->begin);
    kt__kv_table_truncate(d->kv, &seq->table, n_keep - seq->begin);
    if (kt__kv_is_quantised(kt__kv_get_shape(d->kv)))
        n_keep = seq->begin + kt__kv_table_own_end(d->kv, &seq->table, n_keep - seq->begin);
    seq->n_done = (int32_t)n_keep;
    if (seq->n_done == seq->begin) seq->begin = seq->n_done = 0;
}

/* ---- batches ---- */

static kt__batch empty_batch(const kt__draft *d) {
    return (kt__batch){.ids = d->ids, .segs = d->segs, .out_rows = d->out_rows};
}

/* The tokens after what was followed of an answer's text, which has room for them now. */
static bool add_rows(kt__draft *d, kt__draft_seq *seq, const int32_t *ids, int32_t rows,
                     kt__batch *batch) {
    int32_t pos = seq->n_done - seq->begin;
    if (kt__kv_table_grow(d->kv, &seq->table, pos, pos + rows, NULL) != KT_OK) return false;
    memcpy(d->ids + batch->n_tok, ids, (size_t)rows * sizeof *ids);
    kt__seg *seg = &d->segs[batch->n_seg];
    *seg = (kt__seg){.table = &seq->table, .pos0 = pos, .row0 = batch->n_tok, .n_tok = rows};
    if (kt__kv_has_states(d->kv)) {
        d->states[batch->n_seg] = (kt__seg_state){rows, seq->table.next};
        seq->table.next = KT__NO_STATE;
        seg->states = &d->states[batch->n_seg];
        seg->n_states = 1;
    }
    d->seqs[batch->n_seg++] = seq;
    batch->n_tok += rows;
    seq->n_done += rows;
    return true;
}

/* Rows of the text are there to stay. */
static void settle_text(kt__draft *d, const kt__batch *batch) {
    for (int i = 0; i < batch->n_seg; i++) {
        const kt__seg *seg = &d->segs[i];
        kt__kv_table_settle(d->kv, &d->seqs[i]->table, seg->pos0 + seg->n_tok);
    }
}

/* The batch's rows are of the text, or proposals. */
static void take_states(kt__draft *d, const kt__batch *batch, bool of_text) {
    for (int i = 0; kt__kv_has_states(d->kv) && i < batch->n_seg; i++) {
        kt__draft_seq *seq = d->seqs[i];
        int64_t n_pos = d->segs[i].pos0 + d->segs[i].n_tok;
        kt__kv_table_set_state(d->kv, &seq->table, d->states[i].piece, n_pos);
        if (!of_text) continue;
        kt__kv_state_drop(d->kv, seq->base);
        kt__kv_state_ref(d->kv, d->states[i].piece);
        seq->base = d->states[i].piece;
        seq->n_base = (int32_t)n_pos;
    }
}

/* What was listed and not computed is forgotten. */
static void give_back(kt__draft *d, const kt__batch *batch) {
    for (int i = 0; i < batch->n_seg; i++) {
        if (kt__kv_has_states(d->kv)) kt__kv_state_drop(d->kv, d->states[i].piece);
        kt__draft_seq_trim(d, d->seqs[i], d->seqs[i]->n_done - d->segs[i].n_tok);
    }
}

static bool run_batch(kt__draft *d, const kt__batch *batch, bool of_text) {
    bool done;
    kt_error err;
    kt__batch_run run = {.fwd = d->fwd,
                         .kv = d->kv,
                         .batch = batch,
                         .decode = true,
                         .n_tok = batch->n_tok,
                         .until_us = INT64_MAX};
    if (kt__engine_run_batch(d->engine, &run, &done, &err) == KT_OK) {
        take_states(d, batch, of_text);
        if (of_text) settle_text(d, batch);
        return true;
    }
    give_back(d, batch);
    return false;
}

/* Follows the answers that are asked for up to their last token, at most ROWS rows in all; those
 * that get there get their first proposal. Returns how many. */
static int follow_asks(kt__draft *d, kt__draft_ask *asks, int n) {
    kt__batch b = empty_batch(d);
    int n_ready = 0;
    for (int i = 0; i < n; i++) {
        kt__draft_ask *ask = &asks[i];
        kt__draft_seq *seq = ask->seq;
        if (!ask->ready) continue;
        int32_t rows = ask->n_tok - seq->n_done, room = ROWS - b.n_tok;
        if (rows > room) rows = room;
        if (rows <= 0) continue;
        if (!add_rows(d, seq, ask->tokens + seq->n_done, rows, &b)) continue;
        if (seq->n_done < ask->n_tok) continue;
        d->out_rows[b.n_out++] = b.n_tok - 1;
        d->ready[n_ready++] = ask;
    }
    if (b.n_tok == 0 || run_batch(d, &b, true)) return n_ready;
    for (int i = 0; i < n; i++) {
        if (asks[i].ready) kt__draft_seq_trim(d, asks[i].seq, 0);
    }
    return 0;
}

static void take_ids(kt__draft *d, int n_ready) {
    for (int i = 0; i < n_ready; i++) {
        bool finite;
        kt__draft_ask *ask = d->ready[i];
        ask->ids[ask->n++] = d->model->ctx->kernels->argmax(kt__fwd_logits(d->fwd, i),
                                                            d->model->net->hp.n_vocab, &finite);
    }
}

/* One more proposal for each that is ready. */
static bool step_ready(kt__draft *d, int n_ready) {
    kt__batch b = empty_batch(d);
    for (int i = 0; i < n_ready; i++) {
        const kt__draft_ask *ask = d->ready[i];
        if (!add_rows(d, ask->seq, &ask->ids[ask->n - 1], 1, &b)) {
            give_back(d, &b);
            return false;
        }
        d->out_rows[b.n_out++] = i;
    }
    return run_batch(d, &b, false);
}

/* Of the draft model; how many each got. */
static int follow_and_draft(kt__draft *d, kt__draft_ask *asks, int n, int k) {
    int n_ready = follow_asks(d, asks, n), steps = 1;
    if (n_ready == 0) return 0;
    take_ids(d, n_ready);
    for (; steps < k && step_ready(d, n_ready); steps++) take_ids(d, n_ready);
    return steps;
}

/* k proposals for each that is ready. */
static void draft_tokens(kt__draft *d, kt__draft_ask *asks, int n, int k,
                         const kt__draft_step *verify) {
    int64_t begin_us = kt__now_us();
    int steps = d->block ? kt__draft_block_propose(d->block, asks, n, k)
                         : follow_and_draft(d, asks, n, k);
    int n_proposed = 0;
    for (int i = 0; i < n; i++) n_proposed += asks[i].n;
    if (n_proposed > 0) kt__draft_gate_verify(&d->gate, verify, n_proposed);
    kt__draft_gate_drafted(&d->gate, steps > 0 ? steps : 1, (double)(kt__now_us() - begin_us));
}

/* Some rows of an answer's text, but its last token. */
static void follow_some(kt__draft *d, const kt__draft_ask *ask, int rows) {
    kt__draft_seq *seq = ask->seq;
    kt__batch b = empty_batch(d);
    int64_t begin_us = kt__now_us();
    if (!add_rows(d, seq, ask->tokens + seq->n_done, rows, &b)) return;
    if (!run_batch(d, &b, true)) kt__draft_seq_trim(d, seq, 0);
    kt__draft_gate_followed(&d->gate, rows, (double)(kt__now_us() - begin_us));
}

/* Rows to follow of an answer that lags; 0: none. Where the text is too long for it, it is
 * begun anew nearer to its end. */
static int32_t rows_to_follow(kt__draft *d, const kt__draft_ask *ask,
                              const kt__draft_step *verify) {
    kt__draft_seq *seq = ask->seq;
    const kt__draft_lag lag = {.rows = ask->n_tok - 1 - seq->n_done,
                               .n_got = ask->n_got,
                               .n_left = ask->n_left,
                               .most = ask->most,
                               .right = seq->right};
    int32_t rows = kt__draft_gate_covers(&d->gate, verify, &lag);
    if (rows > 0 && rows < lag.rows) {
        kt__draft_seq_trim(d, seq, 0);
        seq->begin = seq->n_done = ask->n_tok - 1 - rows;
    }
    return rows;
}

/* The first of the answers after that is worth it; one a step. */
static void catch_up(kt__draft *d, const kt__draft_ask *asks, int n, const kt__draft_step *verify) {
    for (int i = 0; i < n; i++) {
        int32_t rows = asks[i].ready ? 0 : rows_to_follow(d, &asks[i], verify);
        if (rows == 0) continue;
        int most = rows < ROWS ? rows : ROWS;
        follow_some(d, &asks[i], kt__draft_gate_slice(&d->gate, verify, most));
        return;
    }
}

/* ---- proposing ---- */

/* A text that is too long for it is begun anew in its second half, seldom enough to cost little. */
static void keep_within(kt__draft *d, const kt__draft_ask *ask) {
    kt__draft_seq *seq = ask->seq;
    int32_t most = positions_of(&d->engine->params);
    if (ask->n_tok + ask->most - seq->begin <= most) return;
    kt__draft_seq_trim(d, seq, 0);
    seq->begin = seq->n_done = ask->n_tok - 1 - most / 2;
}

/* It does not pay now: later it is tried again. */
static void rest_asks(kt__draft *d, const kt__draft_ask *asks, int n) {
    kt__draft_gate_rest(&d->gate);
    for (int i = 0; i < n; i++) asks[i].seq->right += 0.1 * (hopeful - asks[i].seq->right);
}

static bool has_followed(const kt__draft *d, const kt__draft_ask *ask) {
    int ready_rows = READY_ROWS;
    if (d->block) return kt__draft_block_knows(ask);
    if (kt__kv_has_states(d->kv)) ready_rows += AGAIN_ROWS;
    return ask->n_tok - ask->seq->n_done <= ready_rows;
}

void kt__draft_propose(kt__draft *d, kt__draft_ask *asks, int n, const kt__draft_step *verify,
                       bool eager) {
    int most = INT32_MAX, n_ready = 0, k;
    double right = 0;
    d->gate.base_us = 0; /* a step that was not computed is not charged */
    for (int i = 0; i < n; i++) {
        kt__draft_ask *ask = &asks[i];
        if (ask->seq->right <= 0) ask->seq->right = d->usual_right;
        ask->n = 0;
        if (!d->block) keep_within(d, ask);
        ask->ready = has_followed(d, ask) || (eager && !d->block);
        if (!ask->ready) continue;
        n_ready++;
        right += ask->seq->right;
        if (ask->most < most) most = ask->most;
    }
    if (!eager && kt__draft_gate_rests(&d->gate)) return;
    if (n_ready > 0) {
        right /= n_ready;
        k = eager ? most : kt__draft_gate_choose(&d->gate, verify, right, n_ready, most);
        if (k > 0) {
            draft_tokens(d, asks, n, k, verify);
        } else if (!kt__draft_gate_pays(&d->gate, verify, right, n_ready, most)) {
            rest_asks(d, asks, n);
            return;
        }
    }
    if (!eager && !d->block) catch_up(d, asks, n, verify);
}

void kt__draft_stepped(kt__draft *d, int64_t us) {
    kt__draft_gate_stepped(&d->gate, (double)us);
}

void kt__draft_learn(kt__draft *d, kt__draft_seq *seq, int32_t n_tok, int n_drafted,
                     int n_accepted) {
    const double rate = 0.1;
    kt__draft_gate_accepted(&d->gate, n_accepted);
    for (int i = 0; i < n_accepted; i++) seq->right += rate * (1 - seq->right);
    if (n_accepted < n_drafted) seq->right -= rate * seq->right;
    d->usual_right += 0.05 * (seq->right - d->usual_right);
    kt__draft_seq_trim(d, seq, n_tok + n_accepted);
}

/* ---- draft block ---- */

struct kt__draft_block {
    kt_engine *engine;
    kt__fwd *fwd;         /* that proposes: the engine's, or */
    kt__fwd *own;         /* an assistant's; NULL: there is none */
    kt__seg *segs;        /* [n_lanes] */
    const float **before; /* [n_lanes] */
    int32_t *ids;         /* [n_lanes] */
    int32_t *out_rows;    /* [n_lanes] */
    kt__draft_ask **of;   /* [n_lanes] whose the rows are */
    double rest, head; /* bytes of a proposal but for its head, and of this: shares of a step's */
    kt__common_tokens common; /* of the texts that it is asked for */
};

static uint64_t bytes_of(const kt__weight *w) {
    return (uint64_t)w->row_bytes * (uint64_t)w->n_row;
}

/* NULL: the model's own block proposes. */
static const kt__net *assistant_of(const kt_engine *engine) {
    return engine->params.draft ? engine->params.draft->net : NULL;
}

static double share_of_head(const kt_engine *engine) {
    const kt__net *net = engine->model->net, *assistant = assistant_of(engine);
    const kt__weight *head = assistant ? &assistant->head : &net->mtp->t[KT__SLOT_MTP_HEAD].w;
    return (double)bytes_of(head->data ? head : &net->head) / (double)net->decode_bytes;
}

double kt__draft_block_size(const kt_engine *engine) {
    const kt__net *net = engine->model->net, *assistant = assistant_of(engine);
    if (assistant) return (double)assistant->decode_bytes / (double)net->decode_bytes;
    uint64_t bytes = net->mtp_bytes - bytes_of(&net->mtp->t[KT__SLOT_MTP_EMBED].w);
    if (!net->mtp->t[KT__SLOT_MTP_HEAD].w.data) bytes += bytes_of(&net->head);
    return (double)bytes / (double)net->decode_bytes;
}

/* It reads the model's store as the model does. */
static kt__fwd_params assistant_fwd(const kt_model *model, const kt_engine_params *p) {
    return (kt__fwd_params){.n_tok_max = p->n_parallel,
                            .n_out_max = p->n_parallel,
                            .n_ctx = p->n_ctx,
                            .keys_quantised = p->kv_keys != KT_KV_F16 || p->kv_pressure,
                            .host = model->net,
                            .exact = model->params.exact,
                            .plain_attention = model->params.plain_attention};
}

uint64_t kt__draft_block_plan_bytes(const kt_model *model, const kt_engine_params *p) {
    const kt__fwd_params fwd = assistant_fwd(model, p);
    return kt__fwd_plan_bytes(p->draft->net, &fwd);
}

static kt_status choose_fwd(kt__draft_block *b, kt_error *err) {
    const kt_engine *engine = b->engine;
    const kt_ctx *ctx = engine->model->ctx;
    b->fwd = engine->step_fwd;
    if (!assistant_of(engine)) return KT_OK;
    const kt__fwd_params fwd = assistant_fwd(engine->model, &engine->params);
    KT__STEP(kt__fwd_create(assistant_of(engine), ctx->pool, ctx->kernels, &fwd, &b->own, err));
    b->fwd = b->own;
    return KT_OK;
}

kt_status kt__draft_block_create(kt_engine *engine, kt__draft_block **out, kt_error *err) {
    size_t lanes = (size_t)engine->params.n_parallel;
    *out = NULL;
    kt__draft_block *b = kt__calloc(1, sizeof *b);
    if (!b) return kt__fail_nomem(err, "the proposals' batch", sizeof *b);
    b->engine = engine;
    b->head = share_of_head(engine);
    b->rest = kt__draft_block_size(engine) - b->head;
    b->segs = kt__calloc(lanes, sizeof *b->segs);
    b->before = kt__calloc(lanes, sizeof *b->before);
    b->ids = kt__calloc(lanes, sizeof *b->ids);
    b->out_rows = kt__calloc(lanes, sizeof *b->out_rows);
    b->of = kt__calloc(lanes, sizeof *b->of);
    kt_status status = choose_fwd(b, err);
    if (!b->segs || !b->before || !b->ids || !b->out_rows || !b->of)
        status = kt__fail_nomem(err, "the proposals' batch", 0);
    if (status == KT_OK)
        *out = b;
    else
        kt__draft_block_destroy(b);
    return status;
}

void kt__draft_block_destroy(kt__draft_block *b) {
    if (!b) return;
    kt__fwd_destroy(b->own);
    kt__free(b->segs);
    kt__free(b->before);
    kt__free(b->ids);
    kt__free(b->out_rows);
    kt__free(b->of);
    kt__free(b);
}

/* Of a text's tokens what has come since. */
static void count_tokens(kt__draft_block *b, const kt__draft_ask *ask) {
    int32_t from = ask->seq->n_counted < ask->n_tok ? ask->seq->n_counted : ask->n_tok;
    kt__common_tokens_count(&b->common, (int)kt__engine_n_vocab(b->engine), ask->tokens + from,
                            ask->n_tok - from);
    ask->seq->n_counted = ask->n_tok;
}

bool kt__draft_block_knows(const kt__draft_ask *ask) {
    return ask->seq->hidden && ask->seq->n_hidden > 0 && ask->seq->n_hidden == ask->n_tok - 1;
}

/* A block writes k more positions; the step's own pages are among them. */
static bool has_room(const kt__draft_block *b, const kt__draft_ask *ask, int k) {
    int64_t pos = ask->n_tok - 1;
    return b->own || kt__kv_table_grow(b->engine->kv, ask->table, pos, pos + k, NULL) == KT_OK;
}

static int list_ready(kt__draft_block *b, kt__draft_ask *asks, int n, int k) {
    int n_row = 0;
    for (int i = 0; i < n; i++) {
        kt__draft_ask *ask = &asks[i];
        int64_t pos = ask->n_tok - 1;
        if (!ask->ready || !has_room(b, ask, k)) continue;
        b->segs[n_row] = (kt__seg){.table = ask->table, .pos0 = pos, .row0 = n_row, .n_tok = 1};
        b->ids[n_row] = ask->tokens[pos];
        b->before[n_row] = ask->seq->hidden;
        b->out_rows[n_row] = n_row;
        b->of[n_row++] = ask;
    }
    return n_row;
}

static bool run_rows(kt__draft_block *b, int n_row, int n_head_rows) {
    const kt__batch batch = {.n_tok = n_row,
                             .ids = b->ids,
                             .segs = b->segs,
                             .n_seg = n_row,
                             .out_rows = b->out_rows,
                             .n_out = n_row,
                             .before = b->before,
                             .mtp = !b->own,
                             .n_head_rows = n_head_rows};
    kt__batch_run run = {
        .fwd = b->fwd, .batch = &batch, .decode = true, .n_tok = n_row, .until_us = INT64_MAX};
    bool done;
    kt_error err;
    return kt__engine_run_batch(b->engine, &run, &done, &err) == KT_OK;
}

/* The most likely tokens, which the next rows continue from; false: there is none. */
static bool take_rows(kt__draft_block *b, int n_row, int n_head_rows) {
    const kt_engine *engine = b->engine;
    int n_id = n_head_rows > 0 ? n_head_rows : (int)kt__engine_n_vocab(engine);
    bool finite = true;
    for (int i = 0; i < n_row && finite; i++) {
        kt__draft_ask *ask = b->of[i];
        int32_t id = engine->model->ctx->kernels->argmax(kt__fwd_logits(b->fwd, i), n_id, &finite);
        if (!finite) break;
        b->ids[i] = ask->ids[ask->n++] = id;
        b->before[i] = kt__fwd_hidden(b->fwd, i);
        if (!b->own) b->segs[i].pos0++;
    }
    return finite;
}

int kt__draft_block_propose(kt__draft_block *b, kt__draft_ask *asks, int n, int k) {
    int steps = 0, n_row = list_ready(b, asks, n, k);
    for (int i = 0; i < n_row; i++) count_tokens(b, b->of[i]);
    int n_id = kt__common_tokens_rows(&b->common, (int)kt__engine_n_vocab(b->engine), b->rest,
                                      b->head);
    while (n_row > 0 && steps < k && run_rows(b, n_row, n_id) && take_rows(b, n_row, n_id)) steps++;
    for (int i = 0; i < n_row; i++) b->of[i]->n = steps;
    return steps;
}
