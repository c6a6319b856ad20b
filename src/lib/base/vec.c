#include "base/vec.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

enum { FIRST_ITEMS = 8 };

/* items: the address of a pointer to any type, hence the copies. */
bool kt__vec_reserve_bytes(void *items, size_t *cap, size_t need, size_t item_bytes) {
    void *old, *grown;
    size_t more = *cap > SIZE_MAX / 2 ? need : *cap * 2;
    if (need <= *cap) return true;
    if (more < FIRST_ITEMS) more = FIRST_ITEMS;
    if (more < need) more = need;
    memcpy(&old, items, sizeof old);
    grown = kt__realloc_array(old, more, item_bytes);
    if (!grown) return false;
    memcpy(items, &grown, sizeof grown);
    *cap = more;
    return true;
}
