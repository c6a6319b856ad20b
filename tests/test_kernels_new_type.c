/* A new tensor type is a row of types.def and a codec: three made-up types (tests/new_type), of which no tier knows
 * anything, run in every tier of this machine, byte for byte as in the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels_data.h"
#include "quant/codec.h"

enum { N_ROW = 37, N_COL = 768, N_TOK = 21 };

/* ---- the codecs ---- */

typedef struct made32 {
    kt__f16 d, m;
    int8_t q[32];
} made32;

static void made32_encode(const float *x, void *block) {
    made32 *b = block;
    b->d = kt__f16_from_f32(0x1p-9f);
    b->m = kt__f16_from_f32(0x1p-4f);
    for (int i = 0; i < 32; i++) {
        float level = (x[i] - 0x1p-4f) * 0x1p9f;
        b->q[i] = (int8_t)(level > 100 ? 100 : level < -100 ? -100 : level);
    }
}

static void made32_unpack(const void *block, kt__block32 *out) {
    const made32 *b = block;
    *out = (kt__block32){.d = kt__f16_to_f32(b->d), .m = kt__f16_to_f32(b->m), .has_min = true};
    memcpy(out->q, b->q, sizeof out->q);
}

typedef struct made256 {
    float d;
    int8_t q[256], scale[16];
} made256;

static void made256_encode(const float *x, void *block) {
    made256 *b = block;
    b->d = 0x1p-12f;
    for (int i = 0; i < 256; i++) {
        b->scale[i / 16] = (int8_t)(1 + i / 16);
        float level = x[i] / (b->d * (float)b->scale[i / 16]);
        b->q[i] = (int8_t)(level > 100 ? 100 : level < -100 ? -100 : level);
    }
}

static void made256_unpack(const void *block, kt__super *out) {
    const made256 *b = block;
    *out = (kt__super){.d = b->d};
    memcpy(out->q, b->q, sizeof out->q);
    for (int g = 0; g < 16; g++) out->scale[g] = b->scale[g];
}

static void made1_encode(const float *src, int64_t n, void *dst) {
    int8_t *q = dst;
    for (int64_t i = 0; i < n; i++) q[i] = (int8_t)(src[i] * 256);
}

static void made1_decode(const void *src, int64_t n, float *dst) {
    const int8_t *q = src;
    for (int64_t i = 0; i < n; i++) dst[i] = (float)q[i] / 256;
}

static void made32_encode_row(const float *src, int64_t n, void *dst) {
    for (int64_t i = 0; i < n / 32; i++) made32_encode(src + 32 * i, (made32 *)dst + i);
}

static void made256_encode_row(const float *src, int64_t n, void *dst) {
    for (int64_t i = 0; i < n / 256; i++) made256_encode(src + 256 * i, (made256 *)dst + i);
}

const kt__codec kt__codec_MADE32 = {.encode_row = made32_encode_row, .unpack32 = made32_unpack};
const kt__codec kt__codec_MADE256 = {.encode_row = made256_encode_row, .unpack256 = made256_unpack};
const kt__codec kt__codec_MADE1 = {.encode_row = made1_encode, .decode_row = made1_decode};

/* ---- products ---- */

typedef struct workload {
    uint8_t *w, *act, *exact_act;
    float *x, bias[N_ROW];
    void *scratch;
    kt__mm mm;
} workload;

static uint8_t *rows_of(kt__act_kind kind, const float *x) {
    size_t bytes = kt__act_layout_of(kind, N_COL).row_bytes;
    uint8_t *act = aligned_alloc(64, N_TOK * bytes);
    for (size_t t = 0; t < N_TOK; t++)
        kd_ref()->quantize[kind](x + t * N_COL, N_COL, act + t * bytes);
    return act;
}

