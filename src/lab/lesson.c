#include "lab/lesson.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/vec.h"
#include "cli/text_file.h"

enum {
    OWN_AT_A_TIME = 16,
    MAX_FILE_BYTES = 256 << 20,
    MAX_MESSAGES = 256,
    MAX_WRITTEN = 256,  /* tokens of an answer or question that the model writes */
    GROUP_SEED = 0x6c65 /* of conversations' names */
};

void kt__lesson_free(kt__lesson *l) {
    for (size_t i = 0; i < l->n; i++) kt__free((void *)(uintptr_t)l->samples[i].ids);
    kt__free(l->samples);
    *l = (kt__lesson){0};
}

size_t kt__lesson_count(const kt__lesson *l, kt__sample_kind kind) {
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) n += l->samples[i].kind == kind;
    return n;
}

/* ---- a sample from a question and its answer ---- */

/* The tokens of a conversation: up to the answer, and all. */
typedef struct turns {
    int32_t *prompt, *all;
    size_t n_prompt, n_all;
} turns;

static void free_turns(turns *t) {
    kt_free(t->prompt);
    kt_free(t->all);
}

/* Where the template writes the answer behind the same prompt, these are its tokens, through the
 * one that ends it; else those of the text, and the end of turn. */
static kt_status encode_turns(const kt_model *model, const kt_message *messages, size_t n,
                              const char *answer, turns *t, kt_error *err) {
    kt_message all[MAX_MESSAGES + 1];
    kt_status status;
    memcpy(all, messages, n * sizeof *all);
    all[n] = (kt_message){"assistant", answer};
    KT__TRY(kt_chat_encode(model, messages, n, KT_CHAT_GENERATE, &t->prompt, &t->n_prompt, err));
    KT__TRY(kt_chat_encode(model, all, n + 1, 0, &t->all, &t->n_all, err));
    size_t end = t->n_prompt;
    bool same = t->n_all > end && !memcmp(t->all, t->prompt, end * sizeof *t->all);
    while (same && end < t->n_all && !kt_token_is_eog(model, t->all[end])) end++;
    if (same && end > t->n_prompt && end < t->n_all) {
        t->n_all = end + 1;
        return KT_OK;
    }
    kt_model_info info;
    size_t len = strlen(answer), n_answer = 0;
    kt_model_get_info(model, &info);
    kt_free(t->all);
    t->n_all = t->n_prompt + len + 2;
    t->all = kt__calloc(t->n_all, sizeof *t->all);
    if (!t->all) return kt__fail_nomem(err, "an answer's tokens", t->n_all * sizeof *t->all);
    memcpy(t->all, t->prompt, t->n_prompt * sizeof *t->all);
    KT__TRY(kt_tokenize(model, answer, len, 0, t->all + t->n_prompt, len + 1, &n_answer, err));
    t->n_all = t->n_prompt + n_answer;
    if (info.eos_id >= 0) t->all[t->n_all++] = info.eos_id;
out:
    return status;
}

static kt_status add_tokens(kt__lesson *l, const turns *t, const kt__sample *like, kt_error *err) {
    size_t n = t->n_all, ids_bytes = n * sizeof(int32_t);
    if (n > INT32_MAX / 8 || !kt__vec_reserve(l->samples, l->cap, l->n + 1))
        return kt__fail_nomem(err, "a sample", ids_bytes);
    int32_t *ids = kt__malloc(ids_bytes + n); /* and the mask behind them */
    if (!ids) return kt__fail_nomem(err, "a sample", ids_bytes + n);
    uint8_t *mask = (uint8_t *)ids + ids_bytes;
    memcpy(ids, t->all, ids_bytes);
    for (size_t i = 0; i < n; i++) mask[i] = i > 0 && i >= t->n_prompt;
    kt__sample *s = &l->samples[l->n++];
    *s = *like;
    s->ids = ids;
    s->mask = mask;
    s->n = (int)n;
    return KT_OK;
}

