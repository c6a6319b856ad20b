#include "answer/answer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "calls/format.h"

enum { MAX_STEP_BYTES = 32 << 20 };

/* A part whose texts are offsets into `text`, until all are there. */
typedef struct pending {
    kt_part_kind kind;
    int32_t call;
    size_t at, len, id, name;
    bool begins;
} pending;

struct kt__parts {
    const kt_model *model;
    kt__call_parser *parser;
    pending *pending;
    size_t n_pending, cap_pending;
    kt_part *list; /* [n_pending] */
    size_t cap_list;
    kt__buf text, content;
    bool failed;      /* no memory, in the parser's callback */
    int32_t *closing; /* [n_closing] tokens that close reasoning */
    size_t n_closing, at_closing;
    int32_t budget; /* as of kt_request_params */
    int32_t n_reasoning;
};

/* ---- from the parser's events to parts ---- */

static bool append_text(kt__parts *p, const char *text, size_t len, size_t *at) {
    *at = p->text.len;
    return !len || kt__buf_append(&p->text, text, len);
}

/* Pieces of one kind that follow each other are one part. */
static bool add_piece(kt__parts *p, kt_part_kind kind, int32_t call, const char *text, size_t len) {
    size_t at;
    pending *last = p->n_pending ? &p->pending[p->n_pending - 1] : NULL;
    if (!append_text(p, text, len, &at)) return false;
    if (last && last->kind == kind && last->call == call && last->at + last->len == at) {
        last->len += len;
        return true;
    }
    if (!kt__vec_reserve(p->pending, p->cap_pending, p->n_pending + 1)) return false;
    p->pending[p->n_pending++] = (pending){.kind = kind, .call = call, .at = at, .len = len};
    return true;
}

static bool begin_call(kt__parts *p, const kt__call_event *e) {
    const char *id = e->id ? e->id : "", *name = e->name ? e->name : "";
    pending made = {.kind = KT_PART_CALL, .call = (int32_t)e->index, .begins = true};
    if (!kt__vec_reserve(p->pending, p->cap_pending, p->n_pending + 1) ||
        !append_text(p, id, strlen(id) + 1, &made.id) ||
        !append_text(p, name, strlen(name) + 1, &made.name))
        return false;
    made.at = p->text.len;
    p->pending[p->n_pending++] = made;
    return true;
}

static void take_call_event(void *ctx, const kt__call_event *e) {
    kt__parts *p = ctx;
    bool added = true;
    switch (e->kind) {
    case KT__CALL_CONTENT:
        added = add_piece(p, KT_PART_CONTENT, 0, e->text, e->len) &&
                kt__buf_append(&p->content, e->text, e->len);
        break;
    case KT__CALL_REASONING: added = add_piece(p, KT_PART_REASONING, 0, e->text, e->len); break;
    case KT__CALL_BEGIN: added = begin_call(p, e); break;
    case KT__CALL_ARGS:
        added = add_piece(p, KT_PART_CALL, (int32_t)e->index, e->text, e->len);
        break;
    default: break;
    }
    if (!added) p->failed = true;
}

static bool list_parts(kt__parts *p) {
    if (!kt__vec_reserve(p->list, p->cap_list, p->n_pending)) return false;
    for (size_t i = 0; i < p->n_pending; i++) {
        const pending *q = &p->pending[i];
        p->list[i] = (kt_part){.kind = q->kind,
                               .text = q->len ? p->text.data + q->at : "",
                               .len = q->len,
                               .call = q->call,
                               .id = q->begins ? p->text.data + q->id : NULL,
                               .name = q->begins ? p->text.data + q->name : NULL};
    }
    return true;
}

/* ---- reasoning that is closed by force ---- */

static kt_status make_closing(kt__parts *p, kt_error *err) {
    const char *text = kt__conversation_closing(p->model);
    kt__ids ids;
    if (!p->budget || !text) return KT_OK;
    kt__ids_init(&ids, 256);
    kt_status status = kt__tokenizer_encode(p->model->tok, text, strlen(text), KT_TOK_PARSE_SPECIAL,
                                            &ids, err);
    if (status == KT_OK) {
        p->closing = kt__ids_take(&ids, &p->n_closing);
        if (!p->closing) status = kt__fail_nomem(err, "a closing marker", strlen(text));
    }
    kt__ids_free(&ids);
    return status;
}

int32_t kt__parts_forced(kt__parts *p) {
    int32_t most = p->budget < 0 ? 0 : p->budget;
    bool begun = p->at_closing > 0;
    if (!p->budget || p->at_closing == p->n_closing) return -1;
    if (!begun && (!kt__call_in_reasoning(p->parser) || p->n_reasoning < most)) return -1;
    return p->closing[p->at_closing++];
}

