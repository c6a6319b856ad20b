/* kentang quantize: makes a GGUF file of another type of weights. */
#include "convert/convert.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "make/auto_recipe.h"
#include "make/hessian.h"
#include "synth/write_options.h"
#include "term/cli.h"
#include "term/options.h"

enum { FIT_CAREFUL, FIT_FAST, FIT_FEEDBACK }; /* as --fit lists them */

struct quantize_opts {
    kt__opt_texts keep;
    uint64_t target_bytes;
    bool has_target;
    float target_kl;
    const char *imatrix;
    int fit;
    kt__feedback_opts feedback;
    kt__write_opts write;
};

static const kt__opt quantize_table[] = {
    {.name = "keep",
     .kind = KT__OPT_TEXTS,
     .at = offsetof(struct quantize_opts, keep),
     .arg = "PATTERN=TYPE",
     .help = "the type of tensors whose name matches, whatever the recipe says: "
             "'blk.0.*=q8_0', output.weight=f16; may be repeated, the last match counts"},
    {.name = "target-size",
     .kind = KT__OPT_SIZE,
     .at = offsetof(struct quantize_opts, target_bytes),
     .given_at = KT__GIVEN(struct quantize_opts, has_target),
     .arg = "SIZE",
     .help = "in place of TYPE: the best recipe whose file is at most that large; 5G, 800M. With "
             "TYPE auto: the best types of each matrix for that size, as measured"},
    {.name = "target-kl",
     .kind = KT__OPT_FLOAT,
     .at = offsetof(struct quantize_opts, target_kl),
     .min = 1e-6,
     .max = 100,
     .arg = "X",
     .help = "with TYPE auto: the smallest file whose Kullback-Leibler divergence is about X"},
    {.name = "imatrix",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct quantize_opts, imatrix),
     .arg = "FILE",
     .help = "errors count as much as this importance matrix says, which `kentang imatrix` or "
             "llama.cpp has measured"},
    {.name = "fit",
     .kind = KT__OPT_ENUM,
     .at = offsetof(struct quantize_opts, fit),
     .choices = "careful|fast|feedback",
     .arg = "HOW",
     .help = "careful (default): scales of least error; fast: half that search; feedback: besides, "
             "each rounding error is made good by the weights to its right, as the model's own "
             "activations over a text tell: best, and slower"},
    {.name = "calib",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct quantize_opts, feedback.text),
     .arg = "TEXT",
     .help = "the text for --fit feedback and for auto: like those the model will read, in their "
             "language "
             "(default: one that comes with the program, English and Indonesian)"},
    {.name = "calib-tokens",
     .kind = KT__OPT_INT,
     .at = offsetof(struct quantize_opts, feedback.n_tok),
     .min = 512,
     .max = 1 << 24,
     .arg = "N",
     .help = "tokens of that text, at most (default 32768)"},
    {.name = "parse-special",
     .kind = KT__OPT_ON,
     .at = offsetof(struct quantize_opts, feedback.parse_special),
     .help = "control tokens written in that text are taken as such"},
};

/* "PATTERN=TYPE"; pattern is heap memory of the rule. */
static bool parse_rule(const char *text, kt__type_rule *rule) {
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text) return false;
    rule->type = kt__type_from_name(equals + 1);
    if (rule->type == KT__TYPE_COUNT) return false;
    rule->pattern = kt__strndup(text, (size_t)(equals - text));
    return rule->pattern != NULL;
}

static void free_rules(kt__type_rule *rules, size_t n) {
    for (size_t i = 0; i < n; i++) kt__free((void *)(uintptr_t)rules[i].pattern);
    kt__free(rules);
}

/* What a run holds besides its options. */
typedef struct quantize_run {
    const struct quantize_opts *opts;
    kt__quantize_params params;
    kt__convert_output output;
    kt__imatrix importance;
    kt__auto_recipe chosen;
    kt__feedback_maker *maker;
    bool is_auto;
} quantize_run;

/* The rules of `auto` come first, so that --keep has the last word. */
static kt_status add_auto_rules(quantize_run *q, kt__type_rule **rules, kt_error *err) {
    const kt__auto_opts opts = {.model = q->params.source,
                                .text = q->opts->feedback.text,
                                .parse_special = q->opts->feedback.parse_special,
                                .importance = q->params.importance,
                                .target_bytes = q->opts->target_bytes,
                                .target_kl = (double)q->opts->target_kl,
                                .n_threads = q->output.n_threads,
                                .quiet = q->opts->write.quiet};
    kt_status status = kt__auto_recipe_make(&opts, &q->chosen, err);
    if (status != KT_OK) return status;
    size_t n = q->chosen.n_rules, n_keep = q->params.n_rules;
    kt__type_rule *all = kt__calloc(n + n_keep + 1, sizeof *all);
    if (!all) return kt__fail_nomem(err, "rules", n);
    memcpy(all, q->chosen.rules, n * sizeof *all);
    memcpy(all + n, q->params.rules, n_keep * sizeof *all);
    *rules = all;
    q->params.rules = all;
    q->params.n_rules = n + n_keep;
    q->params.recipe = q->chosen.recipe;
    q->params.target_bytes = 0;
    fprintf(stderr, "kentang quantize: a KL of about %.5f is expected of these types\n",
            q->chosen.kl);
    return KT_OK;
}

