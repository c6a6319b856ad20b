/* The table of operations of a device: each is recorded where it reaches all operands, else done by
 * the processor after what was recorded. */
#include "gpu/steps.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { PARTS_BYTES = 32 << 20 };

/* ---- life ---- */

static size_t most_of(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Floats of a token in the longest rows. */
static size_t row_floats(const kt__dev_limits *lim) {
    size_t heads = most_of(
        (size_t)lim->n_head * (size_t)most_of((size_t)lim->head_dim_k, (size_t)lim->head_dim_v),
        (size_t)lim->n_head *
            most_of((size_t)lim->local.head_dim_k, (size_t)lim->local.head_dim_v));
    return most_of(most_of(heads, (size_t)lim->n_col), most_of((size_t)lim->slot_floats, 64));
}

kt_status kt__gpu_pass_create(kt__gpu *gpu, kt__dev *cpu, const kt__dev_limits *limits,
                              kt__gpu_pass **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__gpu_pass *pass = kt__calloc(1, sizeof *pass);
    if (!pass) return kt__fail_nomem(err, "a device's pass", sizeof *pass);
    pass->cpu = cpu;
    pass->cpu_ops = kt__dev_ops(cpu);
    pass->limits = *limits;
    pass->split = limits->split != NULL;
    size_t bytes = (size_t)limits->n_tok * row_floats(limits) * sizeof(float);
    KT__TRY(kt__gpu_tape_create(gpu, &pass->tape, err));
    for (int i = 0; i < 2; i++)
        KT__TRY(kt__gpu_buffer_make(gpu, bytes, false, &pass->rows[i], err));
    KT__TRY(kt__gpu_buffer_make(gpu, PARTS_BYTES, false, &pass->parts, err));
    kt__dev_set_accel(cpu, pass);
    *out = pass;
    pass = NULL;
out:
    kt__gpu_pass_destroy(pass);
    return status;
}

void kt__gpu_pass_destroy(kt__gpu_pass *pass) {
    if (!pass) return;
    kt__gpu *gpu = pass->tape.gpu;
    if (gpu) {
        (void)gpu->vk.DeviceWaitIdle(gpu->device);
        kt__gpu_buffer_free(gpu, &pass->parts);
        for (int i = 0; i < 2; i++) kt__gpu_buffer_free(gpu, &pass->rows[i]);
    }
    kt__gpu_tape_destroy(&pass->tape);
    kt__free(pass);
}

void kt__gpu_pass_add(kt__gpu_pass *pass, const kt__gpu_set *set) {
    if (set && pass->n_set < KT__GPU_SETS) pass->sets[pass->n_set++] = set;
}

bool kt__gpu_finish(kt__gpu_pass *pass) {
    bool done = kt__gpu_tape_run(&pass->tape);
    bool bad = atomic_exchange(kt__gpu_tape_bad(&pass->tape), 0) != 0;
    return done && !bad;
}

/* What was recorded is done, and the processor continues. */
static kt__gpu_pass *leave_device(const kt__dev *dev) {
    kt__gpu_pass *pass = kt__gpu_pass_of(dev);
    (void)kt__gpu_tape_run(&pass->tape); /* kt__gpu_finish tells */
    return pass;
}

static bool find_rows(const kt__gpu_pass *pass, const float *x, int n_tok, int n, uint64_t *at) {
    *at = kt__gpu_at(pass, x, (size_t)n_tok * (size_t)n * sizeof *x);
    return *at;
}

/* ---- products ---- */

static bool put_matmul(kt__gpu_pass *pass, const kt__weight *w, const kt__acts *acts,
                       const float *bias, const float *residual, float *out, size_t ld_out) {
    size_t bytes = ((size_t)(acts->n_tok - 1) * ld_out + (size_t)w->n_row) * sizeof *out;
    kt__gpu_product p = {.w = w, .from = acts, .ld_out = ld_out, .ld_residual = ld_out};
    if (!kt__gpu_may_record(pass, acts->n_tok, w->n_row) ||
        !kt__gpu_find_weight(pass, w, &p.weights) ||
        !kt__gpu_find_acts(pass, acts, acts->n_tok, p.acts) ||
        !kt__gpu_find(pass, bias, (size_t)w->n_row * sizeof *bias, &p.bias) ||
        !kt__gpu_find(pass, residual, bytes, &p.residual) ||
        !kt__gpu_find(pass, out, bytes, &p.out))
        return false;
    kt__gpu_tape_ready(&pass->tape);
    kt__gpu_put_product(pass, &p);
    return true;
}

static void gpu_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                       const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                       float *out, size_t ld_out) {
    if (!lora && put_matmul(kt__gpu_pass_of(dev), w, acts, bias, residual, out, ld_out)) return;
    leave_device(dev)->cpu_ops->matmul(dev, w, acts, bias, residual, lora, site, out, ld_out);
}

