#include "measure/bench_load.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "base/thread.h"
#include "measure/figures.h"
#include "measure/report.h"
#include "setup/session.h"
#include "setup/setting_opts.h"
#include "term/cli.h"
#include "term/options.h"

enum { MAX_REQUESTS = 65536, MAX_CLIENTS = 1024, STACK_BYTES = 256 << 10 };

typedef struct load_opts {
    const char *server, *prompt, *key;
    float rate;
    int32_t n_requests, n_predict, n_clients, n_warm;
    bool fresh, json;
} load_opts;

typedef struct load {
    load_opts opts;
    kt__session_opts session_opts; /* of --server none */
    kt__session session;
    kt__report_opts report;
    kt__target target;
    kt__shot *shots; /* [n_requests] */
    float *gaps_ms;  /* [n_requests * n_predict], theirs */
    double *scratch; /* the same number */
    atomic_int next; /* shot of a closed loop */
    int64_t start_us;
    double seconds, cpu_seconds; /* cpu: of this process, its threads together */
} load;

/* ---- threads that ask ---- */

static void wait_until(int64_t at_us) {
    int64_t left_us = at_us - kt__now_us();
    if (left_us <= 0) return;
    struct timespec t = {(time_t)(left_us / 1000000), (long)(left_us % 1000000) * 1000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

typedef struct asker {
    load *load;
    kt__shot *shot; /* of an open loop; NULL: the next one that is left, until there is none */
    pthread_t thread;
    bool started;
} asker;

static void *ask_at_its_time(void *arg) {
    const asker *a = arg;
    kt__caller caller;
    kt__caller_open(&caller, &a->load->target);
    wait_until(a->shot->at_us);
    kt__caller_ask(&caller, a->shot);
    kt__caller_close(&caller);
    return NULL;
}

static void *ask_again_and_again(void *arg) {
    const asker *a = arg;
    kt__caller caller;
    kt__caller_open(&caller, &a->load->target);
    for (int i; (i = atomic_fetch_add(&a->load->next, 1)) < a->load->opts.n_requests;) {
        a->load->shots[i].at_us = kt__now_us();
        kt__caller_ask(&caller, &a->load->shots[i]);
    }
    kt__caller_close(&caller);
    return NULL;
}

/* Requests that do not count, one after the other. */
static void warm_up(load *l) {
    kt__caller caller;
    kt__caller_open(&caller, &l->target);
    for (int32_t i = 0; i < l->opts.n_warm; i++) {
        kt__shot shot = {.number = l->opts.n_requests + i, .at_us = kt__now_us()};
        shot.gaps_ms = l->gaps_ms; /* written over later */
        kt__caller_ask(&caller, &shot);
    }
    kt__caller_close(&caller);
}

static double cpu_now(void) {
    kt__process_use use;
    return kt__process_used(&use) ? (double)use.cpu_us * 1e-6 : 0;
}

/* n threads; in an open loop none is started long before it is due. */
static kt_status run_load(load *l, kt_error *err) {
    int n = l->opts.n_clients ? l->opts.n_clients : l->opts.n_requests;
    pthread_attr_t attr;
    asker *askers = kt__calloc((size_t)n, sizeof *askers);
    if (!askers) return kt__fail_nomem(err, "the load", 0);
    pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    l->start_us = kt__now_us() + (l->opts.n_clients ? 0 : 50000);
    l->cpu_seconds = -cpu_now();
    for (int i = 0; i < n; i++) {
        askers[i].load = l;
        if (!l->opts.n_clients) {
            askers[i].shot = &l->shots[i];
            l->shots[i].at_us = l->start_us + (int64_t)((double)i * 1e6 / (double)l->opts.rate);
            wait_until(l->shots[i].at_us - 20000);
        }
        askers[i].started = pthread_create(&askers[i].thread, &attr,
                                           l->opts.n_clients ? ask_again_and_again
                                                             : ask_at_its_time,
                                           &askers[i]) == 0;
    }
    for (int i = 0; i < n; i++) {
        if (askers[i].started) pthread_join(askers[i].thread, NULL);
    }
    l->seconds = (double)(kt__now_us() - l->start_us) * 1e-6;
    l->cpu_seconds += cpu_now();
    pthread_attr_destroy(&attr);
    kt__free(askers);
    return KT_OK;
}

/* ---- the figures ---- */

enum { N_ROWS = 5 };

/* Milliseconds of one kind. */
typedef struct load_row {
    const char *name, *key;
    double p50, p90, p99, most;
} load_row;

/* Of the n values in l->scratch. */
static void rank_row(const load *l, size_t n, load_row *row) {
    kt__percentile_sort(l->scratch, n);
    row->p50 = kt__percentile(l->scratch, n, 0.5);
    row->p90 = kt__percentile(l->scratch, n, 0.9);
    row->p99 = kt__percentile(l->scratch, n, 0.99);
    row->most = kt__percentile(l->scratch, n, 1);
}

static size_t n_gaps(const kt__shot *s) {
    return s->n_tokens > 1 ? (size_t)s->n_tokens - 1 : 0;
}

static double mean_gap_ms(const kt__shot *s) {
    return n_gaps(s) ? (double)(s->last_us - s->at_us - s->first_us) / 1e3 / (double)n_gaps(s) : 0;
}

static double worst_gap_ms(const kt__shot *s) {
    float worst = 0;
    for (size_t i = 0; i < n_gaps(s); i++) worst = s->gaps_ms[i] > worst ? s->gaps_ms[i] : worst;
    return (double)worst;
}

static double first_ms(const kt__shot *s) {
    return (double)s->first_us / 1e3;
}

static double total_ms(const kt__shot *s) {
    return (double)s->total_us / 1e3;
}

static void make_rows(const load *l, load_row out[N_ROWS]) {
    static const struct {
        const char *name, *key;
        double (*get)(const kt__shot *s);
    } rows[N_ROWS - 1] = {{"first token", "first_token_ms", first_ms},
                          {"gap, mean of an answer", "mean_gap_ms", mean_gap_ms},
                          {"gap, worst in answer", "worst_gap_ms", worst_gap_ms},
                          {"whole answer", "total_ms", total_ms}};
    size_t n;
    for (size_t k = 0; k < KT__COUNT(rows); k++) {
        n = 0;
        for (int i = 0; i < l->opts.n_requests; i++) {
            if (l->shots[i].good) l->scratch[n++] = rows[k].get(&l->shots[i]);
        }
        out[k] = (load_row){.name = rows[k].name, .key = rows[k].key};
        rank_row(l, n, &out[k]);
    }
    n = 0;
    for (int i = 0; i < l->opts.n_requests; i++) {
        const kt__shot *s = &l->shots[i];
        for (size_t k = 0; s->good && k < n_gaps(s); k++) l->scratch[n++] = (double)s->gaps_ms[k];
    }
    out[N_ROWS - 1] = (load_row){.name = "gap", .key = "gap_ms"};
    rank_row(l, n, &out[N_ROWS - 1]);
}

static void print_rows(const load *l, const load_row rows[N_ROWS]) {
    for (size_t k = 0; k < N_ROWS; k++) {
        const load_row *r = &rows[k];
        if (l->opts.json) {
            printf(",\"%s\":{\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"max\":%.3f}", r->key, r->p50,
                   r->p90, r->p99, r->most);
        } else {
            printf("| %-22s | %9.2f | %9.2f | %9.2f | %9.2f |\n", r->name, r->p50, r->p90, r->p99,
                   r->most);
        }
    }
}

static int print_load(const load *l, const load_row rows[N_ROWS]) {
    int n = l->opts.n_requests, good = 0, refused = 0;
    char how[64];
    for (int i = 0; i < n; i++) {
        good += l->shots[i].good;
        refused += l->shots[i].status == 429 || l->shots[i].status == 503;
    }
    double a_second = good / l->seconds, tokens = a_second * (double)l->opts.n_predict;
    if (l->opts.n_clients) {
        snprintf(how, sizeof how, "%d clients", (int)l->opts.n_clients);
    } else {
        snprintf(how, sizeof how, "%g a second", (double)l->opts.rate);
    }
    if (l->opts.json) {
        printf("{\"requests\":%d,\"answered\":%d,\"refused\":%d,\"failed\":%d,\"rate\":%g,"
               "\"clients\":%d,\"seconds\":%.3f,\"cpu_seconds\":%.6f,\"requests_per_second\":%.2f,"
               "\"tokens_per_second\":%.2f",
               n, good, refused, n - good - refused, l->opts.n_clients ? 0 : (double)l->opts.rate,
               (int)l->opts.n_clients, l->seconds, l->cpu_seconds, a_second, tokens);
    } else {
        printf("%d requests, %s: %d answered, %d refused, %d failed; %.1f requests/s, %.1f "
               "tokens/s in all\n\n"
               "| ms                     |       p50 |       p90 |       p99 |       max |\n"
               "|------------------------|-----------|-----------|-----------|-----------|\n",
               n, how, good, refused, n - good - refused, a_second, tokens);
    }
    print_rows(l, rows);
    if (l->opts.json) puts("}");
    return good;
}

/* ---- the page ---- */

static void plot_row(kt__report *r, const load_row *row) {
    const kt__plot_bar bars[] = {{.name = "50%", .value = row->p50, .first = true},
                                 {.name = "90%", .value = row->p90},
                                 {.name = "99%", .value = row->p99},
                                 {.name = "the slowest", .value = row->most}};
    const kt__bar_plot plot = {.title = row->name,
                               .axis = "milliseconds: this share takes at most so much",
                               .bars = bars,
                               .n = KT__COUNT(bars)};
    kt__report_bars(r, &plot);
}

static kt_status report_load(const load *l, int good, const load_row rows[N_ROWS], kt_error *err) {
    static const char *const columns[] = {"<milliseconds", "50%", "90%", "99%", "slowest"};
    kt__report r;
    char title[200], summary[200];
    if (!l->report.path) return KT_OK;
    double a_second = good / l->seconds;
    snprintf(title, sizeof title, "Load on %.150s", l->opts.server);
    snprintf(summary, sizeof summary,
             "%d of %d requests answered in %.1f s: %.2f requests and %.1f tokens a second.", good,
             (int)l->opts.n_requests, l->seconds, a_second, a_second * (double)l->opts.n_predict);
    kt__report_begin(&r, &l->report, title, summary);
    for (size_t k = 0; k < N_ROWS; k++) plot_row(&r, &rows[k]);
    kt__report_table(&r, "Latencies", columns, (int)KT__COUNT(columns));
    for (size_t k = 0; k < N_ROWS; k++) {
        kt__report_text(&r, rows[k].name);
        kt__report_number(&r, rows[k].p50, 4);
        kt__report_number(&r, rows[k].p90, 4);
        kt__report_number(&r, rows[k].p99, 4);
        kt__report_number(&r, rows[k].most, 4);
    }
    kt__report_table_end(&r);
    kt__report_note(&r, "The machine below is the one that asked.");
    return kt__report_finish(&r, NULL, err);
}

/* ---- the command ---- */

static kt_status open_target(load *l, kt_error *err) {
    kt_status status;
    l->target.prompt = l->opts.prompt;
    l->target.key = l->opts.key;
    l->target.n_predict = l->opts.n_predict;
    l->target.fresh = l->opts.fresh;
    (void)kt__random_bytes(&l->target.salt, sizeof l->target.salt);
    l->target.keep = l->opts.n_clients > 0;
    if (strcmp(l->opts.server, "none") != 0)
        return kt__target_read(&l->target, l->opts.server, err);
    l->session_opts.many = true;
    status = kt__session_open(&l->session_opts, &l->session, err);
    if (status == KT_OK) status = kt_engine_start(l->session.engine, err);
    l->target.engine = l->session.engine;
    return status;
}

static kt_status make_shots(load *l, kt_error *err) {
    size_t n = (size_t)l->opts.n_requests, all = n * (size_t)l->opts.n_predict;
    l->shots = kt__calloc(n, sizeof *l->shots);
    l->gaps_ms = kt__calloc(all, sizeof *l->gaps_ms);
    l->scratch = kt__calloc(all, sizeof *l->scratch);
    if (!l->shots || !l->gaps_ms || !l->scratch)
        return kt__fail_nomem(err, "the figures of the load", all * sizeof *l->scratch);
    for (size_t i = 0; i < n; i++) {
        l->shots[i].number = (int32_t)i;
        l->shots[i].gaps_ms = l->gaps_ms + i * (size_t)l->opts.n_predict;
    }
    return KT_OK;
}

bool kt__bench_wants_server(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--server", 8) && (!argv[i][8] || argv[i][8] == '=')) return true;
    }
    return false;
}

#define AT(member) offsetof(load_opts, member)

static const kt__opt table[] = {
    {.name = "server",
     .kind = KT__OPT_TEXT,
     .at = AT(server),
     .arg = "URL",
     .help = "http://HOST:PORT; unix:PATH or a path, for lines on the socket; none: no server, the "
             "same requests to an engine of this process"},
    {.name = "rate",
     .kind = KT__OPT_FLOAT,
     .at = AT(rate),
     .min = 0.001,
     .max = 10000,
     .arg = "R",
     .help = "requests started a second, whatever became of earlier ones (default 2)"},
    {.name = "clients",
     .kind = KT__OPT_INT,
     .at = AT(n_clients),
     .min = 1,
     .max = MAX_CLIENTS,
     .arg = "N",
     .help = "instead of --rate: N clients, each with one connection, that ask again as soon as "
             "they are answered"},
    {.name = "requests",
     .kind = KT__OPT_INT,
     .at = AT(n_requests),
     .min = 1,
     .max = MAX_REQUESTS,
     .arg = "N",
     .help = "how many (default 50)"},
    {.name = "warm",
     .kind = KT__OPT_INT,
     .at = AT(n_warm),
     .max = MAX_REQUESTS,
     .arg = "N",
     .help = "requests before these that do not count (default 0)"},
    {.name = "n-gen",
     .brief = "n",
     .kind = KT__OPT_INT,
     .at = AT(n_predict),
     .min = 1,
     .max = 1 << 16,
     .arg = "N",
     .help = "tokens of each answer (default 64)"},
    {.name = "prompt",
     .kind = KT__OPT_TEXT,
     .at = AT(prompt),
     .arg = "TEXT",
     .help = "what each asks (default: a short sentence)"},
    {.name = "fresh",
     .kind = KT__OPT_ON,
     .at = AT(fresh),
     .help = "begin each prompt with a random number of its own, so that no cache has it"},
    {.name = "key", .kind = KT__OPT_TEXT, .at = AT(key), .arg = "KEY", .help = "API key"},
    {.name = "json", .kind = KT__OPT_ON, .at = AT(json), .help = "one JSON object"},
};

int kt__bench_server(int argc, char **argv, kt__config *config) {
    load l = {.opts = {.prompt = "Tell me a story about a cat.",
                       .rate = 2,
                       .n_requests = 50,
                       .n_predict = 64},
              .session_opts = {.config = config},
              .report = kt__report_opts_of(argc, argv)};
    const kt__opt_group groups[] = {
        {"Load", table, KT__COUNT(table), &l.opts},  kt__report_opts_group(&l.report),
        kt__setting_opts(config, KT__OPTIONS_MANY),  kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "bench",
        .usage = "--server URL [OPTIONS]",
        .about =
            "Load on a running server. With --rate, requests start at fixed times whether earlier "
            "ones have ended\nor not, and latencies count from those times.",
        .groups = groups,
        .n_groups = KT__COUNT(groups)};
    kt_error err;
    kt_status status;
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    KT__TRY(kt__report_check(&l.report, &err));
    KT__TRY(make_shots(&l, &err));
    KT__TRY(open_target(&l, &err));
    warm_up(&l);
    KT__TRY(run_load(&l, &err));
    load_row rows[N_ROWS];
    make_rows(&l, rows);
    int good = print_load(&l, rows);
    if (!good) KT__TRY(kt__fail(&err, KT_E_IO, "%s answered nothing", l.opts.server));
    KT__TRY(report_load(&l, good, rows, &err));
out:
    kt__session_close(&l.session);
    kt__free(l.scratch);
    kt__free(l.gaps_ms);
    kt__free(l.shots);
    return status == KT_OK ? 0 : kt__cli_fail("bench", &err);
}
