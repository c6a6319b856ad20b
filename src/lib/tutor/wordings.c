#include "tutor/wordings.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "tutor/frame.h"

enum { QUESTION_BYTES = 1024, ANY_LANGUAGE = 0, ENGLISH, INDONESIAN };
static const uint64_t hash_seed = 0x776f7264;

/* Words ahead of a question and after it. */
typedef struct carrier {
    int language;
    bool lower; /* its first letter, and no mark at its end */
    const char *ahead, *after;
} carrier;

static const carrier carriers[] = {
    {ENGLISH, false, "Please tell me: ", ""},
    {ENGLISH, false, "", " Thank you."},
    {ENGLISH, false, "I have a question. ", ""},
    {ENGLISH, false, "Hello! ", ""},
    {ENGLISH, true, "", ""},
    {ENGLISH, false, "Answer this: ", ""},
    {ENGLISH, false, "Can you help me? ", ""},
    {ENGLISH, true, "", ", please?"},
    {INDONESIAN, false, "Tolong jawab: ", ""},
    {INDONESIAN, false, "", " Terima kasih."},
    {INDONESIAN, false, "Aku mau bertanya. ", ""},
    {INDONESIAN, false, "Halo! ", ""},
    {INDONESIAN, true, "", ""},
    {INDONESIAN, false, "Bisa bantu? ", ""},
    {INDONESIAN, true, "", ", ya?"},
    {ANY_LANGUAGE, true, "", ""},
    {ANY_LANGUAGE, true, "", "..."},
    {ANY_LANGUAGE, true, "", "??"},
    {ANY_LANGUAGE, false, "- ", ""},
    {ANY_LANGUAGE, true, "", "!"},
};
enum { N_CARRIERS = sizeof carriers / sizeof *carriers };

static bool has_word(const char *text, const char *const *words) {
    for (size_t k = 0; words[k]; k++) {
        size_t n = strlen(words[k]);
        for (const char *at = strstr(text, words[k]); at; at = strstr(at + 1, words[k])) {
            bool begins = at == text || at[-1] == ' ';
            if (begins && (!at[n] || strchr(" ,.?!:", at[n]))) return true;
        }
    }
    return false;
}

/* By words that few sentences are without. */
static int language_of(const char *text) {
    static const char *const english[] = {"the", "is",   "what", "who", "how", "does", "are",
                                          "of",  "when", "my",   "do",  "to",  NULL};
    static const char *const indonesian[] = {"apa", "siapa", "yang",      "berapa", "kapan", "mana",
                                             "itu", "di",    "bagaimana", "saya",   "aku",   NULL};
    char lower[QUESTION_BYTES];
    size_t n = strlen(text);
    for (size_t i = 0; i <= n; i++)
        lower[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 'a' - 'A') : text[i];
    if (has_word(lower, indonesian)) return INDONESIAN;
    return has_word(lower, english) ? ENGLISH : ANY_LANGUAGE;
}

/* The question with a carrier's words, into out[QUESTION_BYTES + 64]; false: as it was. */
static bool carry_question(const carrier *c, const char *question, char *out) {
    size_t n = strlen(question), n_ahead = strlen(c->ahead);
    memcpy(out, c->ahead, n_ahead);
    memcpy(out + n_ahead, question, n + 1);
    char *body = out + n_ahead;
    if (c->lower) {
        if (body[0] >= 'A' && body[0] <= 'Z') body[0] = (char)(body[0] + 'a' - 'A');
        while (n > 0 && strchr("?!. ", body[n - 1])) body[--n] = '\0';
    }
    strcpy(body + n, c->after);
    return strcmp(out, question) != 0;
}

typedef struct rewording {
    kt__lesson *lesson;
    const kt_model *model;
    int n_trained;
    kt__frame frame;
    kt_error *err;
} rewording;

/* A sample like samples[i], with another question in its place. */
static kt_status add_reworded(rewording *w, size_t i, size_t begin, size_t end,
                              const char *question, kt__sample_use use) {
    const kt__sample s = w->lesson->samples[i];
    size_t n, n_prompt = end + w->frame.n_after;
    int32_t *ids;
    KT__STEP(kt__frame_prompt(&w->frame, w->model, s.ids, begin, question, &ids, &n, w->err));
    const kt__sample like = {.kind = s.kind, .weight = s.weight, .group = s.group, .use = use};
    kt_status status = kt__lesson_add_tokens(w->lesson, ids, n, s.ids + n_prompt,
                                             (size_t)s.n - n_prompt, &like, w->err);
    kt__free(ids);
    return status;
}

/* The first of a language's carriers in an order of the question's own is measured, the next ones are trained. */
static kt_status reword_sample(rewording *w, size_t i, uint64_t seed) {
    const kt__sample *s = &w->lesson->samples[i];
    char question[QUESTION_BYTES], other[QUESTION_BYTES + 64];
    size_t begin, end;
    int n = 0;
    if (!kt__frame_last_question(&w->frame, w->model, s, &begin, &end)) return KT_OK;
    if (!kt__frame_text(w->model, s->ids + begin, end - begin, question, sizeof question))
        return KT_OK; /* too long a one to reword */
    size_t len = strlen(question);
    int language = language_of(question);
    uint64_t first = kt__hash_bytes(hash_seed ^ seed, question, len).w[0];
    for (size_t k = 0; k < N_CARRIERS && n <= w->n_trained; k++) {
        const carrier *c = &carriers[(first + k) % N_CARRIERS];
        if (c->language != language || !carry_question(c, question, other)) continue;
        kt__sample_use use = n++ == 0 ? KT__SAMPLE_MEASURED : KT__SAMPLE_TRAINED;
        kt_status status = add_reworded(w, i, begin, end, other, use);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

kt_status kt__wordings_add(kt__lesson *l, const kt_model *model, int n_trained, uint64_t seed,
                           kt_error *err) {
    rewording w = {.lesson = l, .model = model, .n_trained = n_trained, .err = err};
    size_t n = l->n;
    kt_status status = kt__frame_find(model, &w.frame, err);
    for (size_t i = 0; status == KT_OK && w.frame.n_ahead > 0 && i < n; i++)
        status = reword_sample(&w, i, seed);
    kt__frame_free(&w.frame);
    return status;
}
