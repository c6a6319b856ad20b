#include "ops/speed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/pages.h"
#include "kernels/dispatch.h"

enum {
    N_COL = 4096,
    ROWS = 28 << 10, /* 64 MB: more than most caches keep */
    ITEM_ROWS = 64,
    FEWEST_PASSES = 3,
    ALIGN = 64,
    ANY_CODE = 0x11 /* scales of this are ordinary numbers */
};

typedef struct speed_job {
    const kt__kernels *kernels;
    kt__mm mm;
    float *out;     /* [ROWS] */
    uint8_t *bytes; /* weights, then a row of activations */
    size_t n_bytes;
    uint8_t *scratch;
    size_t scratch_bytes; /* of a worker */
} speed_job;

static void multiply_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const speed_job *job = arg;
    kt__mm mm = job->mm;
    mm.w += (size_t)begin * ITEM_ROWS * mm.w_row_bytes;
    mm.n_row = (int)(end - begin) * ITEM_ROWS;
    mm.out = job->out + begin * ITEM_ROWS;
    job->kernels->mm[mm.type]->rowdot(&mm, job->scratch + (size_t)worker * job->scratch_bytes);
}

static bool make_weights(speed_job *job, const kt__cpu *cpu, int n_threads) {
    kt__act_layout layout = kt__act_layout_of(KT__ACT_Q256, N_COL);
    size_t row = kt__type_row_bytes(KT__TYPE_Q4_K, N_COL), n = row * ROWS;
    job->n_bytes = n + layout.row_bytes;
    job->bytes = kt__pages_alloc(job->n_bytes);
    job->out = kt__calloc(ROWS, sizeof *job->out);
    job->scratch_bytes = kt__align_up(job->kernels->mm_scratch_bytes + 1, ALIGN);
    job->scratch = kt__aligned_alloc(ALIGN, (size_t)n_threads * job->scratch_bytes);
    if (!job->bytes || !job->out || !job->scratch) return false;
    memset(job->bytes, ANY_CODE, job->n_bytes);
    job->mm = (kt__mm){.type = KT__TYPE_Q4_K,
                       .w = job->bytes,
                       .w_row_bytes = row,
                       .n_col = N_COL,
                       .act = job->bytes + n,
                       .act_row_bytes = layout.row_bytes,
                       .n_tok = 1,
                       .prefetch = kt__kernels_prefetch(job->kernels, cpu),
                       .ld_out = ROWS};
    return true;
}

static int64_t best_pass_ns(speed_job *job, kt__pool *pool, int n_threads, int64_t limit_us) {
    int64_t start_us = kt__now_us(), best = INT64_MAX;
    for (int i = 0; i < FEWEST_PASSES || kt__now_us() - start_us < limit_us; i++) {
        kt__pool_begin(pool, n_threads);
        int64_t from = kt__now_ns();
        kt__pool_run(pool, ROWS / ITEM_ROWS, 1, multiply_rows, job);
        int64_t took = kt__now_ns() - from;
        kt__pool_end(pool);
        if (took < best) best = took;
    }
    return best > 0 ? best : 1;
}

double kt__product_speed(kt__pool *pool, int n_threads, const kt__kernels *kernels,
                         int64_t limit_us) {
    speed_job job = {.kernels = kernels};
    kt__cpu cpu;
    double speed = 0;
    kt__cpu_detect(&cpu);
    if (make_weights(&job, &cpu, kt__pool_size(pool)))
        speed = (double)job.mm.w_row_bytes * ROWS * 1e9 /
                (double)best_pass_ns(&job, pool, n_threads, limit_us);
    kt__pages_free(job.bytes, job.n_bytes);
    kt__free(job.out);
    kt__free(job.scratch);
    return speed;
}
