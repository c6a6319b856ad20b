/* Lessons: files of feedback as samples that learning takes.
 *
 * Owns: the lines' form, their tokens (an answer's are what the chat template makes of it, up to the
 * token that ends it), and what the model itself writes for them: its own answers to questions that
 * it shall answer as before, and conversations of its own for replay. One thread. */
#ifndef KT_LAB_LESSON_H
#define KT_LAB_LESSON_H

#include "cli/session.h"
#include "learn/learn.h"

typedef struct kt__lesson {
    kt__sample *samples;
    size_t n, cap;
    uint64_t next_group; /* of a line without a name for its conversation */
} kt__lesson;

void kt__lesson_free(kt__lesson *lesson);
/* A JSON object a line: "messages" (the last may be the answer) or "prompt", and "correction",
 * "answer" with "rating" ("up", "down") or without (it shall be learned), or "keep": true (an
 * answer that shall stay as it is; without one, the model's own answer). Besides "conversation" (a
 * name: lines that belong together), "weight" and "earlier". A question alone is "keep". Errors
 * name the line. */
kt_status kt__lesson_read(kt__lesson *lesson, kt__session *session, const char *path,
                          kt_error *err) KT_CHECKED;
/* n conversations that the model itself writes, question and answer, at random by the seed. */
kt_status kt__lesson_write_own(kt__lesson *lesson, kt__session *session, int n, uint64_t seed,
                               kt_error *err) KT_CHECKED;
size_t kt__lesson_count(const kt__lesson *lesson, kt__sample_kind kind);
/* The token that ends an answer in the model's template, or -1. */
int32_t kt__lesson_end_token(const kt__session *session);

#endif
