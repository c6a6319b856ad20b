/* The table of kentang bench as Markdown, JSON or CSV. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "measure/bench.h"
#include "measure/figures.h"
#include "term/cli.h"

static double share_of_limit(const kt__bench_row *row) {
    return row->limit_tok_s > 0 ? row->median / row->limit_tok_s : 0;
}

static void print_md_head(void) {
    printf("| %-30s | %10s | %8s | %-12s | %7s | %5s | %9s | %12s | %18s | %14s |\n", "model",
           "size", "params", "backend", "threads", "ub", "K/V", "test", "t/s", "share of limit");
    printf("| %s | %s: | %s: | %s | %s: | %s: | %s: | %s: | %s: | %s: |\n",
           "------------------------------", "---------", "-------", "------------", "------",
           "----", "--------", "-----------", "-----------------", "-------------");
}

static void print_md(const kt__bench_report *r) {
    for (int i = 0; i < r->n_rows; i++) {
        const kt__bench_row *row = &r->rows[i];
        char name[80], backend[32], speed[48], part[32] = "-", test[64], kv[24];
        snprintf(kv, sizeof kv, "%s/%s", kt_kv_type_name(row->kv_keys),
                 kt_kv_type_name(row->kv_values));
        snprintf(name, sizeof name, "%.50s %.12s", r->model, r->quant);
        snprintf(backend, sizeof backend, "CPU %s%s%s", r->isa, r->blas ? "+blas" : "",
                 r->device[0] ? "+GPU" : "");
        kt__bench_test_name(&row->test, test, sizeof test);
        snprintf(speed, sizeof speed, "%.2f \u00b1 %.2f", row->median, row->spread);
        if (row->bound)
            snprintf(part, sizeof part, "%.0f%% %s", 100 * share_of_limit(row), row->bound);
        printf("| %-30s | %6.2f MiB | %6.2f M | %-12s | %7d | %5d | %9s | %12s | %19s | %14s |\n",
               name, (double)r->weight_bytes / (1 << 20), (double)r->n_params * 1e-6, backend,
               row->test.n_threads, row->n_ubatch, kv, test, speed, part);
    }
}

/* The limits once for each number of threads. */
static void print_limits(const kt__bench_report *r) {
    printf("\n%s, %s, kentang " KT_VERSION ", median \u00b1 half the range of %d runs, batch %d\n",
           r->processor[0] ? r->processor : "unknown processor", r->isa, r->rows[0].n_runs,
           r->rows[0].n_batch);
    if (r->device[0]) printf("%d layers on %s\n", r->n_gpu_layers, r->device);
    if (r->pages[0]) printf("weights %s\n", r->pages);
    for (int i = 0; i < r->n_rows; i++) {
        const kt__bench_row *row = &r->rows[i];
        if (i && row[-1].test.n_threads == row->test.n_threads) continue;
        if (row->limits.read_bytes_per_s <= 0) continue;
        printf("limits with %d thread%s: %.1f GB/s read from a mapped file, %.0f "
               "GMAC/s 8-bit\n",
               row->test.n_threads, row->test.n_threads == 1 ? "" : "s",
               row->limits.read_bytes_per_s * 1e-9, row->limits.i8_mac_per_s * 1e-9);
    }
}

static json_t *row_json(const kt__bench_report *r, const kt__bench_row *row) {
    char test[64];
    kt__bench_test_name(&row->test, test, sizeof test);
    json_t *runs = json_array();
    for (int i = 0; i < row->n_runs; i++) json_array_append_new(runs, json_real(row->tok_s[i]));
    json_t *out = json_pack("{s:s, s:i, s:f, s:o, s:f, s:o, s:o, s:s*}", "test", test, "threads",
                            row->test.n_threads, "tok_s", row->median, "share_of_limit",
                            kt__json_positive(share_of_limit(row)), "tok_s_spread", row->spread,
                            "tok_s_runs", runs, "limit_tok_s", kt__json_positive(row->limit_tok_s),
                            "bound", row->bound);
    json_t *more = json_pack(
        "{s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:i, s:i, s:s, s:b, s:s, s:s, "
        "s:i, s:s, s:s*, s:i}",
        "n_prompt", row->test.n_prompt, "n_gen", row->test.n_gen, "n_depth", row->test.n_depth,
        "n_streams", row->test.n_streams, "model", r->model, "arch", r->arch, "quant", r->quant,
        "size_bytes", (json_int_t)r->weight_bytes, "n_params", (json_int_t)r->n_params, "isa",
        r->isa, "processor", r->processor, "n_batch", (int)row->n_batch, "n_ubatch",
        (int)row->n_ubatch, "version", KT_VERSION, "blas", r->blas, "kv_keys",
        kt_kv_type_name(row->kv_keys), "kv_values", kt_kv_type_name(row->kv_values), "kv_tail",
        (int)row->kv_tail, "pages", r->pages, "device", r->device[0] ? r->device : NULL,
        "gpu_layers", r->n_gpu_layers);
    json_t *state = json_pack(
        "{s:o, s:o, s:b, s:o, s:o, s:f, s:I, s:o, s:I}", "read_bytes_per_s",
        kt__json_positive(row->limits.read_bytes_per_s), "i8_mac_per_s",
        kt__json_positive(row->limits.i8_mac_per_s), "noisy", row->noise.noisy, "steal_cpus",
        kt__json_known(row->noise.steal_cpus), "others_cpus",
        kt__json_known(row->noise.others_cpus), "throttled_share", row->noise.throttled_share,
        "thermal_throttles", (json_int_t)row->noise.thermal_count, "load_1min",
        kt__json_known(row->load_1min), "major_faults", (json_int_t)row->major_faults);
    if (out && more) (void)json_object_update(out, more);
    if (out && state) (void)json_object_update(out, state);
    if (out && row->profile) (void)json_object_set(out, "profile", row->profile);
    bool ok = out && more && state;
    json_decref(more);
    json_decref(state);
    if (ok) return out;
    json_decref(out);
    return NULL;
}

