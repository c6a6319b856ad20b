/* The reference tier's bytes are those that were recorded for this KENTANG_NUMERICS: the arithmetic
 * (docs/NUMERICS.md) cannot change without a new number. The other tiers are compared with the
 * reference elsewhere. After a change that is intended, raise the number and record the digests
 * that the failures print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/math.h"
#include "kernels_data.h"

_Static_assert(KENTANG_NUMERICS == 2, "the digests below are those of version 2");

/* Inputs are finite, so that no NaN, whose bits are open, enters a digest. */
static void expect_digest(const char *what, uint64_t want, const void *data, size_t n) {
    uint64_t got = kt__hash_bytes(1, data, n).w[0];
    if (got != want) {
        print_error("%s: 0x%016llx, recorded is 0x%016llx\n", what, (unsigned long long)got,
                    (unsigned long long)want);
        fail();
    }
}

static void test_elementary_functions(void **state) {
    (void)state;
    enum { N = 4001 };
    static float x[N], out[5][N];
    static double wide[4][N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i - N / 2) * 0.045f;
        out[0][i] = kt__expf(x[i] > 88.0f ? 88.0f : x[i]);
        out[1][i] = kt__tanhf(x[i] * 0.1f);
        out[2][i] = kt__siluf(x[i] * 0.9f);
        out[3][i] = kt__gelu_tanhf(x[i] * 0.1f);
        wide[0][i] = kt__exp((double)x[i] * 3.0);
        wide[1][i] = kt__log((double)i * 0.37 + 1e-9);
        kt__sincos((double)x[i] * 1000.0, &wide[2][i], &wide[3][i]);
    }
    kt__exp_weights(x, x[N - 1], N, out[4]);
    expect_digest("exp, tanh, silu, gelu and the weights of a vocabulary", 0x97bde5f5ef011926u, out,
                  sizeof out);
    expect_digest("exp, log, sin and cos in double", 0x197f1f199088a551u, wide, sizeof wide);
}

typedef struct recorded {
    kt__type type;
    uint64_t product, exact;
} recorded;

enum { ROWS = 5, TOKS = 3, MAX_COL = 1536 };

/* ROWS x TOKS products with bias and residual; n_col ends in the middle of a group of 256 where the
 * type allows. */
static void product_of(kt__type type, kt__act_kind kind, kt__mm_fn *fn, float *out) {
    int block = kt__type_get(type)->block_elems;
    int n_col = kind == KT__ACT_Q256 || block == 256 ? MAX_COL
                : block == 1                         ? 1111
                                                     : 1376 / block * block;
    size_t row_bytes = kt__type_row_bytes(type, n_col);
    size_t act_bytes = kt__act_layout_of(kind, n_col).row_bytes;
    uint8_t *w = malloc(row_bytes * ROWS), *act = aligned_alloc(64, act_bytes * TOKS);
    float x[MAX_COL], bias[ROWS], residual[TOKS * ROWS];
    uint8_t scratch[64];
    kd_rng rng = {31};
    for (int r = 0; r < ROWS; r++) {
        kd_weights(type, KD_BLOCKS_RANDOM, &rng, n_col, w + (size_t)r * row_bytes);
        bias[r] = kd_normal(&rng);
    }
    for (int t = 0; t < TOKS; t++) {
        kd_activations(KD_ACT_NORMAL, &rng, n_col, x);
        kd_ref()->quantize[kind](x, n_col, act + (size_t)t * act_bytes);
        for (int r = 0; r < ROWS; r++) residual[t * ROWS + r] = kd_normal(&rng);
    }
    kt__mm mm = {.type = type,
                 .w = w,
                 .w_row_bytes = row_bytes,
                 .n_row = ROWS,
                 .n_col = n_col,
                 .act = act,
                 .act_row_bytes = act_bytes,
                 .n_tok = TOKS,
                 .out = out,
                 .ld_out = ROWS,
                 .bias = bias,
                 .residual = residual,
                 .ld_residual = ROWS};
    fn(&mm, scratch);
    free(w);
    free(act);
}

