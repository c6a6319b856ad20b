/* Whether a device computes what the contract says: its operations against the reference tier's.
 *
 * Single operations of exact.glsl come first and choose the fma; then every operation of the table,
 * over operands in memory that both reach, by memcmp. The numbers are the same each time: usual ones,
 * any exponents, cancelling, ties, subnormal and special ones. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "gpu/steps.h"
#include "host/pages.h"
#include "kernels/dispatch.h"

enum {
    ROOM_BYTES = 16 << 20,
    PROBES = 16384, /* of each kind of numbers */
    PROBE_KINDS = 6,
    ROWS = 36,
    TOKENS = 5,
    FEW = 2, /* tokens that products have one by one, and in tiles: more than one */
    MANY = 18,
    COLS_256 = 512,
    COLS_32 = 544,
    COLS_FLOAT = 500,
    HEADS = 4,
    HEADS_KV = 2,
    HEAD_DIM = 48,
    POSITIONS = 300,
    ASKED = 24 /* of them, the last, whose attention is computed */
};

typedef struct tester {
    kt__gpu *gpu;
    kt__pool *pool;
    kt__dev *dev;
    kt__gpu_pass *pass;
    kt__gpu_set *set;
    const kt__ops *cpu, *on_gpu;
    uint8_t *room; /* both reach it */
    size_t used;
    uint64_t random;
    uint64_t n_put; /* dispatches before the operation at hand */
    kt_error *err;
} tester;

static uint32_t next_random(tester *t) {
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->random >> 32);
}

/* -1 to 1 */
static float next_float(tester *t) {
    return (float)(int32_t)next_random(t) * 0x1p-31f;
}

static void *take_room(tester *t, size_t bytes) {
    void *p = t->room + t->used;
    t->used += (bytes + 63) / 64 * 64;
    return t->used <= ROOM_BYTES ? p : NULL;
}

static float *take_floats(tester *t, size_t n) {
    return take_room(t, n * sizeof(float));
}

/* Usual numbers, with some zeros, and small and large rows. */
static float *take_numbers(tester *t, int n_row, int n) {
    static const float sizes[] = {1.0f, 1.0f, 0x1p-120f, 3e4f, 0x1p-60f};
    float *x = take_floats(t, (size_t)(n_row * n));
    for (int i = 0; x && i < n_row * n; i++) {
        float size = n_row > 1 ? sizes[i / n % 5] : 1.0f;
        x[i] = next_random(t) % 16 == 0 ? 0.0f : next_float(t) * size;
    }
    return x;
}

static kt_status refuse_for(tester *t, const char *operation) {
    return kt__fail(t->err, KT_E_UNSUPPORTED,
                    "%.100s (%.100s) does not compute exactly: its %s differs from the "
                    "processor's. Layers stay on the processor",
                    t->gpu->found.info.name, t->gpu->found.info.driver, operation);
}

/* The device's bytes at `got`, after what was recorded, against the processor's. */
static kt_status compare_bytes(tester *t, const char *operation, const void *want, void *got,
                               size_t bytes) {
    if (!kt__gpu_tape_run(&t->pass->tape))
        return kt__fail(t->err, KT_E_UNSUPPORTED, "%.100s failed at the test of its %s",
                        t->gpu->found.info.name, operation);
    const char *wrong = t->gpu->faults.wrong;
    if (wrong && strcmp(wrong, operation) == 0) ((uint8_t *)got)[bytes / 2] ^= 1;
    return memcmp(want, got, bytes) == 0 ? KT_OK : refuse_for(t, operation);
}

/* At least n dispatches since the last call: the processor did not do it. */
static kt_status was_recorded(tester *t, const char *operation, uint64_t n) {
    uint64_t before = t->n_put;
    t->n_put = t->pass->tape.n_put;
    return t->n_put - before >= n ? KT_OK : refuse_for(t, operation);
}

/* ---- single operations ---- */

static float from_bits(uint32_t bits) {
    return kt__f32_from_bits(bits);
}

/* Any sign and fraction, an exponent of [low, high]. */
static float with_exponent(tester *t, uint32_t low, uint32_t high) {
    uint32_t e = low + next_random(t) % (high - low + 1);
    return from_bits((next_random(t) & 0x807fffffu) | e << 23);
}

