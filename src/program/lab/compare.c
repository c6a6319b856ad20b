/* kentang compare: two models side by side, quality and speed. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "term/cli.h"
#include "lab/judge.h"
#include "setup/setting_opts.h"

enum { DECODE_TOKENS = 64, DECODE_PROMPT = 16 };

/* One of the two. */
typedef struct contender {
    const char *path;
    kt__session session;
    int32_t *ids;
    size_t n_ids;
    kt__quality quality;
    kt__quality_figures figures;
    kt__text_score_cost cost;
    double decode_tok_s;
} contender;

typedef struct comparison {
    contender a, b;
    bool alike; /* the same tokens: b is compared with a */
    kt__text_score t;
} comparison;

/* ---- measuring ---- */

static kt_status contender_open(contender *c, const kt__judge_opts *o, const kt__session_opts *opts,
                                const char *text, size_t len, kt_error *err) {
    kt_status status = kt__judge_open_other(opts, c->path, &c->session, err);
    if (status != KT_OK) return status;
    return kt__text_ids(c->session.model, text, len, kt__judge_text_flags(o), &c->ids, &c->n_ids,
                        err);
}

static void contender_close(contender *c) {
    kt__quality_free(&c->quality);
    kt__free(c->ids);
    if (c->session.ctx) kt__session_close(&c->session);
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

static kt_status judge_alone(comparison *m, contender *c, kt_error *err) {
    kt__text_score t = m->t;
    t.tokens = c->ids;
    t.n_tokens = c->n_ids;
    kt_status status = kt__judge_check_length(&t, err);
    if (status == KT_OK) status = kt__text_score_run(&t, &c->session, &c->quality, &c->cost, err);
    if (status == KT_OK) kt__quality_figures_of(&c->quality, &c->figures);
    return status;
}

static kt_status judge_beside(comparison *m, kt_error *err) {
    m->t.tokens = m->b.ids;
    m->t.n_tokens = m->b.n_ids;
    m->t.base = &m->a.session;
    kt_status status = kt__judge_check_length(&m->t, err);
    if (status == KT_OK)
        status = kt__text_score_run(&m->t, &m->b.session, &m->b.quality, &m->b.cost, err);
    if (status != KT_OK) return status;
    kt__quality_figures_of(&m->b.quality, &m->b.figures);
    m->a.figures = (kt__quality_figures){.n = m->b.figures.n,
                                         .ppl = m->b.figures.base_ppl,
                                         .ppl_error = m->b.figures.base_ppl_error,
                                         .nll = m->b.figures.nll - m->b.figures.ln_ratio};
    m->a.cost = m->b.cost;
    m->a.cost.ns = m->b.cost.base_ns;
    return KT_OK;
}

static kt_status compare_run(comparison *m, kt_error *err) {
    kt_status status = KT_OK;
    m->alike = same_ids(&m->a, &m->b);
    if (m->alike) {
        KT__TRY(judge_beside(m, err));
    } else {
        KT__TRY(judge_alone(m, &m->a, err));
        KT__TRY(judge_alone(m, &m->b, err));
    }
    KT__TRY(measure_decode(&m->a, err));
    KT__TRY(measure_decode(&m->b, err));
out:
    return status;
}

/* ---- printing ---- */

static void print_contender(const contender *c) {
    printf("%-32.32s %8s %9.1f %12.4f %8.4f %8.4f %9.1f %9.1f\n", c->path, c->session.info.quant,
           (double)c->session.info.file_bytes / 1e6, c->figures.ppl, c->figures.ppl_error,
           kt__judge_bits_per_byte(&c->figures, &c->cost),
           kt__judge_tok_s(c->cost.n_tok, c->cost.ns), c->decode_tok_s);
}

static void print_table(const comparison *m) {
    const kt__quality_figures *f = &m->b.figures;
    printf("%-32s %8s %9s %12s %8s %8s %9s %9s\n", "model", "type", "MB", "perplexity", "+-",
           "bits/B", "prompt/s", "decode/s");
    print_contender(&m->a);
    print_contender(&m->b);
    if (m->alike) {
        printf("the second against the first: KL mean %.6f +- %.6f, median %.6f, 99%% %.6f; "
               "same token %.3f%%; perplexity x %.6f\n",
               f->kl, f->kl_error, f->kl_median, f->kl_99, f->same * 100.0, f->ppl / f->base_ppl);
    } else {
        puts("their tokens differ: perplexities cannot be compared, bits a byte can");
    }
}

static json_t *contender_json(const contender *c) {
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "model", c->path, "type",
                     c->session.info.quant, "file_bytes", (json_int_t)c->session.info.file_bytes,
                     "perplexity", c->figures.ppl, "perplexity_error", c->figures.ppl_error,
                     "bits_per_byte", kt__judge_bits_per_byte(&c->figures, &c->cost),
                     "prompt_tok_s", kt__judge_tok_s(c->cost.n_tok, c->cost.ns), "decode_tok_s",
                     c->decode_tok_s);
}

