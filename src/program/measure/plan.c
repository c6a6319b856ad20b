/* kentang plan: what each of several machines would hold, read and send to compute a model together, and how fast that would
 * be, before there is more than one. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "context/ctx.h"
#include "engine/divide.h"
#include "measure/figures.h"
#include "ops/speed.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "term/cli.h"
#include "term/options.h"

enum { MEASURE_US = 200000 };

typedef struct plan_opts {
    const char *link, *speeds;
    int32_t machines, latency_us;
    bool json;
} plan_opts;

static const kt__opt table[] = {
    {.name = "machines",
     .kind = KT__OPT_INT,
     .at = offsetof(plan_opts, machines),
     .min = 0,
     .max = KT__PEERS_MAX,
     .arg = "N",
     .help = "processes, one on each machine (default: as many as --split has numbers, or 2)"},
    {.name = "link",
     .kind = KT__OPT_TEXT,
     .at = offsetof(plan_opts, link),
     .arg = "SPEED",
     .help = "of each machine's connection: 100mbit, 2.5gbit (default 1gbit)"},
    {.name = "latency",
     .kind = KT__OPT_INT,
     .at = offsetof(plan_opts, latency_us),
     .min = 0,
     .max = 1000000,
     .arg = "US",
     .help =
         "microseconds that the link takes for few bytes (default 50): what doctor measures under mpirun"},
    {.name = "speeds",
     .kind = KT__OPT_TEXT,
     .at = offsetof(plan_opts, speeds),
     .arg = "LIST",
     .help =
         "GB of weights a second that each machine multiplies, such as 18,9,9, or one number for "
         "all; --split auto follows them (default: this machine's, measured)"},
    {.name = "json", .kind = KT__OPT_ON, .at = offsetof(plan_opts, json), .help = "print JSON"},
};

typedef struct forecast {
    kt_ctx *ctx;
    kt_model *model;
    int n, shares[KT__PEERS_MAX];
    double speeds[KT__PEERS_MAX]; /* bytes a second */
    bool measured;
    double link_bytes_per_s, latency_s;
    kt__rank_plan alone, ranks[KT__PEERS_MAX];
    double alone_s, compute_s, wire_s, waiting_s; /* of a token */
} forecast;

/* ---- what is asked ---- */

/* Of Ethernet's bits 94 in a hundred are the payload of TCP. */
static kt_status parse_link(const char *text, double *bytes_per_s, kt_error *err) {
    char *end;
    double n = strtod(text, &end);
    double unit = !strcmp(end, "gbit") ? 1e9 : !strcmp(end, "mbit") ? 1e6 : 0;
    *bytes_per_s = n * unit / 8 * 0.941;
    if (isfinite(n) && *bytes_per_s >= 1) return KT_OK;
    return kt__fail(err, KT_E_ARG, "--link \"%.40s\": expected 1gbit, 100mbit or such", text);
}

static kt_status parse_speeds(const char *text, forecast *f, kt_error *err) {
    int n = 0;
    for (const char *at = text; n < f->n; n++) {
        char *end;
        f->speeds[n] = strtod(at, &end) * 1e9;
        if (end == at || !isfinite(f->speeds[n]) || f->speeds[n] < 1e6) break;
        at = *end == ',' ? end + 1 : end;
        if (*end) continue;
        if (n == 0)
            for (int r = 1; r < f->n; r++) f->speeds[r] = f->speeds[0];
        if (n == 0 || n + 1 == f->n) return KT_OK;
        break;
    }
    return kt__fail(err, KT_E_ARG,
                    "--speeds \"%.60s\": expected GB a second of each of the %d machines, such as "
                    "18,9, or one number for all",
                    text, f->n);
}

static kt_status find_speeds(const plan_opts *o, forecast *f, kt_error *err) {
    const kt_ctx *ctx = f->ctx;
    if (o->speeds) return parse_speeds(o->speeds, f, err);
    double speed = kt__product_speed(ctx->pool, kt_ctx_n_threads(ctx), ctx->kernels, MEASURE_US);
    if (speed <= 0) return kt__fail(err, KT_E_NOMEM, "no memory is left to measure the speed in");
    for (int r = 0; r < f->n; r++) f->speeds[r] = speed;
    f->measured = true;
    return KT_OK;
}

