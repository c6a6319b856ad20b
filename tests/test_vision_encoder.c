/* vision: an encoder's rows against a plain evaluation, and the same bytes on all tiers and threads; how
 * pictures are cut; files that are not what they should be. */
#include <unistd.h>

#include "host/host.h"
#include "kernels/dispatch.h"
#include "vision/vision.h"
#include "vision_fixture.h"

enum { D_TEXT = 32 };

static const char *const file = "vision_encoder_test.gguf";
static uint8_t pixels[EYE_SIDE * EYE_SIDE * 3]; /* or EYE_WIDTH x EYE_HEIGHT */

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
    bool any = v->family->has & KT__EYE_ANY_SIZE;
    kt__seer_begin(seer, any ? EYE_WIDTH : EYE_SIDE, any ? EYE_HEIGHT : EYE_SIDE, pixels, rows,
                   n_threads);
    while (!done) die_on(kt__seer_run(seer, slowly ? 0 : INT64_MAX, &done, &err), &err);
    kt__seer_destroy(seer);
    kt__pool_destroy(pool);
    return true;
}

/* ---- the plain evaluation ---- */

enum {
    MOST_N = EYE_N,
    LONG = EYE_D * EYE_MERGE * EYE_MERGE,
    MOST_ROWS = EYE_FREE_ROWS,
    MOST_ROW = 2 * D_TEXT
};

typedef struct plain_eye {
    const kt__vision *v;
    int n_x, n_y, n; /* of patches */
    bool any;        /* the picture keeps its form */
} plain_eye;

static double plain_x[MOST_N][EYE_D];

static plain_eye plain_eye_of(const kt__vision *v) {
    bool any = v->family->has & KT__EYE_ANY_SIZE;
    int n_x = (any ? EYE_WIDTH : EYE_SIDE) / EYE_PATCH,
        n_y = (any ? EYE_HEIGHT : EYE_SIDE) / EYE_PATCH;
    return (plain_eye){v, n_x, n_y, n_x * n_y, any};
}

static void plain_norm(const kt__vision *v, const double *x, const float *w, const float *b, int n,
                       double *out) {
    double mean = 0, var = 0;
    for (int i = 0; i < n && !(v->family->has & KT__EYE_RMS); i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++)
        out[i] = (x[i] - mean) / sqrt(var + (double)v->eps) * (double)w[i] +
                 (b ? (double)b[i] : 0.0);
}

static void plain_product(const kt__weight *w, const float *bias, const double *x, double *out) {
    float row[LONG];
    for (int r = 0; r < w->n_row; r++) {
        out[r] = bias ? (double)bias[r] : 0.0;
        kt__dequantize_row(w->type, w->data + (size_t)r * w->row_bytes, w->n_col, row);
        for (int c = 0; c < w->n_col; c++) out[r] += (double)row[c] * x[c];
    }
}

/* Learned positions as they are, or between the nearest ones, corners on corners. */
static double plain_position(const plain_eye *e, int p, int i) {
    const kt__vision *v = e->v;
    int x = p % e->n_x, y = p / e->n_x;
    if (!v->positions) return 0.0;
    if (!e->any) return (double)v->positions[p * EYE_D + i];
    double fx = (double)x * (EYE_N_SIDE - 1) / (e->n_x - 1),
           fy = (double)y * (EYE_N_SIDE - 1) / (e->n_y - 1);
    double sum = 0;
    for (int yy = 0; yy < EYE_N_SIDE; yy++)
        for (int xx = 0; xx < EYE_N_SIDE; xx++) {
            double wx = 1 - fabs(fx - xx), wy = 1 - fabs(fy - yy);
            if (wx > 0 && wy > 0)
                sum += wx * wy * (double)v->positions[(yy * EYE_N_SIDE + xx) * EYE_D + i];
        }
    return sum;
}

