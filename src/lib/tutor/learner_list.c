/* What was said, as lines: kt_learner_export and kt_learner_list of kentang.h. */
#include <string.h>

#include "bank/bank.h"
#include "bank/words.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "tutor/learner_state.h"

static void write_ids(const kt_model *model, kt__buf *line, const char *name, const int32_t *ids,
                      size_t n) {
    size_t cap = n * 16 + 64, len = 0;
    kt_error ignored;
    kt__json_key(line, name);
    char *text = kt__malloc(cap);
    kt_status status = text ? kt_detokenize(model, ids, n, KT_TOK_RENDER_SPECIAL, text, cap, &len,
                                            &ignored)
                            : KT_E_NOMEM;
    if (status == KT_E_LIMIT) {
        kt__free(text);
        text = kt__malloc(len);
        if (text)
            status = kt_detokenize(model, ids, n, KT_TOK_RENDER_SPECIAL, text, len, &len, &ignored);
    }
    kt__json_string(line, status == KT_OK ? text : "", status == KT_OK ? len : 0, KT__JSON_PLAIN);
    kt__free(text);
}

/* How often what is served of it changed a token, since it was taught or read. */
static void write_uses(const kt_recall *recall, uint64_t id, kt__buf *line) {
    uint64_t n = 0;
    int64_t last_us = 0;
    if (recall) kt_recall_uses(recall, id, &n, &last_us);
    (void)kt__buf_printf(line, ",\"recalled\":%llu", (unsigned long long)n);
    if (n)
        (void)kt__buf_printf(line, ",\"recalled_ago_s\":%lld",
                             (long long)((kt__now_us() - last_us) / 1000000));
}

static void write_line(const kt_model *model, const kt__feedback_item *item, kt__buf *line) {
    static const char *const kinds[] = {"", "score", "correction", "pair"};
    (void)kt__buf_printf(line, "{\"id\":%llu,\"time_us\":%lld", (unsigned long long)item->id,
                         (long long)item->time_us);
    kt__json_member(line, "kind", kinds[item->kind]);
    kt__json_member(line, "about", item->about);
    if (item->kind == KT__FEEDBACK_SCORE) {
        (void)kt__buf_printf(line, ",\"score\":%.9g", (double)item->score);
    } else {
        kt__json_key(line, "correction");
        kt__json_string(line, item->text, item->n_text, KT__JSON_PLAIN);
    }
    if (item->question) {
        kt__json_key(line, "question");
        kt__json_string(line, item->question, item->n_question, KT__JSON_PLAIN);
    }
    write_ids(model, line, "prompt", item->prompt, item->n_prompt);
    write_ids(model, line, "answer", item->answer, item->n_answer);
    (void)kt__buf_putc(line, '}');
}

/* ---- searching ---- */

enum { MOST_SOUGHT = 32, MOST_TEXT_WORDS = 4096, ARENA_BLOCK = 1 << 14, ARENA_MOST = 1 << 26 };

typedef struct sought_words {
    kt__arena arena;
    kt__word words[MOST_SOUGHT];
    size_t n;
    bool fits;
} sought_words;

static void read_sought(sought_words *s, const char *text) {
    kt__arena_init(&s->arena, ARENA_BLOCK, ARENA_MOST);
    s->n = 0;
    s->fits = !text || kt__words_of(&s->arena, text, strlen(text), s->words, MOST_SOUGHT, &s->n);
}

static bool begins_with(const kt__word *w, const kt__word *sought) {
    return w->len >= sought->len && !memcmp(w->s, sought->s, sought->len);
}

static void mark_sought(kt__arena *arena, const sought_words *s, const char *text, size_t len,
                        bool found[MOST_SOUGHT]) {
    size_t n = 0;
    kt__word *words = kt__arena_calloc(arena, MOST_TEXT_WORDS, sizeof *words);
    if (!words || !text || !kt__words_of(arena, text, len, words, MOST_TEXT_WORDS, &n)) return;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < n && !found[i]; k++) found[i] = begins_with(&words[k], &s->words[i]);
}

/* Each word that is sought begins one of question or correction. */
static bool says_sought(const sought_words *s, const kt__feedback_item *item) {
    kt__arena arena;
    bool found[MOST_SOUGHT] = {false}, all = true;
    kt__arena_init(&arena, ARENA_BLOCK, ARENA_MOST);
    mark_sought(&arena, s, item->question, item->n_question, found);
    mark_sought(&arena, s, item->text, item->n_text, found);
    for (size_t i = 0; i < s->n; i++) all = all && found[i];
    kt__arena_free(&arena);
    return all;
}

