#include "cli/chat.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "term/cli.h"
#include "term/terminal.h"

/* ---- answers ---- */

/* What was thought is no part of the conversation. */
static bool on_part(void *user, const kt_part *part) {
    kt__chat *c = user;
    bool said = part->kind == KT_PART_CONTENT;
    kt__progress_end(&c->progress);
    if (said && !kt__buf_append(&c->answer, part->text, part->len)) return false;
    return kt__screen_write_part(&c->screen, part);
}

static void report_finish(kt_finish finish) {
    if (finish == KT_FINISH_CONTEXT) {
        fputs("(the context is full: /drop forgets the oldest exchange, /clear all, -c gives more "
              "room)\n",
              stderr);
    } else if (finish == KT_FINISH_LENGTH) {
        fputs("(ended by -n)\n", stderr);
    } else if (finish == KT_FINISH_CANCELLED) {
        fputs("(stopped)\n", stderr);
    }
}

/* How full the context is, before it is full. */
static void show_meter(const kt__chat *c) {
    size_t used = kt_seq_len(c->session->seq);
    int32_t n_ctx = c->session->engine_info.n_ctx;
    bool nearly_full = used > (size_t)n_ctx / 4 * 3;
    if (c->setup->quiet || (!c->editor && !nearly_full)) return;
    bool dim = kt__terminal_can_style(KT__STDERR);
    fprintf(stderr, "%s(%zu of %d tokens of the context%s)%s\n", dim ? "\033[2m" : "", used,
            (int)n_ctx, nearly_full ? ": nearly full" : "", dim ? "\033[0m" : "");
}

static kt_status generate_answer(kt__chat *c, const kt_gen_params *params,
                                 kt_request_report *report, kt_error *err) {
    kt_learned learned;
    kt_request_params request = kt__session_request(c->session);
    kt_status status = kt__session_recall(c->session, &request, &learned, err);
    if (status != KT_OK) return status;
    kt_engine_resume(c->session->engine);
    (void)kt__interrupted();
    kt__terminal_hush();
    kt__progress_begin(&c->progress, c->session->engine);
    request.seq = c->session->seq;
    request.prompt.messages = c->messages.items;
    request.prompt.n_messages = c->messages.n;
    request.gen = *params;
    request.parts.split = true;
    request.parts.on_part = on_part;
    status = kt_request_run(c->session->engine, &request, NULL, c, report, err);
    kt_learned_close(&learned);
    kt__progress_end(&c->progress);
    char last = kt__screen_end_answer(&c->screen);
    if (status == KT_OK && last != '\n' && !c->screen.rendered) putchar('\n');
    fflush(stdout);
    kt__terminal_unhush();
    (void)kt__interrupted();
    kt_engine_resume(c->session->engine);
    return status;
}

/* Answers the messages; what was said until an interruption stays said. */
static kt_status answer_message(kt__chat *c, kt_error *err) {
    kt_request_report result = {0};
    kt_sampling *sampling = &c->setup->sampling->params.sampling;
    kt_gen_params params = c->setup->sampling->params;
    if (params.sampling.seed != KT_SEED_RANDOM) params.sampling.seed += c->n_regenerated;
    kt__buf_clear(&c->answer);
    kt_status status = generate_answer(c, &params, &result, err);
    if (status != KT_OK) return status;
    kt__figures_add(c->figures, &result);
    /* one random seed for the whole conversation, so that it can be repeated */
    if (sampling->seed == KT_SEED_RANDOM) sampling->seed = result.seed;
    if (!c->setup->quiet) kt__session_tell_notes(&result);
    report_finish(result.finish);
    show_meter(c);
    return kt__messages_add(&c->messages, "assistant", c->answer.data ? c->answer.data : "", err);
}

void kt__chat_show_error(kt__chat *c, const kt_error *err) {
    int code = kt__cli_fail(NULL, err);
    if (err->code == KT_E_TRUNCATED || err->code == KT_E_INTERNAL) {
        c->code = code;
        c->quit = true;
    }
}

/* ---- a full context ---- */

