/* What a user said, and the versions that follow from it: kt_learner of kentang.h over a store
 * (feedback/store.h).
 *
 * The store has everything that counts; a version's recall is what its feedbacks add, one after the
 * other, and the same whether it was made step by step or read again. */
#include <math.h>
#include <string.h>

#include "bank/bank.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "context/adapter.h"
#include "tutor/instant_loop.h"
#include "tutor/kept_lesson.h"
#include "tutor/served.h"

enum { KEYS_FILE_MAX = 512 << 20 };
static const float QUALITY_THRESHOLD = 0.5f;

/* ---- versions ---- */

static kt_learned hold_learned(const kt_learned *of) {
    kt_learned held = *of;
    kt_recall_hold(held.recall);
    kt_bank_hold(held.bank);
    kt_adapter_hold(held.adapter);
    kt_adapter_hold(held.instant);
    return held;
}

void kt_learned_close(kt_learned *learned) {
    kt_recall_close(learned->recall);
    kt_adapter_close(learned->adapter);
    kt_adapter_close(learned->instant);
    kt_bank_close(learned->bank);
    *learned = (kt_learned){0};
}

/* A correction becomes an entry of the bank; nothing else does. */
static kt_status bank_feedback(kt_bank *bank, const kt__feedback_item *item, uint64_t id,
                               kt_error *err) {
    const kt__bank_entry entry = {id, item->question, item->n_question, item->text, item->n_text};
    return item->kind == KT__FEEDBACK_SCORE ? KT_OK : kt__bank_add(bank, &entry, err);
}

/* A correction of what is known to have been asked: it is recalled where it opens. */
static bool is_entry(const kt__feedback_item *item) {
    return item->kind != KT__FEEDBACK_SCORE && item->question;
}

/* Recall and bank with one feedback more; the recall is replaced. Its keys are those of the version's adapter,
 * where they were computed with it, else its own. */
static kt_status learn_feedback(kt_learner *l, uint64_t id, const kt__taught_keys *keys,
                                kt_learned *learned, kt__buf *buf, kt_error *err) {
    kt__feedback_item item;
    kt_recall *next;
    KT__STEP(kt__feedback_get(l->store, id, &item, buf, err));
    const kt__taught_key *known = kt__taught_keys_find(keys, id);
    bool fits = known && known->n == item.keys.n;
    const kt_recall_pairs pairs = {.keys = fits ? known->keys : item.keys.keys,
                                   .ids = item.keys.ids,
                                   .n = item.keys.n,
                                   .source = id,
                                   .scoped = is_entry(&item)};
    KT__STEP(kt_recall_add(learned->recall, &pairs, &next, err));
    kt_recall_close(learned->recall);
    learned->recall = next;
    return bank_feedback(learned->bank, &item, id, err);
}

kt_status kt__learned_build(kt_learner *l, uint32_t version, const kt__taught_keys *keys,
                            kt_learned *out, kt_error *err) {
    kt_status status;
    uint64_t *ids = NULL;
    size_t n;
    kt__buf buf;
    kt__buf_init(&buf, (size_t)64 << 20);
    KT__TRY(kt__feedback_chain(l->store, version, &ids, &n, err));
    KT__TRY(kt__bank_open(&out->bank, err));
    if (n > 0) KT__TRY(kt_recall_open(l->engine->model, &l->params.recall, &out->recall, err));
    for (size_t i = 0; i < n; i++) KT__TRY(learn_feedback(l, ids[i], keys, out, &buf, err));
out:
    kt__buf_free(&buf);
    kt__free(ids);
    return status;
}

/* The keys that were computed with a published adapter; a table that is damaged is none. */
static void read_taught_keys(kt_learner *l, uint32_t number, kt__taught_keys *out) {
    char path[KT__FILES_PATH_MAX];
    size_t d = (size_t)kt__engine_hparams(l->engine)->d_model;
    kt_error err;
    kt__buf buf;
    if (kt__feedback_adapter_path(l->store, number, KT__VERSION_KEYS, path, sizeof path, &err) !=
        KT_OK)
        return;
    kt__buf_init(&buf, KEYS_FILE_MAX);
    kt_status status = kt__files_read(path, &buf, &err);
    bool absent = status == KT_E_IO && err.offset == 0;
    if (status != KT_OK ? !absent : !kt__taught_keys_read(out, d, buf.data, buf.len))
        kt__log_line(&l->engine->model->ctx->log, KT_LOG_WARN,
                     "%s cannot be used: what was corrected before version %u is recalled less "
                     "surely",
                     path, number);
    kt__buf_free(&buf);
}