/* ---- lines ---- */

/* Where lines go, and what they are made in. */
typedef struct export_lines {
    kt_json_fn *on_line;
    void *user;
    const kt_learned *served;   /* its uses and its scope are part of a line; or NULL */
    const sought_words *sought; /* that a line has to have, or NULL */
    kt__buf buf, line;
} export_lines;

static kt_status export_one(kt_learner *l, uint64_t id, export_lines *to, kt_error *err) {
    kt__feedback_item item;
    KT__STEP(kt__feedback_get(l->store, id, &item, &to->buf, err));
    if (to->sought && !says_sought(to->sought, &item)) return KT_OK;
    kt__buf_clear(&to->line);
    write_line(l->engine->model, &item, &to->line);
    if (to->served && to->line.len) {
        to->line.len--; /* its brace */
        write_uses(to->served->recall, id, &to->line);
        kt__bank_write_scope(to->served->bank, id, &to->line);
        (void)kt__buf_putc(&to->line, '}');
    }
    if (to->line.failed) return kt__fail_nomem(err, "a line of feedback", to->line.len);
    if (!to->on_line(to->user, to->line.data, to->line.len))
        return kt__fail(err, KT_E_CANCELLED, "cancelled");
    return KT_OK;
}

kt_status kt_learner_export(kt_learner *l, kt_json_fn *on_line, void *user, kt_error *err) {
    kt_status status;
    uint64_t *ids = NULL;
    size_t n = 0;
    export_lines to = {.on_line = on_line, .user = user};
    kt__error_clear(err);
    kt__buf_init(&to.buf, (size_t)64 << 20);
    kt__buf_init(&to.line, (size_t)64 << 20);
    KT__TRY(kt__feedback_list(l->store, &ids, &n, err));
    for (size_t i = 0; i < n; i++) KT__TRY(export_one(l, ids[i], &to, err));
out:
    kt__buf_free(&to.buf);
    kt__buf_free(&to.line);
    kt__free(ids);
    return status;
}

/* What a message opens. */
typedef struct opened_hits {
    kt__bank_hit hits[KT__BANK_HITS];
    size_t n;
} opened_hits;

/* NULL: it asks for no opened ones. */
static bool is_opened(const opened_hits *opened, uint64_t id) {
    for (size_t i = 0; opened && i < opened->n; i++)
        if (opened->hits[i].id == id) return true;
    return !opened;
}

/* What is sought, and where lines go. */
typedef struct listing {
    export_lines to;
    sought_words sought;
    opened_hits opened;
    kt_learned served;
} listing;

static kt_status list_ids(kt_learner *l, const kt_learner_query *q, listing *w, kt_error *err) {
    kt_status status;
    uint64_t *ids = NULL;
    size_t n = 0;
    const opened_hits *opened = q->opens ? &w->opened : NULL;
    KT__TRY(kt__feedback_list(l->store, &ids, &n, err));
    while (n-- > 0) {
        if ((!q->before || ids[n] < q->before) && is_opened(opened, ids[n]))
            KT__TRY(export_one(l, ids[n], &w->to, err));
    }
out:
    kt__free(ids);
    return status;
}

kt_status kt_learner_list(kt_learner *l, const kt_learner_query *query, kt_json_fn *on_line,
                          void *user, kt_error *err) {
    static const kt_learner_query all = {0};
    kt_status status;
    if (!query) query = &all;
    kt__error_clear(err);
    listing *w = kt__calloc(1, sizeof *w);
    if (!w) return kt__fail_nomem(err, "a list of feedbacks", sizeof *w);
    w->to = (export_lines){.on_line = on_line, .user = user, .served = &w->served};
    kt__buf_init(&w->to.buf, (size_t)64 << 20);
    kt__buf_init(&w->to.line, (size_t)64 << 20);
    read_sought(&w->sought, query->text);
    if (w->sought.n) w->to.sought = &w->sought;
    if (!w->sought.fits) KT__TRY(kt__fail_nomem(err, "what is sought", strlen(query->text)));
    KT__TRY(kt_learner_get(l, KT_VERSION_SERVED, &w->served, err));
    if (query->opens)
        w->opened.n = kt__bank_open_in(w->served.bank, query->opens, strlen(query->opens),
                                       w->opened.hits, KT__BANK_HITS);
    KT__TRY(list_ids(l, query, w, err));
out:
    kt_learned_close(&w->served);
    kt__buf_free(&w->to.buf);
    kt__buf_free(&w->to.line);
    kt__arena_free(&w->sought.arena);
    kt__free(w);
    return status;
}
