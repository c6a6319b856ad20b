#include "cli/documents.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "term/cli.h"

enum { MOST_BYTES = 64 << 20, PASSAGE_BYTES = 1200, MOST_PASSAGES = 1 << 20 };

/* ---- files ---- */

static bool has_end(const char *path, const char *end) {
    size_t n = strlen(path), e = strlen(end);
    return n > e && !kt__strcasecmp(path + n - e, end);
}

/* A name that begins with a dash is no option of a program. */
static kt_status read_pdf(const char *path, kt__buf *out, kt_error *err) {
    char name[4096];
    snprintf(name, sizeof name, "%s%s", *path == '-' ? "./" : "", path);
    const char *const argv[] = {"pdftotext", "-q", "-enc", "UTF-8", name, "-", NULL};
    int code;
    KT__STEP(kt__program_text(argv, "poppler-utils", path, out, &code, err));
    if (code != 0)
        return kt__fail(err, KT_E_FORMAT,
                        "%.200s: pdftotext cannot read it (damaged, or locked by a password)",
                        path);
    for (size_t i = 0; i < out->len; i++)
        if (!isspace((unsigned char)out->data[i])) return KT_OK;
    return kt__fail(err, KT_E_FORMAT,
                    "%.200s has no text: its pages are pictures, which --image can show to a model "
                    "that sees",
                    path);
}

static kt_status read_office(const char *path, const char *part, kt__buf *out, kt_error *err) {
    char name[4096];
    kt__buf xml;
    int code;
    kt_status status;
    snprintf(name, sizeof name, "%s%s", *path == '-' ? "./" : "", path);
    const char *const argv[] = {"unzip", "-p", "-qq", name, part, NULL};
    kt__buf_init(&xml, MOST_BYTES);
    KT__TRY(kt__program_text(argv, "unzip", path, &xml, &code, err));
    if (code != 0 || !xml.len)
        KT__TRY(
            kt__fail(err, KT_E_FORMAT, "%.200s: there is no %s in it: it is damaged", path, part));
    kt__markup_text(xml.data, xml.len, out);
out:
    kt__buf_free(&xml);
    return status;
}

static kt_status read_plain(const char *path, kt__buf *out, kt_error *err) {
    char *text;
    size_t len;
    KT__STEP(kt__text_file_read(path, MOST_BYTES, false, &text, &len, err));
    if (kt__markup_is(text, len) || has_end(path, ".html") || has_end(path, ".htm"))
        kt__markup_text(text, len, out);
    else
        (void)kt__buf_append(out, text, len);
    kt__free(text);
    return KT_OK;
}

static kt_status read_document(const char *path, kt__buf *out, bool *paged, kt_error *err) {
    if (!kt__file_readable(path)) return kt__fail_system(err, errno, NULL, "--read %.200s", path);
    *paged = true;
    if (has_end(path, ".pdf")) return read_pdf(path, out, err);
    *paged = false;
    if (has_end(path, ".docx")) return read_office(path, "word/document.xml", out, err);
    if (has_end(path, ".odt")) return read_office(path, "content.xml", out, err);
    return read_plain(path, out, err);
}

/* ---- passages ---- */

static kt_status add_passage(kt__documents *d, size_t *cap, const kt__passage *p, kt_error *err) {
    if (d->n_passages == MOST_PASSAGES)
        return kt__fail(err, KT_E_LIMIT, "the documents have more than %d passages", MOST_PASSAGES);
    if (!kt__vec_reserve(d->passages, *cap, d->n_passages + 1))
        return kt__fail_nomem(err, "passages", d->n_passages * sizeof *p);
    d->passages[d->n_passages++] = *p;
    return KT_OK;
}

/* Where a passage of text[len] ends: after the last paragraph, else line, else sentence or word that fits. */
static size_t passage_end(const char *text, size_t len) {
    static const char *const ends[] = {"\n\n", "\n", ". ", " "};
    if (len <= PASSAGE_BYTES) return len;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);
        for (size_t at = PASSAGE_BYTES; at > PASSAGE_BYTES / 2; at--)
            if (!memcmp(text + at - n, ends[i], n)) return at;
    }
    size_t at = PASSAGE_BYTES; /* within no character */
    while (at < len && ((unsigned char)text[at] & 0xc0) == 0x80) at++;
    return at;
}

static kt_status cut_page(kt__documents *d, size_t *cap, size_t document, int page,
                          const char *text, size_t len, kt_error *err) {
    while (len) {
        size_t n = passage_end(text, len), from = 0, to = n;
        while (from < to && isspace((unsigned char)text[from])) from++;
        while (to > from && isspace((unsigned char)text[to - 1])) to--;
        const kt__passage p = {document, page, text + from, to - from, 0, 0.0, false};
        if (to > from) KT__STEP(add_passage(d, cap, &p, err));
        text += n;
        len -= n;
    }
    return KT_OK;
}

