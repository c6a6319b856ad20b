/* kt_learner_train: a learner's feedback becomes an adapter, aside, and is served where it
 * passes the gate.
 *
 * The samples are the feedbacks of the version that is served, the model's own conversations as
 * replay, and questions close to corrected ones. All is computed on a thread and a pool of its own;
 * what is served changes by one pointer, at the end, if what it was trained from is still there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/thread.h"
#include "context/adapter.h"
#include "feedback/journal.h"
#include "host/affinity.h"
#include "learn/learn.h"
#include "learn/learner.h"
#include "tutor/instant_loop.h"
#include "tutor/kept_lesson.h"
#include "tutor/questions.h"
#include "tutor/served.h"

enum {
    OWN_BY_DEFAULT = 800,
    NEAR_EACH = 2,
    NEAR_MOST = 160,
    SIBLINGS_MOST = 80,
    CONTRASTS_MOST = 160, /* siblings that are trained */
    OWN_PART_SCOPED = 8,  /* one conversation of so many: nothing is trained on them */
    KEPT_TOKENS_SCOPED = 48,
    PASSES_SCOPED = 4,
    STEPS_LEAST = 75,
    WORDINGS = 3, /* of a question, that are trained */
    WORDINGS_SCOPED = 8,
    STACK_BYTES = 4 << 20,
    GROUP_SEED = 0x71, /* of questions: one is never trained and measured as well */
    ITEM_MAX = 64 << 20,
    BUSY_US = 50000, /* answers were computed so lately */
    ASKED_US = 5000, /* and so lately by another than the training itself */
    REST_MOST_US = 2000000
};

typedef struct training_run {
    kt_learner *learner;
    const kt_train_params *p;
    kt__feedback_info info; /* of the store when it began */
    kt__learn_settings settings;
    kt__learn_on on;
    kt__lesson lesson;
    uint64_t *used;  /* [n_used] feedbacks among the samples, */
    uint64_t *chain; /* [n_chain] and those that made the version that was served */
    size_t n_used, n_chain;
    kt_bank *bank;       /* while feedback is added: of what is served */
    kt__pool *pool;      /* its own, in the background, or the context's, locked */
    kt__factors *prior;  /* served, and of the matrices that are trained; or NULL */
    kt__factors *before; /* served, of others; or NULL */
    kt__factors *candidate;
    kt__learn_report report;
    uint64_t charged;
    char state_path[KT__FILES_PATH_MAX];
    int64_t worked_since_us;
    kt_train_result *out;
    kt_status status;
    kt_error *err;
} training_run;

static const uint64_t kept_most = (uint64_t)4
                                  << 30; /* bytes of activations that are kept to save time */

/* ---- giving way ---- */

static bool not_cancelled(const training_run *r) {
    return !r->p->go_on || r->p->go_on(r->p->user);
}

/* Until the answers of now may be over: there is nothing to look at before, but whether it is
 * cancelled. */
static void rest_until(int64_t at_us) {
    const struct timespec at = {.tv_sec = at_us / 1000000,
                                .tv_nsec = (long)(at_us % 1000000) * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) continue;
}

/* While answers are computed, or were lately_us ago, it rests four times as long as it worked. */
static bool give_way(training_run *r, int64_t lately_us) {
    const kt_ctx *ctx = r->learner->engine->model->ctx;
    if (!not_cancelled(r)) return false;
    if (!r->p->background) return true;
    int64_t now_us = kt__now_us(), rest_us = 4 * (now_us - r->worked_since_us), busy_us;
    int64_t end_us = now_us + (rest_us < REST_MOST_US ? rest_us : REST_MOST_US);
    while (now_us < end_us && (busy_us = kt__activity_busy_us(&ctx->activity, lately_us, 0)) > 0) {
        if (!not_cancelled(r)) return false;
        rest_until(now_us + busy_us < end_us ? now_us + busy_us : end_us);
        now_us = kt__now_us();
    }
    r->worked_since_us = now_us;
    return true;
}

/* Asked between layers. */
static bool go_on(void *user) {
    return give_way(user, BUSY_US);
}

/* Asked ahead of each request of its own: they are of the lowest priority, but what is computed together with others
 * makes these wait. */
static bool go_on_asking(void *user) {
    return give_way(user, ASKED_US);
}

