#include "requests/request.h"

#include <math.h>
#include <string.h>

#include "answer/answer.h"
#include "answer/recall.h"
#include "base/clock.h"
#include "base/error.h"
#include "requests/inbox.h"
#include "requests/seq.h"

/* ---- why its prompt was not found as a whole ---- */

/* Text of ids[n], cut at a whole character. */
static void text_of_ids(const kt_model *model, const int32_t *ids, size_t n, char *out,
                        size_t size) {
    char text[256];
    size_t len = 0, keep;
    if (n > 8) n = 8;
    kt_status status = kt_detokenize(model, ids, n, KT_TOK_RENDER_SPECIAL, text, sizeof text, &len,
                                     NULL);
    if (status != KT_OK && status != KT_E_LIMIT) len = 0;
    keep = len < size - 1 ? len : size - 1;
    while (keep > 0 && keep < len && ((unsigned char)text[keep] & 0xc0) == 0x80) keep--;
    memcpy(out, text, keep);
    out[keep] = '\0';
}

/* The message in which the prompt's byte `at` lies: contents are looked for in order. */
static int32_t message_at(const kt__submitted *sub, const char *prompt, size_t len, size_t at) {
    const char *text = sub->texts;
    size_t from = 0;
    int32_t found = -1;
    for (int32_t i = 0; text && i < sub->n_texts; i++, text += strlen(text) + 1) {
        size_t n = strlen(text);
        const char *where = n ? memmem(prompt + from, len - from, text, n) : NULL;
        if (!where) continue;
        size_t begin = (size_t)(where - prompt);
        if (begin > at) break;
        found = i;
        from = begin + n;
    }
    return found;
}

static int32_t find_message(const kt__choice *c, int32_t at) {
    kt__buf text;
    const kt_model *model = c->sub->req.engine->model;
    const int32_t *tokens = c->work.state->tokens;
    int32_t message = -1;
    if (!c->sub->texts || !model->tok) return -1;
    kt__buf_init(&text, (size_t)64 << 20);
    size_t upto = 0;
    kt_status status = kt__tokenizer_decode(model->tok, tokens, (size_t)at, KT_TOK_RENDER_SPECIAL,
                                            &text, NULL);
    upto = text.len;
    if (status == KT_OK)
        status = kt__tokenizer_decode(model->tok, tokens + at, (size_t)(c->sub->n_text - at),
                                      KT_TOK_RENDER_SPECIAL, &text, NULL);
    if (status == KT_OK && text.data) message = message_at(c->sub, text.data, text.len, upto);
    kt__buf_free(&text);
    return message;
}

static void explain_miss(kt__choice *choice, double prefill_us_tok) {
    kt_engine *engine = choice->sub->req.engine;
    kt_cache_miss *out = &choice->report.miss;
    kt__prefix_miss miss;
    const int32_t *tokens = choice->work.state->tokens;
    size_t n = (size_t)choice->sub->n_text;
    *out = (kt_cache_miss){.message = -1};
    kt__prefix_explain(engine->prefix, &choice->work.cursor, tokens, n, &miss);
    if (!miss.known) return;
    out->known = true;
    out->at = (int32_t)miss.at;
    out->n_lost = (int32_t)miss.n_lost;
    out->cost_us = (int64_t)((double)miss.n_lost * prefill_us_tok);
    out->message = find_message(choice, out->at);
    if (!engine->model->tok) return;
    text_of_ids(engine->model, miss.was, (size_t)miss.n_was, out->was, sizeof out->was);
    if (!miss.evicted)
        text_of_ids(engine->model, tokens + miss.at, n - (size_t)miss.at, out->is, sizeof out->is);
}

/* ---- the beginning ---- */

static void say_started(kt__choice *c) {
    kt__submitted *sub = c->sub;
    if (sub->started) return;
    sub->started = true;
    kt__inbox_note_started(sub->req.engine->inbox);
    kt_event event = {.kind = KT_EVENT_STARTED, .id = -1};
    kt__events_emit(c, &event);
}

