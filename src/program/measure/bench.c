/* kentang bench: prefill and decode speed, compared with what the machine can do. Internals are included
 * here and in the files next to it: there is no public interface for measuring a machine. */
#include "measure/bench.h"
#include "measure/bench_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "context/types.h"
#include "host/pages.h"
#include "kernels/dispatch.h"
#include "measure/bench_streams.h"
#include "measure/figures.h"
#include "measure/limits.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "synth/synth.h"
#include "term/cli.h"
#include "term/profile_report.h"
#include "term/safe_text.h"

enum {
    MAX_LIST = 32,
    MAX_STREAMS = 256,
    MAX_TOKENS = 1 << 20,
    WRITE_US = 1500000, /* of the random bytes: a slow disk gives a smaller file */
    READ_US = 100000,   /* of each run's measurement of the limits */
    PEAK_US = 50000,
    WARM_DECODE = 4 /* steps of the warm-up */
};

typedef struct list {
    int items[MAX_LIST], n;
} list;

typedef struct bench_opts {
    kt__config *config;
    kt__lora_opts lora;
    kt__report_opts report;
    const char *preset, *quant, *prompts, *gens, *depths, *streams, *threads, *ubatches, *kv_modes;
    int32_t n_runs;
    int format;
    bool no_limits, profile;
} bench_opts;

#define AT(member) offsetof(bench_opts, member)
#define LIST(option, short_name, member, text)                                       \
    {                                                                                \
        .name = option, .brief = short_name, .kind = KT__OPT_TEXT, .at = AT(member), \
        .arg = "N[,N...]", .help = text                                              \
    }

static const kt__opt table[] = {
    {.name = "preset",
     .kind = KT__OPT_TEXT,
     .at = AT(preset),
     .arg = "NAME",
     .help = "no file: a model of this geometry with random weights, made in memory (`kentang "
             "synth --help` lists them)"},
    {.name = "quant",
     .kind = KT__OPT_TEXT,
     .at = AT(quant),
     .arg = "NAME",
     .help = "its quantisation recipe (default q4_k_m)"},
    LIST("n-prompt", "p", prompts, "tokens of the prompt tests (default 512; 0: none)"),
    LIST("n-gen", "n", gens, "tokens of the generation tests (default 128; 0: none)"),
    LIST("n-depth", "d", depths, "positions that the context holds already (default 0)"),
    LIST("streams", "b", streams, "sequences decoded together (default 1)"),
    LIST("threads", "t", threads, "threads (default: by cores, affinity and quota)"),
    {.name = "repetitions",
     .brief = "r",
     .kind = KT__OPT_INT,
     .at = AT(n_runs),
     .min = 1,
     .max = KT__BENCH_MAX_RUNS,
     .arg = "N",
     .help = "runs of each test, after one to warm up (default 5)"},
    {.name = "ubatch",
     .also = "ubatch-size",
     .brief = "ub",
     .kind = KT__OPT_TEXT,
     .at = AT(ubatches),
     .arg = "N[,N...]",
     .help = "prompt tokens computed together (default 512)"},
    {.name = "kv",
     .kind = KT__OPT_TEXT,
     .at = AT(kv_modes),
     .arg = "TYPE[,TYPE...]",
     .help = "keys and values of the text so far: f16, q8, q4, k8v4, or a preset: chat-short, "
             "chat-long, document-qa, code, cpu (default f16)"},
    {.name = "output",
     .brief = "o",
     .kind = KT__OPT_ENUM,
     .at = AT(format),
     .choices = "md|json|csv",
     .help = "what is printed (default md)"},
    {.name = "no-limits",
     .kind = KT__OPT_ON,
     .at = AT(no_limits),
     .help = "do not measure the machine: no temporary file, no share of the limit"},
    {.name = "profile",
     .kind = KT__OPT_ON,
     .at = AT(profile),
     .help = "where the time of each test's runs went, by part, layer and thread"},
};

/* ---- what to measure ---- */

