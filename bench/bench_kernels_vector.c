/* Speed of the kernels that are no matrix product: attention over one split, norms, quantisation,
 * activations, rotation, K/V writes.
 *
 * Every kernel is compared with the reference tier, byte for byte, and timed beside it: the least
 * of many short runs, one thread. Attention's K/V come from a window of splits, small enough for
 * the second-level cache or far larger than the last.
 *
 *   bench_kernels_vector [--tier T] [--ms N] [--kernel PREFIX] */
#include <stdbool.h>
#include <string.h>

#include "../tests/kernels_data.h"
#include "base/clock.h"

enum { MAX_DIM = 256, MAX_Q = 128, N = 8192 /* elements of a row */ };

typedef struct options {
    const char *tier, *kernel;
    int ms;
} options;

/* What a kernel works on, and what it did: a call is run(bench) of one tier. */
typedef struct bench {
    const kt__kernels *tier;
    void (*run)(struct bench *bench);
    float *a, *b, *out; /* [N] inputs, results */
    float *out_keep;
    uint8_t *bytes; /* results that are no floats */
    kt__attn attn;
    kt__f16 *k, *v; /* [n_split][16 pages][16 x head_dim] */
    kt__attn_quantised quantised;
    uint8_t *quantised_k, *quantised_v,
        *codes; /* the same pages in a form of fewer bits; the queries' codes */
    int n_split, split;
    void *scratch;
} bench;

/* ns of one call: the least of runs of at least 20 us, for `ms` */
static double least_ns(bench *b, int ms) {
    double least = 1e30;
    int64_t begin = kt__now_ns();
    int calls = 1;
    while (kt__now_ns() - begin < (int64_t)ms * 1000000) {
        int64_t start = kt__now_ns();
        for (int i = 0; i < calls; i++) b->run(b);
        double ns = (double)(kt__now_ns() - start);
        if (ns < 20000)
            calls *= 2;
        else if (ns / calls < least)
            least = ns / calls;
    }
    return least;
}

/* ---- rows ---- */

static void run_rmsnorm(bench *b) {
    b->tier->rmsnorm(b->a, b->b, N, 1e-6f, b->out);
}
static void run_add(bench *b) {
    b->tier->add(b->a, b->b, N, b->out);
}
static void run_silu_mul(bench *b) {
    b->tier->silu_mul(b->a, b->b, N, b->out);
}
static void run_gelu_mul(bench *b) {
    b->tier->gelu_mul(b->a, b->b, N, b->out);
}
static void run_softcap(bench *b) {
    memcpy(b->out, b->a, N * sizeof *b->out);
    b->tier->softcap(b->out, N, 30.0f);
}
static void run_rope_neox(bench *b) {
    memcpy(b->out, b->a, N * sizeof *b->out);
    for (int i = 0; i < N; i += 128) b->tier->rope_neox(b->out + i, b->b, 128);
}
static void run_rope_norm(bench *b) {
    memcpy(b->out, b->a, N * sizeof *b->out);
    for (int i = 0; i < N; i += 128) b->tier->rope_norm(b->out + i, b->b, 128);
}
static void run_argmax(bench *b) {
    bool finite;
    b->out[0] = (float)b->tier->argmax(b->a, N, &finite);
}
static void run_quantize_q256(bench *b) {
    b->tier->quantize[KT__ACT_Q256](b->a, N, b->bytes);
}
static void run_quantize_q32(bench *b) {
    b->tier->quantize[KT__ACT_Q32](b->a, N, b->bytes);
}
/* 16 positions of N / 16 channels: a page */
static void run_store_k(bench *b) {
    for (int i = 0; i < 16; i++)
        b->tier->store_k(b->a + i * (N / 16), N / 16, i, (kt__f16 *)(void *)b->bytes);
}
static void run_store_v(bench *b) {
    for (int i = 0; i < 16; i++)
        b->tier->store_v(b->a + i * (N / 16), N / 16, i, (kt__f16 *)(void *)b->bytes);
}

static const struct row_kernel {
    const char *name;
    void (*run)(bench *b);
} row_kernels[] = {
    {"rmsnorm", run_rmsnorm},
    {"add", run_add},
    {"silu_mul", run_silu_mul},
    {"gelu_mul", run_gelu_mul},
    {"softcap", run_softcap},
    {"rope_neox", run_rope_neox},
    {"rope_norm", run_rope_norm},
    {"argmax", run_argmax},
    {"quantize_q256", run_quantize_q256},
    {"quantize_q32", run_quantize_q32},
    {"store_k", run_store_k},
    {"store_v", run_store_v},
};

