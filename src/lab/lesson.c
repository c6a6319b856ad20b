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

static kt_status write_answer(kt__session *s, const kt_message *messages, size_t n,
                              float temperature, uint64_t seed, kt__buf *out, kt_error *err) {
    kt_gen_params params = plain_params(temperature, seed);
    kt__buf_clear(out);
    kt_status status = kt_chat(s->seq, messages, n, &params, collect, out, NULL, err);
    if (status == KT_OK && out->failed) return kt__fail_nomem(err, "an answer", out->len);
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

static kt_status write_own(kt__lesson *l, kt__session *s, const int32_t *ids, size_t n,
                           uint64_t seed, kt__buf *question, kt__buf *answer, kt_error *err) {
    kt_gen_params params = plain_params(1.0f, seed);
    kt_status status;
    kt__buf_clear(question);
    KT__TRY(kt_seq_truncate(s->seq, 0, err));
    KT__TRY(kt_generate(s->seq, ids, n, &params, collect, question, NULL, err));
    if (question->len == 0 || question->failed) return KT_OK;
    const kt_message message = {"user", question->data};
    KT__TRY(write_answer(s, &message, 1, 1.0f, seed, answer, err));
    if (answer->len == 0) return KT_OK;
    const kt__sample like = {.kind = KT__SAMPLE_REPLAY, .weight = 1.0f, .group = l->next_group++};
    KT__TRY(add_answer(l, s->model, &message, 1, answer->data, &like, err));
out:
    return status;
}

kt_status kt__lesson_write_own(kt__lesson *l, kt__session *s, int n, uint64_t seed, kt_error *err) {
    int32_t *ids = NULL;
    size_t n_ids = 0;
    kt__buf question, answer;
    kt_status status;
    kt__buf_init(&question, 1 << 20);
    kt__buf_init(&answer, 1 << 20);
    KT__TRY(user_prefix(s, &ids, &n_ids, err));
    for (int i = 0; i < n && status == KT_OK; i++)
        status = write_own(l, s, ids, n_ids, seed * 1000003u + (uint64_t)i, &question, &answer,
                           err);
out:
    kt__buf_free(&question);
    kt__buf_free(&answer);
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
        KT__TRY(write_answer(r->session, messages, n, 0.0f, 1, &r->own, r->err));
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