/* "1,2,4"; false: not a list of whole numbers from low to high. */
static bool parse_list(const char *text, int low, int high, list *out) {
    out->n = 0;
    for (;;) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text || value < low || value > high || out->n == MAX_LIST) return false;
        out->items[out->n++] = (int)value;
        if (!*end) return true;
        if (*end != ',') return false;
        text = end + 1;
    }
}

static kt_status get_list(const char *option, const char *text, int low, int high, list *out,
                          kt_error *err) {
    if (parse_list(text, low, high, out)) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "%s: expected whole numbers from %d to %d with commas between, at most %d, got "
                    "\"%.60s\"",
                    option, low, high, MAX_LIST, text);
}

typedef struct grid {
    list prompts, gens, depths, streams, threads, ubatches;
    char kv_modes[MAX_LIST][16];
    int n_kv;
} grid;

static kt_status read_kv_modes(const char *text, grid *g, kt_error *err) {
    for (;;) {
        kt_engine_params params = {0};
        size_t n = strcspn(text, ",");
        if (g->n_kv == MAX_LIST) return kt__fail(err, KT_E_ARG, "--kv: more than %d", MAX_LIST);
        char *mode = g->kv_modes[g->n_kv++];
        snprintf(mode, sizeof g->kv_modes[0], "%.*s", (int)n, text);
        if (n >= sizeof g->kv_modes[0] || !kt_kv_named(mode, &params))
            return kt__fail(err, KT_E_ARG,
                            "--kv: \"%.*s\", expected f16, q8, q4, k8v4, chat-short, chat-long, "
                            "document-qa, code or cpu, with commas between",
                            (int)(n < 40 ? n : 40), text);
        if (!text[n]) return KT_OK;
        text += n + 1;
    }
}

static kt_status read_grid(const bench_opts *o, grid *g, kt_error *err) {
    KT__STEP(get_list("-p", o->prompts, 0, MAX_TOKENS, &g->prompts, err));
    KT__STEP(get_list("-n", o->gens, 0, MAX_TOKENS, &g->gens, err));
    KT__STEP(get_list("-d", o->depths, 0, MAX_TOKENS, &g->depths, err));
    KT__STEP(get_list("-b", o->streams, 1, MAX_STREAMS, &g->streams, err));
    if (o->ubatches)
        KT__STEP(get_list("-ub", o->ubatches, 1, KT_UBATCH_MAX, &g->ubatches, err));
    else
        g->ubatches.n = 1;
    KT__STEP(read_kv_modes(o->kv_modes, g, err));
    if (o->threads) KT__STEP(get_list("-t", o->threads, 1, KT__POOL_MAX_THREADS, &g->threads, err));
    return KT_OK;
}

static int largest_item(const list *l) {
    int most = 0;
    for (int i = 0; i < l->n; i++) most = l->items[i] > most ? l->items[i] : most;
    return most;
}

typedef struct tests {
    kt__bench_row *rows;
    int n, cap;
} tests;

static bool add_test(tests *all, kt__bench_test test) {
    if (!test.n_prompt && !test.n_gen) return true;
    if (all->n == all->cap) {
        int cap = all->cap ? 2 * all->cap : 16;
        kt__bench_row *grown = kt__realloc_array(all->rows, (size_t)cap, sizeof *grown);
        if (!grown) return false;
        all->rows = grown;
        all->cap = cap;
    }
    memset(&all->rows[all->n], 0, sizeof all->rows[0]);
    all->rows[all->n++].test = test;
    return true;
}

/* By streams and depth, so that neighbours share an engine. A prompt is one stream's, and is
 * measured next to the first number of streams only. */
static bool list_tests_of(const grid *g, const kt__bench_test *common, tests *all) {
    bool ok = true;
    for (int b = 0; b < g->streams.n; b++)
        for (int d = 0; d < g->depths.n; d++) {
            kt__bench_test base = *common;
            base.n_depth = g->depths.items[d];
            base.n_streams = g->streams.items[b];
            for (int i = 0; b == 0 && i < g->prompts.n; i++) {
                kt__bench_test test = base;
                test.n_streams = 1;
                test.n_prompt = g->prompts.items[i];
                ok = ok && add_test(all, test);
            }
            for (int i = 0; i < g->gens.n; i++) {
                kt__bench_test test = base;
                test.n_gen = g->gens.items[i];
                ok = ok && add_test(all, test);
            }
        }
    return ok;
}

