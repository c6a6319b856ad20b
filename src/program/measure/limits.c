#include "measure/limits.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"

enum {
    MIB = 1 << 20,
    WRITE_BYTES = MIB,
    READ_GRAIN = MIB / 64, /* lines of 64 bytes in a chunk of 1 MiB: long linear runs */
    PREFETCH_BYTES = 8192, /* ahead: the processor's own prefetcher does not cross pages */
    MIN_FILE = 16 * MIB,
    PEAK_ITEM_US = 1000,
    CACHE_A_CORE = 32 * MIB /* no processor has more L3 for each core */
};

uint64_t kt__cache_believed(const kt__topology *topology) {
    const uint64_t most = CACHE_A_CORE * (uint64_t)topology->n_physical;
    return topology->l3_bytes < most ? topology->l3_bytes : most;
}

/* ---- random bytes ---- */

uint64_t kt__random_file_size(const kt__topology *topology, const kt__limits *limits) {
    const uint64_t most = UINT64_C(512) * MIB;
    uint64_t size = topology->l3_bytes ? 16 * topology->l3_bytes : UINT64_C(256) * MIB;
    uint64_t quarter = kt__mem_budget_default(limits) / 4;
    if (size < UINT64_C(128) * MIB) size = UINT64_C(128) * MIB;
    if (size > most) size = most;
    if (size > quarter) size = quarter;
    size -= size % WRITE_BYTES;
    return size < MIN_FILE ? 0 : size;
}

