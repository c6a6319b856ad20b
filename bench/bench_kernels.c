/* Speed of the matrix products: each type and tier, few and many tokens, weights from memory and
 * from cache.
 *
 * Every product is compared with the reference tier, byte for byte, before it is timed. A
 * measurement is the median of passes over rows split evenly among plain threads; no thread pool
 * takes part. Figures mean something only on a quiet machine.
 *
 *   bench_kernels [--tier T] [--type Q] [--threads N] [--cols N] [--mb N] [--ms N] [--chunk-kb N]
 * [--tok LIST]
 *                 [--family rowdot|gemm|exact] [--from dram|cache] [--huge] [--no-check] */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "../tests/kernels_data.h"
#include "base/clock.h"

enum { MAX_THREADS = 64, MAX_PASSES = 1000, MAX_TOK = 512, CHECK_ROWS = 70 };

typedef struct options {
    const char *tier, *type, *family, *from, *tok;
    int threads, cols, mb, ms, chunk_kb;
    bool huge, check;
} options;

/* One product over a window of rows, shared by the threads of a measurement. */
typedef struct job {
    kt__mm mm; /* w is row 0 of the buffer; n_row the buffer's */
    kt__mm_fn *fn;
    int first, rows; /* the window; rows run on modulo n_row - rows */
    int chunk_rows;
    int threads;
    bool stop;
    pthread_barrier_t begin, end;
    size_t scratch_bytes;
} job;

typedef struct worker {
    job *job;
    int index;
    uint8_t *scratch;
    pthread_t thread;
} worker;

/* This thread's even share of the window, in chunks as a pool would hand them out. */
static void run_share(const job *j, int index, void *scratch) {
    int granule = 32, units = (j->rows + granule - 1) / granule;
    int from = (int)((int64_t)units * index / j->threads) * granule;
    int to = (int)((int64_t)units * (index + 1) / j->threads) * granule;
    if (to > j->rows) to = j->rows;
    for (int r = from; r < to; r += j->chunk_rows) {
        kt__mm mm = j->mm;
        mm.n_row = to - r < j->chunk_rows ? to - r : j->chunk_rows;
        size_t row = (size_t)(j->first + r);
        mm.w += row * mm.w_row_bytes;
        mm.out += r;
        mm.next = mm.w + (size_t)mm.n_row * mm.w_row_bytes;
        j->fn(&mm, scratch);
    }
}

static void *worker_main(void *arg) {
    worker *w = arg;
    (void)kt__fpenv_enter();
    for (;;) {
        pthread_barrier_wait(&w->job->begin);
        if (w->job->stop) return NULL;
        run_share(w->job, w->index, w->scratch);
        pthread_barrier_wait(&w->job->end);
    }
}

static void workers_start(job *j, worker *workers) {
    pthread_barrier_init(&j->begin, NULL, (unsigned)j->threads);
    pthread_barrier_init(&j->end, NULL, (unsigned)j->threads);
    for (int i = 0; i < j->threads; i++) {
        workers[i] = (worker){.job = j, .index = i};
        workers[i].scratch = aligned_alloc(64, (j->scratch_bytes + 63) / 64 * 64);
        if (i > 0) pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
    }
}

static void workers_stop(job *j, worker *workers) {
    j->stop = true;
    if (j->threads > 1) pthread_barrier_wait(&j->begin);
    for (int i = 0; i < j->threads; i++) {
        if (i > 0) pthread_join(workers[i].thread, NULL);
        free(workers[i].scratch);
    }
    pthread_barrier_destroy(&j->begin);
    pthread_barrier_destroy(&j->end);
}

