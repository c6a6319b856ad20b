/* What operations share: where operands are, products, activations. */
#include "gpu/steps.h"

enum {
    GROUP = 64,
    GROUPS_MAX = 65535,
    ROWS_LEAST = 32, /* of a workgroup */
    ALONE = 8,       /* tokens */
    TILE = 32        /* mm_tile.glsl's rows, and tokens with dots */
};

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

kt__gpu_product_kind kt__gpu_product_of(kt__type type) {
    static const kt__gpu_product_kind kinds[KT__TYPE_COUNT] = {
        [KT__TYPE_Q4_K] = {true, true, 0},    [KT__TYPE_Q5_K] = {true, true, 1},
        [KT__TYPE_Q6_K] = {true, true, 2},    [KT__TYPE_Q2_K] = {true, true, 3},
        [KT__TYPE_Q3_K] = {true, true, 4},    [KT__TYPE_Q4_0] = {true, true, 5},
        [KT__TYPE_Q4_1] = {true, true, 6},    [KT__TYPE_Q5_0] = {true, true, 7},
        [KT__TYPE_Q5_1] = {true, true, 8},    [KT__TYPE_Q8_0] = {true, true, 9},
        [KT__TYPE_IQ4_NL] = {true, true, 10}, [KT__TYPE_F32] = {true, false, 0},
        [KT__TYPE_F16] = {true, false, 1},    [KT__TYPE_BF16] = {true, false, 2},
    };
    return kinds[type];
}

bool kt__gpu_takes(kt__type type) {
    return kt__gpu_product_of(type).takes;
}

bool kt__gpu_find_weight(const kt__gpu_pass *pass, const kt__weight *w, uint64_t *at) {
    size_t bytes = (size_t)w->n_row * w->row_bytes;
    *at = 0;
    if (!pass->tests && !kt__gpu_passed(pass->tape.gpu, KT__CHECK_TYPES + (int)w->type))
        return false;
    if (!kt__gpu_takes(w->type) || bytes > UINT32_MAX - 4096 || w->n_row > GROUPS_MAX * ROWS_LEAST)
        return false;
    *at = kt__gpu_at(pass, w->data, bytes);
    if (*at & 3) *at = 0; /* shaders read words */
    return *at;
}

/* Units of 256 columns that a workgroup computes at once, as a power of 2: as many as leave an eighth of it
 * idle at most. */
static uint32_t units_at_once(uint32_t n_unit) {
    uint32_t bits = 3;
    for (; bits > 1; bits--) {
        uint32_t with_idle = (n_unit + (1u << bits) - 1) >> bits << bits;
        if (with_idle * 7 <= n_unit * 8) break;
    }
    return bits;
}

static int tile_tokens(const kt__gpu_pass *pass) {
    return pass->tape.gpu->dots ? TILE : TILE / 2;
}

/* Workgroups of up to so many tokens each. */
static uint32_t groups_of(const kt__gpu_product *p, uint32_t n_tok, uint32_t tokens) {
    return p->runs ? p->n_run : (n_tok + tokens - 1) / tokens;
}

/* With one token after the other where there are few, else in tiles of rows and tokens. */
static void put_in_units(kt__gpu_pass *pass, const kt__gpu_product *p, const kt__gpu_args *args,
                         int kind) {
    bool dots = pass->tape.gpu->dots;
    uint32_t n_row = args->n[1], n_tok = args->n[10];
    if (p->runs ? !p->tiles : n_tok <= ALONE) {
        uint32_t rows = 4 * ((uint32_t)GROUP >> args->n[11]);
        kt__gpu_tape_put(&pass->tape, dots ? KT__SHADER_mm_one_dots : KT__SHADER_mm_one, kind, args,
                         (n_row + rows - 1) / rows, groups_of(p, n_tok, 1), 1);
    } else {
        kt__gpu_tape_put(&pass->tape, dots ? KT__SHADER_mm_tile_dots : KT__SHADER_mm_tile, kind,
                         args, (n_row + TILE - 1) / TILE,
                         groups_of(p, n_tok, (uint32_t)tile_tokens(pass)), 1);
    }
}

