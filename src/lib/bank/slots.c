#include "bank/slots.h"

#include "base/alloc.h"

enum { FIRST_SLOTS = 64 };

void kt__slots_free(kt__slots *s) {
    kt__free(s->slots);
    *s = (kt__slots){0};
}

/* Where it is, or where it would be. */
static kt__slot *slot_of(const kt__slots *s, uint64_t hash) {
    size_t at = (size_t)hash & (s->n_slots - 1);
    while (s->slots[at].value && s->slots[at].hash != hash) at = (at + 1) & (s->n_slots - 1);
    return &s->slots[at];
}

bool kt__slots_find(const kt__slots *s, uint64_t hash, uint32_t *value) {
    if (!s->n_slots) return false;
    const kt__slot *slot = slot_of(s, hash);
    if (!slot->value) return false;
    *value = slot->value - 1;
    return true;
}

bool kt__slots_reserve(kt__slots *s) {
    if (s->n_slots && s->n + 1 <= s->n_slots / 2) return true;
    kt__slots bigger = {.n_slots = s->n_slots ? 2 * s->n_slots : FIRST_SLOTS, .n = s->n};
    bigger.slots = kt__calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots) return false;
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->slots[i].value) *slot_of(&bigger, s->slots[i].hash) = s->slots[i];
    kt__free(s->slots);
    *s = bigger;
    return true;
}

void kt__slots_put(kt__slots *s, uint64_t hash, uint32_t value) {
    kt__slot *slot = slot_of(s, hash);
    s->n += !slot->value;
    *slot = (kt__slot){hash, value + 1};
}