static kt_status build_version(kt_learner *l, uint32_t version, kt__loop *loop, kt_learned *out,
                               kt_error *err) {
    char path[4096];
    uint32_t number = kt__feedback_adapter(l->store, version, NULL);
    kt__taught_keys keys = {0};
    *out = (kt_learned){.version = version};
    kt_status status;
    if (number) read_taught_keys(l, number, &keys);
    KT__TRY(kt__learned_build(l, version, &keys, out, err));
    if (number) {
        KT__TRY(kt__feedback_adapter_path(l->store, number, KT__VERSION_ADAPTER, path, sizeof path,
                                          err));
        KT__TRY(kt_adapter_open(l->engine->model, path, &out->adapter, err));
    }
    KT__TRY(kt__loop_build(l, version, loop, out, err));
out:
    kt__taught_keys_free(&keys);
    if (status != KT_OK) kt_learned_close(out);
    return status;
}

static void serve_learned(kt_learner *l, kt_learned next) {
    pthread_mutex_lock(&l->lock);
    kt_learned before = l->served;
    l->served = next;
    l->n_instant = l->loop.of ? kt__instant_n_step(l->loop.of) : 0;
    l->instant_us = l->loop.last_us;
    l->instant_scoped = l->n_instant > 0 && l->loop.scoped;
    pthread_mutex_unlock(&l->lock);
    kt_learned_close(&before);
}

kt_status kt__learned_serve(kt_learner *l, kt_error *err) {
    kt__feedback_info info;
    kt_learned next;
    kt__loop loop;
    kt__feedback_get_info(l->store, &info);
    kt_status status = build_version(l, info.version, &loop, &next, err);
    if (status != KT_OK) return status;
    loop.last_us = l->loop.last_us;
    kt__loop_close(&l->loop);
    l->loop = loop;
    if (next.recall && l->served.recall) kt_recall_keep_uses(next.recall, l->served.recall);
    serve_learned(l, next);
    return KT_OK;
}

kt_status kt_learner_get(kt_learner *l, int64_t version, kt_learned *out, kt_error *err) {
    *out = (kt_learned){0};
    kt__error_clear(err);
    pthread_mutex_lock(&l->lock);
    bool served = version == KT_VERSION_SERVED || version == l->served.version;
    if (served) *out = hold_learned(&l->served);
    pthread_mutex_unlock(&l->lock);
    if (served) return KT_OK;
    if (version < 0 || version > UINT32_MAX)
        return kt__fail_at(err, KT_E_ARG, "version", UINT64_MAX, "there is no version %lld",
                           (long long)version);
    kt__loop loop;
    kt_status status = build_version(l, (uint32_t)version, &loop, out, err);
    if (status == KT_OK) kt__loop_close(&loop);
    return status;
}

/* ---- life ---- */

/* What a crash cut off was acknowledged to nobody; all else is said. */
static void tell_damage(const kt_learner *l) {
    kt__feedback_info info;
    kt__feedback_get_info(l->store, &info);
    if (!info.damaged) return;
    kt__log_line(&l->engine->model->ctx->log, KT_LOG_WARN,
                 "%s/journal is damaged from byte %llu on: %llu bytes are no feedback and are kept "
                 "in journal.damaged; feedback that was acknowledged after number %llu is lost",
                 l->dir, (unsigned long long)info.cut_at, (unsigned long long)info.n_cut,
                 (unsigned long long)info.last_id);
}

static kt_status open_store(kt_learner *l, kt_error *err) {
    const kt_model *model = l->engine->model;
    kt__feedback_params p = {.dir = l->params.dir,
                             .d_model = (uint32_t)model->net->hp.d_model,
                             .n_vocab = (uint32_t)model->net->hp.n_vocab,
                             .max_entries = l->params.max_entries,
                             .max_bytes = l->params.max_bytes,
                             .read_only = l->params.read_only};
    KT__STEP(kt_model_fingerprint(model, p.base, err));
    KT__STEP(kt__feedback_open(&p, &l->store, err));
    tell_damage(l);
    return KT_OK;
}