static double pass_ns(job *j, worker *workers) {
    int64_t start = kt__now_ns();
    if (j->threads > 1) pthread_barrier_wait(&j->begin);
    run_share(j, 0, workers[0].scratch);
    if (j->threads > 1) pthread_barrier_wait(&j->end);
    return (double)(kt__now_ns() - start);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median time of one pass; each pass moves on in the buffer, so that weights from memory stay cold.
 */
static double measure(job *j, worker *workers, int ms) {
    double times[MAX_PASSES], total = 0;
    int n = 0;
    j->first = 0;
    pass_ns(j, workers); /* the first pass meets cold tables and pages */
    while (n < MAX_PASSES && (n < 3 || total < 1e6 * ms)) {
        j->first += j->rows;
        if (j->first + j->rows > j->mm.n_row) j->first = 0;
        times[n] = pass_ns(j, workers);
        total += times[n++];
    }
    qsort(times, (size_t)n, sizeof *times, by_value);
    return times[n / 2];
}

/* ---- peak ---- */

typedef struct peak_share {
    const kt__kernels *tier;
    uint64_t iterations, done;
    pthread_t thread;
} peak_share;

static void *peak_main(void *arg) {
    peak_share *share = arg;
    int32_t sink = 0;
    share->done = share->tier->peak_i8(share->iterations, &sink);
    return NULL;
}

/* GMAC/s of all threads at once: iterations doubled until a run takes 50 ms, then the best of five.
 */
static double peak_gmacs(const kt__kernels *tier, int threads) {
    double best = 0;
    int long_runs = 0;
    for (uint64_t iterations = 1000;; iterations *= long_runs ? 1 : 2) {
        peak_share shares[MAX_THREADS];
        uint64_t done = 0;
        int64_t start = kt__now_ns();
        for (int i = 0; i < threads; i++) {
            shares[i] = (peak_share){.tier = tier, .iterations = iterations};
            pthread_create(&shares[i].thread, NULL, peak_main, &shares[i]);
        }
        for (int i = 0; i < threads; i++) {
            pthread_join(shares[i].thread, NULL);
            done += shares[i].done;
        }
        double ns = (double)(kt__now_ns() - start);
        if (ns > 5e7 || iterations > (uint64_t)1 << 40) long_runs++;
        if ((double)done / ns > best) best = (double)done / ns;
        if (long_runs == 5) return best;
    }
}

/* ---- one type ---- */

typedef struct workload {
    kt__type type;
    uint8_t *w, *act;
    size_t w_bytes, row_bytes, act_row_bytes;
    int n_row, n_col;
} workload;

static int cols_for(kt__type type, int wanted) {
    int block = kt__type_get(type)->block_elems;
    return wanted / block * block > 0 ? wanted / block * block : block;
}

static uint8_t *big_alloc(size_t bytes, bool huge) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(3);
    }
    madvise(p, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return p;
}

static workload workload_open(kt__type type, const options *opt) {
    workload l = {.type = type, .n_col = cols_for(type, opt->cols)};
    kt__act_kind kind = kt__type_get(type)->act;
    kd_rng rng = {42};
    l.row_bytes = kt__type_row_bytes(type, l.n_col);
    l.n_row = (int)((size_t)opt->mb * 1000000 / l.row_bytes) / 32 * 32;
    if (l.n_row < 96) l.n_row = 96;
    l.w_bytes = l.row_bytes * (size_t)l.n_row;
    l.w = big_alloc(l.w_bytes + 4096, opt->huge);
    kd_blocks_kind blocks = kind == KT__ACT_F32 ? KD_BLOCKS_ENCODED : KD_BLOCKS_RANDOM;
    size_t some = l.row_bytes * 96; /* these rows, then copies of them */
    for (int r = 0; r < 96; r++)
        kd_weights(type, blocks, &rng, l.n_col, l.w + (size_t)r * l.row_bytes);
    for (size_t at = some; at < l.w_bytes; at += some) {
        memcpy(l.w + at, l.w, l.w_bytes - at < some ? l.w_bytes - at : some);
    }
    /* room for the widest kind of activations: the exact product takes f32 */
    size_t widest = kt__act_layout_of(KT__ACT_F32, l.n_col).row_bytes;
    l.act = aligned_alloc(64, widest * MAX_TOK);
    return l;
}

static void workload_close(workload *l) {
    munmap(l->w, l->w_bytes + 4096);
    free(l->act);
}

static void fill_act(workload *l, const kt__kernels *tier, kt__act_kind kind) {
    kd_rng rng = {7};
    float *x = malloc((size_t)l->n_col * sizeof *x);
    l->act_row_bytes = kt__act_layout_of(kind, l->n_col).row_bytes;
    for (int t = 0; t < MAX_TOK; t++) {
        kd_activations(KD_ACT_NORMAL, &rng, l->n_col, x);
        tier->quantize[kind](x, l->n_col, l->act + (size_t)t * l->act_row_bytes);
    }
    free(x);
}

static kt__mm_fn *function_of(const kt__kernels *tier, kt__type type, const char *family) {
    if (strcmp(family, "exact") == 0) return tier->exact;
    return strcmp(family, "gemm") == 0 ? tier->mm[type]->gemm : tier->mm[type]->rowdot;
}

