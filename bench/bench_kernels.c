/* Speed of the matrix products: each type and tier, few and many tokens, weights from memory and
 * from cache.
 *
 * Every product is compared with the reference tier, byte for byte, before it is timed. A
 * measurement is the median of passes over rows split evenly among plain threads; no thread pool
 * takes part. Figures mean something only on a quiet machine.
 *
 * Prefetches are given as NEAR+FAR bytes, as kt__prefetch has them. The passes of several alternate,
 * so that a slow minute strikes all alike. The share is of what this machine allows: for weights
 * from memory the slower of reading them (a plain loop over the same buffer) and multiplying at the
 * tier's peak, from cache the peak alone.
 *
 *   bench_kernels [--tier T] [--type Q] [--threads N] [--cols N] [--mb N] [--ms N] [--chunk-kb N]
 *                 [--tok 1,2,4] [--family rowdot|gemm|exact] [--from dram|cache]
 *                 [--prefetch NEAR+FAR,...] [--pages small|huge|file] [--no-check] */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../tests/kernels_data.h"
#include "base/clock.h"

enum { MAX_THREADS = 64, MAX_PASSES = 1000, MAX_TOK = 512, MAX_PREFETCH = 24, CHECK_ROWS = 70 };

typedef struct options {
    const char *tier, *type, *family, *from, *tok, *pages;
    int threads, cols, mb, ms, chunk_kb;
    kt__prefetch prefetch[MAX_PREFETCH];
    int n_prefetch; /* 0: what the tier takes on this processor */
    bool check;
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

static double next_pass_ns(job *j, worker *workers) {
    j->first += j->rows;
    if (j->first + j->rows > j->mm.n_row) j->first = 0;
    return pass_ns(j, workers);
}

/* Median time of one pass with each prefetch; each pass moves on in the buffer, so that weights from
 * memory stay cold. */
static void measure(job *j, worker *workers, const options *opt, double median[MAX_PREFETCH]) {
    static double times[MAX_PREFETCH][MAX_PASSES];
    double total = 0;
    int n = 0;
    j->first = 0;
    pass_ns(j, workers); /* the first pass meets cold tables and pages */
    for (; n < MAX_PASSES && (n < 3 || total < 1e6 * opt->ms * opt->n_prefetch); n++) {
        for (int i = 0; i < opt->n_prefetch; i++) {
            j->mm.prefetch = opt->prefetch[i];
            times[i][n] = next_pass_ns(j, workers);
            total += times[i][n];
        }
    }
    for (int i = 0; i < opt->n_prefetch; i++) {
        qsort(times[i], (size_t)n, sizeof(double), by_value);
        median[i] = times[i][n / 2];
    }
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
        if (long_runs || ns > 5e7 || iterations > (uint64_t)1 << 40) long_runs++;
        if ((double)done / ns > best) best = (double)done / ns;
        if (long_runs == 5) return best;
    }
}

/* ---- one type ---- */

typedef struct workload {
    kt__type type;
    uint8_t *w, *act;
    kt__tiles tiles; /* of act, where the tier reads them */
    size_t w_bytes, row_bytes, act_row_bytes;
    int n_row, n_col;
    double read_gbs; /* of the weights' buffer */
} workload;

static int cols_for(kt__type type, int wanted) {
    int block = kt__type_get(type)->block_elems;
    return wanted / block * block > 0 ? wanted / block * block : block;
}

static void give_up(const char *call) {
    perror(call);
    exit(3);
}

