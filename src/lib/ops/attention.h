/* Which positions a query sees.
 *
 * Owns: that alone, for both ways of computing attention. Any thread. */
#ifndef KT_OPS_ATTENTION_H
#define KT_OPS_ATTENTION_H

#include "ops/ops.h"

/* The first position that a query at pos sees. */
static inline int64_t kt__attention_first(const kt__attention *d, const kt__seg *seg, int64_t pos) {
    if (d->chunks && d->window > 0) return pos - pos % d->window;
    int64_t back = d->both_ways ? d->window / 2 : d->window - 1;
    return d->window > 0 && pos > back ? pos - back : seg->sees_from;
}

/* After the last position that it sees. */
static inline int64_t kt__attention_end(const kt__attention *d, const kt__seg *seg, int64_t pos) {
    if (!d->both_ways) {
        for (int i = 0; i < seg->n_span && seg->spans[i].from <= pos; i++)
            if (pos < seg->spans[i].to) return seg->spans[i].to;
        return d->not_own ? pos : pos + 1;
    }
    int64_t end = seg->pos0 + seg->n_tok;
    return d->window > 0 && pos + d->window / 2 + 1 < end ? pos + d->window / 2 + 1 : end;
}

#endif
