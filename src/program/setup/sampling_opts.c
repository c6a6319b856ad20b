#include "setup/sampling_opts.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define SAMPLING(member) offsetof(kt__sampling_opts, params.sampling.member)
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
#define ARG_FLOAT "F"
#define ARG_INT "N"
#define NUMBER(type, member, value, low, high, option, second, text) \
    {.name = option,                                                 \
     .also = second,                                                 \
     .kind = KT__OPT_##type,                                         \
     .at = SAMPLING(member),                                         \
     .min = low,                                                     \
     .max = high,                                                    \
     .arg = ARG_##type,                                              \
     .help = text},
#include "sample/steps.def"
    {.name = "greedy",
     .kind = KT__OPT_ON,
     .at = offsetof(kt__sampling_opts, greedy),
     .help = "always the most probable token: the same as --temp 0"},
    TEXTS(
        "dry-sequence-breaker", NULL, breakers, "TEXT",
        "DRY: a repetition does not reach over this; may be repeated; \"none\" for none (default: "
        "newline, colon, quote, asterisk)"),
    TEXTS("logit-bias", NULL, bias, "ID+F",
          "add F to a token's logit, as 15043+1.5 or 15043-inf; may be repeated"),
    {.name = "samplers",
     .kind = KT__OPT_TEXT,
     .at = SAMPLING(chain),
     .arg = "LIST",
     .help = "order of the chain, with ; between (default:"
#define STEP(KIND, name, ...) " " #name
#include "sample/steps.def"
             ")"},
    TEXTS("stop", "reverse-prompt", stop, "TEXT",
          "end the answer at this text, which is not shown; may be repeated"),
    {.name = "ignore-eos",
     .kind = KT__OPT_ON,
     .at = offsetof(kt__sampling_opts, params.ignore_eog),
     .help = "continue past the end of the model's turn"},
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
