#include "services/learners.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "setup/learn_config.h"
#include "setup/namespaces.h"

typedef struct opened_learner {
    struct opened_learner *next;
    char *name;
    kt_learner *learner;
} opened_learner;

struct kt__learner_table {
    pthread_mutex_t lock; /* also while one is opened: others wait for it */
    opened_learner *first;
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
    pthread_mutex_unlock(&table->lock);
}

void kt__learner_table_free(kt__learner_table *table) {
    if (!table) return;
    kt__learner_table_clear(table);
    pthread_mutex_destroy(&table->lock);
    kt__free(table);
}

static kt_status open_learner(kt__learner_table *table, const kt__config *config, kt_engine *engine,
                              const char *name, const char *folder, kt_learner **out,
                              kt_error *err) {
    const kt_learner_params params = {
        .dir = folder,
        .max_entries = (uint64_t)config->learn_entries,
        .max_bytes = config->learn_bytes,
        .quality_threshold = kt__learn_plan_of(config).quality_threshold,
        .recall = {.n_max = (int32_t)config->learn_recall}};
    opened_learner *o = kt__calloc(1, sizeof *o);
    kt_status status = o ? KT_OK : kt__fail_nomem(err, "a learner", sizeof *o);
    if (status != KT_OK) return status;
    o->name = kt__strdup(name);
    status = o->name ? kt_learner_open(engine, &params, &o->learner, err)
                     : kt__fail_nomem(err, "a learner", 0);
    if (status != KT_OK) {
        free_opened(o);
        return status;
    }
    o->next = table->first;
    table->first = o;
    *out = o->learner;
    return KT_OK;
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
    if (o)
        *out = o->learner;
    else if (make || access(folder, F_OK) == 0)
        status = open_learner(table, config, engine, name, folder, out, err);
    pthread_mutex_unlock(&table->lock);
    return status;
}

void kt__learner_table_count(kt__learner_table *table, kt_status status,
                             const kt_feedback_result *result) {
    pthread_mutex_lock(&table->lock);
    kt__learner_counts *c = &table->counts;
    c->n_taken += status == KT_OK;
    c->n_refused += status != KT_OK;
    c->n_pairs += (uint64_t)result->n_pairs;
    c->keys_us += (uint64_t)result->keys_us;
    c->update_us += (uint64_t)result->update_us;
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
        kt_learner_get_info(o->learner, &info);
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
                          kt_learner_info *out) {
    pthread_mutex_lock(&table->lock);
    opened_learner *o = table->first;
    for (size_t i = 0; o && i < index; i++) o = o->next;
    if (o) {
        snprintf(name, size, "%s", o->name);
        kt_learner_get_info(o->learner, out);
    }
    pthread_mutex_unlock(&table->lock);
    return o != NULL;
}
