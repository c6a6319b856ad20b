#include "serve/crew.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { MAX_THREADS = 16 };

struct kt__crew {
    pthread_mutex_t lock;
    pthread_cond_t work;
    kt__chore *first, *last;
    int n, queue_max, n_threads;
    bool quit;
    pthread_t threads[MAX_THREADS];
};

static void *labour(void *arg) {
    kt__crew *crew = arg;
    (void)pthread_setname_np(pthread_self(), "kentang-crew");
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (!crew->first && !crew->quit) pthread_cond_wait(&crew->work, &crew->lock);
        kt__chore *chore = crew->first;
        if (!chore) break;
        crew->first = chore->next;
        if (!crew->first) crew->last = NULL;
        crew->n--;
        pthread_mutex_unlock(&crew->lock);
        chore->run(chore);
        pthread_mutex_lock(&crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

kt_status kt__crew_create(int n_threads, int queue_max, kt__crew **out, kt_error *err) {
    *out = NULL;
    kt__crew *crew = kt__calloc(1, sizeof *crew);
    if (!crew) return kt__fail_nomem(err, "worker threads", sizeof *crew);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->work, NULL);
    crew->queue_max = queue_max;
    while (crew->n_threads < n_threads && crew->n_threads < MAX_THREADS) {
        int rc = pthread_create(&crew->threads[crew->n_threads], NULL, labour, crew);
        if (rc != 0) {
            kt__crew_free(crew);
            return kt__fail(err, KT_E_NOMEM, "cannot start a thread: %s", strerror(rc));
        }
        crew->n_threads++;
    }
    *out = crew;
    return KT_OK;
}

bool kt__crew_add(kt__crew *crew, kt__chore *chore) {
    pthread_mutex_lock(&crew->lock);
    bool taken = !crew->quit && crew->n < crew->queue_max;
    if (taken) {
        chore->next = NULL;
        if (crew->last) {
            crew->last->next = chore;
        } else {
            crew->first = chore;
        }
        crew->last = chore;
        crew->n++;
        pthread_cond_signal(&crew->work);
    }
    pthread_mutex_unlock(&crew->lock);
    return taken;
}

void kt__crew_stop(kt__crew *crew) {
    if (!crew) return;
    pthread_mutex_lock(&crew->lock);
    crew->quit = true;
    pthread_cond_broadcast(&crew->work);
    pthread_mutex_unlock(&crew->lock);
    for (int i = 0; i < crew->n_threads; i++) pthread_join(crew->threads[i], NULL);
    crew->n_threads = 0;
}

void kt__crew_free(kt__crew *crew) {
    if (!crew) return;
    kt__crew_stop(crew);
    pthread_cond_destroy(&crew->work);
    pthread_mutex_destroy(&crew->lock);
    kt__free(crew);
}
