#include "prompt/notes.h"

#include <stdlib.h>
#include <string.h>

#include "bank/bank.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"

enum { ARENA_BLOCK = 1 << 14, ARENA_MOST = 1 << 30, NOTE_BYTES = 1 << 16 };

/* An entry that opens. */
typedef struct opened_entry {
    uint64_t id;
    int n_words;
    size_t first, last; /* the user's messages that open it */
    bool doubtful;      /* none of them asks for it in words that say so */
    bool noted;
} opened_entry;

typedef struct placing {
    kt__notes *notes;
    const kt_model *model;
    kt_bank *bank;
    kt__user_text *texts;
    size_t n_texts;
    opened_entry opened[KT__NOTES_OPENED];
    size_t n_opened;
    kt__bank_hit named[KT__NOTES_OPENED]; /* that are doubtful, or asked about for something else */
    size_t n_named;
} placing;

/* The one that was opened first goes, where there are too many. */
static void add_opened(placing *p, size_t text, const kt__bank_hit *hit, bool doubtful) {
    size_t i = 0, oldest = 0;
    while (i < p->n_opened && p->opened[i].id != hit->id) i++;
    if (i < p->n_opened) {
        opened_entry *o = &p->opened[i];
        if (o->doubtful && !doubtful) o->first = text;
        o->doubtful = o->doubtful && doubtful;
        o->last = text;
        return;
    }
    for (size_t k = 1; k < p->n_opened; k++)
        if (p->opened[k].last < p->opened[oldest].last) oldest = k;
    size_t at = p->n_opened < KT__NOTES_OPENED ? p->n_opened++ : oldest;
    p->opened[at] = (opened_entry){
        .id = hit->id, .n_words = hit->n_words, .first = text, .last = text, .doubtful = doubtful};
}

/* What recall is held to: they, and the entry that is asked itself, which has no subject where it is not among
 * them. */
static void list_opened(placing *p) {
    kt__notes *out = p->notes;
    const kt__user_text *last = &p->texts[p->n_texts - 1];
    bool listed = false;
    if (!kt__bank_asked(p->bank, last->text, last->len, &out->asked)) out->asked = 0;
    for (size_t i = 0; i < p->n_opened; i++) {
        out->opened[out->n_opened++] = p->opened[i].id;
        listed |= p->opened[i].id == out->asked;
    }
    if (out->asked && !listed) out->opened[out->n_opened++] = out->asked;
}

/* The one entry that the request has recited; how many: 0 where it is not there (any more). */
static size_t recite_entry(const placing *p, uint64_t id, kt__buf *out) {
    p->notes->summary_ids[0] = id;
    return kt__bank_write_answer(p->bank, id, out) && out->len > 0;
}

/* What is answered word for word. A correction of that very question comes before the list. */
static kt_status summarise_bank(placing *p, kt_error *err) {
    kt__notes *out = p->notes;
    const kt__user_text *last = &p->texts[p->n_texts - 1];
    uint64_t recited = out->request.corrections.recited;
    kt__buf text;
    if (out->asked && !recited) return KT_OK;
    kt__buf_init(&text, NOTE_BYTES);
    out->n_listed = recited ? recite_entry(p, recited, &text)
                            : kt__bank_summarise(p->bank, last->text, last->len, &text,
                                                 out->summary_ids, KT_NOTES_MAX);
    if (out->n_listed) out->summary = kt__arena_strndup(&out->arena, text.data, text.len);
    out->n_summary = text.len;
    bool failed = text.failed || (out->n_listed && !out->summary);
    kt__buf_free(&text);
    return failed ? kt__fail_nomem(err, "what was learned", NOTE_BYTES) : KT_OK;
}

static void add_named(placing *p, const kt__bank_hit *hit) {
    for (size_t i = 0; i < p->n_named; i++)
        if (p->named[i].id == hit->id) return;
    if (p->n_named < KT__NOTES_OPENED) p->named[p->n_named++] = *hit;
}

static kt__bank_fit fit_text(const placing *p, size_t text, const kt__bank_hit *hit) {
    return kt__bank_fit_of(p->bank, hit->id, p->texts[text].text, p->texts[text].len);
}

/* Of what earlier messages named, what this one opens: it asks for nothing of another kind. */
static void open_named(placing *p, size_t text) {
    size_t n = 0;
    for (size_t i = 0; i < p->n_named; i++) {
        kt__bank_hit hit = p->named[i];
        kt__bank_fit fit = fit_text(p, text, &hit);
        if (fit != KT__FIT_AKIN) p->named[n++] = hit;
        if (fit != KT__FIT_OTHER) add_opened(p, text, &hit, fit != KT__FIT_AKIN);
    }
    p->n_named = n;
}