static kt_status add_answer(kt__lesson *l, const kt_model *model, const kt_message *messages,
                            size_t n, const char *answer, const kt__sample *like, kt_error *err) {
    turns t = {0};
    kt_status status;
    if (n > MAX_MESSAGES) return kt__fail(err, KT_E_LIMIT, "more than %d messages", MAX_MESSAGES);
    KT__TRY(encode_turns(model, messages, n, answer, &t, err));
    KT__TRY(add_tokens(l, &t, like, err));
out:
    free_turns(&t);
    return status;
}

/* ---- what the model writes ---- */

static bool collect(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    return kt__buf_append(user, text, len);
}

static kt_gen_params plain_params(float temperature, uint64_t seed) {
    kt_gen_params p = kt_gen_params_default();
    p.sampling.temperature = temperature;
    p.sampling.seed = seed;
    p.sampling.top_k = 0;
    p.sampling.top_p = 1.0f;
    p.sampling.min_p = 0.0f;
    p.n_predict = MAX_WRITTEN;
    return p;
}

static kt_status write_answer(kt__session *s, const kt_message *messages, size_t n, kt__buf *out,
                              kt_error *err) {
    kt_request_params request = kt_request_params_default();
    request.messages = messages;
    request.n_messages = n;
    request.gen = plain_params(0.0f, 1);
    kt__buf_clear(out);
    kt_status status = kt_request_run(s->engine, &request, collect, out, NULL, err);
    if (status == KT_OK && out->failed) return kt__fail_nomem(err, "an answer", out->len);
    return status;
}

/* ---- conversations of its own, many at a time ---- */

typedef struct own_text {
    kt__buf text;
    kt_request *request;
    kt_status status;
} own_text;

static void take_event(void *user, const kt_event *event) {
    own_text *own = user;
    if (event->kind == KT_EVENT_TOKEN) kt__buf_append(&own->text, event->text, event->len);
    if (event->kind == KT_EVENT_FINISHED && event->error) own->status = event->error->code;
}

/* One request each; request.ids or the questions' texts are the prompts. */
static kt_status write_round(kt__session *s, kt_request_params request, const own_text *questions,
                             own_text *out, size_t n, uint64_t seed, kt_error *err) {
    kt_status status = KT_OK;
    int32_t n_left = 1;
    for (size_t i = 0; status == KT_OK && i < n; i++) {
        const kt_message message = {"user", questions ? questions[i].text.data : NULL};
        kt__buf_clear(&out[i].text);
        out[i].status = KT_OK;
        if (questions && questions[i].text.len == 0) continue;
        if (questions) {
            request.messages = &message;
            request.n_messages = 1;
        }
        request.gen = plain_params(1.0f, seed + i);
        request.on_event = take_event;
        request.user = &out[i];
        status = kt_engine_submit(s->engine, &request, &out[i].request, err);
    }
    while (status == KT_OK && n_left > 0) status = kt_engine_step(s->engine, 100000, &n_left, err);
    for (size_t i = 0; i < n; i++) {
        if (out[i].request) kt_request_close(out[i].request);
        out[i].request = NULL;
        if (status == KT_OK && out[i].status != KT_OK)
            status = kt__fail(err, out[i].status, "a conversation of the model's own failed");
        if (status == KT_OK && out[i].text.failed)
            status = kt__fail_nomem(err, "a conversation", out[i].text.len);
    }
    return status;
}

/* What stands before a user's words where a conversation begins. */
static kt_status user_prefix(const kt__session *s, int32_t **ids, size_t *n, kt_error *err) {
    static const char mark[] = "kentang-marks-this";
    const kt_message message = {"user", mark};
    char *text = NULL;
    size_t len = 0;
    kt_status status = kt_chat_render(s->model, &message, 1, 0, &text, &len, err);
    if (status != KT_OK) return status;
    char *at = strstr(text, mark);
    size_t prefix = at ? (size_t)(at - text) : 0;
    *ids = kt__calloc(prefix + 2, sizeof **ids);
    if (!*ids) status = kt__fail_nomem(err, "a prompt's tokens", prefix);
    if (status == KT_OK)
        status = kt_tokenize(s->model, text, prefix, KT_TOK_PARSE_SPECIAL, *ids, prefix + 1, n,
                             err);
    if (status == KT_OK && *n == 0)
        status = kt__fail(err, KT_E_UNSUPPORTED,
                          "the model's template writes nothing ahead of a question, so the model "
                          "cannot write one: give replay with lines of \"keep\"");
    kt_free(text);
    return status;
}

