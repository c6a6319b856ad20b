#include "make/learn.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "term/cli.h"

enum { MAX_FILE_BYTES = 256 << 20, GROUP_SEED = 0x6c65 /* of conversations' names */ };

typedef struct line_reader {
    kt__lesson *lesson;
    kt_engine *engine;
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
    if (*n == 0 || *n > KT__LESSON_MESSAGES_MAX)
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
        return bad_line(r, "\"keep\" together with a correction or a rating");
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
    kt_message messages[KT__LESSON_MESSAGES_MAX];
    const char *answer = NULL;
    size_t n = 0;
    kt__sample like = {0};
    KT__STEP(take_messages(r, line, messages, &n));
    KT__STEP(take_answer(r, line, messages, &n, &answer, &like));
    KT__STEP(take_rest(r, line, &like));
    if (!answer) {
        KT__STEP(kt__lesson_write_answer(r->engine, messages, n, &r->own, r->err));
        if (r->own.len == 0) return KT_OK; /* the model has nothing to say */
        answer = r->own.data;
    }
    return kt__lesson_add_answer(r->lesson, r->engine->model, messages, n, answer, &like, r->err);
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

kt_status kt__lesson_read_text(kt__lesson *l, kt_engine *engine, const char *path, const char *text,
                               kt_error *err) {
    line_reader r = {.lesson = l, .engine = engine, .path = path, .err = err};
    kt__buf_init(&r.own, 1 << 20);
    kt_status status = read_lines(&r, text);
    kt__buf_free(&r.own);
    return status;
}

kt_status kt__lesson_read(kt__lesson *l, kt_engine *engine, const char *path, kt_error *err) {
    char *text = NULL;
    size_t len = 0;
    kt_status status = kt__text_file_read(path, MAX_FILE_BYTES, false, &text, &len, err);
    if (status == KT_OK) status = kt__lesson_read_text(l, engine, path, text, err);
    kt__free(text);
    return status;
}
