/* kentang perplexity: how well a model predicts a text, and how far it is from another. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "measure/quality.h"
#include "measure/quality_report.h"
#include "setup/setting_opts.h"
#include "term/cli.h"
#include "term/terminal.h"

typedef struct perplexity_opts {
    kt__judge_opts judge;
    kt__report_opts report;
    const char *base, *save, *choices;
} perplexity_opts;

#define AT(member) offsetof(perplexity_opts, member)
static const kt__opt perplexity_table[] = {
    {.name = "kl",
     .also = "kl-divergence-base",
     .kind = KT__OPT_TEXT,
     .at = AT(base),
     .arg = "BASE",
     .help = "how far the model is from BASE: another model's GGUF file, or the file of its "
             "log-probabilities that llama-perplexity or --kl-save wrote (then -f is not needed)"},
    {.name = "kl-save",
     .kind = KT__OPT_TEXT,
     .at = AT(save),
     .arg = "FILE",
     .help = "write this model's log-probabilities, for --kl and for llama-perplexity"},
    {.name = "choices",
     .kind = KT__OPT_TEXT,
     .at = AT(choices),
     .arg = "FILE",
     .help = "multiple choice instead of a text: HellaSwag or ARC as JSON lines, or llama.cpp's "
             "groups of six lines"},
};
#undef AT

/* ---- a text ---- */

/* What is open while a text is judged. */
typedef struct judged {
    kt__session session, base;
    kt__kld_file base_file, save;
    char *text;
    int32_t *ids;
    kt__quality quality;
} judged;

static void judged_close(judged *j) {
    kt__quality_free(&j->quality);
    kt__free(j->ids);
    kt__free(j->text);
    kt__kld_close(&j->base_file);
    kt__kld_close(&j->save);
    if (j->base.ctx) kt__session_close(&j->base);
    if (j->session.ctx) kt__session_close(&j->session);
}

static bool is_gguf(const char *path) {
    size_t n = strlen(path);
    return n >= 5 && !strcmp(path + n - 5, ".gguf");
}

/* A file's chunks and tokens are in for those of a text. */
static kt_status open_base_file(const perplexity_opts *o, judged *j, kt__text_score *t,
                                kt_error *err) {
    kt_status status = kt__kld_open(o->base, &j->base_file, err);
    if (status != KT_OK) return status;
    t->base_file = &j->base_file;
    t->n_ctx = j->base_file.n_ctx;
    t->stride = 0;
    t->tokens = j->base_file.tokens;
    t->n_tokens = (size_t)j->base_file.n_ctx * (size_t)j->base_file.n_chunk;
    return KT_OK;
}

static kt_status open_text(const perplexity_opts *o, judged *j, kt__text_score *t, kt_error *err) {
    size_t len = 0;
    kt_status status = kt__judge_read_text(&o->judge, &j->text, &len, err);
    if (status == KT_OK)
        status = kt__text_ids(j->session.model, j->text, len, kt__judge_text_flags(&o->judge),
                              &j->ids, &t->n_tokens, err);
    t->tokens = j->ids;
    return status == KT_OK ? kt__judge_check_length(t, err) : status;
}

/* Checks that the base's log-probabilities are of as many tokens as the model has, without which no divergence can
 * be computed. */
static kt_status same_vocabulary(const perplexity_opts *o, int32_t base_n_vocab, int32_t n_vocab,
                                 kt_error *err) {
    if (base_n_vocab == n_vocab) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, o->base, UINT64_MAX,
                       "its vocabulary has %d tokens, the model's %d", base_n_vocab, n_vocab);
}

/* Session, base, text and the file to write, in t. */
static kt_status open_all(const perplexity_opts *o, kt__session_opts *session_opts, judged *j,
                          kt__text_score *t, kt_error *err) {
    if (o->base && !is_gguf(o->base)) KT__STEP(open_base_file(o, j, t, err));
    session_opts->config->ctx = kt__text_score_ctx(t);
    KT__STEP(kt__session_open(session_opts, &j->session, err));
    if (t->base_file) {
        KT__STEP(same_vocabulary(o, j->base_file.n_vocab, j->session.info.n_vocab, err));
    } else {
        KT__STEP(open_text(o, j, t, err));
    }
    if (o->base && !t->base_file) {
        KT__STEP(kt__judge_open_other(session_opts, o->base, &j->base, err));
        KT__STEP(same_vocabulary(o, j->base.info.n_vocab, j->session.info.n_vocab, err));
        t->base = &j->base;
    }
    if (o->save) {
        KT__STEP(kt__kld_create(o->save, t->n_ctx, j->session.info.n_vocab,
                                (int32_t)kt__text_score_chunks(t), t->tokens, &j->save, err));
        t->save = &j->save;
    }
    return KT_OK;
}