static kt_status add_own(kt__lesson *l, const kt__session *s, const own_text *question,
                         const own_text *answer, kt_error *err) {
    const kt_message message = {"user", question->text.data};
    if (question->text.len == 0 || answer->text.len == 0) return KT_OK;
    const kt__sample like = {.kind = KT__SAMPLE_REPLAY, .weight = 1.0f, .group = l->next_group++};
    return add_answer(l, s->model, &message, 1, answer->text.data, &like, err);
}

kt_status kt__lesson_write_own(kt__lesson *l, kt__session *s, int n, uint64_t seed, kt_error *err) {
    own_text questions[OWN_AT_A_TIME] = {0}, answers[OWN_AT_A_TIME] = {0};
    kt_request_params ask = kt_request_params_default(), reply = ask;
    int32_t *ids = NULL;
    kt_status status;
    for (int i = 0; i < OWN_AT_A_TIME; i++) {
        kt__buf_init(&questions[i].text, 1 << 20);
        kt__buf_init(&answers[i].text, 1 << 20);
    }
    KT__TRY(user_prefix(s, &ids, &ask.n_ids, err));
    ask.ids = ids;
    for (int i = 0; i < n; i += OWN_AT_A_TIME) {
        size_t m = (size_t)(n - i < OWN_AT_A_TIME ? n - i : OWN_AT_A_TIME);
        uint64_t first = seed * 1000003u + (uint64_t)i;
        KT__TRY(write_round(s, ask, NULL, questions, m, first, err));
        KT__TRY(write_round(s, reply, questions, answers, m, first, err));
        for (size_t k = 0; k < m; k++) KT__TRY(add_own(l, s, &questions[k], &answers[k], err));
    }
out:
    for (int i = 0; i < OWN_AT_A_TIME; i++) {
        kt__buf_free(&questions[i].text);
        kt__buf_free(&answers[i].text);
    }
    kt__free(ids);
    return status;
}

int32_t kt__lesson_end_token(const kt__session *s) {
    const kt_message message = {"user", "a"};
    kt_error err;
    turns t = {0};
    int32_t end = -1;
    if (encode_turns(s->model, &message, 1, "b", &t, &err) == KT_OK && t.n_all > 0 &&
        kt_token_is_eog(s->model, t.all[t.n_all - 1]))
        end = t.all[t.n_all - 1];
    free_turns(&t);
    return end;
}

/* ---- lines ---- */

typedef struct line_reader {
    kt__lesson *lesson;
    kt__session *session;
    const char *path;
    size_t line;
    kt__buf own;
    kt_error *err;
} line_reader;

static kt_status bad_line(const line_reader *r, const char *what) {
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, UINT64_MAX, "line %zu: %s", r->line, what);
}

static kt_status take_messages(const line_reader *r, const json_t *line, kt_message *out,
                               size_t *n) {
    const json_t *list = json_object_get(line, "messages");
    const char *prompt = json_string_value(json_object_get(line, "prompt"));
    if (prompt) {
        out[0] = (kt_message){"user", prompt};
        *n = 1;
        return KT_OK;
    }
    *n = json_array_size(list);
    if (*n == 0 || *n > MAX_MESSAGES)
        return bad_line(r, "neither \"prompt\", a text, nor \"messages\", a list of 1 to 256");
    for (size_t i = 0; i < *n; i++) {
        const json_t *m = json_array_get(list, i);
        out[i].role = json_string_value(json_object_get(m, "role"));
        out[i].content = json_string_value(json_object_get(m, "content"));
        if (!out[i].role || !out[i].content)
            return bad_line(r, "a message without a \"role\" or a \"content\" that are texts");
    }
    return KT_OK;
}