static bool list_tests(const grid *g, tests *all) {
    bool ok = true;
    for (int t = 0; t < g->threads.n; t++)
        for (int u = 0; u < g->ubatches.n; u++)
            for (int k = 0; k < g->n_kv; k++) {
                kt__bench_test common = {.n_threads = g->threads.items[t],
                                         .n_ubatch = g->ubatches.items[u]};
                memcpy(common.kv_mode, g->kv_modes[k], sizeof common.kv_mode);
                ok = ok && list_tests_of(g, &common, all);
            }
    return ok;
}

/* ---- the machine's limits ---- */

/* What measures them; without a pool they are not asked for. */
typedef struct machine {
    kt__cpu cpu;
    kt__affinity affinity;
    kt__pool *pool;
    const kt__kernels *kernels;
    kt__random_file file;
    uint64_t cache_bytes;
} machine;

/* For the processors and the tier that the tests will have. model: the file whose reading sets the
 * limit, or NULL */
static kt_status open_limits(const char *isa, const char *model, int n_threads, machine *m,
                             kt_error *err) {
    kt__topology topology;
    kt__limits limits;
    char why[160];
    kt__topology_detect(&topology);
    kt__limits_read(&limits);
    m->cache_bytes = kt__cache_believed(&topology);
    KT__STEP(kt__kernels_select(&m->cpu, isa, &m->kernels, why, sizeof why, err));
    KT__STEP(kt__pool_create_at(n_threads, &m->affinity, &m->pool, err));
    uint64_t size = kt__random_file_size(&topology, &limits);
    kt_error no_file;
    if ((model && size && kt__random_file_of(model, size, &m->file)) ||
        kt__random_file_open(size, WRITE_US, &m->file, &no_file) == KT_OK) {
        (void)kt__measure_read(m->pool, 1, m->file.data, m->file.size, 0); /* maps the pages */
    } else {
        fprintf(stderr, "kentang bench: no share of the limit: %s\n", no_file.message);
    }
    return KT_OK;
}

static void close_limits(machine *m) {
    kt__random_file_close(&m->file);
    kt__pool_destroy(m->pool);
}

/* Samples of a row's limits, one after each of its runs, so that a neighbour's minute is in both. */
typedef struct limit_samples {
    double read_bytes_per_s[KT__BENCH_MAX_RUNS], i8_mac_per_s[KT__BENCH_MAX_RUNS];
} limit_samples;

static void sample_limits(const machine *m, int n_threads, int i, limit_samples *to) {
    to->read_bytes_per_s[i] = to->i8_mac_per_s[i] = 0;
    if (!m->pool) return;
    to->i8_mac_per_s[i] = kt__measure_i8(m->pool, n_threads, m->kernels, PEAK_US);
    if (m->file.data)
        to->read_bytes_per_s[i] = kt__measure_read(m->pool, n_threads, m->file.data, m->file.size,
                                                   READ_US);
}

static kt__bench_limits median_limits(const machine *m, limit_samples *of, int n) {
    return (kt__bench_limits){kt__percentile_median(of->read_bytes_per_s, (size_t)n),
                              kt__percentile_median(of->i8_mac_per_s, (size_t)n), m->cache_bytes};
}

/* ---- the model ---- */

typedef struct subject {
    kt_ctx *ctx;
    kt_model *model;
    kt__lora_set lora;
    kt__synth_plan plan;
    kt__synth_image image;
} subject;

static void subject_close(subject *s) {
    kt__lora_set_close(&s->lora);
    kt_model_close(s->model);
    kt_ctx_close(s->ctx);
    kt__synth_image_free(&s->image);
    kt__synth_plan_free(&s->plan);
}

