/* kentang bench, between its files: what is measured and how it is shown.
 *
 * Owns: the list of tests, a row of results, and the cost model after "share of the limit". One
 * thread. */
#ifndef KT_MEASURE_BENCH_H
#define KT_MEASURE_BENCH_H

#include <jansson.h>
#include <kentang.h>

#include "host/noise.h"
#include "measure/report.h"

enum { KT__BENCH_MAX_RUNS = 100 };

/* One test: prefill (n_prompt > 0) or decode (n_gen > 0) after n_depth positions. */
typedef struct kt__bench_test {
    int n_prompt, n_gen, n_depth, n_streams, n_threads;
    int n_ubatch;     /* 0: the default */
    char kv_mode[16]; /* as --kv; empty: f16 */
} kt__bench_test;

/* "pp512", "tg128", "tg128@d4096", "tg128x8" (8 streams decoded together) */
void kt__bench_test_name(const kt__bench_test *test, char *out, size_t size);

/* What the machine can do with this many threads; 0: not measured. */
typedef struct kt__bench_limits {
    double read_bytes_per_s, i8_mac_per_s;
    uint64_t cache_bytes; /* weights smaller than this are not read from memory */
} kt__bench_limits;

typedef struct kt__bench_row {
    kt__bench_test test;
    int32_t n_batch, n_ubatch; /* that the engine had */
    kt_kv_type kv_keys, kv_values;
    int32_t kv_tail;
    double tok_s[KT__BENCH_MAX_RUNS]; /* ascending */
    int n_runs;
    double median, spread; /* spread: half of fastest minus slowest */
    kt__bench_limits limits;
    double limit_tok_s; /* 0: unknown */
    const char *bound;  /* "memory", "compute" or NULL */
    kt__noise_report noise;
    double load_1min;
    uint64_t major_faults; /* pages read from disk while measuring */
    json_t *profile;       /* NULL: not asked for; owned by who has the report */
} kt__bench_row;

/* A model with a tier. */
typedef struct kt__bench_report {
    char model[128]; /* name or file */
    char arch[32], quant[24];
    uint64_t weight_bytes, n_params;
    char isa[16], processor[64];
    bool blas;
    char device[80]; /* that computed layers, so many; "": none did */
    int n_gpu_layers;
    char pages[48];      /* in which the weights lay at the end */
    kt__bench_row *rows; /* [n_rows], heap */
    int n_rows;
} kt__bench_report;

/* The most that the limits allow, for a whole test: bytes that must be read (weights and visible
 * K/V) and integer multiply-adds that must be done. */
void kt__bench_set_limit(const kt_model *model, const kt_engine_info *engine, kt__bench_row *row);

typedef enum kt__bench_format { KT__BENCH_MD, KT__BENCH_JSON, KT__BENCH_CSV } kt__bench_format;
/* One table of n reports on stdout, warnings on stderr; the exit code. */
int kt__bench_print(const kt__bench_report *reports, int n, kt__bench_format format);
/* The same as a page, with plots by each dimension of the grid that has more than one value; nothing
 * without a path. n >= 1. */
kt_status KT_CHECKED kt__bench_write_report(const kt__report_opts *opts,
                                            const kt__bench_report *reports, int n, kt_error *err);

#endif