static void make_triple(tester *t, int kind, float x[3]) {
    static const uint32_t special[] = {0,           0x80000000u, 0x3f800000u, 0xbf800000u,
                                       0x7f7fffffu, 1,           0x80000001u, 0x00800000u,
                                       0x007fffffu, 0x3f7fffffu, 0x4b800000u, 0x33800000u};
    enum { N = sizeof special / sizeof *special };
    for (int i = 0; i < 3; i++) x[i] = with_exponent(t, 110, 140);
    switch (kind) {
    case 1:
        for (int i = 0; i < 3; i++) x[i] = with_exponent(t, 0, 254);
        break;
    case 2: x[2] = -(x[0] * x[1]); break;
    case 3: /* a product that lies between two numbers, and little besides */
        x[0] = from_bits((kt__f32_bits(x[0]) & 0xfffff000u) | 0x800u);
        x[1] = from_bits((kt__f32_bits(x[1]) & 0xfffff000u) | 0x800u);
        x[2] = with_exponent(t, 60, 230);
        break;
    case 4:
        x[0] = with_exponent(t, 40, 70);
        x[1] = with_exponent(t, 40, 70);
        x[2] = with_exponent(t, 0, 24);
        break;
    case 5:
        for (int i = 0; i < 3; i++) x[i] = from_bits(special[next_random(t) % N]);
        break;
    default: break;
    }
}

/* Those of probe.comp, in its order; fma is apart. */
static const char *const probe_names[] = {"sum",
                                          "product of two numbers",
                                          "division",
                                          "square root",
                                          "exponential",
                                          "hyperbolic tangent",
                                          "rounding to f16",
                                          "reading of f16",
                                          "reading of integers"};
enum { N_PROBE = sizeof probe_names / sizeof *probe_names, PROBE_FMA = -1 };

static float expected_number(int kind, float a, float b, float c) {
    float held = a > 65504.0f ? 65504.0f : a < -65504.0f ? -65504.0f : a;
    switch (kind) {
    case PROBE_FMA: return fmaf(a, b, c);
    case 0: return a + b;
    case 1: return a * b;
    case 2: return a / b;
    case 3: return sqrtf(a);
    case 4: return kt__expf(a);
    case 5: return kt__tanhf(a);
    case 6: return from_bits(kt__f16_from_f32(held));
    case 7: return kt__f16_to_f32((kt__f16)(kt__f32_bits(a) & 0xffffu));
    default: return (float)(int32_t)kt__f32_bits(a);
    }
}

/* NaNs are equal: which of them one is stays open. */
static bool same_number(float a, float b) {
    return kt__f32_bits(a) == kt__f32_bits(b) || (isnan(a) && isnan(b));
}

/* Runs fma, or all others, over the numbers at abc (three arrays). */
static kt_status run_probes(tester *t, bool others, const float *abc, float *got) {
    const kt__gpu_args args = {
        .at = {kt__gpu_at(t->pass, abc, 4), kt__gpu_at(t->pass, abc + PROBES, 4),
               kt__gpu_at(t->pass, abc + 2 * PROBES, 4), kt__gpu_at(t->pass, got, 4)},
        .n = {PROBES}};
    kt__gpu_tape_put(&t->pass->tape, KT__SHADER_probe, others, &args, PROBES / 64, 1, 1);
    if (kt__gpu_tape_run(&t->pass->tape)) return KT_OK;
    return kt__fail(t->err, KT_E_UNSUPPORTED, "%.100s failed at the test of its arithmetic",
                    t->gpu->found.info.name);
}

static bool is_right(const tester *t, int kind, const char *name, const float *abc, float *got) {
    bool right = true;
    if (t->gpu->faults.wrong && strcmp(t->gpu->faults.wrong, name) == 0) got[PROBES / 2] = -1.25f;
    for (int i = 0; i < PROBES && right; i++)
        right = same_number(got[i],
                            expected_number(kind, abc[i], abc[PROBES + i], abc[2 * PROBES + i]));
    return right;
}

