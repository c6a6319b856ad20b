#include "prompt/text.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/geometry.h"
#include "base/json.h"
#include "calls/prompt.h"
#include "prompt/notes.h"

#include <string.h>

/* ---- where to keep states ---- */

enum { LAST_BORDERS = 4 };

typedef struct points {
    int32_t from, to;
    int32_t *out;
    int n;
} points;

/* The last multiple of a page up to pos, in its place if it is asked for and not there. */
static void add_point(points *p, int32_t pos) {
    pos = pos / KT__PAGE_POS * KT__PAGE_POS;
    if (pos <= p->from || pos > p->to || p->n == KT__SNAPSHOT_POINTS) return;
    int at = p->n;
    while (at > 0 && p->out[at - 1] > pos) at--;
    if (at > 0 && p->out[at - 1] == pos) return;
    for (int i = p->n; i > at; i--) p->out[i] = p->out[i - 1];
    p->out[at] = pos;
    p->n++;
}

static bool is_control(const kt__tokenizer *tok, int32_t id) {
    return kt__tokenizer_token_attr(tok, id) == KT__TOK_CONTROL;
}

/* Templates mark messages by control tokens: the first one after text ends the first message. */
int32_t kt__snapshot_first_border(const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok) {
    for (int32_t i = 1; i < n_tok; i++) {
        if (is_control(tok, tokens[i]) && !is_control(tok, tokens[i - 1]))
            return i / KT__PAGE_POS * KT__PAGE_POS;
    }
    return 0;
}

static void add_borders(points *p, const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok) {
    int n = 0;
    for (int32_t i = n_tok - 1; i > p->from && n < LAST_BORDERS; i--) {
        if (!is_control(tok, tokens[i])) continue;
        add_point(p, i);
        n++;
    }
    int32_t seen = p->to + KT__PAGE_POS < n_tok ? p->to + KT__PAGE_POS + 1 : n_tok;
    add_point(p, kt__snapshot_first_border(tok, tokens, seen));
}

int kt__snapshot_points(const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok,
                        int32_t from, int32_t to, int32_t out[KT__SNAPSHOT_POINTS]) {
    points p = {from, to, out, 0};
    add_point(&p, n_tok - 1);
    if (tok) add_borders(&p, tok, tokens, n_tok);
    int32_t first = (from / KT__SNAPSHOT_EVERY + 1) * KT__SNAPSHOT_EVERY;
    for (int32_t pos = first; pos <= to; pos += KT__SNAPSHOT_EVERY) add_point(&p, pos);
    return p.n;
}

/* ---- token ids ---- */

enum { MAX_CONVERSATION = 1 << 30 };

/* The texts of control tokens lie in the file, which may have been truncated: asked before they are
 * read, and by still_there after, for what the fault guard may have replaced meanwhile. */
static kt_status need_tokenizer(const kt_model *model, kt_error *err) {
    kt__error_clear(err);
    if (model->tok) return kt__gguf_check(model->gguf, err);
    return kt__fail(err, KT_E_UNSUPPORTED, "%s has no vocabulary: use token ids", model->info.path);
}

static kt_status still_there(const kt_model *model, kt_status status, kt_error *err) {
    return status == KT_OK ? kt__gguf_check(model->gguf, err) : status;
}

static kt_status need_template(const kt_model *model, kt_error *err) {
    kt_status status = need_tokenizer(model, err);
    if (status != KT_OK || model->chat) return status;
    if (model->chat_error.code != KT_OK) {
        if (err) *err = model->chat_error;
        return model->chat_error.code;
    }
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "%s has no chat template: give a prompt as the model expects it, in place of "
                    "messages",
                    model->info.path);
}

kt_status kt_tokenize(const kt_model *model, const char *text, size_t len, unsigned flags,
                      int32_t *ids, size_t cap, size_t *n, kt_error *err) {
    kt_status status;
    kt__ids found;
    *n = 0;
    KT__TRY(need_tokenizer(model, err));
    kt__ids_init(&found, SIZE_MAX);
    status = kt__tokenizer_encode(model->tok, text, len, flags, &found, err);
    status = still_there(model, status, err);
    if (status == KT_OK) {
        *n = found.len;
        size_t copy = found.len < cap ? found.len : cap;
        if (copy) memcpy(ids, found.data, copy * sizeof *ids);
        if (found.len > cap) {
            status = kt__fail(err, KT_E_LIMIT, "%zu tokens do not fit a buffer for %zu", found.len,
                              cap);
        }
    }
    kt__ids_free(&found);
out:
    return status;
}