/* ---- experts ---- */

enum { RUN_WORDS = 8 };

static uint32_t count_runs(const kt__routing *routing, int most) {
    uint32_t n = 0;
    for (int i = 0; i < routing->n_piece; i++)
        n += (uint32_t)((routing->pieces[i].n_tok + most - 1) / most);
    return n;
}

static uint32_t *put_run(uint32_t *words, const uint64_t at[2], int slot, int n) {
    kt__gpu_put_address(words, at[0]);
    kt__gpu_put_address(words + 2, at[1]);
    words[4] = (uint32_t)slot;
    words[5] = (uint32_t)n;
    words[6] = words[7] = 0;
    return words + RUN_WORDS;
}

/* Of tiles where experts have more than a few tokens each. */
bool kt__gpu_find_experts(kt__gpu_pass *pass, const kt__routing *routing,
                          const kt__expert_weights *experts, kt__gpu_product *p) {
    p->tiles = kt__gpu_product_of(experts->w.type).in_units &&
               routing->n_slot > ALONE * routing->n_piece;
    int most = p->tiles ? tile_tokens(pass) : 1;
    p->n_run = count_runs(routing, most);
    p->n_slot = (uint32_t)routing->n_slot;
    p->bias = experts->bias != NULL; /* where it is, the runs say */
    if (p->n_run > GROUPS_MAX) return false;
    uint32_t *words = kt__gpu_tape_room(&pass->tape, (size_t)p->n_run * RUN_WORDS * 4, &p->runs);
    for (int i = 0; words && i < routing->n_piece; i++) {
        const kt__expert_piece *piece = &routing->pieces[i];
        kt__weight w = kt__expert_weight(experts, piece->expert);
        uint64_t at[2]; /* of weights and bias */
        if (!kt__gpu_find_weight(pass, &w, &at[0]) ||
            !kt__gpu_find(pass, kt__expert_bias(experts, piece->expert),
                          (size_t)w.n_row * sizeof(float), &at[1]))
            return false;
        for (int slot = 0; slot < piece->n_tok; slot += most)
            words = put_run(words, at, piece->slot0 + slot,
                            piece->n_tok - slot < most ? piece->n_tok - slot : most);
    }
    return words;
}

void kt__gpu_put_product(kt__gpu_pass *pass, const kt__gpu_product *p) {
    kt__gpu_product_kind how = kt__gpu_product_of(p->w->type);
    kt__act_kind kind = kt__type_get(p->w->type)->act;
    const kt__act_layout *layout = &p->from->layout[kind];
    uint32_t n_tok = (uint32_t)p->from->n_tok, n_row = (uint32_t)p->w->n_row;
    const kt__gpu_args args = {
        .at = {p->weights, p->acts[kind], p->out, p->bias, p->residual, p->runs, p->slots},
        .n = {(uint32_t)p->w->row_bytes, n_row, (uint32_t)p->w->n_col, (uint32_t)layout->row_bytes,
              (uint32_t)layout->d, (uint32_t)layout->s16, (uint32_t)layout->s32,
              (uint32_t)p->ld_out, (uint32_t)p->ld_residual,
              (p->bias ? 1u : 0u) | (p->residual ? 2u : 0u) | (p->runs ? 4u : 0u) |
                  (p->slots ? 8u : 0u),
              n_tok, units_at_once(((uint32_t)p->w->n_col + 255) / 256)}};
    if (how.in_units)
        put_in_units(pass, p, &args, how.kind);
    else
        kt__gpu_tape_put(&pass->tape, KT__SHADER_mm_float, how.kind, &args, kt__gpu_groups(n_row),
                         groups_of(p, n_tok, 1), 1);
    pass->tape.work += (uint64_t)n_row * (uint64_t)p->w->n_col * (p->runs ? p->n_slot : n_tok);
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
