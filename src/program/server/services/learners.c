#include "services/learners.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "base/thread.h"
#include "setup/learn_config.h"

enum { MOST_IDLE = 32 }; /* learners that stay open, with two descriptors each */

typedef struct opened_learner {
    struct opened_learner *next;
    char *name;
    kt_learner *learner;  /* NULL: closed, since it was idle */
    kt_learner_info info; /* as it was then */
    int n_users;
    uint64_t used;   /* of the table's counter */
    int64_t told_us; /* when a feedback was taken last; 0: never since the table was cleared */
} opened_learner;

struct kt__learner_table {
    pthread_mutex_t lock; /* also while one is opened: others wait for it */
    opened_learner *first;
    uint64_t n_used;
    /* of the model: looked up since the table was cleared */
    bool looked, presumed, unmeasurable;
    kt__note_verdict verdict;
    kt_probe_result probed;
    kt__learner_counts counts;
};

kt_status kt__learner_table_create(kt__learner_table **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "a list of learners", sizeof **out);
    pthread_mutex_init(&(*out)->lock, NULL);
    return KT_OK;
}

static void free_opened(opened_learner *o) {
    kt_learner_close(o->learner);
    kt__free(o->name);
    kt__free(o);
}

void kt__learner_table_clear(kt__learner_table *table) {
    pthread_mutex_lock(&table->lock);
    for (opened_learner *o = table->first, *next; o; o = next) {
        next = o->next;
        free_opened(o);
    }
    table->first = NULL;
    table->looked = table->unmeasurable = false;
    pthread_mutex_unlock(&table->lock);
}

void kt__learner_table_free(kt__learner_table *table) {
    if (!table) return;
    kt__learner_table_clear(table);
    pthread_mutex_destroy(&table->lock);
    kt__free(table);
}

static kt_status open_learner(opened_learner *o, const kt__config *config, kt_engine *engine,
                              const char *folder, kt_error *err) {
    const kt_learner_params params = kt__learn_params_of(config, folder);
    return kt_learner_open(engine, &params, &o->learner, err);
}

static kt_status open_first(kt__learner_table *table, const kt__config *config, kt_engine *engine,
                            const char *name, const char *folder, opened_learner **out,
                            kt_error *err) {
    opened_learner *o = kt__calloc(1, sizeof *o);
    if (!o) return kt__fail_nomem(err, "a learner", sizeof *o);
    o->name = kt__strdup(name);
    kt_status status = o->name ? open_learner(o, config, engine, folder, err)
                               : kt__fail_nomem(err, "a learner", 0);
    if (status != KT_OK) {
        free_opened(o);
        return status;
    }
    o->next = table->first;
    table->first = o;
    *out = o;
    return KT_OK;
}

/* The one used longest ago of those that nobody uses, where there are more of them than may be. */
static opened_learner *one_too_many(const kt__learner_table *table) {
    opened_learner *oldest = NULL;
    int n = 0;
    for (opened_learner *o = table->first; o; o = o->next) {
        if (!o->learner || o->n_users) continue;
        if (!oldest || o->used < oldest->used) oldest = o;
        n++;
    }
    return n > MOST_IDLE ? oldest : NULL;
}

static void close_idle(kt__learner_table *table) {
    for (opened_learner *o; (o = one_too_many(table)) != NULL;) {
        kt_learner_get_info(o->learner, &o->info);
        kt_learner_close(o->learner);
        o->learner = NULL;
    }
}

static void get_info(const opened_learner *o, kt_learner_info *out) {
    if (o->learner)
        kt_learner_get_info(o->learner, out);
    else
        *out = o->info;
}

kt_status kt__learner_table_get(kt__learner_table *table, const kt__config *config,
                                const char *model_name, kt_engine *engine, const char *name,
                                bool make, kt_learner **out, kt_error *err) {
    char folder[4096];
    *out = NULL;
    kt_status status = kt__namespace_folder(config, model_name, name, folder, sizeof folder, err);
    if (status != KT_OK) return status;
    pthread_mutex_lock(&table->lock);
    opened_learner *o = table->first;
    while (o && strcmp(o->name, name) != 0) o = o->next;
    bool there = o || kt__file_exists(folder);
    if (!there && make) KT__TRY(kt__namespace_check_new(config, model_name, name, err));
    if (o && !o->learner)
        KT__TRY(open_learner(o, config, engine, folder, err));
    else if (!o && (there || make))
        KT__TRY(open_first(table, config, engine, name, folder, &o, err));
    if (o) {
        o->n_users++;
        *out = o->learner;
    }
out:
    pthread_mutex_unlock(&table->lock);
    return status;
}

