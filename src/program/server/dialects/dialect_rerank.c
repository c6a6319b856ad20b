/* Cohere's and Jina's rerank, and TEI's: how relevant each document is to a query. Each pair is a prompt
 * of the job. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "dialects/dialects.h"

typedef struct ranked {
    size_t index;
    float score;
} ranked;

typedef struct ranking {
    ranked *found; /* [n], as the documents; by score at the end */
    const json_t **documents;
    size_t n, top_n;
    bool with_documents;
    const char
        *key; /* of the documents: "documents", or TEI's "texts", which is answered as TEI does */
    int64_t n_tokens;
} ranking;

/* ---- the body ---- */

/* A text, or an object that has one. */
static const json_t *text_of(const json_t *document) {
    return json_is_object(document) ? json_object_get(document, "text") : document;
}

static kt_status read_documents(kt__job *job, ranking *r, kt_error *err) {
    bool tei = !json_object_get(job->request.json, "documents") &&
               json_object_get(job->request.json, "texts");
    r->key = tei ? "texts" : "documents";
    json_t *list = json_object_get(job->request.json, r->key), *v;
    size_t i, n = json_array_size(list);
    if (!n)
        return kt__fail_at(err, KT_E_ARG, r->key, UINT64_MAX,
                           "%s: expected an array of texts or of objects with \"text\"", r->key);
    if (n > KT__WIRE_MAX_PROMPTS)
        return kt__fail_at(err, KT_E_LIMIT, r->key, UINT64_MAX, "%s: at most %d", r->key,
                           (int)KT__WIRE_MAX_PROMPTS);
    r->documents = kt__arena_calloc(&job->arena, n, sizeof *r->documents);
    r->found = kt__arena_calloc(&job->arena, n, sizeof *r->found);
    if (!r->documents || !r->found) return kt__fail_nomem(err, "a request", n);
    json_array_foreach(list, i, v) {
        r->documents[i] = text_of(v);
        r->found[i].index = i;
        if (!json_is_string(r->documents[i]))
            return kt__fail_at(err, KT_E_ARG, r->key, UINT64_MAX,
                               "%s[%zu]: expected a text or an object with \"text\"", r->key, i);
    }
    r->n = r->top_n = n;
    return KT_OK;
}

static bool is_tei(const ranking *r) {
    return !strcmp(r->key, "texts");
}

static kt_status read_flag(kt__job *job, const char *key, bool *out, kt_error *err) {
    const json_t *v = json_object_get(job->request.json, key);
    if (v && !json_is_null(v) && !json_is_boolean(v))
        return kt__fail_at(err, KT_E_ARG, key, UINT64_MAX, "%s: expected true or false", key);
    *out = json_is_true(v);
    return KT_OK;
}

static kt_status read_options(kt__job *job, ranking *r, kt_error *err) {
    const json_t *top = json_object_get(job->request.json, "top_n");
    if (top && !json_is_null(top)) {
        json_int_t n = json_is_integer(top) ? json_integer_value(top) : 0;
        if (n < 1)
            return kt__fail_at(err, KT_E_ARG, "top_n", UINT64_MAX,
                               "top_n: expected a whole number of at least 1");
        if ((uint64_t)n < r->top_n) r->top_n = (size_t)n;
    }
    return read_flag(job, is_tei(r) ? "return_text" : "return_documents", &r->with_documents, err);
}

static kt_status read_body(kt__job *job, kt_error *err) {
    ranking *r = kt__arena_calloc(&job->arena, 1, sizeof *r);
    const json_t *query = json_object_get(job->request.json, "query");
    job->request.wire = kt__calloc(1, sizeof *job->request.wire);
    if (!r || !job->request.wire) return kt__fail_nomem(err, "a request", sizeof *r);
    kt__arena_init(&job->request.wire->arena, 4096, (size_t)KT__WIRE_MAX_BYTES * 8);
    job->request.wire->req = kt__config_request(job->request.settings->config);
    job->request.wire->req.embedding.pooling = KT_POOLING_RANK;
    job->extra = r;
    if (!json_is_string(query) || !json_string_length(query))
        return kt__fail_at(err, KT_E_ARG, "query", UINT64_MAX,
                           "query: expected a text that is not empty");
    KT__STEP(read_documents(job, r, err));
    return read_options(job, r, err);
}

/* ---- pairs ---- */

