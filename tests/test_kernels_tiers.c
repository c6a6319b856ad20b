/* Matrix products: every tier this machine can run, every type, few and many tokens, odd sizes and
 * hostile blocks, byte for byte against the reference tier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "amx_emulated.h"
#include "avxvnni_emulated.h"
#include "kernels/dispatch.h"
#include "kernels_data.h"

enum { MAX_ROW = 100, MAX_TOK = 301, MAX_COL = 2128, PAD_OUT = 3 };

static void (*emulate)(void); /* takes the signal of illegal instructions; or NULL */

static void skip_all(const char *why) {
    printf("skipped: %s\n", why);
    exit(77);
}

/* On a processor without AVX-VNNI: its instructions are computed by a signal's handler. */
static void emulate_avxvnni(kt__cpu *cpu) {
    const kt__kernels *tier;
    char why[128];
    if (cpu->avx_vnni) return;
    cpu->avx_vnni = true;
    if (kt__kernels_select(cpu, "avxvnni", &tier, why, sizeof why, NULL) != KT_OK)
        skip_all("this processor has no AVX2");
    kd_tiers_on(cpu, "avxvnni");
    emulate = ave_install;
    printf("AVX-VNNI is emulated\n");
}

#ifdef KT_HAVE_AMX
const kt__kernels *amx_on_avx2(void), *amx_on_avx2_small(void);
extern const kt__kernels kt__kernels_amx;

/* On a processor without tiles: the same of its products in AVX2's vectors, and of the tier itself where there is
 * AVX-512. */
static void emulate_amx(const kt__cpu *cpu) {
    const kt__kernels *tier, *tiers[4] = {amx_on_avx2(), amx_on_avx2_small()};
    char why[128];
    if (kt__kernels_select(cpu, "amx", &tier, why, sizeof why, NULL) == KT_OK) return;
    if (kt__kernels_select(cpu, "avx2", &tier, why, sizeof why, NULL) != KT_OK)
        skip_all("this processor has no AVX2");
    if (kt__kernels_select(cpu, "avx512", &tier, why, sizeof why, NULL) == KT_OK)
        tiers[2] = &kt__kernels_amx;
    for (int i = 0; i < 4; i++) kd_chosen[i] = tiers[i];
    emulate = amxe_install;
    printf("AMX is emulated%s\n",
           tiers[2] ? "" : ", and AVX-512 not there: the tier's products on tiles alone");
}

/* Does no tier compared have products on tiles of its own? */
static bool without_tiles(kt__type type) {
    extern const kt__kernels kt__kernels_avx2;
    return emulate == amxe_install && kd_chosen[0]->mm[type] == kt__kernels_avx2.mm[type];
}
#else
static void emulate_amx(const kt__cpu *cpu) {
    (void)cpu;
    skip_all("this build has no amx tier");
}
static bool without_tiles(kt__type type) {
    (void)type;
    return false;
}
#endif

static void emulate_what_is_asked(void) {
    const char *only = getenv("KT_TEST_TIER");
    kt__cpu cpu;
    kt__cpu_detect(&cpu);
    if (only && strcmp(only, "avxvnni") == 0) emulate_avxvnni(&cpu);
    if (only && strcmp(only, "amx") == 0) emulate_amx(&cpu);
}

/* Buffers of all cases, made once. */
typedef struct bench {
    kd_guard w, act, scratch, tiles;
    float *x, *want, *got, *bias, *residual;
} bench;