/* ---- how far it is ---- */

static void note_stage(const training_run *r, kt_train_stage stage, int done, int total) {
    kt_learner *l = r->learner;
    pthread_mutex_lock(&l->lock);
    l->stage = stage;
    l->stage_done = done;
    l->stage_total = total;
    pthread_mutex_unlock(&l->lock);
}

static int own_of(const training_run *r) {
    return r->p->n_own > 0 ? r->p->n_own : OWN_BY_DEFAULT;
}

/* Of them, those that are written: what is scoped is only measured on them. */
static int replay_of(const training_run *r) {
    int n = own_of(r);
    return r->settings.scoped ? (n + OWN_PART_SCOPED - 1) / OWN_PART_SCOPED : n;
}

static void note_written(void *user, int done) {
    const training_run *r = user;
    note_stage(r, KT_TRAIN_WRITING, done, replay_of(r));
}

static void note_step(void *user, int step, double loss) {
    const training_run *r = user;
    bool last = step == r->settings.n_step;
    (void)loss;
    note_stage(r, last ? KT_TRAIN_JUDGING : KT_TRAIN_STEPS, last ? 0 : step,
               last ? 0 : r->settings.n_step);
}

/* ---- samples ---- */

static int by_id(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* ids ascend */
static bool is_among(const uint64_t *ids, size_t n, uint64_t id) {
    return n > 0 && bsearch(&id, ids, n, sizeof *ids, by_id) != NULL;
}

static kt__sample sample_like(const training_run *r, const kt__feedback_item *item) {
    bool scored = item->kind == KT__FEEDBACK_SCORE;
    bool good = item->score >= r->learner->params.quality_threshold;
    return (kt__sample){
        .kind = !scored ? KT__SAMPLE_CORRECTION
                : good  ? KT__SAMPLE_UP
                        : KT__SAMPLE_DOWN,
        .weight = !scored ? 1.0f
                  : good  ? item->score
                          : 1.0f - item->score,
        .group =
            kt__hash_bytes(GROUP_SEED, item->prompt, item->n_prompt * sizeof *item->prompt).w[0] |
            1ull << 63,
        .earlier = item->id <= r->info.adapter_id};
}

/* Too long a one, and one without an answer, teach nothing. */
static kt_status add_item(training_run *r, const kt__feedback_item *item) {
    bool scored = item->kind == KT__FEEDBACK_SCORE;
    const int32_t *answer = scored ? item->answer : item->right;
    size_t n = scored ? item->n_answer : item->n_right;
    const kt__sample like = sample_like(r, item);
    int most = kt__learn_len_max(r->on.net);
    if (n == 0 || item->n_prompt == 0 || item->n_prompt + n > (size_t)most) return KT_OK;
    kt_status status = kt__lesson_add_tokens(&r->lesson, item->prompt, item->n_prompt, answer, n,
                                             &like, r->err);
    if (status == KT_OK) r->used[r->n_used++] = item->id;
    r->settings.scoped &= kt__item_opens(r->bank, item);
    return status;
}

/* Those that are part of what is served, and those that were only noted. */
static kt_status add_feedback(training_run *r) {
    kt_status status;
    kt__feedback *store = r->learner->store;
    kt__feedback_item item;
    uint64_t *ids = NULL;
    size_t n = 0;
    kt_learned served;
    kt__buf buf;
    KT__STEP(kt_learner_get(r->learner, KT_VERSION_SERVED, &served, r->err));
    r->bank = served.bank;
    /* what is used everywhere stays so */
    if (served.adapter && !served.adapter->scoped) r->settings.scoped = false;
    kt__buf_init(&buf, ITEM_MAX);
    KT__TRY(kt__feedback_list(store, &ids, &n, r->err));
    KT__TRY(kt__feedback_chain(store, r->info.version, &r->chain, &r->n_chain, r->err));
    r->used = kt__calloc(n + 1, sizeof *r->used);
    if (!r->used) {
        status = kt__fail_nomem(r->err, "a training", n * sizeof *r->used);
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        KT__TRY(kt__feedback_get(store, ids[i], &item, &buf, r->err));
        if (item.keys.n == 0 || is_among(r->chain, r->n_chain, ids[i])) KT__TRY(add_item(r, &item));
    }
    if (r->n_used == 0)
        status = kt__fail(r->err, KT_E_STATE,
                          "nothing was said yet that could be learned: give feedback first");
out:
    r->bank = NULL;
    kt_learned_close(&served);
    kt__buf_free(&buf);
    kt__free(ids);
    return status;
}

static kt_status add_rest(training_run *r) {
    const kt_train_params *p = r->p;
    kt__lesson_own own = {.n = replay_of(r),
                          .seed = r->settings.seed,
                          .priority = -1,
                          .patience = {go_on_asking, r},
                          .progress = note_written};
    const char *dir = p->own_dir ? p->own_dir : r->learner->params.dir;
    kt_engine *engine = r->learner->engine;
    KT__STEP(kt__own_replay_add(&r->lesson, engine, dir, &own, r->err));
    note_stage(r, KT_TRAIN_WRITING, 0, 0); /* a few more */
    own.n = own_of(r);
    own.progress = NULL;
    if (r->settings.scoped) KT__STEP(kt__distil_add(&r->lesson, engine, &own, r->err));
    own.n = NEAR_MOST;
    KT__STEP(kt__near_add(&r->lesson, engine, NEAR_EACH, &own, r->err));
    own.n = CONTRASTS_MOST;
    if (r->settings.scoped)
        KT__STEP(kt__siblings_add(&r->lesson, engine, &own, KT__SAMPLE_TRAINED, r->err));
    own.n = SIBLINGS_MOST;
    return kt__siblings_add(&r->lesson, engine, &own, KT__SAMPLE_MEASURED, r->err);
}

/* The rest is written once, also where the process is ended after that. */
static kt_status add_rest_once(training_run *r) {
    const char *dir = r->learner->params.dir;
    uint8_t binding[KT__LESSON_BINDING];
    size_t first = r->lesson.n;
    KT__STEP(kt__lesson_bind(&r->lesson, r->learner->engine, own_of(r), r->settings.seed, binding,
                             r->err));
    if (kt__lesson_read_kept(&r->lesson, dir, (uint32_t)r->on.net->hp.n_vocab, binding))
        return KT_OK;
    KT__STEP(add_rest(r));
    kt__lesson_keep(&r->lesson, first, dir, binding);
    return KT_OK;
}

/* All that it was trained from, and no other version served than one on top of where it began. */
static kt_status check_still_there(const training_run *r) {
    kt__feedback *store = r->learner->store;
    kt__feedback_info now;
    uint64_t *chain = NULL;
    size_t n = 0;
    kt__feedback_get_info(store, &now);
    if (now.frozen)
        return kt__fail(r->err, KT_E_STATE, "the namespace was frozen during the training");
    kt_status status = kt__feedback_chain(store, now.version, &chain, &n, r->err);
    bool same = now.adapter == r->info.adapter;
    for (size_t i = 0; same && i < r->n_used; i++) same = kt__feedback_has(store, r->used[i]);
    for (size_t i = 0; same && i < r->n_chain; i++) same = is_among(chain, n, r->chain[i]);
    kt__free(chain);
    if (status != KT_OK || same) return status;
    return kt__fail(r->err, KT_E_STATE,
                    "what was learned was rolled back, or feedback deleted, during the training: "
                    "its result is dropped");
}

/* ---- what it continues from ---- */

/* NULL where the file is of other matrices, rank or scale. */
static kt_status read_factors(training_run *r, const kt__gguf *gguf, kt__learn_where where,
                              kt__factors **out) {
    const kt__learn_settings *s = &r->settings;
    kt_status status = kt__factors_make(r->on.net, where, s->rank, s->alpha, s->seed, out, r->err);
    if (status == KT_OK) status = kt__factors_read(*out, gguf, r->err);
    if (status == KT_OK) return KT_OK;
    kt__factors_free(*out);
    *out = NULL;
    return status == KT_E_FORMAT ? KT_OK : status;
}

static kt_status read_served(training_run *r) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__learn_where where = r->settings.where;
    kt__learn_where other = where == KT__LEARN_ALL ? KT__LEARN_LAST : KT__LEARN_ALL;
    char path[KT__FILES_PATH_MAX];
    kt__gguf *gguf = NULL;
    kt_status status;
    if (!r->info.adapter) return KT_OK;
    KT__TRY(kt__feedback_adapter_path(r->learner->store, r->info.adapter, KT__VERSION_ADAPTER, path,
                                      sizeof path, r->err));
    KT__TRY(kt__gguf_open(path, &params, &gguf, r->err));
    KT__TRY(read_factors(r, gguf, where, &r->prior));
    if (!r->prior) KT__TRY(read_factors(r, gguf, other, &r->before));
out:
    kt__gguf_close(gguf);
    return status;
}