static opened_learner *find_opened(const kt__learner_table *table, const kt_learner *learner) {
    opened_learner *o = table->first;
    while (o && o->learner != learner) o = o->next;
    return o;
}

void kt__learner_table_done(kt__learner_table *table, const kt_learner *learner) {
    if (!learner) return;
    pthread_mutex_lock(&table->lock);
    opened_learner *o = find_opened(table, learner);
    if (o) {
        o->n_users--;
        o->used = ++table->n_used;
    }
    close_idle(table);
    pthread_mutex_unlock(&table->lock);
}

void kt__learner_table_count(kt__learner_table *table, const kt_learner *learner, kt_status status,
                             const kt_feedback_result *result) {
    pthread_mutex_lock(&table->lock);
    opened_learner *o = find_opened(table, learner);
    if (o && status == KT_OK) o->told_us = kt__now_us();
    kt__learner_counts *c = &table->counts;
    c->n_taken += status == KT_OK;
    c->n_refused += status != KT_OK;
    c->n_pairs += (uint64_t)result->n_pairs;
    c->keys_us += (uint64_t)result->keys_us;
    c->update_us += (uint64_t)result->update_us;
    pthread_mutex_unlock(&table->lock);
}

/* The lock is held. Where it is looked up the log says what is so. */
static void look_up_verdict(kt__learner_table *table, const kt__config *config,
                            const char *model_name, const kt_model *model, kt__slog *log) {
    char said[256];
    if (table->looked) return;
    table->looked = true;
    table->verdict = kt__note_probe_read(config, model_name, model, &table->probed);
    table->presumed = kt__note_presumed(model);
    kt__note_verdict_say(table->verdict, table->presumed, &table->probed, said, sizeof said);
    kt__slog_line(log, KT_LOG_INFO, "learning: %s: %s", model_name, said);
}

kt__notes_mode kt__learner_table_notes(kt__learner_table *table, const kt__config *config,
                                       const char *model_name, const kt_model *model,
                                       kt__slog *log) {
    kt__notes_mode set = kt__learn_notes_of(config);
    if (set != KT__NOTES_AUTO) return set;
    pthread_mutex_lock(&table->lock);
    look_up_verdict(table, config, model_name, model, log);
    kt__notes_mode mode = kt__notes_mode_of(table->verdict, table->presumed);
    pthread_mutex_unlock(&table->lock);
    return mode;
}

bool kt__learner_table_settled(kt__learner_table *table, const kt__config *config) {
    if (kt__learn_notes_of(config) != KT__NOTES_AUTO) return true;
    pthread_mutex_lock(&table->lock);
    bool known = table->verdict != KT__NOTES_UNKNOWN || table->unmeasurable;
    bool settled = table->looked && known;
    pthread_mutex_unlock(&table->lock);
    return settled;
}

bool kt__learner_table_unprobed(kt__learner_table *table, const kt__config *config,
                                const char *model_name, const kt_model *model, kt__slog *log,
                                kt_probe_result *so_far) {
    if (kt__learn_notes_of(config) != KT__NOTES_AUTO) return false;
    pthread_mutex_lock(&table->lock);
    look_up_verdict(table, config, model_name, model, log);
    bool unknown = table->verdict == KT__NOTES_UNKNOWN && !table->unmeasurable;
    *so_far = table->probed;
    pthread_mutex_unlock(&table->lock);
    return unknown;
}

void kt__learner_table_probed(kt__learner_table *table, const char *model_name,
                              const kt_probe_result *result, kt__slog *log) {
    char said[256];
    pthread_mutex_lock(&table->lock);
    table->probed = *result;
    if (result->whole) table->verdict = kt__note_verdict_of(result);
    kt__note_verdict_say(table->verdict, table->presumed, result, said, sizeof said);
    pthread_mutex_unlock(&table->lock);
    if (result->whole) kt__slog_line(log, KT_LOG_INFO, "learning: %s: %s", model_name, said);
}