static bench *bench_open(void) {
    bench *b = calloc(1, sizeof *b);
    size_t n_out = (size_t)MAX_TOK * (MAX_ROW + PAD_OUT);
    b->w = kd_guard_open((size_t)MAX_ROW * MAX_COL * 4);
    b->act = kd_guard_open((size_t)MAX_TOK * MAX_COL * 4);
    size_t scratch = 64;
    for (const kt__kernels **tier = kd_tiers(); *tier; tier++) {
        if ((*tier)->mm_scratch_bytes > scratch) scratch = (*tier)->mm_scratch_bytes;
    }
    b->scratch = kd_guard_open((scratch + 63) / 64 * 64);
    b->tiles = kd_guard_open((MAX_TOK / KT__TILE_TOKENS + 1) * (MAX_COL / 256) *
                             sizeof(kt__tile_act));
    b->x = malloc(MAX_COL * sizeof(float));
    b->want = malloc(n_out * sizeof(float));
    b->got = malloc(n_out * sizeof(float));
    b->bias = malloc(MAX_ROW * sizeof(float));
    b->residual = malloc(n_out * sizeof(float));
    return b;
}

static void bench_close(bench *b) {
    kd_guard_close(&b->w);
    kd_guard_close(&b->act);
    kd_guard_close(&b->scratch);
    kd_guard_close(&b->tiles);
    free(b->x);
    free(b->want);
    free(b->got);
    free(b->bias);
    free(b->residual);
    free(b);
}

typedef enum family { ROWDOT, GEMM, EXACT, FAMILIES } family;
static const char *const family_names[] = {"rowdot", "gemm", "exact"};

typedef struct mm_case {
    kt__type type;
    int n_row, n_col, n_tok;
    kd_blocks_kind blocks;
    kd_act_kind act;
    bool bias, residual, in_place;
} mm_case;

static kt__mm_fn *function_of(const kt__kernels *tier, kt__type type, family f) {
    if (f == EXACT) return tier->exact;
    return f == GEMM ? tier->mm[type]->gemm : tier->mm[type]->rowdot;
}

static kt__act_kind act_kind_of(const mm_case *c, family f) {
    return f == EXACT ? KT__ACT_F32 : kt__type_get(c->type)->act;
}

static void fill_weights(bench *b, const mm_case *c, kd_rng *rng, kt__mm *mm) {
    mm->w_row_bytes = kt__type_row_bytes(c->type, c->n_col);
    uint8_t *w = kd_guard_last(&b->w, mm->w_row_bytes * (size_t)c->n_row);
    for (int r = 0; r < c->n_row; r++) {
        kd_weights(c->type, c->blocks, rng, c->n_col, w + (size_t)r * mm->w_row_bytes);
    }
    mm->w = w;
}

static void fill_act(bench *b, const mm_case *c, kt__act_kind kind, kd_rng *rng, kt__mm *mm) {
    mm->act_row_bytes = kt__act_layout_of(kind, c->n_col).row_bytes;
    uint8_t *act = kd_guard_last(&b->act, mm->act_row_bytes * (size_t)c->n_tok);
    for (int t = 0; t < c->n_tok; t++) {
        kd_activations(c->act, rng, c->n_col, b->x);
        kd_ref()->quantize[kind](b->x, c->n_col, act + (size_t)t * mm->act_row_bytes);
    }
    mm->act = act;
}

/* The activations as tiles as well, which every second case gives a gemm that reads them. */
static kt__tiles tiles_for(bench *b, const mm_case *c, family f, const kt__kernels *tier,
                           const kt__mm *mm, uint64_t seed) {
    kt__tiles tiles = {NULL, 0};
    if (f != GEMM || seed % 2 || !tier->tile || tier->tiles_from[c->type] == 0) return tiles;
    tiles.pitch = (size_t)(c->n_tok + KT__TILE_TOKENS - 1) / KT__TILE_TOKENS;
    size_t bytes = tiles.pitch * (size_t)(c->n_col / 256) * sizeof *tiles.act;
    tiles.act = kd_guard_last(&b->tiles, bytes);
    memset(tiles.act, 0xa5, bytes);
    tier->tile(mm->act, c->n_col, c->n_tok, tiles);
    return tiles;
}