/* ---- activations and norms ---- */

static bool put_norm(kt__gpu_pass *pass, const float *x, const float *w, float eps, int n_tok,
                     int n, uint64_t out, bool adds) {
    uint64_t rows, weights;
    uint32_t bits;
    if (!kt__gpu_may_record(pass, n_tok, n) || !find_rows(pass, x, n_tok, n, &rows) ||
        !kt__gpu_find(pass, w, (size_t)n * sizeof *w, &weights))
        return false;
    memcpy(&bits, &eps, sizeof bits);
    const kt__gpu_args args = {.at = {rows, weights, out, pass->tape.ring.address},
                               .n = {(uint32_t)n, bits, w != NULL}};
    kt__gpu_tape_ready(&pass->tape);
    kt__gpu_tape_put(&pass->tape, KT__SHADER_norm, adds, &args, (uint32_t)n_tok, 1, 1);
    return true;
}

static bool gpu_norm(kt__dev *dev, const float *x, const float *w, float eps, int n_tok,
                     kt__acts *acts) {
    kt__gpu_pass *pass = kt__gpu_pass_of(dev);
    uint64_t at[KT__ACT_COUNT], rows = pass->rows[0].address;
    if (!kt__gpu_find_acts(pass, acts, n_tok, at) ||
        !put_norm(pass, x, w, eps, n_tok, acts->n_col, rows, false))
        return leave_device(dev)->cpu_ops->norm(dev, x, w, eps, n_tok, acts);
    acts->n_tok = n_tok;
    kt__gpu_put_quantise(pass, rows, acts, n_tok, at);
    return true;
}

static void gpu_quantize(kt__dev *dev, const float *x, int n_tok, kt__acts *acts) {
    kt__gpu_pass *pass = kt__gpu_pass_of(dev);
    uint64_t at[KT__ACT_COUNT], rows;
    if (!kt__gpu_may_record(pass, n_tok, acts->n_col) ||
        !kt__gpu_find_acts(pass, acts, n_tok, at) ||
        !find_rows(pass, x, n_tok, acts->n_col, &rows)) {
        leave_device(dev)->cpu_ops->quantize(dev, x, n_tok, acts);
        return;
    }
    acts->n_tok = n_tok;
    kt__gpu_tape_ready(&pass->tape);
    kt__gpu_put_quantise(pass, rows, acts, n_tok, at);
}

static bool gpu_norm_f32(kt__dev *dev, const float *x, const float *w, float eps, int n_tok, int n,
                         float *out) {
    kt__gpu_pass *pass = kt__gpu_pass_of(dev);
    uint64_t to;
    if (find_rows(pass, out, n_tok, n, &to) && put_norm(pass, x, w, eps, n_tok, n, to, false))
        return true;
    return leave_device(dev)->cpu_ops->norm_f32(dev, x, w, eps, n_tok, n, out);
}

static bool gpu_norm_add(kt__dev *dev, const float *x, const float *w, float eps, int n_tok, int n,
                         float *io) {
    kt__gpu_pass *pass = kt__gpu_pass_of(dev);
    uint64_t to;
    if (find_rows(pass, io, n_tok, n, &to) && put_norm(pass, x, w, eps, n_tok, n, to, true))
        return true;
    return leave_device(dev)->cpu_ops->norm_add(dev, x, w, eps, n_tok, n, io);
}

/* ---- element by element ---- */

/* element.comp's, where there is no glu of that kind */
enum { ELEMENT_ADD = 5, ELEMENT_SCALE, ELEMENT_SOFTCAP, ELEMENT_MUL, ELEMENT_SIGMOID };

