/* kentang quantize: makes a GGUF file of another type of weights. */
#include "convert/quantize.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "lab/feedback_source.h"
#include "lab/recipes.h"

enum { FIT_CAREFUL, FIT_FAST, FIT_FEEDBACK }; /* as --fit lists them */

struct quantize_opts {
    kt__opt_texts keep;
    uint64_t target_bytes;
    bool has_target;
    const char *imatrix;
    int fit;
    kt__feedback_opts feedback;
    kt__lab_write_opts write;
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
     .help = "in place of TYPE: the best recipe whose file is at most that large; 5G, 800M"},
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
     .help = "the text for --fit feedback: like those the model will read, in their language "
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

static int quantize_with(const struct quantize_opts *opts, kt__quantize_params *params,
                         const char *target) {
    kt__byte_progress progress = {0};
    kt__convert_report report;
    kt_error err;
    kt__type_rule *rules = kt__calloc(opts->keep.n + 1, sizeof *rules);
    if (!rules) return kt__cli_error("quantize", KT_E_NOMEM, NULL, "out of memory");
    for (size_t i = 0; i < opts->keep.n; i++) {
        if (!parse_rule(opts->keep.items[i], &rules[i])) {
            free_rules(rules, i);
            return kt__cli_usage_error("quantize", "--keep \"%.80s\": PATTERN=TYPE is expected",
                                       opts->keep.items[i]);
        }
    }
    params->rules = rules;
    params->n_rules = opts->keep.n;
    kt__imatrix importance = {0};
    kt__convert_output output = kt__lab_output("quantize", target, &opts->write, &progress);
    kt__feedback_maker *maker = NULL;
    output.effort = opts->fit == FIT_FAST ? KT__EFFORT_FAST : KT__EFFORT_CAREFUL;
    kt_status status = KT_OK;
    if (opts->imatrix) {
        status = kt__imatrix_read(opts->imatrix, &importance, &err);
        params->importance = &importance;
    }
    if (status == KT_OK && opts->fit == FIT_FEEDBACK) {
        kt__feedback_opts feedback = opts->feedback;
        feedback.model = params->source;
        feedback.n_threads = output.n_threads;
        status = kt__feedback_maker_open(&feedback, &maker, &err);
        if (status == KT_OK) output.feedback = kt__feedback_maker_source(maker);
    }
    if (status == KT_OK) status = kt__quantize_file(params, &output, &report, &err);
    kt__imatrix_free(&importance);
    kt__feedback_maker_close(maker);
    free_rules(rules, opts->keep.n);
    return kt__lab_end("quantize", target, &progress, status, &report, &err);
}

static int quantize_words(const struct quantize_opts *opts, const char *const *words,
                          size_t n_words) {
    kt__quantize_params params = {.source = words[0], .target_bytes = opts->target_bytes};
    if ((n_words == 3) == opts->has_target)
        return kt__cli_usage_error("quantize", "either TYPE or --target-size is expected");
    if (n_words == 3) {
        params.recipe = kt__recipe_find(words[2]);
        if (!params.recipe) return kt__lab_unknown_recipe("quantize", words[2]);
    }
    return quantize_with(opts, &params, words[1]);
}

int kt__cmd_quantize(int argc, char **argv) {
    struct quantize_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", quantize_table, KT__COUNT(quantize_table), &opts},
                                    kt__lab_write_group(&opts.write)};
    char notes[1024];
    size_t used = kt__lab_list_names(notes, sizeof notes, "Types", kt__recipe_count(),
                                     kt__lab_recipe_name);
    snprintf(notes + used, sizeof notes - used,
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