/* ---- attention ---- */

typedef struct attn_shape {
    int head_dim, group, n_tok;
    bool diagonal; /* token t of the tile sees t / n_tok of the split, else all of it */
    int mb;        /* of K/V in f16 that go by */
    kt__kv_form form;
} attn_shape;

static const attn_shape attn_shapes[] = {
    {128, 6, 1, false, 0, KT__KV_F16},  {128, 6, 1, false, 256, KT__KV_F16},
    {128, 2, 1, false, 0, KT__KV_F16},  {128, 2, 1, false, 256, KT__KV_F16},
    {64, 1, 1, false, 0, KT__KV_F16},   {64, 1, 1, false, 256, KT__KV_F16},
    {128, 6, 16, false, 0, KT__KV_F16}, {128, 6, 16, true, 0, KT__KV_F16},
    {128, 2, 48, false, 0, KT__KV_F16}, {64, 4, 24, false, 0, KT__KV_F16},
    {256, 2, 48, false, 0, KT__KV_F16}, {256, 2, 1, false, 256, KT__KV_F16},
    {128, 6, 1, false, 0, KT__KV_Q8},   {128, 6, 1, false, 256, KT__KV_Q8},
    {128, 6, 10, false, 0, KT__KV_Q8},  {64, 3, 20, false, 0, KT__KV_Q8},
    {128, 6, 1, false, 0, KT__KV_Q4},   {128, 6, 10, false, 0, KT__KV_Q4},
};

static size_t quantised_page_bytes(const bench *b) {
    size_t bytes = kt__quantised_k_bytes(b->quantised.k_form, b->attn.head_dim_k);
    return (bytes + 63) / 64 * 64;
}

/* As the engine calls it: the next split's keys are known. */
static void run_attn(bench *b) {
    size_t page = (size_t)b->attn.head_dim_k * KT__PAGE_POS, bytes = quantised_page_bytes(b);
    b->split = (b->split + 1) % b->n_split;
    b->attn.next_k_bytes = b->attn.quantised ? bytes : page * sizeof *b->k;
    for (int p = 0; p < KT__SPLIT_PAGES; p++) {
        size_t at = (size_t)b->split * KT__SPLIT_PAGES + (size_t)p;
        size_t next = ((size_t)(b->split + 1) % (size_t)b->n_split) * KT__SPLIT_PAGES + (size_t)p;
        b->attn.k[p] = b->k + at * page;
        b->attn.v[p] = b->v + at * page;
        b->attn.next_k[p] = (const uint8_t *)(b->k + next * page);
        if (!b->attn.quantised) continue;
        b->quantised.k[p] = b->quantised_k + at * bytes;
        b->quantised.v[p] = b->quantised_v + at * bytes;
        b->attn.next_k[p] = b->quantised_k + next * bytes;
    }
    b->tier->attn(&b->attn, b->scratch);
}

/* K/V of all splits, and the queries with what they see */
static void attn_fill(bench *b, const attn_shape *s, int16_t *lo, int16_t *hi) {
    kd_rng rng = {9};
    float x[MAX_DIM];
    int n_q = s->group * s->n_tok;
    size_t page = (size_t)s->head_dim * KT__PAGE_POS, split = page * KT__SPLIT_PAGES;
    b->n_split = (int)((size_t)s->mb * 1000000 / (4 * split)) + 1;
    b->split = 0;
    b->k = aligned_alloc(64, (size_t)b->n_split * split * sizeof *b->k);
    b->v = aligned_alloc(64, (size_t)b->n_split * split * sizeof *b->v);
    for (int i = 0; i < KT__SPLIT_POS; i++) {
        for (int d = 0; d < s->head_dim; d++) x[d] = kd_normal(&rng);
        b->tier->store_k(x, s->head_dim, i % 16, b->k + (size_t)(i / 16) * page);
        b->tier->store_v(x, s->head_dim, i % 16, b->v + (size_t)(i / 16) * page);
    }
    for (int i = 1; i < b->n_split; i++) {
        memcpy(b->k + (size_t)i * split, b->k, split * sizeof *b->k);
        memcpy(b->v + (size_t)i * split, b->v, split * sizeof *b->v);
    }
    for (int i = 0; i < n_q; i++) {
        lo[i] = 0;
        hi[i] = (int16_t)(s->diagonal ? KT__SPLIT_POS - s->n_tok + 1 + i / s->group
                                      : KT__SPLIT_POS);
    }
    for (int i = 0; i < n_q * s->head_dim; i++) b->a[i] = kd_normal(&rng) * 0.3f;
    size_t dim = (size_t)s->head_dim;
    b->attn = (kt__attn){.head_dim_k = s->head_dim, .head_dim_v = s->head_dim, .q = b->a};
    b->attn.ld_q = b->attn.ld_o = dim;
    b->attn.n_q = n_q;
    b->attn.lo = lo, b->attn.hi = hi;
    b->attn.o = b->out, b->attn.m = b->out + (size_t)n_q * dim, b->attn.l = b->attn.m + n_q;
}

