#include "term/profile_report.h"

#include <stdio.h>

#include "term/options.h"

/* Rows of the table: the stages of an answer in their order; two of them have parts. */
typedef struct stage {
    const char *name, *key;
    double ms;
    const kt_profile_phase *phase;
} stage;

enum { N_STAGES = 8 };

static void list_stages(const kt_profile *p, stage out[N_STAGES]) {
    const stage all[N_STAGES] = {
        {"chat template", "template_ms", p->template_ms, NULL},
        {"tokenize", "tokenize_ms", p->tokenize_ms, NULL},
        {"request set-up", "setup_ms", p->setup_ms, NULL},
        {"prefill", "prefill", p->prefill.total_ms, &p->prefill},
        {"decode", "decode", p->decode.total_ms, &p->decode},
        {"sampling", "sample_ms", p->sample_ms, NULL},
        {"detokenize and stop strings", "detokenize_ms", p->detokenize_ms, NULL},
        {"output", "output_ms", p->callback_ms, NULL},
    };
    for (int i = 0; i < N_STAGES; i++) out[i] = all[i];
}

void kt__profile_report_of(kt_engine *engine, const char *title, double wall_ms,
                           uint64_t decode_bytes, kt__profile_report *out) {
    *out = (kt__profile_report){.engine = engine, .wall_ms = wall_ms, .decode_bytes = decode_bytes};
    snprintf(out->title, sizeof out->title, "%s", title);
    kt_engine_get_profile(engine, &out->profile);
    if (wall_ms < 0) out->wall_ms = out->profile.total_ms;
}

double kt__profile_sum_ms(const kt_profile *profile) {
    stage stages[N_STAGES];
    double sum = 0;
    list_stages(profile, stages);
    for (int i = 0; i < N_STAGES; i++) sum += stages[i].ms;
    return sum;
}

static double share_of(double ms, double all_ms) {
    return all_ms > 0 ? ms / all_ms : 0;
}

static double share_of_wall(const kt__profile_report *r, double ms) {
    return share_of(ms, r->wall_ms);
}

/* The largest row without rows below it. */
static void find_bottleneck(const kt__profile_report *r, char *out, size_t size, double *ms) {
    stage stages[N_STAGES];
    list_stages(&r->profile, stages);
    *ms = -1;
    for (int i = 0; i < N_STAGES; i++) {
        int n = stages[i].phase ? KT_PROFILE_PARTS : 1;
        for (int part = 0; part < n; part++) {
            double part_ms = stages[i].phase ? stages[i].phase->part_ms[part] : stages[i].ms;
            if (part_ms <= *ms) continue;
            *ms = part_ms;
            snprintf(out, size, "%s%s%s", stages[i].name, stages[i].phase ? ": " : "",
                     stages[i].phase ? kt_profile_part_name((kt_profile_part)part) : "");
        }
    }
}

/* Bytes of weights a second while decoding; 0: nothing was decoded. */
static double weights_per_s(const kt__profile_report *r) {
    const kt_profile_phase *d = &r->profile.decode;
    if (!d->n_batches || d->total_ms <= 0) return 0;
    return (double)r->decode_bytes * (double)d->n_batches / d->total_ms * 1e3;
}

/* ---- by layer and by thread ---- */

enum { MOST_SHARES = 1024 };

typedef size_t shares_fn(kt_engine *engine, double *prefill_ms, double *decode_ms, size_t cap);

static const struct {
    const char *title, *name, *key;
    shares_fn *get;
} divisions[] = {{"by layer", "layer", "layers", kt_engine_get_profile_layers},
                 {"busy, by thread", "thread", "threads", kt_engine_get_profile_threads}};

typedef struct shares {
    size_t n;
    double prefill_ms[MOST_SHARES], decode_ms[MOST_SHARES];
} shares;

static void take_shares(const kt__profile_report *r, size_t division, shares *out) {
    out->n = divisions[division].get(r->engine, out->prefill_ms, out->decode_ms, MOST_SHARES);
    if (out->n > MOST_SHARES) out->n = MOST_SHARES;
}