static void plain_embed(const plain_eye *e) {
    const kt__vision *v = e->v;
    for (int p = 0; p < e->n; p++) {
        double patch[3 * EYE_PATCH * EYE_PATCH];
        int at = 0;
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < EYE_PATCH * EYE_PATCH; i++) {
                int x = p % e->n_x * EYE_PATCH + i % EYE_PATCH;
                int y = p / e->n_x * EYE_PATCH + i / EYE_PATCH;
                patch[at++] = pixels[(y * e->n_x * EYE_PATCH + x) * 3 + c] / 127.5 - 1.0;
            }
        plain_product(&v->embed, v->embed_bias, patch, plain_x[p]);
        for (int i = 0; i < EYE_D; i++) plain_x[p][i] += plain_position(e, p, i);
    }
}

/* A head's numbers i and i + dim / 2 are turned together: by the line for the first pairs, by the column for others. */
static void plain_rotate(const plain_eye *e, int p, double *x) {
    enum { DIM = EYE_D / EYE_HEADS };
    for (int h = 0; h < EYE_HEADS && e->any; h++)
        for (int i = 0; i < DIM / 2; i++) {
            int place = i < DIM / 4 ? p / e->n_x : p % e->n_x;
            double angle = place * pow(10000.0, -(double)(i % (DIM / 4)) / (DIM / 4));
            double *a = x + h * DIM + i, *b = a + DIM / 2, old = *a;
            *a = old * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + old * sin(angle);
        }
}

static bool plain_sees(const plain_eye *e, int layer, int p, int o) {
    const kt__vision *v = e->v;
    if (!v->full_every || (layer + 1) % v->full_every == 0) return true;
    int side = v->window * v->merge;
    return p % e->n_x / side == o % e->n_x / side && p / e->n_x / side == o / e->n_x / side;
}

static void plain_attention(const plain_eye *e, int layer) {
    static double q[MOST_N][EYE_D], k[MOST_N][EYE_D], val[MOST_N][EYE_D];
    const kt__vision_layer *l = &e->v->layers[layer];
    enum { DIM = EYE_D / EYE_HEADS };
    for (int p = 0; p < e->n; p++) {
        double y[EYE_D];
        plain_norm(e->v, plain_x[p], l->norm[0], l->norm_bias[0], EYE_D, y);
        plain_product(&l->q, l->q_bias, y, q[p]);
        plain_product(&l->k, l->k_bias, y, k[p]);
        plain_product(&l->v, l->v_bias, y, val[p]);
        plain_rotate(e, p, q[p]);
        plain_rotate(e, p, k[p]);
    }
    for (int p = 0; p < e->n; p++) {
        double out[EYE_D] = {0}, y[EYE_D] = {0};
        for (int h = 0; h < EYE_HEADS; h++) {
            double share[MOST_N], sum = 0;
            for (int o = 0; o < e->n; o++) {
                double score = 0;
                for (int i = h * DIM; i < (h + 1) * DIM; i++) score += q[p][i] * k[o][i];
                sum += share[o] = plain_sees(e, layer, p, o) ? exp(score / sqrt(DIM)) : 0.0;
            }
            for (int o = 0; o < e->n; o++)
                for (int i = h * DIM; i < (h + 1) * DIM; i++) out[i] += share[o] / sum * val[o][i];
        }
        plain_product(&l->out, l->out_bias, out, y);
        for (int i = 0; i < EYE_D; i++) plain_x[p][i] += y[i];
    }
}

