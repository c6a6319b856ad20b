/* The CPU as a device: its table of operations, and how much scratch they need. */
#include "ops/dev.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"
#include "kernels/dispatch.h"

enum { CACHE_LINE = 64 };

/* Heads of attention, of which a model may have two kinds. */
typedef struct head_sizes {
    int dim_k, dim_v, n_kv, group;
    int n_q; /* queries of a tile */
} head_sizes;

static head_sizes heads_of(int dim_k, int dim_v, int n_head, int n_kv) {
    int group = n_head / n_kv;
    return (head_sizes){dim_k, dim_v, n_kv, group, kt__attn_tile_tokens(group) * group};
}

/* The largest of what fn says of each kind of heads. */
static size_t most_of_heads(const kt__dev_limits *lim, size_t (*fn)(const head_sizes *, void *),
                            void *arg) {
    head_sizes h = heads_of(lim->head_dim_k, lim->head_dim_v, lim->n_head, lim->n_head_kv);
    size_t most = fn(&h, arg), other;
    if (lim->local.n_head_kv == 0) return most;
    h = heads_of(lim->local.head_dim_k, lim->local.head_dim_v, lim->local.n_head,
                 lim->local.n_head_kv);
    other = fn(&h, arg);
    return other > most ? other : most;
}

/* running, split's, lo, hi and own */
static size_t attn_floats(const head_sizes *h, void *arg) {
    (void)arg;
    return 2 * (size_t)h->n_q * ((size_t)h->dim_v + 2 + 16) + 2 * (size_t)h->n_q;
}

static size_t longest_head(const head_sizes *h, void *arg) {
    (void)arg;
    return (size_t)(h->dim_k > h->dim_v ? h->dim_k : h->dim_v);
}

/* Floats of a worker's tile: the largest of what qkv, glu and attention keep there. */
static size_t tile_floats(const kt__dev_limits *lim, bool blas) {
    size_t attn = most_of_heads(lim, attn_floats, NULL);
    size_t qkv = (size_t)lim->n_tok * (most_of_heads(lim, longest_head, NULL) + 16);
    size_t glu = kt__glu_tile_floats(lim->n_tok, kt__glu_up_rows(blas));
    size_t most = attn > qkv ? attn : qkv;
    return (most > glu ? most : glu) + 64;
}

static size_t attn_scratch(const head_sizes *h, void *kernels) {
    const kt__kernels *k = kernels;
    return k->attn_scratch_bytes(h->n_q, h->dim_k, h->dim_v);
}

static size_t kernel_scratch(const kt__kernels *k, const kt__dev_limits *lim, bool blas) {
    size_t attn = most_of_heads(lim, attn_scratch, (void *)(uintptr_t)k);
    size_t row = ((size_t)lim->n_col + 16) *
                 sizeof(float); /* a norm's output before quantisation */
    size_t most = attn > row ? attn : row;
    int head = (int)most_of_heads(lim, longest_head, NULL);
    if (most < kt__quantise_scratch_bytes(head)) most = kt__quantise_scratch_bytes(head);
    size_t state = (size_t)KT__STATE_ROWS * (size_t)lim->state_dim * sizeof(float);
    if (most < state) most = state;
    size_t panel = blas ? (size_t)KT__BLAS_ROWS * (size_t)lim->n_col * sizeof(float) : 0;
    if (most < panel) most = panel;
    return kt__align_up(most > k->mm_scratch_bytes ? most : k->mm_scratch_bytes, CACHE_LINE);
}

static size_t split_floats(const head_sizes *h, void *n_tasks) {
    size_t tasks = *(size_t *)n_tasks;
    if (tasks < (size_t)h->n_kv) tasks = (size_t)h->n_kv;
    return tasks * (size_t)h->n_q * ((size_t)h->dim_v + 2);
}

/* Room for the splits of a few tiles at the longest context, or for a row of scores of each thread;
 * touched only when used. */
static size_t partial_floats(const kt__dev_limits *lim, int n_threads) {
    size_t n_split = (size_t)(lim->n_ctx / KT__SPLIT_POS + 2), tasks = (size_t)n_threads * 4;
    size_t splits = n_split * most_of_heads(lim, split_floats, &tasks);
    size_t rows = (size_t)n_threads * (size_t)lim->n_ctx;
    return lim->plain_attention && rows > splits ? rows : splits;
}

static size_t gather_bytes(const kt__dev_limits *lim) {
    size_t row = 0;
    if (lim->expert_cols == 0) return 0;
    for (int kind = 0; kind < KT__ACT_COUNT; kind++)
        row += kt__act_layout_of((kt__act_kind)kind, lim->expert_cols).row_bytes;
    return KT__EXPERT_TOKENS * row;
}