/* "And the mill?" asks for what the message before it asked of something else. */
static void open_hit(placing *p, size_t text, const kt__bank_hit *hit) {
    bool doubtful = hit->fit == KT__FIT_DOUBTFUL &&
                    !(text > 0 && fit_text(p, text - 1, hit) == KT__FIT_AKIN);
    if (hit->fit == KT__FIT_OTHER || doubtful) add_named(p, hit);
    if (hit->fit != KT__FIT_OTHER) add_opened(p, text, hit, doubtful);
}

static void open_entries(placing *p) {
    kt__bank_hit hits[KT__NOTES_OPENED];
    for (size_t i = 0; i < p->n_texts; i++) {
        open_named(p, i);
        size_t n = kt__bank_find(p->bank, p->texts[i].text, p->texts[i].len, hits,
                                 KT__NOTES_OPENED);
        for (size_t k = 0; k < n; k++) open_hit(p, i, &hits[k]);
    }
}

bool kt__user_texts_open(kt_bank *bank, kt__user_text *texts, size_t n) {
    placing p = {.bank = bank, .texts = texts, .n_texts = n};
    open_entries(&p);
    return p.n_opened > 0;
}

/* What was opened last first, then the longest subject, then the newest. */
static int compare_opened(const void *a, const void *b) {
    const opened_entry *x = a, *y = b;
    if (x->last != y->last) return x->last < y->last ? 1 : -1;
    if (x->n_words != y->n_words) return x->n_words < y->n_words ? 1 : -1;
    return x->id < y->id ? 1 : -1;
}

static int compare_ids(const void *a, const void *b) {
    const opened_entry *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Tokens of a text; more than any budget where it cannot be said. */
static size_t count_text(const kt_model *model, const char *text, size_t len) {
    kt__ids ids;
    kt_error ignored;
    kt__ids_init(&ids, SIZE_MAX);
    kt_status status = kt__tokenizer_encode(model->tok, text, len, 0, &ids, &ignored);
    size_t n = status == KT_OK ? ids.len : SIZE_MAX;
    kt__ids_free(&ids);
    return n;
}

/* Those that get a note, in the order in which they matter; what does not fit is passed over. */
static kt_status choose_entries(placing *p, size_t tokens, kt_error *err) {
    kt__buf note;
    size_t used = 0, n = 0, n_left = 0;
    bool all = p->notes->request.corrections.doubtful;
    kt__buf_init(&note, NOTE_BYTES);
    qsort(p->opened, p->n_opened, sizeof *p->opened, compare_opened);
    for (size_t i = 0; i < p->n_opened; i++) {
        if (p->opened[i].doubtful && !all) continue;
        n_left++;
        if (n == KT_NOTES_MAX) continue;
        kt__buf_clear(&note);
        if (!kt__bank_write_note(p->bank, p->opened[i].id, &note) || note.failed) continue;
        size_t more = count_text(p->model, note.data, note.len);
        if (more > tokens - used) continue;
        p->opened[i].noted = true;
        used += more;
        n++;
    }
    p->notes->n_left = n_left - n;
    bool failed = note.failed;
    kt__buf_free(&note);
    return failed ? kt__fail_nomem(err, "a note", NOTE_BYTES) : KT_OK;
}

/* The notes that come before each text; they are numbered by their ids. */
static kt_status write_notes(placing *p, const char **before, kt_error *err) {
    kt__notes *out = p->notes;
    kt__buf text;
    bool failed = false;
    qsort(p->opened, p->n_opened, sizeof *p->opened, compare_ids);
    for (size_t i = 0; i < p->n_texts && !failed; i++) {
        kt__buf_init(&text, KT_NOTES_MAX * NOTE_BYTES);
        for (size_t k = 0; k < p->n_opened; k++)
            if (p->opened[k].noted && p->opened[k].first == i &&
                kt__bank_write_note(p->bank, p->opened[k].id, &text))
                out->ids[out->n++] = p->opened[k].id;
        before[i] = text.len ? kt__arena_strndup(&out->arena, text.data, text.len) : NULL;
        failed = text.failed || (text.len && !before[i]);
        kt__buf_free(&text);
    }
    return failed ? kt__fail_nomem(err, "a note", 0) : KT_OK;
}

static kt_status place_opened(placing *p, kt_error *err) {
    int32_t given = p->notes->request.corrections.note_tokens;
    size_t tokens = given > 0 ? (size_t)given : KT__NOTES_TOKENS;
    const char **before = kt__arena_calloc(&p->notes->arena, p->n_texts, sizeof *before);
    if (!before) return kt__fail_nomem(err, "notes", p->n_texts * sizeof *before);
    KT__STEP(choose_entries(p, tokens, err));
    KT__STEP(write_notes(p, before, err));
    if (!p->notes->n) return KT_OK;
    return kt__user_texts_put(&p->notes->arena, p->texts, before, p->n_texts, &p->notes->request,
                              err);
}

kt_status kt__notes_place(kt__notes *notes, const kt_model *model, const kt_request_params *request,
                          kt_error *err) {
    placing p = {.notes = notes, .model = model, .bank = request->corrections.bank};
    *notes = (kt__notes){.request = *request};
    kt__arena_init(&notes->arena, ARENA_BLOCK, ARENA_MOST);
    bool wanted = p.bank || request->corrections.keep;
    if (!wanted || !model->tok || (!request->prompt.messages && !request->prompt.chat_json))
        return KT_OK;
    KT__STEP(kt__user_texts_of(&notes->arena, request, &p.texts, &p.n_texts, err));
    if (p.n_texts) notes->question = p.texts[p.n_texts - 1];
    if (p.bank && p.n_texts) {
        open_entries(&p);
        list_opened(&p);
        KT__STEP(summarise_bank(&p, err));
    }
    return p.n_opened && request->corrections.note_tokens >= 0 ? place_opened(&p, err) : KT_OK;
}

void kt__notes_free(kt__notes *notes) {
    kt__arena_free(&notes->arena);
}

/* ---- user texts ---- */

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
    json_walk w = {.in = {.text = r->prompt.chat_json, .len = r->prompt.chat_json_len},
                   .arena = arena};
    kt__json_in_blanks(&w.in);
    bool good = false;
    if (kt__json_in_take(&w.in, '['))
        good = walk_array(&w, read_message, NULL);
    else if (kt__json_in_take(&w.in, '{'))
        good = walk_object(&w, read_root_member, NULL);
    if (w.full) return fail_memory(r->prompt.chat_json_len, err);
    *texts = w.texts;
    *n = good ? w.n : 0;
    return KT_OK;
}