void kt__learner_table_unmeasurable(kt__learner_table *table) {
    pthread_mutex_lock(&table->lock);
    table->unmeasurable = true;
    pthread_mutex_unlock(&table->lock);
}

bool kt__learner_table_write_verdict(kt__learner_table *table, kt__buf *out) {
    static const char *const words[] = {[KT__NOTES_UNKNOWN] = "measuring",
                                        [KT__NOTES_USED] = "used",
                                        [KT__NOTES_JUDGED] = "judged",
                                        [KT__NOTES_NOT_USED] = "not_used"};
    pthread_mutex_lock(&table->lock);
    const kt_probe_result p = table->probed;
    kt__note_verdict verdict = table->verdict;
    bool looked = table->looked, presumed = table->presumed;
    pthread_mutex_unlock(&table->lock);
    if (!looked) return false;
    bool enters = kt__notes_mode_of(verdict, presumed) == KT__NOTES_IN;
    (void)kt__buf_printf(out,
                         "\"verdict\":\"%s\",\"enters\":%s,\"of\":%d,\"asked\":%d,\"used\":%d,"
                         "\"leaked\":%d,\"same\":%d,\"same_wrong\":%d",
                         words[verdict], enters ? "true" : "false", (int)KT_PROBE_NOTES,
                         (int)p.n_asked, (int)p.n_used, (int)p.n_leaked, (int)p.n_same,
                         (int)p.n_same_wrong);
    return true;
}

void kt__learner_table_count_notes(kt__learner_table *table, size_t n) {
    pthread_mutex_lock(&table->lock);
    table->counts.n_noted++;
    table->counts.n_notes += n;
    pthread_mutex_unlock(&table->lock);
}

void kt__learner_table_begin_training(kt__learner_table *table) {
    pthread_mutex_lock(&table->lock);
    table->counts.n_training++;
    pthread_mutex_unlock(&table->lock);
}

void kt__learner_table_count_training(kt__learner_table *table, kt_status status,
                                      const kt_train_result *result, int64_t us) {
    pthread_mutex_lock(&table->lock);
    kt__learner_counts *c = &table->counts;
    c->n_training--;
    c->n_published += status == KT_OK && result->published;
    c->n_not_published += status == KT_OK && !result->published;
    c->n_failed += status != KT_OK;
    c->train_us += (uint64_t)us;
    pthread_mutex_unlock(&table->lock);
}

uint64_t kt__learner_table_pending(kt__learner_table *table) {
    kt_learner_info info;
    uint64_t n = 0;
    pthread_mutex_lock(&table->lock);
    for (opened_learner *o = table->first; o; o = o->next) {
        get_info(o, &info);
        n += info.n_pending;
    }
    pthread_mutex_unlock(&table->lock);
    return n;
}

void kt__learner_table_counts(kt__learner_table *table, kt__learner_counts *out) {
    pthread_mutex_lock(&table->lock);
    *out = table->counts;
    pthread_mutex_unlock(&table->lock);
}

bool kt__learner_table_at(kt__learner_table *table, size_t index, char *name, size_t size,
                          kt_learner_info *out, int64_t *quiet_us) {
    pthread_mutex_lock(&table->lock);
    opened_learner *o = table->first;
    for (size_t i = 0; o && i < index; i++) o = o->next;
    if (o) {
        snprintf(name, size, "%s", o->name);
        get_info(o, out);
        if (quiet_us) *quiet_us = o->told_us ? kt__now_us() - o->told_us : INT64_MAX;
    }
    pthread_mutex_unlock(&table->lock);
    return o != NULL;
}

/* ---- kept answers ---- */

typedef struct kept_entry {
    kt__kept_answer answer; /* first member */
    atomic_int n_holders;
    struct kept_entry *next; /* a later one */
    int64_t until_us;
    size_t bytes;
} kept_entry;

struct kt__kept_answers {
    pthread_mutex_t lock;
    uint64_t max_bytes, bytes, n;
    kept_entry *first, *last; /* the oldest first */
};

kt_status kt__kept_answers_create(uint64_t max_bytes, kt__kept_answers **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "a list of answers", sizeof **out);
    pthread_mutex_init(&(*out)->lock, NULL);
    (*out)->max_bytes = max_bytes;
    return KT_OK;
}

