#include "measure/tune.h"

#include "base/clock.h"
#include "base/error.h"
#include "context/types.h"
#include "host/noise.h"
#include "measure/bench_streams.h"
#include "measure/figures.h"
#include "sched/sched.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "setup/tuned.h"
#include "term/cli.h"
#include "term/terminal.h"

#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "base/thread.h"

/* ---- comparing by paired runs ---- */

static const double least_gain = 1.02, least_confidence = 0.9;

bool kt__ab_test_add(kt__ab_test *test, int value, const char *name) {
    if (test->n == KT__DUEL_MAX) return false;
    for (int i = 0; i < test->n; i++)
        if (test->entries[i].value == value) return false;
    kt__ab_test_entry *entry = &test->entries[test->n++];
    memset(entry, 0, sizeof *entry);
    entry->value = value;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return true;
}

/* 1 minus the probability of at least `wins` heads in n throws of a fair coin. */
static double sign_test(int wins, int n) {
    double term = 1, below = 0; /* term: n over k, divided by 2^n at the end */
    for (int k = 0; k < wins; k++) {
        below += term;
        term = term * (n - k) / (k + 1);
    }
    for (int k = 0; k < n; k++) below *= 0.5;
    return below;
}

static void conclude_test(kt__ab_test *test) {
    const kt__ab_test_entry *standard = &test->entries[test->standard];
    double best = least_gain;
    test->chosen = test->standard;
    for (int i = 0; i < test->n; i++) {
        kt__ab_test_entry *e = &test->entries[i];
        double speeds[KT__DUEL_ROUNDS], ratios[KT__DUEL_ROUNDS];
        e->wins = 0;
        for (int r = 0; r < test->n_rounds; r++) {
            speeds[r] = e->tok_s[r];
            ratios[r] = e->tok_s[r] / standard->tok_s[r];
            e->wins += ratios[r] > 1;
        }
        e->median = kt__percentile_median(speeds, (size_t)test->n_rounds);
        e->ratio = kt__percentile_median(ratios, (size_t)test->n_rounds);
        e->confidence = sign_test(e->wins, test->n_rounds);
        if (i == test->standard || e->ratio < best || e->confidence < least_confidence) continue;
        best = e->ratio;
        test->chosen = i;
    }
}

/* On a terminal one line, drawn over itself. Round -1 warms up. */
static void show_run(const kt__ab_test *test, int round, int k) {
    if (!kt__terminal_can_draw(KT__STDERR)) return;
    int done = (round + 1) * test->n + k, all = (test->n_rounds + 1) * test->n;
    fprintf(stderr, "\rkentang tune: %s: %d of %d runs\033[K", test->what, done, all);
    if (done == all) fputc('\n', stderr);
    fflush(stderr);
}

kt_status kt__ab_test_run(kt__ab_test *test, kt__ab_test_fn *fn, void *user, kt_error *err) {
    for (int round = -1; round < test->n_rounds; round++) {
        for (int k = 0; k < test->n; k++) {
            int i = round % 2 ? test->n - 1 - k : k;
            double tok_s;
            show_run(test, round, k);
            kt_status status = fn(user, test->entries[i].value, &tok_s, err);
            if (status != KT_OK) return status;
            if (round >= 0) test->entries[i].tok_s[round] = tok_s;
        }
    }
    show_run(test, test->n_rounds - 1, test->n);
    conclude_test(test);
    return KT_OK;
}

void kt__ab_test_print(const kt__ab_test *test) {
    for (int i = 0; i < test->n; i++) {
        const kt__ab_test_entry *e = &test->entries[i];
        char against[64] = "default";
        if (i != test->standard)
            snprintf(against, sizeof against, "%+.1f%%, faster in %d of %d (%.0f%%)",
                     100 * (e->ratio - 1), e->wins, test->n_rounds, 100 * e->confidence);
        printf("| %-24s | %-32s | %10.2f | %-34s | %-6s |\n", i ? "" : test->what, e->name,
               e->median, against, i == test->chosen ? "chosen" : "");
    }
}

/* ---- the command ---- */

enum {
    DEPTH = 64, /* positions before what is timed */
    MIN_PROMPT = 128,
    MAX_PROMPT = 1024,
    DEFAULT_UBATCH = 512,
    MIN_STEPS = 16,
    MAX_STEPS = 256,
    STEPS_MS = 400, /* a decode run */
    RUN_MS = 1500   /* a prefill run takes about so long at most */
};