static void choice_started(kt__work *w) {
    kt__choice *c = kt__choice_of(w);
    kt__proposals_init(w->engine->speculator, &c->proposals);
    if (c->sub->seq) kt__seq_set_end(c->sub->seq, (size_t)c->sub->n_kept);
    say_started(c);
}

static void choice_looked_up(kt__work *w) {
    kt__choice *c = kt__choice_of(w);
    if (c->index == 0) explain_miss(c, kt__inbox_prefill_us_tok(w->engine->inbox));
}

/* Once for each number of tokens: what is computed again after it was suspended was reported. */
static void choice_progressed(kt__work *w) {
    kt__choice *c = kt__choice_of(w);
    const kt__submitted *sub = c->sub;
    int32_t n = w->task.n_done < sub->n_text ? w->task.n_done : sub->n_text;
    if (!sub->progress || c->index > 0 || n <= c->n_reported || w->n_dropped) return;
    c->n_reported = n;
    kt_event event = {.kind = KT_EVENT_PROGRESS,
                      .id = -1,
                      .n_prompt = (size_t)(sub->n_text - w->n_base),
                      .n_cached = (size_t)w->n_cached,
                      .n_computed = (size_t)(n > w->n_base ? n - w->n_base : 0),
                      .prefill_us = w->task.us[KT__ACCOUNT_PREFILL]};
    kt__events_emit(c, &event);
}

/* ---- tokens ---- */

static void emit_token(kt__choice *c, int32_t id, const float *logits) {
    const kt__submitted *sub = c->sub;
    kt_logprob own[KT_LOGPROBS_MAX + 1];
    int n = sub->n_logprobs;
    if (sub->post_sampling) {
        kt__answer_probs(&c->answer, id, own, n);
    } else if (n >= 0) {
        kt__logprobs(logits, (int32_t)kt__engine_n_vocab(c->work.engine), id, own, n);
    }
    kt__events_emit_text(c, id, n >= 0 ? own : NULL, n);
}

/* Prompt and answer fill the context: half of what may go leaves it, or the answer ends. */
static void fill_context(kt__work *w) {
    int32_t n_left = w->task.n_tok - w->n_keep;
    if (w->n_keep >= 0 && n_left > 2)
        w->n_drop = n_left / 2;
    else
        w->task.finish = KT_FINISH_CONTEXT;
}

/* A token that was drawn: its text is out; what follows from it. */
static void append_token(kt__choice *c, int32_t id, const float *logits, int32_t n_pos) {
    kt__work *w = &c->work;
    kt__task *task = &w->task;
    w->engine->counts.n_generated++;
    if (c->report.first_token_us == 0)
        c->report.first_token_us = kt__now_us() - c->sub->submitted_us;
    emit_token(c, id, logits);
    if (task->n_tok < w->cap) w->state->tokens[task->n_tok++] = id;
    if (task->finish == KT_FINISH_NONE) task->finish = c->answer.finish;
    if (task->finish != KT_FINISH_NONE) return;
    if (n_pos + 1 >= w->engine->params.n_ctx) fill_context(w);
    /* by the event: what was proposed after this token is not wanted */
    if (atomic_load_explicit(task->cancel, memory_order_relaxed))
        task->finish = KT_FINISH_CANCELLED;
}

/* A row before the last: what it says of the prompt's next token. Rows that are computed again
 * after the task was suspended say the same again; those of the answer's own tokens were
 * reported. */
static void note_prompt_row(kt__choice *c, const float *logits, int32_t n_pos) {
    const kt__submitted *sub = c->sub;
    int n = sub->n_logprobs;
    if (n_pos >= sub->n_text || c->work.n_dropped) return;
    kt_logprob *out = sub->prompt + (size_t)n_pos * ((size_t)n + 1);
    kt__logprobs(logits, (int32_t)kt__engine_n_vocab(c->work.engine), out[0].id, out, n);
}

