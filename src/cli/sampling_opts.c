#include "cli/sampling_opts.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define SAMPLING(member) offsetof(kt__sampling_opts, params.sampling.member)
#define NUMBER(option, other, member, low, high, text)                                            \
    {                                                                                             \
        .name = option, .also = other, .kind = KT__OPT_FLOAT, .at = SAMPLING(member), .min = low, \
        .max = high, .arg = "F", .help = text                                                     \
    }
#define WHOLE(option, other, member, low, high, text)                                           \
    {                                                                                           \
        .name = option, .also = other, .kind = KT__OPT_INT, .at = SAMPLING(member), .min = low, \
        .max = high, .arg = "N", .help = text                                                   \
    }
#define TEXTS(option, other, member, value, text)                             \
    {                                                                         \
        .name = option, .also = other, .kind = KT__OPT_TEXTS,                 \
        .at = offsetof(kt__sampling_opts, member), .arg = value, .help = text \
    }

static const kt__opt table[] = {
    {.name = "seed",
     .brief = "s",
     .kind = KT__OPT_SEED,
     .at = SAMPLING(seed),
     .arg = "N",
     .help = "the same seed gives the same answer (default: random, and printed)"},
    NUMBER("temp", "temperature", temperature, -1e6, 1e6, "temperature; 0 is greedy (default 0.8)"),
    {.name = "greedy",
     .kind = KT__OPT_ON,
     .at = offsetof(kt__sampling_opts, greedy),
     .help = "always the most probable token: the same as --temp 0"},
    WHOLE("top-k", NULL, top_k, -1, INT_MAX, "keep the N most probable (default 40; 0: off)"),
    NUMBER("top-p", NULL, top_p, 0, 1,
           "keep the most probable up to this mass (default 0.95; 1: off)"),
    NUMBER("min-p", NULL, min_p, 0, 1,
           "keep what is at least this share of the most probable (default 0.05; 0: off)"),
    NUMBER("typical", "typical-p", typical_p, 0, 1, "locally typical sampling (default 1: off)"),
    NUMBER("top-nsigma", "top-n-sigma", top_n_sigma, -1e6, 1e6,
           "keep logits within F standard deviations of the greatest (default -1: off)"),
    NUMBER("xtc-probability", NULL, xtc_probability, 0, 1,
           "how often to exclude top choices (default 0: off)"),
    NUMBER("xtc-threshold", NULL, xtc_threshold, 0, 1,
           "probability from which a choice is a top choice (default 0.1)"),
    NUMBER("dynatemp-range", NULL, dynatemp_range, 0, 1e6,
           "temperature varies by this much with the entropy (default 0: off)"),
    NUMBER("dynatemp-exp", "dynatemp-exponent", dynatemp_exponent, 0, 100,
           "curve of the dynamic temperature (default 1)"),
    WHOLE("repeat-last-n", NULL, repeat_last_n, -1, INT_MAX,
          "tokens that penalties look at (default 64; 0: off, -1: the context)"),
    NUMBER("repeat-penalty", NULL, repeat_penalty, 1e-3, 1e3,
           "repetition penalty (default 1: off)"),
    NUMBER("frequency-penalty", NULL, frequency_penalty, -1e3, 1e3,
           "penalty for each occurrence (default 0: off)"),
    NUMBER("presence-penalty", NULL, presence_penalty, -1e3, 1e3,
           "penalty for having occurred (default 0: off)"),
    NUMBER("dry-multiplier", NULL, dry_multiplier, 0, 1e3,
           "DRY: strength of the penalty for repeated sequences (default 0: off)"),
    NUMBER("dry-base", NULL, dry_base, 1, 1e3,
           "DRY: growth with each further token (default 1.75)"),
    WHOLE("dry-allowed-length", NULL, dry_allowed_length, 1, INT_MAX,
          "DRY: repetitions up to this length are free (default 2)"),
    WHOLE("dry-penalty-last-n", NULL, dry_penalty_last_n, -1, INT_MAX,
          "DRY: tokens it looks at (default -1: the context; 0: off)"),
    TEXTS(
        "dry-sequence-breaker", NULL, breakers, "TEXT",
        "DRY: a repetition does not reach over this; may be repeated; \"none\" for none (default: "
        "newline, colon, quote, asterisk)"),
    WHOLE("mirostat", NULL, mirostat, 0, 2, "mirostat 1 or 2 instead of the cuts (default 0: off)"),
    NUMBER("mirostat-ent", "mirostat-tau", mirostat_tau, 0, 1e3,
           "mirostat: target surprise in bits (default 5)"),
    NUMBER("mirostat-lr", "mirostat-eta", mirostat_eta, 0, 100,
           "mirostat: learning rate (default 0.1)"),
    TEXTS("logit-bias", NULL, bias, "ID+F",
          "add F to a token's logit, as 15043+1.5 or 15043-inf; may be repeated"),
    {.name = "samplers",
     .kind = KT__OPT_TEXT,
     .at = SAMPLING(chain),
     .arg = "LIST",
     .help = "order of the chain (default "
             "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature)"},
    WHOLE("min-keep", NULL, min_keep, 0, INT_MAX, "candidates that every cut leaves (default 0)"),
    TEXTS("stop", "reverse-prompt", stop, "TEXT",
          "end the answer at this text, which is not shown; may be repeated"),
    {.name = "ignore-eos",
     .kind = KT__OPT_ON,
     .at = offsetof(kt__sampling_opts, params.ignore_eog),
     .help = "go on past the end of the model's turn"},
};

