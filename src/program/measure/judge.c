#include "measure/quality.h"

#include <jansson.h>
#include <math.h>

#include "base/error.h"
#include "term/cli.h"

enum { MAX_TEXT_BYTES = 1 << 30 };

#define AT(member) offsetof(kt__judge_opts, member)
static const kt__opt judge_table[] = {
    {.name = "file",
     .brief = "f",
     .kind = KT__OPT_TEXT,
     .at = AT(text),
     .arg = "TEXT",
     .help = "the text (UTF-8; -: standard input); best one that the models were not made with"},
    {.name = "context",
     .kind = KT__OPT_INT,
     .at = AT(n_ctx),
     .min = 4,
     .max = 1 << 24,
     .arg = "N",
     .help = "tokens of a chunk, of which the second half is scored (default 512)"},
    {.name = "stride",
     .kind = KT__OPT_INT,
     .at = AT(stride),
     .min = 1,
     .max = 1 << 24,
     .arg = "N",
     .help = "chunks begin N tokens apart and their last N tokens are scored; chunks grow by N/2 "
             "(default: chunks do not overlap)"},
    {.name = "chunks",
     .kind = KT__OPT_INT,
     .at = AT(n_chunk),
     .min = 1,
     .max = 1 << 24,
     .arg = "N",
     .help = "only the first N chunks"},
    {.name = "parse-special",
     .kind = KT__OPT_ON,
     .at = AT(parse_special),
     .help = "control tokens written in the text are taken as such: for texts of conversations"},
    {.name = "json", .kind = KT__OPT_ON, .at = AT(json), .help = "the figures as one JSON object"},
};
#undef AT

kt__judge_opts kt__judge_opts_default(void) {
    return (kt__judge_opts){.n_ctx = 512};
}

kt__opt_group kt__judge_opts_group(kt__judge_opts *opts) {
    return (kt__opt_group){"Text", judge_table, KT__COUNT(judge_table), opts};
}

kt__text_score kt__judge_score(const kt__judge_opts *opts, const char *command) {
    return (kt__text_score){.n_ctx = opts->n_ctx,
                            .stride = opts->stride,
                            .n_chunk_max = (size_t)opts->n_chunk,
                            .command = command};
}

unsigned kt__judge_text_flags(const kt__judge_opts *opts) {
    return opts->parse_special ? KT_TOK_PARSE_SPECIAL : 0;
}

kt_status kt__judge_read_text(const kt__judge_opts *opts, char **text, size_t *len, kt_error *err) {
    return kt__cli_read_file(opts->text, MAX_TEXT_BYTES, text, len, err);
}

kt_status kt__judge_check_length(const kt__text_score *t, kt_error *err) {
    if (t->stride && t->stride >= t->n_ctx)
        return kt__fail(err, KT_E_ARG, "--stride %d is not below --context %d", t->stride,
                        t->n_ctx);
    if (kt__text_score_chunks(t)) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "the text is %zu tokens, not one chunk of %d: take a longer text or a smaller "
                    "--context",
                    t->n_tokens, kt__text_score_ctx(t));
}

kt_status kt__judge_open_other(const kt__session_opts *opts, const char *path, kt__session *out,
                               kt_error *err) {
    kt__config config = *opts->config; /* its texts are borrowed */
    const kt__session_opts other = {.config = &config, .many = opts->many};
    config.model = path;
    config.load_in = "as-is"; /* the base is what others are measured by */
    config.kv_type = config.kv_keys = config.kv_values = NULL;
    config.kv_tail = -1;
    return kt__session_open(&other, out, err);
}

/* ---- printing ---- */

double kt__judge_bits_per_byte(const kt__quality_figures *f, const kt__text_score_cost *cost) {
    return cost->bytes ? f->nll * (double)f->n / 0.69314718055994531 / (double)cost->bytes : 0.0;
}

double kt__judge_tok_s(int64_t n, int64_t ns) {
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0.0;
}

static void print_judged_text(const kt__text_score *t, const kt__quality_figures *f,
                              const kt__text_score_cost *cost) {
    printf("perplexity  %.4f +- %.4f, %.4f bits a byte (%zu tokens scored in %zu chunks of %d, "
           "%.0f tok/s)\n",
           f->ppl, f->ppl_error, kt__judge_bits_per_byte(f, cost), f->n, kt__text_score_chunks(t),
           kt__text_score_ctx(t), kt__judge_tok_s(cost->n_tok, cost->ns));
    if (!t->base && !t->base_file) return;
    printf("base        %.4f +- %.4f, ratio %.6f (ln %.6f +- %.6f), correlation %.4f\n",
           f->base_ppl, f->base_ppl_error, f->ppl / f->base_ppl, f->ln_ratio, f->ln_ratio_error,
           f->correlation);
    printf("KL          mean %.6f +- %.6f, median %.6f, 90%% %.6f, 99%% %.6f, 99.9%% %.6f, largest "
           "%.6f\n",
           f->kl, f->kl_error, f->kl_median, f->kl_90, f->kl_99, f->kl_999, f->kl_max);
    printf("probability mean %+.4f%%, RMS %.4f%% +- %.4f%% off the base's\n", f->dp * 100.0,
           f->dp_rms * 100.0, f->dp_rms_error * 100.0);
    printf("same token  %.3f%% +- %.3f%% most probable in both\n", f->same * 100.0,
           f->same_error * 100.0);
}

static void set_real(json_t *object, const char *key, double x) {
    json_object_set_new(object, key, isfinite(x) ? json_real(x) : json_null());
}

static void print_judged_json(const kt__text_score *t, const kt__quality_figures *f,
                              const kt__text_score_cost *cost) {
    json_t *o = json_object();
    json_object_set_new(o, "tokens", json_integer((json_int_t)f->n));
    json_object_set_new(o, "chunks", json_integer((json_int_t)kt__text_score_chunks(t)));
    json_object_set_new(o, "context", json_integer(kt__text_score_ctx(t)));
    set_real(o, "perplexity", f->ppl);
    set_real(o, "perplexity_error", f->ppl_error);
    set_real(o, "bits_per_byte", kt__judge_bits_per_byte(f, cost));
    set_real(o, "tok_s", kt__judge_tok_s(cost->n_tok, cost->ns));
    if (t->base || t->base_file) {
        set_real(o, "base_perplexity", f->base_ppl);
        set_real(o, "base_perplexity_error", f->base_ppl_error);
        set_real(o, "ln_ratio", f->ln_ratio);
        set_real(o, "ln_ratio_error", f->ln_ratio_error);
        set_real(o, "correlation", f->correlation);
        set_real(o, "kl", f->kl);
        set_real(o, "kl_error", f->kl_error);
        set_real(o, "kl_median", f->kl_median);
        set_real(o, "kl_90", f->kl_90);
        set_real(o, "kl_99", f->kl_99);
        set_real(o, "kl_99_9", f->kl_999);
        set_real(o, "kl_max", f->kl_max);
        set_real(o, "dp", f->dp);
        set_real(o, "dp_rms", f->dp_rms);
        set_real(o, "same_token", f->same);
        set_real(o, "same_token_error", f->same_error);
    }
    json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(o);
}

void kt__judge_print(const kt__judge_opts *opts, const kt__text_score *t,
                     const kt__quality_figures *figures, const kt__text_score_cost *cost) {
    if (opts->json) {
        print_judged_json(t, figures, cost);
    } else {
        print_judged_text(t, figures, cost);
    }
}
