#include "services/pulls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/thread.h"
#include "setup/model_file.h"
#include "store/hub.h"

struct kt__pulls {
    kt__slog *log;
    kt__models *models;
    kt__store store; /* its texts are the configuration's */
    pthread_mutex_t lock;
    pthread_t thread;
    bool started; /* there is a thread to be joined */
    bool any;     /* state is of a pull */
    bool kept;    /* it continues when nobody waits for it */
    int followers;
    const kt__pull_report *report; /* of the one that runs, or NULL */
    kt__pull_state state;
    atomic_bool stop;
};

/* ---- one pull ---- */

static void note_progress(void *user, uint64_t done, uint64_t total) {
    kt__pulls *p = user;
    pthread_mutex_lock(&p->lock);
    p->state.bytes_done = done;
    p->state.bytes = total;
    if (p->report) snprintf(p->state.digest, sizeof p->state.digest, "%s", p->report->digest);
    pthread_mutex_unlock(&p->lock);
}

/* Serves what lies at path. name [size]: as what. */
static kt_status serve_pulled(kt__pulls *p, const char *path, char *name, size_t size,
                              kt_error *err) {
    kt__shelf shelf;
    kt_status status = kt__store_shelf(&p->store, &shelf, err);
    const kt__shelf_model *model = status == KT_OK ? kt__shelf_at(&shelf, path) : NULL;
    if (model) {
        snprintf(name, size, "%s", model->name);
        status = kt__models_add(p->models, model->name, err);
    } else if (status == KT_OK) {
        status = kt__fail(err, KT_E_STATE, "what came is gone from the folder of models");
    }
    kt__shelf_close(&shelf);
    return status;
}

/* What a client may read of an error: those that name no file of this machine. */
static const char *public_reason(const kt_error *err) {
    bool named = kt__files_is_absolute(err->where) || strstr(err->message, " /") != NULL;
    return named ? "it could not be fetched: the server's log says why" : err->message;
}

static void end_pull(kt__pulls *p, kt_status status, const char *model, const kt_error *err) {
    kt__pull_state *s = &p->state;
    pthread_mutex_lock(&p->lock);
    s->stage = status == KT_OK            ? KT__PULL_DONE
               : status == KT_E_CANCELLED ? KT__PULL_STOPPED
                                          : KT__PULL_FAILED;
    if (status == KT_OK) s->bytes_done = s->bytes;
    snprintf(s->model, sizeof s->model, "%s", model);
    if (s->stage == KT__PULL_FAILED) snprintf(s->why, sizeof s->why, "%s", public_reason(err));
    pthread_mutex_unlock(&p->lock);
}

static void tell_end(kt__pulls *p, const char *asked, kt_status status, const char *model,
                     const kt_error *err) {
    if (status == KT_OK)
        kt__slog_line(p->log, KT_LOG_INFO, "%s was fetched, and is served as %s", asked, model);
    else if (status != KT_E_CANCELLED)
        kt__slog_line(p->log, KT_LOG_ERROR, "%s could not be fetched: %s%s%s", asked, err->message,
                      err->where[0] ? ": " : "", err->where);
}

/* The fetching thread: gets p->state.asked from the hub, has the model served, and leaves the outcome in p->state for
 * clients that ask. One at a time; kt__pulls_free stops and joins it. */
static void *run_pull(void *arg) {
    kt__pulls *p = arg;
    kt_error err;
    kt__pull_report report;
    char asked[sizeof p->state.asked], model[sizeof p->state.model] = "";
    snprintf(asked, sizeof asked, "%s", p->state.asked);
    const kt__pull_params params = {&p->store, asked, note_progress, p, &p->stop};
    p->report = &report;
    kt_status status = kt__pull(&params, &report, &err);
    if (status == KT_OK) note_progress(p, report.bytes, report.bytes);
    if (status == KT_OK) status = serve_pulled(p, report.path, model, sizeof model, &err);
    p->report = NULL;
    tell_end(p, asked, status, model, &err);
    end_pull(p, status, model, &err);
    return NULL;
}

/* ---- the interface ---- */