/* Runs one function into `out`, whose every byte outside the result must stay as it was. */
static void run_case(bench *b, const mm_case *c, kt__mm mm, kt__mm_fn *fn, float *out) {
    size_t n_out = (size_t)c->n_tok * mm.ld_out;
    memset(out, 0xa5, n_out * sizeof *out);
    mm.out = out;
    mm.residual = c->residual ? b->residual : NULL;
    mm.ld_residual = mm.ld_out;
    if (c->residual && c->in_place) {
        for (int t = 0; t < c->n_tok; t++) {
            size_t at = (size_t)t * mm.ld_out;
            memcpy(out + at, b->residual + at, (size_t)c->n_row * sizeof *out);
        }
        mm.residual = out;
    }
    fn(&mm, b->scratch.map);
    kd_unify_nan(out, n_out);
}

static void report(const mm_case *c, const char *tier, family f, const float *want,
                   const float *got, size_t ld) {
    for (int t = 0; t < c->n_tok; t++) {
        for (int r = 0; r < (int)ld; r++) {
            size_t at = (size_t)t * ld + (size_t)r;
            if (memcmp(&want[at], &got[at], sizeof(float)) == 0) continue;
            fail_msg(
                "%s %s %s: n_row %d n_col %d n_tok %d blocks %d act %d bias %d residual %d: row %d "
                "token %d: want %a, got %a",
                tier, kt__type_get(c->type)->name, family_names[f], c->n_row, c->n_col, c->n_tok,
                (int)c->blocks, (int)c->act, c->bias, c->residual, r, t, (double)want[at],
                (double)got[at]);
        }
    }
}

static void compare(bench *b, const mm_case *c, uint64_t seed) {
    kd_rng rng = {seed};
    if (emulate) emulate(); /* cmocka takes the signal for itself with each test */
    kt__mm mm = {.type = c->type, .n_row = c->n_row, .n_col = c->n_col, .n_tok = c->n_tok};
    mm.ld_out = (size_t)c->n_row + (size_t)(seed % PAD_OUT);
    size_t n_out = (size_t)c->n_tok * mm.ld_out;
    for (int r = 0; r < c->n_row; r++) b->bias[r] = kd_normal(&rng);
    for (size_t i = 0; i < n_out; i++) b->residual[i] = kd_normal(&rng);
    if (c->bias) mm.bias = b->bias;
    fill_weights(b, c, &rng, &mm);
    if (seed % 2) mm.next = mm.w;
    const kt__prefetch ahead[] = {{0, 0}, {8192, 0}, {0, 2048}, {1024, 8192}, {64, UINT16_MAX}};
    mm.prefetch = ahead[seed % (sizeof ahead / sizeof *ahead)];
    int filled = -1;
    kt__mm_fn *computed = NULL; /* the reference's rowdot and gemm are one function */
    for (family f = ROWDOT; f < FAMILIES; f++) {
        kt__act_kind kind = act_kind_of(c, f);
        if ((int)kind != filled) {
            fill_act(b, c, kind, &rng, &mm);
            computed = NULL;
        }
        filled = (int)kind;
        kt__mm_fn *reference = function_of(kd_ref(), c->type, f);
        if (reference != computed) run_case(b, c, mm, reference, b->want);
        computed = reference;
        for (const kt__kernels **tier = kd_tiers(); *tier; tier++) {
            mm.tiles = tiles_for(b, c, f, *tier, &mm, seed / PAD_OUT);
            run_case(b, c, mm, function_of(*tier, c->type, f), b->got);
            if (memcmp(b->want, b->got, n_out * sizeof(float)) != 0) {
                report(c, (*tier)->name, f, b->want, b->got, mm.ld_out);
            }
            assert_false(amxe_in_use());
        }
    }
}

static void check_case(bench *b, const mm_case *c, uint64_t seed) {
    if (!without_tiles(c->type) && !kd_left_out()) compare(b, c, seed);
}