typedef struct element {
    int kind, n_tok, n;
    uint64_t x, y, factors; /* 0: none */
    size_t ld_x, ld_y;
    float by;
} element;

static void put_element(kt__gpu_pass *pass, const element *e) {
    uint32_t bits;
    memcpy(&bits, &e->by, sizeof bits);
    const kt__gpu_args args = {
        .at = {e->x, e->y, e->factors},
        .n = {(uint32_t)e->n, (uint32_t)e->ld_x, (uint32_t)e->ld_y, e->factors != 0, bits}};
    kt__gpu_tape_ready(&pass->tape);
    kt__gpu_tape_put(&pass->tape, KT__SHADER_element, e->kind, &args, kt__gpu_groups(e->n),
                     (uint32_t)e->n_tok, 1);
}

/* x[n_tok rows, ld_x apart] by y; y NULL: alone */
static bool put_elements(kt__gpu_pass *pass, element e, const float *x, const float *y) {
    size_t x_bytes = ((size_t)(e.n_tok - 1) * e.ld_x + (size_t)e.n) * sizeof *x;
    size_t y_bytes = ((size_t)(e.n_tok - 1) * e.ld_y + (size_t)e.n) * sizeof *y;
    if (!kt__gpu_may_record(pass, e.n_tok, e.n) || !kt__gpu_find(pass, x, x_bytes, &e.x) ||
        !kt__gpu_find(pass, y, y_bytes, &e.y))
        return false;
    put_element(pass, &e);
    return true;
}

static element one_row(int kind, int64_t n, float by) {
    int all = n > INT32_MAX ? INT32_MAX : (int)n; /* which is too much to be recorded */
    return (element){.kind = kind, .n_tok = 1, .n = all, .by = by};
}

static void gpu_add(kt__dev *dev, const float *y, int ld, int n_tok, int n, float *io) {
    const element e = {
        .kind = ELEMENT_ADD, .n_tok = n_tok, .n = n, .ld_x = (size_t)n, .ld_y = (size_t)ld};
    if (put_elements(kt__gpu_pass_of(dev), e, io, y)) return;
    leave_device(dev)->cpu_ops->add(dev, y, ld, n_tok, n, io);
}

static void gpu_gelu(kt__dev *dev, float *x, int64_t n) {
    if (put_elements(kt__gpu_pass_of(dev), one_row(KT__GLU_GELU_ALONE, n, 0), x, NULL)) return;
    leave_device(dev)->cpu_ops->gelu(dev, x, n);
}

static void gpu_relu2(kt__dev *dev, float *x, int64_t n) {
    if (put_elements(kt__gpu_pass_of(dev), one_row(KT__GLU_RELU2, n, 0), x, NULL)) return;
    leave_device(dev)->cpu_ops->relu2(dev, x, n);
}

static void gpu_scale(kt__dev *dev, float *x, int64_t n, float factor) {
    if (put_elements(kt__gpu_pass_of(dev), one_row(ELEMENT_SCALE, n, factor), x, NULL)) return;
    leave_device(dev)->cpu_ops->scale(dev, x, n, factor);
}

static void gpu_softcap(kt__dev *dev, float *x, int64_t n, float cap) {
    if (put_elements(kt__gpu_pass_of(dev), one_row(ELEMENT_SOFTCAP, n, cap), x, NULL)) return;
    leave_device(dev)->cpu_ops->softcap(dev, x, n, cap);
}

static void gpu_mul(kt__dev *dev, const float *y, size_t ld_y, int n_tok, int n, float *io,
                    size_t ld_io) {
    const element e = {.kind = ELEMENT_MUL, .n_tok = n_tok, .n = n, .ld_x = ld_io, .ld_y = ld_y};
    if (put_elements(kt__gpu_pass_of(dev), e, io, y)) return;
    leave_device(dev)->cpu_ops->mul(dev, y, ld_y, n_tok, n, io, ld_io);
}

static void gpu_sigmoid_mul(kt__dev *dev, const float *gate, int n_tok, int n, float *io) {
    const element e = {
        .kind = ELEMENT_SIGMOID, .n_tok = n_tok, .n = n, .ld_x = (size_t)n, .ld_y = (size_t)n};
    if (put_elements(kt__gpu_pass_of(dev), e, io, gate)) return;
    leave_device(dev)->cpu_ops->sigmoid_mul(dev, gate, n_tok, n, io);
}