static void make_numbers(tester *t, float *abc) {
    for (int i = 0; i < PROBES; i++) {
        float x[3];
        make_triple(t, i % PROBE_KINDS, x);
        for (int j = 0; j < 3; j++) abc[j * PROBES + i] = x[j];
    }
}

static kt_status choose_fma(tester *t, const float *abc, float *got) {
    static const char name[] = "fused multiply-add";
    for (int fma = t->gpu->faults.first_fma; fma < KT__FMAS; fma++) {
        t->gpu->fma = (kt__gpu_fma)fma;
        if (fma == KT__FMA_F64 && !t->gpu->found.facts.has_f64) continue;
        KT__STEP(run_probes(t, false, abc, got));
        if (is_right(t, PROBE_FMA, name, abc, got)) return KT_OK;
    }
    return refuse_for(t, name);
}

static kt_status test_probes(tester *t) {
    float *abc = take_floats(t, 3 * PROBES), *got = take_floats(t, N_PROBE * PROBES);
    make_numbers(t, abc);
    KT__STEP(choose_fma(t, abc, got));
    KT__STEP(run_probes(t, true, abc, got));
    for (int i = 0; i < N_PROBE; i++)
        if (!is_right(t, i, probe_names[i], abc, got + i * PROBES))
            return refuse_for(t, probe_names[i]);
    t->n_put = t->pass->tape.n_put;
    return KT_OK;
}

/* ---- operations on rows ---- */

static kt__acts take_acts(tester *t, unsigned kinds, int n_tok, int n_col) {
    kt__acts acts = {.n_tok = n_tok, .n_col = n_col, .kinds = kinds};
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(kinds >> kind & 1)) continue;
        acts.layout[kind] = kt__act_layout_of((kt__act_kind)kind, n_col);
        acts.data[kind] = take_room(t, (size_t)n_tok * acts.layout[kind].row_bytes);
    }
    return acts;
}

static kt_status compare_acts(tester *t, const char *name, const kt__acts *want,
                              const kt__acts *got) {
    for (int kind = 0; kind < KT__ACT_COUNT; kind++)
        if (want->kinds >> kind & 1)
            KT__STEP(compare_bytes(t, name, want->data[kind], got->data[kind],
                                   (size_t)want->n_tok * want->layout[kind].row_bytes));
    return KT_OK;
}

static kt_status test_activations(tester *t, unsigned kinds, int n_col) {
    float *x = take_numbers(t, TOKENS, n_col), *w = take_numbers(t, 1, n_col);
    kt__acts a = take_acts(t, kinds, TOKENS, n_col), b = take_acts(t, kinds, TOKENS, n_col);
    t->cpu->quantize(t->dev, x, TOKENS, &a);
    t->on_gpu->quantize(t->dev, x, TOKENS, &b);
    KT__STEP(was_recorded(t, "quantising of activations", 1));
    KT__STEP(compare_acts(t, "quantising of activations", &a, &b));
    x[n_col / 2] = INFINITY;
    t->cpu->quantize(t->dev, x, 1, &a);
    t->on_gpu->quantize(t->dev, x, 1, &b);
    KT__STEP(compare_acts(t, "quantising of activations", &a, &b));
    x[n_col / 2] = 0.5f;
    (void)t->cpu->norm(t->dev, x, w, 1e-5f, TOKENS, &a);
    (void)t->on_gpu->norm(t->dev, x, w, 1e-5f, TOKENS, &b);
    KT__STEP(was_recorded(t, "RMS norm", 3));
    return compare_acts(t, "RMS norm", &a, &b);
}

static kt_status test_norms(tester *t) {
    enum { N = 100 };
    size_t bytes = (size_t)TOKENS * N * sizeof(float);
    float *x = take_numbers(t, TOKENS, N), *w = take_numbers(t, 1, N);
    float *a = take_numbers(t, TOKENS, N), *b = take_floats(t, TOKENS * N);
    (void)t->cpu->norm_f32(t->dev, x, NULL, 0.0f, TOKENS, N, a);
    (void)t->on_gpu->norm_f32(t->dev, x, NULL, 0.0f, TOKENS, N, b);
    KT__STEP(compare_bytes(t, "RMS norm", a, b, bytes));
    (void)t->cpu->norm_add(t->dev, x, w, 1e-6f, TOKENS, N, a);
    (void)t->on_gpu->norm_add(t->dev, x, w, 1e-6f, TOKENS, N, b);
    KT__STEP(compare_bytes(t, "RMS norm", a, b, bytes));
    x[N + 3] = INFINITY;
    (void)t->on_gpu->norm_f32(t->dev, x, w, 1e-6f, TOKENS, N, b);
    KT__STEP(was_recorded(t, "RMS norm", 3));
    return kt__gpu_finish(t->pass) ? refuse_for(t, "sum that is not finite") : KT_OK;
}