/* As many as the list has, where they were not given. */
static kt_status find_shares(const char *split, forecast *f, kt_error *err) {
    if (!split || !*split) {
        for (int r = 0; r < f->n; r++) f->shares[r] = 1;
        return KT_OK;
    }
    if (!strcmp(split, "auto")) {
        kt__shares_of_speeds(f->speeds, f->n, f->shares);
        return KT_OK;
    }
    if (kt__division_parse(split, f->shares) == f->n) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "--split \"%.60s\": expected auto, or a number from 0 to %d for each of the %d "
                    "machines",
                    split, KT__SHARE_MAX, f->n);
}

static int count_machines(const plan_opts *o, const char *split) {
    int shares[KT__PEERS_MAX], n = split ? kt__division_parse(split, shares) : -1;
    return o->machines ? (int)o->machines : n > 1 ? n : 2;
}

/* ---- what is expected ---- */

/* Of the speed of products with Q4_K, which is measured: a file has slower types too, and products have ends. As measured
 * with Qwen2.5-1.5B, Q4_K_M, on one core, of whose time all but 0.6% was products. */
static const double REACHED = 0.9;
/* Until the slowest is there, besides what the link takes: of two processes over one machine's memory, which takes nothing, an
 * exchange cost 65 to 75 us in generation, with the same model. */
static const double MEETING_S = 65e-6;

/* The slowest part counts, and the fullest wire in either direction. */
static void expect_times(forecast *f) {
    f->alone_s = (double)f->alone.read_bytes / (REACHED * f->speeds[0]);
    for (int r = 0; r < f->n; r++) {
        const kt__rank_plan *p = &f->ranks[r];
        const kt__traffic *t = &p->traffic;
        uint64_t wire = t->sent_bytes > t->received_bytes ? t->sent_bytes : t->received_bytes;
        f->compute_s = fmax(f->compute_s, (double)p->read_bytes / (REACHED * f->speeds[r]));
        f->wire_s = fmax(f->wire_s, (double)wire / f->link_bytes_per_s);
        f->waiting_s = fmax(f->waiting_s, (double)t->exchanges * (f->latency_s + MEETING_S));
    }
}

static double expected_s(const forecast *f) {
    return f->compute_s + f->wire_s + f->waiting_s;
}

static kt_status plan_ranks(forecast *f, const kt__config *config, kt_error *err) {
    const int whole[] = {1};
    kt_engine_params params = kt__place_engine_params(config);
    KT__STEP(kt__place_kv_params(config, &params, err));
    params.n_seq_max = 1;
    params.n_draft = -1;
    const kt__rank_asked alone = {&params, whole, 1, 0};
    const kt__rank_asked asked = {&params, f->shares, f->n, config->split_least};
    KT__STEP(kt__rank_plan_make(f->model, &alone, 0, &f->alone, err));
    for (int r = 0; r < f->n; r++)
        KT__STEP(kt__rank_plan_make(f->model, &asked, r, &f->ranks[r], err));
    return KT_OK;
}

static kt_status make_forecast(const plan_opts *o, const kt__config *config, forecast *f,
                               kt_error *err) {
    f->n = count_machines(o, config->split);
    f->latency_s = (double)o->latency_us * 1e-6;
    KT__STEP(parse_link(o->link, &f->link_bytes_per_s, err));
    KT__STEP(kt__command_open_model(config, false, &f->ctx, &f->model, err));
    KT__STEP(find_speeds(o, f, err));
    KT__STEP(find_shares(config->split, f, err));
    KT__STEP(plan_ranks(f, config, err));
    expect_times(f);
    return KT_OK;
}

/* ---- for people ---- */

static double gb_of(uint64_t bytes) {
    return (double)bytes / 1e9;
}

static void print_ranks(const forecast *f) {
    printf("%-8s %6s %11s %11s %12s %12s %9s\n", "process", "share", "weights GB", "K/V MB",
           "reads GB", "sends KB", "messages");
    for (int r = -1; r < f->n; r++) {
        const kt__rank_plan *p = r < 0 ? &f->alone : &f->ranks[r];
        char name[16] = "alone";
        if (r >= 0) snprintf(name, sizeof name, "%d", r);
        printf("%-8s %6d %11.3f %11.1f %12.3f %12.1f %9llu\n", name, r < 0 ? 1 : f->shares[r],
               gb_of(p->weight_bytes), 1e3 * gb_of(p->kv_bytes), gb_of(p->read_bytes),
               1e6 * gb_of(p->traffic.sent_bytes), (unsigned long long)p->traffic.messages);
    }
}

