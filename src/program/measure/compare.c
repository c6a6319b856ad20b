/* kentang compare: models side by side, quality and speed. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "measure/quality.h"
#include "measure/quality_report.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

enum { DECODE_TOKENS = 64, DECODE_PROMPT = 16, MAX_MODELS = 12 };

/* One of the models; its session is open as long as it is measured, what was measured stays. */
typedef struct contender {
    const char *path;
    char type[32];
    uint64_t file_bytes;
    kt__session session;
    int32_t *ids;
    size_t n_ids;
    kt__quality quality;
    bool alike; /* the same tokens as the first one's: it was compared with that */
    kt__quality_figures figures;
    kt__text_score_cost cost;
    double decode_tok_s;
} contender;

typedef struct comparison {
    contender items[MAX_MODELS];
    size_t n;
    char *text;
    size_t len;
    char isa[16];
    const kt__judge_opts *judge;
    const kt__session_opts *opts;
    kt__text_score t;
} comparison;

/* ---- measuring ---- */

static kt_status contender_open(const comparison *m, contender *c, kt_error *err) {
    kt_status status = kt__judge_open_other(m->opts, c->path, &c->session, err);
    if (status != KT_OK) return status;
    snprintf(c->type, sizeof c->type, "%s", c->session.info.quant);
    c->file_bytes = c->session.info.file_bytes;
    return kt__text_ids(c->session.model, m->text, m->len, kt__judge_text_flags(m->judge), &c->ids,
                        &c->n_ids, err);
}

static void contender_close(contender *c) {
    kt__quality_free(&c->quality);
    kt__free(c->ids);
    c->ids = NULL;
    if (c->session.ctx) kt__session_close(&c->session);
    c->session.ctx = NULL;
}

static bool same_ids(const contender *a, const contender *b) {
    return a->session.info.n_vocab == b->session.info.n_vocab && a->n_ids == b->n_ids &&
           memcmp(a->ids, b->ids, a->n_ids * sizeof *a->ids) == 0;
}

/* Tokens a second, one at a time: the text's own, whatever the model would have said. */
static kt_status measure_decode(contender *c, kt_error *err) {
    size_t n = c->n_ids < DECODE_PROMPT + DECODE_TOKENS ? c->n_ids : DECODE_PROMPT + DECODE_TOKENS;
    size_t i = n > DECODE_TOKENS ? n - DECODE_TOKENS : 1;
    kt_status status = kt_seq_truncate(c->session.seq, 0, err);
    if (status == KT_OK) status = kt_seq_eval(c->session.seq, c->ids, i, err);
    int64_t begin = kt__now_ns();
    size_t first = i;
    for (; i < n && status == KT_OK; i++) status = kt_seq_eval(c->session.seq, c->ids + i, 1, err);
    c->decode_tok_s = (double)(n - first) * 1e9 / (double)(kt__now_ns() - begin);
    return status;
}

static kt_status judge_alone(const comparison *m, contender *c, kt_error *err) {
    kt__text_score t = m->t;
    t.tokens = c->ids;
    t.n_tokens = c->n_ids;
    kt_status status = kt__judge_check_length(&t, err);
    if (status == KT_OK) status = kt__text_score_run(&t, &c->session, &c->quality, &c->cost, err);
    if (status == KT_OK) kt__quality_figures_of(&c->quality, &c->figures);
    return status;
}

/* c with the first one as its base, which is measured by the way. */
static kt_status judge_from_first(comparison *m, contender *c, kt_error *err) {
    contender *first = &m->items[0];
    kt__text_score t = m->t;
    t.tokens = c->ids;
    t.n_tokens = c->n_ids;
    t.base = &first->session;
    kt_status status = kt__judge_check_length(&t, err);
    if (status == KT_OK) status = kt__text_score_run(&t, &c->session, &c->quality, &c->cost, err);
    if (status != KT_OK) return status;
    kt__quality_figures_of(&c->quality, &c->figures);
    if (first->figures.n) return KT_OK;
    first->figures = (kt__quality_figures){.n = c->figures.n,
                                           .ppl = c->figures.base_ppl,
                                           .ppl_error = c->figures.base_ppl_error,
                                           .nll = c->figures.nll - c->figures.ln_ratio};
    first->cost = c->cost;
    first->cost.ns = c->cost.base_ns;
    return KT_OK;
}