kt_status kt_learner_open(kt_engine *engine, const kt_learner_params *params, kt_learner **out,
                          kt_error *err) {
    kt_recall *probe;
    *out = NULL;
    kt__error_clear(err);
    if (!params->dir) return kt__fail(err, KT_E_ARG, "a learner needs a folder");
    kt_status status = kt_recall_open(engine->model, &params->recall, &probe, err);
    if (status != KT_OK) return status; /* its numbers are out of range */
    kt_recall_close(probe);
    kt_learner *l = kt__calloc(1, sizeof *l);
    if (!l) return kt__fail_nomem(err, "a learner", sizeof *l);
    l->engine = engine;
    l->params = *params;
    l->params.dir = l->dir = kt__strdup(params->dir);
    if (l->params.quality_threshold == 0) l->params.quality_threshold = QUALITY_THRESHOLD;
    pthread_mutex_init(&l->changing, NULL);
    pthread_mutex_init(&l->training, NULL);
    pthread_mutex_init(&l->lock, NULL);
    status = l->dir ? open_store(l, err) : kt__fail_nomem(err, "a path", strlen(params->dir));
    if (status != KT_OK) goto out;
    KT__TRY(kt__learned_serve(l, err));
    *out = l;
    l = NULL;
out:
    kt_learner_close(l);
    return status;
}

static void free_learner(kt_learner *l) {
    kt__loop_close(&l->loop);
    kt_learned_close(&l->served);
    pthread_mutex_destroy(&l->changing);
    pthread_mutex_destroy(&l->training);
    pthread_mutex_destroy(&l->lock);
    kt__free(l->dir);
    kt__free(l);
}

void kt_learner_close(kt_learner *l) {
    if (!l) return;
    kt__feedback_close(l->store);
    free_learner(l);
}

kt_status kt_learner_erase(kt_learner *l, kt_error *err) {
    kt__error_clear(err);
    kt_status status = kt__feedback_erase(l->store, err);
    free_learner(l);
    return status;
}

/* What is pending, the training that runs, and the instant loop. */
static void count_pending(kt_learner *l, uint64_t published, kt_learner_info *out) {
    pthread_mutex_lock(&l->lock);
    uint64_t tried = l->tried > published ? l->tried : published, deep = l->tried_deep;
    out->stage = l->stage;
    out->stage_done = l->stage_done;
    out->stage_total = l->stage_total;
    out->n_instant = l->n_instant;
    out->instant_us = l->instant_us;
    out->instant_scoped = l->instant_scoped;
    pthread_mutex_unlock(&l->lock);
    out->n_pending = kt__feedback_amount_after(l->store, tried).n;
    out->pending_deep = kt__feedback_amount_after(l->store, deep).said;
}

void kt_learner_get_info(kt_learner *l, kt_learner_info *out) {
    kt__feedback_info info;
    kt_learned served;
    kt_adapter_info adapter;
    kt_error ignored;
    kt__feedback_get_info(l->store, &info);
    *out = (kt_learner_info){.n_feedback = info.n_entries,
                             .n_scores = info.n_scores,
                             .n_corrections = info.n_corrections + info.n_pairs,
                             .n_deleted = info.n_deleted,
                             .bytes = info.bytes,
                             .version = info.version,
                             .last_version = info.last,
                             .adapter = info.adapter,
                             .quality_delta = info.quality,
                             .frozen = info.frozen};
    count_pending(l, info.adapter_id, out);
    if (kt_learner_get(l, KT_VERSION_SERVED, &served, &ignored) != KT_OK) return;
    if (served.recall) kt_recall_get_info(served.recall, &out->recall);
    if (served.adapter) kt_adapter_get_info(served.adapter, &adapter);
    out->deep = served.adapter && !adapter.keeps_kv;
    out->scoped = served.adapter && adapter.scoped;
    kt_learned_close(&served);
}

/* ---- feedback ---- */

/* A feedback on its way: what the store takes, and the memory of it. */
typedef struct taught {
    kt__feedback_item item;
    int32_t *ids; /* prompt and right answer, where it was corrected */
    int8_t *keys;
} taught;

static void free_taught(taught *t) {
    kt__free(t->ids);
    kt__free(t->keys);
}

/* The token that ends an answer: as the answer itself ended, else the model's. */
static int32_t end_token(const kt_model *model, const kt_kept *kept) {
    int32_t last = kept->n_answer ? kept->answer[kept->n_answer - 1] : -1;
    if (last >= 0 && kt_token_is_eog(model, last)) return last;
    int32_t eos = model->info.eos_id;
    return eos >= 0 && kt_token_is_eog(model, eos) ? eos : -1;
}

