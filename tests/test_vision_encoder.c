/* vision: an encoder's rows against a plain evaluation, and the same bytes on all tiers and threads; how
 * pictures are cut; files that are not what they should be. */
#include <unistd.h>

#include "host/host.h"
#include "kernels/dispatch.h"
#include "vision/encoder.h"
#include "vision/prepare.h"
#include "vision_fixture.h"

enum { D_TEXT = 24 };

static const char *const file = "vision_encoder_test.gguf";
static uint8_t pixels[EYE_SIDE * EYE_SIDE * 3];

static kt__vision *open_eye(const char *projector, kt__type type) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__vision *v;
    kt_error err;
    eye_write(file, projector, type, D_TEXT);
    die_on(kt__vision_open(file, &params, &v, &err), &err);
    unlink(file);
    return v;
}

/* false: this machine lacks the tier */
static bool encode(const kt__vision *v, const char *isa, int n_threads, bool slowly, float *rows) {
    const kt__kernels *kernels;
    kt__pool *pool;
    kt__seer *seer;
    kt__cpu cpu;
    kt_error err;
    char why[64];
    bool done = false;
    kt__cpu_detect(&cpu);
    if (kt__kernels_select(&cpu, isa, &kernels, why, sizeof why, &err) != KT_OK) return false;
    die_on(kt__pool_create(n_threads, &pool, &err), &err);
    die_on(kt__seer_create(v, pool, kernels, false, &seer, &err), &err);
    kt__seer_begin(seer, pixels, rows, n_threads);
    while (!done) die_on(kt__seer_run(seer, slowly ? 0 : INT64_MAX, &done, &err), &err);
    kt__seer_destroy(seer);
    kt__pool_destroy(pool);
    return true;
}

/* ---- the plain evaluation ---- */

static double plain_x[EYE_N][EYE_D];

static void plain_norm(const double *x, const float *w, const float *b, double eps, double *out) {
    double mean = 0, var = 0;
    for (int i = 0; i < EYE_D; i++) mean += x[i] / EYE_D;
    for (int i = 0; i < EYE_D; i++) var += (x[i] - mean) * (x[i] - mean) / EYE_D;
    for (int i = 0; i < EYE_D; i++)
        out[i] = (x[i] - mean) / sqrt(var + eps) * (double)w[i] + (double)b[i];
}

static void plain_product(const kt__weight *w, const float *bias, const double *x, double *out) {
    float row[EYE_D * EYE_MERGE * EYE_MERGE];
    for (int r = 0; r < w->n_row; r++) {
        out[r] = bias ? (double)bias[r] : 0.0;
        kt__dequantize_row(w->type, w->data + (size_t)r * w->row_bytes, w->n_col, row);
        for (int c = 0; c < w->n_col; c++) out[r] += (double)row[c] * x[c];
    }
}

static void plain_embed(const kt__vision *v) {
    for (int p = 0; p < EYE_N; p++) {
        double patch[3 * EYE_PATCH * EYE_PATCH];
        int at = 0;
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < EYE_PATCH * EYE_PATCH; i++) {
                int x = p % EYE_N_SIDE * EYE_PATCH + i % EYE_PATCH;
                int y = p / EYE_N_SIDE * EYE_PATCH + i / EYE_PATCH;
                patch[at++] = pixels[(y * EYE_SIDE + x) * 3 + c] / 127.5 - 1.0;
            }
        plain_product(&v->embed, v->embed_bias, patch, plain_x[p]);
        for (int i = 0; i < EYE_D; i++) plain_x[p][i] += (double)v->positions[p * EYE_D + i];
    }
}

static void plain_attention(const kt__vision_layer *l, double eps) {
    static double q[EYE_N][EYE_D], k[EYE_N][EYE_D], val[EYE_N][EYE_D];
    enum { DIM = EYE_D / EYE_HEADS };
    for (int p = 0; p < EYE_N; p++) {
        double y[EYE_D];
        plain_norm(plain_x[p], l->norm[0], l->norm_bias[0], eps, y);
        plain_product(&l->q, l->q_bias, y, q[p]);
        plain_product(&l->k, l->k_bias, y, k[p]);
        plain_product(&l->v, l->v_bias, y, val[p]);
    }
    for (int p = 0; p < EYE_N; p++) {
        double out[EYE_D] = {0}, y[EYE_D] = {0};
        for (int h = 0; h < EYE_HEADS; h++) {
            double share[EYE_N], sum = 0;
            for (int o = 0; o < EYE_N; o++) {
                double score = 0;
                for (int i = h * DIM; i < (h + 1) * DIM; i++) score += q[p][i] * k[o][i];
                sum += share[o] = exp(score / sqrt(DIM));
            }
            for (int o = 0; o < EYE_N; o++)
                for (int i = h * DIM; i < (h + 1) * DIM; i++) out[i] += share[o] / sum * val[o][i];
        }
        plain_product(&l->out, l->out_bias, out, y);
        for (int i = 0; i < EYE_D; i++) plain_x[p][i] += y[i];
    }
}

