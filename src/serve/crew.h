/* A few threads for what takes a while: reading requests, encoding prompts, loading models.
 *
 * Owns: the threads and a bounded queue. The event loop and HTTP's thread never wait for them. */
#ifndef KT_SERVE_CREW_H
#define KT_SERVE_CREW_H

#include <kentang.h>

typedef struct kt__crew kt__crew;

typedef struct kt__chore kt__chore;
struct kt__chore {
    void (*run)(kt__chore *chore);
    kt__chore *next;
};

kt_status KT_CHECKED kt__crew_create(int n_threads, int queue_max, kt__crew **out, kt_error *err);
/* false: the queue is full, or the crew is being freed. Any thread. */
bool kt__crew_add(kt__crew *crew, kt__chore *chore);
/* Runs what is queued, then ends the threads; nothing is taken any more. */
void kt__crew_stop(kt__crew *crew);
void kt__crew_free(kt__crew *crew);

#endif
