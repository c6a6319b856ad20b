/* Operations whose products read activations as tiles, made once for all rows: the same bytes as on the reference's
 * device, for any number of threads. Where the processor has no tiles they are emulated, in AVX2's vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "amx_emulated.h"
#include "kernels_data.h"
#include "ops/ops.h"
#include "support.h"

#ifdef KT_HAVE_AMX
enum { MAX_TOK = 300, D = 512, FF = 800, N_EXPERT = 3, N_USED = 2 };
enum { PITCH = 2 * D + 2 * FF + 256 }; /* an activation row of any kind here, in bytes */

const kt__kernels *amx_on_avx2(void);

static const kt__kernels *tiled;
static kt__pool *pool;
static kt__dev *devs[2]; /* the reference's, and with tiles */
static uint8_t *weights[4];
static float *x, *residual, bias[FF], logits[MAX_TOK * N_EXPERT];

static const kt__kernels *kernels_with_tiles(const kt__cpu *cpu) {
    const kt__kernels *got;
    char why[128];
    if (kt__kernels_select(cpu, "amx", &got, why, sizeof why, NULL) == KT_OK) return got;
    if (kt__kernels_select(cpu, "avx2", &got, why, sizeof why, NULL) != KT_OK) return NULL;
    printf("AMX is emulated\n");
    return amx_on_avx2();
}

static void open_devices(int n_threads) {
    kt_error err;
    const kt__dev_limits limits = {.n_tok = MAX_TOK,
                                   .n_col = 1024,
                                   .head_dim_k = 32,
                                   .head_dim_v = 32,
                                   .n_head = 1,
                                   .n_head_kv = 1,
                                   .n_ctx = 512,
                                   .expert_cols = D};
    amxe_install(); /* cmocka takes the signal for itself with each test */
    die_on(kt__pool_create(n_threads, &pool, &err), &err);
    die_on(kt__dev_create(pool, kd_ref(), false, NULL, &limits, &devs[0], &err), &err);
    die_on(kt__dev_create(pool, tiled, false, NULL, &limits, &devs[1], &err), &err);
}

static void close_devices(void) {
    kt__dev_destroy(devs[0]);
    kt__dev_destroy(devs[1]);
    kt__pool_destroy(pool);
}

static kt__weight matrix(int i, kt__type type, int n_row, int n_col) {
    return (kt__weight){weights[i], type, n_row, n_col, kt__type_row_bytes(type, n_col)};
}

static kt__acts rows_of(uint8_t *data, int n_tok, int n_col) {
    kt__acts acts = {.n_tok = n_tok, .n_col = n_col, .kinds = 1u << KT__ACT_Q256};
    acts.layout[KT__ACT_Q256] = kt__act_layout_of(KT__ACT_Q256, n_col);
    acts.data[KT__ACT_Q256] = data;
    return acts;
}

static uint8_t *row_room(int n) {
    uint8_t *room = aligned_alloc(64, (size_t)n * PITCH / 64 * 64 + 64);
    assert_non_null(room);
    return memset(room, 0, (size_t)n * PITCH);
}

/* y[n_tok][FF] = w x + bias + residual */
static void product(kt__dev *dev, kt__type type, int n_tok, float *y) {
    kt__weight w = matrix(0, type, FF, D);
    uint8_t *room = row_room(MAX_TOK);
    kt__acts acts = rows_of(room, n_tok, D);
    kt__dev_ops(dev)->quantize(dev, x, n_tok, &acts);
    kt__dev_ops(dev)->matmul(dev, &w, &acts, bias, residual, NULL, KT__SITE_ATTN_OUT, y, FF);
    free(room);
}

/* y[n_tok][D] = down(silu(gate x) * up x) */
static void feed_forward(kt__dev *dev, kt__type type, int n_tok, float *y) {
    enum { INNER = 768 };
    static float few[KT__GLU_ROWWISE * INNER];
    uint8_t *room = row_room(2 * MAX_TOK);
    kt__acts acts = rows_of(room, n_tok, D),
             inner = rows_of(room + (size_t)MAX_TOK * PITCH, 0, INNER);
    kt__weight down = matrix(2, KT__TYPE_Q6_K, D, INNER);
    const kt__glu glu = {
        .gate = matrix(0, type, INNER, D), .up = matrix(1, type, INNER, D), .rows = few};
    kt__dev_ops(dev)->quantize(dev, x, n_tok, &acts);
    kt__dev_ops(dev)->glu(dev, &acts, &glu, &inner);
    kt__dev_ops(dev)->matmul(dev, &down, &inner, NULL, NULL, NULL, KT__SITE_DOWN, y, D);
    free(room);
}