static double plain_gelu(double x) {
    return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static void plain_feed_forward(const kt__vision_layer *l, double eps) {
    for (int p = 0; p < EYE_N; p++) {
        double y[EYE_D], ff[EYE_FF];
        plain_norm(plain_x[p], l->norm[1], l->norm_bias[1], eps, y);
        plain_product(&l->up, l->up_bias, y, ff);
        for (int i = 0; i < EYE_FF; i++) ff[i] = plain_gelu(ff[i]);
        plain_product(&l->down, l->down_bias, ff, y);
        for (int i = 0; i < EYE_D; i++) plain_x[p][i] += y[i];
    }
}

/* A row of the text model out of a square of patches. */
static void plain_merge(const kt__vision *v, int index, double *out) {
    double merged[EYE_D * EYE_MERGE * EYE_MERGE] = {0}, squares = 0;
    enum { N_X = EYE_N_SIDE / EYE_MERGE };
    for (int y = 0; y < EYE_MERGE; y++)
        for (int x = 0; x < EYE_MERGE; x++) {
            const double *patch =
                plain_x[(index / N_X * EYE_MERGE + y) * EYE_N_SIDE + index % N_X * EYE_MERGE + x];
            for (int i = 0; i < EYE_D; i++) {
                if (v->merged_norm)
                    merged[i] += patch[i] / (EYE_MERGE * EYE_MERGE);
                else
                    merged[(y * EYE_MERGE + x) * EYE_D + i] = patch[i];
            }
        }
    for (int i = 0; i < EYE_D && v->merged_norm; i++) squares += merged[i] * merged[i] / EYE_D;
    for (int i = 0; i < EYE_D && v->merged_norm; i++)
        merged[i] *= (double)v->merged_norm[i] / sqrt(squares + (double)v->eps);
    plain_product(&v->projection, NULL, merged, out);
}

static void plain_encode(const kt__vision *v, double rows[EYE_ROWS][D_TEXT]) {
    plain_embed(v);
    for (int i = 0; i < EYE_LAYERS; i++) {
        plain_attention(&v->layers[i], (double)v->eps);
        plain_feed_forward(&v->layers[i], (double)v->eps);
    }
    for (int p = 0; p < EYE_N; p++) {
        double y[EYE_D];
        plain_norm(plain_x[p], v->end_norm, v->end_norm_bias, (double)v->eps, y);
        memcpy(plain_x[p], y, sizeof y);
    }
    for (int i = 0; i < EYE_ROWS; i++) plain_merge(v, i, rows[i]);
}

static double relative_error(const float *rows, double want[EYE_ROWS][D_TEXT]) {
    double difference = 0, size = 0;
    for (int i = 0; i < EYE_ROWS * D_TEXT; i++) {
        double w = want[i / D_TEXT][i % D_TEXT], d = (double)rows[i] - w;
        difference += d * d;
        size += w * w;
    }
    return sqrt(difference / size);
}

/* ---- tests ---- */

static int setup(void **state) {
    uint32_t seed = 3;
    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)lcg_below(&seed, 256);
    return 0;
}

static void rows_are_those_of_a_plain_evaluation(void **state) {
    (void)state;
    const struct {
        const char *projector;
        kt__type type;
        double most;
    } rows_of[] = {{"idefics3", KT__TYPE_F32, 5e-4},
                   {"gemma3", KT__TYPE_F32, 5e-4},
                   {"idefics3", KT__TYPE_Q8_0, 3e-2}};
    for (size_t i = 0; i < sizeof rows_of / sizeof *rows_of; i++) {
        kt__vision *v = open_eye(rows_of[i].projector, rows_of[i].type);
        static float rows[EYE_ROWS * D_TEXT];
        static double want[EYE_ROWS][D_TEXT];
        assert_int_equal(v->n_rows, EYE_ROWS);
        assert_true(encode(v, NULL, 2, false, rows));
        plain_encode(v, want);
        double error = relative_error(rows, want);
        print_message("%s, type %d: %.2g\n", rows_of[i].projector, rows_of[i].type, error);
        assert_true(error < rows_of[i].most);
        kt__vision_close(v);
    }
}