static workload workload_open(kt__type type) {
    kd_rng rng = {7};
    workload l = {.x = malloc(sizeof(float) * N_TOK * N_COL)};
    size_t row_bytes = kt__type_row_bytes(type, N_COL);
    l.w = malloc(N_ROW * row_bytes);
    for (size_t r = 0; r < N_ROW; r++) {
        l.bias[r] = kd_normal(&rng);
        kd_weights(type, KD_BLOCKS_ENCODED, &rng, N_COL, l.w + r * row_bytes);
    }
    for (int i = 0; i < N_TOK * N_COL; i++) l.x[i] = kd_normal(&rng);
    l.act = rows_of(kt__type_get(type)->act, l.x);
    l.exact_act = rows_of(KT__ACT_F32, l.x);
    l.scratch = aligned_alloc(64, (size_t)4 << 20);
    l.mm = (kt__mm){.type = type,
                    .w = l.w,
                    .w_row_bytes = row_bytes,
                    .n_row = N_ROW,
                    .n_col = N_COL,
                    .n_tok = N_TOK,
                    .ld_out = N_ROW};
    return l;
}

static void workload_close(workload *l) {
    free(l->w), free(l->act), free(l->exact_act), free(l->x), free(l->scratch);
}

static void product(const workload *l, kt__mm_fn *fn, kt__act_kind kind, float *out) {
    kt__mm mm = l->mm;
    mm.bias = l->bias;
    mm.act = kind == KT__ACT_F32 ? l->exact_act : l->act;
    mm.act_row_bytes = kt__act_layout_of(kind, N_COL).row_bytes;
    mm.out = out;
    memset(out, 0xa5, sizeof *out * N_TOK * N_ROW);
    fn(&mm, l->scratch);
}

/* The dequantised weights times the activations, which 8 bits hold to a hundredth. */
static void check_against_doubles(const workload *l, const float *out) {
    float w[N_COL];
    for (int r = 0; r < N_ROW; r++) {
        kt__dequantize_row(l->mm.type, l->w + (size_t)r * l->mm.w_row_bytes, N_COL, w);
        for (int t = 0; t < N_TOK; t++) {
            double sum = (double)l->bias[r], size = 0;
            for (int k = 0; k < N_COL; k++) {
                double term = (double)w[k] * (double)l->x[t * N_COL + k];
                sum += term;
                size += fabs(term);
            }
            if (!(fabs(sum - (double)out[t * N_ROW + r]) <= 0.01 * size))
                fail_msg("%s: row %d token %d: %g, not %g", kt__type_get(l->mm.type)->name, r, t,
                         (double)out[t * N_ROW + r], sum);
        }
    }
}

static void check_type(kt__type type) {
    workload l = workload_open(type);
    kt__act_kind kind = kt__type_get(type)->act;
    float *want = malloc(sizeof(float) * N_TOK * N_ROW),
          *got = malloc(sizeof(float) * N_TOK * N_ROW);
    size_t bytes = sizeof(float) * N_TOK * N_ROW;
    for (const kt__kernels **tier = kd_tiers(); *tier; tier++) {
        product(&l, kt__mm_ref.rowdot, kind, want);
        check_against_doubles(&l, want);
        product(&l, (*tier)->mm[type]->rowdot, kind, got);
        assert_memory_equal(want, got, bytes);
        product(&l, (*tier)->mm[type]->gemm, kind, got);
        assert_memory_equal(want, got, bytes);
        product(&l, kd_ref()->exact, KT__ACT_F32, want);
        check_against_doubles(&l, want);
        product(&l, (*tier)->exact, KT__ACT_F32, got);
        assert_memory_equal(want, got, bytes);
    }
    free(want), free(got);
    workload_close(&l);
}

static void test_a_row_and_a_codec_are_enough(void **state) {
    (void)state;
    assert_int_equal(KT__TYPE_COUNT - KT__TYPE_MADE32, 3);
    for (kt__type type = KT__TYPE_MADE32; type < KT__TYPE_COUNT; type++) check_type(type);
}

/* ... and its name and number are known. */
static void test_found_by_name_and_number(void **state) {
    (void)state;
    assert_int_equal(kt__type_from_name("made256"), KT__TYPE_MADE256);
    assert_int_equal(kt__type_from_ggml(1000), KT__TYPE_MADE32);
    assert_int_equal(sizeof(made32), kt__type_get(KT__TYPE_MADE32)->block_bytes);
    assert_int_equal(sizeof(made256), kt__type_get(KT__TYPE_MADE256)->block_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_and_a_codec_are_enough),
        cmocka_unit_test(test_found_by_name_and_number),
    };
    kd_print_tiers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