static kt_status open_feedback(quantize_run *q, kt_error *err) {
    kt__feedback_opts feedback = q->opts->feedback;
    feedback.model = q->params.source;
    feedback.n_threads = q->output.n_threads;
    kt_status status = kt__feedback_maker_open(&feedback, &q->maker, err);
    if (status == KT_OK) q->output.feedback = kt__feedback_maker_source(q->maker);
    return status;
}

static kt_status quantize_all(quantize_run *q, kt__convert_report *report, kt_error *err) {
    kt__type_rule *auto_rules = NULL;
    kt_status status = KT_OK;
    KT__TRY(kt__write_check_target(q->output.target, q->opts->imatrix, err));
    KT__TRY(kt__write_check_target(q->output.target, q->opts->feedback.text, err));
    q->output.effort = q->opts->fit == FIT_FAST ? KT__EFFORT_FAST : KT__EFFORT_CAREFUL;
    if (q->opts->imatrix) {
        KT__TRY(kt__imatrix_read(q->opts->imatrix, &q->importance, err));
        q->params.importance = &q->importance;
    }
    if (q->is_auto) KT__TRY(add_auto_rules(q, &auto_rules, err));
    if (q->opts->fit == FIT_FEEDBACK) KT__TRY(open_feedback(q, err));
    status = kt__quantize_file(&q->params, &q->output, report, err);
out:
    kt__feedback_maker_close(q->maker);
    kt__free(auto_rules);
    kt__auto_recipe_free(&q->chosen);
    kt__imatrix_free(&q->importance);
    return status;
}

static int quantize_with(quantize_run *q, const char *target) {
    const kt__opt_texts *keep = &q->opts->keep;
    kt__byte_progress progress = {0};
    kt__convert_report report;
    kt_error err;
    kt__type_rule *rules = kt__calloc(keep->n + 1, sizeof *rules);
    if (!rules) return kt__cli_error("quantize", KT_E_NOMEM, NULL, "out of memory");
    for (size_t i = 0; i < keep->n; i++) {
        if (!parse_rule(keep->items[i], &rules[i])) {
            free_rules(rules, i);
            return kt__cli_usage_error("quantize", "--keep \"%.80s\": PATTERN=TYPE is expected",
                                       keep->items[i]);
        }
    }
    q->params.rules = rules;
    q->params.n_rules = keep->n;
    q->output = kt__write_output("quantize", target, &q->opts->write, &progress);
    kt_status status = quantize_all(q, &report, &err);
    free_rules(rules, keep->n);
    return kt__write_end("quantize", target, &progress, status, &report, &err);
}

static int quantize_words(const struct quantize_opts *opts, const char *const *words,
                          size_t n_words) {
    quantize_run q = {.opts = opts,
                      .params = {.source = words[0], .target_bytes = opts->target_bytes},
                      .is_auto = n_words == 3 && kt__strcasecmp(words[2], "auto") == 0};
    bool has_kl = opts->target_kl > 0.0f;
    if (q.is_auto && opts->has_target == has_kl)
        return kt__cli_usage_error("quantize", "auto takes either --target-size or --target-kl");
    if (has_kl && !q.is_auto)
        return kt__cli_usage_error("quantize", "--target-kl is for the type auto");
    if (!q.is_auto && (n_words == 3) == opts->has_target)
        return kt__cli_usage_error("quantize", "either TYPE or --target-size is expected");
    if (n_words == 3 && !q.is_auto) {
        q.params.recipe = kt__recipe_find(words[2]);
        if (!q.params.recipe) return kt__write_unknown_recipe("quantize", words[2]);
    }
    return quantize_with(&q, words[1]);
}

int kt__cmd_quantize(int argc, char **argv) {
    struct quantize_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", quantize_table, KT__COUNT(quantize_table), &opts},
                                    kt__write_group(&opts.write)};
    char notes[1024];
    size_t used = kt__write_list_names(notes, sizeof notes, "Types", kt__recipe_count(),
                                       kt__write_recipe_name);
    snprintf(notes + used, sizeof notes - used,
             "  auto: for --target-size or --target-kl, each matrix as its own loss asks for\n"
             "\nExample: kentang quantize model-bf16.gguf model.gguf q4_k_m\n"
             "         kentang quantize model-bf16.gguf model.gguf --target-size 2G\n");
    const kt__syntax syntax = {
        .command = "quantize",
        .usage = "[OPTIONS] IN.gguf OUT.gguf [TYPE]",
        .about = "Writes a copy of a model with its matrices in another type. Best from a file of\n"
                 "F32, F16 or BF16 weights: what an earlier quantisation has lost stays lost.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .min_words = 2,
        .max_words = 3,
        .word = "IN.gguf, OUT.gguf or TYPE",
        .notes = notes};
    const char *words[3] = {NULL, NULL, NULL};
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code < 0) code = quantize_words(&opts, words, n_words);
    kt__opt_texts_free(&opts.keep);
    return code;
}
