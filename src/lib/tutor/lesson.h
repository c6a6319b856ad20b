/* Lessons: conversations as the samples that learning takes.
 *
 * Owns: a growing list of samples with their tokens; what the chat template makes of a conversation (what it writes
 * around a question, which tokens are an answer, up to the one that ends it; of a model without a template: the texts
 * as they are); and what the model itself writes for its lessons: its own answers to questions that it shall answer
 * as before, and conversations of its own for replay. One thread a lesson; besides others that use the engine, or
 * driving it where no thread does. */
#ifndef KT_TUTOR_LESSON_H
#define KT_TUTOR_LESSON_H

#include "base/buf.h"
#include "context/types.h"
#include "learn/sample.h"

/* What a chat template writes around a first question.
 *
 * These tokens, and finding a question between them. Any thread. */

/* Ahead of the question, and after it up to the answer; none of a model without a template. */
typedef struct kt__prompt_frame {
    int32_t *ahead, *after;
    size_t n_ahead, n_after;
    size_t opener; /* where in ahead what opens a user's turn begins: its last control token */
} kt__prompt_frame;

kt_status kt__frame_find(const kt_model *model, kt__prompt_frame *out, kt_error *err) KT_CHECKED;
void kt__frame_free(kt__prompt_frame *frame);
/* Where the question is in a sample's prompt; false: it is not the first one of a conversation. */
bool kt__frame_question(const kt__prompt_frame *frame, const kt_model *model,
                        const kt__sample *sample, size_t *begin, size_t *end);
/* Where the question is that the sample answers: of any turn, and whatever is ahead of it. */
bool kt__frame_last_question(const kt__prompt_frame *frame, const kt_model *model,
                             const kt__sample *sample, size_t *begin, size_t *end);
/* A prompt with that question: before[n_before] (the frame's beginning, or what is ahead in a sample), the question,
 * and what is after it. *ids: for kt__free. */
kt_status kt__frame_prompt(const kt__prompt_frame *frame, const kt_model *model,
                           const int32_t *before, size_t n_before, const char *question,
                           int32_t **ids, size_t *n, kt_error *err) KT_CHECKED;
/* Tokens as a text of out[size]; false: it is longer, or no text. */
bool kt__frame_text(const kt_model *model, const int32_t *ids, size_t n, char *out, size_t size);

/* Work of the lowest priority next to others on an engine: it waits where the queue is full, and ends when
 * its owner asks it to.
 *
 * Owns: that waiting, and the error of what was cancelled. One thread at a time. */

/* Asked between computations; false: KT_E_CANCELLED. NULL: always. */
typedef struct kt__tutor_patience {
    bool (*go_on)(void *user);
    void *user;
} kt__tutor_patience;

kt_status kt__patience_check(const kt__tutor_patience *patience, kt_error *err) KT_CHECKED;
/* Whether a call that gave this status is to be made again: the queue was full, and was waited for. */
bool kt__patience_again(kt_engine *engine, kt_status status);
/* kt_engine_submit, so. */
kt_status kt__patience_submit(kt_engine *engine, const kt_request_params *request,
                              const kt__tutor_patience *patience, kt_request **out,
                              kt_error *err) KT_CHECKED;

enum { KT__LESSON_MESSAGES_MAX = 256 };

typedef struct kt__lesson {
    kt__sample *samples;
    size_t n, cap;
    uint64_t next_group; /* of a sample without a name for its conversation */
} kt__lesson;

void kt__lesson_free(kt__lesson *lesson);
size_t kt__lesson_count(const kt__lesson *lesson, kt__sample_kind kind);
/* prompt[n_prompt] and its answer[n_answer], copied; like: all but its tokens. */
kt_status kt__lesson_add_tokens(kt__lesson *lesson, const int32_t *prompt, size_t n_prompt,
                                const int32_t *answer, size_t n_answer, const kt__sample *like,
                                kt_error *err) KT_CHECKED;
/* An answer to messages[n]. Of replay, the answers among the messages count as well. KT_E_LIMIT,
 * KT_E_UNSUPPORTED: a conversation for a model without a chat template. */
kt_status kt__lesson_add_answer(kt__lesson *lesson, const kt_model *model,
                                const kt_message *messages, size_t n, const char *answer,
                                const kt__sample *like, kt_error *err) KT_CHECKED;
/* What the model answers, the likeliest tokens; "" where it says nothing. */
kt_status kt__lesson_write_answer(kt_engine *engine, const kt_message *messages, size_t n,
                                  kt__buf *out, kt_error *err) KT_CHECKED;

/* How conversations of its own are written. */
typedef struct kt__lesson_own {
    int n;
    int first; /* those before it are there already; a multiple of 16 */
    uint64_t seed;
    int32_t priority; /* of the requests: below 0 they wait for all others */
    kt__tutor_patience patience;
    void (*progress)(void *user, int done); /* of n; or NULL; user: patience.user */
} kt__lesson_own;
/* Conversations that the model itself writes, question and answer, at random by the seed. */
kt_status kt__lesson_write_own(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                               kt_error *err) KT_CHECKED;
/* The token that ends an answer in the model's template, or -1. */
int32_t kt__lesson_end_token(const kt_model *model);

#endif
