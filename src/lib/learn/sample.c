#include "learn/sample.h"

#include <math.h>

#include "base/error.h"
#include "ops/low_rank.h"

void kt__learn_defaults(kt__learn_settings *s) {
    *s = (kt__learn_settings){
        .where = KT__LEARN_ALL,
        .rank = 8,
        .alpha = 16.0f,
        .n_step = 150,
        .batch = 12,
        .batch_replay = 5,
        .batch_neighbour = 6,
        .replay_weight = 5.0f,
        .neighbour_weight = 5.0f,
        .seed = 1,
        .held_out = 0.2,
        .anchor_max = 0.01,
        .shrink = true,
        .leak_max = 0.4,
        .sibling_part = 0.2,
        .recall_min = 0.95,
    };
}

typedef struct bound {
    const char *name;
    double value, low, high;
} bound;

kt_status kt__learn_check(const kt__learn_settings *s, kt_error *err) {
    const bound bounds[] = {
        {"where", (double)s->where, KT__LEARN_HIDDEN, KT__LEARN_ALL},
        {"rank", s->rank, 1, KT__LORA_U_MAX / 3}, /* three sites share an input */
        {"alpha", (double)s->alpha, 1e-6, 1e6},
        {"steps", s->n_step, 1, 1e6},
        {"rate", (double)s->rate, 0.0, 1.0},
        {"batch", s->batch, 1, 4096},
        {"batch of replay", s->batch_replay, 0, 4096},
        {"batch of neighbours", s->batch_neighbour, 0, 4096},
        {"replay weight", (double)s->replay_weight, 0.0, 1000.0},
        {"neighbours' weight", (double)s->neighbour_weight, 0.0, 1000.0},
        {"ewc_lambda", (double)s->ewc_lambda, 0.0, 1e9},
        {"held-out share", s->held_out, 0.0, 0.9},
        {"anchor's limit", s->anchor_max, 0.0, 1e6},
        {"leak's limit", s->leak_max, 0.0, 1.0},
        {"siblings' share", s->sibling_part, 0.0, 1.0},
        {"recall", s->recall_min, 0.0, 1.0},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const bound *b = &bounds[i];
        if (b->value >= b->low && b->value <= b->high) continue; /* NaN is in no range */
        return kt__fail(err, KT_E_ARG, "learning: %s is %g, it must be from %g to %g", b->name,
                        b->value, b->low, b->high);
    }
    return KT_OK;
}

static kt_status check_sample(const kt__sample *s, size_t i, int n_vocab, int n_max,
                              kt_error *err) {
    int masked = 0;
    if (s->n < 2 || s->n > n_max)
        return kt__fail(err, KT_E_ARG, "sample %zu has %d tokens; 2 to %d are possible", i, s->n,
                        n_max);
    if ((unsigned)s->kind >= KT__SAMPLE_KINDS)
        return kt__fail(err, KT_E_ARG, "sample %zu is of an unknown kind", i);
    if (!(s->weight >= 0.0f && s->weight <= 1.0f))
        return kt__fail(err, KT_E_ARG, "sample %zu has weight %g; 0 to 1 are possible", i,
                        (double)s->weight);
    for (int t = 0; t < s->n; t++) {
        if (s->ids[t] < 0 || s->ids[t] >= n_vocab)
            return kt__fail(err, KT_E_ARG, "sample %zu has token %d; the model has %d", i,
                            s->ids[t], n_vocab);
        masked += t > 0 && s->mask[t];
    }
    if (masked == 0 || s->mask[0])
        return kt__fail(err, KT_E_ARG, "sample %zu has no tokens to learn after its first", i);
    return KT_OK;
}

kt_status kt__samples_check(const kt__sample *samples, size_t n, int n_vocab, int n_max,
                            kt_error *err) {
    for (size_t i = 0; i < n; i++) {
        kt_status status = check_sample(&samples[i], i, n_vocab, n_max, err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}
