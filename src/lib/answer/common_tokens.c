#include "answer/common_tokens.h"

enum {
    PARTS = KT__VOCAB_PARTS,
    LEAST_SEEN = 64,      /* tokens, before which all parts are computed */
    MOST_SEEN = 4096,     /* then the older half is forgotten */
    LARGE_VOCAB = 1 << 16 /* with fewer tokens a head is little of a model that is used */
};

void kt__common_tokens_count(kt__common_tokens *common, int n_vocab, const int32_t *tokens,
                             int32_t n) {
    if (n_vocab < LARGE_VOCAB) return;
    for (int32_t i = n > MOST_SEEN ? n - MOST_SEEN : 0; i < n; i++) {
        common->n_in[(int64_t)tokens[i] * PARTS / n_vocab]++;
        common->n_seen++;
    }
    if (common->n_seen <= MOST_SEEN) return;
    common->n_seen = 0;
    for (int i = 0; i < PARTS; i++) common->n_seen += common->n_in[i] /= 2;
}

int kt__common_tokens_rows(const kt__common_tokens *common, int n_vocab, double rest, double head) {
    const double row = 0.2; /* what the row that verifies adds to a step */
    int best = PARTS;
    double best_rate = 2 / (1 + row + rest + head), in = 0;
    if (common->n_seen < LEAST_SEEN) return 0;
    for (int i = 1; i < PARTS; i++) {
        in += common->n_in[i - 1];
        double rate = (1 + in / common->n_seen) / (1 + row + rest + head * i / PARTS);
        if (rate <= best_rate) continue;
        best_rate = rate;
        best = i;
    }
    return best == PARTS ? 0 : (int)((int64_t)n_vocab * best / PARTS);
}