/* The same pages quantised, and the queries' codes: every page is read so. */
static void attn_quantise(bench *b, const attn_shape *s, int16_t *own) {
    b->quantised = (kt__attn_quantised){.k_form = s->form, .v_form = s->form, .own = own};
    size_t bytes = quantised_page_bytes(b), n_page = (size_t)b->n_split * KT__SPLIT_PAGES;
    size_t page = (size_t)s->head_dim * KT__PAGE_POS;
    void *scratch = malloc(kt__quantise_scratch_bytes(s->head_dim));
    b->quantised_k = aligned_alloc(64, n_page * bytes);
    b->quantised_v = aligned_alloc(64, n_page * bytes);
    for (size_t i = 0; i < n_page; i++) {
        b->tier->quantise_k[s->form](b->k + i * page, s->head_dim, b->quantised_k + i * bytes,
                                     scratch);
        b->tier->quantise_v[s->form](b->v + i * page, s->head_dim, b->quantised_v + i * bytes,
                                     scratch);
    }
    b->quantised.ld_q = kt__query_code_bytes(s->head_dim);
    b->codes = malloc((size_t)b->attn.n_q * b->quantised.ld_q);
    for (int i = 0; i < b->attn.n_q; i++) {
        own[i] = KT__SPLIT_PAGES;
        b->tier->code_query(b->a + i * s->head_dim, s->head_dim,
                            b->codes + (size_t)i * b->quantised.ld_q, scratch);
    }
    b->quantised.q = b->codes;
    b->attn.quantised = &b->quantised;
    free(scratch);
}

/* ---- one tier ---- */

enum { OUT_FLOATS = MAX_Q * (MAX_DIM + 2), OUT_BYTES = 4 * N };

/* The kernel of one tier, once, into cleared results. */
static void run_once(bench *b, const kt__kernels *tier) {
    b->tier = tier;
    memset(b->out, 0, OUT_FLOATS * sizeof *b->out);
    memset(b->bytes, 0, OUT_BYTES);
    b->run(b);
}

/* Both tiers once, compared, and both timed; returns whether their results are the same. */
static bool compare(bench *b, const kt__kernels *tier, int ms, double *ns, double *ref_ns) {
    uint8_t *bytes_keep = malloc(OUT_BYTES);
    run_once(b, kd_ref());
    memcpy(b->out_keep, b->out, OUT_FLOATS * sizeof *b->out);
    memcpy(bytes_keep, b->bytes, OUT_BYTES);
    *ref_ns = least_ns(b, ms / 4 + 1);
    run_once(b, tier);
    bool same = memcmp(b->out_keep, b->out, OUT_FLOATS * sizeof *b->out) == 0 &&
                memcmp(bytes_keep, b->bytes, OUT_BYTES) == 0;
    free(bytes_keep);
    *ns = least_ns(b, ms);
    return same;
}

static bool bench_rows(bench *b, const kt__kernels *tier, const options *opt) {
    bool ok = true;
    for (size_t i = 0; i < sizeof row_kernels / sizeof *row_kernels; i++) {
        const struct row_kernel *row = &row_kernels[i];
        double ns, ref_ns;
        if (opt->kernel && strncmp(opt->kernel, row->name, strlen(opt->kernel)) != 0) continue;
        b->run = row->run;
        bool same = compare(b, tier, opt->ms, &ns, &ref_ns);
        printf("%-8s %-14s %-27s %10.1f %10s %8.1fx%s\n", tier->name, row->name, "8192 elements",
               ns / N * 256, "", ref_ns / ns, same ? "" : "  DIFFERS FROM THE REFERENCE");
        fflush(stdout);
        ok = ok && same;
    }
    return ok;
}