/* Row lengths that a type allows: short and full groups, odd lengths for floats. */
static int pick_col(kt__type type, kd_rng *rng) {
    static const int floats[] = {1, 2, 15, 16, 17, 64, 100, 172, 255, 256, 257, 300, 640};
    static const int small[] = {32, 64, 96, 160, 224, 256, 288, 320, 480, 512, 896};
    static const int super[] = {256, 512, 768, 1024, 1280};
    switch (kt__type_get(type)->act) {
    case KT__ACT_F32: return floats[kd_below(rng, (int)(sizeof floats / sizeof *floats))];
    case KT__ACT_Q32: {
        int n = small[kd_below(rng, (int)(sizeof small / sizeof *small))];
        int block = kt__type_get(type)->block_elems;
        return (n + block - 1) / block * block;
    }
    default: return super[kd_below(rng, (int)(sizeof super / sizeof *super))];
    }
}

static mm_case random_case(kt__type type, kd_rng *rng) {
    int flags = kd_below(rng, 8);
    return (mm_case){.type = type,
                     .n_row = 1 + kd_below(rng, 70),
                     .n_col = pick_col(type, rng),
                     .n_tok = 1 + kd_below(rng, 40),
                     .blocks = (kd_blocks_kind)kd_below(rng, KD_BLOCKS_KINDS),
                     .act = (kd_act_kind)kd_below(rng, KD_ACT_KINDS),
                     .bias = flags & 1,
                     .residual = flags & 2,
                     .in_place = flags & 4};
}

static void test_every_number_of_tokens(void **state) {
    kd_rng rng = {1};
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        for (int n_tok = 1; n_tok <= 40; n_tok++) {
            mm_case c = random_case(type, &rng);
            c.n_tok = n_tok;
            c.n_row = 1 + c.n_row / 3;
            check_case(*state, &c, kd_next(&rng));
        }
    }
}

static void test_every_number_of_rows(void **state) {
    kd_rng rng = {2};
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        for (int n_row = 1; n_row <= 70; n_row++) {
            mm_case c = random_case(type, &rng);
            c.n_row = n_row;
            c.n_tok = 1 + c.n_tok / 4;
            check_case(*state, &c, kd_next(&rng));
        }
    }
}

static void test_every_kind_of_data(void **state) {
    kd_rng rng = {3};
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        for (kd_blocks_kind blocks = 0; blocks < KD_BLOCKS_KINDS; blocks++) {
            for (kd_act_kind act = 0; act < KD_ACT_KINDS; act++) {
                mm_case c = random_case(type, &rng);
                c.blocks = blocks;
                c.act = act;
                check_case(*state, &c, kd_next(&rng));
            }
        }
    }
}

static void test_large_tiles(void **state) {
    kd_rng rng = {4};
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        mm_case c = random_case(type, &rng);
        c.n_row = 97;
        c.n_tok = 131 + kd_below(&rng, 29);
        c.n_col = kt__type_get(type)->act == KT__ACT_F32 ? 500 : 1024;
        c.blocks = KD_BLOCKS_RANDOM;
        check_case(*state, &c, kd_next(&rng));
        c.n_row = 64;
        c.n_tok = 64;
        c.n_col = kt__type_get(type)->act == KT__ACT_Q256 ? 2048 : 2016;
        c.n_col -= c.n_col % kt__type_get(type)->block_elems;
        check_case(*state, &c, kd_next(&rng));
    }
}

/* Blocks of rows, of tokens and of columns, each with a rest; too few tokens for a copy of the
 * weights; more tokens than rest together. */
static void test_long_odd_rows(void **state) {
    static const int sizes[][2] = {{69, 101}, {69, 7}, {6, 301}};
    kd_rng rng = {5};
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        if (kt__type_get(type)->act != KT__ACT_F32) continue;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            mm_case c = random_case(type, &rng);
            c.n_row = sizes[i][0];
            c.n_tok = sizes[i][1];
            c.n_col = 2101;
            c.blocks = KD_BLOCKS_RANDOM;
            compare(*state, &c, kd_next(&rng));
        }
    }
}