static void rows_are_the_same_everywhere(void **state) {
    (void)state;
    static const char *const tiers[] = {"ref", "sse41", "avx2",    "avxvnni", "avx512",
                                        "amx", "neon",  "dotprod", "i8mm"};
    for (int projector = 0; projector < 2; projector++) {
        kt__vision *v = open_eye(projector ? "gemma3" : "idefics3",
                                 projector ? KT__TYPE_F16 : KT__TYPE_Q8_0);
        static float want[EYE_ROWS * D_TEXT], rows[EYE_ROWS * D_TEXT];
        assert_true(encode(v, NULL, 1, false, want));
        for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
            memset(rows, 0, sizeof rows);
            if (encode(v, tiers[i], 3, i % 2, rows)) assert_memory_equal(rows, want, sizeof rows);
        }
        kt__vision_close(v);
    }
}

static void written_is(const kt__vision *v, int width, int height, int n_x, int n_y,
                       const char *text) {
    kt__tiling tiling = kt__vision_tiling(v, width, height);
    kt__buf out;
    assert_int_equal(tiling.n_x, n_x);
    assert_int_equal(tiling.n_y, n_y);
    kt__buf_init(&out, 1 << 16);
    kt__vision_write(v, &tiling, &out);
    (void)kt__buf_putc(&out, 0);
    assert_string_equal(out.data, text);
    kt__buf_free(&out);
}

static void pictures_are_cut_as_processors_do(void **state) {
    (void)state;
    static const char global[] =
        "<fake_token_around_image><global-img><image><fake_token_around_image>";
    kt__vision *v = open_eye("idefics3", KT__TYPE_F32);
    char text[1024];
    snprintf(text, sizeof text,
             "<fake_token_around_image><row_1_col_1><image>"
             "<fake_token_around_image><row_1_col_2><image>\n\n%s",
             global);
    written_is(v, 300, 100, 2, 1, text);
    snprintf(text, sizeof text,
             "<fake_token_around_image><row_1_col_1><image>\n"
             "<fake_token_around_image><row_2_col_1><image>\n\n%s",
             global);
    written_is(v, 10, 2000, 1, 2, text);
    v->longest = EYE_SIDE;
    written_is(v, 50, 50, 0, 0, global);
    kt__vision_close(v);
    v = open_eye("gemma3", KT__TYPE_F32);
    written_is(v, 3000, 20, 0, 0, "\n\n<start_of_image><end_of_image>\n\n");
    kt__vision_close(v);
}

static void tiles_are_where_they_belong(void **state) {
    (void)state;
    kt__vision *v = open_eye("idefics3", KT__TYPE_F32);
    kt__picture picture = {2 * EYE_SIDE, 2 * EYE_SIDE, NULL};
    uint8_t *tiles;
    kt__tiling tiling;
    kt_error err;
    size_t row = (size_t)picture.width * 3, tile = EYE_SIDE * EYE_SIDE * 3;
    picture.rgb = kt__malloc(row * (size_t)picture.height);
    for (size_t i = 0; i < row * (size_t)picture.height; i++)
        picture.rgb[i] = (uint8_t)(i / row < EYE_SIDE ? 10 : 200);
    die_on(kt__vision_cut(v, &picture, &tiling, &tiles, &err), &err);
    assert_int_equal(tiling.n_tile, 5);
    const int want[] = {10, 10, 200, 200};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < tile; k++) assert_int_equal(tiles[i * tile + k], want[i]);
    assert_int_equal(tiles[4 * tile], 10);
    assert_int_equal(tiles[5 * tile - 1], 200);
    kt__free(tiles);
    kt__picture_free(&picture);
    kt__vision_close(v);
}

static void other_files_are_refused(void **state) {
    (void)state;
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__vision *v;
    kt_error err;
    eye_write(file, "resampler", KT__TYPE_F32, D_TEXT);
    assert_int_equal(kt__vision_open(file, &params, &v, &err), KT_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'resampler'"));
    unlink(file);
    assert_int_equal(kt__vision_open(KT_SOURCE_DIR "/src/lib/context/demo.gguf", &params, &v, &err),
                     KT_E_FORMAT);
    assert_non_null(strstr(err.message, "no mmproj file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_a_plain_evaluation),
        cmocka_unit_test(rows_are_the_same_everywhere),
        cmocka_unit_test(pictures_are_cut_as_processors_do),
        cmocka_unit_test(tiles_are_where_they_belong),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
