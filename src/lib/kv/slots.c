#include "kv/slots.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"

struct kt__slots {
    int32_t n;
    int32_t *slot_of;   /* [n_pages] or KT__NO_SLOT */
    int32_t *n_holders; /* [n_pages] */
    int32_t *page_of;   /* [n] or KT__NO_SLOT */
    uint64_t *used_at;  /* [n] when it was taken or let go, by clock; 0: it is spent */
    uint64_t clock;
    int32_t *free; /* stack; the lowest numbers on top */
    int32_t n_free;
    int32_t n_loose; /* slots of pages that nobody holds */
};

kt_status kt__slots_create(int64_t n_pages, int32_t n_slots, kt__slots **out, kt_error *err) {
    size_t n = (size_t)n_slots + 1; /* none is no size to allocate */
    *out = NULL;
    kt__slots *slots = kt__calloc(1, sizeof *slots);
    if (!slots) return kt__fail_nomem(err, "the slots of K/V pages", sizeof *slots);
    slots->slot_of = kt__malloc((size_t)n_pages * sizeof *slots->slot_of);
    slots->n_holders = kt__calloc((size_t)n_pages, sizeof *slots->n_holders);
    slots->page_of = kt__calloc(n, sizeof *slots->page_of);
    slots->used_at = kt__calloc(n, sizeof *slots->used_at);
    slots->free = kt__calloc(n, sizeof *slots->free);
    if (!slots->slot_of || !slots->n_holders || !slots->page_of || !slots->used_at ||
        !slots->free) {
        kt__slots_destroy(slots);
        return kt__fail_nomem(err, "the lists of K/V slots", (size_t)n_pages * sizeof(int32_t));
    }
    for (int64_t i = 0; i < n_pages; i++) slots->slot_of[i] = KT__NO_SLOT;
    for (int32_t i = 0; i < n_slots; i++) {
        slots->page_of[i] = KT__NO_SLOT;
        slots->free[i] = n_slots - 1 - i;
    }
    slots->n = slots->n_free = n_slots;
    *out = slots;
    return KT_OK;
}

void kt__slots_destroy(kt__slots *slots) {
    if (!slots) return;
    kt__free(slots->slot_of);
    kt__free(slots->n_holders);
    kt__free(slots->page_of);
    kt__free(slots->used_at);
    kt__free(slots->free);
    kt__free(slots);
}

int32_t kt__slots_n(const kt__slots *slots) {
    return slots->n;
}

int32_t kt__slot_of(const kt__slots *slots, int32_t page) {
    return slots->slot_of[page];
}

int32_t kt__slots_n_free(const kt__slots *slots) {
    return slots->n_free + slots->n_loose;
}

static bool is_loose(const kt__slots *slots, int32_t page) {
    return slots->n_holders[page] == 0 && slots->slot_of[page] != KT__NO_SLOT;
}

/* Gives back the slot that is unused the longest. */
static int32_t drop_oldest(kt__slots *slots) {
    int32_t oldest = KT__NO_SLOT;
    for (int32_t i = 0; i < slots->n; i++) {
        if (slots->page_of[i] == KT__NO_SLOT || !is_loose(slots, slots->page_of[i])) continue;
        if (oldest == KT__NO_SLOT || slots->used_at[i] < slots->used_at[oldest]) oldest = i;
        if (slots->used_at[oldest] == 0) break;
    }
    int32_t page = slots->page_of[oldest];
    kt__slot_drop(slots, page);
    return page;
}

static void give_slot(kt__slots *slots, int32_t page, int32_t slot) {
    slots->slot_of[page] = slot;
    slots->page_of[slot] = page;
    slots->used_at[slot] = ++slots->clock;
    slots->n_loose += slots->n_holders[page] == 0;
}

int32_t kt__slot_take(kt__slots *slots, int32_t page) {
    int32_t loser = -1;
    assert(slots->slot_of[page] == KT__NO_SLOT && kt__slots_n_free(slots) > 0);
    if (slots->n_free == 0) loser = drop_oldest(slots);
    give_slot(slots, page, slots->free[--slots->n_free]);
    return loser;
}

void kt__slot_drop(kt__slots *slots, int32_t page) {
    int32_t slot = slots->slot_of[page];
    if (slot == KT__NO_SLOT) return;
    slots->n_loose -= slots->n_holders[page] == 0;
    slots->page_of[slot] = KT__NO_SLOT;
    slots->free[slots->n_free++] = slot;
    slots->slot_of[page] = KT__NO_SLOT;
}

void kt__slot_move(kt__slots *slots, int32_t from, int32_t to) {
    int32_t slot = slots->slot_of[from];
    assert(slot != KT__NO_SLOT && slots->slot_of[to] == KT__NO_SLOT);
    slots->n_loose -= slots->n_holders[from] == 0;
    slots->slot_of[from] = KT__NO_SLOT;
    give_slot(slots, to, slot);
}

void kt__slot_hold(kt__slots *slots, int32_t page) {
    slots->n_loose -= is_loose(slots, page);
    slots->n_holders[page]++;
}

void kt__slot_let_go(kt__slots *slots, int32_t page, bool spent) {
    assert(slots->n_holders[page] > 0);
    slots->n_holders[page]--;
    if (!is_loose(slots, page)) return;
    slots->n_loose++;
    slots->used_at[slots->slot_of[page]] = spent ? 0 : ++slots->clock;
}

bool kt__slot_is_held(const kt__slots *slots, int32_t page) {
    return slots->n_holders[page] > 0;
}

static void forget_slot(kt__slots *slots, int32_t page) {
    if (slots->slot_of[page] != KT__NO_SLOT) slots->page_of[slots->slot_of[page]] = KT__NO_SLOT;
    slots->slot_of[page] = KT__NO_SLOT;
}

bool kt__slot_put(kt__slots *slots, int32_t page, int32_t slot) {
    if (slot < KT__NO_SLOT || slot >= slots->n) return false;
    if (slot == slots->slot_of[page]) return true;
    forget_slot(slots, page);
    if (slot == KT__NO_SLOT) return true;
    if (slots->page_of[slot] != KT__NO_SLOT) forget_slot(slots, slots->page_of[slot]);
    slots->slot_of[page] = slot;
    slots->page_of[slot] = page;
    return true;
}