static void test_products(void **state) {
    (void)state;
    static const recorded table[] = {
        {KT__TYPE_F32, 0xc83ce715d401a6dcu, 0xc83ce715d401a6dcu},
        {KT__TYPE_F16, 0x591772ec57b63b0au, 0x591772ec57b63b0au},
        {KT__TYPE_BF16, 0x1135c962b93f8679u, 0x1135c962b93f8679u},
        {KT__TYPE_Q4_0, 0xe22709d7307fbe0fu, 0xded2963c9a397accu},
        {KT__TYPE_Q4_1, 0x1dce8a204500792au, 0x223c795ec7728729u},
        {KT__TYPE_Q5_0, 0x4fe6e586b557fd77u, 0x7b74458d84a3319fu},
        {KT__TYPE_Q5_1, 0x6d39886036da8f48u, 0xe2299eac307c0568u},
        {KT__TYPE_Q8_0, 0x7cdf5d9afec097b3u, 0x7e8ae24d66722ce2u},
        {KT__TYPE_IQ4_NL, 0x497e05f306c6c543u, 0x9283fd2e81dc6989u},
        {KT__TYPE_MXFP4, 0xe9e5be736684525fu, 0xf902dc379c2c0580u},
        {KT__TYPE_Q2_K, 0x75113af2a3472459u, 0x0d4cd4f4adef3e50u},
        {KT__TYPE_Q3_K, 0x24b9376c6d4e38d3u, 0x7a9f8e764c4f2a21u},
        {KT__TYPE_Q4_K, 0xa5b00ed8648f8097u, 0xe0b546f781aaf8a9u},
        {KT__TYPE_Q5_K, 0xea6a1a168dc40d41u, 0xdef73baa98305e42u},
        {KT__TYPE_Q6_K, 0x3a052e765fe27742u, 0x4fbeb0a4cbbdaa4eu},
        {KT__TYPE_IQ4_XS, 0xee7413e631763948u, 0x64e618aa45ae692cu},
        {KT__TYPE_IQ3_S, 0x0cdcf2fb18312893u, 0x53a759cd3e91b2beu},
        {KT__TYPE_IQ3_XXS, 0x58099f20b3ed7683u, 0x63ec6fb311b4775eu},
        {KT__TYPE_IQ2_S, 0xe0124721402bb17du, 0xa8077ae3b8ec9f7bu},
        {KT__TYPE_IQ2_XS, 0x4b5e3f291d0ab005u, 0x594acd970fedeac7u},
        {KT__TYPE_IQ2_XXS, 0xf8322ed2495c031du, 0x42cb596b386fd1c9u},
        {KT__TYPE_IQ1_M, 0xdc2f32c2c5a2e672u, 0xfc4307eb654fdfd7u},
        {KT__TYPE_IQ1_S, 0x408ebc94e5e36409u, 0x5a41c573bc2a13ceu},
        {KT__TYPE_TQ2_0, 0xbd56a251a5d673f0u, 0x418e4f5b570414a0u},
        {KT__TYPE_TQ1_0, 0x218125068846134du, 0xcf3e10d61795c0d6u},
        {KT__TYPE_NVFP4, 0x0ffa2249273679ceu, 0x5470e3a307f85c72u},
        {KT__TYPE_Q2_0, 0x4e88fe38686f5691u, 0x3b589e8a30c4c495u},
        {KT__TYPE_Q1_0, 0x579a3adb285dd567u, 0xf48a21cf215bfa86u},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const kt__type_info *info = kt__type_get(table[i].type);
        float out[TOKS * ROWS];
        product_of(table[i].type, info->act, kd_ref()->mm[table[i].type]->rowdot, out);
        expect_digest(info->name, table[i].product, out, sizeof out);
        product_of(table[i].type, KT__ACT_F32, kd_ref()->exact, out);
        expect_digest("the same, exact", table[i].exact, out, sizeof out);
    }
}

/* Quantisation, the norm, gates, caps, rotations and the pages' roundings of one row. */
static void test_rows(void **state) {
    (void)state;
    enum { N = 768 };
    const kt__kernels *ref = kd_ref();
    float x[N], y[N], out[6][N];
    kd_rng rng = {32};
    kd_activations(KD_ACT_NORMAL, &rng, N, x);
    kd_activations(KD_ACT_NORMAL, &rng, N, y);
    for (kt__act_kind kind = KT__ACT_Q32; kind <= KT__ACT_Q256; kind++) {
        static const uint64_t want[KT__ACT_COUNT] = {
            [KT__ACT_Q32] = 0x63e336f62b7feed0u, [KT__ACT_Q256] = 0x9c96c126cd0cc084u};
        size_t bytes = kt__act_layout_of(kind, N).row_bytes;
        uint8_t *row = aligned_alloc(64, bytes);
        ref->quantize[kind](x, N, row);
        expect_digest(kind == KT__ACT_Q32 ? "activations of 32" : "activations of 256", want[kind],
                      row, bytes);
        free(row);
    }
    (void)ref->rmsnorm(x, y, N, 1e-5f, out[0]);
    ref->silu_mul(x, y, N, out[1]);
    ref->gelu_mul(x, y, N, out[2]);
    for (int i = 3; i < 6; i++) memcpy(out[i], x, sizeof x);
    ref->softcap(out[3], N, 5.0f);
    ref->rope_neox(out[4], y, N / 2);
    ref->rope_norm(out[5], y, N / 2);
    expect_digest("norm, gates, cap and rotations", 0xdfe8eb54ae37147au, out, sizeof out);
}