static kt__weight take_weight(tester *t, kt__type type, int n_row, int n_col) {
    const kt__encoding how = {.effort = KT__EFFORT_FAST};
    kt__weight w = {
        .type = type, .n_row = n_row, .n_col = n_col, .row_bytes = kt__type_row_bytes(type, n_col)};
    uint8_t *data = take_room(t, (size_t)n_row * w.row_bytes);
    float row[COLS_32 + 64];
    w.data = data;
    for (int r = 0; data && r < n_row; r++) {
        for (int i = 0; i < n_col; i++) row[i] = next_float(t);
        kt__quantize_row_by(type, &how, row, n_col, data + (size_t)r * w.row_bytes);
    }
    return w;
}

static int columns_of(kt__type type) {
    kt__act_kind act = kt__type_get(type)->act;
    return act == KT__ACT_Q256 ? COLS_256 : act == KT__ACT_Q32 ? COLS_32 : COLS_FLOAT;
}

static kt_status test_product(tester *t, kt__type type) {
    char name[64];
    int n_col = columns_of(type);
    kt__act_kind kind = kt__type_get(type)->act;
    kt__weight w = take_weight(t, type, ROWS, n_col);
    float *x = take_numbers(t, MANY, n_col), *bias = take_numbers(t, 1, ROWS);
    float *a = take_numbers(t, MANY, ROWS), *b = take_floats(t, MANY * ROWS);
    kt__acts acts = take_acts(t, 1u << kind, MANY, n_col);
    snprintf(name, sizeof name, "product with %s", kt__type_get(type)->name);
    t->cpu->quantize(t->dev, x, MANY, &acts);
    memcpy(b, a, (size_t)(MANY * ROWS) * sizeof *a);
    t->cpu->matmul(t->dev, &w, &acts, bias, a, NULL, KT__SITE_Q, a, ROWS);
    t->on_gpu->matmul(t->dev, &w, &acts, bias, b, NULL, KT__SITE_Q, b, ROWS);
    KT__STEP(compare_bytes(t, name, a, b, (size_t)(MANY * ROWS) * sizeof *a));
    acts.n_tok = FEW;
    t->cpu->matmul(t->dev, &w, &acts, NULL, NULL, NULL, KT__SITE_Q, a, ROWS);
    t->on_gpu->matmul(t->dev, &w, &acts, NULL, NULL, NULL, KT__SITE_Q, b, ROWS);
    KT__STEP(was_recorded(t, name, 2));
    return compare_bytes(t, name, a, b, FEW * ROWS * sizeof *a);
}

