#include "requests/request.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "prompt/text.h"

/* A conversation, and what is kept of it. */
typedef struct shortening {
    const kt_engine *engine;
    kt_request_params request; /* with `kept` as its messages */
    const kt_message *all;
    size_t n_all, n_turns;
    kt_message *kept; /* [n_all] */
    kt__conversation *conversation;
    int64_t *ns;
} shortening;

static bool is_role(const kt_message *m, const char *role) {
    return m->role && !strcmp(m->role, role);
}

/* What stays whatever goes. */
static bool is_of_system(const kt_message *m) {
    return is_role(m, "system") || is_role(m, "developer");
}

/* A turn begins with a user's message; what is before the first one is of the first. */
static size_t count_turns(const kt_message *messages, size_t n) {
    size_t turns = 0;
    for (size_t i = 0; i < n; i++) turns += is_role(&messages[i], "user");
    return turns;
}

/* Leaves out the first n_gone turns; returns the number of messages that are left out. */
static size_t keep_rest(shortening *s, size_t n_gone) {
    size_t turn = 0, n = 0;
    for (size_t i = 0; i < s->n_all; i++) {
        turn += is_role(&s->all[i], "user");
        if (turn > n_gone || !n_gone || is_of_system(&s->all[i])) s->kept[n++] = s->all[i];
    }
    s->request.prompt.messages = s->kept;
    s->request.prompt.n_messages = n;
    return s->n_all - n;
}

/* A quarter of the context at most is kept free for an answer of no stated length. */
static size_t room_for_answer(const shortening *s) {
    size_t n_ctx = (size_t)s->engine->params.n_ctx;
    int32_t n = s->request.gen.n_predict;
    size_t room = n < 0 ? n_ctx / 4 : (size_t)n;
    return room < n_ctx / 2 ? room : n_ctx / 2;
}

static kt_status encode_rest(shortening *s, size_t n_gone, int32_t **ids, size_t *n,
                             kt_error *err) {
    size_t n_ctx = (size_t)s->engine->params.n_ctx, most = n_ctx - room_for_answer(s);
    (void)keep_rest(s, n_gone);
    kt_status status = kt__text_encode_prompt(s->engine->model, &s->request, s->conversation, NULL,
                                              n_ctx, ids, n, s->ns, err);
    if (status != KT_OK || *n <= most || n_gone + 1 >= s->n_turns) return status;
    kt__free(*ids);
    *ids = NULL;
    return kt__fail(err, KT_E_CONTEXT_FULL, "no room for an answer");
}

/* The fewest turns whose end makes it fit: fewer never fit where more do not. */
static kt_status find_fitting(shortening *s, size_t *n_gone, int32_t **ids, size_t *n,
                              kt_error *err) {
    size_t low = 0, high = s->n_turns - 1; /* low does not fit */
    kt_status status = encode_rest(s, high, ids, n, err);
    while (status == KT_OK && high - low > 1) {
        size_t middle = low + (high - low) / 2;
        int32_t *found;
        size_t n_found;
        kt_error ignored;
        kt_status tried = encode_rest(s, middle, &found, &n_found, &ignored);
        if (tried == KT_OK) {
            kt__free(*ids);
            *ids = found;
            *n = n_found;
            high = middle;
        } else {
            low = middle;
        }
    }
    *n_gone = high;
    return status;
}

static void note_gone(shortening *s, size_t n_messages) {
    kt__buf *notes = s->conversation ? &s->conversation->notes : NULL;
    if (!notes) return;
    if (notes->len) (void)kt__buf_putc(notes, '\n');
    (void)kt__buf_printf(notes,
                         "the oldest %zu of %zu messages were left out to fit the context of %d",
                         n_messages, s->n_all, (int)s->engine->params.n_ctx);
}

kt_status kt__shorten_encode(const kt_engine *engine, const kt_request_params *request,
                             kt__conversation *conversation, int32_t **ids, size_t *n, int64_t *ns,
                             kt_error *err) {
    shortening s = {.engine = engine,
                    .request = *request,
                    .all = request->prompt.messages,
                    .n_all = request->prompt.n_messages,
                    .conversation = conversation,
                    .ns = ns};
    size_t n_gone;
    s.n_turns = count_turns(s.all, s.n_all);
    s.kept = kt__calloc(s.n_all + 1, sizeof *s.kept);
    if (!s.kept) return kt__fail_nomem(err, "a conversation", s.n_all * sizeof *s.kept);
    kt_status status = encode_rest(&s, 0, ids, n, err);
    if (status == KT_E_CONTEXT_FULL && s.n_turns > 1) {
        status = find_fitting(&s, &n_gone, ids, n, err);
        if (status == KT_OK) note_gone(&s, keep_rest(&s, n_gone));
        /* the end that was kept last is of another number of turns: it is the same text */
    }
    kt__free(s.kept);
    return status;
}
