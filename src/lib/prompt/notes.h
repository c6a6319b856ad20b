/* Notes: corrections that enter a prompt.
 *
 * Owns: the answer to a question for what was learned; which entries of a bank a conversation opens,
 * which of these it gets, within how many tokens, and where: before the user's message that opened
 * each first. So the prompt of a longer conversation begins with that of a shorter
 * one, and what was computed of it stays valid. A pure function of the conversation, the bank and the
 * vocabulary. Any thread. */
#ifndef KT_PROMPT_NOTES_H
#define KT_PROMPT_NOTES_H

#include <kentang.h>

#include "base/alloc.h"
#include "context/types.h"

/* What users say in a conversation.
 *
 * Owns: finding the users' messages of a request, given as messages or as JSON, and putting a text
 * before one of them. JSON that is none has no users' messages here; who renders it says what is
 * wrong. Any thread; an arena a caller. */

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
/* Whether an entry of the bank opens for a conversation of these messages: one names its subject, and that or a later
 * one does not ask for another kind of thing than the entry answers. */
bool kt__user_texts_open(kt_bank *bank, kt__user_text *texts, size_t n);

enum {
    KT__NOTES_TOKENS = 512,
    KT__NOTES_OPENED = 64 /* entries that a conversation opens, at most */
};

typedef struct kt__notes {
    kt__arena arena;           /* of what request points to */
    kt_request_params request; /* the conversation with its notes */
    uint64_t ids[KT_NOTES_MAX];
    size_t n;                              /* 0: nothing opened, and request is as it was */
    size_t n_left;                         /* that opened and got none: no room */
    uint64_t opened[KT__NOTES_OPENED + 1]; /* the entries that open, noted or not */
    size_t n_opened;
    uint64_t asked; /* the one whose question the user's last message is; 0: none */
    /* [n_summary] is the answer: what was learned, to a question for that, or the entry that the request has
     * recited; NULL: nothing is answered word for word */
    const char *summary;
    size_t n_summary;
    uint64_t summary_ids[KT_NOTES_MAX]; /* [n_listed] that are in it */
    size_t n_listed;
    kt__user_text question; /* what its user said last, if it is kept; text NULL: nothing */
} kt__notes;

/* For kt__notes_free in any case; what question points to lasts as long. Without a conversation or a
 * bank there are none. */
kt_status kt__notes_place(kt__notes *notes, const kt_model *model, const kt_request_params *request,
                          kt_error *err) KT_CHECKED;
void kt__notes_free(kt__notes *notes);

#endif