/* Experts' products with weights of a type: gate and up of the tokens that chose them, and the sum by shares. */
static kt_status compare_experts(tester *t, const kt__expert_weights *w, const kt__acts *acts,
                                 kt__routing *r, const char *name) {
    int n_row = w->w.n_row, n_slot = acts->n_tok * r->n_used;
    const kt__route route = {.logits = take_numbers(t, 1, acts->n_tok * r->n_expert),
                             .n_tok = acts->n_tok,
                             .scale = 1.0f};
    kt__acts a = take_acts(t, 1u << KT__ACT_F32, n_slot, n_row);
    kt__acts b = take_acts(t, 1u << KT__ACT_F32, n_slot, n_row);
    float *rows = take_floats(t, (size_t)(n_slot * n_row));
    (void)t->cpu->route(t->dev, &route, r);
    const kt__experts_glu glu = {
        .routing = r, .gate = *w, .up = *w, .kind = KT__GLU_SILU, .weighed = true, .rows = rows};
    t->cpu->experts_glu(t->dev, acts, &glu, &a);
    t->on_gpu->experts_glu(t->dev, acts, &glu, &b);
    KT__STEP(was_recorded(t, name, 4));
    KT__STEP(compare_acts(t, name, &a, &b));
    kt__acts slots = *acts; /* as if each token had made its slots' rows */
    slots.n_tok = n_slot;
    float *sum = take_numbers(t, acts->n_tok, n_row), *factors = take_numbers(t, 1, acts->n_tok);
    float *sum_too = take_floats(t, (size_t)(acts->n_tok * n_row));
    float *x = take_numbers(t, acts->n_tok, n_row),
          *y = take_floats(t, (size_t)(acts->n_tok * n_row));
    memcpy(y, x, (size_t)(acts->n_tok * n_row) * sizeof *x);
    memcpy(sum_too, sum, (size_t)(acts->n_tok * n_row) * sizeof *x);
    kt__experts_down down = {.routing = r,
                             .down = *w,
                             .shared = acts->n_tok == FEW,
                             .shared_share = factors,
                             .sum = sum,
                             .x = x};
    t->cpu->experts_down(t->dev, &slots, &down);
    down.sum = sum_too;
    down.x = y;
    t->on_gpu->experts_down(t->dev, &slots, &down);
    KT__STEP(was_recorded(t, name, 2));
    return compare_bytes(t, name, x, y, (size_t)(acts->n_tok * n_row) * sizeof *x);
}

static kt_status test_experts(tester *t, kt__type type) {
    enum { EXPERTS = 3, USED = 2 };
    char name[64];
    kt__routing r;
    int n_col = columns_of(type);
    kt__weight all = take_weight(t, type, EXPERTS * ROWS, n_col);
    const kt__expert_weights w = {.w = kt__weight_rows(&all, 0, ROWS),
                                  .stride = (size_t)ROWS * all.row_bytes,
                                  .bias = take_numbers(t, 1, EXPERTS * ROWS),
                                  .bias_stride = ROWS};
    kt__acts acts = take_acts(t, 1u << kt__type_get(type)->act, USED * MANY, n_col);
    float *x = take_numbers(t, USED * MANY, n_col);
    snprintf(name, sizeof name, "experts with %s", kt__type_get(type)->name);
    kt__routing_place(&r, MANY, EXPERTS, USED,
                      take_room(t, kt__routing_bytes(MANY, EXPERTS, USED)));
    t->cpu->quantize(t->dev, x, USED * MANY, &acts);
    acts.n_tok = MANY;
    KT__STEP(compare_experts(t, &w, &acts, &r, name));
    acts.n_tok = FEW;
    return compare_experts(t, &w, &acts, &r, name);
}

static kt_status test_type(tester *t, kt__type type) {
    KT__STEP(test_product(t, type));
    return test_experts(t, type);
}

static kt_status test_gates(tester *t) {
    enum { FF = 96 };
    static const char *const names[] = {"SiLU gate", "GELU gate", "clamped gate", "squared ReLU",
                                        "GELU"};
    kt__weight gate = take_weight(t, KT__TYPE_F32, FF, 64),
               up = take_weight(t, KT__TYPE_F32, FF, 64);
    float *x = take_numbers(t, TOKENS, 64), *factors = take_numbers(t, 1, TOKENS);
    float *rows = take_floats(t, TOKENS * FF);
    kt__acts acts = take_acts(t, 1u << KT__ACT_F32, TOKENS, 64);
    kt__acts a = take_acts(t, 3, TOKENS, FF), b = take_acts(t, 3, TOKENS, FF);
    t->cpu->quantize(t->dev, x, TOKENS, &acts);
    for (int kind = KT__GLU_SILU; kind <= KT__GLU_GELU_ALONE; kind++) {
        const kt__glu glu = {.gate = gate,
                             .up = up,
                             .kind = (kt__glu_kind)kind,
                             .rows = rows,
                             .factors = kind == KT__GLU_CLAMPED ? factors : NULL};
        t->cpu->glu(t->dev, &acts, &glu, &a);
        t->on_gpu->glu(t->dev, &acts, &glu, &b);
        KT__STEP(was_recorded(t, names[kind], 4));
        KT__STEP(compare_acts(t, names[kind], &a, &b));
    }
    return KT_OK;
}