/* ---- both forms ---- */

kt_status kt__user_texts_of(kt__arena *arena, const kt_request_params *r, kt__user_text **texts,
                            size_t *n, kt_error *err) {
    *texts = NULL;
    *n = 0;
    if (r->prompt.chat_json) return walk_json(arena, r, texts, n, err);
    if (!r->prompt.messages || !r->prompt.n_messages) return KT_OK;
    *texts = kt__arena_calloc(arena, r->prompt.n_messages, sizeof **texts);
    if (!*texts) return fail_memory(r->prompt.n_messages * sizeof **texts, err);
    for (size_t i = 0; i < r->prompt.n_messages; i++) {
        const kt_message *m = &r->prompt.messages[i];
        if (!m->role || !m->content || strcmp(m->role, "user") != 0) continue;
        (*texts)[(*n)++] = (kt__user_text){m->content, strlen(m->content), i};
    }
    return KT_OK;
}

static kt_status put_in_messages(kt__arena *arena, const kt__user_text *texts,
                                 const char *const *before, size_t n, kt_request_params *r,
                                 kt_error *err) {
    kt_message *m = kt__arena_calloc(arena, r->prompt.n_messages, sizeof *m);
    if (!m) return fail_memory(r->prompt.n_messages * sizeof *m, err);
    memcpy(m, r->prompt.messages, r->prompt.n_messages * sizeof *m);
    for (size_t i = 0; i < n; i++) {
        size_t n_before = before[i] ? strlen(before[i]) : 0;
        if (!n_before) continue;
        char *text = kt__arena_calloc(arena, n_before + texts[i].len + 1, 1);
        if (!text) return fail_memory(n_before + texts[i].len, err);
        memcpy(text, before[i], n_before);
        memcpy(text + n_before, texts[i].text, texts[i].len);
        m[texts[i].at].content = text;
    }
    r->prompt.messages = m;
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
        (void)kt__buf_append(&out, r->prompt.chat_json + from, texts[i].at - from);
        kt__json_chars(&out, before[i], strlen(before[i]), KT__JSON_PLAIN);
        from = texts[i].at;
    }
    (void)kt__buf_append(&out, r->prompt.chat_json + from, r->prompt.chat_json_len - from);
    char *json = out.failed ? NULL : kt__arena_strndup(arena, out.data, out.len);
    size_t len = out.len;
    kt__buf_free(&out);
    if (!json) return fail_memory(r->prompt.chat_json_len, err);
    r->prompt.chat_json = json;
    r->prompt.chat_json_len = len;
    return KT_OK;
}

kt_status kt__user_texts_put(kt__arena *arena, const kt__user_text *texts,
                             const char *const *before, size_t n, kt_request_params *r,
                             kt_error *err) {
    return r->prompt.chat_json ? put_in_json(arena, texts, before, n, r, err)
                               : put_in_messages(arena, texts, before, n, r, err);
}