/* ---- the training ---- */

static kt__learn_settings settings_of(const training_run *r) {
    const kt_train_params *p = r->p;
    kt__learn_settings s;
    kt__learn_defaults(&s);
    s.where = p->instant ? KT__LEARN_HIDDEN : p->deep ? KT__LEARN_ALL : KT__LEARN_LAST;
    if (p->n_step > 0) s.n_step = p->n_step;
    if (p->batch > 0) s.batch = p->batch;
    int rank = p->instant ? KT__INSTANT_RANK : p->rank;
    if (rank > 0) s.rank = rank, s.alpha = 2.0f * (float)rank;
    if (p->seed) s.seed = p->seed;
    s.ewc_lambda = p->ewc_lambda;
    s.bytes_max = p->bytes_max ? p->bytes_max : (uint64_t)512 << 20;
    s.cpu_ms_max = p->cpu_ms_max;
    s.scoped = !p->everywhere; /* until there is a feedback without a subject */
    return s;
}

/* Of what changes nothing but answers about what was taught: more of that, and less that holds the rest
 * (docs/LEARNING.md). */
static void loosen_settings(training_run *r) {
    kt__learn_settings *s = &r->settings;
    if (r->p->batch <= 0) s->batch = 16;
    s->batch_replay = 0;
    s->batch_neighbour = 5;
    s->replay_weight = 1.0f;
    s->neighbour_weight = 2.0f;
    s->sibling_part = 0.05;
}