/* Three splits of one head's queries, the first and the last cut, merged. */
static void test_attention(void **state) {
    (void)state;
    enum { DIM = 40, POS = 600, QUERIES = 3 };
    static kt__f16 k[3 * KT__SPLIT_PAGES][DIM * 16], v[3 * KT__SPLIT_PAGES][DIM * 16];
    const kt__kernels *ref = kd_ref();
    kd_rng rng = {33};
    float row[DIM], q[QUERIES * DIM], M[QUERIES], L[QUERIES], O[QUERIES * DIM], m[QUERIES],
        l[QUERIES], o[QUERIES * DIM], out[QUERIES * DIM];
    int16_t lo[QUERIES] = {7, 8, 9}, hi[QUERIES] = {256, 256, 256};
    static float scratch[KT__SPLIT_POS * 2 * DIM];
    for (int i = 0; i < QUERIES * DIM; i++) q[i] = kd_normal(&rng) * 0.5f;
    for (int p = 0; p < POS; p++) {
        for (int d = 0; d < DIM; d++) row[d] = kd_normal(&rng);
        ref->store_k(row, DIM, p % 16, k[p / 16]);
        ref->store_v(row, DIM, p % 16, v[p / 16]);
    }
    for (int split = 0; split < 3; split++) {
        kt__attn a = {.head_dim_k = DIM,
                      .head_dim_v = DIM,
                      .q = q,
                      .ld_q = DIM,
                      .n_q = QUERIES,
                      .lo = lo,
                      .hi = hi,
                      .softcap = 30.0f,
                      .m = split ? m : M,
                      .l = split ? l : L,
                      .o = split ? o : O,
                      .ld_o = DIM};
        for (int i = 0; i < QUERIES; i++) {
            if (split) lo[i] = 0;
            if (split == 2) hi[i] = (int16_t)(POS - 512 - QUERIES + i);
        }
        for (int p = 0; p < KT__SPLIT_PAGES; p++) {
            a.k[p] = k[split * KT__SPLIT_PAGES + p];
            a.v[p] = v[split * KT__SPLIT_PAGES + p];
        }
        ref->attn(&a, scratch);
        for (int i = 0; split && i < QUERIES; i++)
            ref->attn_merge(&M[i], &L[i], O + i * DIM, m[i], l[i], o + i * DIM, DIM);
    }
    for (int i = 0; i < QUERIES; i++) ref->attn_finish(O + i * DIM, L[i], DIM, out + i * DIM);
    expect_digest("attention over three splits", 0x8e05a71f1762cb70u, out, sizeof out);
    expect_digest("keys in pages", 0x25be629d8e6699bcu, k, sizeof k);
    expect_digest("values in pages", 0x6cfd72703c1b9b3eu, v, sizeof v);
}

/* A split of quantised pages, but the first and the last, of both forms: what is kept of values, and
 * what comes of them. */
