#include "answer/logprobs.h"

#include <math.h> /* INFINITY only */

#include "base/math.h"

static double log_sum_of(const float *logits, int32_t n_vocab) {
    float max = -INFINITY;
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int32_t i = 0; i < n_vocab; i++) sum += kt__exp((double)(logits[i] - max));
    return kt__log(sum) + (double)max;
}

/* The same by f32 exponentials, for what is in the way of the next token. */
static double quick_log_sum_of(const float *logits, int32_t n_vocab) {
    enum { CHUNK = 512 };
    float max = -INFINITY, weights[CHUNK];
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int32_t at = 0; at < n_vocab; at += CHUNK) {
        int32_t n = n_vocab - at < CHUNK ? n_vocab - at : CHUNK;
        kt__exp_weights(logits + at, max, (size_t)n, weights);
        for (int32_t i = 0; i < n; i++) sum += (double)weights[i];
    }
    return kt__log(sum) + (double)max;
}

float kt__mixed_logit(const float *logits, int32_t n_vocab, int32_t id, double weight) {
    double own = (double)logits[id];
    double more = kt__log(weight / (1.0 - weight)) + quick_log_sum_of(logits, n_vocab);
    double high = more > own ? more : own, low = more > own ? own : more;
    return (float)(high + kt__log(1.0 + kt__exp(low - high)));
}

void kt__logprobs(const float *logits, int32_t n_vocab, int32_t id, kt_logprob *out, int n) {
    int filled = 0;
    double log_sum = log_sum_of(logits, n_vocab);
    kt_logprob *top = out + 1;
    for (int32_t i = 0; n > 0 && i < n_vocab; i++) {
        if (filled == n && logits[i] <= top[n - 1].logprob) continue;
        int at = filled < n ? filled++ : n - 1;
        for (; at > 0 && logits[i] > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (kt_logprob){i, logits[i]};
    }
    for (int i = 0; i < filled; i++) top[i].logprob = (float)((double)top[i].logprob - log_sum);
    for (int i = filled; i < n; i++) top[i] = (kt_logprob){-1, -INFINITY};
    out[0] = (kt_logprob){id, (float)((double)logits[id] - log_sum)};
}