typedef struct tune_opts {
    kt__config *config;
    kt__report_opts report;
    int32_t n_rounds;
    bool dry_run;
} tune_opts;

#define AT(member) offsetof(tune_opts, member)

static const kt__opt table[] = {
    {.name = "rounds",
     .brief = "r",
     .kind = KT__OPT_INT,
     .at = AT(n_rounds),
     .min = 1,
     .max = KT__DUEL_ROUNDS,
     .arg = "N",
     .help = "paired rounds of each comparison (default 5; with 3 or fewer nothing can be "
             "concluded)"},
    {.name = "dry-run", .kind = KT__OPT_ON, .at = AT(dry_run), .help = "write no file"},
};

/* One engine, large enough for every candidate; its parameters are turned between runs. */
typedef struct tuner {
    const tune_opts *opts;
    const char *file; /* of the model; NULL: the embedded one */
    kt_ctx *ctx;
    kt_model *model;
    kt__bench_streams streams;
    int n_prompt, n_steps;
    kt__ab_test decode, prefill, ubatch, contexts;
} tuner;

/* ---- what is timed ---- */

static kt_status time_prefill(tuner *t, int n, double *tok_s, kt_error *err) {
    double seconds;
    kt_status status = kt__bench_streams_set_depth(&t->streams, DEPTH, err);
    if (status == KT_OK) status = kt__bench_streams_prefill(&t->streams, n, &seconds, err);
    if (status == KT_OK) *tok_s = n / seconds;
    return status;
}

static kt_status run_decode_threads(void *user, int value, double *tok_s, kt_error *err) {
    tuner *t = user;
    double seconds;
    t->streams.engine->params.n_threads = value;
    kt_status status = kt__bench_streams_set_depth(&t->streams, DEPTH, err);
    if (status == KT_OK) status = kt__bench_streams_decode(&t->streams, t->n_steps, &seconds, err);
    if (status == KT_OK) *tok_s = t->n_steps / seconds;
    return status;
}

static kt_status run_prefill_threads(void *user, int value, double *tok_s, kt_error *err) {
    tuner *t = user;
    t->streams.engine->params.n_threads_batch = value;
    return time_prefill(t, t->n_prompt, tok_s, err);
}

static kt_status run_ubatch(void *user, int value, double *tok_s, kt_error *err) {
    tuner *t = user;
    kt__sched_set_rows(t->streams.engine->sched, value);
    return time_prefill(t, t->n_prompt, tok_s, err);
}

/* ---- the search ---- */

/* 1, 2, 3, 4, 6, 8, 12, ... up to the pool, always with the default and the whole pool. */
static void add_threads(kt__ab_test *test, int standard, int most) {
    char name[40];
    int tries[KT__DUEL_MAX], n = 0;
    tries[n++] = standard;
    tries[n++] = most;
    for (int k = 1; k < most && n < KT__DUEL_MAX; k = k < 4        ? k + 1
                                                      : k % 3 == 0 ? k / 3 * 4
                                                                   : k / 2 * 3)
        tries[n++] = k;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%d", tries[i]);
        (void)kt__ab_test_add(test, tries[i], name);
    }
    test->standard = 0;
}

static kt_status choose_steps(tuner *t, kt_error *err) {
    double tok_s;
    t->n_steps = MIN_STEPS;
    kt_status status = run_decode_threads(t, t->streams.engine->params.n_threads, &tok_s, err);
    if (status != KT_OK) return status;
    double n = tok_s * STEPS_MS / 1000;
    t->n_steps = n < MIN_STEPS ? MIN_STEPS : n > MAX_STEPS ? MAX_STEPS : (int)n;
    return KT_OK;
}

/* A prompt that takes about RUN_MS: a power of two. */
static kt_status choose_prompt(tuner *t, kt_error *err) {
    double tok_s;
    kt_status status = time_prefill(t, MIN_PROMPT, &tok_s, err);
    if (status == KT_OK) status = time_prefill(t, MIN_PROMPT, &tok_s, err);
    t->n_prompt = MIN_PROMPT;
    int room = t->streams.info.n_ctx - DEPTH;
    while (status == KT_OK && t->n_prompt < MAX_PROMPT && 2 * t->n_prompt <= room &&
           2 * t->n_prompt / tok_s * 1000 < RUN_MS)
        t->n_prompt *= 2;
    return status;
}