/* What an answer that stays begins with says whether what was taught comes into it; the rest would cost as much
 * again. */
static void shorten_kept(kt__lesson *lesson) {
    for (size_t i = 0; i < lesson->n; i++) {
        kt__sample *s = &lesson->samples[i];
        int n = 0, n_masked = 0;
        if (!kt__sample_is_kept(s)) continue;
        while (n < s->n && n_masked < KEPT_TOKENS_SCOPED) n_masked += s->mask[n++] != 0;
        s->n = n;
    }
}

/* Of all matrices four passes over what is learned, where that is less than the default: with more, a model gives fewer
 * other wordings and more siblings the correction (SmolLM2-135M: 48 of 60 and 0 of 20 with 60 steps, 42 and 2 with 150). */
static void count_steps(training_run *r) {
    kt__learn_settings *s = &r->settings;
    int n = 0;
    if (r->p->n_step > 0 || s->where != KT__LEARN_ALL) return;
    for (size_t i = 0; i < r->lesson.n; i++) {
        const kt__sample *sample = &r->lesson.samples[i];
        n += !kt__sample_is_kept(sample) && sample->use != KT__SAMPLE_MEASURED;
    }
    int steps = PASSES_SCOPED * n / s->batch;
    if (steps < STEPS_LEAST) steps = STEPS_LEAST;
    if (steps < s->n_step) s->n_step = steps;
}

/* One anew, or one that continues. */
static kt_status train_one(training_run *r, const kt__factors *prior, kt__factors **out) {
    const kt__factors *served = r->prior ? r->prior : r->before;
    const kt__learn_settings *s = &r->settings;
    kt__learn_from from = {.prior = prior, .before = served};
    kt__factors *begun = NULL;
    kt_status status;
    if (!prior) {
        KT__TRY(kt__factors_make(r->on.net, s->where, s->rank, s->alpha, s->seed, &begun, r->err));
        if (kt__loop_consolidate(r->learner, begun)) from.start = begun;
    }
    status = kt__learn(&r->on, r->lesson.samples, r->lesson.n, s, &from, out, &r->report, r->err);
out:
    kt__factors_free(begun);
    return status;
}