/* Memory in pages of the kind asked for; of a file: one that is written, without a name. */
static uint8_t *big_alloc(size_t bytes, const char *pages) {
    int fd = -1;
    if (strcmp(pages, "file") == 0) {
        char path[] = "/tmp/bench_kernels-XXXXXX";
        fd = mkstemp(path);
        if (fd < 0 || unlink(path) != 0 || ftruncate(fd, (off_t)bytes) != 0) give_up(path);
    }
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED) give_up("mmap");
    if (fd >= 0) close(fd);
    madvise(p, bytes, strcmp(pages, "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return p;
}

/* ---- reading alone ---- */

typedef uint64_t read_lane __attribute__((vector_size(64), may_alias));

typedef struct read_share {
    const uint8_t *from;
    size_t bytes;
    uint64_t sum;
    pthread_t thread;
} read_share;

static void *read_main(void *arg) {
    read_share *share = arg;
    read_lane a = {0}, b = {0};
    for (size_t i = 0; i + 128 <= share->bytes; i += 128) {
        __builtin_prefetch(share->from + i + 8192, 0, 2);
        __builtin_prefetch(share->from + i + 8256, 0, 2);
        a += *(const read_lane *)(const void *)(share->from + i);
        b += *(const read_lane *)(const void *)(share->from + i + 64);
    }
    share->sum = (a ^ b)[0];
    return NULL;
}

/* GB/s of all threads: the best of seven passes. */
static double read_gbs(const workload *l, int threads) {
    read_share shares[MAX_THREADS];
    size_t part = l->w_bytes / (size_t)threads / 4096 * 4096;
    double best = 0;
    for (int pass = 0; pass < 7; pass++) {
        int64_t start = kt__now_ns();
        for (int i = 0; i < threads; i++) {
            shares[i] = (read_share){.from = l->w + part * (size_t)i, .bytes = part};
            pthread_create(&shares[i].thread, NULL, read_main, &shares[i]);
        }
        for (int i = 0; i < threads; i++) pthread_join(shares[i].thread, NULL);
        double gbs = (double)(part * (size_t)threads) / (double)(kt__now_ns() - start);
        if (gbs > best) best = gbs;
    }
    return best;
}

static workload workload_open(kt__type type, const options *opt) {
    workload l = {.type = type, .n_col = cols_for(type, opt->cols)};
    kt__act_kind kind = kt__type_get(type)->act;
    kd_rng rng = {42};
    l.row_bytes = kt__type_row_bytes(type, l.n_col);
    l.n_row = (int)((size_t)opt->mb * 1000000 / l.row_bytes) / 32 * 32;
    if (l.n_row < 96) l.n_row = 96;
    l.w_bytes = l.row_bytes * (size_t)l.n_row;
    l.w = big_alloc(l.w_bytes + 4096, opt->pages);
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
    l.read_gbs = read_gbs(&l, opt->threads);
    return l;
}

static void workload_close(workload *l) {
    munmap(l->w, l->w_bytes + 4096);
    free(l->act);
    free(l->tiles.act);
}

/* As an operation has them: made before its products. */
static void fill_tiles(workload *l, const kt__kernels *tier) {
    free(l->tiles.act);
    l->tiles = (kt__tiles){NULL, MAX_TOK / KT__TILE_TOKENS};
    if (!tier->tile || tier->tiles_from[l->type] == 0) return;
    size_t bytes = l->tiles.pitch * (size_t)(l->n_col / 256) * sizeof *l->tiles.act;
    l->tiles.act = aligned_alloc(64, bytes);
    tier->tile(l->act, l->n_col, MAX_TOK, l->tiles);
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
                    .tiles = l->tiles,
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

/* The share of what the machine allows; 0: nothing is known. */
static double share_of_limit(const workload *l, const job *j, bool dram, double ns, double peak) {
    double macs = (double)j->rows * l->n_col * j->mm.n_tok;
    double read_ns = dram ? (double)l->row_bytes * j->rows / l->read_gbs : 0;
    double mac_ns = peak > 0 ? macs / peak : 0;
    return (read_ns > mac_ns ? read_ns : mac_ns) / ns;
}

static void print_row(const workload *l, const job *j, const char *tier, const char *family,
                      bool dram, kt__prefetch prefetch, double ns, double peak) {
    double weights = (double)j->rows * l->n_col;
    bool fixed = kt__type_get(l->type)->act != KT__ACT_F32 && strcmp(family, "exact") != 0;
    char ahead[24];
    snprintf(ahead, sizeof ahead, "%d+%d", prefetch.near, prefetch.far);
    printf("%-8s %-7s %-6s %-5s %4d %11s %9.1f %9.2f %9.1f", tier, kt__type_get(l->type)->name,
           family, dram ? "dram" : "cache", j->mm.n_tok, ahead, weights * j->mm.n_tok / ns,
           (double)l->row_bytes * j->rows / ns, ns * j->threads / (weights / 256));
    double share = share_of_limit(l, j, dram, ns, fixed ? peak : 0);
    if (share > 0)
        printf(" %6.1f%%\n", 100 * share);
    else
        printf("       -\n");
    fflush(stdout);
}

static void bench_one(const workload *l, const kt__kernels *tier, const char *family, bool dram,
                      int n_tok, double peak, const options *opt) {
    worker workers[MAX_THREADS];
    double ns[MAX_PREFETCH];
    job j = {.mm = mm_of(l, n_tok),
             .fn = function_of(tier, l->type, family),
             .threads = opt->threads,
             .scratch_bytes = tier->mm_scratch_bytes};
    j.mm.prefetch = opt->prefetch[0];
    j.chunk_rows = (int)((size_t)opt->chunk_kb * 1000 / l->row_bytes) / 32 * 32;
    if (j.chunk_rows < 32) j.chunk_rows = 32;
    workers_start(&j, workers);
    set_window(&j, window_rows(l, &j, workers, dram, n_tok));
    if (!dram) j.mm.n_row = j.rows; /* the same rows each pass */
    measure(&j, workers, opt, ns);
    workers_stop(&j, workers);
    free(j.mm.out);
    for (int i = 0; i < opt->n_prefetch; i++)
        print_row(l, &j, tier->name, family, dram, opt->prefetch[i], ns[i], peak);
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
    fill_tiles(l, tier);
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

static void default_prefetch(const kt__kernels *tier, options *opt) {
    kt__cpu cpu;
    kt__cpu_detect(&cpu);
    opt->prefetch[0] = kt__kernels_prefetch(tier, &cpu);
    opt->n_prefetch = 1;
}

static bool bench_tier(const kt__kernels *tier, options opt_of_all) {
    static const char *const families[] = {"rowdot", "gemm", "exact"};
    options *opt = &opt_of_all;
    if (!opt->n_prefetch) default_prefetch(tier, opt);
    double peak = peak_gmacs(tier, opt->threads);
    bool ok = true;
    printf("# tier %s, %d thread(s), %d columns, %d MB of weights; peak_i8 %.1f GMAC/s\n",
           tier->name, opt->threads, opt->cols, opt->mb, peak);
    printf("%-8s %-7s %-6s %-5s %4s %11s %9s %9s %9s %7s\n", "tier", "type", "family", "from",
           "tok", "ahead", "GMAC/s", "GB/s", "ns/256w", "limit");
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        if (opt->type && strcasecmp(opt->type, kt__type_get(type)->name) != 0) continue;
        workload l = workload_open(type, opt);
        printf("# %s: %.1f GB/s read alone\n", kt__type_get(type)->name, l.read_gbs);
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
        "       [--prefetch NEAR+FAR,...] [--pages small|huge|file] [--no-check]\n");
    return 2;
}

static bool parse_prefetch(const char *text, options *opt) {
    for (opt->n_prefetch = 0; opt->n_prefetch < MAX_PREFETCH; text++) {
        unsigned near, far;
        int used = 0;
        if (sscanf(text, "%u+%u%n", &near, &far, &used) != 2 || near > UINT16_MAX ||
            far > UINT16_MAX)
            return false;
        opt->prefetch[opt->n_prefetch++] = (kt__prefetch){(uint16_t)near, (uint16_t)far};
        text += used;
        if (!*text) return true;
        if (*text != ',') return false;
    }
    return false;
}

static bool parse(int argc, char **argv, options *opt) {
    for (int i = 1; i < argc; i++) {
        const char *key = argv[i];
        if (strcmp(key, "--no-check") == 0)
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
        else if (strcmp(key, "--pages") == 0)
            opt->pages = argv[++i];
        else if (strcmp(key, "--prefetch") == 0) {
            if (!parse_prefetch(argv[++i], opt)) return false;
        } else if (strcmp(key, "--threads") == 0)
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
    options opt = {.threads = 1,
                   .cols = 1536,
                   .mb = 256,
                   .ms = 200,
                   .chunk_kb = 900,
                   .check = true,
                   .pages = "small"};
    if (!parse(argc, argv, &opt)) return usage();
    (void)kt__fpenv_enter();
    bool ok = true;
    for (const kt__kernels **tier = kd_tiers_of(opt.tier); *tier; tier++)
        ok = bench_tier(*tier, opt) && ok;
    return ok ? 0 : 1;
}