static kt_status open_preset(const bench_opts *o, subject *s, kt_error *err) {
    const kt__synth_preset *preset;
    const kt__recipe *recipe;
    const kt_model_params params = kt__place_model_params(o->config);
    KT__STEP(kt__synth_find(o->preset, o->quant, &preset, &recipe, err));
    KT__STEP(kt__command_open_ctx(o->config, 0, &s->ctx, err));
    KT__STEP(kt__synth_plan_make(preset, recipe, 1, 0, &s->plan, err));
    fprintf(stderr, "kentang bench: making %.0f MB of random weights\n",
            (double)s->plan.bytes * 1e-6);
    KT__STEP(kt__synth_image_make(&s->plan, kt_ctx_n_threads(s->ctx), &s->image, err));
    return kt_model_open_memory(s->ctx, s->image.data, s->image.size, &params, &s->model, err);
}

static kt_status subject_open(const bench_opts *o, subject *s, kt_error *err) {
    kt_status status;
    memset(s, 0, sizeof *s);
    if (o->preset)
        status = open_preset(o, s, err);
    else
        status = kt__command_open_model(o->config, false, &s->ctx, &s->model, err);
    return status == KT_OK ? kt__lora_set_open(&o->lora, s->model, &s->lora, err) : status;
}

/* ---- measuring ---- */

/* The engine for a row; kept from one row to the next as long as it fits. */
typedef struct bench {
    const bench_opts *opts;
    const subject *subject;
    const machine *machine;
    int n_ctx;
    kt__bench_streams streams;
    kt__bench_test test; /* the last one that it was prepared for */
} bench;

static bool share_engine(const kt__bench_test *a, const kt__bench_test *b) {
    return a->n_threads == b->n_threads && a->n_streams == b->n_streams &&
           a->n_ubatch == b->n_ubatch && !strcmp(a->kv_mode, b->kv_mode);
}

static kt_status prepare_engine(bench *b, const kt__bench_test *test, kt_error *err) {
    if (b->streams.engine && share_engine(&b->test, test)) return KT_OK;
    kt__bench_streams_close(&b->streams);
    kt_engine_params params = kt_engine_params_default();
    params.n_ctx = b->n_ctx;
    params.n_batch = (int32_t)b->opts->config->batch;
    params.n_ubatch = test->n_ubatch;
    kt__config kv = *b->opts->config; /* its texts are borrowed */
    kv.kv_type = test->kv_mode;       /* (the context is longer than a preset's) */
    kt_status status = kt__place_kv_params(&kv, &params, err);
    if (status != KT_OK) return status;
    if (params.kv_tail > params.n_ctx) params.kv_tail = params.n_ctx;
    params.n_seq_max = test->n_streams;
    params.n_threads = params.n_threads_batch = test->n_threads;
    b->test = *test;
    return kt__bench_streams_open(b->subject->model, &params, &b->subject->lora, &b->streams, err);
}

static kt_status run_once(bench *b, const kt__bench_test *test, int n_gen, double *seconds,
                          kt_error *err) {
    kt_status status = kt__bench_streams_set_depth(&b->streams, test->n_depth, err);
    if (status != KT_OK) return status;
    if (test->n_prompt) return kt__bench_streams_prefill(&b->streams, test->n_prompt, seconds, err);
    return kt__bench_streams_decode(&b->streams, n_gen, seconds, err);
}

static uint64_t major_faults(void) {
    kt__process_use use;
    return kt__process_used(&use) ? use.major_faults : 0;
}

/* On stderr, and for JSON. */
static void take_profile(const bench *b, double wall_s, kt__bench_row *row) {
    char name[64], title[96];
    kt__profile_report report;
    kt_model_info info;
    kt_model_get_info(b->subject->model, &info);
    kt__bench_test_name(&row->test, name, sizeof name);
    snprintf(title, sizeof title, "profile of %s, %d runs", name, row->n_runs);
    kt__profile_report_of(b->streams.engine, title, 1000 * wall_s, info.decode_bytes, &report);
    kt__profile_print(&report);
    row->profile = kt__profile_json(&report);
}

/* One run to warm up (page cache, page tables, branch predictors, clock), then the runs that count;
 * each begins with the same tokens in the sequence. */