static void print_shares(const kt__profile_report *r, size_t division) {
    const kt_profile *p = &r->profile;
    shares s;
    char name[40];
    take_shares(r, division, &s);
    fprintf(stderr, "  %-26s%15s%22s\n", divisions[division].title, "prefill", "decode");
    for (size_t i = 0; i < s.n; i++) {
        snprintf(name, sizeof name, "%s %zu", divisions[division].name, i);
        fprintf(stderr, "    %-24s%12.2f ms%6.1f%%%12.2f ms%6.1f%%\n", name, s.prefill_ms[i],
                100 * share_of(s.prefill_ms[i], p->prefill.total_ms), s.decode_ms[i],
                100 * share_of(s.decode_ms[i], p->decode.total_ms));
    }
}

static json_t *list_json(const double *ms, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_real(ms[i]));
    return list;
}

static json_t *shares_json(const kt__profile_report *r, size_t division) {
    shares s;
    take_shares(r, division, &s);
    return json_pack("{s:o, s:o}", "prefill_ms", list_json(s.prefill_ms, s.n), "decode_ms",
                     list_json(s.decode_ms, s.n));
}

/* ---- the table ---- */

static void print_row(const kt__profile_report *r, int indent, const char *name, double ms) {
    fprintf(stderr, "  %*s%-*s%12.2f ms%7.1f%%\n", indent, "", 40 - indent, name, ms,
            100 * share_of_wall(r, ms));
}

static void print_stage(const kt__profile_report *r, const stage *s) {
    char name[80];
    if (!s->phase) {
        print_row(r, 0, s->name, s->ms);
        return;
    }
    snprintf(name, sizeof name, "%s, %llu tokens", s->name, (unsigned long long)s->phase->n_tok);
    print_row(r, 0, name, s->ms);
    for (int part = 0; s->phase->n_batches && part < KT_PROFILE_PARTS; part++)
        print_row(r, 2, kt_profile_part_name((kt_profile_part)part), s->phase->part_ms[part]);
}

void kt__profile_print(const kt__profile_report *r) {
    stage stages[N_STAGES];
    char name[96];
    double ms;
    list_stages(&r->profile, stages);
    fprintf(stderr, "kentang: %s\n", r->title);
    for (int i = 0; i < N_STAGES; i++) {
        if (stages[i].ms > 0) print_stage(r, &stages[i]);
    }
    print_row(r, 0, "sum", kt__profile_sum_ms(&r->profile));
    print_row(r, 0, "wall time", r->wall_ms);
    for (size_t i = 0; i < KT__COUNT(divisions); i++) print_shares(r, i);
    find_bottleneck(r, name, sizeof name, &ms);
    fprintf(stderr, "kentang: bottleneck: %s (%.0f%%)", name, 100 * share_of_wall(r, ms));
    if (r->profile.prefill.n_batches)
        fprintf(stderr, "; prefill keeps the threads busy %.0f%% of the time",
                100 * r->profile.prefill.busy_share);
    if (r->profile.decode.n_batches)
        fprintf(stderr, "; decode %.0f%%, reading weights at %.1f GB/s",
                100 * r->profile.decode.busy_share, weights_per_s(r) * 1e-9);
    fputc('\n', stderr);
}

static json_t *phase_json(const kt_profile_phase *phase) {
    json_t *parts = json_object();
    for (int i = 0; i < KT_PROFILE_PARTS; i++)
        json_object_set_new(parts, kt_profile_part_name((kt_profile_part)i),
                            json_real(phase->part_ms[i]));
    return json_pack("{s:f, s:I, s:I, s:f, s:o}", "total_ms", phase->total_ms, "tokens",
                     (json_int_t)phase->n_tok, "batches", (json_int_t)phase->n_batches,
                     "busy_share", phase->busy_share, "parts_ms", parts);
}

json_t *kt__profile_json(const kt__profile_report *r) {
    stage stages[N_STAGES];
    char name[96];
    double ms;
    list_stages(&r->profile, stages);
    find_bottleneck(r, name, sizeof name, &ms);
    json_t *out = json_pack("{s:f, s:f, s:s, s:f, s:f}", "wall_ms", r->wall_ms, "sum_ms",
                            kt__profile_sum_ms(&r->profile), "bottleneck", name, "bottleneck_share",
                            share_of_wall(r, ms), "decode_weight_bytes_per_s", weights_per_s(r));
    for (int i = 0; out && i < N_STAGES; i++) {
        const stage *s = &stages[i];
        json_object_set_new(out, s->key, s->phase ? phase_json(s->phase) : json_real(s->ms));
    }
    for (size_t i = 0; out && i < KT__COUNT(divisions); i++)
        json_object_set_new(out, divisions[i].key, shares_json(r, i));
    return out;
}