static void print_comparison_json(const comparison *m) {
    const kt__quality_figures *f = &m->b.figures;
    json_t *o = json_pack("{s:o, s:o}", "a", contender_json(&m->a), "b", contender_json(&m->b));
    if (m->alike)
        json_object_set_new(o, "b_beside_a",
                            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "kl", f->kl, "kl_error",
                                      f->kl_error, "kl_median", f->kl_median, "kl_99", f->kl_99,
                                      "same_token", f->same, "ln_ratio", f->ln_ratio));
    json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(o);
}

/* ---- the command ---- */

static kt_status compare_open(comparison *m, const kt__judge_opts *o, kt__session_opts *opts,
                              kt_error *err) {
    char *text = NULL;
    size_t len = 0;
    kt__config *c = opts->config;
    c->ctx = kt__text_score_ctx(&m->t);
    if (c->ctx < DECODE_PROMPT + DECODE_TOKENS) c->ctx = DECODE_PROMPT + DECODE_TOKENS;
    kt_status status;
    KT__TRY(kt__judge_read_text(o, &text, &len, err));
    KT__TRY(contender_open(&m->a, o, opts, text, len, err));
    KT__TRY(contender_open(&m->b, o, opts, text, len, err));
out:
    kt__free(text);
    return status;
}

static int compare_command(int argc, char **argv, kt__config *config) {
    kt__judge_opts o = kt__judge_opts_default();
    kt__session_opts opts = {.config = config};
    const kt__opt_group groups[] = {
        kt__judge_opts_group(&o),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "compare",
        .usage = "A.gguf B.gguf -f TEXT [OPTIONS]",
        .about =
            "Two models on one text, side by side: perplexity, how far the second is from the\n"
            "first where their tokens are the same, and tokens a second.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .min_words = 2,
        .max_words = 2,
        .word = "MODEL"};
    const char *words[2];
    size_t n_words = 0;
    kt_error err = {0};
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code >= 0) return code;
    if (!o.text) return kt__cli_usage_error("compare", "-f TEXT is missing");
    if (config->ctx) o.n_ctx = (int32_t)config->ctx;
    comparison m = {.a.path = words[0], .b.path = words[1], .t = kt__judge_score(&o, "compare")};
    kt_status status = compare_open(&m, &o, &opts, &err);
    if (status == KT_OK) status = compare_run(&m, &err);
    if (status == KT_OK) {
        if (o.json) {
            print_comparison_json(&m);
        } else {
            print_table(&m);
        }
    }
    contender_close(&m.a);
    contender_close(&m.b);
    return kt__cli_finish("compare", status == KT_OK ? 0 : kt__cli_fail("compare", &err));
}

int kt__cmd_compare(int argc, char **argv) {
    return kt__with_settings(argc, argv, compare_command);
}