/* What was taught of this state changes its logits, for as long as they are looked at. */
static kt__recall_change recall_row(kt__choice *c, const kt__row *row) {
    const kt__recall_change none = {.id = -1};
    if (!c->key || !row->hidden) return none;
    kt__recall_key(row->hidden, kt__engine_hparams(c->work.engine)->d_model, c->key);
    return c->sub->recall ? kt__recall_mix(c->sub->recall, &c->sub->scope, c->key, row->logits)
                          : none;
}

/* As long as the answer has been what is to be recited, its next token is next to certain. */
static kt__recall_change recite_next(kt__choice *c, const kt__row *row, size_t n_said) {
    const kt__submitted *sub = c->sub;
    const int32_t *said = c->work.state->tokens + sub->n_text;
    if (n_said >= sub->n_recited || memcmp(said, sub->recited, n_said * sizeof *said) != 0)
        return (kt__recall_change){.id = -1};
    return kt__recall_certain(sub->recited[n_said], (int32_t)kt__engine_n_vocab(c->work.engine),
                              row->logits);
}

/* An answer that begins as a note's correction does has its words: small models copy the first half of a long one and
 * end another. */
static kt__recall_change end_noted_word(kt__choice *c, const kt__row *row, size_t n_said) {
    const kt__submitted *sub = c->sub;
    kt__recall_change next = {.id = -1};
    for (int32_t i = 0; i < sub->n_noted && next.id < 0; i++)
        next = kt__recall_end_word(sub->recall, c->report.learned[i],
                                   c->work.state->tokens + sub->n_text, n_said, row->logits);
    return next;
}

/* The answer to a question that was corrected in these words is found by its text, else by the state. */
static kt__recall_change recall_next(kt__choice *c, const kt__row *row) {
    const kt__submitted *sub = c->sub;
    size_t n_said = (size_t)(c->work.task.n_tok - sub->n_text);
    kt__recall_change change = recall_row(c, row);
    if (c->work.n_dropped || (!sub->recited && !sub->recall)) return change;
    if (!sub->recited && !sub->asked)
        return change.id >= 0 ? change : end_noted_word(c, row, n_said);
    kt__recall_undo(change, row->logits);
    if (sub->recited) return recite_next(c, row, n_said);
    const int32_t *said = c->work.state->tokens + sub->n_text;
    kt__recall_change next = kt__recall_continue(sub->recall, sub->asked, said, n_said,
                                                 row->logits);
    return next.id >= 0 ? next : recall_row(c, row);
}

/* A token of the answer is one that was taught. */
static void add_learned(kt_request_report *r, uint64_t source) {
    int32_t i = 0;
    while (i < r->n_learned && r->learned[i] != source) i++;
    if (i == r->n_learned && i < KT_NOTES_MAX) r->learned[r->n_learned++] = source;
}

static void note_recited(kt__choice *c, uint64_t source) {
    const kt__submitted *sub = c->sub;
    for (size_t i = 0; i < sub->n_recited_of; i++) add_learned(&c->report, sub->recited_of[i]);
    if (!sub->recited) add_learned(&c->report, source);
}

/* A token is drawn from the state at hand. Without its key, those after it are not kept, either. */
static void keep_key(kt__choice *c, const kt__row *row) {
    size_t d = (size_t)kt__engine_hparams(c->work.engine)->d_model;
    if (!row->hidden || c->work.n_dropped ||
        c->n_kept != (size_t)(c->work.task.n_tok - c->sub->n_text))
        return;
    if (c->n_kept < c->cap_kept) memcpy(c->kept + c->n_kept++ * d, c->key, d);
}

/* Proposes the tokens of what the constraint most likely has next: as the model's own vocabulary cuts that text, since
 * models write the tokens that they were trained on; the longest ones where it puts a blank before every text. */
