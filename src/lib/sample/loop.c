#include "sample/loop.h"

#include <string.h>

void kt__loop_init(kt__loop *loop, int32_t limit) {
    memset(loop, 0, sizeof *loop);
    loop->limit = limit;
}

/* same tokens that repeat, after the p of the first time */
static bool is_loop(const kt__loop *loop, int32_t p) {
    int64_t same = loop->same[p];
    return same + p >= loop->limit && same >= (int64_t)(KT__LOOP_TIMES - 1) * p;
}

bool kt__loop_push(kt__loop *loop, int32_t id) {
    bool found = false;
    if (!loop->limit) return false;
    int32_t n = loop->n < KT__LOOP_PERIOD ? (int32_t)loop->n : KT__LOOP_PERIOD;
    for (int32_t p = 1; p <= n; p++) {
        bool repeats = loop->last[(loop->n - (uint32_t)p) % KT__LOOP_PERIOD] == id;
        loop->same[p] = repeats ? loop->same[p] + 1 : 0;
        found |= repeats && is_loop(loop, p);
    }
    loop->last[loop->n++ % KT__LOOP_PERIOD] = id;
    return found;
}