static kt_status test_elements(tester *t) {
    enum { N = 200 };
    size_t bytes = TOKENS * N * sizeof(float);
    float *y = take_numbers(t, TOKENS, N), *x = take_numbers(t, TOKENS, N);
    float *a = take_floats(t, TOKENS * N), *b = take_floats(t, TOKENS * N);
    memcpy(a, x, bytes);
    memcpy(b, x, bytes);
    for (int gpu = 0; gpu < 2; gpu++) {
        const kt__ops *ops = gpu ? t->on_gpu : t->cpu;
        float *io = gpu ? b : a;
        ops->add(t->dev, y, N, TOKENS, N, io);
        ops->mul(t->dev, x, N, TOKENS, N, io, N);
        ops->scale(t->dev, io, TOKENS * N, 0.3f);
        ops->softcap(t->dev, io, TOKENS * N, 30.0f);
        ops->sigmoid_mul(t->dev, y, TOKENS, N, io);
        ops->gelu(t->dev, io, TOKENS * N);
        ops->relu2(t->dev, io, TOKENS * N);
    }
    KT__STEP(was_recorded(t, "arithmetic of elements", 7));
    return compare_bytes(t, "arithmetic of elements", a, b, bytes);
}

/* ---- heads, pages and attention ---- */

typedef struct world {
    kt__kv *kv[2]; /* the processor's and the device's */
    kt__kv_table table[2];
    kt__gpu_set *set;
    float *q[2], *out[2];
    uint8_t *codes[2];
} world;

static kt_status open_world(tester *t, kt__kv_form form, kt__kv_form v_form, world *w) {
    const kt__kv_shape shape = {.n_layer = 1,
                                .n_head_kv = HEADS_KV,
                                .head_dim_k = HEAD_DIM,
                                .head_dim_v = HEAD_DIM,
                                .k_form = form,
                                .v_form = v_form,
                                .n_tail = form == KT__KV_F16 ? 0 : 2,
                                .first_f16 = form == KT__KV_Q4};
    const int32_t n_page = kt__pages_of(POSITIONS) + 1;
    const kt__kv_room room = {.n_kept = n_page, .n_staged = n_page};
    kt__kv_stretch memory[KT__KV_MEMORY];
    memset(w, 0, sizeof *w);
    KT__STEP(kt__gpu_set_create(t->gpu, &w->set, t->err));
    for (int i = 0; i < 2; i++) {
        KT__STEP(kt__kv_create_with(&shape, n_page, room, &w->kv[i], t->err));
        KT__STEP(kt__kv_table_init(&w->table[i], POSITIONS, t->err));
        KT__STEP(
            kt__kv_table_grow_as(w->kv[i], &w->table[i], 0, POSITIONS, KT__GROW_STAGED, t->err));
        w->q[i] = take_floats(t, POSITIONS * HEADS * HEAD_DIM);
        w->out[i] = take_floats(t, POSITIONS * HEADS * HEAD_DIM);
        w->codes[i] = take_room(t, POSITIONS * HEADS * kt__query_code_bytes(HEAD_DIM));
    }
    kt__kv_get_memory(w->kv[1], memory);
    for (int i = 0; i < KT__KV_MEMORY; i++)
        if (memory[i].bytes)
            KT__STEP(kt__gpu_set_share(w->set, memory[i].data, memory[i].bytes, t->err));
    kt__gpu_pass_add(t->pass, w->set);
    return KT_OK;
}

static void close_world(tester *t, world *w) {
    if (t->pass->n_set > 1) t->pass->n_set--;
    kt__gpu_set_destroy(w->set);
    for (int i = 0; i < 2; i++) {
        if (!w->kv[i]) continue;
        kt__kv_table_free(w->kv[i], &w->table[i]);
        kt__kv_destroy(w->kv[i]);
    }
}