static kt_status consolidate_factors(training_run *r, kt__consolidate what, kt__factors **out) {
    return kt__learn_consolidate(&r->on, &what, r->lesson.samples, r->lesson.n, &r->settings, out,
                                 &r->report, r->err);
}

static kt_status make_candidate(training_run *r) {
    kt_consolidation how = r->p->consolidation;
    kt__factors *one = NULL;
    kt_status status;
    if (!r->prior) return train_one(r, NULL, &r->candidate);
    if (how == KT_CONSOLIDATE_EWC_MERGE && r->settings.ewc_lambda > 0.0f)
        return consolidate_factors(
            r, (kt__consolidate){.how = KT__CONSOLIDATE_EWC_MERGE, .prior = r->prior},
            &r->candidate);
    if (how == KT_CONSOLIDATE_EWC_MERGE) return train_one(r, r->prior, &r->candidate);
    bool average = how == KT_CONSOLIDATE_AVERAGE;
    KT__TRY(train_one(r, average ? NULL : r->prior, &one));
    const kt__factors *both[] = {r->prior, one};
    kt__learn_report trained = r->report;
    KT__TRY(consolidate_factors(
        r,
        (kt__consolidate){.how = average ? KT__CONSOLIDATE_AVERAGE : KT__CONSOLIDATE_BEST_ONLY,
                          .prior = r->prior,
                          .candidates = both,
                          .n_candidate = 2},
        &r->candidate));
    kt__learn_report_add_training(&r->report, &trained);
out:
    kt__factors_free(one);
    return status;
}

/* ---- what is made of it ---- */

/* The candidate, where it can be served from before it is published. What a crash leaves in the folder of versions
 * goes when it is opened again. */
static kt_status write_candidate(training_run *r, char dir[KT__FILES_PATH_MAX],
                                 char path[KT__FILES_PATH_MAX]) {
    char versions[KT__FILES_PATH_MAX];
    KT__STEP(kt__files_path(versions, r->learner->params.dir, "versions", r->err));
    KT__STEP(kt__files_path(dir, versions, "training", r->err));
    KT__STEP(kt__files_make_dir(dir, r->err));
    KT__STEP(kt__files_path(path, dir, "adapter.gguf", r->err));
    return kt__factors_write(r->candidate, r->on.net->hp.arch, NULL, path, r->err);
}

static kt_status chain_now(training_run *r, kt__feedback_info *now, uint64_t **ids, size_t *n) {
    kt__feedback_get_info(r->learner->store, now);
    return kt__feedback_chain(r->learner->store, now->version, ids, n, r->err);
}

/* Those of ids[n] that are not there yet. */
static kt_status add_keys(training_run *r, kt_adapter *adapter, const uint64_t *ids, size_t n,
                          const kt__tutor_patience *patience, kt__taught_keys *keys) {
    kt_learned served;
    KT__STEP(kt_learner_get(r->learner, KT_VERSION_SERVED, &served, r->err));
    kt_status status = kt__taught_keys_add(keys, r->learner, adapter, served.bank, ids, n, patience,
                                           r->err);
    kt_learned_close(&served);
    return status;
}

/* What was taught is asked of what is served, and of what would be. */
static kt_status count_taught(training_run *r, uint32_t version, const uint64_t *ids, size_t n,
                              kt_adapter *adapter, const kt__taught_keys *keys) {
    const kt__tutor_patience patience = {go_on_asking, r};
    kt__served_count before, after;
    kt_learned served, next = {.version = version};
    kt_status status;
    KT__STEP(kt_learner_get(r->learner, KT_VERSION_SERVED, &served, r->err));
    KT__TRY(kt__served_ask(r->learner, &served, ids, n, &patience, &before, r->err));
    KT__TRY(kt__learned_build(r->learner, version, keys, &next, r->err));
    next.adapter = kt_adapter_hold(adapter);
    KT__TRY(kt__served_ask(r->learner, &next, ids, n, &patience, &after, r->err));
    r->report.n_taught = after.n_asked;
    r->report.taught_before = before.n_right;
    r->report.taught_after = after.n_right;
out:
    kt_learned_close(&served);
    kt_learned_close(&next);
    return status;
}