/* Tokens of the conversation without the oldest n_dropped exchanges; 0: unknown. */
static size_t count_tokens(const kt__messages *all, size_t n_dropped, const kt_model *model) {
    kt__messages rest = {0};
    kt_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    kt_status status = KT_OK;
    for (size_t i = 0; i < all->n && status == KT_OK; i++)
        status = kt__messages_add(&rest, all->items[i].role, all->items[i].content, &err);
    while (n_dropped && kt__messages_drop_oldest(&rest)) n_dropped--;
    if (status == KT_OK && !n_dropped)
        status = kt_chat_encode(model, rest.items, rest.n, true, &ids, &n, &err);
    kt_free(ids);
    kt__messages_free(&rest);
    return status == KT_OK ? n : 0;
}

/* How many of the oldest exchanges have to go so that a quarter of the context is left for the
 * answer; 0: that does not help. */
static size_t exchanges_to_drop(const kt__chat *c) {
    size_t n_ctx = (size_t)c->session->engine_info.n_ctx, best = 0;
    for (size_t n_dropped = 1; n_dropped < c->messages.n; n_dropped++) {
        size_t n = count_tokens(&c->messages, n_dropped, c->session->model);
        if (!n) break;
        if (n < n_ctx) best = n_dropped;
        if (n <= n_ctx / 4 * 3) break;
    }
    return best;
}

static bool ask_yes(kt__chat *c, const char *question) {
    char *line = NULL;
    fputs(question, stderr);
    bool yes = kt__line_editor_read(c->editor, "[Y/n] ", false, &line) == 1 &&
               (!*line || *line == 'y' || *line == 'Y');
    kt__free(line);
    return yes;
}

/* Offers to drop what is oldest; without a terminal the error says what to do. */
static bool make_room(kt__chat *c) {
    char question[200];
    size_t n_tokens = count_tokens(&c->messages, 0, c->session->model);
    size_t n_dropped = c->editor ? exchanges_to_drop(c) : 0;
    if (!n_dropped) return false;
    char which[64] = "the oldest question";
    if (n_dropped > 1) snprintf(which, sizeof which, "the %zu oldest questions", n_dropped);
    snprintf(question, sizeof question,
             "The context is full: the conversation has %zu tokens, the context %d.\n"
             "Forget %s and continue?\n",
             n_tokens, (int)c->session->engine_info.n_ctx, which);
    if (!ask_yes(c, question)) return false;
    while (n_dropped--) (void)kt__messages_drop_oldest(&c->messages);
    return true;
}

static kt_status answer_with_room(kt__chat *c, kt_error *err) {
    kt_status status = answer_message(c, err);
    if (status == KT_E_CONTEXT_FULL && make_room(c)) status = answer_message(c, err);
    if (status == KT_E_CONTEXT_FULL)
        fputs("(/drop forgets the oldest exchange, /clear all)\n", stderr);
    return status;
}

/* ---- messages ---- */

/* What /read took, and then what was typed; for kt__free. */
static char *with_attached(kt__chat *c, const char *text) {
    size_t len;
    if (!c->attached.len) return kt__strdup(text);
    kt__buf_putc(&c->attached, '\n');
    kt__buf_puts(&c->attached, text);
    return kt__buf_take(&c->attached, &len);
}

void kt__chat_send(kt__chat *c, const char *text) {
    kt_error err = {0};
    char *whole = with_attached(c, text);
    kt_status status = whole ? kt__messages_add(&c->messages, "user", whole, &err)
                             : kt__fail_nomem(&err, "a message", strlen(text));
    kt__free(whole);
    if (status == KT_OK) {
        c->n_regenerated = 0;
        status = answer_with_room(c, &err);
        if (status != KT_OK) kt__messages_cut(&c->messages, c->messages.n - 1);
    }
    if (status != KT_OK) kt__chat_show_error(c, &err);
}

void kt__chat_answer_again(kt__chat *c) {
    kt_error err = {0};
    kt__messages_cut(&c->messages, c->messages.n - 1);
    c->n_regenerated++;
    if (answer_with_room(c, &err) == KT_OK) return;
    kt__messages_cut(&c->messages, c->messages.n - 1); /* the question without an answer */
    kt__chat_show_error(c, &err);
}