static kt_status search_threads(tuner *t, kt_error *err) {
    int standard = kt_ctx_n_threads(t->ctx), most = kt__pool_size(t->ctx->pool);
    t->decode = (kt__ab_test){.what = "threads, decode", .n_rounds = t->opts->n_rounds};
    t->prefill = (kt__ab_test){.what = "threads, prefill", .n_rounds = t->opts->n_rounds};
    add_threads(&t->decode, standard, most);
    add_threads(&t->prefill, standard, most);
    KT__STEP(kt__ab_test_run(&t->decode, run_decode_threads, t, err));
    KT__STEP(kt__ab_test_run(&t->prefill, run_prefill_threads, t, err));
    t->streams.engine->params.n_threads_batch = t->prefill.entries[t->prefill.chosen].value;
    return KT_OK;
}

static kt_status search_ubatch(tuner *t, kt_error *err) {
    char name[40];
    t->ubatch = (kt__ab_test){.what = "ubatch, prefill", .n_rounds = t->opts->n_rounds};
    int standard = DEFAULT_UBATCH < t->n_prompt ? DEFAULT_UBATCH : t->n_prompt;
    snprintf(name, sizeof name, "%d", standard);
    (void)kt__ab_test_add(&t->ubatch, standard, name);
    for (int size = 64; size <= t->n_prompt; size *= 2) {
        snprintf(name, sizeof name, "%d", size);
        (void)kt__ab_test_add(&t->ubatch, size, name);
    }
    return kt__ab_test_run(&t->ubatch, run_ubatch, t, err);
}

static kt_status search_settings(tuner *t, kt_error *err) {
    kt_engine_params params = kt_engine_params_default();
    params.n_ctx = DEPTH + MAX_PROMPT;
    params.n_ubatch = MAX_PROMPT;
    params.n_seq_max = 1;
    KT__STEP(kt__place_kv_params(t->opts->config, &params, err));
    KT__STEP(kt__bench_streams_open(t->model, &params, NULL, &t->streams, err));
    kt__sched_set_rows(t->streams.engine->sched, DEFAULT_UBATCH);
    KT__STEP(choose_prompt(t, err));
    KT__STEP(choose_steps(t, err));
    KT__STEP(search_threads(t, err));
    KT__STEP(search_ubatch(t, err));
    kt__bench_streams_close(&t->streams);
    return kt__tune_contexts(t->file, t->opts->config->isa, t->n_steps, t->opts->n_rounds,
                             &t->contexts, err);
}

/* ---- what comes of it ---- */

static int chosen_side(const kt__ab_test *test) {
    return test->n ? test->entries[test->chosen].value : 0;
}

/* The size to keep: a prompt shorter than the default cannot speak against it. */
static int chosen_ubatch(const tuner *t) {
    return t->ubatch.chosen == t->ubatch.standard ? DEFAULT_UBATCH : chosen_side(&t->ubatch);
}

static void print_table(const tuner *t, const char *model) {
    printf("%s, %s, prompt of %d tokens, %d steps of decode, %d paired rounds\n\n", model,
           kt_ctx_isa(t->ctx), t->n_prompt, t->n_steps, t->opts->n_rounds);
    printf("| %-24s | %-32s | %10s | %-34s | %-6s |\n", "setting", "value", "t/s",
           "against the default (confidence)", "");
    printf("| ------------------------ | -------------------------------- | ---------: | "
           "---------------------------------- | ------ |\n");
    kt__ab_test_print(&t->decode);
    kt__ab_test_print(&t->prefill);
    kt__ab_test_print(&t->ubatch);
    kt__ab_test_print(&t->contexts);
    puts("\nA value replaces the default only if it is 2% faster with a confidence of 90%. The "
         "batch\n(tokens of one prefill call) has no influence beyond the ubatch and stays as it "
         "is.");
    if (!t->contexts.n) return;
    if (chosen_side(&t->contexts) == 1)
        puts("Several streams: one context on all cores, streams decoded in one batch.");
    else
        puts("Several streams: two contexts, each pinned to half of the cores (--cpu-range).");
}

static kt_status save_finding(const tuner *t, kt_error *err) {
    kt_model_info info;
    char path[4096];
    kt_model_get_info(t->model, &info);
    kt__tuned tuned = {.n_threads = chosen_side(&t->decode),
                       .n_threads_batch = chosen_side(&t->prefill),
                       .n_ubatch = chosen_ubatch(t),
                       .n_contexts = chosen_side(&t->contexts)};
    kt_status status = kt__tuned_save(&info, kt_ctx_isa(t->ctx), &tuned, path, sizeof path, err);
    if (status == KT_OK)
        printf("Written to %s; `kentang run` and `kentang serve` use it unless options say "
               "otherwise.\n",
               path);
    return status;
}

