/* A lock that is given in the order of asking.
 *
 * Owns: the turns of those who compute on one engine: the thread that drives it, and calls on its
 * sequences. A plain mutex would let the driver, which asks again at once, keep it for ever. Not
 * recursive. */
#ifndef KT_ENGINE_TURN_H
#define KT_ENGINE_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct kt__turn {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next, serving;
} kt__turn;

static inline bool kt__turn_init(kt__turn *turn) {
    turn->next = turn->serving = 0;
    if (pthread_mutex_init(&turn->lock, NULL) != 0) return false;
    if (pthread_cond_init(&turn->changed, NULL) == 0) return true;
    pthread_mutex_destroy(&turn->lock);
    return false;
}

static inline void kt__turn_destroy(kt__turn *turn) {
    pthread_cond_destroy(&turn->changed);
    pthread_mutex_destroy(&turn->lock);
}

static inline void kt__turn_take(kt__turn *turn) {
    pthread_mutex_lock(&turn->lock);
    uint64_t mine = turn->next++;
    while (turn->serving != mine) pthread_cond_wait(&turn->changed, &turn->lock);
    pthread_mutex_unlock(&turn->lock);
}

static inline void kt__turn_give(kt__turn *turn) {
    pthread_mutex_lock(&turn->lock);
    turn->serving++;
    if (turn->serving != turn->next) pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

/* Lets those who wait go first. */
static inline void kt__turn_pass(kt__turn *turn) {
    pthread_mutex_lock(&turn->lock);
    if (turn->next != turn->serving + 1) {
        uint64_t mine = turn->next++;
        turn->serving++;
        pthread_cond_broadcast(&turn->changed);
        while (turn->serving != mine) pthread_cond_wait(&turn->changed, &turn->lock);
    }
    pthread_mutex_unlock(&turn->lock);
}

#endif