static kt__expert_weights experts_of(int i, kt__type type, int n_row, int n_col) {
    kt__weight w = matrix(i, type, n_row, n_col);
    return (kt__expert_weights){.w = w, .stride = w.row_bytes * (size_t)n_row};
}

static void experts(kt__dev *dev, kt__type type, int n_tok, float *y) {
    enum { INNER = 256 };
    static float few[KT__GLU_ROWWISE * N_USED * INNER], sum[MAX_TOK * D];
    kt__routing routing;
    void *memory = malloc(kt__routing_bytes(MAX_TOK, N_EXPERT, N_USED));
    uint8_t *room = row_room(MAX_TOK * (1 + N_USED));
    kt__acts acts = rows_of(room, n_tok, D);
    kt__acts slots = rows_of(room + (size_t)MAX_TOK * PITCH, n_tok * N_USED, INNER);
    kt__routing_place(&routing, MAX_TOK, N_EXPERT, N_USED, memory);
    const kt__route route = {.logits = logits, .n_tok = n_tok, .scale = 1.0f};
    const kt__experts_glu glu = {.routing = &routing,
                                 .gate = experts_of(0, type, INNER, D),
                                 .up = experts_of(1, type, INNER, D),
                                 .rows = few};
    const kt__experts_down down = {
        .routing = &routing, .down = experts_of(2, KT__TYPE_Q5_K, D, INNER), .sum = sum, .x = y};
    memset(y, 0, sizeof sum);
    assert_true(kt__dev_ops(dev)->route(dev, &route, &routing));
    kt__dev_ops(dev)->quantize(dev, x, n_tok, &acts);
    kt__dev_ops(dev)->experts_glu(dev, &acts, &glu, &slots);
    kt__dev_ops(dev)->experts_down(dev, &slots, &down);
    free(memory);
    free(room);
}

typedef void operation(kt__dev *dev, kt__type type, int n_tok, float *y);

static void compare(operation *run, int ld) {
    static const kt__type types[] = {KT__TYPE_Q4_K, KT__TYPE_Q2_K, KT__TYPE_Q6_K, KT__TYPE_IQ3_S};
    static const int counts[] = {31, 32, 50, 64, 129, 200, MAX_TOK};
    static float want[MAX_TOK * FF], got[MAX_TOK * FF];
    for (int i = 0; i < 7; i++) {
        kt__type type = types[i % 4];
        kd_rng rng = {(uint64_t)i};
        for (int w = 0; w < 3; w++)
            kd_weights(w < 2                      ? type
                       : w == 2 && run == experts ? KT__TYPE_Q5_K
                                                  : KT__TYPE_Q6_K,
                       KD_BLOCKS_RANDOM, &rng, (int64_t)FF * D * 2, weights[w]);
        open_devices(1 + i % 3);
        run(devs[0], type, counts[i], want);
        run(devs[1], type, counts[i], got);
        close_devices();
        assert_memory_equal(got, want, (size_t)counts[i] * (size_t)ld * sizeof *got);
    }
}

static void test_matmul(void **state) {
    (void)state;
    compare(product, FF);
}

static void test_feed_forward(void **state) {
    (void)state;
    compare(feed_forward, D);
}

static void test_experts(void **state) {
    (void)state;
    compare(experts, D);
}

static void fill(void) {
    kd_rng rng = {7};
    x = malloc(sizeof *x * MAX_TOK * D);
    residual = malloc(sizeof *residual * MAX_TOK * FF);
    for (int i = 0; i < 4; i++) weights[i] = aligned_alloc(64, (size_t)FF * D * 4);
    for (int i = 0; i < MAX_TOK * D; i++) x[i] = kd_normal(&rng);
    for (int i = 0; i < MAX_TOK * FF; i++) residual[i] = kd_normal(&rng);
    for (int i = 0; i < FF; i++) bias[i] = kd_normal(&rng);
    for (int i = 0; i < MAX_TOK * N_EXPERT; i++)
        logits[i] = kd_normal(&rng) + (i % N_EXPERT ? 0 : 3.0f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_feed_forward),
        cmocka_unit_test(test_experts),
    };
    kt__cpu cpu;
    kt__cpu_detect(&cpu);
    tiled = kernels_with_tiles(&cpu);
    if (!tiled) {
        printf("skipped: this processor has no AVX2\n");
        return 0;
    }
    fill();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(x);
    free(residual);
    for (int i = 0; i < 4; i++) free(weights[i]);
    return failed;
}
#else
int main(void) {
    return 0;
}
#endif