static bool warn_noise(const kt__noise *before) {
    kt__noise after;
    kt__noise_report report;
    kt__noise_read(&after);
    kt__noise_between(before, &after, &report);
    if (report.noisy)
        fprintf(stderr,
                "kentang tune: warning: the machine was busy (others used %.2f processors, %.2f "
                "were stolen): run it again when it is quiet\n",
                report.others_cpus, report.steal_cpus);
    return report.noisy;
}

static kt_status report_finding(const tuner *t, const char *model, bool noisy, kt_error *err) {
    const kt__tune_result result = {.model = model,
                                    .isa = kt_ctx_isa(t->ctx),
                                    .tests = {&t->decode, &t->prefill, &t->ubatch, &t->contexts},
                                    .n_prompt = t->n_prompt,
                                    .n_steps = t->n_steps,
                                    .noisy = noisy};
    return kt__tune_write_report(&t->opts->report, &result, err);
}

static int run_tune(tune_opts *opts) {
    static const tuner none;
    tuner t = none;
    kt_error err = {0};
    kt_model_info info;
    kt__topology topology;
    kt__noise before;
    kt_status status;
    t.opts = opts;
    KT__TRY(kt__report_check(&opts->report, &err));
    kt__noise_read(&before);
    kt__topology_detect(&topology); /* threads beyond the cores are tried, too */
    opts->config->threads_batch = topology.n_logical < KT__POOL_MAX_THREADS ? topology.n_logical
                                                                            : KT__POOL_MAX_THREADS;
    KT__TRY(kt__command_open_model(opts->config, false, &t.ctx, &t.model, &err));
    kt_model_get_info(t.model, &info);
    t.file = strcmp(info.path, "(demo)") ? info.path : NULL;
    if (!opts->dry_run) KT__TRY(kt__tuned_check(&info, &err));
    KT__TRY(search_settings(&t, &err));
    const char *name = info.name[0] ? info.name : info.path;
    print_table(&t, name);
    if (!opts->dry_run) status = save_finding(&t, &err);
    bool noisy = warn_noise(&before);
    if (status == KT_OK) KT__TRY(report_finding(&t, name, noisy, &err));
out:
    if (status != KT_OK) (void)kt__cli_fail("tune", &err);
    kt__bench_streams_close(&t.streams);
    kt_model_close(t.model);
    kt_ctx_close(t.ctx);
    return kt_status_exit_code(status);
}

