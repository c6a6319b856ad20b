#include "jobs/trainer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "setup/learn_config.h"

enum { QUEUE = 16, QUIET_US = 10000000, PROBE_QUIET_US = 3000000 };

struct kt__trainer {
    kt__shared *shared;
    kt__workers *workers; /* one thread */
    kt__work_item look;
    atomic_bool looking;
    atomic_int_fast64_t looked_us;
    /* of the workers' thread: when a model was last seen in use, by requests up to then; and before when no note is
     * asked about */
    int64_t busy_us, rest_until_us;
    uint64_t n_submitted;
};

kt_status kt__trainer_create(kt__shared *shared, kt__trainer **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "trainings", sizeof **out);
    (*out)->shared = shared;
    (*out)->busy_us = kt__now_us();
    kt_status status = kt__workers_create(1, QUEUE, &(*out)->workers, err);
    if (status == KT_OK) return KT_OK;
    kt__free(*out);
    *out = NULL;
    return status;
}

void kt__trainer_stop(kt__trainer *t) {
    if (t) kt__workers_stop(t->workers);
}

void kt__trainer_free(kt__trainer *t) {
    if (!t) return;
    kt__workers_free(t->workers);
    kt__free(t);
}

bool kt__trainer_add(kt__trainer *t, kt__work_item *item) {
    return kt__workers_add(t->workers, item);
}

/* ---- one training ---- */

static bool not_stopping(void *user) {
    return !atomic_load(&((kt__shared *)user)->stopping);
}

static void log_result(kt__trainer *t, const char *name, kt_status status, const kt_train_result *r,
                       const kt_error *err) {
    kt__slog *log = &t->shared->log;
    if (status == KT_OK)
        kt__slog_line(log, KT_LOG_INFO, "learning: %s: trained, %s, version %lld: %s", name,
                      r->published ? "published" : "refused", (long long)r->version, r->report);
    else
        kt__slog_line(log, status == KT_E_CANCELLED ? KT_LOG_INFO : KT_LOG_WARN,
                      "learning: %s: not trained: %s", name, err->message);
}

static bool is_noted(kt__trainer *t, const kt__config *c, const kt__trained *of) {
    return kt__learner_table_notes(kt__served_learners(of->served), c, kt__served_name(of->served),
                                   of->model, &t->shared->log) != KT__NOTES_OUT;
}

const char *kt__trainer_use(kt__trainer *t, const kt__trained *of) {
    kt_learner_info info;
    kt__settings *settings = kt__shared_settings(t->shared);
    kt_learner_get_info(of->learner, &info);
    const char *use = kt__learn_use_of(info.scoped, is_noted(t, settings->config, of));
    kt__settings_drop(settings);
    return use;
}

kt_status kt__trainer_train(kt__trainer *t, const kt__trained *of, const char *name,
                            kt__train_asked asked, kt_train_result *out, kt_error *err) {
    kt__settings *settings = kt__shared_settings(t->shared);
    const kt__config *c = settings->config;
    char own_dir[4096];
    int64_t begin_us = kt__now_us();
    kt__learner_table *table = kt__served_learners(of->served);
    kt_train_params p = {.deep = asked.deep,
                         .everywhere = asked.everywhere,
                         .instant = asked.instant,
                         .noted = asked.by_itself && is_noted(t, c, of),
                         .seed = asked.seed,
                         .background = true,
                         .batch = (int32_t)c->learn_batch,
                         .n_step = (int32_t)c->learn_steps,
                         .n_own = (int32_t)c->learn_own,
                         .consolidation = kt__learn_plan_of(c).consolidation,
                         .ewc_lambda = (float)c->learn_ewc,
                         .bytes_max = c->learn_train_bytes,
                         .go_on = not_stopping,
                         .user = t->shared};
    if (kt__namespace_model_folder(c, kt__served_name(of->served), own_dir, sizeof own_dir, err) ==
        KT_OK)
        p.own_dir = own_dir;
    kt__learner_table_begin_training(table);
    kt_status status = kt_learner_train(of->learner, &p, out, err);
    kt__learner_table_count_training(table, status, out, kt__now_us() - begin_us);
    log_result(t, name, status, out, err);
    kt__settings_drop(settings);
    return status;
}

/* ---- in turn ---- */