static kt_status measure_other(comparison *m, contender *c, kt_error *err) {
    contender *first = &m->items[0];
    c->alike = same_ids(first, c);
    if (c->alike) {
        KT__STEP(judge_from_first(m, c, err));
    } else {
        if (!first->figures.n) KT__STEP(judge_alone(m, first, err));
        KT__STEP(judge_alone(m, c, err));
    }
    if (!(first->decode_tok_s > 0)) KT__STEP(measure_decode(first, err));
    return measure_decode(c, err);
}

/* The first two are open from the start; those after them are looked at before anything is measured, and
 * opened once the one before is closed. */
static kt_status compare_open(comparison *m, kt_error *err) {
    kt_status status = kt__judge_read_text(m->judge, &m->text, &m->len, err);
    if (status != KT_OK) return status;
    for (size_t i = m->n; i-- > 0;) {
        KT__STEP(contender_open(m, &m->items[i], err));
        if (i > 1) contender_close(&m->items[i]);
    }
    snprintf(m->isa, sizeof m->isa, "%s", kt_ctx_isa(m->items[0].session.ctx));
    return KT_OK;
}

static kt_status compare_run(comparison *m, kt_error *err) {
    for (size_t i = 1; i < m->n; i++) {
        if (i > 1) KT__STEP(contender_open(m, &m->items[i], err));
        KT__STEP(measure_other(m, &m->items[i], err));
        contender_close(&m->items[i]);
    }
    return KT_OK;
}

static bool all_alike(const comparison *m) {
    bool alike = true;
    for (size_t i = 1; i < m->n; i++) alike &= m->items[i].alike;
    return alike;
}

/* ---- printing ---- */

static void print_contender(const contender *c) {
    printf("%-32.32s %8s %9.1f %12.4f %8.4f %8.4f %9.1f %9.1f\n", c->path, c->type,
           (double)c->file_bytes / 1e6, c->figures.ppl, c->figures.ppl_error,
           kt__judge_bits_per_byte(&c->figures, &c->cost),
           kt__judge_tok_s(c->cost.n_tok, c->cost.ns), c->decode_tok_s);
}

static void print_table(const comparison *m) {
    printf("%-32s %8s %9s %12s %8s %8s %9s %9s\n", "model", "type", "MB", "perplexity", "+-",
           "bits/B", "prompt/s", "decode/s");
    for (size_t i = 0; i < m->n; i++) print_contender(&m->items[i]);
    for (size_t i = 1; i < m->n; i++) {
        const kt__quality_figures *f = &m->items[i].figures;
        if (!m->items[i].alike) continue;
        printf("%s against the first: KL mean %.6f +- %.6f, median %.6f, 99%% %.6f; "
               "same token %.3f%%; perplexity x %.6f\n",
               m->n == 2 ? "the second" : m->items[i].path, f->kl, f->kl_error, f->kl_median,
               f->kl_99, f->same * 100.0, f->ppl / f->base_ppl);
    }
    if (!all_alike(m))
        puts("their tokens differ: perplexities cannot be compared, bits a byte can");
}

static json_t *contender_json(const contender *c) {
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "model", c->path, "type", c->type,
                     "file_bytes", (json_int_t)c->file_bytes, "perplexity", c->figures.ppl,
                     "perplexity_error", c->figures.ppl_error, "bits_per_byte",
                     kt__judge_bits_per_byte(&c->figures, &c->cost), "prompt_tok_s",
                     kt__judge_tok_s(c->cost.n_tok, c->cost.ns), "decode_tok_s", c->decode_tok_s);
}

