/* What a model writes after given tokens, for its lessons.
 *
 * Owns: a request of low priority that waits where the queue is full. One thread; besides others that use the engine,
 * or driving it where no thread does. */
#ifndef KT_TUTOR_ASKED_H
#define KT_TUTOR_ASKED_H

#include "tutor/lesson.h"

enum { KT__ANSWER_MAX = 160 /* tokens */ };

/* out[*n_out], at most cap: the tokens that follow ids[n], to the end of turn, which is not among them; *ended: there was
 * one. KT_E_CANCELLED. */
kt_status kt__asked_write(kt_engine *engine, const kt__lesson_own *own, const int32_t *ids,
                          size_t n, float temperature, uint64_t seed, int32_t *out, size_t cap,
                          size_t *n_out, bool *ended, kt_error *err) KT_CHECKED;
/* A prompt and its likeliest answer, the end of turn included. */
typedef struct kt__ask {
    int32_t *ids; /* [n], for kt__free */
    size_t n;
    int32_t answer[KT__ANSWER_MAX + 1];
    size_t n_answer; /* 0: it says nothing, or does not come to an end */
} kt__ask;

enum { KT__ASKS_AT_ONCE = 16 };
/* The answers to asks[n], at most KT__ASKS_AT_ONCE, by the model alone. KT_E_CANCELLED. */
kt_status kt__asked_all(kt_engine *engine, const kt__lesson_own *own, kt__ask *asks, size_t n,
                        kt_error *err) KT_CHECKED;
/* The same at random, of at most cap tokens; the seed counts up with them. */
kt_status kt__asked_drawn(kt_engine *engine, const kt__lesson_own *own, kt__ask *asks, size_t n,
                          float temperature, uint64_t seed, size_t cap, kt_error *err) KT_CHECKED;
/* The likeliest answer to prompt[n], of the model alone, as a sample that is to stay; none where it says nothing. */
kt_status kt__asked_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                        const int32_t *prompt, size_t n, kt__sample_use use,
                        kt_error *err) KT_CHECKED;

#endif