static bool bench_attn(bench *b, const kt__kernels *tier, const options *opt) {
    bool ok = true;
    if (opt->kernel && strncmp(opt->kernel, "attn", strlen(opt->kernel)) != 0) return true;
    for (size_t i = 0; i < sizeof attn_shapes / sizeof *attn_shapes; i++) {
        const attn_shape *s = &attn_shapes[i];
        int16_t lo[MAX_Q], hi[MAX_Q], own[MAX_Q];
        static const char *const forms[KT__KV_FORMS] = {"", ", q8", ", q4"};
        char shape[64];
        double ns, ref_ns, pairs = 0;
        b->tier = tier;
        b->run = run_attn;
        attn_fill(b, s, lo, hi);
        if (s->form != KT__KV_F16) attn_quantise(b, s, own);
        bool same = compare(b, tier, opt->ms, &ns, &ref_ns);
        for (int q = 0; q < b->attn.n_q; q++) pairs += hi[q];
        snprintf(shape, sizeof shape, "dim %d, %d x %d%s%s, %s", s->head_dim, s->group, s->n_tok,
                 s->diagonal ? " causal" : "", forms[s->form], s->mb ? "dram" : "cache");
        printf("%-8s %-14s %-27s %10.1f %10.1f %8.1fx%s\n", tier->name, "attn", shape,
               ns / pairs * 256, pairs * 2 * s->head_dim / ns, ref_ns / ns,
               same ? "" : "  DIFFERS FROM THE REFERENCE");
        fflush(stdout);
        free(b->k);
        free(b->v);
        free(b->quantised_k);
        free(b->quantised_v);
        free(b->codes);
        b->quantised_k = b->quantised_v = b->codes = NULL;
        ok = ok && same;
    }
    return ok;
}

static bool bench_tier(const kt__kernels *tier, const options *opt) {
    bench b = {0};
    kd_rng rng = {3};
    size_t scratch = tier->attn_scratch_bytes(MAX_Q, MAX_DIM, MAX_DIM),
           ref = kd_ref()->attn_scratch_bytes(MAX_Q, MAX_DIM, MAX_DIM);
    b.scratch = aligned_alloc(64, ((scratch > ref ? scratch : ref) + 127) / 64 * 64);
    b.a = aligned_alloc(64, OUT_FLOATS * sizeof *b.a);
    b.b = aligned_alloc(64, N * sizeof *b.b);
    b.out = aligned_alloc(64, OUT_FLOATS * sizeof *b.out);
    b.out_keep = malloc(OUT_FLOATS * sizeof *b.out_keep);
    b.bytes = aligned_alloc(64, OUT_BYTES);
    for (int i = 0; i < N; i++) b.a[i] = kd_normal(&rng), b.b[i] = kd_normal(&rng);
    printf("%-8s %-14s %-27s %10s %10s %9s\n", "tier", "kernel", "shape", "ns/256", "GFMA/s",
           "to ref");
    bool ok = bench_rows(&b, tier, opt);
    ok = bench_attn(&b, tier, opt) && ok;
    free(b.scratch);
    free(b.a);
    free(b.b);
    free(b.out);
    free(b.out_keep);
    free(b.bytes);
    return ok;
}

static int usage(void) {
    fprintf(stderr, "usage: bench_kernels_vector [--tier T] [--ms N] [--kernel PREFIX]\n"
                    "ns/256: for 256 elements, or for a query and 256 positions\n");
    return 2;
}

int main(int argc, char **argv) {
    options opt = {.ms = 100};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--tier") == 0)
            opt.tier = argv[i + 1];
        else if (strcmp(argv[i], "--kernel") == 0)
            opt.kernel = argv[i + 1];
        else if (strcmp(argv[i], "--ms") == 0)
            opt.ms = atoi(argv[i + 1]);
        else
            return usage();
    }
    if (argc % 2 == 0 || opt.ms < 1) return usage();
    (void)kt__fpenv_enter();
    bool ok = true;
    for (const kt__kernels **tier = kd_tiers_of(opt.tier); *tier; tier++)
        ok = bench_tier(*tier, &opt) && ok;
    return ok ? 0 : 1;
}