typedef struct order {
    kt__work_item item;
    kt__trainer *trainer;
    kt__served *served;
    kt_model *model;
    kt_engine *engine; /* in use until it ends */
    char name[KT__NAMESPACE_BYTES];
    kt__train_asked asked;
} order;

static void run_order(kt__work_item *item) {
    order *o = (order *)(void *)item;
    kt_error err;
    kt_learner *learner = NULL;
    kt_train_result result = {0};
    kt__settings *settings = kt__shared_settings(o->trainer->shared);
    kt_status status = kt__served_learner(o->served, settings->config, o->name, false, &learner,
                                          &err);
    const kt__trained of = {o->served, o->model, learner};
    if (status == KT_OK && learner)
        status = kt__trainer_train(o->trainer, &of, o->name, o->asked, &result, &err);
    kt_free(result.report);
    kt__settings_drop(settings);
    kt__served_learner_done(o->served, learner);
    kt__served_done(o->served, o->engine);
    kt__free(o);
}

kt_status kt__trainer_queue(kt__trainer *t, kt__served *served, const char *name,
                            kt__train_asked asked, kt_error *err) {
    order *o = kt__calloc(1, sizeof *o);
    if (!o) return kt__fail_nomem(err, "a training", sizeof *o);
    *o = (order){.item = {.run = run_order}, .trainer = t, .served = served, .asked = asked};
    snprintf(o->name, sizeof o->name, "%s", name);
    kt_status status = kt__served_use(served, NULL, &o->model, &o->engine, err);
    if (status == KT_OK && kt__trainer_add(t, &o->item)) return KT_OK;
    if (status == KT_OK) {
        kt__served_done(served, o->engine);
        status = kt__fail(err, KT_E_BUSY, "too many trainings wait");
        if (err) err->retry_ms = 60000;
    }
    kt__free(o);
    return status;
}

/* ---- by itself ---- */

static int minute_of_day(void) {
    time_t now = time(NULL);
    struct tm local;
    return localtime_r(&now, &local) ? local.tm_hour * 60 + local.tm_min : 0;
}

/* Whether the namespace's feedback is enough for a training now, and for which. None begins while more is
 * being said: it would have to begin again. */
static bool is_due(const kt__config *c, const kt_learner_info *info, int64_t quiet_us, bool *deep) {
    int64_t n = (int64_t)info->n_pending;
    bool many = n >= c->learn_max_pending;
    if (info->frozen || n < kt__learn_plan_of(c).min_samples) return false;
    if (!many && quiet_us < QUIET_US) return false;
    if (!many && !kt__learn_config_in_hours(c, minute_of_day())) return false;
    bool enough = c->learn_deep > 0 && info->pending_deep >= c->learn_deep;
    *deep = info->deep || enough; /* one that continues from a deep one is deep */
    return true;
}

/* Whether a training began. */
static bool look_at_model(kt__trainer *t, const kt__config *c, kt__served *served) {
    char name[KT__NAMESPACE_BYTES];
    kt_learner_info info;
    kt_error err;
    kt__train_asked asked = {.by_itself = true};
    int64_t quiet_us;
    kt__learner_table *table = kt__served_learners(served);
    for (size_t i = 0; kt__learner_table_at(table, i, name, sizeof name, &info, &quiet_us); i++) {
        if (!is_due(c, &info, quiet_us, &asked.deep)) continue;
        if (kt__trainer_queue(t, served, name, asked, &err) != KT_OK)
            kt__slog_line(&t->shared->log, KT_LOG_WARN, "learning: %s: %s", name, err.message);
        return true;
    }
    return false;
}

/* ---- whether models use notes rightly ---- */

static uint64_t submitted_in_all(kt__trainer *t) {
    kt_engine_stats stats;
    uint64_t n = 0;
    for (size_t i = 0; i < kt__models_count(t->shared->models); i++) {
        kt__served_get_stats(kt__models_at(t->shared->models, i), &stats);
        n += stats.n_submitted;
    }
    return n;
}

