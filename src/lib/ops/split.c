#include "ops/split.h"

void kt__division_init(kt__division *split, kt__peers *peers) {
    *split = (kt__division){
        .peers = peers, .rank = kt__peers_rank(peers), .size = kt__peers_size(peers)};
}

int kt__division_row(const kt__division *split, int n, int unit, int rank) {
    int units = (n + unit - 1) / unit;
    int64_t row = (int64_t)((double)rank / split->size * units + 0.5) * unit;
    return row < n ? (int)row : n;
}

/* Process `rank` is member i of the m that share a head of keys and values. */
static kt__division_heads part_of_group(int group, int head, int i, int m) {
    int from = group * i / m, to = group * (i + 1) / m;
    return (kt__division_heads){head * group + from, to - from, head, 1};
}

kt__division_heads kt__division_heads_of(const kt__division *split, int n_head, int n_head_kv,
                                         int rank) {
    int group = n_head / n_head_kv, size = split->size;
    if (size > n_head_kv) {
        int head = rank * n_head_kv / size, first = (head * size + n_head_kv - 1) / n_head_kv;
        int end = ((head + 1) * size + n_head_kv - 1) / n_head_kv;
        return part_of_group(group, head, rank - first, end - first);
    }
    int from = kt__division_row(split, n_head_kv, 1, rank),
        to = kt__division_row(split, n_head_kv, 1, rank + 1);
    if (from == to)
        return (kt__division_heads){from * group, 0, from < n_head_kv ? from : n_head_kv - 1, 1};
    return (kt__division_heads){from * group, (to - from) * group, from, to - from};
}