static void propose_expected(kt__choice *c) {
    kt__held *held = c->answer.held;
    kt__proposals *p = &c->proposals;
    char text[KT__FORCED_MAX * 8];
    size_t n = 0, len = kt__held_expected(held, text, sizeof text);
    p->n_forced = 0;
    if (len == 0) return;
    kt_status status = kt_tokenize(c->work.engine->model, text, len, 0, p->forced, KT__FORCED_MAX,
                                   &n, NULL);
    if (n > KT__FORCED_MAX) n = KT__FORCED_MAX;
    bool cut = status == KT_OK || status == KT_E_LIMIT;
    if (!cut || !kt__held_spells(held, p->forced, n, text, len))
        n = kt__held_cut(held, text, len, p->forced, KT__FORCED_MAX);
    p->n_forced = (int)n;
}

static bool draw_token(kt__choice *c, const kt__row *row, int32_t n_pos, int32_t *id) {
    kt__work *w = &c->work;
    kt__task *task = &w->task;
    const float *logits = row->logits;
    kt_error err;
    if (c->sub->n_predict == 0) { /* the prompt's rows were all that was wanted */
        task->finish = KT_FINISH_LENGTH;
        return false;
    }
    kt__task_charge(task, KT__ACCOUNT_WAIT, kt__now_us());
    int64_t begin_us = task->since_us;
    kt__recall_change change = recall_next(c, row);
    c->n_recalled += change.id >= 0;
    if (c->kept) keep_key(c, row);
    uint64_t n_before = (uint64_t)n_pos + (uint64_t)w->n_dropped;
    kt_status status = kt__answer_sample(&c->answer, logits, n_before, id, &err);
    if (status == KT_OK) status = kt__answer_push(&c->answer, *id, &err);
    if (c->answer.held) propose_expected(c);
    if (status == KT_OK) {
        if (change.id == *id) note_recited(c, change.source);
        append_token(c, *id, logits, n_pos);
    } else {
        task->finish = KT_FINISH_ERROR;
        w->error = err;
    }
    kt__recall_undo(change, row->logits);
    if (task->finish != KT_FINISH_NONE && c->sub->seq)
        kt__seq_keep_logits(c->sub->seq, logits, (size_t)n_pos);
    kt__task_charge(task, KT__ACCOUNT_SAMPLE, kt__now_us());
    w->engine->counts.sample_us += task->since_us - begin_us;
    if (c->answer.held) task->cost_us += task->since_us - begin_us;
    return task->finish == KT_FINISH_NONE && w->n_drop == 0;
}

static bool choice_take_logits(kt__work *w, const kt__row *row, int32_t n_pos, int32_t *id) {
    kt__choice *c = kt__choice_of(w);
    if (n_pos >= w->task.n_tok) return draw_token(c, row, n_pos, id);
    kt__recall_change change = recall_row(c, row);
    note_prompt_row(c, row->logits, n_pos);
    kt__recall_undo(change, row->logits);
    return true;
}

static void choice_take_hidden(kt__work *w, const float *hidden, int32_t position) {
    const kt__submitted *sub = kt__choice_of(w)->sub;
    float *sum = sub->embedding;
    size_t d = (size_t)kt__engine_hparams(w->engine)->d_model, first = sub->keys_first;
    if (position == 0)
        memset(sum, 0, d * sizeof *sum); /* also where it was suspended and begins anew */
    if (sub->keys && (size_t)position >= first)
        kt__recall_key(hidden, (int32_t)d, sub->keys + ((size_t)position - first) * d);
    for (size_t k = 0; k < d; k++) sum[k] += hidden[k];
}

/* ---- the end ---- */

static const char *bottleneck_of(const kt_request_report *r) {
    const struct {
        const char *name;
        int64_t us;
    } parts[] = {{"queue", r->queue_us},     {"tokenize", r->tokenize_us},
                 {"prefill", r->prefill_us}, {"decode", r->decode_us},
                 {"sampling", r->sample_us}, {"other requests", r->wait_us},
                 {"reader", r->held_us}};
    size_t most = 0;
    for (size_t i = 1; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].us > parts[most].us) most = i;
    }
    return parts[most].name;
}