kt__sampling_opts kt__sampling_opts_default(void) {
    return (kt__sampling_opts){.params = kt_gen_params_default()};
}

void kt__sampling_opts_free(kt__sampling_opts *opts) {
    kt__opt_texts_free(&opts->stop);
    kt__opt_texts_free(&opts->breakers);
    kt__opt_texts_free(&opts->bias);
    kt__free(opts->bias_items);
    opts->bias_items = NULL;
}

static const kt__opt length_table[] = {
    {.name = "predict",
     .brief = "n",
     .also = "n-predict",
     .kind = KT__OPT_INT,
     .at = offsetof(kt__sampling_opts, params.n_predict),
     .min = -1,
     .max = 1 << 30,
     .arg = "N",
     .help = "tokens to generate at most, where a request does not say (default -1: until the end "
             "of the turn)"},
};

kt__opt_group kt__sampling_opts_length_group(kt__sampling_opts *opts) {
    return (kt__opt_group){"Length", length_table, KT__COUNT(length_table), opts};
}

kt__opt_group kt__sampling_opts_group(kt__sampling_opts *opts) {
    return (kt__opt_group){"Sampling and stopping", table, KT__COUNT(table), opts};
}

/* "15043+1.5", "15043-2", "15043-inf", "15043=0.5" */
static kt_status parse_bias(const char *text, kt_logit_bias *out, kt_error *err) {
    char *end;
    long long id = strtoll(text, &end, 10);
    const char *value = *end == '=' ? end + 1 : end;
    char *value_end = NULL;
    bool named = end != text && (*end == '+' || *end == '-' || *end == '=');
    double bias = named ? strtod(value, &value_end) : NAN;
    if (!named || value_end == value || *value_end || isnan(bias) || id < 0 || id > INT32_MAX) {
        return kt__fail(err, KT_E_ARG,
                        "--logit-bias \"%.60s\": expected a token id and a bias, as 15043+1.5 or "
                        "15043-inf",
                        text);
    }
    *out = (kt_logit_bias){(int32_t)id, (float)bias};
    return KT_OK;
}

kt_status kt__sampling_opts_finish(kt__sampling_opts *opts, kt_error *err) {
    kt_sampling *sampling = &opts->params.sampling;
    if (opts->greedy) sampling->temperature = 0.0f;
    opts->params.stop = opts->stop.items;
    opts->params.n_stop = opts->stop.n;
    if (opts->breakers.n) {
        sampling->dry_breakers = opts->breakers.items;
        sampling->n_dry_breakers = opts->breakers.n;
        if (opts->breakers.n == 1 && !strcmp(opts->breakers.items[0], "none")) {
            sampling->n_dry_breakers = 0;
        }
    }
    if (!opts->bias.n) return KT_OK;
    kt__free(opts->bias_items);
    opts->bias_items = kt__calloc(opts->bias.n, sizeof *opts->bias_items);
    if (!opts->bias_items)
        return kt__fail_nomem(err, "logit biases", opts->bias.n * sizeof *opts->bias_items);
    for (size_t i = 0; i < opts->bias.n; i++) {
        kt_status status = parse_bias(opts->bias.items[i], &opts->bias_items[i], err);
        if (status != KT_OK) return status;
    }
    sampling->logit_bias = opts->bias_items;
    sampling->n_logit_bias = opts->bias.n;
    return KT_OK;
}