/* Queries, keys and values of all positions, then the attention of the last. */
static void run_world(tester *t, world *w, int i, const kt__qkv *like, const kt__acts *acts,
                      bool windowed, const float *sinks) {
    const kt__ops *ops = i ? t->on_gpu : t->cpu;
    const kt__seg seg = {.table = &w->table[i], .n_tok = POSITIONS};
    bool quantised = kt__kv_is_quantised(kt__kv_get_shape(w->kv[i]));
    kt__qkv qkv = *like;
    qkv.kv = w->kv[i];
    qkv.q_out = w->q[i];
    qkv.q_codes = quantised ? w->codes[i] : NULL;
    qkv.segs = &seg;
    qkv.n_seg = 1;
    ops->qkv(t->dev, acts, &qkv);
    const kt__seg last = {.table = &w->table[i],
                          .pos0 = POSITIONS - ASKED,
                          .row0 = POSITIONS - ASKED,
                          .n_tok = ASKED};
    const kt__attention attention = {.kv = w->kv[i],
                                     .n_head = HEADS,
                                     .n_head_kv = HEADS_KV,
                                     .head_dim_k = HEAD_DIM,
                                     .head_dim_v = HEAD_DIM,
                                     .q = w->q[i],
                                     .q_codes = qkv.q_codes,
                                     .n_tok = POSITIONS,
                                     .segs = &last,
                                     .n_seg = 1,
                                     .window = windowed ? 40 : 0,
                                     .softcap = windowed ? 30.0f : 0.0f,
                                     .sinks = sinks,
                                     .out = w->out[i]};
    ops->attention(t->dev, &attention);
}

static kt_status compare_worlds(tester *t, world *w) {
    const kt__kv_shape *shape = kt__kv_get_shape(w->kv[0]);
    size_t bytes = kt__kv_block_bytes(shape), head = sizeof(float) * HEAD_DIM;
    uint8_t *a = take_room(t, bytes), *b = take_room(t, bytes);
    KT__STEP(compare_bytes(t, "rotation of heads", w->q[0], w->q[1], POSITIONS * HEADS * head));
    if (kt__kv_is_quantised(shape))
        KT__STEP(compare_bytes(t, "codes of queries", w->codes[0], w->codes[1],
                               POSITIONS * HEADS * kt__query_code_bytes(HEAD_DIM)));
    for (int page = 0; page < POSITIONS / KT__PAGE_POS; page++) {
        if (shape->first_f16 && page == 0) continue;
        kt__kv_block_read(w->kv[0], w->table[0].pages[page], a);
        kt__kv_block_read(w->kv[1], w->table[1].pages[page], b);
        KT__STEP(compare_bytes(t, "pages of keys and values", a, b, bytes));
    }
    size_t first = (size_t)(POSITIONS - ASKED) * HEADS * HEAD_DIM;
    return compare_bytes(t, "attention", w->out[0] + first, w->out[1] + first,
                         ASKED * HEADS * head);
}

static kt_status test_world(tester *t, kt__kv_form form, kt__kv_form v_form, bool windowed,
                            world *w) {
    enum { D = 64, N_ROT = 32 };
    KT__STEP(open_world(t, form, v_form, w));
    float *x = take_floats(t, POSITIONS * D), *cs = take_floats(t, POSITIONS * N_ROT);
    kt__acts acts = take_acts(t, 1u << KT__ACT_F32, POSITIONS, D);
    const float *sinks = windowed ? take_numbers(t, 1, HEADS) : NULL;
    kt__qkv qkv = {.wq = take_weight(t, KT__TYPE_F32, HEADS * HEAD_DIM, D),
                   .wk = take_weight(t, KT__TYPE_F32, HEADS_KV * HEAD_DIM, D),
                   .wv = take_weight(t, KT__TYPE_F32, HEADS_KV * HEAD_DIM, D),
                   .bq = take_numbers(t, 1, HEADS * HEAD_DIM),
                   .q_norm = windowed ? take_numbers(t, 1, HEAD_DIM) : NULL,
                   .k_norm = take_numbers(t, 1, HEAD_DIM),
                   .norm_rotated = windowed,
                   .norm_eps = 1e-6f,
                   .n_head = HEADS,
                   .n_head_kv = HEADS_KV,
                   .head_dim_k = HEAD_DIM,
                   .head_dim_v = HEAD_DIM,
                   .cs = cs,
                   .n_rot = N_ROT,
                   .neox = windowed,
                   .q_scale = 0.7f};
    for (int i = 0; i < POSITIONS * D; i++) x[i] = next_float(t) * 4.0f;
    for (int i = 0; i < POSITIONS * N_ROT; i++) cs[i] = next_float(t);
    t->cpu->quantize(t->dev, x, POSITIONS, &acts);
    for (int i = 0; i < 2; i++) run_world(t, w, i, &qkv, &acts, windowed, sinks);
    KT__STEP(was_recorded(t, "attention", form == KT__KV_F16 ? 8 : 11));
    return compare_worlds(t, w);
}

