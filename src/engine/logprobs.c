#include "engine/logprobs.h"

#include <math.h> /* INFINITY only */

#include "base/math.h"

void kt__logprobs(const float *logits, int32_t n_vocab, int32_t id, kt_logprob *out, int n) {
    float max = -INFINITY;
    double sum = 0;
    int filled = 0;
    for (int32_t i = 0; i < n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int32_t i = 0; i < n_vocab; i++) sum += kt__exp((double)(logits[i] - max));
    double log_sum = kt__log(sum) + (double)max;
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
