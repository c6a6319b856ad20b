/* Inside of a pass: what is recorded, and where.
 *
 * Owns: the layout of a pass, and the steps that its operations share. For gpu/ alone. */
#ifndef KT_GPU_STEPS_H
#define KT_GPU_STEPS_H

#include "gpu/vk.h"

struct kt__gpu_pass {
    kt__gpu_tape tape;
    kt__dev *cpu;
    const kt__ops *cpu_ops;
    kt__dev_limits limits;
    const kt__gpu_set *sets[KT__GPU_SETS];
    int n_set;
    bool split; /* other processes have parts: nothing runs here */
    bool tests; /* of the test, which records what has not passed */
    /* rows of the largest operand each, and parts of attention */
    kt__gpu_buffer rows[2], parts;
};

/* How a type's products are computed: by which form of its shader, and whether by units of 256 columns (mm.glsl). */
typedef struct kt__gpu_product_kind {
    bool takes, in_units;
    int kind;
} kt__gpu_product_kind;
kt__gpu_product_kind kt__gpu_product_of(kt__type type);

static inline kt__gpu_pass *kt__gpu_pass_of(const kt__dev *dev) {
    return kt__dev_accel(dev);
}

/* Nothing is recorded for many more groups than every device takes, or in a job of processes. */
bool kt__gpu_may_record(const kt__gpu_pass *pass, int64_t n_tok, int64_t n);
/* Workgroups of n invocations. */
uint32_t kt__gpu_groups(int64_t n);
/* Into a table that a shader reads. */
static inline void kt__gpu_put_address(uint32_t words[2], uint64_t address) {
    words[0] = (uint32_t)address;
    words[1] = (uint32_t)(address >> 32);
}

/* The device's address; 0: it does not reach that. */
uint64_t kt__gpu_at(const kt__gpu_pass *pass, const void *host, size_t bytes);
/* The same of what may be absent: with NULL true and 0. */
bool kt__gpu_find(const kt__gpu_pass *pass, const void *host, size_t bytes, uint64_t *out);
/* Of all kinds of activation rows. */
bool kt__gpu_find_acts(const kt__gpu_pass *pass, const kt__acts *acts, int n_tok,
                       uint64_t at[KT__ACT_COUNT]);

/* Rows at x (an address, [n_tok][n_col]) to acts, whose addresses are at[]. */
void kt__gpu_put_quantise(kt__gpu_pass *pass, uint64_t x, const kt__acts *acts, int n_tok,
                          const uint64_t at[KT__ACT_COUNT]);

typedef struct kt__gpu_product {
    const kt__weight *w;
    uint64_t weights, bias, residual,
        out; /* addresses; bias and residual 0: none; bias 1: where the runs say */
    uint64_t acts[KT__ACT_COUNT];
    const kt__acts *from;
    size_t ld_out, ld_residual;
    uint64_t runs, slots; /* experts' (shaders/runs.glsl); 0: all tokens have these weights */
    uint32_t n_run, n_slot;
    bool tiles; /* with runs: of tiles of tokens, else of one each */
} kt__gpu_product;
/* Whether the device has the weights, and takes them. */
bool kt__gpu_find_weight(const kt__gpu_pass *pass, const kt__weight *w, uint64_t *at);
void kt__gpu_put_product(kt__gpu_pass *pass, const kt__gpu_product *p);
/* Gives a product its runs: its weights are then those of the experts. false: the device lacks some, and the
 * processor multiplies. */
bool kt__gpu_find_experts(kt__gpu_pass *pass, const kt__routing *routing,
                          const kt__expert_weights *experts, kt__gpu_product *p);

/* Queries, keys and values, and attention: heads.c. False where the processor has to do it; nothing is recorded
 * then. */
bool kt__gpu_qkv(kt__gpu_pass *pass, const kt__acts *acts, const kt__qkv *desc);
bool kt__gpu_attention(kt__gpu_pass *pass, const kt__attention *desc);

#endif
