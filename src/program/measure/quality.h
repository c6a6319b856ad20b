/* How well a model predicts, and how far two models are apart.
 *
 * Owns: log-probabilities, divergences and the figures made of them (quality.c), the files that keep them
 * (kld_file.c), the cut of a text (text_score.c), multiple choice (choices.c), and what `kentang perplexity` and
 * `kentang compare` share (judge.c). One thread. */
#ifndef KT_MEASURE_QUALITY_H
#define KT_MEASURE_QUALITY_H

#include "setup/session.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A row of logits, normalised: log p(i) = logits[i] - log_sum. */
typedef struct kt__log_row {
    const float *logits; /* [n_vocab] */
    double log_sum;      /* of e^logits */
    int32_t best;        /* the most probable id, the lowest of equals */
} kt__log_row;

/* weights: [n_vocab] scratch. KT_E_NUMERIC if a logit is not finite. */
kt_status kt__log_row_make(const float *logits, size_t n_vocab, float *weights, kt__log_row *out,
                           kt_error *err) KT_CHECKED;
double kt__log_row_at(const kt__log_row *row, int32_t id); /* log p(id) */

/* A base's row that another is compared with, in whatever form it is kept. */
typedef struct kt__base_row {
    double (*log_prob)(const void *row, int32_t id);
    const void *row;
    int32_t best; /* the most probable id, the lowest of equals */
    double floor; /* ids of log_prob at most this are left out of the divergence */
} kt__base_row;
/* As a base. row stays the caller's. */
kt__base_row kt__log_row_as_base(const kt__log_row *row);

/* What is summed over the scored tokens of a text. */
typedef struct kt__quality {
    double *nll;      /* -log p of each scored token */
    double *base_nll; /* of the base, where there is one */
    double *kl;       /* sum over ids of p_base (log p_base - log p) */
    double *dp;       /* p - p_base of the scored token */
    size_t n, cap;
    size_t n_same; /* rows whose most probable id is the base's */
    bool has_base;
} kt__quality;

void kt__quality_free(kt__quality *q);
/* Adds the token that came after the row. */
kt_status kt__quality_add(kt__quality *q, const kt__log_row *row, int32_t id,
                          kt_error *err) KT_CHECKED;
/* The same, compared with a base. */
kt_status kt__quality_add_beside(kt__quality *q, const kt__log_row *row, int32_t id,
                                 const kt__base_row *base, size_t n_vocab,
                                 kt_error *err) KT_CHECKED;

/* The figures. An error is one standard error. */
typedef struct kt__quality_figures {
    size_t n;
    double ppl, ppl_error;
    double nll; /* mean, nats a token */
    /* with a base */
    double base_ppl, base_ppl_error;
    double ln_ratio, ln_ratio_error; /* of the perplexities */
    double correlation;              /* of the two models' nll */
    double kl, kl_error, kl_median, kl_90, kl_99, kl_999, kl_max;
    double dp, dp_rms, dp_rms_error; /* of probabilities, 0 to 1 */
    double same, same_error;         /* share of rows with the same most probable id */
} kt__quality_figures;

/* Sorts q->kl. q->n >= 2. */
void kt__quality_figures_of(kt__quality *q, kt__quality_figures *out);

/* The bounds of a share k of n at 95% (Wilson 1927). */
void kt__wilson(size_t k, size_t n, double *low, double *high);

/* Files of a base model's log-probabilities, as llama-perplexity writes and reads them (--kl-divergence-base).
 *
 * The format, both ways. Little-endian: "_logits_", i32 n_ctx, n_vocab, n_chunk, i32 tokens[n_chunk][n_ctx], then for
 * each chunk and each position from n_ctx/2 to n_ctx - 2 a row: f32 scale, f32 lowest, u16 codes[n_vocab, made even];
 * log p = lowest + scale code, cut 16 below the greatest. One thread a file. */

typedef struct kt__kld_file {
    FILE *file;
    char path[512];
    int32_t n_ctx, n_vocab, n_chunk;
    int32_t *tokens; /* [n_chunk][n_ctx] */
    /* the row at hand */
    float scale, lowest;
    uint16_t *codes; /* [n_vocab, made even] */
} kt__kld_file;

/* Header and tokens are read and checked, also against the file's length. KT_E_FORMAT,
 * KT_E_TRUNCATED or KT_E_IO. Close in any case; a zeroed struct can be closed. */