/* The token counts where it was written in reasoning, or ended it. */
static void count_reasoning(kt__parts *p, bool before) {
    bool now = kt__call_in_reasoning(p->parser);
    p->n_reasoning += before || now;
}

/* ---- the answer ---- */

bool kt__request_any_spelling(const kt_request_params *request) {
    return !request->calls.native && request->constraint.n_forms == 0;
}

kt_status kt__parts_create(const kt_model *model, const kt__conversation *c,
                           const kt_request_params *request, uint64_t id_seed, kt__parts **out,
                           kt_error *err) {
    const kt__call_options options = {
        .tools = c->choice.mode == KT__TOOL_NONE ? NULL : c->tools,
        .prompt_tail = c->tail,
        .prompt_tail_len = c->tail_len,
        .one_call = request->calls.one,
        .any_spelling = kt__request_any_spelling(request),
        .id_seed = id_seed,
    };
    kt__parts *p = kt__calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return kt__fail_nomem(err, "an answer's parts", sizeof *p);
    p->model = model;
    p->budget = request->parts.reasoning_budget;
    kt__buf_init(&p->text, MAX_STEP_BYTES);
    kt__buf_init(&p->content, MAX_STEP_BYTES);
    kt_status status = kt__call_parser_create(&model->style, &options, take_call_event, p,
                                              &p->parser, err);
    if (status == KT_OK) status = make_closing(p, err);
    if (status == KT_OK) {
        *out = p;
    } else {
        kt__parts_free(p);
    }
    return status;
}

void kt__parts_free(kt__parts *p) {
    if (!p) return;
    kt__call_parser_free(p->parser);
    kt__buf_free(&p->text);
    kt__buf_free(&p->content);
    kt__free(p->pending);
    kt__free(p->list);
    kt__free(p->closing);
    kt__free(p);
}

bool kt__parts_shows(const kt__parts *p, int32_t id) {
    if (kt__tokenizer_token_attr(p->model->tok, id) != KT__TOK_CONTROL) return false;
    kt__str text = kt__tokenizer_token_text(p->model->tok, id);
    return kt__call_style_marks(&p->model->style, text.s, text.len);
}

kt_status kt__parts_push(kt__parts *p, const char *text, size_t len, bool last, kt_error *err) {
    bool before = kt__call_in_reasoning(p->parser);
    kt_status status = KT_OK;
    p->n_pending = 0;
    kt__buf_clear(&p->text);
    kt__buf_clear(&p->content);
    if (len) KT__TRY(kt__call_feed(p->parser, text, len, err));
    if (last) KT__TRY(kt__call_finish(p->parser, err));
    if (p->failed || !list_parts(p)) status = kt__fail_nomem(err, "an answer's parts", len);
out:
    if (!last) count_reasoning(p, before);
    return status;
}

bool kt__parts_take_args(kt__parts *p, kt__call_args *out) {
    return kt__call_take_args(p->parser, out);
}

const kt_part *kt__parts_get(const kt__parts *p, size_t *n) {
    *n = p->n_pending;
    return p->list;
}

const kt__buf *kt__parts_content(const kt__parts *p) {
    return &p->content;
}

int32_t kt__parts_n_calls(const kt__parts *p) {
    return (int32_t)kt__call_count(p->parser);
}

int32_t kt__parts_n_reasoning(const kt__parts *p) {
    return p->n_reasoning;
}

/* ---- copies ---- */

static const char *copy_text(kt__buf *memory, const char *text, size_t len) {
    const char *at = memory->data + memory->len;
    (void)kt__buf_append(memory, text, len);
    return at;
}

bool kt__parts_copy(kt_part *out, const kt_part *parts, size_t n, kt__buf *memory) {
    size_t bytes = 1;
    kt__buf_clear(memory);
    for (size_t i = 0; i < n; i++) {
        const kt_part *p = &parts[i];
        bytes += p->len + (p->id ? strlen(p->id) + 1 : 0) + (p->name ? strlen(p->name) + 1 : 0);
    }
    if (!kt__buf_reserve(memory, bytes)) return false;
    for (size_t i = 0; i < n; i++) {
        const kt_part *p = &parts[i];
        out[i] = *p;
        out[i].text = copy_text(memory, p->text, p->len);
        if (p->id) out[i].id = copy_text(memory, p->id, strlen(p->id) + 1);
        if (p->name) out[i].name = copy_text(memory, p->name, strlen(p->name) + 1);
    }
    return true;
}