/* ---- gate and up ---- */

static bool has_up(kt__glu_kind kind) {
    return kind != KT__GLU_RELU2 && kind != KT__GLU_GELU_ALONE;
}

/* The products of gate and of up, if there is one, as rows of activations. */
static void put_gated(kt__gpu_pass *pass, const kt__gpu_product *gate, const kt__gpu_product *up,
                      kt__glu_kind kind, uint64_t factors, int n_tok, kt__acts *out,
                      const uint64_t to[KT__ACT_COUNT]) {
    int n = gate->w->n_row;
    kt__gpu_put_product(pass, gate);
    if (has_up(kind)) kt__gpu_put_product(pass, up);
    put_element(pass, &(element){.kind = (int)kind,
                                 .n_tok = n_tok,
                                 .n = n,
                                 .x = gate->out,
                                 .y = up->out,
                                 .factors = factors,
                                 .ld_x = (size_t)n,
                                 .ld_y = (size_t)n});
    out->n_tok = n_tok;
    kt__gpu_put_quantise(pass, gate->out, out, n_tok, to);
}

static bool put_glu(kt__gpu_pass *pass, const kt__acts *acts, const kt__glu *d, kt__acts *out) {
    int n = d->gate.n_row, n_tok = acts->n_tok;
    size_t bytes = (size_t)n * sizeof(float);
    kt__gpu_product gate = {
        .w = &d->gate, .from = acts, .ld_out = (size_t)n, .out = pass->rows[0].address};
    kt__gpu_product up = gate;
    uint64_t to[KT__ACT_COUNT], factors;
    up.w = &d->up;
    up.out = pass->rows[1].address;
    if (!kt__gpu_may_record(pass, n_tok, n) || (size_t)n_tok * bytes > pass->rows[0].bytes ||
        !kt__gpu_find_weight(pass, &d->gate, &gate.weights) ||
        !kt__gpu_find_acts(pass, acts, n_tok, gate.acts) ||
        !kt__gpu_find(pass, d->gate_bias, bytes, &gate.bias) ||
        !kt__gpu_find(pass, d->factors, (size_t)n_tok * sizeof(float), &factors) ||
        !kt__gpu_find_acts(pass, out, n_tok, to))
        return false;
    if (has_up(d->kind) && (!kt__gpu_find_weight(pass, &d->up, &up.weights) ||
                            !kt__gpu_find(pass, d->up_bias, bytes, &up.bias)))
        return false;
    memcpy(up.acts, gate.acts, sizeof up.acts);
    kt__gpu_tape_ready(&pass->tape);
    put_gated(pass, &gate, &up, d->kind, factors, n_tok, out, to);
    return true;
}

static void gpu_glu(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out) {
    if (!desc->lora && put_glu(kt__gpu_pass_of(dev), acts, desc, out)) return;
    leave_device(dev)->cpu_ops->glu(dev, acts, desc, out);
}

/* ---- experts ---- */

static bool put_experts_glu(kt__gpu_pass *pass, const kt__acts *acts, const kt__experts_glu *d,
                            kt__acts *out) {
    const kt__routing *r = d->routing;
    int n = d->gate.w.n_row;
    uint64_t to[KT__ACT_COUNT], factors;
    kt__gpu_product gate = {
        .w = &d->gate.w, .from = acts, .ld_out = (size_t)n, .out = pass->rows[0].address};
    if (!kt__gpu_may_record(pass, r->n_slot, n) ||
        (size_t)r->n_slot * (size_t)n * sizeof(float) > pass->rows[0].bytes ||
        !kt__gpu_find_acts(pass, acts, acts->n_tok, gate.acts) ||
        !kt__gpu_find_acts(pass, out, r->n_slot, to) ||
        !kt__gpu_find(pass, r->slot_tok, (size_t)r->n_slot * sizeof *r->slot_tok, &gate.slots) ||
        !kt__gpu_find(pass, d->weighed ? r->slot_share : NULL,
                      (size_t)r->n_slot * sizeof *r->slot_share, &factors))
        return false;
    kt__gpu_product up = gate;
    up.w = &d->up.w;
    up.out = pass->rows[1].address;
    kt__gpu_tape_ready(&pass->tape);
    if (!kt__gpu_find_experts(pass, r, &d->gate, &gate) ||
        (has_up(d->kind) && !kt__gpu_find_experts(pass, r, &d->up, &up)))
        return false;
    put_gated(pass, &gate, &up, d->kind, factors, r->n_slot, out, to);
    return true;
}

