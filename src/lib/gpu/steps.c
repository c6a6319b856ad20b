/* What operations share: where operands are, products, activations. */
#include "gpu/steps.h"

enum { GROUP = 64, GROUPS_MAX = 65535, SINGLE = 8 };

uint64_t kt__gpu_at(const kt__gpu_pass *pass, const void *host, size_t bytes) {
    for (int i = 0; host && i < pass->n_set; i++) {
        uint64_t at = kt__gpu_set_find(pass->sets[i], host, bytes);
        if (at) return at;
    }
    return 0;
}

bool kt__gpu_find(const kt__gpu_pass *pass, const void *host, size_t bytes, uint64_t *out) {
    *out = host ? kt__gpu_at(pass, host, bytes) : 0;
    return !host || *out;
}

bool kt__gpu_find_acts(const kt__gpu_pass *pass, const kt__acts *acts, int n_tok,
                       uint64_t at[KT__ACT_COUNT]) {
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        at[kind] = 0;
        if (!(acts->kinds >> kind & 1)) continue;
        at[kind] = kt__gpu_at(pass, acts->data[kind], (size_t)n_tok * acts->layout[kind].row_bytes);
        if (!at[kind]) return false;
    }
    return true;
}

bool kt__gpu_may_record(const kt__gpu_pass *pass, int64_t n_tok, int64_t n) {
    return !pass->split && !kt__gpu_lost(pass->tape.gpu) && n_tok > 0 && n_tok <= GROUPS_MAX &&
           n <= (int64_t)GROUPS_MAX * GROUP;
}

uint32_t kt__gpu_groups(int64_t n) {
    return (uint32_t)((n + GROUP - 1) / GROUP);
}

typedef struct product_kind {
    bool takes;
    kt__gpu_shader shader;
    int kind, tokens; /* of an invocation */
} product_kind;

static product_kind product_of(kt__type type) {
    static const product_kind kinds[KT__TYPE_COUNT] = {
        [KT__TYPE_Q4_K] = {true, KT__SHADER_mm_q256, 0, 4},
        [KT__TYPE_Q5_K] = {true, KT__SHADER_mm_q256, 1, 4},
        [KT__TYPE_Q6_K] = {true, KT__SHADER_mm_q256, 2, 4},
        [KT__TYPE_Q2_K] = {true, KT__SHADER_mm_q256, 3, 4},
        [KT__TYPE_Q3_K] = {true, KT__SHADER_mm_q256, 4, 4},
        [KT__TYPE_Q4_0] = {true, KT__SHADER_mm_q32, 0, 4},
        [KT__TYPE_Q4_1] = {true, KT__SHADER_mm_q32, 1, 4},
        [KT__TYPE_Q5_0] = {true, KT__SHADER_mm_q32, 2, 4},
        [KT__TYPE_Q5_1] = {true, KT__SHADER_mm_q32, 3, 4},
        [KT__TYPE_Q8_0] = {true, KT__SHADER_mm_q32, 4, 4},
        [KT__TYPE_IQ4_NL] = {true, KT__SHADER_mm_q32, 5, 4},
        [KT__TYPE_F32] = {true, KT__SHADER_mm_float, 0, 1},
        [KT__TYPE_F16] = {true, KT__SHADER_mm_float, 1, 1},
        [KT__TYPE_BF16] = {true, KT__SHADER_mm_float, 2, 1},
    };
    return kinds[type];
}

bool kt__gpu_takes(kt__type type) {
    return product_of(type).takes;
}

bool kt__gpu_find_weight(const kt__gpu_pass *pass, const kt__weight *w, uint64_t *at) {
    size_t bytes = (size_t)w->n_row * w->row_bytes;
    *at = 0;
    if (!kt__gpu_takes(w->type) || bytes > UINT32_MAX - 4096 || w->n_row > GROUPS_MAX * GROUP)
        return false;
    *at = kt__gpu_at(pass, w->data, bytes);
    return *at;
}

void kt__gpu_put_product(kt__gpu_pass *pass, const kt__gpu_product *p) {
    product_kind how = product_of(p->w->type);
    kt__act_kind kind = kt__type_get(p->w->type)->act;
    const kt__act_layout *layout = &p->from->layout[kind];
    uint32_t n_tok = (uint32_t)p->from->n_tok;
    const kt__gpu_args args = {
        .at = {p->weights & ~(uint64_t)3, p->acts[kind], p->out, p->bias, p->residual},
        .n = {(uint32_t)(p->weights & 3), (uint32_t)p->w->row_bytes, (uint32_t)p->w->n_row,
              (uint32_t)p->w->n_col, (uint32_t)layout->row_bytes, (uint32_t)layout->d,
              (uint32_t)(kind == KT__ACT_Q256 ? layout->s16 : layout->s32), (uint32_t)p->ld_out,
              (uint32_t)p->ld_residual, (p->bias ? 1u : 0u) | (p->residual ? 2u : 0u), n_tok}};
    if (n_tok == 1 && how.tokens > 1) { /* its registers hold one token's sums */
        how.kind += SINGLE;
        how.tokens = 1;
    }
    kt__gpu_tape_put(&pass->tape, how.shader, how.kind, &args, kt__gpu_groups(p->w->n_row),
                     (n_tok + (uint32_t)how.tokens - 1) / (uint32_t)how.tokens, 1);
    pass->tape.work += (uint64_t)p->w->n_row * (uint64_t)p->w->n_col * n_tok;
}

void kt__gpu_put_quantise(kt__gpu_pass *pass, uint64_t x, const kt__acts *acts, int n_tok,
                          const uint64_t at[KT__ACT_COUNT]) {
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        const kt__act_layout *layout = &acts->layout[kind];
        if (!(acts->kinds >> kind & 1)) continue;
        const kt__gpu_args args = {.at = {x, at[kind]},
                                   .n = {(uint32_t)acts->n_col, (uint32_t)layout->row_bytes,
                                         (uint32_t)layout->d, (uint32_t)layout->s16,
                                         (uint32_t)layout->s32}};
        kt__gpu_tape_put(&pass->tape, KT__SHADER_quantise, kind, &args,
                         ((uint32_t)acts->n_col + 255) / 256, (uint32_t)n_tok, 1);
    }
}