static kt_status measure_row(bench *b, kt__bench_row *row, kt_error *err) {
    const kt__bench_test *test = &row->test;
    double seconds, n_tok = test->n_prompt ? test->n_prompt : test->n_gen * test->n_streams;
    double wall_s = 0;
    kt__noise before, after;
    limit_samples limits;
    KT__STEP(prepare_engine(b, test, err));
    KT__STEP(
        run_once(b, test, test->n_gen < WARM_DECODE ? test->n_gen : WARM_DECODE, &seconds, err));
    KT__STEP(kt__bench_streams_set_depth(&b->streams, test->n_depth, err));
    kt_engine_profile_enable(b->streams.engine, b->opts->profile);
    uint64_t faults = major_faults();
    kt__noise_read(&before);
    for (row->n_runs = 0; row->n_runs < b->opts->n_runs; row->n_runs++) {
        KT__STEP(run_once(b, test, test->n_gen, &seconds, err));
        sample_limits(b->machine, test->n_threads, row->n_runs, &limits);
        row->tok_s[row->n_runs] = n_tok / seconds;
        wall_s += seconds;
    }
    kt__noise_read(&after);
    if (b->opts->profile) take_profile(b, wall_s, row);
    kt__noise_between(&before, &after, &row->noise);
    row->major_faults = major_faults() - faults;
    row->load_1min = before.load_1min;
    row->limits = median_limits(b->machine, &limits, row->n_runs);
    row->median = kt__percentile_median(row->tok_s, (size_t)row->n_runs);
    row->spread = 0.5 * (row->tok_s[row->n_runs - 1] - row->tok_s[0]);
    return KT_OK;
}

static kt_status measure_rows(const bench_opts *o, const subject *s, const machine *m, int n_ctx,
                              kt__bench_report *report, kt_error *err) {
    kt_status status = KT_OK;
    bench b = {.opts = o, .subject = s, .machine = m, .n_ctx = n_ctx};
    for (int i = 0; i < report->n_rows; i++) {
        kt__bench_row *row = &report->rows[i];
        char name[64];
        kt__bench_test_name(&row->test, name, sizeof name);
        fprintf(stderr, "kentang bench: %d of %d: %s, %d threads\n", i + 1, report->n_rows, name,
                row->test.n_threads);
        KT__TRY(measure_row(&b, row, err));
        row->n_batch = b.streams.info.n_batch;
        row->n_ubatch = b.streams.info.n_ubatch;
        row->kv_keys = b.streams.info.kv_keys;
        row->kv_values = b.streams.info.kv_values;
        row->kv_tail = b.streams.info.kv_tail;
        kt__bench_set_limit(s->model, &b.streams.info, row);
    }
out:
    kt__bench_streams_close(&b.streams);
    return status;
}

static void describe_subject(const bench_opts *o, const subject *s, const machine *m,
                             kt__bench_report *report) {
    kt_model_info info;
    kt_model_get_info(s->model, &info);
    const char *name = o->preset ? o->preset : info.name[0] ? info.name : kt__files_name(info.path);
    kt__buf safe;
    kt__buf_init(&safe, 1 << 20);
    kt__safe_append(&safe, name, strlen(name), 0);
    snprintf(report->model, sizeof report->model, "%s", safe.data ? safe.data : "");
    kt__buf_free(&safe);
    snprintf(report->arch, sizeof report->arch, "%s", info.arch);
    snprintf(report->quant, sizeof report->quant, "%s", info.quant);
    report->weight_bytes = info.weight_bytes;
    report->n_params = info.n_params;
    snprintf(report->isa, sizeof report->isa, "%s", kt_ctx_isa(s->ctx));
    report->blas = kt__place_uses_blas(o->config);
    snprintf(report->device, sizeof report->device, "%.79s", info.device ? info.device : "");
    report->n_gpu_layers = info.n_gpu_layers;
    snprintf(report->processor, sizeof report->processor, "%s", m->cpu.brand);
}