/* The last condition: nothing that was taught is answered worse than before. */
static kt_status judge_served(training_run *r, kt_adapter *adapter, kt__taught_keys *keys) {
    const kt__tutor_patience patience = {go_on_asking, r};
    kt__learn_report *report = &r->report;
    kt__feedback_info now;
    uint64_t *ids = NULL;
    size_t n;
    kt_status status;
    KT__TRY(chain_now(r, &now, &ids, &n));
    KT__TRY(add_keys(r, adapter, ids, n, &patience, keys));
    KT__TRY(count_taught(r, now.version, ids, n, adapter, keys));
    if (report->taught_after >= report->taught_before) goto out;
    report->publish = false;
    snprintf(report->why, sizeof report->why,
             "of %d corrections what is served answers %d word for word, and would answer %d",
             report->n_taught, report->taught_before, report->taught_after);
out:
    kt__free(ids);
    return status;
}

/* With `changing`. What was taught meanwhile is given keys of the adapter, too. */
static kt_status publish_candidate(training_run *r, const char *path, kt_adapter *adapter,
                                   kt__taught_keys *keys, const kt__buf *report) {
    kt_learner *l = r->learner;
    kt__feedback_info now;
    uint64_t *ids = NULL;
    size_t n;
    uint32_t version;
    kt_status status;
    kt__buf file;
    kt__buf_init(&file, (size_t)1 << 30);
    KT__TRY(check_still_there(r));
    KT__TRY(chain_now(r, &now, &ids, &n));
    KT__TRY(add_keys(r, adapter, ids, n, NULL, keys));
    kt__taught_keys_write(keys, (size_t)r->on.net->hp.d_model, &file);
    if (file.failed) {
        status = kt__fail_nomem(r->err, "the keys of what was taught", file.len);
        goto out;
    }
    const kt__feedback_adapter_files files = {.adapter = path,
                                              .report = report->data,
                                              .n_report = report->len,
                                              .keys = file.data,
                                              .n_keys = keys->n ? file.len : 0,
                                              .quality = r->report.quality_delta};
    KT__TRY(kt__feedback_publish(l->store, &files, &version, r->err));
    KT__TRY(kt__learned_serve(l, r->err));
    r->out->published = true;
out:
    kt__buf_free(&file);
    kt__free(ids);
    return status;
}

/* Judged as it would be served, and published. */
static kt_status serve_candidate(training_run *r, kt__buf *report) {
    char dir[KT__FILES_PATH_MAX] = "", path[KT__FILES_PATH_MAX];
    kt_adapter *adapter = NULL;
    kt__taught_keys keys = {0};
    kt_error ignored;
    bool removed;
    kt_status status;
    r->candidate->scoped = r->settings.scoped;
    KT__TRY(write_candidate(r, dir, path));
    KT__TRY(kt_adapter_open(r->learner->engine->model, path, &adapter, r->err));
    KT__TRY(judge_served(r, adapter, &keys));
    kt__learn_report_json(&r->report, report);
    if (!r->report.publish || report->failed) goto out;
    pthread_mutex_lock(&r->learner->changing);
    status = publish_candidate(r, path, adapter, &keys, report);
    pthread_mutex_unlock(&r->learner->changing);
out:
    removed = !dir[0] || kt__files_remove_tree(dir, &ignored) == KT_OK;
    (void)removed; /* what is left goes at the next opening */
    kt_adapter_close(adapter);
    kt__taught_keys_free(&keys);
    return status;
}

static kt_status hand_report(training_run *r, const kt__buf *report) {
    kt__feedback_info now;
    if (report->failed) return kt__fail_nomem(r->err, "the report", 0);
    kt__feedback_get_info(r->learner->store, &now);
    r->out->version = now.version;
    r->out->report = kt__strdup(report->data);
    return r->out->report ? KT_OK : kt__fail_nomem(r->err, "the report", report->len);
}

static kt_status conclude_run(training_run *r) {
    kt_status status = KT_OK;
    kt__buf report;
    kt__buf_init(&report, 1 << 16);
    if (r->report.publish && !r->p->instant)
        KT__TRY(serve_candidate(r, &report));
    else
        kt__learn_report_json(&r->report, &report);
    if (!r->report.publish && !report.failed && !r->p->instant)
        kt__feedback_audit(r->learner->params.dir, "refused", 0, r->info.version);
    status = hand_report(r, &report);
out:
    kt__buf_free(&report);
    return status;
}