kt_status kt_detokenize(const kt_model *model, const int32_t *ids, size_t n, unsigned flags,
                        char *text, size_t cap, size_t *len, kt_error *err) {
    kt_status status;
    kt__buf buf;
    *len = 0;
    KT__TRY(need_tokenizer(model, err));
    kt__buf_init(&buf, SIZE_MAX / 2);
    status = kt__tokenizer_decode(model->tok, ids, n, flags, &buf, err);
    status = still_there(model, status, err);
    if (status == KT_OK) {
        *len = buf.len;
        size_t copy = buf.len < cap ? buf.len : cap;
        if (copy) memcpy(text, buf.data, copy);
        if (buf.len > cap) {
            status = kt__fail(err, KT_E_LIMIT, "%zu bytes do not fit a buffer of %zu", buf.len,
                              cap);
        }
    }
    kt__buf_free(&buf);
out:
    return status;
}

bool kt_token_is_eog(const kt_model *model, int32_t id) {
    return model->tok && kt__tokenizer_is_eog(model->tok, id);
}

/* ---- conversations as text ---- */

static kt__chat_params chat_params(const kt_model *model, unsigned flags, const char *vars) {
    bool goes_on = flags & KT_CHAT_CONTINUE;
    return (kt__chat_params){
        .bos_token = model->bos_text,
        .eos_token = model->eos_text,
        .now_local_s = kt__chat_now_local(),
        .extras = true,
        .add_generation_prompt = goes_on || (flags & KT_CHAT_GENERATE),
        .continue_last = goes_on,
        .vars = vars,
    };
}

/* The rendered text leaves, the rest is freed. */
static void hand_out(kt__chat_out *rendered, char **out, size_t *len) {
    *out = rendered->text;
    *len = rendered->len;
    rendered->text = NULL;
    kt__chat_out_free(rendered);
}

static kt_status render_messages(const kt_model *model, const kt_message *messages, size_t n,
                                 unsigned flags, const char *vars, kt__chat_out *out,
                                 kt_error *err) {
    kt_status status = need_template(model, err);
    if (status != KT_OK) return status;
    kt__chat_params params = chat_params(model, flags, vars);
    return kt__chat_render(model->chat, messages, n, &params, out, err);
}

kt_status kt_chat_render(const kt_model *model, const kt_message *messages, size_t n,
                         unsigned flags, char **out, size_t *len, kt_error *err) {
    kt__chat_out rendered = {0};
    *out = NULL;
    kt_status status = render_messages(model, messages, n, flags, NULL, &rendered, err);
    if (status == KT_OK) {
        hand_out(&rendered, out, len);
    } else {
        kt__chat_out_free(&rendered);
    }
    return status;
}

static kt_status render_json(const kt_model *model, const char *json, size_t json_len,
                             unsigned flags, const char *vars, kt__chat_out *out, kt_error *err) {
    kt_status status = need_template(model, err);
    if (status != KT_OK) return status;
    kt__chat_params params = chat_params(model, flags, vars);
    return kt__chat_render_json(model->chat, json, json_len, &params, out, err);
}

kt_status kt_chat_render_json(const kt_model *model, const char *json, size_t json_len, char **out,
                              size_t *len, kt_error *err) {
    kt__chat_out rendered = {0};
    *out = NULL;
    kt_status status = render_json(model, json, json_len, KT_CHAT_GENERATE, NULL, &rendered, err);
    if (status == KT_OK) hand_out(&rendered, out, len);
    return status;
}

/* ---- prompts as ids ---- */

/* No token means more bytes than the tokenizer says. */
static kt_status check_bytes(const kt_model *model, size_t len, size_t most, kt_error *err) {
    size_t bytes = kt__tokenizer_bytes_per_id(model->tok);
    if (!bytes || len / bytes <= most) return KT_OK;
    (void)kt__fail(
        err, KT_E_CONTEXT_FULL,
        "a prompt of %zu bytes, which are %zu tokens or more, is too large: it exceeds the "
        "available context size of %zu tokens; shorten it, or raise the context",
        len, len / bytes, most);
    return kt__error_set_context(err, len / bytes, most);
}

/* What was encoded until now, or why not. */
static kt_status take_ids(const kt_model *model, kt_status status, kt__ids *found, size_t most,
                          int32_t **ids, size_t *n_ids, kt_error *err) {
    status = still_there(model, status, err);
    if (status == KT_E_LIMIT && most != SIZE_MAX) {
        (void)kt__fail(err, KT_E_CONTEXT_FULL,
                       "a prompt of more than %zu tokens is too large: it exceeds the available "
                       "context size of %zu tokens; shorten it, or raise the context",
                       most, most);
        status = kt__error_set_context(err, most + 1, most);
    }
    if (status == KT_OK) {
        *ids = kt__ids_take(found, n_ids);
        if (!*ids) status = kt__fail_nomem(err, "prompt ids", 0);
    }
    kt__ids_free(found);
    return status;
}