static void gpu_experts_glu(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                            kt__acts *out) {
    if (put_experts_glu(kt__gpu_pass_of(dev), acts, desc, out)) return;
    leave_device(dev)->cpu_ops->experts_glu(dev, acts, desc, out);
}

/* Of each token the slots and shares of its experts, which are ascending as slots are. */
static bool put_shares(kt__gpu_pass *pass, const kt__routing *r, uint64_t *at) {
    uint32_t *words = kt__gpu_tape_room(&pass->tape, (size_t)r->n_slot * 8, at);
    for (int e = 0; words && e < r->n_expert; e++)
        for (int slot = r->first[e]; slot < r->first[e + 1]; slot++) {
            size_t i = (size_t)r->slot_tok[slot] * (size_t)r->n_used;
            while (r->chosen[i] != e) i++;
            words[2 * i] = (uint32_t)slot;
            memcpy(words + 2 * i + 1, r->slot_share + slot, sizeof *words);
        }
    return words;
}

enum { SHARES_COUNT = 1, SUM_BEGINS = 2, SUM_HAS_FACTORS = 4, SUM_IS_ADDED = 8 };

static bool put_experts_down(kt__gpu_pass *pass, const kt__acts *acts, const kt__experts_down *d) {
    const kt__routing *r = d->routing;
    size_t n = (size_t)d->down.w.n_row, bytes = (size_t)r->n_tok * n * sizeof(float);
    float *to = d->x ? d->x : d->sum;
    const float *factors = d->shared ? d->shared_share : NULL;
    kt__gpu_product p = {.w = &d->down.w, .from = acts, .ld_out = n, .out = pass->rows[0].address};
    uint64_t shares, sum, factors_at, to_at;
    if (!kt__gpu_may_record(pass, r->n_slot, d->down.w.n_row) ||
        (size_t)r->n_slot * n * sizeof(float) > pass->rows[0].bytes ||
        !kt__gpu_find_acts(pass, acts, r->n_slot, p.acts) ||
        !kt__gpu_find(pass, d->shared ? d->sum : NULL, bytes, &sum) ||
        !kt__gpu_find(pass, factors, (size_t)r->n_tok * sizeof *factors, &factors_at) ||
        !kt__gpu_find(pass, to, bytes, &to_at))
        return false;
    kt__gpu_tape_ready(&pass->tape);
    if (!kt__gpu_find_experts(pass, r, &d->down, &p) || !put_shares(pass, r, &shares)) return false;
    const kt__gpu_args args = {
        .at = {p.out, shares, sum, factors_at, to_at},
        .n = {(uint32_t)n, (uint32_t)r->n_used,
              (d->weighed ? 0u : SHARES_COUNT) | (d->shared ? SUM_BEGINS : 0u) |
                  (factors ? SUM_HAS_FACTORS : 0u) | (d->x ? SUM_IS_ADDED : 0u)}};
    kt__gpu_put_product(pass, &p);
    kt__gpu_tape_put(&pass->tape, KT__SHADER_experts, 0, &args, kt__gpu_groups((int64_t)n),
                     (uint32_t)r->n_tok, 1);
    return true;
}

static void gpu_experts_down(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc) {
    if (put_experts_down(kt__gpu_pass_of(dev), acts, desc)) return;
    leave_device(dev)->cpu_ops->experts_down(dev, acts, desc);
}

/* ---- heads ---- */

static void gpu_qkv(kt__dev *dev, const kt__acts *acts, const kt__qkv *desc) {
    kt__gpu_pass *pass = kt__gpu_pass_of(dev);
    if (!desc->lora && kt__gpu_may_record(pass, acts->n_tok, 1) && kt__gpu_qkv(pass, acts, desc))
        return;
    leave_device(dev)->cpu_ops->qkv(dev, acts, desc);
}