static kt_status charge_bytes(training_run *r, uint64_t bytes) {
    kt_ctx *ctx = r->learner->engine->model->ctx;
    uint64_t before = atomic_fetch_add(&ctx->mem_used_bytes, bytes);
    if (before + bytes <= ctx->mem_bytes) {
        r->charged += bytes;
        return KT_OK;
    }
    atomic_fetch_sub(&ctx->mem_used_bytes, bytes);
    return kt__fail(r->err, KT_E_NOMEM,
                    "a training of %.0f MiB exceeds the memory budget of %.0f MiB, of which %.0f "
                    "MiB are taken",
                    (double)bytes / (1 << 20), (double)ctx->mem_bytes / (1 << 20),
                    (double)before / (1 << 20));
}

/* Besides the activations: the base's states of what shall stay, and five numbers for each value of
 * the adapter: itself, where it is scaled, its gradient, and Adam's two. */
static kt_status charge_rest(training_run *r) {
    const kt__learn_settings *s = &r->settings;
    uint64_t n_kept = 0, state = (uint64_t)r->on.net->hp.d_model * sizeof(float);
    kt__factors *f;
    kt_status status = kt__factors_make(r->on.net, s->where, s->rank, s->alpha, s->seed, &f,
                                        r->err);
    if (status != KT_OK) return status;
    for (size_t i = 0; i < r->lesson.n; i++) {
        const kt__sample *sample = &r->lesson.samples[i];
        if (kt__sample_is_kept(sample)) n_kept += (uint64_t)kt__sample_n_masked(sample);
    }
    status = charge_bytes(r, n_kept * state + 5 * (uint64_t)f->n_value * sizeof(float));
    kt__factors_free(f);
    return status;
}

/* One that somebody waits for keeps what it would compute again: up to half of what is free. */
static kt_status charge_kept(training_run *r) {
    const kt_ctx *ctx = r->learner->engine->model->ctx;
    uint64_t used = atomic_load(&ctx->mem_used_bytes), free_bytes, more;
    if (r->p->background || used >= ctx->mem_bytes) return KT_OK;
    free_bytes = ctx->mem_bytes - used;
    more = free_bytes / 2 < kept_most ? free_bytes / 2 : kept_most;
    r->settings.bytes_keep = r->settings.bytes_max + more;
    return charge_bytes(r, more);
}

static kt_status take_pool(training_run *r) {
    const kt_ctx *ctx = r->learner->engine->model->ctx;
    const kt__affinity low = {
        .pinned = ctx->affinity.pinned, .cpus = ctx->affinity.cpus, .priority = KT__PRIORITY_LOW};
    int n = r->p->background      ? 1
            : r->p->n_threads > 0 ? r->p->n_threads
                                  : atomic_load(&ctx->n_threads);
    return kt__pool_create_at(n, r->p->background ? &low : &ctx->affinity, &r->pool, r->err);
}

/* What the instant loop makes of it, and at which share (learning.instant_share). */
static kt_status judge_instant(training_run *r) {
    note_stage(r, KT_TRAIN_JUDGING, 0, 0);
    KT__STEP(kt__loop_factors(r->learner, r->chain, r->n_chain, &r->candidate, r->err));
    KT__STEP(kt__learn_scale_and_judge(&r->on, r->lesson.samples, r->lesson.n, &r->settings,
                                       r->candidate, &r->report, r->err));
    return conclude_run(r);
}

/* What notes say already. */
static kt_status refuse_noted(training_run *r) {
    r->report.scoped = true;
    snprintf(r->report.why, sizeof r->report.why,
             "nothing is trained: all that was said are corrections with a subject, which enter "
             "prompts as notes, and an adapter of them is not used where notes are given");
    return conclude_run(r);
}