static kt_status encode_text(const kt_model *model, const kt_request_params *r, size_t most,
                             int32_t **ids, size_t *n_ids, kt_error *err) {
    kt_status status = need_tokenizer(model, err);
    kt__ids found;
    size_t after_len = r->prompt.fim_suffix ? r->prompt.fim_suffix_len : 0;
    if (status == KT_OK) status = check_bytes(model, r->prompt.text_len + after_len, most, err);
    if (status != KT_OK) return status;
    kt__ids_init(&found, most);
    status = r->prompt.fim_suffix
                 ? kt__tokenizer_encode_fim(model->tok, r->prompt.text, r->prompt.text_len,
                                            r->prompt.fim_suffix, after_len, &found, err)
                 : kt__tokenizer_encode(model->tok, r->prompt.text, r->prompt.text_len,
                                        r->prompt.text_flags, &found, err);
    return take_ids(model, status, &found, most, ids, n_ids, err);
}

static kt_status encode_plain(const kt_model *model, const kt__chat_out *rendered, size_t most,
                              int32_t **ids, size_t *n_ids, kt_error *err) {
    kt__ids found;
    kt__tok_segment *segments = kt__calloc(rendered->n_segs + 1, sizeof *segments);
    if (!segments)
        return kt__fail_nomem(err, "prompt segments", rendered->n_segs * sizeof *segments);
    for (size_t i = 0; i < rendered->n_segs; i++) {
        const kt__chat_seg *seg = &rendered->segs[i];
        segments[i] = (kt__tok_segment){rendered->text + seg->offset, seg->len, seg->from_template};
    }
    kt__ids_init(&found, most);
    kt_status status = kt__tokenizer_encode_segments(model->tok, segments, rendered->n_segs,
                                                     KT_TOK_ADD_SPECIAL, &found, err);
    kt__free(segments);
    return take_ids(model, status, &found, most, ids, n_ids, err);
}

static kt_status encode_with_pictures(const kt_model *model, const kt__chat_out *rendered,
                                      kt__pictures *pictures, size_t most, int32_t **ids,
                                      size_t *n_ids, kt_error *err) {
    kt__tok_segment *segments = NULL;
    int32_t *text_ids = NULL;
    size_t n_segments = 0, n = 0;
    kt__ids found;
    kt__buf texts;
    kt_status status;
    kt__buf_init(&texts, MAX_CONVERSATION);
    kt__ids_init(&found, most);
    KT__TRY(kt__pictures_write(pictures, rendered, &texts, &segments, &n_segments, err));
    status = kt__tokenizer_encode_segments(model->tok, segments, n_segments, KT_TOK_ADD_SPECIAL,
                                           &found, err);
    KT__TRY(take_ids(model, status, &found, most, &text_ids, &n, err));
    KT__TRY(kt__pictures_expand(pictures, model->tok, text_ids, n, most, ids, n_ids, err));
out:
    kt__ids_free(&found);
    kt__free(text_ids);
    kt__free(segments);
    kt__buf_free(&texts);
    return status;
}

static kt_status encode_rendered(const kt_model *model, const kt__chat_out *rendered,
                                 kt__pictures *pictures, size_t most, int32_t **ids, size_t *n_ids,
                                 kt_error *err) {
    KT__STEP(check_bytes(model, rendered->len, most, err));
    if (pictures && pictures->n_held)
        return encode_with_pictures(model, rendered, pictures, most, ids, n_ids, err);
    return encode_plain(model, rendered, most, ids, n_ids, err);
}

kt_status kt_chat_encode(const kt_model *model, const kt_message *messages, size_t n,
                         unsigned flags, int32_t **ids, size_t *n_ids, kt_error *err) {
    kt__chat_out rendered = {0};
    *ids = NULL;
    *n_ids = 0;
    kt_status status = render_messages(model, messages, n, flags, NULL, &rendered, err);
    if (status == KT_OK)
        status = encode_rendered(model, &rendered, NULL, SIZE_MAX, ids, n_ids, err);
    kt__chat_out_free(&rendered);
    return status;
}

/* [{"role", "content"}, ...] */
static void write_messages(kt__buf *out, const kt_message *messages, size_t n) {
    (void)kt__buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        (void)kt__buf_puts(out, i ? ",{\"role\":" : "{\"role\":");
        kt__json_text(out, messages[i].role);
        kt__json_member(out, "content", messages[i].content);
        (void)kt__buf_putc(out, '}');
    }
    (void)kt__buf_putc(out, ']');
}

