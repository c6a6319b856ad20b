#include "requests/request.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

static kt_status init_lock(kt__submitted *sub, kt_error *err) {
    if (pthread_mutex_init(&sub->lock, NULL) != 0) return kt__fail_nomem(err, "a request", 0);
    if (kt__cond_init(&sub->changed) == 0) return KT_OK;
    pthread_mutex_destroy(&sub->lock);
    return kt__fail_nomem(err, "a request", 0);
}

kt_status kt__submitted_new(kt_engine *engine, int n_choices, kt__submitted **out, kt_error *err) {
    *out = NULL;
    kt__submitted *sub = kt__calloc(1, sizeof *sub + (size_t)n_choices * sizeof sub->choices[0]);
    if (!sub) return kt__fail_nomem(err, "a request", sizeof *sub);
    kt_status status = init_lock(sub, err);
    if (status != KT_OK) {
        kt__free(sub);
        return status;
    }
    sub->req.engine = engine;
    sub->n_choices = sub->n_open = n_choices;
    *out = sub;
    return KT_OK;
}

static void free_choice(kt__choice *c) {
    assert(c->own.table.n_pages == 0);
    kt__free(c->own.table.pages);
    kt__draft_seq_free(&c->own.draft);
    kt__free(c->own.tokens);
    kt__free(c->key);
    kt__free(c->kept);
    kt__answer_free(&c->answer);
    /* else it is the scheduler's */
    if (c->work.task.state == KT__TASK_NEW) kt__free(c->work.task.client);
}

void kt__submitted_free(kt__submitted *sub) {
    if (!sub) return;
    for (int i = 0; i < sub->n_choices; i++) free_choice(&sub->choices[i]);
    for (int i = 0; sub->ring && i < sub->ring_cap; i++) {
        kt__buf_free(&sub->ring[i].text);
        kt__free(sub->ring[i].top);
        kt__free(sub->ring[i].parts);
        kt__buf_free(&sub->ring[i].part_text);
    }
    kt__constraints_give_back(sub->req.engine, sub->constraint);
    pthread_cond_destroy(&sub->changed);
    pthread_mutex_destroy(&sub->lock);
    kt__free(sub->ring);
    kt__free(sub->embedding);
    kt__free(sub->prompt);
    kt__free(sub->texts);
    kt__free(sub->plain);
    kt__free(sub->question);
    kt__free(sub->recited);
    kt__free((void *)(uintptr_t)sub->scope.opened);
    kt__conversation_free(sub->conversation);
    kt__pictures_free(&sub->pictures);
    kt__adapters_release(sub->adapters);
    kt_recall_close(sub->recall);
    kt__free(sub);
}