kt_status kt__pulls_create(const kt__config *config, kt__slog *log, kt__models *models,
                           kt__pulls **out, kt_error *err) {
    kt__pulls *p = kt__calloc(1, sizeof *p);
    *out = p;
    if (!p) return kt__fail_nomem(err, "pulls", sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    p->log = log;
    p->models = models;
    p->store = kt__model_name_store(config);
    return KT_OK;
}

void kt__pulls_free(kt__pulls *p) {
    if (!p) return;
    atomic_store(&p->stop, true);
    if (p->started) pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
    kt__free(p);
}

/* Addresses are refused: a client could reach what only this machine may. */
static kt_status check_name(const char *name, kt_error *err) {
    kt__hub_name parsed;
    if (strlen(name) >= sizeof((kt__pull_state *)0)->asked || strstr(name, "://"))
        return kt__fail_at(err, KT_E_ARG, "model", UINT64_MAX,
                           "model: expected a name of the hub's, OWNER/REPO[:TAG] or NAME[:TAG]");
    return kt__hub_name_parse(name, &parsed, err);
}

/* The lock is held. */
static kt_status start_thread(kt__pulls *p, const char *name, kt_error *err) {
    if (p->started) pthread_join(p->thread, NULL); /* it has ended, but for its last line */
    p->started = false;
    atomic_store(&p->stop, false);
    p->state = (kt__pull_state){.stage = KT__PULL_FETCHING};
    snprintf(p->state.asked, sizeof p->state.asked, "%s", name);
    p->any = true;
    p->started = kt__thread_start(&p->thread, "kt-pull", 0, run_pull, p) == 0;
    if (p->started) return KT_OK;
    p->any = false;
    return kt__fail_nomem(err, "a thread", 0);
}

/* The lock is held. */
static bool is_fetching(const kt__pulls *p) {
    return p->any && p->state.stage == KT__PULL_FETCHING;
}

kt_status kt__pulls_start(kt__pulls *p, const char *name, kt_error *err) {
    kt_status status = check_name(name, err);
    if (status != KT_OK) return status;
    pthread_mutex_lock(&p->lock);
    if (is_fetching(p) || p->followers)
        status = kt__fail(err, KT_E_BUSY, "\"%.80s\" is being fetched: one at a time",
                          p->state.asked);
    else
        status = start_thread(p, name, err);
    if (status == KT_OK) p->kept = true;
    pthread_mutex_unlock(&p->lock);
    return status;
}

kt_status kt__pulls_follow(kt__pulls *p, const char *name, kt_error *err) {
    kt_status status = check_name(name, err);
    if (status != KT_OK) return status;
    pthread_mutex_lock(&p->lock);
    bool joins = is_fetching(p) && !strcmp(p->state.asked, name) && !atomic_load(&p->stop);
    if (!joins && (is_fetching(p) || p->followers)) {
        status = kt__fail(err, KT_E_BUSY, "\"%.80s\" is being fetched: one at a time",
                          p->state.asked);
    } else if (!joins) {
        status = start_thread(p, name, err);
        p->kept = false;
    }
    if (status == KT_OK) p->followers++;
    pthread_mutex_unlock(&p->lock);
    return status;
}

void kt__pulls_leave(kt__pulls *p) {
    pthread_mutex_lock(&p->lock);
    if (!--p->followers && is_fetching(p) && !p->kept) atomic_store(&p->stop, true);
    pthread_mutex_unlock(&p->lock);
}

bool kt__pulls_stop(kt__pulls *p) {
    pthread_mutex_lock(&p->lock);
    bool runs = is_fetching(p);
    if (runs) atomic_store(&p->stop, true);
    pthread_mutex_unlock(&p->lock);
    return runs;
}

bool kt__pulls_get(kt__pulls *p, kt__pull_state *out) {
    pthread_mutex_lock(&p->lock);
    bool any = p->any;
    *out = p->state;
    pthread_mutex_unlock(&p->lock);
    return any;
}

/* ---- looking for models before anything is fetched ---- */

/* Bytes of weights that are read in a second here, as the first step of a loaded model showed; 0: none is. */
static double reading_rate(kt__models *models) {
    double rate = 0;
    for (size_t i = 0; i < kt__models_count(models); i++) {
        kt__served_info info;
        kt__served_get_info(kt__models_at(models, i), &info);
        double now = info.step_us > 0 ? (double)info.model.decode_bytes * 1e6 / (double)info.step_us
                                      : 0;
        if (now > rate) rate = now;
    }
    return rate;
}

static void write_hit(kt__buf *out, const kt__hub_hit *hit, const kt__hub_suited *s, double rate) {
    char name[300];
    snprintf(name, sizeof name, "%.255s:%.16s", hit->repo, s->tag);
    (void)kt__buf_puts(out, out->data[out->len - 1] == '[' ? "{" : ",{");
    kt__json_member(out, "name", name);
    (void)kt__buf_printf(out,
                         ",\"bytes\":%llu,\"memory_bytes\":%llu,\"fits\":%s,\"sees\":%s,"
                         "\"downloads\":%llu",
                         (unsigned long long)s->bytes, (unsigned long long)s->memory,
                         s->fits ? "true" : "false", s->sees ? "true" : "false",
                         (unsigned long long)hit->downloads);
    if (rate > 0) (void)kt__buf_printf(out, ",\"tokens_per_second\":%.1f", rate / (double)s->bytes);
    (void)kt__buf_putc(out, '}');
}

/* A repository that cannot be looked at is passed over. */
kt_status kt__pulls_search(const kt__config *config, kt__models *models, const char *words,
                           kt__buf *out, kt_error *err) {
    enum { MOST = 10 };
    const kt__store store = kt__model_name_store(config);
    kt__access access = {0};
    kt__hub_hit hits[MOST];
    size_t n = 0;
    kt_status status;
    const uint64_t memory = kt__hub_memory_left();
    const double rate = reading_rate(models);
    KT__TRY(kt__store_access(&store, false, &access, err));
    KT__TRY(kt__hub_search(&access, words, MOST, hits, &n, err));
    (void)kt__buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < n; i++) {
        kt__hub_suited s;
        kt_error why;
        if (kt__hub_suit(&access, hits[i].repo, memory, &s, &why) == KT_OK && s.tag)
            write_hit(out, &hits[i], &s, rate);
    }
    (void)kt__buf_puts(out, "]}");
out:
    kt__access_close(&access);
    return status;
}
