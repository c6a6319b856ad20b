/* The CPU as a device: its table of operations, and how much scratch they need. */
#include "ops/dev.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"
#include "kernels/dispatch.h"

enum { CACHE_LINE = 64 };

/* Floats of a worker's tile: the largest of what qkv, glu and attention keep there. */
static size_t tile_floats(const kt__dev_limits *lim, bool blas) {
    int group = lim->n_head / lim->n_head_kv;
    size_t n_q = (size_t)kt__attn_tile_tokens(group) * (size_t)group;
    size_t attn = 2 * n_q * ((size_t)lim->head_dim_v + 2 + 16) +
                  2 * n_q; /* running, split's, lo, hi and own */
    size_t head = (size_t)(lim->head_dim_k > lim->head_dim_v ? lim->head_dim_k : lim->head_dim_v);
    size_t qkv = (size_t)lim->n_tok * (head + 16);
    size_t glu = kt__glu_tile_floats(lim->n_tok, kt__glu_up_rows(blas));
    size_t most = attn > qkv ? attn : qkv;
    return (most > glu ? most : glu) + 64;
}

static size_t kernel_scratch(const kt__kernels *k, const kt__dev_limits *lim, bool blas) {
    int group = lim->n_head / lim->n_head_kv;
    int n_q = kt__attn_tile_tokens(group) * group;
    size_t attn = k->attn_scratch_bytes(n_q, lim->head_dim_k, lim->head_dim_v);
    size_t row = ((size_t)lim->n_col + 16) *
                 sizeof(float); /* a norm's output before quantisation */
    size_t most = attn > row ? attn : row;
    int head = lim->head_dim_k > lim->head_dim_v ? lim->head_dim_k : lim->head_dim_v;
    if (most < kt__quantise_scratch_bytes(head)) most = kt__quantise_scratch_bytes(head);
    size_t state = (size_t)KT__STATE_ROWS * (size_t)lim->state_dim * sizeof(float);
    if (most < state) most = state;
    size_t panel = blas ? (size_t)KT__BLAS_ROWS * (size_t)lim->n_col * sizeof(float) : 0;
    if (most < panel) most = panel;
    return kt__align_up(most > k->mm_scratch_bytes ? most : k->mm_scratch_bytes, CACHE_LINE);
}

/* Room for the splits of a few tiles at the longest context; touched only when used. */
static size_t partial_floats(const kt__dev_limits *lim, int n_threads) {
    int group = lim->n_head / lim->n_head_kv;
    size_t n_q = (size_t)kt__attn_tile_tokens(group) * (size_t)group;
    size_t n_split = (size_t)(lim->n_ctx / KT__SPLIT_POS + 2);
    size_t tasks = (size_t)n_threads * 4;
    if (tasks < (size_t)lim->n_head_kv) tasks = (size_t)lim->n_head_kv;
    return tasks * n_split * n_q * ((size_t)lim->head_dim_v + 2);
}

static size_t gather_bytes(const kt__dev_limits *lim) {
    size_t row = 0;
    if (lim->expert_cols == 0) return 0;
    for (int kind = 0; kind < KT__ACT_COUNT; kind++)
        row += kt__act_layout_of((kt__act_kind)kind, lim->expert_cols).row_bytes;
    return KT__EXPERT_TOKENS * row;
}

static const kt__ops cpu_ops = {
    .embed = kt__cpu_embed,
    .norm = kt__cpu_norm,
    .quantize = kt__cpu_quantize,
    .norm_f32 = kt__cpu_norm_f32,
    .norm_add = kt__cpu_norm_add,
    .qkv = kt__cpu_qkv,
    .attention = kt__cpu_attention,
    .matmul = kt__cpu_matmul,
    .glu = kt__cpu_glu,
    .route = kt__cpu_route,
    .experts_glu = kt__cpu_experts_glu,
    .experts_down = kt__cpu_experts_down,
    .lora_down = kt__cpu_lora_down,
    .lora_up = kt__cpu_lora_up,
    .centre = kt__cpu_centre,
    .add = kt__cpu_add,
    .gelu = kt__cpu_gelu,
    .mul = kt__cpu_mul,
    .split = kt__cpu_split,
    .sigmoid_mul = kt__cpu_sigmoid_mul,
    .short_conv = kt__cpu_short_conv,
    .delta_net = kt__cpu_delta_net,
    .mamba = kt__cpu_mamba,
    .latent = kt__cpu_latent,
    .heads = kt__cpu_heads,
    .unweave = kt__cpu_unweave,
    .scale = kt__cpu_scale,
    .softcap = kt__cpu_softcap,
    .finite = kt__cpu_finite,
};

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
    dev->ops = &cpu_ops;
    dev->pool = pool;
    dev->kernels = kernels;
    dev->prefetch = prefetch_here(kernels);
    dev->exact = exact;
    dev->blas = exact ? NULL : blas;
    dev->limits = *limits;
    dev->n_threads = kt__pool_size(pool);
    dev->kernel_bytes = kernel_scratch(kernels, limits, dev->blas);
    dev->tile_bytes = kt__align_up(tile_floats(limits, dev->blas) * sizeof(float), CACHE_LINE);
    size_t worker = dev->kernel_bytes + dev->tile_bytes + gather_bytes(limits);
    size_t unit = kt__pages_unit();
    dev->scratch_stride = (worker + unit - 1) / unit * unit;
    dev->scratch_bytes = dev->scratch_stride * (size_t)kt__pool_size(pool);
    dev->scratch = kt__pages_alloc(dev->scratch_bytes);
    dev->partial_floats = partial_floats(limits, kt__pool_size(pool));
    dev->partial_bytes = dev->partial_floats * sizeof(float);
    dev->partial = kt__pages_alloc(dev->partial_bytes);
    if (!dev->scratch || !dev->partial) {
        status = kt__fail_nomem(err, "scratch memory", dev->scratch_bytes + dev->partial_bytes);
        kt__dev_destroy(dev);
        return status;
    }
    *out = dev;
    return status;
}