static int tune_command(int argc, char **argv, kt__config *config) {
    tune_opts opts = {.config = config, .report = kt__report_opts_of(argc, argv), .n_rounds = 5};
    const kt__opt_group groups[] = {
        {"Options", table, KT__COUNT(table), &opts},
        kt__report_opts_group(&opts.report),
        kt__setting_opts_one(config, "Keys and values", KT__SETTING_kv_type),
        kt__setting_opts_one(config, "Keys alone", KT__SETTING_kv_keys),
        kt__setting_opts_one(config, "Values alone", KT__SETTING_kv_values),
        kt__setting_opts_one(config, "Their tail", KT__SETTING_kv_tail),
        kt__setting_opts(config, KT__OPTIONS_CORES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "tune",
        .usage = "[MODEL | -m MODEL] [OPTIONS]",
        .about =
            "Looks for the number of threads (for the prompt and for the answer) and the size of\n"
            "prompt slices that are fastest for this model on this machine, and whether several\n"
            "contexts on cores of their own serve several streams better than one. Every round "
            "runs\n"
            "all candidates, in turn forwards and backwards; a change needs a stated confidence.\n"
            "The answer does not depend on any of these settings.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .notes = "The result is kept in $XDG_CONFIG_HOME/kentang/tuned (or ~/.config).",
    };
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    return code >= 0 ? code : run_tune(&opts);
}

int kt__cmd_tune(int argc, char **argv) {
    return kt__with_settings(argc, argv, tune_command);
}

/* Several contexts pinned to disjoint cores against one on all: two streams decoded either as one
 * batch by all threads, or each alone by half of them. */

enum { N_PARTS = 2, CONTEXTS_DEPTH = 16, LIST_BYTES = 4096 };

/* A context with its model, its engine and the thread that drives it. */
typedef struct party {
    kt_ctx *ctx;
    kt_model *model;
    kt__bench_streams streams;
    int n_steps, n_threads;
    double seconds;
    kt_status status;
    kt_error err;
} party;

typedef struct contest {
    party one, parts[N_PARTS];
    int n_steps;
} contest;

/* ---- parties ---- */

static void party_close(party *p) {
    kt__bench_streams_close(&p->streams);
    kt_model_close(p->model);
    kt_ctx_close(p->ctx);
}

static kt_status party_open(const char *path, const char *isa, const char *cpus, int n_streams,
                            int n_steps, party *p, kt_error *err) {
    kt_ctx_params ctx = kt_ctx_params_default();
    kt_engine_params engine = kt_engine_params_default();
    ctx.isa = isa;
    ctx.cpus = cpus;
    engine.n_ctx = CONTEXTS_DEPTH + n_steps;
    engine.n_seq_max = n_streams;
    p->n_steps = n_steps;
    KT__STEP(kt_ctx_open(&ctx, &p->ctx, err));
    if (path) {
        KT__STEP(kt_model_open(p->ctx, path, NULL, &p->model, err));
    } else {
        KT__STEP(kt_model_open_demo(p->ctx, NULL, &p->model, err));
    }
    KT__STEP(kt__bench_streams_open(p->model, &engine, NULL, &p->streams, err));
    p->n_threads = kt_ctx_n_threads(p->ctx);
    return KT_OK;
}

static void *party_run(void *arg) {
    party *p = arg;
    p->status = kt__bench_streams_decode(&p->streams, p->n_steps, &p->seconds, &p->err);
    return NULL;
}

static kt_status decode_alone(contest *c, double *seconds, kt_error *err) {
    kt_status status = kt__bench_streams_set_depth(&c->one.streams, CONTEXTS_DEPTH, err);
    return status == KT_OK ? kt__bench_streams_decode(&c->one.streams, c->n_steps, seconds, err)
                           : status;
}

/* Both at once; the time until the later one is done. */
static kt_status decode_apart(contest *c, double *seconds, kt_error *err) {
    pthread_t thread;
    for (int p = 0; p < N_PARTS; p++) {
        kt_status status = kt__bench_streams_set_depth(&c->parts[p].streams, CONTEXTS_DEPTH, err);
        if (status != KT_OK) return status;
    }
    int64_t start_ns = kt__now_ns();
    if (pthread_create(&thread, NULL, party_run, &c->parts[1]) != 0)
        return kt__fail(err, KT_E_NOMEM, "cannot start a thread");
    (void)party_run(&c->parts[0]);
    pthread_join(thread, NULL);
    *seconds = (double)(kt__now_ns() - start_ns) * 1e-9;
    for (int p = 0; p < N_PARTS; p++) {
        if (c->parts[p].status == KT_OK) continue;
        *err = c->parts[p].err;
        return c->parts[p].status;
    }
    return KT_OK;
}

static kt_status measure_contexts(void *user, int value, double *tok_s, kt_error *err) {
    contest *c = user;
    double seconds = 1;
    kt_status status = value == 1 ? decode_alone(c, &seconds, err) : decode_apart(c, &seconds, err);
    *tok_s = N_PARTS * c->n_steps / seconds;
    return status;
}

kt_status kt__tune_contexts(const char *path, const char *isa, int n_steps, int n_rounds,
                            kt__ab_test *test, kt_error *err) {
    static const contest none;
    contest c = none;
    kt_status status = KT_OK;
    char lists[N_PARTS][LIST_BYTES], name[40];
    *test = (kt__ab_test){.what = "contexts, 2 streams", .n_rounds = n_rounds};
    for (int p = 0; p < N_PARTS; p++) {
        kt_error too_few;
        if (kt_cpus_split(NULL, N_PARTS, p, false, lists[p], sizeof lists[p], &too_few) != KT_OK)
            return KT_OK;
    }
    c.n_steps = n_steps;
    KT__TRY(party_open(path, isa, NULL, N_PARTS, n_steps, &c.one, err));
    for (int p = 0; p < N_PARTS; p++)
        KT__TRY(party_open(path, isa, lists[p], 1, n_steps, &c.parts[p], err));
    snprintf(name, sizeof name, "1, %d threads, one batch", c.one.n_threads);
    (void)kt__ab_test_add(test, 1, name);
    snprintf(name, sizeof name, "2 pinned, %d and %d threads", c.parts[0].n_threads,
             c.parts[1].n_threads);
    (void)kt__ab_test_add(test, N_PARTS, name);
    KT__TRY(kt__ab_test_run(test, measure_contexts, &c, err));
out:
    for (int p = 0; p < N_PARTS; p++) party_close(&c.parts[p]);
    party_close(&c.one);
    return status;
}