/* Prompt, the corrected text's tokens, and the end. */
static kt_status make_right(const kt_learner *l, const kt_feedback_params *p, taught *t,
                            kt_error *err) {
    const kt_model *model = l->engine->model;
    size_t n_prompt = p->kept->n_prompt, cap = p->n_correction + 8, n;
    int32_t end = end_token(model, p->kept);
    t->ids = kt__calloc(n_prompt + cap + 1, sizeof *t->ids);
    if (!t->ids) return kt__fail_nomem(err, "a correction", n_prompt + cap);
    memcpy(t->ids, p->kept->prompt, n_prompt * sizeof *t->ids);
    kt_status status = kt_tokenize(model, p->correction, p->n_correction, 0, t->ids + n_prompt, cap,
                                   &n, err);
    if (status != KT_OK) return status;
    if (end >= 0) t->ids[n_prompt + n++] = end;
    t->item.right = t->ids + n_prompt;
    t->item.n_right = n;
    return KT_OK;
}

/* The states that ids[n_prompt], ... follow, computed with what is served. */
static kt_status compute_keys(kt_learner *l, const int32_t *ids, size_t n_prompt, size_t n,
                              taught *t, kt_error *err) {
    size_t d = (size_t)kt__engine_hparams(l->engine)->d_model;
    kt_learned with;
    t->keys = kt__calloc(n, d);
    if (!t->keys) return kt__fail_nomem(err, "hidden states", n * d);
    kt_status status = kt_learner_get(l, KT_VERSION_SERVED, &with, err);
    if (status != KT_OK) return status;
    /* a correction opens its own question from now on, as a rule */
    bool opens = is_entry(&t->item);
    const kt_adapter_use use = {
        opens ? with.adapter : kt__adapter_for_item(with.adapter, with.bank, &t->item), 1.0f};
    status = kt_recall_keys(l->engine, ids, n_prompt + n - 1, n_prompt - 1, &use,
                            use.adapter ? 1 : 0, t->keys, err);
    kt_learned_close(&with);
    t->item.keys = (kt__feedback_keys){n, ids + n_prompt, t->keys};
    return status;
}

static kt_status teach_correction(kt_learner *l, const kt_feedback_params *p, taught *t,
                                  kt_error *err) {
    kt_status status = make_right(l, p, t, err);
    if (status != KT_OK) return status;
    t->item.kind = KT__FEEDBACK_CORRECTION;
    t->item.text = p->correction;
    t->item.n_text = p->n_correction;
    return compute_keys(l, t->ids, p->kept->n_prompt, t->item.n_right, t, err);
}

/* An answer that was found good is recalled as it was drawn. */
static kt_status teach_score(kt_learner *l, const kt_feedback_params *p, taught *t, kt_error *err) {
    const kt_kept *kept = p->kept;
    t->item.kind = KT__FEEDBACK_SCORE;
    t->item.score = p->score;
    t->item.text = "";
    if (p->score < l->params.quality_threshold || !kept->n_answer) return KT_OK;
    t->item.keys = (kt__feedback_keys){kept->n_keys, kept->answer, kept->keys};
    if (kept->keys) return KT_OK;
    t->ids = kt__calloc(kept->n_prompt + kept->n_answer, sizeof *t->ids);
    if (!t->ids) return kt__fail_nomem(err, "an answer", kept->n_answer);
    memcpy(t->ids, kept->prompt, kept->n_prompt * sizeof *t->ids);
    memcpy(t->ids + kept->n_prompt, kept->answer, kept->n_answer * sizeof *t->ids);
    return compute_keys(l, t->ids, kept->n_prompt, kept->n_answer, t, err);
}

static bool is_utf8(const char *s, size_t len) {
    uint32_t cp;
    for (size_t at = 0, n; at < len; at += n) {
        n = kt__utf8_decode(s + at, len - at, &cp);
        if (n == 0) return false;
    }
    return true;
}

static kt_status check_feedback(const kt_feedback_params *p, kt_error *err) {
    if (!p->kept || p->kept->n_prompt == 0)
        return kt__fail(err, KT_E_ARG, "a feedback is of an answer to a prompt");
    if (!p->correction && !(p->score >= 0 && p->score <= 1))
        return kt__fail_at(err, KT_E_ARG, "score", UINT64_MAX, "score: expected 0 to 1");
    if (p->kept->question && !is_utf8(p->kept->question, p->kept->n_question))
        return kt__fail_at(err, KT_E_ARG, "question", UINT64_MAX, "question: it is not UTF-8");
    if (!p->correction) return KT_OK;
    if (p->n_correction > KT_CORRECTION_MAX)
        return kt__fail_at(err, KT_E_LIMIT, "correction", UINT64_MAX,
                           "correction: %zu bytes, at most %d are taken", p->n_correction,
                           KT_CORRECTION_MAX);
    if (p->n_correction == 0)
        return kt__fail_at(err, KT_E_ARG, "correction", UINT64_MAX, "correction: it is empty");
    if (!is_utf8(p->correction, p->n_correction))
        return kt__fail_at(err, KT_E_ARG, "correction", UINT64_MAX, "correction: it is not UTF-8");
    return KT_OK;
}

