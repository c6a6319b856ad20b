/* The product of weights with many tokens, by our kernels and by a BLAS, on one thread: where the
 * crossing lies, and what a block of rows should be. Quantised weights are dequantised for the BLAS;
 * ours have activations in 8 bits. Processor time, the least of several runs, so that neighbours
 * matter little.
 *   bench_ops_blas [TIER [LIBRARY]]      the library as dlopen takes it */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tests/kernels_data.h"
#include "kernels/dispatch.h"
#include "ops/blas.h"

enum { N_ROW = 1536, N_COL = 1536, MAX_TOK = 1024, RUNS = 5 };

typedef struct setup {
    const kt__kernels *kernels;
    kt__blas *blas;
    kt__type type;
    kt__mm mm;
    const uint8_t *act; /* as our kernel reads it */
    size_t act_row_bytes;
    void *scratch;
    float *panel;
} setup;

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In blocks of `rows`, as the pool's chunks would be. */
static void product(const setup *s, bool blas, int rows) {
    kt__mm mm = s->mm;
    if (!blas) mm.act = s->act, mm.act_row_bytes = s->act_row_bytes;
    for (int row = 0; row < N_ROW; row += rows) {
        mm.w = s->mm.w + (size_t)row * mm.w_row_bytes;
        mm.out = s->mm.out + row;
        mm.n_row = N_ROW - row < rows ? N_ROW - row : rows;
        if (blas) {
            kt__blas_mm(s->blas, s->type, &mm, s->panel);
        } else {
            const kt__mm_kernels *fns = s->kernels->mm[s->type];
            (mm.n_tok >= fns->gemm_min_tok ? fns->gemm : fns->rowdot)(&mm, s->scratch);
        }
    }
}

static double gmac_s(const setup *s, bool blas, int rows) {
    double best = 1e30;
    for (int i = 0; i <= RUNS; i++) {
        double start = cpu_seconds();
        product(s, blas, rows);
        double t = cpu_seconds() - start;
        if (i && t < best) best = t;
    }
    return 1e-9 * N_ROW * N_COL * s->mm.n_tok / best;
}

static void *memory(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) exit(1);
    return p;
}

int main(int argc, char **argv) {
    static const int toks[] = {4, 8, 16, 32, 64, 128, 256, 512, MAX_TOK};
    setup s = {0};
    kt__cpu cpu;
    char why[160];
    kt_error err;
    kd_rng rng = {3};
    kt__cpu_detect(&cpu);
    if (kt__kernels_select(&cpu, argc > 1 ? argv[1] : NULL, &s.kernels, why, sizeof why, &err) !=
            KT_OK ||
        kt__blas_open(argc > 2 ? argv[2] : NULL, &s.blas, &err) != KT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    size_t n = (size_t)N_ROW * N_COL, act_bytes = kt__act_layout_of(KT__ACT_F32, N_COL).row_bytes;
    uint8_t *w = memory(n * 4);
    float *act = memory(MAX_TOK * act_bytes);
    s.scratch = memory(s.kernels->mm_scratch_bytes);
    s.panel = memory((size_t)KT__BLAS_ROWS * N_COL * 4);
    for (size_t i = 0; i < MAX_TOK * act_bytes / 4; i++) act[i] = kd_normal(&rng);
    s.mm = (kt__mm){.w = w,
                    .n_row = N_ROW,
                    .n_col = N_COL,
                    .act = (const uint8_t *)act,
                    .act_row_bytes = act_bytes,
                    .out = memory((size_t)MAX_TOK * N_ROW * 4),
                    .ld_out = N_ROW};
    static const kt__type types[] = {KT__TYPE_F32,  KT__TYPE_F16,  KT__TYPE_BF16,
                                     KT__TYPE_Q8_0, KT__TYPE_Q4_K, KT__TYPE_Q6_K};
    printf("GMAC/s on one thread, %d x %d, tier %s; rows: of a block\n", N_ROW, N_COL,
           s.kernels->name);
    printf("| type | tokens | ours | %s, 64 rows | 128 | 256 |\n|---|--:|--:|--:|--:|--:|\n",
           kt__blas_name(s.blas));
    float *row = memory(N_COL * 4);
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        s.type = types[k];
        s.mm.type = s.type;
        s.mm.w_row_bytes = kt__type_row_bytes(s.type, N_COL);
        for (int r = 0; r < N_ROW; r++) {
            for (int i = 0; i < N_COL; i++) row[i] = kd_normal(&rng);
            kt__quantize_row(s.type, row, N_COL, w + (size_t)r * s.mm.w_row_bytes);
        }
        kt__act_kind kind = kt__type_get(s.type)->act;
        s.act_row_bytes = kt__act_layout_of(kind, N_COL).row_bytes;
        uint8_t *own = memory(MAX_TOK * s.act_row_bytes);
        for (int t = 0; t < MAX_TOK; t++)
            s.kernels->quantize[kind](act + (size_t)t * (act_bytes / 4), N_COL,
                                      own + (size_t)t * s.act_row_bytes);
        s.act = own;
        for (size_t i = 0; i < sizeof toks / sizeof *toks; i++) {
            s.mm.n_tok = toks[i];
            printf("| %s | %d | %.1f |", kt__type_get(s.type)->name, toks[i],
                   gmac_s(&s, false, 32));
            for (int rows = 64; rows <= 256; rows *= 2) printf(" %.1f |", gmac_s(&s, true, rows));
            putchar('\n');
            fflush(stdout);
        }
        free(own);
    }
    kt__blas_close(s.blas);
    return 0;
}