static void fill_report(kt__choice *c) {
    kt_request_report *r = &c->report;
    const kt__task *task = &c->work.task;
    const int64_t *us = task->us;
    r->finish = c->answer.finish;
    r->stop = c->answer.stop;
    r->n_cached = c->work.n_cached;
    r->n_generated = c->answer.n_generated;
    if (c->answer.parts) {
        r->n_reasoning = kt__parts_n_reasoning(c->answer.parts);
        r->n_calls = kt__parts_n_calls(c->answer.parts);
    }
    r->n_preempted = task->n_preempted;
    r->n_recomputed = task->n_recomputed;
    r->n_dropped = c->work.n_dropped;
    r->n_pressed = c->work.n_pressed;
    r->n_drafted = (int32_t)c->proposals.spec.n_drafted;
    r->n_accepted = (int32_t)c->proposals.spec.n_accepted;
    r->tokenize_us = c->sub->tokenize_us;
    r->queue_us = us[KT__ACCOUNT_QUEUE];
    r->prefill_us = us[KT__ACCOUNT_PREFILL];
    r->decode_us = us[KT__ACCOUNT_DECODE];
    r->sample_us = us[KT__ACCOUNT_SAMPLE];
    r->wait_us = us[KT__ACCOUNT_WAIT];
    r->held_us = us[KT__ACCOUNT_HELD];
    r->lora_us = c->work.lora_ns / 1000;
    r->total_us = task->since_us - c->sub->submitted_us; /* to the last charge, so that they sum */
    r->bottleneck = bottleneck_of(r);
}

/* Sums to one in the sense asked for; the order of additions is the rows', whatever the batches. */
static void finish_embedding(kt__submitted *sub) {
    size_t d = (size_t)sub->req.engine->model->net->hp.d_model;
    float *e = sub->embedding;
    if (sub->pooling == KT_POOLING_MEAN) {
        for (size_t i = 0; i < d; i++) e[i] /= (float)sub->n_text;
    }
    const kt__pool_head *head = &sub->req.engine->model->net->pool;
    if (sub->pooling == KT_POOLING_RANK) {
        e[0] = kt__pool_relevance(head, (int)d, e, e + d);
        return;
    }
    kt__pool_project(head, (int)d, e, e + d);
    if (!sub->normalize) return;
    double sum = 0;
    for (size_t i = 0; i < d; i++) sum += (double)e[i] * (double)e[i];
    if (sum <= 0) return;
    double scale = 1.0 / sqrt(sum); /* both correctly rounded */
    for (size_t i = 0; i < d; i++) e[i] = (float)((double)e[i] * scale);
}

/* A sequence whose prompt was not computed to its end is as it was before. */
static void give_back_seq(kt__choice *c) {
    kt__submitted *sub = c->sub;
    int32_t n_done = c->work.task.n_done;
    if (!sub->seq) return;
    kt__seq_give_back(sub->seq, (size_t)(n_done < sub->n_text ? sub->n_kept : n_done));
    atomic_store(&sub->has_seq, false);
}

static bool released_more(const kt__answer *a) {
    size_t n = 0;
    if (a->parts) (void)kt__parts_get(a->parts, &n);
    return n || a->text.len;
}