/* It is acknowledged already: what the bank cannot hold is there again when the learner is opened. */
static void enter_bank(kt_learner *l, const kt__feedback_item *item, uint64_t id) {
    kt_error err;
    if (bank_feedback(l->served.bank, item, id, &err) != KT_OK)
        kt__log_line(&l->engine->model->ctx->log, KT_LOG_WARN,
                     "feedback %llu enters no prompt until this starts again: %s",
                     (unsigned long long)id, err.message);
}

/* What is served with a feedback more. With `changing`; before the store has it, so that an error
 * leaves nothing after: its id is known by then. */
static kt_status add_to_served(kt_learner *l, const taught *t, kt_feedback_result *out,
                               kt_error *err) {
    uint32_t version;
    kt_recall *base = NULL, *recall = NULL;
    kt_status status;
    if (t->item.keys.n > 0 && !l->served.recall)
        KT__TRY(kt_recall_open(l->engine->model, &l->params.recall, &base, err));
    const kt_recall_pairs pairs = {.keys = t->item.keys.keys,
                                   .ids = t->item.keys.ids,
                                   .n = t->item.keys.n,
                                   .source = kt__feedback_next_id(l->store),
                                   .scoped = is_entry(&t->item)};
    if (pairs.n > 0) KT__TRY(kt_recall_add(base ? base : l->served.recall, &pairs, &recall, err));
    KT__TRY(kt__feedback_add(l->store, &t->item, &out->id, &version, err));
    kt_learned next = hold_learned(&l->served);
    next.version = out->version = version;
    if (recall) {
        kt_recall_close(next.recall);
        next.recall = kt_recall_hold(recall);
    }
    enter_bank(l, &t->item, out->id);
    int before = l->loop.of ? kt__instant_n_step(l->loop.of) : 0;
    kt__loop_learn(l, &t->item, out->id, &next);
    if (l->loop.of && kt__instant_n_step(l->loop.of) > before) out->instant_us = l->loop.last_us;
    serve_learned(l, next);
    out->n_pairs = (int32_t)pairs.n;
out:
    kt_recall_close(base);
    kt_recall_close(recall);
    return status;
}

/* Those that the new word of a client on an answer replaces go, then what is left is served. With
 * `changing`. */
static kt_status drop_replaced(kt_learner *l, const uint64_t *ids, size_t n, kt_error *err) {
    if (n > 0) kt__lesson_drop_kept(l->dir);
    for (size_t i = 0; i < n; i++) KT__STEP(kt__feedback_delete(l->store, ids[i], err));
    return n > 0 ? kt__learned_serve(l, err) : KT_OK;
}

/* The last word on an answer counts, and counts once: it is added first, so that a crash leaves both,
 * but where a quota is full. With `changing`. */
static kt_status take_word(kt_learner *l, const taught *t, kt_feedback_result *out, kt_error *err) {
    uint64_t *ids = NULL;
    size_t n;
    bool same;
    kt_status status;
    KT__TRY(kt__feedback_replaced(l->store, &t->item, l->params.quality_threshold, &ids, &n, &same,
                                  err));
    if (same && n > 0) { /* nothing new */
        out->id = ids[n - 1];
        out->version = l->served.version;
        goto out;
    }
    status = add_to_served(l, t, out, err);
    if (status == KT_E_LIMIT && n > 0) {
        KT__TRY(drop_replaced(l, ids, n, err));
        n = 0;
        status = add_to_served(l, t, out, err);
    }
    if (status == KT_OK) status = drop_replaced(l, ids, n, err);
    out->version = l->served.version;
out:
    kt__free(ids);
    return status;
}