static void test_quantised_attention(void **state) {
    (void)state;
    enum { DIM = 40, QUERIES = 3, PAGE = DIM * 16, BYTES = 64 + PAGE };
    static kt__f16 k[KT__SPLIT_PAGES][PAGE], v[KT__SPLIT_PAGES][PAGE];
    static uint8_t codes[2][KT__SPLIT_PAGES][BYTES], q_codes[QUERIES][64];
    static _Alignas(64) uint8_t scratch[KT__SPLIT_POS * 2 * DIM * sizeof(float)];
    static const uint64_t want[][2] = {[KT__KV_Q8] = {0x145d5c0e2b45cff3u, 0xf4f302dda422ef1fu},
                                       [KT__KV_Q4] = {0xc91ab48ea4941bfcu, 0xf34aba01c03d74fcu}};
    const kt__kernels *ref = kd_ref();
    for (kt__kv_form form = KT__KV_Q8; form <= KT__KV_Q4; form++) {
        kd_rng rng = {34};
        float row[DIM], q[QUERIES * DIM], out[QUERIES * (DIM + 2)];
        const int16_t lo[QUERIES] = {0, 0, 7}, hi[QUERIES] = {250, 251, 252},
                      own[QUERIES] = {15, 15, 15};
        kt__attn_quantised x = {
            .k_form = form, .v_form = form, .q = q_codes[0], .ld_q = 64, .from = 1, .own = own};
        kt__attn a = {.head_dim_k = DIM,
                      .head_dim_v = DIM,
                      .q = q,
                      .ld_q = DIM,
                      .n_q = QUERIES,
                      .lo = lo,
                      .hi = hi,
                      .m = out,
                      .l = out + QUERIES,
                      .o = out + 2 * QUERIES,
                      .ld_o = DIM,
                      .quantised = &x};
        memset(codes, 0, sizeof codes);
        for (int p = 0; p < KT__SPLIT_POS; p++) {
            for (int d = 0; d < DIM; d++) row[d] = kd_normal(&rng);
            ref->store_k(row, DIM, p % 16, k[p / 16]);
            for (int d = 0; d < DIM; d++) row[d] = kd_normal(&rng) * 0.1f * (float)(1 + p % 7);
            ref->store_v(row, DIM, p % 16, v[p / 16]);
        }
        for (int p = 0; p < KT__SPLIT_PAGES; p++) {
            ref->quantise_k[form](k[p], DIM, codes[0][p], scratch);
            ref->quantise_v[form](v[p], DIM, codes[1][p], scratch);
            a.k[p] = k[p], a.v[p] = v[p], x.k[p] = codes[0][p], x.v[p] = codes[1][p];
        }
        for (int i = 0; i < QUERIES * DIM; i++) q[i] = kd_normal(&rng) * 0.5f;
        for (int i = 0; i < QUERIES; i++) ref->code_query(q + i * DIM, DIM, q_codes[i], scratch);
        ref->attn(&a, scratch);
        expect_digest("quantised values", want[form][0], codes[1], sizeof codes[1]);
        expect_digest("attention over quantised pages", want[form][1], out, sizeof out);
    }
}

/* ---- recurrent layers ---- */

static void test_recurrent(void **state) {
    (void)state;
    enum { DIM = 48, STATE_ROWS = 5, N = 70 };
    kd_rng rng = {9};
    static float x[4][N], taps[4 * N], qkv[TOKS][2 * DIM + STATE_ROWS], out[3][N];
    float s[STATE_ROWS * DIM] = {0}, read[TOKS * STATE_ROWS], gates[2][TOKS];
    const float *rows[] = {x[0], x[1], x[2], x[3]};
    for (int i = 0; i < 4 * N; i++) {
        x[i / N][i % N] = kd_normal(&rng);
        taps[i] = kd_normal(&rng);
    }
    for (int t = 0; t < TOKS; t++) {
        for (int i = 0; i < 2 * DIM + STATE_ROWS; i++) qkv[t][i] = kd_normal(&rng) * 0.2f;
        gates[0][t] = 0.9f - 0.1f * (float)t;
        gates[1][t] = 0.3f + 0.2f * (float)t;
    }
    for (int silu = 0; silu < 2; silu++) {
        const kt__conv conv = {rows, taps, N, NULL, 4, N, silu != 0, out[silu]};
        kd_ref()->conv(&conv);
    }
    kd_ref()->sigmoid_mul(x[0], x[1], N, out[2]);
    const kt__delta delta = {s,
                             STATE_ROWS,
                             DIM,
                             TOKS,
                             false,
                             qkv[0],
                             qkv[0] + DIM,
                             2 * DIM + STATE_ROWS,
                             qkv[0] + 2 * DIM,
                             2 * DIM + STATE_ROWS,
                             gates[0],
                             gates[1],
                             1,
                             read,
                             STATE_ROWS,
                             NULL};
    kd_ref()->delta(&delta);
    expect_digest("convolutions and gates", 0xd3a93a5dbba29a80u, out, sizeof out);
    expect_digest("a delta net's state", 0xa6197dc8a399fff3u, s, sizeof s);
    expect_digest("what is read of it", 0x07946fa3c858d3c0u, read, sizeof read);
    kt__delta fading = delta;
    fading.adds = true;
    fading.a = taps;
    fading.beta = x[2];
    fading.ld_g = STATE_ROWS;
    kd_ref()->softplus(x[2], N);
    kd_ref()->delta(&fading);
    expect_digest("a state of which each number decays by itself", 0x473668ed6d3173c2u, s,
                  sizeof s);
    expect_digest("what is read of that", 0x896d1d7daafe26f9u, read, sizeof read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementary_functions),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_quantised_attention),
        cmocka_unit_test(test_recurrent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