static void choice_end(kt__work *w) {
    kt__choice *c = kt__choice_of(w);
    kt_event event = {.kind = KT_EVENT_FINISHED};
    if (kt__answer_end(&c->answer, w->task.finish, &w->error) != KT_OK) {
        c->answer.finish = KT_FINISH_ERROR;
    } else if (released_more(&c->answer)) {
        kt__events_emit_text(c, -1, NULL, 0);
    }
    if (w->task.kind == KT__TASK_EMBED && c->answer.finish == KT_FINISH_LENGTH) {
        finish_embedding(c->sub);
        event.embedding = c->sub->embedding;
        event.n_embedding = c->sub->pooling == KT_POOLING_RANK
                                ? 1
                                : (size_t)kt__engine_hparams(w->engine)->d_model;
    }
    if (c->sub->prompt && w->task.n_done >= c->sub->n_text) {
        event.prompt = c->sub->prompt;
        event.n_prompt = (size_t)c->sub->n_text;
    }
    fill_report(c);
    event.finish = c->answer.finish;
    event.report = &c->report;
    event.error = event.finish == KT_FINISH_ERROR ? &w->error : NULL;
    give_back_seq(c);
    kt__events_emit(c, &event);
}

static void give_back_pages(kt__choice *c) {
    if (c->sub->seq) return;
    kt__kv_table_truncate(c->work.engine->kv, &c->own.table, 0);
    kt__speculator_trim(c->work.engine->speculator, &c->own.draft, 0);
}

static void choice_release(kt__work *w) {
    kt__choice *c = kt__choice_of(w);
    kt__submitted *sub = c->sub;
    kt_engine *engine = w->engine;
    give_back_pages(c);
    pthread_mutex_lock(&sub->lock);
    bool over = ++sub->n_released == sub->n_choices, started = sub->started;
    if (over) sub->done = true;
    bool free_now = over && sub->detached;
    pthread_mutex_unlock(&sub->lock);
    if (over) kt__inbox_note_over(engine->inbox, started);
    if (free_now) kt__submitted_free(sub);
}

const kt__work_ops *kt__choice_ops(void) {
    static const kt__work_ops ops = {.started = choice_started,
                                     .looked_up = choice_looked_up,
                                     .progressed = choice_progressed,
                                     .take_logits = choice_take_logits,
                                     .take_hidden = choice_take_hidden,
                                     .end = choice_end,
                                     .release = choice_release};
    return &ops;
}

/* ---- what is kept ---- */

bool kt_request_get_kept(const kt_request *req, int32_t choice, kt_kept *out) {
    kt__submitted *sub = kt__submitted_of((kt_request *)(uintptr_t)req);
    *out = (kt_kept){0};
    if (!sub->keep || choice < 0 || choice >= sub->n_choices) return false;
    const kt__choice *c = &sub->choices[choice];
    pthread_mutex_lock(&sub->lock);
    bool over = c->ended;
    pthread_mutex_unlock(&sub->lock);
    if (!over || !c->work.state->tokens || c->work.n_dropped) return false;
    size_t n_text = (size_t)sub->n_text, n_tok = (size_t)c->work.task.n_tok;
    *out = (kt_kept){.prompt = c->work.state->tokens,
                     .n_prompt = n_text,
                     .answer = c->work.state->tokens + n_text,
                     .n_answer = n_tok > n_text ? n_tok - n_text : 0,
                     .keys = c->kept,
                     .n_keys = c->n_kept,
                     .n_recalled = c->n_recalled,
                     .question = sub->question,
                     .n_question = sub->question ? strlen(sub->question) : 0};
    if (sub->plain) {
        out->prompt = sub->plain;
        out->n_prompt = sub->n_plain;
        out->keys = NULL;
        out->n_keys = 0;
    }
    return true;
}

bool kt_request_get_tokens(const kt_request *req, int32_t choice, const int32_t **ids, size_t *n) {
    kt__submitted *sub = kt__submitted_of((kt_request *)(uintptr_t)req);
    if (choice < 0 || choice >= sub->n_choices) return false;
    const kt__choice *c = &sub->choices[choice];
    pthread_mutex_lock(&sub->lock);
    bool over = c->ended;
    pthread_mutex_unlock(&sub->lock);
    if (!over || !c->work.state->tokens) return false;
    *ids = c->work.state->tokens;
    *n = (size_t)atomic_load(&c->work.n_computed);
    return true;
}
