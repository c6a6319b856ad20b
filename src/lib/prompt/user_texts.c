#include "prompt/user_texts.h"

#include <string.h>

#include "base/error.h"
#include "base/json_in.h"
#include "base/json_out.h"

enum { MOST_NESTED = 128, MOST_JSON = 1 << 30 };

static kt_status fail_memory(size_t bytes, kt_error *err) {
    return kt__fail_nomem(err, "a conversation's texts", bytes);
}

/* ---- JSON ---- */

typedef struct json_walk {
    kt__json_in in;
    kt__arena *arena;
    kt__user_text *texts;
    size_t n, cap;
    int nested;
    bool full; /* no memory */
} json_walk;

/* A message on its way. */
typedef struct json_message {
    bool is_user, has_text;
    kt__user_text text;
} json_message;

typedef bool member_fn(json_walk *w, const kt__json_raw *key, void *user);
typedef bool element_fn(json_walk *w, void *user);

static bool skip_value(json_walk *w);

/* After the bracket, through its end; each element is read by fn. */
static bool walk_array(json_walk *w, element_fn *fn, void *user) {
    kt__json_in_blanks(&w->in);
    if (kt__json_in_take(&w->in, ']')) return true;
    for (;;) {
        kt__json_in_blanks(&w->in);
        if (!fn(w, user)) return false;
        kt__json_in_blanks(&w->in);
        if (kt__json_in_take(&w->in, ']')) return true;
        if (!kt__json_in_take(&w->in, ',')) return false;
    }
}

/* After the brace, through its end; each member's value is read by fn. */
static bool walk_object(json_walk *w, member_fn *fn, void *user) {
    kt__json_raw key;
    kt__json_in_blanks(&w->in);
    if (kt__json_in_take(&w->in, '}')) return true;
    for (;;) {
        kt__json_in_blanks(&w->in);
        if (!kt__json_in_take(&w->in, '"') || !kt__json_in_string(&w->in, &key)) return false;
        kt__json_in_blanks(&w->in);
        if (!kt__json_in_take(&w->in, ':')) return false;
        kt__json_in_blanks(&w->in);
        if (!fn(w, &key, user)) return false;
        kt__json_in_blanks(&w->in);
        if (kt__json_in_take(&w->in, '}')) return true;
        if (!kt__json_in_take(&w->in, ',')) return false;
    }
}

static bool skip_element(json_walk *w, void *user) {
    (void)user;
    return skip_value(w);
}

static bool skip_member(json_walk *w, const kt__json_raw *key, void *user) {
    (void)key, (void)user;
    return skip_value(w);
}

static bool skip_value(json_walk *w) {
    kt__json_raw raw;
    bool is_float, good = false;
    if (++w->nested > MOST_NESTED) return false;
    if (kt__json_in_take(&w->in, '"'))
        good = kt__json_in_string(&w->in, &raw);
    else if (kt__json_in_take(&w->in, '['))
        good = walk_array(w, skip_element, NULL);
    else if (kt__json_in_take(&w->in, '{'))
        good = walk_object(w, skip_member, NULL);
    else
        good = kt__json_in_word(&w->in, "true") || kt__json_in_word(&w->in, "false") ||
               kt__json_in_word(&w->in, "null") || kt__json_in_number(&w->in, &is_float);
    w->nested--;
    return good;
}

static bool is_key(const kt__json_raw *raw, const char *name) {
    return !raw->escaped && raw->len == strlen(name) && !memcmp(raw->s, name, raw->len);
}

/* The string that comes, unescaped. */
static bool read_text(json_walk *w, kt__user_text *out) {
    kt__json_raw raw;
    out->at = w->in.at;
    if (!kt__json_in_string(&w->in, &raw)) return false;
    out->text = raw.s;
    out->len = raw.len;
    if (!raw.escaped) return true;
    char *text = kt__arena_alloc_aligned(w->arena, raw.len + 1, 1);
    w->full = !text;
    if (!text) return false;
    out->len = kt__json_unescape(&raw, text);
    out->text = text;
    return true;
}

static bool read_part_member(json_walk *w, const kt__json_raw *key, void *user) {
    json_message *m = user;
    if (m->has_text || !is_key(key, "text") || !kt__json_in_take(&w->in, '"')) return skip_value(w);
    m->has_text = true;
    return read_text(w, &m->text);
}

static bool read_part(json_walk *w, void *user) {
    return kt__json_in_take(&w->in, '{') ? walk_object(w, read_part_member, user) : skip_value(w);
}

static bool read_content(json_walk *w, json_message *m) {
    m->has_text = false;
    if (kt__json_in_take(&w->in, '[')) return walk_array(w, read_part, m);
    if (!kt__json_in_take(&w->in, '"')) return skip_value(w);
    m->has_text = true;
    return read_text(w, &m->text);
}

static bool read_message_member(json_walk *w, const kt__json_raw *key, void *user) {
    json_message *m = user;
    kt__json_raw role;
    if (is_key(key, "content")) return read_content(w, m);
    if (!is_key(key, "role") || !kt__json_in_take(&w->in, '"')) return skip_value(w);
    if (!kt__json_in_string(&w->in, &role)) return false;
    m->is_user = is_key(&role, "user");
    return true;
}

