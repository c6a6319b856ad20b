/* A text judged by a model, as llama-perplexity judges it.
 *
 * Owns: the cut of a text into chunks, which positions of a chunk are scored, and the evaluation
 * that feeds an accumulator (quality.h). Without a stride, chunks do not overlap and the second
 * half of each is scored; with one, chunks begin `stride` tokens apart and the last `stride` tokens
 * of each are scored. Where the model's rule adds BOS, it takes the place of a chunk's first token.
 * One thread. */
#ifndef KT_MEASURE_TEXT_SCORE_H
#define KT_MEASURE_TEXT_SCORE_H

#include "measure/kld_file.h"
#include "setup/session.h"

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

#endif
