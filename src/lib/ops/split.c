#include "ops/split.h"

#include <stdlib.h>
#include <string.h>

void kt__division_init(kt__division *split, kt__peers *peers) {
    int shares[KT__PEERS_MAX];
    *split = (kt__division){.peers = peers,
                            .rank = kt__peers_rank(peers),
                            .size = kt__peers_size(peers),
                            .least_bytes = KT__DIVISION_LEAST};
    for (int r = 0; r < split->size; r++) shares[r] = 1;
    (void)kt__division_share(split, shares);
}

bool kt__division_share(kt__division *split, const int *shares) {
    int before[KT__PEERS_MAX + 1] = {0};
    for (int r = 0; r < split->size; r++) {
        if (shares[r] < 0 || shares[r] > KT__SHARE_MAX) return false;
        before[r + 1] = before[r] + shares[r];
    }
    if (before[split->size] == 0) return false;
    memcpy(split->before, before, sizeof before);
    return true;
}

int kt__division_parse(const char *text, int *shares) {
    for (int n = 0; n < KT__PEERS_MAX; text++) {
        char *end;
        if (*text < '0' || *text > '9') return -1;
        long share = strtol(text, &end, 10);
        if (share > KT__SHARE_MAX) return -1;
        shares[n++] = (int)share;
        text = end;
        if (!*text) return n;
        if (*text != ',') return -1;
    }
    return -1;
}

/* Of n things those before the end of the first `part` of `all` shares. */
static int rounded_part(int n, int part, int all) {
    return (int)((2 * (int64_t)n * part + all) / (2 * (int64_t)all));
}

bool kt__division_pays(const kt__division *split, int n_row, int unit, uint64_t bytes) {
    uint64_t size = (uint64_t)split->size;
    return n_row >= split->size * unit && bytes / size * (size - 1) >= split->least_bytes;
}

int kt__division_row(const kt__division *split, int n, int unit, int rank) {
    int units = (n + unit - 1) / unit;
    int64_t row = (int64_t)rounded_part(units, split->before[rank], split->before[split->size]) *
                  unit;
    return row < n ? (int)row : n;
}

/* Parts are rounded at another place with each expert: 7 and 16 have no common divisor. */
enum { PLACES = 16, PLACE_STEP = 7 };

int kt__division_expert_row(const kt__division *split, int n, int unit, int expert, int rank) {
    int64_t units = (n + unit - 1) / unit, all = split->before[split->size];
    int64_t place = expert * PLACE_STEP % PLACES;
    int64_t row = (units * split->before[rank] * 2 * PLACES + (2 * place + 1) * all) /
                  (2 * PLACES * all) * unit;
    return row < n ? (int)row : n;
}

/* ---- heads ---- */

/* The first process whose share begins in a head, of no more heads than processes; each head has one at least. */
static int first_of_head(const kt__division *split, int n_head_kv, int head) {
    int first = 0;
    for (int h = 1; h <= head; h++) {
        int r = first + 1, most = split->size - (n_head_kv - h);
        while (r < most &&
               (int64_t)split->before[r] * n_head_kv < (int64_t)h * split->before[split->size])
            r++;
        first = r;
    }
    return first;
}

/* Queries of a group before a process' own, of those from `first` to `end` that share it. */
static int queries_before(const kt__division *split, int group, int first, int end, int rank) {
    int all = split->before[end] - split->before[first];
    if (all == 0) return group * (rank - first) / (end - first);
    return rounded_part(group, split->before[rank] - split->before[first], all);
}

static kt__division_heads part_of_group(const kt__division *split, int n_head, int n_head_kv,
                                        int rank) {
    int head = 0, group = n_head / n_head_kv;
    while (head + 1 < n_head_kv && first_of_head(split, n_head_kv, head + 1) <= rank) head++;
    int first = first_of_head(split, n_head_kv, head);
    int end = first_of_head(split, n_head_kv, head + 1);
    if (head + 1 == n_head_kv) end = split->size;
    int from = queries_before(split, group, first, end, rank);
    int to = queries_before(split, group, first, end, rank + 1);
    return (kt__division_heads){head * group + from, to - from, head, 1};
}

kt__division_heads kt__division_heads_of(const kt__division *split, int n_head, int n_head_kv,
                                         int rank) {
    int group = n_head / n_head_kv;
    if (split->size > n_head_kv) return part_of_group(split, n_head, n_head_kv, rank);
    int from = kt__division_row(split, n_head_kv, 1, rank),
        to = kt__division_row(split, n_head_kv, 1, rank + 1);
    if (from == to)
        return (kt__division_heads){from * group, 0, from < n_head_kv ? from : n_head_kv - 1, 1};
    return (kt__division_heads){from * group, (to - from) * group, from, to - from};
}
