/* What carries bytes between the processes of a job: a table of calls that a shared object of its own has.
 *
 * Owns: the table's layout, all that libkentang and the transport know of each other. A call that fails returns
 * false with one line in why[KT__WHY_BYTES]. One thread calls at a time. */
#ifndef KT_PEERS_TRANSPORT_H
#define KT_PEERS_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

enum { KT__TRANSPORT_VERSION = 3, KT__WHY_BYTES = 256 };

typedef struct kt__transport {
    int version;
    /* Joins the job that a launcher started. deadline_s: how long another process may keep this one waiting
     * within a batch. */
    bool (*start)(void **state, int deadline_s, char *why);
    int (*rank)(const void *state);
    int (*size)(const void *state);
    const char *(*host)(const void *state, int rank);
    /* Each process has bytes at[rank]..at[rank + 1] of buf, and gets those of all. */
    bool (*gather)(void *state, void *buf, const size_t *at, char *why);
    /* Process 0 has buf[n]; the others get it, however long it takes until it is sent. */
    bool (*broadcast)(void *state, void *buf, size_t n, char *why);
    /* A letter to one process: a copy, which is under way when this returns. */
    bool (*post)(void *state, int rank, const void *buf, size_t n, char *why);
    /* *rank, *n: of the next letter that has come; -1: none has. */
    bool (*look)(void *state, int *rank, size_t *n, char *why);
    /* That letter, of n bytes. */
    bool (*take)(void *state, int rank, void *buf, size_t n, char *why);
    /* From now on no other process may keep this one waiting for longer. Any thread, at any time. */
    void (*hurry)(void *state, int ms);
    /* clean: once all have come here; else the job ends at once. */
    void (*end)(void *state, bool clean);
} kt__transport;

/* The symbol that the shared object exports. */
#define KT__TRANSPORT_SYMBOL "kt__transport_table"
typedef const kt__transport *kt__transport_fn(void);

#endif