static double plain_gelu(double x) {
    return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double plain_act(const kt__vision *v, double x) {
    if (v->act == KT__SEER_GELU) return plain_gelu(x);
    return x / (1.0 + exp(-x * (v->act == KT__SEER_SILU ? 1.0 : 1.702)));
}

static void plain_feed_forward(const plain_eye *e, int layer) {
    const kt__vision_layer *l = &e->v->layers[layer];
    for (int p = 0; p < e->n; p++) {
        double y[EYE_D], ff[EYE_FF], gate[EYE_FF];
        plain_norm(e->v, plain_x[p], l->norm[1], l->norm_bias[1], EYE_D, y);
        plain_product(&l->up, l->up_bias, y, ff);
        if (l->gate.n_row) plain_product(&l->gate, l->gate_bias, y, gate);
        for (int i = 0; i < EYE_FF; i++)
            ff[i] = l->gate.n_row ? plain_act(e->v, gate[i]) * ff[i] : plain_act(e->v, ff[i]);
        plain_product(&l->down, l->down_bias, ff, y);
        for (int i = 0; i < EYE_D; i++) plain_x[p][i] += y[i];
    }
}

/* The square of patches of row `index`, as one long row. */
static void plain_square(const plain_eye *e, int index, double *out) {
    int m = e->v->merge, n_x = e->n_x / m;
    for (int y = 0; y < m; y++)
        for (int x = 0; x < m; x++, out += EYE_D)
            memcpy(out, plain_x[(index / n_x * m + y) * e->n_x + index % n_x * m + x],
                   sizeof *plain_x);
}

static void plain_merge_twice(const plain_eye *e, const kt__vision_merger *m, int index,
                              double *out) {
    double merged[LONG], hidden[LONG];
    plain_square(e, index, merged);
    if (m->norm) plain_norm(e->v, merged, m->norm, m->norm_bias, m->first.n_col, merged);
    plain_product(&m->first, m->first_bias, merged, hidden);
    for (int i = 0; i < m->first.n_row; i++) hidden[i] = plain_gelu(hidden[i]);
    plain_product(&m->second, m->second_bias, hidden, out);
}

/* A row of the text model out of a square of patches. */
static void plain_merge(const plain_eye *e, int index, double *out) {
    const kt__vision *v = e->v;
    double merged[LONG], mean[EYE_D] = {0}, squares = 0;
    plain_square(e, index, merged);
    if (!v->merged_norm) {
        plain_product(&v->projection, NULL, merged, out);
        return;
    }
    for (int i = 0; i < LONG; i++) mean[i % EYE_D] += merged[i] / (EYE_MERGE * EYE_MERGE);
    for (int i = 0; i < EYE_D; i++) squares += mean[i] * mean[i] / EYE_D;
    for (int i = 0; i < EYE_D; i++)
        mean[i] *= (double)v->merged_norm[i] / sqrt(squares + (double)v->eps);
    plain_product(&v->projection, NULL, mean, out);
}

static void plain_encode(const kt__vision *v, double rows[MOST_ROWS][MOST_ROW]) {
    plain_eye e = plain_eye_of(v);
    int n_rows = e.n / (v->merge * v->merge);
    plain_embed(&e);
    for (int i = 0; i < EYE_LAYERS; i++) {
        int deep = v->layers[i].deep;
        plain_attention(&e, i);
        plain_feed_forward(&e, i);
        for (int r = 0; deep && r < n_rows; r++)
            plain_merge_twice(&e, &v->mergers[deep], r, rows[r] + deep * D_TEXT);
    }
    for (int p = 0; p < e.n; p++)
        plain_norm(v, plain_x[p], v->end_norm, v->end_norm_bias, EYE_D, plain_x[p]);
    for (int r = 0; r < n_rows; r++) {
        if (v->mergers)
            plain_merge_twice(&e, &v->mergers[0], r, rows[r]);
        else
            plain_merge(&e, r, rows[r]);
    }
}

static double relative_error(const kt__vision *v, const float *rows, int n_rows,
                             double want[MOST_ROWS][MOST_ROW]) {
    double difference = 0, size = 0;
    for (int i = 0; i < n_rows * v->d_row; i++) {
        double w = want[i / v->d_row][i % v->d_row], d = (double)rows[i] - w;
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
    } rows_of[] = {{"idefics3", KT__TYPE_F32, 5e-4},       {"gemma3", KT__TYPE_F32, 5e-4},
                   {"qwen2vl_merger", KT__TYPE_F32, 5e-4}, {"qwen2.5vl_merger", KT__TYPE_F32, 5e-4},
                   {"qwen3vl_merger", KT__TYPE_F32, 5e-4}, {"qwen3vl_merger", KT__TYPE_Q8_0, 3e-2},
                   {"idefics3", KT__TYPE_Q8_0, 3e-2}};
    for (size_t i = 0; i < sizeof rows_of / sizeof *rows_of; i++) {
        kt__vision *v = open_eye(rows_of[i].projector, rows_of[i].type);
        static float rows[MOST_ROWS * MOST_ROW];
        static double want[MOST_ROWS][MOST_ROW];
        int n_rows = v->mergers ? EYE_FREE_ROWS : EYE_ROWS;
        assert_int_equal(v->n_rows, n_rows);
        assert_true(encode(v, NULL, 2, false, rows));
        plain_encode(v, want);
        double error = relative_error(v, rows, n_rows, want);
        print_message("%s, type %d: %.2g\n", rows_of[i].projector, rows_of[i].type, error);
        assert_true(error < rows_of[i].most);
        kt__vision_close(v);
    }
}

static void rows_are_the_same_everywhere(void **state) {
    (void)state;
    static const char *const tiers[] = {"ref", "sse41", "avx2",    "avxvnni", "avx512",
                                        "amx", "neon",  "dotprod", "i8mm"};
    static const char *const projectors[] = {"idefics3", "gemma3", "qwen2vl_merger",
                                             "qwen2.5vl_merger", "qwen3vl_merger"};
    for (size_t k = 0; k < sizeof projectors / sizeof *projectors; k++) {
        kt__vision *v = open_eye(projectors[k], k % 2 ? KT__TYPE_F16 : KT__TYPE_Q8_0);
        static float want[MOST_ROWS * MOST_ROW], rows[MOST_ROWS * MOST_ROW];
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

/* What transformers' smart_resize says of squares of 28 pixels, from 4 of them to 1280. */
static void pictures_keep_their_form(void **state) {
    (void)state;
    static const int sizes[][4] = {
        {1, 1, 56, 56},          {28, 28, 56, 56},        {42, 42, 56, 56},
        {14, 70, 28, 140},       {70, 14, 140, 28},       {160, 120, 168, 112},
        {640, 480, 644, 476},    {1920, 1080, 1316, 728}, {4000, 3000, 1148, 840},
        {3000, 4000, 840, 1148}, {5600, 28, 5600, 28},    {28, 5600, 28, 5600},
        {1000, 1000, 980, 980},  {56, 56, 56, 56},        {55, 57, 56, 56},
        {98, 42, 112, 56},       {126, 154, 112, 168},    {2000, 11, 756, 28},
        {967, 1243, 868, 1120},  {423, 2955, 364, 2632},  {1623, 1962, 896, 1092},
        {635, 370, 644, 364},    {273, 82, 280, 84},      {1645, 2251, 840, 1148},
        {3760, 1186, 1764, 560}, {3279, 3135, 1008, 952}, {242, 910, 252, 896},
        {2132, 2199, 980, 1008}, {1476, 1134, 1120, 868}, {3194, 708, 2100, 448},
        {3387, 435, 2772, 336},  {1073, 879, 1064, 868},  {3863, 3799, 1008, 980},
        {106, 3396, 112, 3388},  {2625, 3305, 868, 1120}, {1067, 3279, 560, 1736},
        {1114, 793, 1120, 784},  {676, 1270, 672, 1260},  {1187, 2569, 672, 1456},
        {3553, 2998, 1064, 896}, {3936, 3501, 1036, 924}, {3476, 3605, 980, 1008},
        {1526, 356, 1512, 364},  {3461, 2482, 1176, 840}, {1383, 2752, 700, 1400},
        {1589, 2073, 868, 1120}, {1020, 729, 1008, 728},  {1014, 1940, 700, 1372}};
    kt__vision *v = open_eye("qwen2vl_merger", KT__TYPE_F32);
    v->patch = 14;
    v->min_pixels = 56 * 56;
    v->max_pixels = 1280 * 28 * 28;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kt__tiling t = kt__vision_tiling(v, sizes[i][0], sizes[i][1]);
        if (t.width != sizes[i][2] || t.height != sizes[i][3] || t.n_tile != 1 ||
            t.n_rows != t.width / 28 * (t.height / 28) || t.rows_x != t.width / 28)
            fail_msg("%d x %d: %d x %d", sizes[i][0], sizes[i][1], t.width, t.height);
    }
    kt__vision_close(v);
}

static void long_pictures_are_refused(void **state) {
    (void)state;
    kt__vision *v = open_eye("qwen2vl_merger", KT__TYPE_F32);
    kt__picture picture = {1000, 4, kt__calloc(4000, 3)};
    kt__tiling tiling;
    uint8_t *tiles;
    kt_error err;
    assert_int_equal(kt__vision_cut(v, &picture, &tiling, &tiles, &err), KT_E_LIMIT);
    assert_non_null(strstr(err.message, "1000 x 4"));
    kt__picture_free(&picture);
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

/* A tile of a picture through what the file says, where that is small. */
static void try_file(const kt__vision *v) {
    kt__picture picture = {30, 20, kt__calloc(600, 3)};
    kt__tiling tiling;
    const kt__kernels *kernels;
    kt__pool *pool;
    kt__seer *seer;
    kt__cpu cpu;
    uint8_t *tiles;
    kt_error err;
    char why[64];
    bool done = false;
    kt__cpu_detect(&cpu);
    die_on(kt__kernels_select(&cpu, "ref", &kernels, why, sizeof why, &err), &err);
    if (kt__vision_cut(v, &picture, &tiling, &tiles, &err) == KT_OK) {
        float *rows = kt__calloc((size_t)tiling.n_rows * (size_t)v->d_row, sizeof *rows);
        die_on(kt__pool_create(1, &pool, &err), &err);
        if (kt__seer_create(v, pool, kernels, false, &seer, &err) == KT_OK) {
            kt__seer_begin(seer, tiling.width, tiling.height, tiles, rows, 1);
            (void)!kt__seer_run(seer, 0, &done, &err);
            for (int i = 0; i < 40 && !done; i++)
                if (kt__seer_run(seer, 0, &done, &err) != KT_OK) break;
            kt__seer_destroy(seer);
        }
        kt__pool_destroy(pool);
        kt__free(rows);
        kt__free(tiles);
    }
    kt__picture_free(&picture);
}

/* One number of the header changed at a time: refused, or it works. */
static void damaged_files_are_refused(void **state) {
    (void)state;
    static const char *const projectors[] = {"idefics3", "qwen2.5vl_merger", "qwen3vl_merger"};
    static const uint32_t values[] = {0,  1,   2,    3,     5,          7,         16,
                                      64, 255, 4096, 65536, 0x7fffffff, 0xffffffff};
    static uint8_t bytes[1 << 20];
    const kt__gguf_open_params params = {.use_mmap = true};
    uint32_t seed = 11;
    for (size_t k = 0; k < sizeof projectors / sizeof *projectors; k++) {
        eye_write(file, projectors[k], KT__TYPE_F16, D_TEXT);
        FILE *f = fopen(file, "rb");
        size_t len = fread(bytes, 1, sizeof bytes, f);
        fclose(f);
        assert_true(len < sizeof bytes);
        const uint8_t *keys = memmem(bytes, len, "clip.vision", 11);
        for (int i = 0; i < 250; i++) {
            size_t at = (size_t)(keys - bytes) + lcg_below(&seed, 1600);
            uint32_t old, value = values[lcg_below(&seed, sizeof values / sizeof *values)];
            memcpy(&old, bytes + at, 4);
            memcpy(bytes + at, &value, 4);
            f = fopen(file, "wb");
            assert_int_equal(fwrite(bytes, 1, len, f), len);
            fclose(f);
            memcpy(bytes + at, &old, 4);
            kt__vision *v;
            kt_error err;
            if (kt__vision_open(file, &params, &v, &err) != KT_OK) continue;
            if (kt__seer_plan_bytes(v) < 64 << 20) try_file(v);
            kt__vision_close(v);
        }
    }
    unlink(file);
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
        cmocka_unit_test(pictures_keep_their_form),
        cmocka_unit_test(long_pictures_are_refused),
        cmocka_unit_test(tiles_are_where_they_belong),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