static kt__mm mm_of(const workload *l, int n_tok) {
    return (kt__mm){.type = l->type,
                    .w = l->w,
                    .w_row_bytes = l->row_bytes,
                    .n_row = l->n_row,
                    .n_col = l->n_col,
                    .act = l->act,
                    .act_row_bytes = l->act_row_bytes,
                    .n_tok = n_tok};
}

static bool same_as_ref(const workload *l, const kt__kernels *tier, const char *family, int n_tok) {
    kt__mm mm = mm_of(l, n_tok);
    size_t n_out = (size_t)n_tok * CHECK_ROWS;
    float *want = malloc(n_out * sizeof *want), *got = malloc(n_out * sizeof *got);
    void *scratch = aligned_alloc(64, (tier->mm_scratch_bytes + 127) / 64 * 64);
    mm.n_row = CHECK_ROWS;
    mm.ld_out = CHECK_ROWS;
    mm.out = want;
    function_of(kd_ref(), l->type, family)(&mm, scratch);
    mm.out = got;
    function_of(tier, l->type, family)(&mm, scratch);
    kd_unify_nan(want, n_out);
    kd_unify_nan(got, n_out);
    bool same = memcmp(want, got, n_out * sizeof *want) == 0;
    free(want);
    free(got);
    free(scratch);
    return same;
}

/* The window of a pass and its results: [n_tok][rows], the same memory each pass, as in a forward
 * pass. */
static void set_window(job *j, int rows) {
    size_t bytes = (size_t)rows * (size_t)j->mm.n_tok * sizeof(float);
    j->first = 0;
    j->rows = rows;
    free(j->mm.out);
    j->mm.out = aligned_alloc(64, (bytes + 63) / 64 * 64);
    j->mm.ld_out = (size_t)rows;
    memset(j->mm.out, 0, bytes);
}

/* Rows of one pass: all that fit the cache share, or as many cold ones as take about 20 ms. */
static int window_rows(const workload *l, job *j, worker *workers, bool dram, int n_tok) {
    int cached = (int)((size_t)192 * 1024 * (size_t)j->threads / l->row_bytes) / 32 * 32;
    if (cached < 32 * j->threads) cached = 32 * j->threads;
    if (cached > l->n_row) cached = l->n_row;
    if (!dram) return cached;
    set_window(j, 32 * j->threads < l->n_row ? 32 * j->threads : l->n_row);
    pass_ns(j, workers);
    double rows = 20e6 / (pass_ns(j, workers) / j->rows);
    if (n_tok <= 8) rows *= 4;
    int whole = (int)(rows < l->n_row ? rows : l->n_row) / 32 * 32;
    return whole < j->rows ? j->rows : whole;
}

static void bench_one(const workload *l, const kt__kernels *tier, const char *family, bool dram,
                      int n_tok, double peak, const options *opt) {
    worker workers[MAX_THREADS];
    job j = {.mm = mm_of(l, n_tok),
             .fn = function_of(tier, l->type, family),
             .threads = opt->threads,
             .scratch_bytes = tier->mm_scratch_bytes};
    j.chunk_rows = (int)((size_t)opt->chunk_kb * 1000 / l->row_bytes) / 32 * 32;
    if (j.chunk_rows < 32) j.chunk_rows = 32;
    workers_start(&j, workers);
    set_window(&j, window_rows(l, &j, workers, dram, n_tok));
    if (!dram) j.mm.n_row = j.rows; /* the same rows each pass */
    double ns = measure(&j, workers, opt->ms);
    workers_stop(&j, workers);
    free(j.mm.out);
    double weights = (double)j.rows * l->n_col;
    double gmacs = weights * n_tok / ns;
    printf("%-8s %-7s %-6s %-5s %4d %9.1f %9.2f %9.1f", tier->name, kt__type_get(l->type)->name,
           family, dram ? "dram" : "cache", n_tok, gmacs, (double)l->row_bytes * j.rows / ns,
           ns * opt->threads / (weights / 256));
    if (kt__type_get(l->type)->act == KT__ACT_F32 || strcmp(family, "exact") == 0)
        printf("       -\n");
    else
        printf(" %6.1f%%\n", 100 * gmacs / peak);
    fflush(stdout);
}

/* Numbers of `list` ("1,2,4") or of the family's own. */
static int tokens_of(const char *family, const char *list, int *tok) {
    const char *text = list                          ? list
                       : strcmp(family, "gemm") == 0 ? "16,32,64,128,256,512"
                                                     : "1,2,4,8";
    int n = 0;
    if (!list && strcmp(family, "exact") == 0) text = "1,16";
    while (*text && n < 16) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text) break;
        if (value >= 1 && value <= MAX_TOK) tok[n++] = (int)value;
        text = *end ? end + 1 : end;
    }
    return n;
}