static void gpu_attention(kt__dev *dev, const kt__attention *desc) {
    kt__gpu_pass *pass = kt__gpu_pass_of(dev);
    if (!pass->limits.plain_attention && kt__gpu_may_record(pass, desc->n_tok, 1) &&
        kt__gpu_attention(pass, desc))
        return;
    leave_device(dev)->cpu_ops->attention(dev, desc);
}

/* ---- what the processor does ---- */

#define ON_CPU(result, name, parameters, ...)                      \
    static result cpu_##name parameters {                          \
        return leave_device(dev)->cpu_ops->name(dev, __VA_ARGS__); \
    }

ON_CPU(void, embed,
       (kt__dev * dev, const kt__weight *table, const int32_t *ids, int n_tok, float scale,
        float *out),
       table, ids, n_tok, scale, out)
ON_CPU(void, centre, (kt__dev * dev, float *x, int n_tok, int n), x, n_tok, n)
ON_CPU(void, lora_down,
       (kt__dev * dev, const kt__acts *acts, const kt__lora_terms *terms, kt__net_input input),
       acts, terms, input)
ON_CPU(void, lora_up,
       (kt__dev * dev, const kt__lora_terms *terms, kt__lora_site site, int n_row, int n_tok,
        float *out),
       terms, site, n_row, n_tok, out)
ON_CPU(bool, route, (kt__dev * dev, const kt__route *desc, kt__routing *routing), desc, routing)
ON_CPU(void, split,
       (kt__dev * dev, const float *x, int n_tok, int n_head, int n, float *out, float *gate), x,
       n_tok, n_head, n, out, gate)
ON_CPU(void, short_conv, (kt__dev * dev, const kt__short_conv *desc), desc)
ON_CPU(void, delta_net, (kt__dev * dev, const kt__delta_net *desc), desc)
ON_CPU(void, mamba, (kt__dev * dev, const kt__mamba *desc), desc)
ON_CPU(void, scan, (kt__dev * dev, const kt__scan *desc), desc)
ON_CPU(void, latent, (kt__dev * dev, const kt__latent *desc), desc)
ON_CPU(void, heads, (kt__dev * dev, const kt__acts *acts, const kt__heads *desc), acts, desc)
ON_CPU(void, unweave,
       (kt__dev * dev, const float *x, int n_tok, int n_group, int n, float *beta, float *alpha), x,
       n_tok, n_group, n, beta, alpha)
ON_CPU(void, pairs, (kt__dev * dev, const kt__pairs *desc), desc)
ON_CPU(void, blend, (kt__dev * dev, const kt__blend *desc), desc)
ON_CPU(void, resize, (kt__dev * dev, const float *like, int n_tok, int n, float *io), like, n_tok,
       n, io)
ON_CPU(void, cut, (kt__dev * dev, float *x, int n_tok, int n, float by), x, n_tok, n, by)
ON_CPU(bool, finite, (kt__dev * dev, const float *x, int n_row, int n), x, n_row, n)

const kt__ops *kt__gpu_ops(void) {
    static const kt__ops ops = {
        .embed = cpu_embed,
        .norm = gpu_norm,
        .centre = cpu_centre,
        .quantize = gpu_quantize,
        .norm_f32 = gpu_norm_f32,
        .norm_add = gpu_norm_add,
        .qkv = gpu_qkv,
        .attention = gpu_attention,
        .matmul = gpu_matmul,
        .glu = gpu_glu,
        .lora_down = cpu_lora_down,
        .lora_up = cpu_lora_up,
        .add = gpu_add,
        .gelu = gpu_gelu,
        .relu2 = gpu_relu2,
        .route = cpu_route,
        .experts_glu = gpu_experts_glu,
        .experts_down = gpu_experts_down,
        .mul = gpu_mul,
        .split = cpu_split,
        .sigmoid_mul = gpu_sigmoid_mul,
        .short_conv = cpu_short_conv,
        .delta_net = cpu_delta_net,
        .mamba = cpu_mamba,
        .scan = cpu_scan,
        .latent = cpu_latent,
        .heads = cpu_heads,
        .unweave = cpu_unweave,
        .pairs = cpu_pairs,
        .blend = cpu_blend,
        .resize = cpu_resize,
        .cut = cpu_cut,
        .scale = gpu_scale,
        .softcap = gpu_softcap,
        .finite = cpu_finite,
    };
    return &ops;
}
