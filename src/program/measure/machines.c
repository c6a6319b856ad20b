#include "measure/limits.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "measure/figures.h"
#include "ops/speed.h"
#include "peers/peers.h"

enum {
    WRITE_US = 500000,
    READ_US = 300000,
    PRODUCT_US = 200000,
    SMALL = 8, /* bytes of an exchange that measures waiting */
    SMALL_ROUNDS = 300,
    BIG = 4 << 20,
    BIG_ROUNDS = 5
};

/* What each process says of its machine. */
typedef struct machine_row {
    char processor[64], tier[16];
    int32_t n_threads;
    double read_bytes_per_s, product_bytes_per_s; /* 0: not measured */
} machine_row;

typedef struct machines {
    kt__peers *peers;
    int rank, n;
    uint8_t *room; /* [BIG] */
    machine_row rows[KT__PEERS_MAX];
    double ping_us[KT__PEERS_MAX];         /* one way, between process 0 and this one */
    double out_bytes_per_s[KT__PEERS_MAX]; /* to all others together */
    double exchange_us;                    /* of few bytes, by all */
} machines;

/* ---- messages ---- */

/* All send n bytes, or one of them does, the others none. */
static void send_from(machines *m, int from, size_t n) {
    size_t at[KT__PEERS_MAX + 1] = {0};
    for (int r = 0; r < m->n; r++) at[r + 1] = at[r] + (from < 0 || from == r ? n : 0);
    kt__peers_gather(m->peers, m->room, at);
}

static double measure_ping(machines *m, int to) {
    double us[SMALL_ROUNDS];
    for (int i = 0; i < SMALL_ROUNDS; i++) {
        int64_t begin = kt__now_ns();
        send_from(m, 0, SMALL);
        send_from(m, to, SMALL);
        us[i] = (double)(kt__now_ns() - begin) / 2e3;
    }
    return kt__percentile_median(us, SMALL_ROUNDS);
}

static double measure_exchange(machines *m) {
    double us[SMALL_ROUNDS];
    for (int i = 0; i < SMALL_ROUNDS; i++) {
        int64_t begin = kt__now_ns();
        send_from(m, -1, SMALL);
        us[i] = (double)(kt__now_ns() - begin) / 1e3;
    }
    return kt__percentile_median(us, SMALL_ROUNDS);
}

/* Until all have all of it, and have said so. */
static double measure_stream(machines *m, int from) {
    double us[BIG_ROUNDS];
    for (int i = 0; i < BIG_ROUNDS; i++) {
        int64_t begin = kt__now_ns();
        send_from(m, from, BIG);
        send_from(m, -1, SMALL);
        us[i] = (double)(kt__now_ns() - begin) / 1e3;
    }
    return (double)BIG * (m->n - 1) / (kt__percentile_median(us, BIG_ROUNDS) * 1e-6);
}

static void measure_link(machines *m) {
    m->exchange_us = measure_exchange(m);
    for (int r = 0; r < m->n; r++) {
        m->ping_us[r] = r ? measure_ping(m, r) : 0;
        m->out_bytes_per_s[r] = measure_stream(m, r);
    }
}

/* ---- machines ---- */

static void measure_read(const kt__machine_asked *a, machine_row *row) {
    kt__random_file file;
    uint64_t size = kt__random_file_size(a->topology, a->limits);
    if (kt__random_file_open(size, WRITE_US, &file, NULL) != KT_OK) return;
    (void)kt__measure_read(a->pool, a->n_threads, file.data, file.size, 0); /* maps the pages */
    row->read_bytes_per_s = kt__measure_read(a->pool, a->n_threads, file.data, file.size, READ_US);
    kt__random_file_close(&file);
}

/* All at the same time: processes of one machine share its memory. */
static void measure_machines(machines *m, const kt__machine_asked *a) {
    size_t at[KT__PEERS_MAX + 1];
    machine_row *row = &m->rows[m->rank];
    snprintf(row->processor, sizeof row->processor, "%.63s", a->cpu->brand);
    snprintf(row->tier, sizeof row->tier, "%.15s", a->kernels->name);
    row->n_threads = a->n_threads;
    send_from(m, -1, SMALL);
    measure_read(a, row);
    send_from(m, -1, SMALL);
    row->product_bytes_per_s = kt__product_speed(a->pool, a->n_threads, a->kernels, PRODUCT_US);
    for (int r = 0; r <= m->n; r++) at[r] = (size_t)r * sizeof *row;
    kt__peers_gather(m->peers, m->rows, at);
}

