/* What several dialects share. */
#include "dialects/dialects.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

void kt__openai_error_body(kt__buf *out, int status, const kt_error *err) {
    kt__wire_write_error_as(out, status, err);
}

void kt__dialect_whole_error(kt__job *job, const kt_error *err) {
    kt__buf_clear(&job->answer.out);
    job->dialect->error_body(&job->answer.out, job->answer.status, err);
}

/* At the beginning of a text some vocabularies drop a blank: the token is written twice, and the second
 * one is whole. */
const char *kt__dialect_piece(const kt_model *model, int32_t id, char text[KT__PIECE_BYTES],
                              size_t *len) {
    const int32_t twice[2] = {id, id};
    size_t both = 0;
    kt_status status = kt_detokenize(model, twice, 2, KT_TOK_RENDER_SPECIAL, text, KT__PIECE_BYTES,
                                     &both, NULL);
    *len = status == KT_OK ? (both + 1) / 2 : 0;
    return text + (status == KT_OK ? both - *len : 0);
}

char *kt__dialect_tokens_text(const kt_model *model, const int32_t *ids, size_t n, size_t *len) {
    char *text = NULL;
    *len = 0;
    if (kt_detokenize(model, ids, n, KT_TOK_RENDER_SPECIAL, NULL, 0, len, NULL) == KT_E_LIMIT)
        text = kt__malloc(*len + 1);
    if (!text ||
        kt_detokenize(model, ids, n, KT_TOK_RENDER_SPECIAL, text, *len, len, NULL) != KT_OK)
        *len = 0;
    return text;
}

/* A token's own bytes; in the arena. Control tokens have their name. */
static void write_token_text(kt__job *job, int32_t id, kt__wire_token *out) {
    char text[KT__PIECE_BYTES];
    size_t len;
    const char *piece = kt__dialect_piece(job->model.loaded, id, text, &len);
    out->id = id;
    out->text = kt__arena_strndup(&job->arena, piece, len);
    out->len = out->text ? len : 0;
    if (!out->text) out->text = "";
}

kt__wire_token *kt__dialect_logprobs(kt__job *job, const kt_logprob *own, const kt_logprob *top,
                                     size_t n_top) {
    kt__wire_token *token = kt__arena_calloc(&job->arena, 1, sizeof *token);
    kt__wire_token *others = kt__arena_calloc(&job->arena, n_top + 1, sizeof *others);
    if (!token || !others) return NULL;
    write_token_text(job, own->id, token);
    token->logprob = own->logprob;
    for (size_t i = 0; i < n_top && top[i].id >= 0; i++) {
        write_token_text(job, top[i].id, &others[token->n_top]);
        others[token->n_top++].logprob = top[i].logprob;
    }
    token->top = others;
    return token;
}

const kt__wire_token *kt__dialect_token(kt__job *job, const kt_event *event) {
    const kt_logprob own = {event->id, event->logprob};
    if (job->request.wire->req.logprobs.n < 0 || job->request.wire->hide_logprobs || event->id < 0)
        return NULL;
    return kt__dialect_logprobs(job, &own, event->top, event->n_top);
}

void kt__dialect_gather_part(kt__job *job, int32_t choice, const kt_part *part) {
    if (!kt__wire_blocks_add(&job->answer.choices[choice].said, part))
        job->answer.out.failed = true;
}

void kt__dialect_write_object(kt__buf *out, const char *json, size_t len) {
    json_t *v = json_loadb(json, len, 0, NULL);
    char *object = json_is_object(v) ? json_dumps(v, JSON_COMPACT) : NULL;
    (void)kt__buf_puts(out, object ? object : "{}");
    free(object);
    json_decref(v);
}

void kt__dialect_gather_token(kt__job *job, const kt_event *event) {
    kt__job_choice *c = &job->answer.choices[event->choice];
    const kt__wire_token *token = kt__dialect_token(job, event);
    if (!token) return;
    if (!kt__vec_reserve(c->tokens, c->cap_tokens, c->n_tokens + 1)) {
        job->answer.out.failed = true;
        return;
    }
    c->tokens[c->n_tokens++] = *token;
}

static void add_score(kt__job_choice *c, const kt_event *event) {
    if (event->id < 0) return;
    c->logprob += (double)event->logprob;
    c->n_scored++;
}

void kt__dialect_gather(kt__job *job, const kt_event *event) {
    if (job->request.wire->n_best) add_score(&job->answer.choices[event->choice], event);
    if (!kt__wire_blocks_add_event(&job->answer.choices[event->choice].said, event))
        job->answer.out.failed = true;
    kt__dialect_gather_token(job, event);
}

/* "timings":{...}, after a comma where something is before it */
static void write_own_timings(kt__buf *out, const kt_request_report *report, bool comma) {
    kt__buf timings;
    kt__buf_init(&timings, 4096);
    kt__wire_write_timings(&timings, report);
    if (timings.failed || !timings.len) {
        out->failed = true;
    } else {
        (void)kt__buf_append(out, timings.data + !comma, timings.len - !comma);
    }
    kt__buf_free(&timings);
}

void kt__dialect_write_own(kt__job *job, const kt_request_report *report) {
    const char *learned = job->model.learned_json, *route = job->model.route_json;
    kt__buf *out = &job->answer.out;
    if (!job->answer.notes && !learned[0] && !route && !report) return;
    (void)kt__buf_puts(out, ",\"kentang\":{");
    size_t begin = out->len;
    if (job->answer.notes) {
        (void)kt__buf_puts(out, "\"notes\":");
        kt__wire_write_lines(out, job->answer.notes);
    }
    if (learned[0]) (void)kt__buf_puts(out, out->len > begin ? learned : learned + 1);
    if (route) (void)kt__buf_puts(out, out->len > begin ? route : route + 1);
    if (report) write_own_timings(out, report, out->len > begin);
    (void)kt__buf_putc(out, '}');
}

void kt__dialect_write_notes(kt__job *job) {
    kt__dialect_write_own(job, NULL);
}

kt_status kt__dialect_write_count(kt__job *job, const char *object, kt_error *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    KT__STEP(kt_request_encode(job->model.loaded, &job->request.wire->req, &ids, &n, err));
    kt_free(ids);
    (void)kt__buf_putc(&job->answer.out, '{');
    if (object) {
        kt__json_member(&job->answer.out, "object", object);
        (void)kt__buf_putc(&job->answer.out, ',');
    }
    (void)kt__buf_printf(&job->answer.out, "\"input_tokens\":%zu}", n);
    return KT_OK;
}
