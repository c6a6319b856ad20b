#include "sched/sched_clients.h"

#include <string.h>

#include "base/alloc.h"

enum { CLIENTS_KEPT = 256 }; /* remembered after their last task */

static uint64_t least_served(const kt__sched *s) {
    uint64_t least = UINT64_MAX;
    for (const kt__client *c = s->clients; c; c = c->next) {
        if (c->n_tasks > 0 && c->served < least) least = c->served;
    }
    return least == UINT64_MAX ? 0 : least;
}

/* Forgets the client without tasks that was served least. */
static void forget_client(kt__sched *s) {
    kt__client **worst = NULL;
    for (kt__client **at = &s->clients; *at; at = &(*at)->next) {
        bool nameless = !(*at)->name[0]; /* tasks without a client need it */
        if (!nameless && (*at)->n_tasks == 0 && (!worst || (*at)->served <= (*worst)->served))
            worst = at;
    }
    if (!worst) return;
    kt__client *gone = *worst;
    *worst = gone->next;
    kt__free(gone);
    s->n_clients--;
}

static kt__client *find_client(const kt__sched *s, const char *name) {
    kt__client *c = s->clients;
    while (c && strcmp(c->name, name) != 0) c = c->next;
    return c;
}

static void add_client(kt__sched *s, kt__client *c) {
    if (s->n_clients >= CLIENTS_KEPT) forget_client(s);
    c->key = kt__client_key(c->name);
    c->served = 0;
    c->n_tasks = c->n_running = 0;
    c->next = s->clients;
    s->clients = c;
    s->n_clients++;
}

bool kt__sched_add_nameless_client(kt__sched *s) {
    kt__client *c = kt__calloc(1, sizeof *c + 1);
    if (c) add_client(s, c);
    return c != NULL;
}

void kt__sched_join_client(kt__sched *s, kt__task *task) {
    kt__client *c = find_client(s, task->client ? task->client->name : "");
    if (!c) {
        c = task->client;
        add_client(s, c);
    } else {
        kt__free(task->client);
        task->client = c;
    }
    if (c->n_tasks == 0) {
        uint64_t least = least_served(s);
        if (c->served < least) c->served = least;
    }
    c->n_tasks++;
}

void kt__sched_free_clients(kt__sched *s) {
    for (kt__client *c = s->clients; c;) {
        kt__client *next = c->next;
        kt__free(c);
        c = next;
    }
    s->clients = NULL;
}
