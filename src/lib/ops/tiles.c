/* Activations in the order of tiles, made once for all the rows that are multiplied with them. */
#include "ops/dev.h"

static bool reads_tiles(const kt__dev *dev, const kt__acts *acts, const kt__weight *w) {
    const kt__kernels *k = dev->kernels;
    int n_tok = acts->n_tok, from = k->tile ? k->tiles_from[w->type] : 0;
    if (kt__dev_act_kind(dev, w, n_tok) != KT__ACT_Q256) return false;
    return from > 0 && n_tok >= from && acts->kinds >> KT__ACT_Q256 & 1;
}

static int groups_of(const kt__acts *acts) {
    return (acts->n_tok + KT__TILE_TOKENS - 1) / KT__TILE_TOKENS;
}

typedef struct tiles_job {
    const kt__kernels *kernels;
    const kt__acts *acts;
} tiles_job;

/* Items are groups of tokens. */
static void put_groups(void *arg, int64_t begin, int64_t end, int worker) {
    const tiles_job *job = arg;
    const kt__acts *acts = job->acts;
    int64_t first = begin * KT__TILE_TOKENS, after = end * KT__TILE_TOKENS;
    (void)worker;
    if (after > acts->n_tok) after = acts->n_tok;
    job->kernels->tile(
        acts->data[KT__ACT_Q256] + (size_t)first * acts->layout[KT__ACT_Q256].row_bytes,
        acts->n_col, (int)(after - first), (kt__tiles){acts->tiles.act + begin, acts->tiles.pitch});
}

kt__acts kt__dev_with_tiles(kt__dev *dev, const kt__acts *acts, const kt__weight *w) {
    kt__acts with = *acts;
    with.tiles = (kt__tiles){NULL, 0};
    if (!w || !reads_tiles(dev, acts, w)) return with;
    if (kt__tiles_bytes(dev->kernels, acts->n_tok, acts->n_col) > dev->tiles_bytes) return with;
    with.tiles = (kt__tiles){dev->tiles, (size_t)groups_of(acts)};
    tiles_job job = {dev->kernels, &with};
    kt__pool_run(dev->pool, groups_of(acts), 1, put_groups, &job);
    return with;
}

void kt__dev_put_tiles(const kt__dev *dev, kt__acts *acts, const kt__weight *w, uint8_t *room) {
    acts->tiles = (kt__tiles){NULL, 0};
    if (!reads_tiles(dev, acts, w)) return;
    acts->tiles = (kt__tiles){(kt__tile_act *)(void *)room, (size_t)groups_of(acts)};
    dev->kernels->tile(acts->data[KT__ACT_Q256], acts->n_col, acts->n_tok, acts->tiles);
}
