#include "prompt/notes.h"

#include <stdlib.h>
#include <string.h>

#include "bank/bank.h"
#include "base/alloc.h"
#include "base/error.h"

enum { ARENA_BLOCK = 1 << 14, ARENA_MOST = 1 << 30, NOTE_BYTES = 1 << 16 };

/* An entry that opens. */
typedef struct opened_entry {
    uint64_t id;
    int n_words;
    size_t first, last; /* the user's messages that open it */
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
} placing;

/* The one that was opened first goes, where there are too many. */
static void add_opened(placing *p, size_t text, const kt__bank_hit *hit) {
    size_t i = 0, oldest = 0;
    while (i < p->n_opened && p->opened[i].id != hit->id) i++;
    if (i < p->n_opened) {
        p->opened[i].last = text;
        return;
    }
    for (size_t k = 1; k < p->n_opened; k++)
        if (p->opened[k].last < p->opened[oldest].last) oldest = k;
    size_t at = p->n_opened < KT__NOTES_OPENED ? p->n_opened++ : oldest;
    p->opened[at] = (opened_entry){
        .id = hit->id, .n_words = hit->n_words, .first = text, .last = text};
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

/* A correction of that very question comes before the list. */
static kt_status summarise_bank(placing *p, kt_error *err) {
    kt__notes *out = p->notes;
    const kt__user_text *last = &p->texts[p->n_texts - 1];
    kt__buf text;
    if (out->asked) return KT_OK;
    kt__buf_init(&text, NOTE_BYTES);
    out->n_listed = kt__bank_summarise(p->bank, last->text, last->len, &text, out->summary_ids,
                                       KT_NOTES_MAX);
    if (out->n_listed) out->summary = kt__arena_strndup(&out->arena, text.data, text.len);
    out->n_summary = text.len;
    bool failed = text.failed || (out->n_listed && !out->summary);
    kt__buf_free(&text);
    return failed ? kt__fail_nomem(err, "what was learned", NOTE_BYTES) : KT_OK;
}

static void open_entries(placing *p) {
    kt__bank_hit hits[KT__NOTES_OPENED];
    for (size_t i = 0; i < p->n_texts; i++) {
        size_t n = kt__bank_find(p->bank, p->texts[i].text, p->texts[i].len, hits,
                                 KT__NOTES_OPENED);
        for (size_t k = 0; k < n; k++) add_opened(p, i, &hits[k]);
    }
    if (p->n_texts) list_opened(p);
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
    size_t used = 0, n = 0;
    kt__buf_init(&note, NOTE_BYTES);
    qsort(p->opened, p->n_opened, sizeof *p->opened, compare_opened);
    for (size_t i = 0; i < p->n_opened && n < KT_NOTES_MAX; i++) {
        kt__buf_clear(&note);
        if (!kt__bank_write_note(p->bank, p->opened[i].id, &note) || note.failed) continue;
        size_t more = count_text(p->model, note.data, note.len);
        if (more > tokens - used) continue;
        p->opened[i].noted = true;
        used += more;
        n++;
    }
    p->notes->n_left = p->n_opened - n;
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
    int32_t given = p->notes->request.note_tokens;
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
    placing p = {.notes = notes, .model = model, .bank = request->bank};
    *notes = (kt__notes){.request = *request};
    kt__arena_init(&notes->arena, ARENA_BLOCK, ARENA_MOST);
    bool wanted = p.bank || request->keep;
    if (!wanted || !model->tok || (!request->messages && !request->chat_json)) return KT_OK;
    KT__STEP(kt__user_texts_of(&notes->arena, request, &p.texts, &p.n_texts, err));
    if (p.n_texts) notes->question = p.texts[p.n_texts - 1];
    if (p.bank) open_entries(&p);
    if (p.bank && p.n_texts) KT__STEP(summarise_bank(&p, err));
    return p.n_opened && request->note_tokens >= 0 ? place_opened(&p, err) : KT_OK;
}

void kt__notes_free(kt__notes *notes) {
    kt__arena_free(&notes->arena);
}