static kt_status make_pair(kt__job *job, const json_t *document, kt__wire_prompt *out,
                           kt_error *err) {
    const json_t *query = json_object_get(job->request.json, "query");
    int32_t *ids = NULL;
    size_t n = 0;
    kt_status status = kt_tokenize_pair(
        job->model.loaded, json_string_value(query), json_string_length(query),
        json_string_value(document), json_string_length(document), &ids, &n, &out->pair_from, err);
    if (status != KT_OK) return status;
    int32_t *copy = kt__arena_calloc(&job->request.wire->arena, n + 1, sizeof *copy);
    if (copy) memcpy(copy, ids, n * sizeof *copy);
    kt_free(ids);
    if (!copy) return kt__fail_nomem(err, "token ids", n * sizeof *copy);
    out->ids = copy;
    out->n_ids = n;
    return KT_OK;
}

static kt_status read_rerank(kt__job *job, kt_error *err) {
    KT__STEP(kt__job_parse(job, err));
    KT__STEP(read_body(job, err));
    KT__STEP(kt__job_use_model(job, json_string_value(json_object_get(job->request.json, "model")),
                               err));
    ranking *r = job->extra;
    kt__wire_prompt *prompts = kt__arena_calloc(&job->request.wire->arena, r->n, sizeof *prompts);
    if (!prompts) return kt__fail_nomem(err, "a request", r->n);
    for (size_t i = 0; i < r->n; i++) KT__STEP(make_pair(job, r->documents[i], &prompts[i], err));
    job->request.wire->prompts = prompts;
    job->request.wire->n_prompts = r->n;
    return KT_OK;
}

/* ---- the answer ---- */

static void ignore_token(kt__job *job, const kt_event *event) {
    (void)job;
    (void)event;
}

static void take_score(kt__job *job, const kt_event *event) {
    ranking *r = job->extra;
    kt_error err;
    if (event->embedding && event->n_embedding == 1) {
        r->found[event->choice].score = event->embedding[0];
        r->n_tokens += event->report->n_prompt;
        return;
    }
    (void)kt__fail(&err, KT_E_CANCELLED, "%s", kt_finish_name(event->finish));
    kt__job_fail(job, &err);
}

static int better_first(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void write_document(kt__buf *out, const json_t *text) {
    kt__json_string(out, json_string_value(text), json_string_length(text), KT__JSON_PLAIN);
}

static void write_result(kt__job *job, const ranking *r, size_t i) {
    const ranked *one = &r->found[i];
    kt__buf *out = &job->answer.out;
    (void)kt__buf_printf(out, "%s{\"index\":%zu,\"%s\":%.9g", i ? "," : "", one->index,
                         is_tei(r) ? "score" : "relevance_score", (double)one->score);
    if (r->with_documents) {
        (void)kt__buf_puts(out, is_tei(r) ? ",\"text\":" : ",\"document\":{\"text\":");
        write_document(out, r->documents[one->index]);
        if (!is_tei(r)) (void)kt__buf_putc(out, '}');
    }
    (void)kt__buf_putc(out, '}');
}

/* [{"index", "score"}]: nothing else is said. */
static void write_tei(kt__job *job, const ranking *r) {
    (void)kt__buf_putc(&job->answer.out, '[');
    for (size_t i = 0; i < r->top_n; i++) write_result(job, r, i);
    (void)kt__buf_putc(&job->answer.out, ']');
}

static void write_ranking(kt__job *job) {
    ranking *r = job->extra;
    qsort(r->found, r->n, sizeof *r->found, better_first);
    if (is_tei(r)) {
        write_tei(job, r);
        return;
    }
    (void)kt__buf_puts(&job->answer.out, "{\"object\":\"list\",\"model\":");
    kt__json_text(&job->answer.out, kt__served_name(job->model.served));
    (void)kt__buf_puts(&job->answer.out, ",\"results\":[");
    for (size_t i = 0; i < r->top_n; i++) write_result(job, r, i);
    (void)kt__buf_printf(&job->answer.out,
                         "],\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}",
                         (long long)r->n_tokens, (long long)r->n_tokens);
}

const kt__dialect kt__dialect_rerank = {
    .route = "/v1/rerank",
    .error_body = kt__openai_error_body,
    .read = read_rerank,
    .token = ignore_token,
    .finish = take_score,
    .end = write_ranking,
    .error = kt__dialect_whole_error,
};
