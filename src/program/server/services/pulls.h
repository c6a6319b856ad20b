/* Models that clients fetch from the hub, where the configuration lets them (http.pull).
 *
 * Owns: the one fetch that runs, on a thread of its own, and what is known of the last one. What is
 * fetched is served as soon as it is there. Clients give names of
 * the hub's and no addresses, and see no paths of this machine. Any thread. */
#ifndef KT_SERVICES_PULLS_H
#define KT_SERVICES_PULLS_H

#include "services/models.h"

typedef struct kt__pulls kt__pulls;

typedef enum kt__pull_stage {
    KT__PULL_FETCHING,
    KT__PULL_DONE,
    KT__PULL_STOPPED, /* what has come is kept for the next time */
    KT__PULL_FAILED
} kt__pull_stage;

typedef struct kt__pull_state {
    kt__pull_stage stage;
    uint64_t bytes_done, bytes; /* 0: not known yet */
    char digest[65];            /* SHA-256 of the file, where the hub says it; else "" */
    char asked[256];            /* the name that was given */
    char model[512];            /* DONE: what it is served as */
    char why[512];              /* FAILED: for the client */
} kt__pull_state;

/* config, log and models outlive it. */
kt_status KT_CHECKED kt__pulls_create(const kt__config *config, kt__slog *log, kt__models *models,
                                      kt__pulls **out, kt_error *err);
void kt__pulls_free(kt__pulls *pulls); /* stops what runs; or NULL */
/* Begins to fetch. KT_E_BUSY: one runs; KT_E_ARG: this is no name of the hub's. */
kt_status KT_CHECKED kt__pulls_start(kt__pulls *pulls, const char *name, kt_error *err);
bool kt__pulls_stop(kt__pulls *pulls); /* false: none runs */
/* The same for one who waits for its end: begins, or joins one of that name that runs. Until the last of them
 * has left no other one begins, so that kt__pulls_get is of this one. */
kt_status KT_CHECKED kt__pulls_follow(kt__pulls *pulls, const char *name, kt_error *err);
/* The last one to leave stops what still runs, unless it was begun by kt__pulls_start. */
void kt__pulls_leave(kt__pulls *pulls);
/* Models of the hub for some words, as JSON: of each repository the file that suits this machine. Waits for the hub. */
kt_status KT_CHECKED kt__pulls_search(const kt__config *config, kt__models *models,
                                      const char *words, kt__buf *out, kt_error *err);
bool kt__pulls_get(kt__pulls *pulls, kt__pull_state *out); /* false: there was none */

#endif