/* Threads where none were given: the context's own choice; and where they will run. */
static kt_status choose_threads(const bench_opts *o, list *threads, kt__affinity *affinity,
                                kt_error *err) {
    kt_ctx *ctx;
    kt_status status = kt__command_open_ctx(o->config, 0, &ctx, err);
    if (status != KT_OK) return status;
    if (!threads->n) threads->items[threads->n++] = kt_ctx_n_threads(ctx);
    *affinity = ctx->affinity;
    kt_ctx_close(ctx);
    return KT_OK;
}

/* One model with one tier, as the options say. */
static void describe_pages(const kt_model *model, kt__bench_report *report) {
    kt_pages_info pages;
    kt_model_get_pages(model, &pages);
    const kt__page_use use = {pages.bytes, pages.mapped_bytes, pages.large_bytes};
    kt__page_use_text(&use, report->pages, sizeof report->pages);
}

static kt_status bench_subject(const bench_opts *o, const grid *given, kt__bench_report *report,
                               kt_error *err) {
    kt_status status;
    bench_opts with = *o;
    grid g = *given;
    tests all = {0};
    subject s = {0};
    machine *m = kt__calloc(1, sizeof *m);
    if (!m) return kt__fail_nomem(err, "limits", sizeof *m);
    kt__cpu_detect(&m->cpu);
    KT__TRY(choose_threads(o, &g.threads, &m->affinity, err));
    bool listed = list_tests(&g, &all);
    report->rows = all.rows;
    report->n_rows = all.n;
    if (!listed) status = kt__fail_nomem(err, "the tests", 0);
    if (!all.n && status == KT_OK) status = kt__fail(err, KT_E_ARG, "nothing to do: -p 0 -n 0");
    if (status != KT_OK) goto out;
    if (!o->no_limits)
        KT__TRY(open_limits(o->config->isa, o->config->model, largest_item(&g.threads), m, err));
    kt__config config = *o->config; /* its texts are borrowed */
    config.threads = largest_item(&g.threads);
    with.config = &config;
    KT__TRY(subject_open(&with, &s, err));
    describe_subject(o, &s, m, report);
    int longest = largest_item(&g.prompts) > largest_item(&g.gens) ? largest_item(&g.prompts)
                                                                   : largest_item(&g.gens);
    KT__TRY(measure_rows(&with, &s, m, largest_item(&g.depths) + longest, report, err));
    describe_pages(s.model, report);
out:
    subject_close(&s);
    close_limits(m);
    kt__free(m);
    return status;
}

/* Words with commas between; NULL is one that was not given. */
typedef struct words {
    char *text;
    const char *items[MAX_LIST];
    int n;
} words;

static kt_status split_words(const char *option, const char *given, words *out, kt_error *err) {
    *out = (words){.n = 1};
    if (!given) return KT_OK;
    out->text = kt__strdup(given);
    if (!out->text) return kt__fail_nomem(err, "a list", strlen(given));
    out->n = 0;
    for (char *at = out->text, *comma = at; comma; at = comma + 1) {
        if (out->n == MAX_LIST)
            return kt__fail(err, KT_E_ARG, "%s: more than %d", option, MAX_LIST);
        out->items[out->n++] = at;
        comma = strchr(at, ',');
        if (!comma) break;
        *comma = '\0';
    }
    return KT_OK;
}

/* A file whose name has a comma is one model. */
static kt_status split_models(const char *given, words *out, kt_error *err) {
    if (!given || !kt__file_exists(given)) return split_words("-m", given, out, err);
    *out = (words){.items = {given}, .n = 1};
    return KT_OK;
}

static kt_status bench_each(bench_opts *o, const grid *g, const words *models, const words *tiers,
                            kt__bench_report *reports, int *n, kt_error *err) {
    for (int i = 0; i < models->n; i++)
        for (int k = 0; k < tiers->n; k++) {
            o->config->model = models->items[i];
            o->config->isa = tiers->items[k];
            KT__STEP(bench_subject(o, g, &reports[(*n)++], err));
        }
    return KT_OK;
}

static void free_rows(kt__bench_report *r) {
    for (int i = 0; i < r->n_rows; i++) json_decref(r->rows[i].profile);
    kt__free(r->rows);
}