kt_status kt_feedback(kt_learner *l, const kt_feedback_params *p, kt_feedback_result *out,
                      kt_error *err) {
    taught t = {.item = {.about = p->about ? p->about : ""}};
    *out = (kt_feedback_result){0};
    kt__error_clear(err);
    kt_status status = check_feedback(p, err);
    if (status != KT_OK) return status;
    t.item.prompt = p->kept->prompt;
    t.item.n_prompt = p->kept->n_prompt;
    t.item.answer = p->kept->answer;
    t.item.n_answer = p->kept->n_answer;
    t.item.question = p->kept->question;
    t.item.n_question = p->kept->n_question;
    int64_t begin_us = kt__now_us();
    if (p->correction)
        status = teach_correction(l, p, &t, err);
    else
        status = teach_score(l, p, &t, err);
    out->keys_us = kt__now_us() - begin_us;
    if (status == KT_OK) {
        pthread_mutex_lock(&l->changing);
        status = take_word(l, &t, out, err);
        pthread_mutex_unlock(&l->changing);
    }
    out->update_us = kt__now_us() - begin_us - out->keys_us;
    free_taught(&t);
    return status;
}

/* ---- changes ---- */

static kt_status after_change(kt_learner *l, kt_status status, kt_error *err) {
    if (status == KT_OK) status = kt__learned_serve(l, err);
    pthread_mutex_unlock(&l->changing);
    return status;
}

kt_status kt_learner_rollback(kt_learner *l, int64_t version, kt_error *err) {
    kt__error_clear(err);
    if (version < 0 || version > UINT32_MAX)
        return kt__fail_at(err, KT_E_ARG, "version", UINT64_MAX, "there is no version %lld",
                           (long long)version);
    pthread_mutex_lock(&l->changing);
    return after_change(l, kt__feedback_rollback(l->store, (uint32_t)version, err), err);
}

kt_status kt_learner_forget(kt_learner *l, uint64_t id, kt_error *err) {
    kt__error_clear(err);
    pthread_mutex_lock(&l->changing);
    kt__lesson_drop_kept(l->dir);
    return after_change(l, kt__feedback_delete(l->store, id, err), err);
}

kt_status kt_learner_freeze(kt_learner *l, bool frozen, kt_error *err) {
    kt__error_clear(err);
    return kt__feedback_freeze(l->store, frozen, err);
}

kt_status kt_learner_versions(kt_learner *l, kt_learned_version **versions, size_t *n,
                              kt_error *err) {
    kt__feedback_version *of;
    kt__error_clear(err);
    *versions = NULL;
    kt_status status = kt__feedback_versions(l->store, &of, n, err);
    if (status != KT_OK) return status;
    *versions = kt__calloc(*n + 1, sizeof **versions);
    if (!*versions) status = kt__fail_nomem(err, "a list of versions", *n * sizeof **versions);
    for (size_t i = 0; status == KT_OK && i < *n; i++)
        (*versions)[i] = (kt_learned_version){of[i].number,  of[i].parent,  of[i].feedback,
                                              of[i].quality, of[i].time_us, of[i].withdrawn};
    kt__free(of);
    return status;
}

/* The answer that feedback `id` is about, with the correction; ids point into buf. */
static kt_status correct_again(kt_learner *l, uint64_t id, const char *correction, size_t n,
                               kt__buf *buf, kt_feedback_result *out, kt_error *err) {
    kt__feedback_item item;
    KT__STEP(kt__feedback_get(l->store, id, &item, buf, err));
    if (item.kind == KT__FEEDBACK_SCORE)
        return kt__fail_at(err, KT_E_ARG, "id", UINT64_MAX, "feedback %llu is no correction",
                           (unsigned long long)id);
    const kt_kept kept = {.prompt = item.prompt,
                          .n_prompt = item.n_prompt,
                          .answer = item.answer,
                          .n_answer = item.n_answer,
                          .question = item.question,
                          .n_question = item.n_question};
    const kt_feedback_params params = {
        .kept = &kept, .about = item.about, .correction = correction, .n_correction = n};
    return kt_feedback(l, &params, out, err);
}

kt_status kt_learner_edit(kt_learner *l, uint64_t id, const char *correction, size_t n_correction,
                          kt_feedback_result *out, kt_error *err) {
    kt__buf buf;
    *out = (kt_feedback_result){0};
    kt__error_clear(err);
    kt__buf_init(&buf, (size_t)64 << 20);
    kt_status status = correct_again(l, id, correction, n_correction, &buf, out, err);
    /* one about an answer without an id is not replaced by the next about it */
    if (status == KT_OK && kt__feedback_has(l->store, id)) status = kt_learner_forget(l, id, err);
    kt__buf_free(&buf);
    return status;
}