static bool bench_family(workload *l, const kt__kernels *tier, const char *family, double peak,
                         const options *opt) {
    bool exact = strcmp(family, "exact") == 0;
    int tok[16], n = tokens_of(family, opt->tok, tok);
    fill_act(l, tier, exact ? KT__ACT_F32 : kt__type_get(l->type)->act);
    for (int i = 0; i < n; i++) {
        if (opt->check && !same_as_ref(l, tier, family, tok[i])) {
            printf("%-8s %-7s %-6s %d tokens: DIFFERS FROM THE REFERENCE\n", tier->name,
                   kt__type_get(l->type)->name, family, tok[i]);
            return false;
        }
        for (int dram = 1; dram >= 0; dram--) {
            if (opt->from && strcmp(opt->from, dram ? "dram" : "cache") != 0) continue;
            bench_one(l, tier, family, dram, tok[i], peak, opt);
        }
    }
    return true;
}

static bool bench_tier(const kt__kernels *tier, const options *opt) {
    static const char *const families[] = {"rowdot", "gemm", "exact"};
    double peak = peak_gmacs(tier, opt->threads);
    bool ok = true;
    printf("# tier %s, %d thread(s), %d columns, %d MB of weights; peak_i8 %.1f GMAC/s\n",
           tier->name, opt->threads, opt->cols, opt->mb, peak);
    printf("%-8s %-7s %-6s %-5s %4s %9s %9s %9s %7s\n", "tier", "type", "family", "from", "tok",
           "GMAC/s", "GB/s", "ns/256w", "peak");
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        if (opt->type && strcasecmp(opt->type, kt__type_get(type)->name) != 0) continue;
        workload l = workload_open(type, opt);
        for (int f = 0; f < 3; f++) {
            if (opt->family ? strcmp(opt->family, families[f]) != 0 : f == 2) continue;
            ok = bench_family(&l, tier, families[f], peak, opt) && ok;
        }
        workload_close(&l);
    }
    return ok;
}

static int usage(void) {
    fprintf(
        stderr,
        "usage: bench_kernels [--tier T] [--type Q] [--threads N] [--cols N] [--mb N] [--ms N]\n"
        "       [--chunk-kb N] [--tok 1,2,4] [--family rowdot|gemm|exact] [--from dram|cache]\n"
        "       [--huge] [--no-check]\n");
    return 2;
}

static bool parse(int argc, char **argv, options *opt) {
    for (int i = 1; i < argc; i++) {
        const char *key = argv[i];
        if (strcmp(key, "--huge") == 0)
            opt->huge = true;
        else if (strcmp(key, "--no-check") == 0)
            opt->check = false;
        else if (i + 1 == argc)
            return false;
        else if (strcmp(key, "--tier") == 0)
            opt->tier = argv[++i];
        else if (strcmp(key, "--type") == 0)
            opt->type = argv[++i];
        else if (strcmp(key, "--family") == 0)
            opt->family = argv[++i];
        else if (strcmp(key, "--from") == 0)
            opt->from = argv[++i];
        else if (strcmp(key, "--tok") == 0)
            opt->tok = argv[++i];
        else if (strcmp(key, "--threads") == 0)
            opt->threads = atoi(argv[++i]);
        else if (strcmp(key, "--cols") == 0)
            opt->cols = atoi(argv[++i]);
        else if (strcmp(key, "--mb") == 0)
            opt->mb = atoi(argv[++i]);
        else if (strcmp(key, "--ms") == 0)
            opt->ms = atoi(argv[++i]);
        else if (strcmp(key, "--chunk-kb") == 0)
            opt->chunk_kb = atoi(argv[++i]);
        else
            return false;
    }
    return opt->threads >= 1 && opt->threads <= MAX_THREADS && opt->cols >= 1 &&
           opt->cols <= KT__MAX_COL && opt->mb >= 1 && opt->mb <= 4000 && opt->ms >= 1 &&
           opt->chunk_kb >= 1;
}

int main(int argc, char **argv) {
    options opt = {
        .threads = 1, .cols = 1536, .mb = 256, .ms = 200, .chunk_kb = 900, .check = true};
    if (!parse(argc, argv, &opt)) return usage();
    (void)kt__fpenv_enter();
    bool ok = true;
    for (const kt__kernels **tier = kd_tiers_of(opt.tier); *tier; tier++)
        ok = bench_tier(*tier, &opt) && ok;
    return ok ? 0 : 1;
}