/* The next made-up note, kept at once. Then the processor rests for as long as that took. */
static void ask_next(kt__trainer *t, const kt__config *c, kt__served *served, kt_model *model,
                     kt_engine *engine, kt_probe_result *probed) {
    kt__learner_table *table = kt__served_learners(served);
    kt__slog *log = &t->shared->log;
    const char *name = kt__served_name(served);
    kt_error err;
    int64_t begin_us = kt__now_us();
    kt_status status = kt_notes_probe_next(engine, probed, &err);
    t->n_submitted += 4;
    if (status == KT_OK) status = kt__note_probe_write(c, name, model, probed, &err);
    t->rest_until_us = 2 * kt__now_us() - begin_us;
    if (status == KT_OK) {
        kt__learner_table_probed(table, name, probed, log);
    } else if (status != KT_E_BUSY && status != KT_E_CANCELLED) {
        kt__learner_table_unmeasurable(table);
        kt__slog_line(log, KT_LOG_INFO, "learning: %s: how it uses notes cannot be measured: %s",
                      name, err.message);
    }
}

/* A model that is loaded and in nobody's use. Whether there was anything to ask. */
static bool probe_model(kt__trainer *t, const kt__config *c, kt__served *served) {
    kt__served_info info;
    kt_model *model;
    kt_engine *engine;
    kt_probe_result probed;
    kt_error err;
    /* looked at first, since to use a model is to keep it from being unloaded */
    if (kt__learner_table_settled(kt__served_learners(served), c)) return false;
    kt__served_get_info(served, &info);
    if (!info.loaded || info.gone) return false;
    if (kt__served_use(served, NULL, &model, &engine, &err) != KT_OK) return false;
    bool asks = kt__learner_table_unprobed(kt__served_learners(served), c, info.name, model,
                                           &t->shared->log, &probed);
    if (asks) ask_next(t, c, served, model, engine, &probed);
    kt__served_done(served, engine);
    return asks;
}

/* Of some model it is not known yet. */
static bool is_unsettled(kt__trainer *t, const kt__config *c) {
    size_t i = 0, n = kt__models_count(t->shared->models);
    while (i < n &&
           kt__learner_table_settled(kt__served_learners(kt__models_at(t->shared->models, i)), c))
        i++;
    return i < n;
}

/* Nobody has used a model for a while. */
static bool is_quiet(kt__trainer *t) {
    kt__served_info info;
    int64_t now_us = kt__now_us();
    uint64_t n_submitted = submitted_in_all(t);
    bool busy = n_submitted != t->n_submitted;
    for (size_t i = 0; i < kt__models_count(t->shared->models) && !busy; i++) {
        kt__served_get_info(kt__models_at(t->shared->models, i), &info);
        busy = info.users > 0;
    }
    t->n_submitted = n_submitted;
    if (busy) t->busy_us = now_us;
    return now_us - t->busy_us >= PROBE_QUIET_US && now_us >= t->rest_until_us;
}

static void look_at_all(kt__work_item *item) {
    kt__trainer *t = (kt__trainer *)(void *)((char *)item - offsetof(kt__trainer, look));
    kt__settings *settings = kt__shared_settings(t->shared);
    const size_t n = kt__models_count(t->shared->models);
    bool trains = false, quiet = is_unsettled(t, settings->config) && is_quiet(t);
    for (size_t i = 0; i < n && !atomic_load(&t->shared->stopping); i++)
        trains |= look_at_model(t, settings->config, kt__models_at(t->shared->models, i));
    for (size_t i = 0; i < n && quiet && !trains && !atomic_load(&t->shared->stopping); i++)
        quiet = !probe_model(t, settings->config, kt__models_at(t->shared->models, i));
    kt__settings_drop(settings);
    atomic_store(&t->looked_us, kt__now_us());
    atomic_store(&t->looking, false);
}

/* An order is after the look on the same thread: what it trains is not looked at before it ends. */
void kt__trainer_tick(kt__trainer *t) {
    if (!t || atomic_load(&t->shared->stopping)) return;
    kt__settings *settings = kt__shared_settings(t->shared);
    int64_t interval_us = kt__learn_plan_of(settings->config).interval_ms * 1000;
    kt__settings_drop(settings);
    if (interval_us <= 0 || kt__now_us() - atomic_load(&t->looked_us) < interval_us) return;
    if (atomic_exchange(&t->looking, true)) return;
    t->look.run = look_at_all;
    if (!kt__workers_add(t->workers, &t->look)) atomic_store(&t->looking, false);
}
