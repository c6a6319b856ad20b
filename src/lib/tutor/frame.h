/* What a chat template writes around a first question.
 *
 * Owns: these tokens, and finding a question between them. Any thread. */
#ifndef KT_TUTOR_FRAME_H
#define KT_TUTOR_FRAME_H

#include "context/types.h"
#include "learn/sample.h"

/* Ahead of the question, and after it up to the answer; none of a model without a template. */
typedef struct kt__prompt_frame {
    int32_t *ahead, *after;
    size_t n_ahead, n_after;
    size_t opener; /* where in ahead what opens a user's turn begins: its last control token */
} kt__prompt_frame;

kt_status kt__frame_find(const kt_model *model, kt__prompt_frame *out, kt_error *err) KT_CHECKED;
void kt__frame_free(kt__prompt_frame *frame);
/* Where the question is in a sample's prompt; false: it is not the first one of a conversation. */
bool kt__frame_question(const kt__prompt_frame *frame, const kt_model *model, const kt__sample *sample,
                        size_t *begin, size_t *end);
/* Where the question is that the sample answers: of any turn, and whatever is ahead of it. */
bool kt__frame_last_question(const kt__prompt_frame *frame, const kt_model *model,
                             const kt__sample *sample, size_t *begin, size_t *end);
/* A prompt with that question: before[n_before] (the frame's beginning, or what is ahead in a sample), the question,
 * and what is after it. *ids: for kt__free. */
kt_status kt__frame_prompt(const kt__prompt_frame *frame, const kt_model *model, const int32_t *before,
                           size_t n_before, const char *question, int32_t **ids, size_t *n,
                           kt_error *err) KT_CHECKED;
/* Tokens as a text of out[size]; false: it is longer, or no text. */
bool kt__frame_text(const kt_model *model, const int32_t *ids, size_t n, char *out, size_t size);

#endif