static bool keep_text(json_walk *w, const kt__user_text *text) {
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 16;
        kt__user_text *more = kt__arena_calloc(w->arena, cap, sizeof *more);
        w->full = !more;
        if (!more) return false;
        if (w->n) memcpy(more, w->texts, w->n * sizeof *more);
        w->texts = more;
        w->cap = cap;
    }
    w->texts[w->n++] = *text;
    return true;
}

static bool read_message(json_walk *w, void *user) {
    json_message m = {0};
    (void)user;
    if (!kt__json_in_take(&w->in, '{')) return skip_value(w);
    if (!walk_object(w, read_message_member, &m)) return false;
    return !m.is_user || !m.has_text || keep_text(w, &m.text);
}

/* Of equal keys the last counts, as for who renders it. */
static bool read_root_member(json_walk *w, const kt__json_raw *key, void *user) {
    (void)user;
    if (!is_key(key, "messages")) return skip_value(w);
    w->n = 0;
    return kt__json_in_take(&w->in, '[') ? walk_array(w, read_message, NULL) : skip_value(w);
}

static kt_status walk_json(kt__arena *arena, const kt_request_params *r, kt__user_text **texts,
                           size_t *n, kt_error *err) {
    json_walk w = {.in = {.text = r->chat_json, .len = r->chat_json_len}, .arena = arena};
    kt__json_in_blanks(&w.in);
    bool good = false;
    if (kt__json_in_take(&w.in, '['))
        good = walk_array(&w, read_message, NULL);
    else if (kt__json_in_take(&w.in, '{'))
        good = walk_object(&w, read_root_member, NULL);
    if (w.full) return fail_memory(r->chat_json_len, err);
    *texts = w.texts;
    *n = good ? w.n : 0;
    return KT_OK;
}

/* ---- both forms ---- */

kt_status kt__user_texts_of(kt__arena *arena, const kt_request_params *r, kt__user_text **texts,
                            size_t *n, kt_error *err) {
    *texts = NULL;
    *n = 0;
    if (r->chat_json) return walk_json(arena, r, texts, n, err);
    if (!r->messages || !r->n_messages) return KT_OK;
    *texts = kt__arena_calloc(arena, r->n_messages, sizeof **texts);
    if (!*texts) return fail_memory(r->n_messages * sizeof **texts, err);
    for (size_t i = 0; i < r->n_messages; i++) {
        const kt_message *m = &r->messages[i];
        if (!m->role || !m->content || strcmp(m->role, "user") != 0) continue;
        (*texts)[(*n)++] = (kt__user_text){m->content, strlen(m->content), i};
    }
    return KT_OK;
}

static kt_status put_in_messages(kt__arena *arena, const kt__user_text *texts,
                                 const char *const *before, size_t n, kt_request_params *r,
                                 kt_error *err) {
    kt_message *m = kt__arena_calloc(arena, r->n_messages, sizeof *m);
    if (!m) return fail_memory(r->n_messages * sizeof *m, err);
    memcpy(m, r->messages, r->n_messages * sizeof *m);
    for (size_t i = 0; i < n; i++) {
        size_t n_before = before[i] ? strlen(before[i]) : 0;
        if (!n_before) continue;
        char *text = kt__arena_calloc(arena, n_before + texts[i].len + 1, 1);
        if (!text) return fail_memory(n_before + texts[i].len, err);
        memcpy(text, before[i], n_before);
        memcpy(text + n_before, texts[i].text, texts[i].len);
        m[texts[i].at].content = text;
    }
    r->messages = m;
    return KT_OK;
}

static kt_status put_in_json(kt__arena *arena, const kt__user_text *texts,
                             const char *const *before, size_t n, kt_request_params *r,
                             kt_error *err) {
    kt__buf out;
    size_t from = 0;
    kt__buf_init(&out, MOST_JSON);
    for (size_t i = 0; i < n; i++) {
        if (!before[i]) continue;
        (void)kt__buf_append(&out, r->chat_json + from, texts[i].at - from);
        kt__json_chars(&out, before[i], strlen(before[i]), KT__JSON_PLAIN);
        from = texts[i].at;
    }
    (void)kt__buf_append(&out, r->chat_json + from, r->chat_json_len - from);
    char *json = out.failed ? NULL : kt__arena_strndup(arena, out.data, out.len);
    size_t len = out.len;
    kt__buf_free(&out);
    if (!json) return fail_memory(r->chat_json_len, err);
    r->chat_json = json;
    r->chat_json_len = len;
    return KT_OK;
}

kt_status kt__user_texts_put(kt__arena *arena, const kt__user_text *texts,
                             const char *const *before, size_t n, kt_request_params *r,
                             kt_error *err) {
    return r->chat_json ? put_in_json(arena, texts, before, n, r, err)
                        : put_in_messages(arena, texts, before, n, r, err);
}