/* The answer that a line gives, and what is to be made of it; *answer NULL: the model's own. */
static kt_status take_answer(const line_reader *r, const json_t *line, kt_message *messages,
                             size_t *n, const char **answer, kt__sample *like) {
    const char *correction = json_string_value(json_object_get(line, "correction"));
    const char *given = json_string_value(json_object_get(line, "answer"));
    const char *rating = json_string_value(json_object_get(line, "rating"));
    bool keep = json_is_true(json_object_get(line, "keep"));
    if (*n > 1 && !strcmp(messages[*n - 1].role, "assistant")) {
        const char *last = messages[--*n].content;
        if (!given) given = last;
    }
    *answer = correction ? correction : given;
    if (rating && strcmp(rating, "up") && strcmp(rating, "down"))
        return bad_line(r, "\"rating\" is neither \"up\" nor \"down\"");
    if (keep && (correction || rating))
        return bad_line(r, "\"keep\" beside a correction or a rating");
    if (rating && !*answer) return bad_line(r, "a rating without the answer that it rates");
    if (*answer && !**answer) return bad_line(r, "an empty answer");
    like->kind = !*answer           ? KT__SAMPLE_NEIGHBOUR
                 : keep             ? KT__SAMPLE_REPLAY
                 : correction       ? KT__SAMPLE_CORRECTION
                 : !rating          ? KT__SAMPLE_CORRECTION
                 : rating[0] == 'u' ? KT__SAMPLE_UP
                                    : KT__SAMPLE_DOWN;
    return KT_OK;
}

static kt_status take_rest(const line_reader *r, const json_t *line, kt__sample *like) {
    const char *name = json_string_value(json_object_get(line, "conversation"));
    const json_t *weight = json_object_get(line, "weight");
    double w = weight ? json_number_value(weight) : 1.0;
    like->group = name ? kt__hash_bytes(GROUP_SEED, name, strlen(name)).w[0] | (1ull << 63)
                       : r->lesson->next_group++;
    like->earlier = json_is_true(json_object_get(line, "earlier"));
    like->weight = (float)w;
    if ((weight && !json_is_number(weight)) || !(w >= 0.0 && w <= 1.0))
        return bad_line(r, "\"weight\" is no number from 0 to 1");
    return KT_OK;
}

static kt_status take_line(line_reader *r, const json_t *line) {
    kt_message messages[MAX_MESSAGES];
    const char *answer = NULL;
    size_t n = 0;
    kt__sample like = {0};
    kt_status status;
    KT__TRY(take_messages(r, line, messages, &n));
    KT__TRY(take_answer(r, line, messages, &n, &answer, &like));
    KT__TRY(take_rest(r, line, &like));
    if (!answer) {
        KT__TRY(write_answer(r->session, messages, n, &r->own, r->err));
        if (r->own.len == 0) return KT_OK; /* the model has nothing to say */
        answer = r->own.data;
    }
    KT__TRY(add_answer(r->lesson, r->session->model, messages, n, answer, &like, r->err));
out:
    return status;
}

static kt_status read_lines(line_reader *r, const char *text) {
    kt_status status = KT_OK;
    for (const char *at = text; status == KT_OK && *at;) {
        const char *end = strchrnul(at, '\n');
        json_error_t fault;
        r->line++;
        if (strspn(at, " \t\r") < (size_t)(end - at)) {
            json_t *line = json_loadb(at, (size_t)(end - at), 0, &fault);
            status = json_is_object(line) ? take_line(r, line)
                                          : bad_line(r, line ? "no JSON object" : fault.text);
            json_decref(line);
        }
        at = *end ? end + 1 : end;
    }
    return status;
}

kt_status kt__lesson_read(kt__lesson *l, kt__session *session, const char *path, kt_error *err) {
    line_reader r = {.lesson = l, .session = session, .path = path, .err = err};
    char *text = NULL;
    size_t len = 0;
    kt_status status = kt__text_file_read(path, MAX_FILE_BYTES, false, &text, &len, err);
    if (status != KT_OK) return status;
    kt__buf_init(&r.own, 1 << 20);
    status = read_lines(&r, text);
    kt__buf_free(&r.own);
    kt__free(text);
    return status;
}