static bool add_rows_json(json_t *rows, const kt__bench_report *r) {
    for (int i = 0; i < r->n_rows; i++) {
        if (json_array_append_new(rows, row_json(r, &r->rows[i])) != 0) return false;
    }
    return true;
}

static int print_bench_json(const kt__bench_report *reports, int n) {
    json_t *rows = json_array();
    for (int i = 0; i < n; i++) {
        if (add_rows_json(rows, &reports[i])) continue;
        json_decref(rows);
        return kt__cli_error("bench", KT_E_INTERNAL, NULL, "a row cannot be written as JSON");
    }
    if (kt__json_print(rows)) return 0;
    return kt__cli_error("bench", KT_E_NOMEM, NULL, "cannot write the rows as JSON");
}

/* A quoted field; quotes inside are doubled (RFC 4180). */
static void csv_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    fputs("\",", stdout);
}

static void print_csv_head(void) {
    puts("model,quant,size_bytes,n_params,isa,threads,test,tok_s,tok_s_spread,limit_tok_s,"
         "share_of_limit,bound,n_prompt,n_gen,n_depth,n_streams,noisy,n_ubatch,kv_keys,kv_values,"
         "kv_tail");
}

static void print_csv(const kt__bench_report *r) {
    for (int i = 0; i < r->n_rows; i++) {
        const kt__bench_row *row = &r->rows[i];
        char test[64];
        kt__bench_test_name(&row->test, test, sizeof test);
        csv_text(r->model);
        csv_text(r->quant);
        printf("%llu,%llu,", (unsigned long long)r->weight_bytes, (unsigned long long)r->n_params);
        csv_text(r->isa);
        printf("%d,%s,%.4f,%.4f,%.4f,%.4f,%s,%d,%d,%d,%d,%d,%d,%s,%s,%d\n", row->test.n_threads,
               test, row->median, row->spread, row->limit_tok_s, share_of_limit(row),
               row->bound ? row->bound : "", row->test.n_prompt, row->test.n_gen, row->test.n_depth,
               row->test.n_streams, row->noise.noisy, row->n_ubatch, kt_kv_type_name(row->kv_keys),
               kt_kv_type_name(row->kv_values), row->kv_tail);
    }
}

/* What was wrong while a row was measured, the worst of each. */
static void print_warnings(const kt__bench_report *r) {
    kt__noise_report worst = {0};
    double load = 0;
    uint64_t faults = 0;
    for (int i = 0; i < r->n_rows; i++) {
        const kt__bench_row *row = &r->rows[i];
        const kt__noise_report *n = &row->noise;
        worst.noisy |= n->noisy;
        if (n->steal_cpus > worst.steal_cpus) worst.steal_cpus = n->steal_cpus;
        if (n->others_cpus > worst.others_cpus) worst.others_cpus = n->others_cpus;
        if (n->throttled_share > worst.throttled_share) worst.throttled_share = n->throttled_share;
        worst.thermal_count += n->thermal_count;
        if (row->load_1min > load) load = row->load_1min;
        faults += row->major_faults;
    }
    if (worst.noisy)
        fprintf(stderr,
                "kentang bench: warning: the machine was busy: others used up to %.2f processors, "
                "%.2f were stolen, throttled %.0f%% of the time, %llu times by heat, load %.1f; "
                "the figures are too low\n",
                worst.others_cpus, worst.steal_cpus, 100 * worst.throttled_share,
                (unsigned long long)worst.thermal_count, load);
    if (faults)
        fprintf(stderr,
                "kentang bench: warning: %llu pages came from disk while measuring: the model does "
                "not fit in the memory that is free\n",
                (unsigned long long)faults);
}

int kt__bench_print(const kt__bench_report *reports, int n, kt__bench_format format) {
    int code = 0;
    if (format == KT__BENCH_JSON) code = print_bench_json(reports, n);
    if (format == KT__BENCH_CSV) print_csv_head();
    if (format == KT__BENCH_MD) print_md_head();
    for (int i = 0; i < n && format != KT__BENCH_JSON; i++)
        (format == KT__BENCH_CSV ? print_csv : print_md)(&reports[i]);
    for (int i = 0; i < n; i++) {
        bool again = i && !strcmp(reports[i].isa, reports[i - 1].isa); /* the same limits */
        if (format == KT__BENCH_MD && !again) print_limits(&reports[i]);
        print_warnings(&reports[i]);
    }
    return code;
}
