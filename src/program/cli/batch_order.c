#include "cli/batch_order.h"

#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

enum { MOST_WAITING = 4096, MOST_BYTES = 64 << 20 };

void kt__batch_order_free(kt__batch_order *o) {
    for (size_t i = o->first; i < o->end; i++) kt__buf_free(&o->items[i].line);
    kt__free(o->items);
    *o = (kt__batch_order){0};
}

/* What was written makes room, once it is the greater part. */
static void drop_written(kt__batch_order *o) {
    size_t n = o->end - o->first;
    if (o->first < n + 64) return;
    memmove(o->items, o->items + o->first, n * sizeof *o->items);
    o->first = 0;
    o->end = n;
}

bool kt__batch_order_expect(kt__batch_order *o, uint64_t number) {
    drop_written(o);
    if (!kt__vec_reserve(o->items, o->cap, o->end + 1)) return false;
    o->items[o->end++] = (kt__batch_place_held){.number = number};
    return true;
}

static kt__batch_place_held *place_of_number(kt__batch_order *o, uint64_t number) {
    size_t low = o->first, high = o->end;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (o->items[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low < o->end && o->items[low].number == number ? &o->items[low] : NULL;
}

void kt__batch_order_put(kt__batch_order *o, uint64_t number, kt__buf *line) {
    kt__batch_place_held *place = place_of_number(o, number);
    if (!place || place->done) return;
    place->done = true;
    place->line = *line;
    o->n_bytes += line->len;
    kt__buf_init(line, line->max);
}

bool kt__batch_order_next(kt__batch_order *o, kt__buf *line) {
    if (o->first == o->end || !o->items[o->first].done) return false;
    *line = o->items[o->first++].line;
    o->n_bytes -= line->len;
    return true;
}

size_t kt__batch_order_waiting(const kt__batch_order *o) {
    size_t n = 0;
    for (size_t i = o->first; i < o->end; i++) n += o->items[i].done;
    return n;
}

bool kt__batch_order_is_full(const kt__batch_order *o) {
    return o->end - o->first >= MOST_WAITING || o->n_bytes >= MOST_BYTES;
}