/* "a", "b", "b_beside_a", "c", ... */
static void print_comparison_json(const comparison *m) {
    json_t *o = json_object();
    for (size_t i = 0; i < m->n; i++) {
        const kt__quality_figures *f = &m->items[i].figures;
        char key[16];
        snprintf(key, sizeof key, "%c", 'a' + (int)i);
        json_object_set_new(o, key, contender_json(&m->items[i]));
        snprintf(key, sizeof key, "%c_beside_a", 'a' + (int)i);
        if (i && m->items[i].alike)
            json_object_set_new(o, key,
                                json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "kl", f->kl, "kl_error",
                                          f->kl_error, "kl_median", f->kl_median, "kl_99", f->kl_99,
                                          "same_token", f->same, "ln_ratio", f->ln_ratio));
    }
    json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(o);
}

static kt_status report_comparison(const comparison *m, const kt__report_opts *opts,
                                   kt_error *err) {
    kt__judged_file items[MAX_MODELS];
    for (size_t i = 0; i < m->n; i++) {
        const contender *c = &m->items[i];
        items[i] = (kt__judged_file){
            .path = c->path,
            .type = c->type,
            .file_bytes = c->file_bytes,
            .figures = &c->figures,
            .is_base = i == 0,
            .has_divergence = c->alike,
            .bits_per_byte = kt__judge_bits_per_byte(&c->figures, &c->cost),
            .prompt_tok_s = kt__judge_tok_s(c->cost.n_tok, c->cost.ns),
            .decode_tok_s = c->decode_tok_s};
    }
    const kt__judged_files files = {
        .text = m->judge->text, .isa = m->isa, .items = items, .n = m->n, .alike = all_alike(m)};
    return kt__quality_write_report(opts, &files, err);
}

/* ---- the command ---- */

static kt_status compare_models(comparison *m, const kt__report_opts *report, kt_error *err) {
    kt_status status;
    kt__config *c = m->opts->config;
    c->ctx = kt__text_score_ctx(&m->t);
    if (c->ctx < DECODE_PROMPT + DECODE_TOKENS) c->ctx = DECODE_PROMPT + DECODE_TOKENS;
    KT__TRY(kt__report_check(report, err));
    KT__TRY(compare_open(m, err));
    KT__TRY(compare_run(m, err));
    (m->judge->json ? print_comparison_json : print_table)(m);
    KT__TRY(report_comparison(m, report, err));
out:
    for (size_t i = 0; i < m->n; i++) contender_close(&m->items[i]);
    kt__free(m->text);
    return status;
}

static int compare_command(int argc, char **argv, kt__config *config) {
    kt__judge_opts o = kt__judge_opts_default();
    kt__report_opts report = kt__report_opts_of(argc, argv);
    kt__session_opts opts = {.config = config};
    const kt__opt_group groups[] = {
        kt__judge_opts_group(&o),
        kt__report_opts_group(&report),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "compare",
        .usage = "A.gguf B.gguf [C.gguf ...] -f TEXT [OPTIONS]",
        .about =
            "Models on one text, side by side: perplexity, how far the others are from the first\n"
            "where their tokens are the same, and tokens a second. The first one stays open, the\n"
            "others are opened in turn.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .min_words = 2,
        .max_words = MAX_MODELS,
        .word = "MODEL"};
    const char *words[MAX_MODELS];
    size_t n_words = 0;
    kt_error err = {0};
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code >= 0) return code;
    if (!o.text) return kt__cli_usage_error("compare", "-f TEXT is missing");
    if (config->ctx) o.n_ctx = (int32_t)config->ctx;
    comparison m = {.n = n_words, .judge = &o, .opts = &opts, .t = kt__judge_score(&o, "compare")};
    for (size_t i = 0; i < n_words; i++) m.items[i].path = words[i];
    kt_status status = compare_models(&m, &report, &err);
    return kt__cli_finish("compare", status == KT_OK ? 0 : kt__cli_fail("compare", &err));
}

int kt__cmd_compare(int argc, char **argv) {
    return kt__with_settings(argc, argv, compare_command);
}