static int bench_all(bench_opts *o) {
    kt_status status;
    kt_error err = {0};
    grid g = {0};
    words models = {0}, tiers = {0};
    kt__bench_report *reports = NULL;
    int code = 0, n = 0;
    KT__TRY(read_grid(o, &g, &err));
    KT__TRY(kt__report_check(&o->report, &err));
    KT__TRY(split_models(o->config->model, &models, &err));
    KT__TRY(split_words("--isa", o->config->isa, &tiers, &err));
    reports = kt__calloc((size_t)(models.n * tiers.n), sizeof *reports);
    if (!reports) KT__TRY(kt__fail_nomem(&err, "the reports", sizeof *reports));
    KT__TRY(bench_each(o, &g, &models, &tiers, reports, &n, &err));
    code = kt__bench_print(reports, n, (kt__bench_format)o->format);
    if (code == 0) KT__TRY(kt__bench_write_report(&o->report, reports, n, &err));
out:
    if (status != KT_OK) code = kt__cli_fail("bench", &err);
    for (int i = 0; i < n; i++) free_rows(&reports[i]);
    kt__free(reports);
    kt__free(models.text);
    kt__free(tiers.text);
    return code;
}

static int bench_command(int argc, char **argv, kt__config *config) {
    if (kt__bench_wants_server(argc, argv)) return kt__bench_server(argc, argv, config);
    bench_opts opts = {.config = config,
                       .report = kt__report_opts_of(argc, argv),
                       .quant = "q4_k_m",
                       .prompts = "512",
                       .gens = "128",
                       .depths = "0",
                       .streams = "1",
                       .kv_modes = "f16",
                       .n_runs = 5};
    const kt__opt_group groups[] = {
        {"Options", table, KT__COUNT(table), &opts},
        kt__report_opts_group(&opts.report),
        kt__lora_opts_group(&opts.lora),
        kt__setting_opts_one(config, "Slices of prompts", KT__SETTING_batch),
        kt__setting_opts_one(config, "Keys alone", KT__SETTING_kv_keys),
        kt__setting_opts_one(config, "Values alone", KT__SETTING_kv_values),
        kt__setting_opts_one(config, "Their tail", KT__SETTING_kv_tail),
        kt__setting_opts(config, KT__OPTIONS_CORES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "bench",
        .usage = "[MODEL | -m MODEL | --preset NAME [--quant NAME]] [OPTIONS]",
        .about =
            "Measures prompt processing (pp) and generation (tg) as llama-bench does: fixed token\n"
            "ids, nothing sampled, the median of several runs after one to warm up; and how much "
            "of\n"
            "what the machine can do that is. Memory: bytes read (weights and K/V) over the "
            "measured\n"
            "bandwidth. Compute: multiply-adds over the measured 8-bit peak. The tighter one is "
            "the limit.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .notes =
            "Examples:\n"
            "  kentang bench -m model.gguf -t 1,2\n"
            "  kentang bench -m model.gguf -p 0 -n 64 -b 1,8,16 -d 0,4096\n"
            "  kentang bench -m model.gguf -p 512 -n 64 -d 0,16384 --kv f16,q8,q4\n"
            "  kentang bench -m a.gguf,b.gguf --isa sse41,avx2        several models and tiers\n"
            "  kentang bench -t 1,2 -d 0,512 -b 1,4 --report speed.html        plots as well\n"
            "  kentang bench --preset llama-3.2-3b --quant q4_k_m     before a download\n"
            "  kentang bench -m model.gguf -p 0 -d 16384 --profile    where a step's time goes\n"
            "  kentang bench --server http://127.0.0.1:8000 --rate 2  load on a running server\n"
            "                                      (kentang bench --server URL --help)",
    };
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    if (opts.preset && config->model)
        code = kt__cli_usage_error("bench", "two models: --preset and -m");
    else
        code = bench_all(&opts);
    kt__lora_opts_free(&opts.lora);
    return code;
}

int kt__cmd_bench(int argc, char **argv) {
    return kt__with_settings(argc, argv, bench_command);
}