/* The operations that do not depend on whether this process has all of each matrix. */
#define SAME_EVERYWHERE                                                                           \
    .embed = kt__cpu_embed, .norm = kt__cpu_norm, .quantize = kt__cpu_quantize,                   \
    .norm_f32 = kt__cpu_norm_f32, .norm_add = kt__cpu_norm_add, .route = kt__cpu_route,           \
    .lora_down = kt__cpu_lora_down, .lora_up = kt__cpu_lora_up, .centre = kt__cpu_centre,         \
    .add = kt__cpu_add, .gelu = kt__cpu_gelu, .relu2 = kt__cpu_relu2, .mul = kt__cpu_mul,         \
    .split = kt__cpu_split, .sigmoid_mul = kt__cpu_sigmoid_mul, .short_conv = kt__cpu_short_conv, \
    .delta_net = kt__cpu_delta_net, .mamba = kt__cpu_mamba, .latent = kt__cpu_latent,             \
    .unweave = kt__cpu_unweave, .scale = kt__cpu_scale, .softcap = kt__cpu_softcap,               \
    .finite = kt__cpu_finite, .blend = kt__cpu_blend, .resize = kt__cpu_resize,                   \
    .cut = kt__cpu_cut, .scan = kt__cpu_scan, .pairs = kt__cpu_pairs

#define WEIGHTS_OF(kind)                                                                         \
    .qkv = kt__##kind##_qkv, .attention = kt__##kind##_attention, .matmul = kt__##kind##_matmul, \
    .glu = kt__##kind##_glu, .experts_glu = kt__##kind##_experts_glu,                            \
    .experts_down = kt__##kind##_experts_down

static const kt__ops cpu_ops = {SAME_EVERYWHERE, WEIGHTS_OF(cpu), .heads = kt__cpu_heads};
static const kt__ops tally_ops = {SAME_EVERYWHERE, WEIGHTS_OF(tally), .heads = kt__tally_heads};
static const kt__ops split_ops = {SAME_EVERYWHERE, WEIGHTS_OF(split), .heads = kt__cpu_heads};
static const kt__ops split_tally_ops = {SAME_EVERYWHERE, WEIGHTS_OF(split),
                                        .heads = kt__tally_heads};

static void choose_ops(kt__dev *dev, const kt__division *split) {
    bool counts = split && split->tally;
    dev->own = counts ? &tally_ops : &cpu_ops;
    dev->ops = !split ? &cpu_ops : counts ? &split_tally_ops : &split_ops;
}

enum { STAGE_BYTES = 4 << 20 }; /* at least: rows of a long vocabulary pass in several groups */

static size_t head_floats(const head_sizes *h, void *arg) {
    (void)arg;
    return (size_t)(h->n_kv * h->group * h->dim_v);
}

/* Attention's results of a batch, of all heads. */
static size_t stage_bytes(const kt__dev_limits *lim) {
    size_t attn = (size_t)lim->n_tok * most_of_heads(lim, head_floats, NULL) * sizeof(float);
    if (!lim->split) return 0;
    return attn > STAGE_BYTES ? attn : STAGE_BYTES;
}

static kt__prefetch prefetch_here(const kt__kernels *kernels) {
    kt__cpu cpu;
    kt__cpu_detect(&cpu);
    return kt__kernels_prefetch(kernels, &cpu);
}

kt_status kt__dev_create(kt__pool *pool, const kt__kernels *kernels, bool exact,
                         const kt__blas *blas, const kt__dev_limits *limits, kt__dev **out,
                         kt_error *err) {
    kt_status status = KT_OK;
    *out = NULL;
    kt__dev *dev = kt__calloc(1, sizeof *dev);
    if (!dev) return kt__fail_nomem(err, "the device", sizeof *dev);
    choose_ops(dev, limits->split);
    dev->pool = pool;
    dev->kernels = kernels;
    dev->prefetch = prefetch_here(kernels);
    dev->exact = exact;
    dev->blas = exact ? NULL : blas;
    dev->limits = *limits;
    dev->n_threads = kt__pool_size(pool);
    dev->kernel_bytes = kernel_scratch(kernels, limits, dev->blas);
    dev->tile_bytes = kt__align_up(tile_floats(limits, dev->blas) * sizeof(float), CACHE_LINE);
    dev->gather_bytes = kt__align_up(gather_bytes(limits), CACHE_LINE);
    dev->tiles_bytes = exact ? 0 : kt__tiles_bytes(kernels, limits->n_tok, limits->n_col);
    size_t worker = dev->kernel_bytes + dev->tile_bytes + dev->gather_bytes +
                    kt__tiles_bytes(kernels, KT__EXPERT_TOKENS, limits->expert_cols);
    size_t unit = kt__pages_unit();
    dev->scratch_stride = (worker + unit - 1) / unit * unit;
    dev->scratch_bytes = dev->scratch_stride * (size_t)kt__pool_size(pool);
    dev->scratch = kt__pages_alloc(dev->scratch_bytes);
    dev->partial_floats = partial_floats(limits, kt__pool_size(pool));
    dev->partial_bytes = dev->partial_floats * sizeof(float);
    dev->partial = kt__pages_alloc(dev->partial_bytes);
    dev->stage_bytes = stage_bytes(limits);
    if (dev->stage_bytes) dev->stage = kt__pages_alloc(dev->stage_bytes);
    if (dev->tiles_bytes) dev->tiles = kt__pages_alloc(dev->tiles_bytes);
    if (!dev->scratch || !dev->partial || (dev->stage_bytes && !dev->stage) ||
        (dev->tiles_bytes && !dev->tiles)) {
        status = kt__fail_nomem(err, "scratch memory",
                                dev->scratch_bytes + dev->partial_bytes + dev->stage_bytes +
                                    dev->tiles_bytes);
        kt__dev_destroy(dev);
        return status;
    }
    *out = dev;
    return status;
}