static void fill_random(uint64_t *words, size_t n, uint64_t *state) { /* splitmix64 */
    for (size_t i = 0; i < n; i++) {
        uint64_t z = (*state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        words[i] = z ^ (z >> 31);
    }
}

/* Returns what could be written of `size` bytes before the deadline; 0 if the place has no room. */
static uint64_t write_random(int fd, uint64_t size, int64_t deadline_us) {
    uint64_t *block = kt__malloc(WRITE_BYTES);
    if (!block) return 0;
    uint64_t written = 0, state = (uint64_t)kt__now_ns();
    while (written < size && (written < MIN_FILE || kt__now_us() < deadline_us)) {
        fill_random(block, WRITE_BYTES / sizeof *block, &state);
        if (!kt__fd_write(fd, block, WRITE_BYTES)) {
            written = 0;
            break;
        }
        written += WRITE_BYTES;
    }
    kt__free(block);
    return written;
}

/* A file without a name in folder; NULL: in memory. */
static int create_nameless(const char *folder) {
    if (!folder) return memfd_create("kentang-doctor", MFD_CLOEXEC);
    char path[512];
    int n = snprintf(path, sizeof path, "%s/kentang-doctor-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof path) return -1;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

static bool try_place(const char *folder, uint64_t size, int64_t limit_us, kt__random_file *out) {
    int fd = create_nameless(folder);
    if (fd < 0) return false;
    uint64_t written = write_random(fd, size, kt__now_us() + limit_us);
    void *data = MAP_FAILED;
    if (written) data = mmap(NULL, (size_t)written, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (data == MAP_FAILED) return false;
    out->data = data;
    out->size = written;
    snprintf(out->place, sizeof out->place, "%s", folder ? folder : "memory");
    return true;
}

kt_status kt__random_file_open(uint64_t size, int64_t limit_us, kt__random_file *out,
                               kt_error *err) {
    memset(out, 0, sizeof *out);
    if (size < MIN_FILE)
        return kt__fail(err, KT_E_NOMEM, "too little memory is free for a file of %d MiB",
                        MIN_FILE / MIB);
    const char *const places[] = {getenv("TMPDIR"), "/tmp", "/var/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (places[i] && *places[i] && try_place(places[i], size, limit_us, out)) return KT_OK;
    if (try_place(NULL, size, limit_us, out)) return KT_OK;
    return kt__fail(err, KT_E_IO,
                    "no folder has room for a temporary file of %llu MiB; set TMPDIR to one",
                    (unsigned long long)(size / MIB));
}

bool kt__random_file_of(const char *path, uint64_t size, kt__random_file *out) {
    struct stat st;
    memset(out, 0, sizeof *out);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    void *data = MAP_FAILED;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= size / 2) {
        if ((uint64_t)st.st_size < size) size = (uint64_t)st.st_size;
        data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (data == MAP_FAILED) return false;
    out->data = data;
    out->size = size;
    snprintf(out->place, sizeof out->place, "%s", path);
    return true;
}

void kt__random_file_close(kt__random_file *file) {
    if (file->data) munmap((void *)(uintptr_t)file->data, (size_t)file->size);
    memset(file, 0, sizeof *file);
}

/* ---- reading ---- */

typedef uint64_t lanes __attribute__((vector_size(16), may_alias));

typedef struct read_job {
    const uint8_t *data;
    _Atomic uint64_t sum; /* what was read is used, so that it is read */
} read_job;

/* [begin, end) in lines of 64 bytes */
static void read_lines(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    read_job *job = arg;
    lanes a = {0, 0}, b = a, c = a, d = a;
    for (int64_t i = begin; i < end; i++) {
        const lanes *line = (const lanes *)(job->data + 64 * i);
        __builtin_prefetch((const char *)line + PREFETCH_BYTES, 0, 3);
        a += line[0];
        b += line[1];
        c += line[2];
        d += line[3];
    }
    a = (a ^ b) + (c ^ d);
    atomic_fetch_add_explicit(&job->sum, a[0] + a[1], memory_order_relaxed);
}

typedef struct timed_run {
    kt__pool *pool;
    int n_threads;
    int64_t n_items, grain;
    kt__pool_fn *fn;
    void *arg;
} timed_run;

/* Seconds of the shortest pass: at least two, then as many as fit. */
static double best_seconds(const timed_run *run, int64_t limit_us) {
    int64_t start = kt__now_ns(), best = INT64_MAX;
    for (int i = 0; i < 2 || kt__now_ns() - start < limit_us * 1000; i++) {
        kt__pool_begin(run->pool, run->n_threads);
        int64_t from = kt__now_ns();
        kt__pool_run(run->pool, run->n_items, run->grain, run->fn, run->arg);
        int64_t took = kt__now_ns() - from;
        kt__pool_end(run->pool);
        if (took < best) best = took;
    }
    return best > 0 ? (double)best * 1e-9 : 1e-9;
}

double kt__measure_read(kt__pool *pool, int n_threads, const uint8_t *data, uint64_t size,
                        int64_t limit_us) {
    read_job job = {.data = data};
    timed_run run = {pool, n_threads, (int64_t)(size / 64), READ_GRAIN, read_lines, &job};
    return (double)size / best_seconds(&run, limit_us);
}

/* ---- integer peak ---- */

typedef struct peak_job {
    const kt__kernels *kernels;
    uint64_t iterations; /* of one item */
    _Atomic int32_t sum;
} peak_job;

static void run_peak(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    peak_job *job = arg;
    int32_t sink = 0;
    for (int64_t i = begin; i < end; i++) (void)job->kernels->peak_i8(job->iterations, &sink);
    atomic_fetch_add_explicit(&job->sum, sink, memory_order_relaxed);
}

/* Iterations that take about PEAK_ITEM_US, and how many multiply-adds they are. */
static uint64_t calibrate_loop(const kt__kernels *kernels, uint64_t *iterations) {
    int32_t sink = 0;
    for (*iterations = 1000;; *iterations *= 2) {
        int64_t start = kt__now_us();
        uint64_t macs = kernels->peak_i8(*iterations, &sink);
        if (kt__now_us() - start >= PEAK_ITEM_US || *iterations > UINT64_C(1) << 40) return macs;
    }
}

double kt__measure_i8(kt__pool *pool, int n_threads, const kt__kernels *kernels, int64_t limit_us) {
    if (!kernels->peak_i8) return 0;
    peak_job job = {.kernels = kernels};
    uint64_t macs = calibrate_loop(kernels, &job.iterations);
    int64_t n_items = 8 * (int64_t)n_threads;
    timed_run run = {pool, n_threads, n_items, 1, run_peak, &job};
    return (double)macs * (double)n_items / best_seconds(&run, limit_us);
}
