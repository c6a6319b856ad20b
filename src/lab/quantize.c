/* kentang quantize: makes a GGUF file of another type of weights. */
#include "convert/quantize.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "lab/recipes.h"

struct quantize_opts {
    kt__opt_texts keep;
    uint64_t target_bytes;
    bool has_target;
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
    const kt__convert_output output = kt__lab_output("quantize", target, &opts->write, &progress);
    kt_status status = kt__quantize_file(params, &output, &report, &err);
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
