/* What `kentang perplexity` and `kentang compare` share.
 *
 * Owns: the options that say which text is judged and how, a second model next to the first, and
 * the printing of figures. One thread. */
#ifndef KT_MEASURE_JUDGE_H
#define KT_MEASURE_JUDGE_H

#include "measure/text_score.h"

typedef struct kt__judge_opts {
    bool json, parse_special;
    const char *text;
    int32_t n_ctx, stride, n_chunk;
} kt__judge_opts;

kt__judge_opts kt__judge_opts_default(void);
/* -f, --context, --stride, --chunks, --parse-special, --json */
kt__opt_group kt__judge_opts_group(kt__judge_opts *opts);
/* Without tokens yet. */
kt__text_score kt__judge_score(const kt__judge_opts *opts, const char *command);
/* Flags of kt_tokenize for the text. */
unsigned kt__judge_text_flags(const kt__judge_opts *opts);
/* The text of -f, which is in *text for kt__free; its bytes are capped. */
kt_status kt__judge_read_text(const kt__judge_opts *opts, char **text, size_t *len,
                              kt_error *err) KT_CHECKED;
/* KT_E_ARG, with the numbers, if not one chunk is there or fewer than two tokens would be
 * scored. */
kt_status kt__judge_check_length(const kt__text_score *t, kt_error *err) KT_CHECKED;
/* Another model, opened with the same options as the first. */
kt_status kt__judge_open_other(const kt__session_opts *opts, const char *path, kt__session *out,
                               kt_error *err) KT_CHECKED;
double kt__judge_bits_per_byte(const kt__quality_figures *figures, const kt__text_score_cost *cost);
double kt__judge_tok_s(int64_t n_tok, int64_t ns); /* 0: no time was measured */
/* On stdout: a few lines, or one JSON object. */
void kt__judge_print(const kt__judge_opts *opts, const kt__text_score *t,
                     const kt__quality_figures *figures, const kt__text_score_cost *cost);

#endif