static kt_status cut_documents(kt__documents *d, kt_error *err) {
    size_t cap = 0;
    for (size_t i = 0; i < d->n; i++) {
        const char *at = d->texts[i].data, *end = at ? at + d->texts[i].len : NULL;
        for (int page = 1; at && at < end; page++) {
            const char *feed = memchr(at, '\f', (size_t)(end - at));
            const char *to = feed ? feed : end;
            KT__STEP(cut_page(d, &cap, i, d->paged[i] ? page : 0, at, (size_t)(to - at), err));
            at = to + (feed != NULL);
        }
    }
    if (d->n_passages) return KT_OK;
    return kt__fail(err, KT_E_FORMAT, "--read: the files have no text");
}

kt_status kt__documents_read(const kt__opt_texts *files, kt__documents *out, kt_error *err) {
    *out = (kt__documents){.names = (const char *const *)files->items};
    out->texts = kt__calloc(files->n, sizeof *out->texts);
    out->paged = kt__calloc(files->n, sizeof *out->paged);
    if (!out->texts || !out->paged) return kt__fail_nomem(err, "documents", files->n);
    for (size_t i = 0; i < files->n; i++) {
        kt__buf_init(&out->texts[i], MOST_BYTES);
        out->n++;
        KT__STEP(read_document(files->items[i], &out->texts[i], &out->paged[i], err));
        if (out->texts[i].failed) return kt__fail_nomem(err, "a document", out->texts[i].len);
    }
    return cut_documents(out, err);
}

void kt__documents_free(kt__documents *d) {
    for (size_t i = 0; i < d->n; i++) kt__buf_free(&d->texts[i]);
    kt__free(d->texts);
    kt__free(d->paged);
    kt__free(d->passages);
    *d = (kt__documents){0};
}

/* ---- BM25 (Robertson and Zaragoza 2009) over words in small letters ---- */

enum { MOST_TERMS = 64, WORD_BYTES = 64 };

static bool is_word_byte(unsigned char c) {
    return isalnum(c) || c >= 0x80;
}

/* The next word from *at on, in small letters (of ASCII); false: there is none. */
static bool next_word(const char **at, const char *end, char word[WORD_BYTES]) {
    const char *p = *at;
    size_t n = 0;
    while (p < end && !is_word_byte((unsigned char)*p)) p++;
    if (p == end) return false;
    for (; p < end && is_word_byte((unsigned char)*p); p++)
        if (n + 1 < WORD_BYTES) word[n++] = (char)tolower((unsigned char)*p);
    word[n] = '\0';
    *at = p;
    return true;
}

typedef struct term_list {
    char words[MOST_TERMS][WORD_BYTES];
    int n_with[MOST_TERMS]; /* passages that have it */
    int n;
} term_list;

static int find_term(const term_list *t, const char *word) {
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->words[i], word)) return i;
    return -1;
}

/* Words of one letter say nothing. */
static void list_terms(term_list *t, const char *question) {
    const char *at = question, *end = question + strlen(question);
    char word[WORD_BYTES];
    while (t->n < MOST_TERMS && next_word(&at, end, word))
        if (strlen(word) > 1 && find_term(t, word) < 0) strcpy(t->words[t->n++], word);
}

/* How often each term is in it; returns its length in words. */
static int count_terms(const term_list *t, const kt__passage *p, int counts[MOST_TERMS]) {
    const char *at = p->text, *end = p->text + p->len;
    char word[WORD_BYTES];
    int n = 0;
    memset(counts, 0, MOST_TERMS * sizeof *counts);
    for (; next_word(&at, end, word); n++) {
        int term = find_term(t, word);
        if (term >= 0) counts[term]++;
    }
    return n;
}

kt_status kt__documents_score(kt__documents *d, const char *question, kt_error *err) {
    const double k1 = 1.2, b = 0.75;
    int counts[MOST_TERMS];
    double words = 0;
    term_list *t = kt__calloc(1, sizeof *t);
    if (!t) return kt__fail_nomem(err, "a question's words", sizeof *t);
    list_terms(t, question);
    for (size_t i = 0; i < d->n_passages; i++) {
        words += count_terms(t, &d->passages[i], counts);
        for (int k = 0; k < t->n; k++) t->n_with[k] += counts[k] > 0;
    }
    double mean = words / (double)d->n_passages, n = (double)d->n_passages;
    for (size_t i = 0; i < d->n_passages; i++) {
        kt__passage *p = &d->passages[i];
        double length = count_terms(t, p, counts);
        p->score = 0;
        for (int k = 0; k < t->n; k++) {
            double rare = log(1.0 + (n - t->n_with[k] + 0.5) / (t->n_with[k] + 0.5));
            p->score += rare * counts[k] * (k1 + 1.0) /
                        (counts[k] + k1 * (1.0 - b + b * length / (mean + 1e-9)));
        }
    }
    kt__free(t);
    return KT_OK;
}

/* ---- what fits ---- */