static kt_status run_training(training_run *r) {
    const kt_engine *engine = r->learner->engine;
    bool may;
    r->worked_since_us = kt__now_us();
    r->settings = settings_of(r);
    r->on = (kt__learn_on){engine->model->net, NULL, engine->model->ctx->kernels,
                           kt__lesson_end_token(engine->model)};
    KT__STEP(kt__factors_supported(r->on.net, r->err));
    KT__STEP(kt__learn_check(&r->settings, r->err));
    KT__STEP(charge_bytes(r, r->settings.bytes_max));
    KT__STEP(add_feedback(r));
    if (r->settings.scoped && r->p->noted) return refuse_noted(r);
    if (r->settings.scoped) loosen_settings(r);
    KT__STEP(kt__wordings_add(&r->lesson, engine->model,
                              r->settings.scoped ? WORDINGS_SCOPED : WORDINGS, r->settings.seed,
                              r->err));
    KT__STEP(
        kt__gate_may_pass(r->lesson.samples, r->lesson.n, &r->settings, &may, &r->report, r->err));
    if (!may) return conclude_run(r); /* said at once: nothing is written or trained for it */
    KT__STEP(add_rest_once(r));
    KT__STEP(check_still_there(r)); /* writing took a while */
    if (r->settings.scoped) {
        shorten_kept(&r->lesson);
        count_steps(r);
    }
    KT__STEP(charge_rest(r));
    KT__STEP(charge_kept(r));
    KT__STEP(take_pool(r));
    r->on.pool = r->pool;
    KT__STEP(kt__lesson_state_path(r->state_path, r->learner->params.dir, r->err));
    r->settings.resume = r->state_path;
    r->settings.go_on = go_on;
    r->settings.go_on_user = r;
    r->settings.progress = note_step;
    r->settings.progress_user = r;
    r->worked_since_us = kt__now_us();
    if (r->p->instant) return judge_instant(r);
    KT__STEP(read_served(r));
    KT__STEP(make_candidate(r));
    return conclude_run(r);
}

static void *training_main(void *arg) {
    training_run *r = arg;
    uint32_t fpenv = kt__fpenv_enter();
    if (r->p->background) kt__priority_lower(KT__PRIORITY_LOW);
    r->status = run_training(r);
    kt__fpenv_leave(fpenv);
    return NULL;
}

static void free_run(training_run *r) {
    kt__pool_destroy(r->pool);
    kt__factors_free(r->prior);
    kt__factors_free(r->before);
    kt__factors_free(r->candidate);
    kt__lesson_free(&r->lesson);
    kt__free(r->used);
    kt__free(r->chain);
    atomic_fetch_sub(&r->learner->engine->model->ctx->mem_used_bytes, r->charged);
}

/* A thread of its own: in the background its priority is lowered for good. */
static kt_status train_aside(training_run *r) {
    pthread_t thread;
    int rc = kt__thread_start(&thread, "kentang-train", STACK_BYTES, training_main, r);
    if (rc != 0) return kt__fail(r->err, KT_E_LIMIT, "cannot start a thread: %s", strerror(rc));
    pthread_join(thread, NULL);
    note_stage(r, KT_TRAIN_NONE, 0, 0);
    free_run(r);
    return r->status;
}

static void note_tried(kt_learner *l, uint64_t id, bool deep) {
    pthread_mutex_lock(&l->lock);
    l->tried = id;
    if (deep) l->tried_deep = id;
    pthread_mutex_unlock(&l->lock);
}

kt_status kt_learner_train(kt_learner *l, const kt_train_params *params, kt_train_result *out,
                           kt_error *err) {
    static const kt_train_params by_default = {0};
    training_run r = {.learner = l, .p = params ? params : &by_default, .out = out, .err = err};
    *out = (kt_train_result){0};
    kt__error_clear(err);
    if (l->params.read_only) return kt__fail(err, KT_E_STATE, "the learner was opened for reading");
    kt__feedback_get_info(l->store, &r.info);
    if (r.info.frozen)
        return kt__fail_at(err, KT_E_STATE, "namespace", UINT64_MAX,
                           "the namespace is frozen: nothing is trained");
    if (pthread_mutex_trylock(&l->training) != 0)
        return kt__fail(err, KT_E_BUSY, "a training is running already");
    kt__feedback_get_info(l->store, &r.info);
    kt_status status = train_aside(&r);
    /* what was cancelled, as by the server's end, is resumed another time */
    if (status != KT_E_CANCELLED) kt__lesson_drop_kept(l->params.dir);
    if (status != KT_E_CANCELLED && !r.p->instant) note_tried(l, r.info.last_id, r.p->deep);
    pthread_mutex_unlock(&l->training);
    return status;
}
