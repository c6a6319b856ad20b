#include "cli/chat_learn.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* The answer's tokens, with the end of the turn. For kt__free. */
static kt_status encode_answer(const kt__session *s, const char *text, int32_t **out, size_t *n,
                               kt_error *err) {
    size_t len = strlen(text);
    *out = kt__calloc(len + 8, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "an answer", len);
    kt_status status = kt_tokenize(s->model, text, len, 0, *out, len + 4, n, err);
    if (status == KT_OK && s->info.eos_id >= 0 && kt_token_is_eog(s->model, s->info.eos_id))
        (*out)[(*n)++] = s->info.eos_id;
    return status;
}

static kt_status tell(kt__chat *c, float score, const char *correction, kt_feedback_result *result,
                      kt_error *err) {
    kt__session *s = c->session;
    kt_request_params asked = kt_request_params_default();
    int32_t *prompt = NULL, *answer = NULL;
    kt_kept kept = {0};
    kt_status status;
    asked.messages = c->messages.items;
    asked.n_messages = c->messages.n - 1;
    KT__TRY(kt_request_encode(s->model, &asked, &prompt, &kept.n_prompt, err));
    KT__TRY(encode_answer(s, c->messages.items[c->messages.n - 1].content, &answer, &kept.n_answer,
                          err));
    kept.prompt = prompt;
    kept.answer = answer;
    const kt_feedback_params params = {.kept = &kept,
                                       .about = "run",
                                       .score = score,
                                       .correction = correction,
                                       .n_correction = correction ? strlen(correction) : 0};
    KT__TRY(kt_feedback(s->learner, &params, result, err));
out:
    kt_free(prompt);
    kt__free(answer);
    return status;
}

void kt__chat_tell(kt__chat *c, float score, const char *correction) {
    kt_error err = {0};
    kt_feedback_result r;
    size_t n = c->messages.n;
    if (!c->session->learner) {
        fputs("(learning is off: start with --learn)\n", stderr);
    } else if (n < 2 || strcmp(c->messages.items[n - 1].role, "assistant") != 0) {
        fputs("(there is no answer to speak of)\n", stderr);
    } else if (correction && !*correction) {
        fputs("(/fix needs the answer as it should have been)\n", stderr);
    } else if (tell(c, score, correction, &r, &err) != KT_OK) {
        kt__chat_show_error(c, &err);
    } else if (r.n_pairs) {
        fprintf(stderr, "(learned as fb_%llu: %d tokens, version %lld)\n", (unsigned long long)r.id,
                (int)r.n_pairs, (long long)r.version);
    } else {
        fprintf(stderr, "(noted as fb_%llu)\n", (unsigned long long)r.id);
    }
}