/* With tools, or with calls among the messages: in the form that the template needs. */
static kt_status render_calling(const kt_model *model, const kt_request_params *r,
                                const kt__tools *tools, kt__chat_out *out, kt_error *err) {
    kt__buf messages, fitted;
    const char *json = r->prompt.chat_json;
    size_t len = r->prompt.chat_json_len;
    KT__STEP(need_template(model, err)); /* it says how calls are written */
    kt__buf_init(&messages, MAX_CONVERSATION);
    kt__buf_init(&fitted, MAX_CONVERSATION);
    if (!json) {
        write_messages(&messages, r->prompt.messages, r->prompt.n_messages);
        json = messages.data;
        len = messages.len;
    }
    kt_status status;
    if (messages.failed) KT__TRY(kt__fail_nomem(err, "a conversation", messages.len));
    KT__TRY(
        kt__call_prompt_json(&model->style, json, len, tools, KT__REASON_DEFAULT, &fitted, err));
    KT__TRY(render_json(model, fitted.data, fitted.len, r->prompt.chat_flags,
                        r->prompt.template_vars, out, err));
out:
    kt__buf_free(&messages);
    kt__buf_free(&fitted);
    return status;
}

/* messages or chat_json */
static kt_status render_request(const kt_model *model, const kt_request_params *r,
                                kt__conversation *c, kt__chat_out *out, kt_error *err) {
    kt_status status;
    if (c && (c->tools || r->prompt.chat_json)) {
        status = render_calling(model, r, c->tools, out, err);
    } else if (r->prompt.messages) {
        status = render_messages(model, r->prompt.messages, r->prompt.n_messages,
                                 r->prompt.chat_flags, r->prompt.template_vars, out, err);
    } else {
        status = render_json(model, r->prompt.chat_json, r->prompt.chat_json_len,
                             r->prompt.chat_flags, r->prompt.template_vars, out, err);
    }
    return status == KT_OK && c ? kt__conversation_keep_tail(c, model, out, err) : status;
}

kt_status kt__text_encode_prompt(const kt_model *model, const kt_request_params *r,
                                 kt__conversation *conversation, kt__pictures *pictures,
                                 size_t most, int32_t **ids, size_t *n_ids, int64_t *ns,
                                 kt_error *err) {
    kt__chat_out rendered = {0};
    int64_t start_ns = kt__now_ns(), rendered_ns = start_ns;
    kt_status status;
    *ids = NULL;
    *n_ids = 0;
    if (r->prompt.text) {
        status = encode_text(model, r, most, ids, n_ids, err);
    } else {
        status = render_request(model, r, conversation, &rendered, err);
        rendered_ns = kt__now_ns();
        if (status == KT_OK)
            status = encode_rendered(model, &rendered, pictures, most, ids, n_ids, err);
    }
    kt__chat_out_free(&rendered);
    ns[0] += rendered_ns - start_ns;
    ns[1] += kt__now_ns() - rendered_ns;
    return status;
}

/* What is said of tools, and the request with its notes. */
static kt_status open_conversation(const kt_model *model, const kt_request_params *r,
                                   kt__conversation **out, kt__notes *notes, kt_error *err) {
    kt__error_clear(err);
    *out = NULL;
    *notes = (kt__notes){0};
    if ((r->prompt.messages != NULL) + (r->prompt.chat_json != NULL) != 1)
        return kt__fail(err, KT_E_ARG, "give one of messages and chat_json");
    KT__STEP(kt__conversation_open(r, out, err));
    return kt__notes_place(notes, model, r, err);
}

kt_status kt_request_render(const kt_model *model, const kt_request_params *request, char **out,
                            size_t *len, kt_error *err) {
    kt__chat_out rendered = {0};
    kt__conversation *conversation;
    kt__notes notes;
    *out = NULL;
    kt_status status = open_conversation(model, request, &conversation, &notes, err);
    if (status == KT_OK)
        status = render_request(model, &notes.request, conversation, &rendered, err);
    if (status == KT_OK) {
        hand_out(&rendered, out, len);
    } else {
        kt__chat_out_free(&rendered);
    }
    kt__conversation_free(conversation);
    kt__notes_free(&notes);
    return status;
}

kt_status kt_request_encode(const kt_model *model, const kt_request_params *request, int32_t **ids,
                            size_t *n, kt_error *err) {
    int64_t ns[2] = {0};
    kt__conversation *conversation = NULL;
    kt__pictures pictures = {0};
    kt__views *views = NULL;
    kt__notes notes;
    *ids = NULL;
    *n = 0;
    kt_status status;
    KT__TRY(open_conversation(model, request, &conversation, &notes, err));
    if (request->prompt.n_pictures && model->vision)
        KT__TRY(kt__views_create(model->vision, model->vision_id, &views, err));
    KT__TRY(kt__pictures_open(&pictures, views, request, err));
    status = kt__text_encode_prompt(model, &notes.request, conversation, &pictures, SIZE_MAX, ids,
                                    n, ns, err);
out:
    kt__pictures_free(&pictures);
    kt__views_destroy(views);
    kt__conversation_free(conversation);
    kt__notes_free(&notes);
    return status;
}

void kt_free(void *data) {
    kt__free(data);
}