/* ---- the report ---- */

/* The narrowest counts, as in every exchange. */
static double link_of(const machines *m) {
    double least = m->out_bytes_per_s[0];
    for (int r = 1; r < m->n; r++)
        if (m->out_bytes_per_s[r] < least) least = m->out_bytes_per_s[r];
    return least;
}

static void print_machines(const machines *m) {
    printf("%-7s %-16s %-8s %7s %9s %12s %8s %10s\n", "process", "machine", "kernels", "threads",
           "read GB/s", "product GB/s", "ping us", "sends MB/s");
    for (int r = 0; r < m->n; r++) {
        const machine_row *row = &m->rows[r];
        printf("%-7d %-16.16s %-8s %7d %9.1f %12.1f ", r, kt__peers_host(m->peers, r), row->tier,
               (int)row->n_threads, row->read_bytes_per_s / 1e9, row->product_bytes_per_s / 1e9);
        if (r)
            printf("%8.0f ", m->ping_us[r]);
        else
            printf("%8s ", "");
        printf("%10.0f  %s\n", m->out_bytes_per_s[r] / 1e6, row->processor);
    }
    printf(
        "\nping: one way from process 0; sends: to all others together; an exchange of few bytes by "
        "all takes %.0f us\n",
        m->exchange_us);
    printf("kentang plan -m MODEL --machines %d --latency %.0f --link %.0fmbit --speeds ", m->n,
           m->exchange_us, link_of(m) * 8e-6 / 0.941);
    for (int r = 0; r < m->n; r++)
        printf("%s%.1f", r ? "," : "", m->rows[r].product_bytes_per_s / 1e9);
    puts("");
}

static kt_status print_machines_json(const machines *m, kt_error *err) {
    json_t *rows = json_array();
    for (int r = 0; r < m->n; r++) {
        const machine_row *row = &m->rows[r];
        json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:f}", "machine",
                      kt__peers_host(m->peers, r), "processor", row->processor, "kernels",
                      row->tier, "threads", (int)row->n_threads, "read_bytes_per_s",
                      kt__json_positive(row->read_bytes_per_s), "product_bytes_per_s",
                      kt__json_positive(row->product_bytes_per_s), "ping_us",
                      kt__json_positive(m->ping_us[r]), "out_bytes_per_s", m->out_bytes_per_s[r]));
    }
    json_t *all = json_pack("{s:o, s:f}", "machines", rows, "exchange_us", m->exchange_us);
    if (kt__json_print(all)) return KT_OK;
    return kt__fail(err, KT_E_NOMEM, "cannot write the report as JSON");
}

static kt_status measure_job(machines *m, const kt__machine_asked *asked, kt_error *err) {
    m->room = kt__calloc((size_t)KT__PEERS_MAX * SMALL + BIG, 1);
    if (!m->room) return kt__fail_nomem(err, "what is sent", BIG);
    measure_machines(m, asked);
    measure_link(m);
    KT__STEP(kt__peers_check(m->peers, err));
    if (m->rank > 0) return KT_OK;
    if (asked->json) return print_machines_json(m, err);
    print_machines(m);
    return KT_OK;
}

kt_status kt__machines_measure(const kt__machine_asked *asked, kt_error *err) {
    static const machines empty;
    machines m = empty;
    KT__STEP(kt__peers_open(&m.peers, err));
    if (!m.peers)
        return kt__fail(err, KT_E_ARG,
                        "--mpi measures the processes of a job: mpirun -n N --hostfile FILE "
                        "kentang doctor --mpi");
    m.rank = kt__peers_rank(m.peers);
    m.n = kt__peers_size(m.peers);
    kt_status status = measure_job(&m, asked, err);
    if (status != KT_OK) kt__peers_fail(m.peers, "this process cannot continue");
    kt__free(m.room);
    kt__peers_close(m.peers);
    return status;
}