static kt_status count_tokens(const kt_model *model, const char *text, size_t len, int32_t *out,
                              kt_error *err) {
    int32_t ids[2 * PASSAGE_BYTES]; /* a token has at least a byte */
    size_t n;
    KT__STEP(kt_tokenize(model, text, len, 0, ids, sizeof ids / sizeof *ids, &n, err));
    *out = (int32_t)n;
    return KT_OK;
}

static int compare_scores(const void *a, const void *b) {
    const kt__passage *const *x = a, *const *y = b;
    if ((*x)->score != (*y)->score) return (*x)->score < (*y)->score ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

/* Each passage costs some tokens besides: the line that says where it is. */
static int32_t cost_of(const kt__passage *p) {
    enum { LABEL_TOKENS = 24 };
    return p->n_tokens + LABEL_TOKENS;
}

kt_status kt__documents_count(kt__documents *d, const kt_model *model, int32_t *n_tokens,
                              kt_error *err) {
    *n_tokens = 0;
    for (size_t i = 0; i < d->n_passages; i++) {
        kt__passage *p = &d->passages[i];
        KT__STEP(count_tokens(model, p->text, p->len, &p->n_tokens, err));
        *n_tokens += cost_of(p);
    }
    return KT_OK;
}

/* Passages in the order of their scores, for kt__free. */
static kt_status order_passages(kt__documents *d, kt__passage ***out, kt_error *err) {
    kt__passage **order = kt__calloc(d->n_passages, sizeof *order);
    *out = order;
    if (!order) return kt__fail_nomem(err, "passages", d->n_passages * sizeof *order);
    for (size_t i = 0; i < d->n_passages; i++) order[i] = &d->passages[i];
    qsort(order, d->n_passages, sizeof *order, compare_scores);
    return KT_OK;
}

/* By the sum of 1 / (60 + rank) in both orders (Cormack et al. 2009, reciprocal rank fusion). */
kt_status kt__documents_fuse(kt__documents *d, const double *nearness, kt_error *err) {
    const double k = 60.0;
    kt__passage **order;
    double *sums = kt__calloc(d->n_passages, sizeof *sums);
    if (!sums) return kt__fail_nomem(err, "passages", d->n_passages * sizeof *sums);
    kt_status status = KT_OK;
    for (int by = 0; by < 2 && status == KT_OK; by++) {
        status = order_passages(d, &order, err);
        for (size_t i = 0; i < d->n_passages && status == KT_OK; i++)
            sums[order[i] - d->passages] += 1.0 / (k + (double)i + 1.0);
        for (size_t i = 0; i < d->n_passages; i++)
            d->passages[i].score = by ? sums[i] : nearness[i];
        kt__free(order);
    }
    kt__free(sums);
    return status;
}

kt_status kt__documents_choose(kt__documents *d, int32_t n_tokens, int32_t *n_chosen,
                               kt_error *err) {
    kt__passage **order;
    *n_chosen = 0;
    KT__STEP(order_passages(d, &order, err));
    for (size_t i = 0; i < d->n_passages; i++) {
        order[i]->chosen = *n_chosen + cost_of(order[i]) <= n_tokens;
        if (order[i]->chosen) *n_chosen += cost_of(order[i]);
    }
    kt__free(order);
    if (*n_chosen) return KT_OK;
    return kt__fail(err, KT_E_CONTEXT_FULL,
                    "--read: there is room for %d tokens, and no passage fits: raise --ctx",
                    (int)n_tokens);
}

static bool same_place(const kt__passage *a, const kt__passage *b) {
    return a && a->document == b->document && a->page == b->page;
}

void kt__documents_write(const kt__documents *d, const char *question, kt__buf *out) {
    const kt__passage *last = NULL;
    for (size_t i = 0; i < d->n_passages; i++) {
        const kt__passage *p = &d->passages[i];
        if (!p->chosen) continue;
        if (!same_place(last, p)) {
            (void)kt__buf_printf(out, "%s[%s", last ? "\n" : "",
                                 kt__files_name(d->names[p->document]));
            if (p->page) (void)kt__buf_printf(out, ", page %d", p->page);
            (void)kt__buf_puts(out, "]\n");
        } else if (last + 1 != p) {
            (void)kt__buf_puts(out, "[...]\n");
        }
        (void)kt__buf_append(out, p->text, p->len);
        (void)kt__buf_putc(out, '\n');
        last = p;
    }
    (void)kt__buf_printf(out, "\n%s", question);
}

void kt__documents_tell(const kt__documents *d, FILE *to) {
    const kt__passage *last = NULL;
    for (size_t i = 0; i < d->n_passages; i++) {
        const kt__passage *p = &d->passages[i];
        if (!p->chosen || same_place(last, p)) continue;
        bool other = !last || last->document != p->document;
        if (other) fprintf(to, "%s%s", last ? "; " : "", kt__files_name(d->names[p->document]));
        if (p->page) fprintf(to, "%s%d", other ? ", page " : ", ", p->page);
        last = p;
    }
}