static kt_status report_text(const perplexity_opts *o, const judged *j, const kt__text_score *t,
                             const kt__quality_figures *figures, const kt__text_score_cost *cost,
                             kt_error *err) {
    const kt__quality_figures base = {.n = figures->n,
                                      .ppl = figures->base_ppl,
                                      .ppl_error = figures->base_ppl_error,
                                      .nll = figures->nll - figures->ln_ratio};
    const kt__judged_file items[] = {
        {.path = j->session.info.path,
         .type = j->session.info.quant,
         .file_bytes = j->session.info.file_bytes,
         .figures = figures,
         .has_divergence = t->base || t->base_file,
         .bits_per_byte = kt__judge_bits_per_byte(figures, cost),
         .prompt_tok_s = kt__judge_tok_s(cost->n_tok, cost->ns)},
        {.path = o->base,
         .type = t->base ? j->base.info.quant : "-",
         .file_bytes = t->base ? j->base.info.file_bytes : 0,
         .figures = &base,
         .is_base = true,
         .bits_per_byte = kt__judge_bits_per_byte(&base, cost),
         .prompt_tok_s = t->base ? kt__judge_tok_s(cost->n_tok, cost->base_ns) : 0},
    };
    const kt__judged_files files = {.text = o->judge.text ? o->judge.text : o->base,
                                    .isa = kt_ctx_isa(j->session.ctx),
                                    .items = items,
                                    .n = t->base || t->base_file ? 2 : 1,
                                    .alike = true,
                                    .by_token = &j->quality};
    return kt__quality_write_report(&o->report, &files, err);
}

static kt_status judge_text(const perplexity_opts *o, kt__session_opts *session_opts, judged *j,
                            kt_error *err) {
    kt__text_score t = kt__judge_score(&o->judge, "perplexity");
    kt__text_score_cost cost;
    kt__quality_figures figures;
    kt_status status = open_all(o, session_opts, j, &t, err);
    if (status != KT_OK) return status;
    kt__interrupt_watch(j->session.engine);
    status = kt__text_score_run(&t, &j->session, &j->quality, &cost, err);
    if (status == KT_OK && o->save) status = kt__kld_finish(&j->save, err);
    if (status != KT_OK) return status;
    kt__quality_figures_of(&j->quality, &figures);
    kt__judge_print(&o->judge, &t, &figures, &cost);
    return report_text(o, j, &t, &figures, &cost, err);
}

/* ---- choices ---- */

static kt_status judge_choices(const perplexity_opts *o, kt__session_opts *session_opts, judged *j,
                               kt_error *err) {
    kt__choice_tasks tasks;
    size_t n_right = 0, i = 0;
    double low, high;
    if (!session_opts->config->ctx) session_opts->config->ctx = 2048;
    kt_status status = kt__choice_tasks_read(o->choices, &tasks, err);
    if (status == KT_OK) status = kt__session_open(session_opts, &j->session, err);
    if (status == KT_OK) kt__interrupt_watch(j->session.engine);
    for (; i < tasks.n && status == KT_OK; i++) {
        bool right = false;
        status = kt__choice_score(&tasks.items[i], &j->session, &right, err);
        n_right += right;
    }
    if (status == KT_OK) {
        kt__wilson(n_right, tasks.n, &low, &high);
        printf(o->judge.json ? "{\"tasks\":%zu,\"right\":%zu,\"accuracy\":%.6f,\"low_95\":%.6f,"
                               "\"high_95\":%.6f}\n"
                             : "%zu tasks, %zu right: %.4f, 95%% between %.4f and %.4f\n",
               tasks.n, n_right, (double)n_right / (double)tasks.n, low, high);
        status = kt__choices_write_report(&o->report, j->session.info.path, o->choices, n_right,
                                          tasks.n, kt_ctx_isa(j->session.ctx), err);
    }
    kt__choice_tasks_free(&tasks);
    return status;
}

/* ---- the command ---- */

static int perplexity_command(int argc, char **argv, kt__config *config) {
    perplexity_opts o = {.judge = kt__judge_opts_default(),
                         .report = kt__report_opts_of(argc, argv)};
    kt__session_opts session_opts = {.config = config};
    const kt__opt_group groups[] = {
        kt__judge_opts_group(&o.judge),
        {"Beside another model", perplexity_table, KT__COUNT(perplexity_table), &o},
        kt__report_opts_group(&o.report),
        kt__lora_opts_group(&session_opts.lora),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "perplexity",
        .usage = "[MODEL | -m MODEL] -f TEXT [OPTIONS]",
        .about =
            "How well a model predicts a text: perplexity as llama-perplexity computes it. With "
            "--kl,\nhow far its predictions are from another model's: Kullback-Leibler "
            "divergence.",
        .groups = groups,
        .n_groups = KT__COUNT(groups)};
    judged j = {0};
    kt_error err = {0};
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    if (!o.choices && !o.judge.text && (!o.base || is_gguf(o.base)))
        return kt__cli_usage_error("perplexity", "-f TEXT is missing");
    if (o.save && o.judge.stride)
        return kt__cli_usage_error("perplexity", "--kl-save takes no --stride: its file has none");
    if (config->ctx) o.judge.n_ctx = (int32_t)config->ctx;
    kt_status status = kt__report_check(&o.report, &err);
    if (status == KT_OK)
        status = o.choices ? judge_choices(&o, &session_opts, &j, &err)
                           : judge_text(&o, &session_opts, &j, &err);
    judged_close(&j);
    kt__lora_opts_free(&session_opts.lora);
    return kt__cli_finish("perplexity", status == KT_OK ? 0 : kt__cli_fail("perplexity", &err));
}

int kt__cmd_perplexity(int argc, char **argv) {
    return kt__with_settings(argc, argv, perplexity_command);
}