static void print_speeds(const forecast *f) {
    bool same = true;
    for (int r = 1; r < f->n; r++) same = same && f->speeds[r] == f->speeds[0];
    printf("speed    ");
    for (int r = 0; r < (same ? 1 : f->n); r++) printf("%s%.1f", r ? ", " : "", f->speeds[r] / 1e9);
    printf(" GB of weights a second%s\n",
           f->measured ? ", measured here and assumed of all machines" : "");
}

static void print_plan_text(const forecast *f) {
    kt_model_info info;
    kt_model_get_info(f->model, &info);
    printf("model    %s %s, %.2f GB; keys and values of %lld positions\n\n", info.arch, info.quant,
           gb_of(info.file_bytes), (long long)f->alone.kv_positions);
    print_ranks(f);
    puts("\nWhat is read, sent, and in how many messages is a token's that is generated.");
    print_speeds(f);
    printf("link     %.1f MB/s, %.0f us for few bytes, %llu exchanges a token\n",
           f->link_bytes_per_s / 1e6, f->latency_s * 1e6,
           (unsigned long long)f->ranks[0].traffic.exchanges);
    printf(
        "expected %.2f tok/s: %.1f ms of products, %.1f of bytes on the wire, %.1f of waiting for "
        "them; alone %.2f tok/s\n",
        1 / expected_s(f), 1e3 * f->compute_s, 1e3 * f->wire_s, 1e3 * f->waiting_s, 1 / f->alone_s);
}

/* ---- for programs ---- */

static json_t *rank_json(const kt__rank_plan *p) {
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weight_bytes", (json_int_t)p->weight_bytes,
        "kv_bytes", (json_int_t)p->kv_bytes, "kv_positions", (json_int_t)p->kv_positions,
        "read_bytes", (json_int_t)p->read_bytes, "exchanges", (json_int_t)p->traffic.exchanges,
        "messages", (json_int_t)p->traffic.messages, "sent_bytes",
        (json_int_t)p->traffic.sent_bytes, "received_bytes", (json_int_t)p->traffic.received_bytes);
}

static int print_plan_json(const forecast *f) {
    json_t *ranks = json_array();
    for (int r = 0; r < f->n; r++) {
        json_t *rank = rank_json(&f->ranks[r]);
        json_object_set_new(rank, "share", json_integer(f->shares[r]));
        json_object_set_new(rank, "bytes_per_s", json_real(f->speeds[r]));
        json_array_append_new(ranks, rank);
    }
    json_t *all = json_pack("{s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "alone",
                            rank_json(&f->alone), "ranks", ranks, "link_bytes_per_s",
                            f->link_bytes_per_s, "latency_s", f->latency_s, "compute_s",
                            f->compute_s, "wire_s", f->wire_s, "waiting_s", f->waiting_s, "tok_s",
                            1 / expected_s(f), "tok_s_alone", 1 / f->alone_s);
    if (kt__json_print(all)) return 0;
    return kt__cli_error("plan", KT_E_NOMEM, NULL, "cannot write the plan as JSON");
}

/* ---- the command ---- */

static int plan_command(int argc, char **argv, kt__config *config) {
    plan_opts o = {.link = "1gbit", .latency_us = 50};
    const kt__opt_group groups[] = {
        {"Machines", table, KT__COUNT(table), &o},
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "plan",
        .usage = "-m MODEL --machines N [OPTIONS]",
        .about = "What each of several machines would hold, read and send to compute a model\n"
                 "together (mpirun -n N kentang ...), and how fast that would be at generation.\n"
                 "Weights are not read, and nothing is sent.",
        .groups = groups,
        .n_groups = KT__COUNT(groups)};
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    kt_error err = {0};
    forecast f = {0};
    kt_status status = make_forecast(&o, config, &f, &err);
    if (status != KT_OK)
        code = kt__cli_fail("plan", &err);
    else if (o.json)
        code = print_plan_json(&f);
    else
        print_plan_text(&f);
    kt_model_close(f.model);
    kt_ctx_close(f.ctx);
    return kt__cli_finish("plan", code < 0 ? 0 : code);
}

int kt__cmd_plan(int argc, char **argv) {
    return kt__with_settings(argc, argv, plan_command);
}