kt_status kt__kld_open(const char *path, kt__kld_file *out, kt_error *err) KT_CHECKED;
/* Reads the next row; *row refers to the file's own memory, until the next call. */
kt_status kt__kld_next(kt__kld_file *file, kt__base_row *row, kt_error *err) KT_CHECKED;

/* A new file; tokens: [n_chunk][n_ctx]. An existing one is overwritten. */
kt_status kt__kld_create(const char *path, int32_t n_ctx, int32_t n_vocab, int32_t n_chunk,
                         const int32_t *tokens, kt__kld_file *out, kt_error *err) KT_CHECKED;
/* The next row: its logits as 16-bit codes, with their scale and lowest value. In the order of the chunks. */
kt_status kt__kld_put(kt__kld_file *file, const kt__log_row *row, kt_error *err) KT_CHECKED;
/* After the last row: what is still buffered goes to the system. An error here means that the file is not whole. */
kt_status kt__kld_finish(kt__kld_file *file, kt_error *err) KT_CHECKED;
void kt__kld_close(kt__kld_file *file);

/* A text judged by a model, as llama-perplexity judges it.
 *
 * The cut of a text into chunks, which positions of a chunk are scored, and the evaluation that feeds an accumulator
 * (quality.h). Without a stride, chunks do not overlap and the second half of each is scored; with one, chunks begin
 * `stride` tokens apart and the last `stride` tokens of each are scored. Where the model's rule adds BOS, it takes
 * the place of a chunk's first token. */

typedef struct kt__text_score {
    int32_t n_ctx, stride; /* tokens; stride 0: none */
    const int32_t *tokens; /* of the whole text */
    size_t n_tokens;
    size_t n_chunk_max; /* 0: all */
    /* what it is compared with: at most one */
    kt__session *base;
    kt__kld_file *base_file;
    kt__kld_file *save;  /* rows go there as well, or NULL */
    const char *command; /* for the line of progress on stderr; NULL: none */
} kt__text_score;

/* All ids of a text, by the model's rule for BOS and EOS, and more flags of kt_tokenize; for
 * kt__free. / */
kt_status kt__text_ids(const kt_model *model, const char *text, size_t len, unsigned flags,
                       int32_t **ids, size_t *n_ids, kt_error *err) KT_CHECKED;
/* How many chunks there are. 0: the text is too short. */
size_t kt__text_score_chunks(const kt__text_score *t);
/* Positions of a context that it takes. */
int32_t kt__text_score_ctx(const kt__text_score *t);
/* What a run cost. */
typedef struct kt__text_score_cost {
    uint64_t bytes;  /* what the scored tokens are as text */
    int64_t n_tok;   /* evaluated by each model */
    int64_t ns;      /* in the session's own model */
    int64_t base_ns; /* in the base */
} kt__text_score_cost;

/* Adds every scored token to *out. */
kt_status kt__text_score_run(const kt__text_score *t, kt__session *session, kt__quality *out,
                             kt__text_score_cost *cost, kt_error *err) KT_CHECKED;

/* Multiple choice: which of several endings a model finds most probable.
 *
 * Reading tasks, and the score: the mean log-probability of an ending's tokens after the context, as llama-perplexity
 * --hellaswag and the acc_norm of other harnesses compare them. Two forms of file: lines in groups of six (context,
 * number of the right ending, four endings), as llama.cpp's HellaSwag files are; and JSON lines as on the hubs:
 * {"ctx", "endings", "label"} or {"question", "choices": {"text", "label"}, "answerKey"} or {"question", "choices":
 * [...], "answer": index}. One thread. */

typedef struct kt__choice_task {
    char *context;
    char **endings; /* [n] */
    size_t n, right;
} kt__choice_task;

typedef struct kt__choice_tasks {
    kt__choice_task *items;
    size_t n, cap;
} kt__choice_tasks;

/* KT_E_FORMAT with the line; free in any case. */
kt_status kt__choice_tasks_read(const char *path, kt__choice_tasks *out, kt_error *err) KT_CHECKED;
void kt__choice_tasks_free(kt__choice_tasks *tasks);

/* Whether the model chooses the right ending. A task that does not fit the context is
 * KT_E_CONTEXT_FULL. */
kt_status kt__choice_score(const kt__choice_task *task, kt__session *session, bool *right,
                           kt_error *err) KT_CHECKED;

/* What `kentang perplexity` and `kentang compare` share.
 *
 * The options that say which text is judged and how, a second model next to the first, and the printing of figures.
 * One thread. */

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
