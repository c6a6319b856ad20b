#include "services/llama_slots.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

typedef struct slot {
    int32_t *ids;
    size_t n;
    uint64_t used; /* the higher, the later */
    char owner[80];
} slot;

struct kt__llama_slots {
    pthread_mutex_t lock; /* a leaf */
    uint64_t n_used;
    int n;
    slot of[];
};

kt_status kt__llama_slots_create(int n, kt__llama_slots **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out + (size_t)n * sizeof(slot));
    if (!*out) return kt__fail_nomem(err, "slots", (size_t)n * sizeof(slot));
    (*out)->n = n;
    pthread_mutex_init(&(*out)->lock, NULL);
    return KT_OK;
}

void kt__llama_slots_free(kt__llama_slots *s) {
    if (!s) return;
    for (int i = 0; i < s->n; i++) kt__free(s->of[i].ids);
    pthread_mutex_destroy(&s->lock);
    kt__free(s);
}

static int longest_unused(const kt__llama_slots *s) {
    int found = 0;
    for (int i = 1; i < s->n; i++)
        if (s->of[i].used < s->of[found].used) found = i;
    return found;
}

static const char *owner_of(const char *client) {
    return strncmp(client, "key:", 4) ? "" : client;
}

static bool is_owner(const slot *of, const char *client) {
    return !strcmp(of->owner, owner_of(client));
}

void kt__llama_slots_put(kt__llama_slots *s, const char *client, int id, const int32_t *ids,
                         size_t n) {
    int32_t *copy = n ? kt__malloc(n * sizeof *copy) : NULL;
    if (copy) memcpy(copy, ids, n * sizeof *copy);
    pthread_mutex_lock(&s->lock);
    if (id < 0) id = longest_unused(s);
    if (id < s->n) {
        slot *to = &s->of[id];
        int32_t *before = to->ids;
        *to = (slot){.ids = copy, .n = copy ? n : 0, .used = ++s->n_used};
        snprintf(to->owner, sizeof to->owner, "%s", owner_of(client));
        copy = before;
    }
    pthread_mutex_unlock(&s->lock);
    kt__free(copy);
}

void kt__llama_slots_erase(kt__llama_slots *s, const char *client, int id) {
    int32_t *before = NULL;
    pthread_mutex_lock(&s->lock);
    if (id >= 0 && id < s->n && is_owner(&s->of[id], client)) {
        before = s->of[id].ids;
        s->of[id] = (slot){0};
    }
    pthread_mutex_unlock(&s->lock);
    kt__free(before);
}

kt_status kt__llama_slots_get(kt__llama_slots *s, const char *client, int id, int32_t **ids,
                              size_t *n, kt_error *err) {
    *ids = NULL;
    *n = 0;
    if (id < 0 || id >= s->n)
        return kt__fail_at(err, KT_E_ARG, "id_slot", UINT64_MAX,
                           "id_slot: there is no slot %d, only 0 to %d", id, s->n - 1);
    pthread_mutex_lock(&s->lock);
    const slot *from = &s->of[id];
    *n = is_owner(from, client) ? from->n : 0;
    *ids = *n ? kt__malloc(*n * sizeof **ids) : NULL;
    if (*ids) memcpy(*ids, from->ids, *n * sizeof **ids);
    pthread_mutex_unlock(&s->lock);
    return *n && !*ids ? kt__fail_nomem(err, "a slot", *n) : KT_OK;
}