static kt_status test_heads(tester *t, kt__kv_form form, kt__kv_form v_form, bool windowed) {
    world w;
    size_t used = t->used;
    kt_status status = test_world(t, form, v_form, windowed, &w);
    close_world(t, &w);
    t->used = used;
    return status;
}

/* The last world's values are copied from page to place, where keys alone are quantised. */
static kt_status test_form(tester *t, kt__kv_form form) {
    KT__STEP(test_heads(t, form, form, false));
    KT__STEP(test_heads(t, form, form, true));
    return form == KT__KV_Q8 ? test_heads(t, form, KT__KV_F16, false) : KT_OK;
}

/* ---- all ---- */

static kt_status open_tester(tester *t) {
    const kt__dev_limits limits = {.n_tok = POSITIONS,
                                   .n_col = 768,
                                   .head_dim_k = HEAD_DIM,
                                   .head_dim_v = HEAD_DIM,
                                   .n_head = HEADS,
                                   .n_head_kv = HEADS_KV,
                                   .n_ctx = POSITIONS,
                                   .expert_cols = 768,
                                   .slot_floats = 768};
    const kt__kernels *ref;
    char why[64];
    kt__cpu cpu;
    kt__cpu_detect(&cpu);
    KT__STEP(kt__kernels_select(&cpu, "ref", &ref, why, sizeof why, t->err));
    KT__STEP(kt__pool_create(1, &t->pool, t->err));
    KT__STEP(kt__dev_create(t->pool, ref, false, NULL, &limits, &t->dev, t->err));
    KT__STEP(kt__gpu_pass_create(t->gpu, t->dev, &limits, &t->pass, t->err));
    t->room = kt__pages_alloc(ROOM_BYTES);
    if (!t->room) return kt__fail_nomem(t->err, "a device's test", ROOM_BYTES);
    KT__STEP(kt__gpu_set_create(t->gpu, &t->set, t->err));
    KT__STEP(kt__gpu_set_share(t->set, t->room, ROOM_BYTES, t->err));
    kt__gpu_pass_add(t->pass, t->set);
    t->pass->tests = true;
    t->cpu = kt__dev_ops(t->dev);
    t->on_gpu = kt__gpu_ops();
    return KT_OK;
}

static void close_tester(tester *t) {
    kt__gpu_pass_destroy(t->pass);
    kt__gpu_set_destroy(t->set);
    kt__pages_free(t->room, ROOM_BYTES);
    kt__dev_destroy(t->dev);
    kt__pool_destroy(t->pool);
}

/* What every layer needs; each begins with an empty room. */
static kt_status test_base(tester *t) {
    KT__STEP(test_probes(t));
    t->used = 0;
    KT__STEP(test_activations(t, 1u << KT__ACT_F32, COLS_FLOAT));
    KT__STEP(test_activations(t, 1u << KT__ACT_Q32, COLS_32));
    KT__STEP(test_activations(t, 7, COLS_256));
    KT__STEP(test_norms(t));
    t->used = 0;
    KT__STEP(test_gates(t));
    return test_elements(t);
}

kt_status kt__gpu_self_test(kt__gpu *gpu, int check, kt_error *err) {
    tester t = {.gpu = gpu, .random = 2026, .err = err};
    uint32_t saved = kt__fpenv_enter();
    kt_status status = open_tester(&t);
    if (status == KT_OK)
        status = check == KT__CHECK_BASE   ? test_base(&t)
                 : check < KT__CHECK_FORMS ? test_type(&t, (kt__type)(check - KT__CHECK_TYPES))
                                           : test_form(&t, (kt__kv_form)(check - KT__CHECK_FORMS));
    kt__fpenv_leave(saved);
    close_tester(&t);
    return status;
}