void kt__kept_answer_release(kt__kept_answer *answer) {
    kept_entry *e = (kept_entry *)(void *)answer;
    if (e && atomic_fetch_sub(&e->n_holders, 1) == 1) kt__free(e);
}

static void drop_first(kt__kept_answers *k) {
    kept_entry *e = k->first;
    k->first = e->next;
    if (!k->first) k->last = NULL;
    k->bytes -= e->bytes;
    k->n--;
    kt__kept_answer_release(&e->answer);
}

/* All keep times are nearly alike, so the oldest goes first. The lock is held. */
static void drop_old(kt__kept_answers *k, size_t room) {
    int64_t now_us = kt__now_us();
    while (k->first && (k->first->until_us < now_us || k->bytes + room > k->max_bytes))
        drop_first(k);
}

void kt__kept_answers_free(kt__kept_answers *k) {
    if (!k) return;
    while (k->first) drop_first(k);
    pthread_mutex_destroy(&k->lock);
    kt__free(k);
}

static void *copy_behind(char **at, const void *from, size_t n) {
    void *to = *at;
    if (n) memcpy(to, from, n);
    *at += n;
    return to;
}

static kept_entry *copy_entry(const kt__kept_answer *answer, size_t d_model) {
    const kt_kept *from = &answer->kept;
    size_t n_prompt = from->n_prompt * sizeof *from->prompt;
    size_t n_answer = from->n_answer * sizeof *from->answer, n_keys = from->n_keys * d_model;
    size_t bytes = sizeof(kept_entry) + n_prompt + n_answer + n_keys + from->n_question;
    kept_entry *e = kt__malloc(bytes);
    if (!e) return NULL;
    char *at = (char *)(e + 1);
    *e = (kept_entry){.answer = *answer, .bytes = bytes};
    atomic_init(&e->n_holders, 1);
    e->answer.kept.prompt = copy_behind(&at, from->prompt, n_prompt);
    e->answer.kept.answer = copy_behind(&at, from->answer, n_answer);
    if (from->keys) e->answer.kept.keys = copy_behind(&at, from->keys, n_keys);
    if (from->question)
        e->answer.kept.question = copy_behind(&at, from->question, from->n_question);
    return e;
}

void kt__kept_answers_add(kt__kept_answers *k, const kt__kept_answer *answer, size_t d_model,
                          int64_t keep_s) {
    kept_entry *e = copy_entry(answer, d_model);
    if (!e) return;
    e->until_us = kt__now_us() + keep_s * 1000000;
    pthread_mutex_lock(&k->lock);
    drop_old(k, e->bytes);
    bool fits = k->bytes + e->bytes <= k->max_bytes;
    if (fits) {
        if (k->last)
            k->last->next = e;
        else
            k->first = e;
        k->last = e;
        k->bytes += e->bytes;
        k->n++;
    }
    pthread_mutex_unlock(&k->lock);
    if (!fits) kt__kept_answer_release(&e->answer);
}

static bool is_answer(const kt__kept_answer *a, const char *client, const char *id) {
    bool named = !strcmp(a->id, id) || (a->name[0] && !strcmp(a->name, id));
    return named && !strcmp(a->client, client);
}

int32_t kt__kept_answers_count(kt__kept_answers *k, const char *client, const char *id) {
    int32_t n = 0;
    pthread_mutex_lock(&k->lock);
    for (const kept_entry *e = k->first; e; e = e->next) {
        if (is_answer(&e->answer, client, id) && e->answer.choice >= n) n = e->answer.choice + 1;
    }
    pthread_mutex_unlock(&k->lock);
    return n;
}

kt__kept_answer *kt__kept_answers_find(kt__kept_answers *k, const char *client, const char *id,
                                       int32_t choice) {
    kept_entry *found = NULL;
    pthread_mutex_lock(&k->lock);
    drop_old(k, 0);
    for (kept_entry *e = k->first; e; e = e->next) {
        const kt__kept_answer *a = &e->answer;
        if (is_answer(a, client, id) && a->choice == choice) found = e;
    }
    if (found) atomic_fetch_add(&found->n_holders, 1);
    pthread_mutex_unlock(&k->lock);
    return found ? &found->answer : NULL;
}
