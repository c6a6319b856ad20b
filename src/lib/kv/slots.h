/* Slots of memory that pages have for a while.
 *
 * Owns: which page has which of a fixed number of slots, and who needs it to stay. A slot that
 * nobody holds stays with its page until another page needs one: first those that nobody will look
 * for, then the longest unused. Knows numbers only. Threads as kv/kv.h, its user's user. */
#ifndef KT_KV_SLOTS_H
#define KT_KV_SLOTS_H

#include <kentang.h>

enum { KT__NO_SLOT = -1 };

typedef struct kt__slots kt__slots;

kt_status kt__slots_create(int64_t n_pages, int32_t n_slots, kt__slots **out,
                           kt_error *err) KT_CHECKED;
void kt__slots_destroy(kt__slots *slots);

int32_t kt__slots_n(const kt__slots *slots);
int32_t kt__slot_of(const kt__slots *slots, int32_t page); /* or KT__NO_SLOT */
/* Slots that may be taken: free ones, and those that nobody holds. */
int32_t kt__slots_n_free(const kt__slots *slots);
/* There is one, and the page has none. Returns the page that lost its own for that, or -1. */
int32_t kt__slot_take(kt__slots *slots, int32_t page);
void kt__slot_drop(kt__slots *slots, int32_t page); /* if it has one */
/* The page's slot becomes that of another page, which has none. */
void kt__slot_move(kt__slots *slots, int32_t from, int32_t to);
/* A page with more holds than releases keeps its slot, or the next one that it is given. */
void kt__slot_hold(kt__slots *slots, int32_t page);
/* spent: nobody will look for what is in it. */
void kt__slot_let_go(kt__slots *slots, int32_t page, bool spent);
/* Of slots that another process leads, which takes and drops: the page has that slot now, or
 * (KT__NO_SLOT) none. false: there is no such slot. */
bool kt__slot_put(kt__slots *slots, int32_t page, int32_t slot);
bool kt__slot_is_held(const kt__slots *slots, int32_t page);

#endif
