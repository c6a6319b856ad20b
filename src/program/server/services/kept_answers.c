#include "services/kept_answers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

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
