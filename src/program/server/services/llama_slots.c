#include "services/llama_slots.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct slot {
    int32_t *ids;
    size_t n;
    uint64_t used; /* the higher, the later */
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

void kt__llama_slots_put(kt__llama_slots *s, int id, const int32_t *ids, size_t n) {
    int32_t *copy = n ? kt__malloc(n * sizeof *copy) : NULL;
    if (copy) memcpy(copy, ids, n * sizeof *copy);
    pthread_mutex_lock(&s->lock);
    if (id < 0) id = longest_unused(s);
    if (id < s->n) {
        slot *to = &s->of[id];
        int32_t *before = to->ids;
        *to = (slot){copy, copy ? n : 0, ++s->n_used};
        copy = before;
    }
    pthread_mutex_unlock(&s->lock);
    kt__free(copy);
}

kt_status kt__llama_slots_get(kt__llama_slots *s, int id, int32_t **ids, size_t *n, kt_error *err) {
    *ids = NULL;
    *n = 0;
    if (id < 0 || id >= s->n)
        return kt__fail_at(err, KT_E_ARG, "id_slot", UINT64_MAX,
                           "id_slot: there is no slot %d, only 0 to %d", id, s->n - 1);
    pthread_mutex_lock(&s->lock);
    const slot *from = &s->of[id];
    *n = from->n;
    *ids = from->n ? kt__malloc(from->n * sizeof **ids) : NULL;
    if (*ids) memcpy(*ids, from->ids, from->n * sizeof **ids);
    pthread_mutex_unlock(&s->lock);
    return *n && !*ids ? kt__fail_nomem(err, "a slot", *n) : KT_OK;
}