/* No rows or no tokens: nothing is written, neither to out nor, through it, in place. */
/* A row that is no multiple of 256 long may be read beyond its end, into a row whose scales are infinite: nothing of
 * these comes into it. */
static void test_rows_stay_apart(void **state) {
    static const kt__type types[] = {KT__TYPE_Q4_0, KT__TYPE_Q4_1, KT__TYPE_Q5_0,
                                     KT__TYPE_Q5_1, KT__TYPE_Q8_0, KT__TYPE_IQ4_NL};
    bench *b = *state;
    kd_rng rng = {11};
    if (emulate) emulate();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const mm_case c = {.type = types[i], .n_row = 5, .n_col = 576 + 64 * (int)i, .n_tok = 1};
        kt__mm mm = {
            .type = c.type, .n_row = c.n_row, .n_col = c.n_col, .n_tok = 1, .ld_out = MAX_ROW};
        fill_weights(b, &c, &rng, &mm);
        fill_act(b, &c, act_kind_of(&c, ROWDOT), &rng, &mm);
        size_t block = kt__type_row_bytes(c.type, 32);
        const uint16_t infinite = 0x7c00;
        for (size_t at = mm.w_row_bytes; at < 5 * mm.w_row_bytes; at += block)
            memcpy((uint8_t *)(uintptr_t)mm.w + at, &infinite, sizeof infinite);
        run_case(b, &c, mm, function_of(kd_ref(), c.type, ROWDOT), b->want);
        assert_true(isfinite(b->want[0]) && !isfinite(b->want[1]));
        for (const kt__kernels **tier = kd_tiers(); *tier; tier++) {
            run_case(b, &c, mm, function_of(*tier, c.type, ROWDOT), b->got);
            report(&c, (*tier)->name, ROWDOT, b->want, b->got, MAX_ROW);
        }
    }
}

static void test_nothing_to_do(void **state) {
    bench *b = *state;
    size_t n_out = (size_t)MAX_TOK * (MAX_ROW + PAD_OUT);
    memset(b->got, 0xa5, n_out * sizeof *b->got);
    memset(b->want, 0xa5, n_out * sizeof *b->want);
    if (emulate) emulate();
    kt__mm mm = {.n_col = 2048, .w = b->w.map, .act = b->act.map, .out = b->got, .ld_out = MAX_ROW};
    mm.residual = b->got;
    mm.ld_residual = MAX_ROW;
    mm.bias = b->bias;
    for (mm.type = 0; mm.type < KT__TYPE_COUNT; mm.type++) {
        for (const kt__kernels **tier = kd_tiers(); *tier; tier++) {
            for (family f = ROWDOT; f < FAMILIES; f++) {
                mm.n_row = 0, mm.n_tok = 3;
                function_of(*tier, mm.type, f)(&mm, b->scratch.map);
                mm.n_row = 3, mm.n_tok = 0;
                function_of(*tier, mm.type, f)(&mm, b->scratch.map);
                assert_memory_equal(b->got, b->want, n_out * sizeof *b->got);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_of_tokens), cmocka_unit_test(test_every_number_of_rows),
        cmocka_unit_test(test_every_kind_of_data),     cmocka_unit_test(test_large_tiles),
        cmocka_unit_test(test_long_odd_rows),          cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_rows_stay_apart),
    };
    cmocka_set_test_filter(getenv("KT_TEST_ONLY"));
    emulate_what_is_asked();
    kd_print_tiers();
    bench *b = bench_open();
    struct CMUnitTest with_state[sizeof tests / sizeof *tests];
    memcpy(with_state, tests, sizeof tests);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) with_state[i].initial_state = b;
    int failed = cmocka_run_group_tests(with_state, NULL, NULL);
    bench_close(b);
    return failed;
}
