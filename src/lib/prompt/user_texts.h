/* What users say in a conversation.
 *
 * Owns: finding the users' messages of a request, given as messages or as JSON, and putting a text
 * before one of them. JSON that is none has no users' messages here; who renders it says what is
 * wrong. Any thread; an arena a caller. */
#ifndef KT_PROMPT_USER_TEXTS_H
#define KT_PROMPT_USER_TEXTS_H

#include <kentang.h>

#include "base/arena.h"

typedef struct kt__user_text {
    const char *text; /* [len], a content's first text */
    size_t len;
    size_t at; /* which message; of JSON: the byte at which that text begins, in its quotes */
} kt__user_text;

/* texts[*n] in their order, in the arena. KT_E_NOMEM. */
kt_status kt__user_texts_of(kt__arena *arena, const kt_request_params *request,
                            kt__user_text **texts, size_t *n, kt_error *err) KT_CHECKED;
/* *request with before[i] (NULL: nothing) put before texts[i]; what is new of it is in the arena. */
kt_status kt__user_texts_put(kt__arena *arena, const kt__user_text *texts,
                             const char *const *before, size_t n, kt_request_params *request,
                             kt_error *err) KT_CHECKED;

#endif
