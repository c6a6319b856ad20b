#include "base/ticket.h"

bool kt__ticket_init(kt__ticket *ticket) {
    ticket->next = ticket->serving = 0;
    if (pthread_mutex_init(&ticket->mutex, NULL) != 0) return false;
    if (pthread_cond_init(&ticket->changed, NULL) == 0) return true;
    pthread_mutex_destroy(&ticket->mutex);
    return false;
}

void kt__ticket_destroy(kt__ticket *ticket) {
    pthread_cond_destroy(&ticket->changed);
    pthread_mutex_destroy(&ticket->mutex);
}

/* With the mutex held. */
static void wait_for_turn(kt__ticket *ticket, uint64_t mine) {
    while (ticket->serving != mine) pthread_cond_wait(&ticket->changed, &ticket->mutex);
}

void kt__ticket_lock(kt__ticket *ticket) {
    pthread_mutex_lock(&ticket->mutex);
    wait_for_turn(ticket, ticket->next++);
    pthread_mutex_unlock(&ticket->mutex);
}

void kt__ticket_unlock(kt__ticket *ticket) {
    pthread_mutex_lock(&ticket->mutex);
    ticket->serving++;
    if (ticket->serving != ticket->next) pthread_cond_broadcast(&ticket->changed);
    pthread_mutex_unlock(&ticket->mutex);
}

void kt__ticket_yield(kt__ticket *ticket) {
    pthread_mutex_lock(&ticket->mutex);
    if (ticket->next != ticket->serving + 1) {
        uint64_t mine = ticket->next++;
        ticket->serving++;
        pthread_cond_broadcast(&ticket->changed);
        wait_for_turn(ticket, mine);
    }
    pthread_mutex_unlock(&ticket->mutex);
}
