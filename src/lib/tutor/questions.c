#include "tutor/questions.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "tutor/lesson.h"

#include <stdbool.h>
#include <string.h>

/* ---- what a model writes ---- */

static kt_status submit_prompt(kt_engine *engine, const kt__lesson_own *own, const int32_t *ids,
                               size_t n, float temperature, uint64_t seed, size_t cap,
                               kt_request **out, kt_error *err) {
    kt_request_params request = kt_request_params_default();
    request.prompt.ids = ids;
    request.prompt.n_ids = n;
    request.service.priority = own->priority;
    request.gen = kt_gen_params_default();
    request.gen.sampling.temperature = temperature;
    request.gen.sampling.seed = seed;
    request.gen.n_predict = (int32_t)cap;
    return kt__patience_submit(engine, &request, &own->patience, out, err);
}

static kt_status read_answer(kt_engine *engine, kt_request *r, int32_t *out, size_t cap,
                             size_t *n_out, bool *ended, kt_error *err) {
    kt_event event;
    kt_status status = KT_OK;
    *n_out = 0;
    *ended = false;
    while (kt_request_next_event(r, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN && event.id >= 0 && *n_out < cap &&
            !kt_token_is_eog(engine->model, event.id))
            out[(*n_out)++] = event.id;
        if (event.kind != KT_EVENT_FINISHED) continue;
        *ended = event.finish == KT_FINISH_EOG;
        if (event.error && err) *err = *event.error;
        if (event.error) status = event.error->code;
    }
    return status;
}

kt_status kt__asked_write(kt_engine *engine, const kt__lesson_own *own, const int32_t *ids,
                          size_t n, float temperature, uint64_t seed, int32_t *out, size_t cap,
                          size_t *n_out, bool *ended, kt_error *err) {
    kt_request *r = NULL;
    KT__STEP(submit_prompt(engine, own, ids, n, temperature, seed, cap, &r, err));
    kt_status status = read_answer(engine, r, out, cap, n_out, ended, err);
    kt_request_close(r);
    return status;
}

kt_status kt__asked_drawn(kt_engine *engine, const kt__lesson_own *own, kt__ask *asks, size_t n,
                          float temperature, uint64_t seed, size_t cap, kt_error *err) {
    kt_request *requests[KT__ASKS_AT_ONCE] = {NULL};
    int32_t end = kt__lesson_end_token(engine->model);
    kt_status status = KT_OK;
    for (size_t i = 0; status == KT_OK && i < n; i++)
        status = submit_prompt(engine, own, asks[i].ids, asks[i].n, temperature, seed + i, cap,
                               &requests[i], err);
    for (size_t i = 0; i < n; i++) {
        kt__ask *a = &asks[i];
        bool ended = false;
        if (status == KT_OK)
            status = read_answer(engine, requests[i], a->answer, cap, &a->n_answer, &ended, err);
        if ((!ended || end < 0) && !a->may_be_cut) a->n_answer = 0;
        if (a->n_answer && ended && end >= 0) a->answer[a->n_answer++] = end;
        if (requests[i]) kt_request_close(requests[i]);
    }
    return status;
}

kt_status kt__asked_all(kt_engine *engine, const kt__lesson_own *own, kt__ask *asks, size_t n,
                        kt_error *err) {
    return kt__asked_drawn(engine, own, asks, n, 0.0f, 1, KT__ANSWER_MAX, err);
}

kt_status kt__asked_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                        const int32_t *prompt, size_t n, kt__sample_use use, kt_error *err) {
    int32_t answer[KT__ANSWER_MAX + 1], end = kt__lesson_end_token(engine->model);
    size_t n_answer;
    bool ended;
    KT__STEP(kt__asked_write(engine, own, prompt, n, 0.0f, 1, answer, KT__ANSWER_MAX, &n_answer,
                             &ended, err));
    if (n_answer == 0) return KT_OK;
    if (ended && end >= 0) answer[n_answer++] = end;
    const kt__sample like = {
        .kind = KT__SAMPLE_NEIGHBOUR, .weight = 1.0f, .group = lesson->next_group++, .use = use};
    return kt__lesson_add_tokens(lesson, prompt, n, answer, n_answer, &like, err);
}

/* ---- other wordings ---- */

enum { QUESTION_BYTES = 1024, ANY_LANGUAGE = 0, ENGLISH, INDONESIAN };
static const uint64_t wordings_seed = 0x776f7264;

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
    kt__prompt_frame frame;
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
    uint64_t first = kt__hash_bytes(wordings_seed ^ seed, question, len).w[0];
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

/* ---- rewrite ---- */

enum { REWRITE_WORDS = 32 };
static const double share_left_out = 0.35, share_moved = 0.5, share_asked = 0.6;
static const uint64_t rewrite_seed = 0x72657772;

/* A run of bytes of the question. */
typedef struct piece {
    const char *s;
    size_t len;
} piece;

typedef struct rewriting {
    uint64_t number, n_drawn;
    piece words[REWRITE_WORDS];
    size_t n;
} rewriting;

/* In [0, 1). */
static double draw_number(rewriting *r) {
    uint64_t of[2] = {r->number, r->n_drawn++};
    return (double)(kt__hash_bytes(rewrite_seed, of, sizeof of).w[0] >> 11) * 0x1p-53;
}

static size_t draw_index(rewriting *r) {
    return (size_t)(draw_number(r) * (double)r->n);
}

/* The words of s[0, len), some of them, without marks at their end. */
static void take_words(rewriting *r, const char *s, size_t len) {
    for (size_t i = 0; i < len && r->n < REWRITE_WORDS;) {
        size_t end = i;
        while (end < len && s[end] != ' ') end++;
        size_t n = end - i;
        while (n > 0 && strchr("?!.,;:", s[i + n - 1])) n--;
        if (n > 0 && draw_number(r) >= share_left_out) r->words[r->n++] = (piece){s + i, n};
        i = end + 1;
    }
}

static void move_word(rewriting *r) {
    size_t from = draw_index(r), to = draw_index(r);
    piece w = r->words[from];
    memmove(r->words + from, r->words + from + 1, (r->n - from - 1) * sizeof w);
    memmove(r->words + to + 1, r->words + to, (r->n - 1 - to) * sizeof w);
    r->words[to] = w;
}

static bool join_words(rewriting *r, char *out, size_t size) {
    size_t len = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (len + r->words[i].len + 3 > size) return false;
        if (i) out[len++] = ' ';
        memcpy(out + len, r->words[i].s, r->words[i].len);
        len += r->words[i].len;
    }
    if (draw_number(r) < share_asked) out[len++] = '?';
    out[len] = '\0';
    return true;
}

bool kt__rewrite_question(const char *question, size_t at, size_t len, uint64_t number, char *out,
                          size_t size) {
    rewriting r = {.number = number};
    take_words(&r, question, at);
    if (r.n == REWRITE_WORDS) return false;
    r.words[r.n++] = (piece){question + at, len};
    take_words(&r, question + at + len, strlen(question + at + len));
    if (draw_number(&r) < share_moved) move_word(&r);
    return join_words(&r, out, size) && strcmp(out, question) != 0;
}

/* ---- phrase ---- */

enum { PHRASE_WORDS = 64 };

static bool is_letter_at(const char *s) {
    unsigned char c = (unsigned char)*s;
    return c >= 0x80 || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
}

const char *kt__phrase_word(const char *text, const kt__word *w) {
    for (const char *at = text; *at; at++) {
        size_t i = 0;
        if (at > text && is_letter_at(at - 1)) continue;
        while (i < w->len && at[i] && (at[i] | 32) == (w->s[i] | 32)) i++;
        if (i == w->len) return at;
    }
    return NULL;
}

static bool is_in_words(const kt__word *words, size_t n, const kt__word *w) {
    for (size_t i = 0; i < n; i++)
        if (words[i].hash == w->hash) return true;
    return false;
}

bool kt__phrase_find(kt__arena *arena, const char *question, const char *answer, size_t *out_begin,
                     size_t *out_len) {
    kt__word q[PHRASE_WORDS], a[PHRASE_WORDS];
    size_t n_q, n_a;
    const char *begin = NULL, *end = NULL;
    if (!kt__words_of(arena, question, strlen(question), q, PHRASE_WORDS, &n_q) ||
        !kt__words_of(arena, answer, strlen(answer), a, PHRASE_WORDS, &n_a))
        return false;
    for (size_t i = 0; i < n_q; i++) {
        bool says = q[i].kind == KT__WORD_PLAIN || q[i].kind == KT__WORD_QUALITY || q[i].name;
        const char *at = says && is_in_words(a, n_a, &q[i]) ? kt__phrase_word(question, &q[i])
                                                            : NULL;
        if (!at) continue;
        if (!begin || at < begin) begin = at;
        if (at + q[i].len > end || !end) end = at + q[i].len;
    }
    if (!begin || end - begin >= KT__PHRASE_BYTES) return false;
    *out_begin = (size_t)(begin - question);
    *out_len = (size_t)(end - begin);
    return true;
}

/* ---- asking word ---- */

enum { WORD_BYTES = 32 };
static const uint64_t asking_seed = 0x61736b73;

/* as: which kind; with: the next word counts, too ("how much", "how old"). */
typedef struct asking {
    const char *word;
    char as;
    bool with;
} asking;

static const asking table[] = {
    {"what", 't', false},   {"which", 't', false},     {"who", 'p', false},
    {"whom", 'p', false},   {"whose", 'p', false},     {"where", 'w', false},
    {"when", 'd', false},   {"why", 'y', false},       {"how", 'h', true},
    {"apa", 't', false},    {"siapa", 'p', false},     {"mana", 'w', false},
    {"dimana", 'w', false}, {"kapan", 'd', false},     {"mengapa", 'y', false},
    {"kenapa", 'y', false}, {"bagaimana", 'h', false}, {"berapa", 'n', false},
};

static bool is_letter(char c) {
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (unsigned char)c >= 0x80;
}

/* The next word of *at, in lower case; *at is after it. false: there is none. */
static bool next_word(const char **at, char out[WORD_BYTES]) {
    size_t n = 0;
    while (**at && !is_letter(**at)) ++*at;
    for (; is_letter(**at); ++*at)
        if (n + 1 < WORD_BYTES) out[n++] = **at >= 'A' && **at <= 'Z' ? (char)(**at | 32) : **at;
    out[n] = '\0';
    return n > 0;
}

uint64_t kt__asking_word(const char *text) {
    char word[WORD_BYTES], then[WORD_BYTES] = "";
    while (next_word(&text, word)) {
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
            if (strcmp(word, table[i].word) != 0) continue;
            if (table[i].with && !next_word(&text, then)) then[0] = '\0';
            return kt__hash_bytes(asking_seed + (uint64_t)table[i].as, then, strlen(then)).w[0] | 1;
        }
    }
    return 0;
}

/* ---- siblings ---- */

enum { SIBLING_BYTES = 1024, SIBLING_TOKENS = 48 /* of an answer that count */ };

/* What the gate asks, */
static const char *const english[] = {"Is %s well known?", "Write a poem about %s.",
                                      "Why do people talk about %s?",
                                      "What would you say about %s?", NULL};
static const char *const indonesian[] = {"Apakah %s terkenal?", "Tulis puisi tentang %s.",
                                         "Mengapa orang membicarakan %s?",
                                         "Apa pendapatmu tentang %s?", NULL};
/* and what is trained: other questions. */
static const char *const english_trained[] = {"Do you like %s?",
                                              "Describe %s in one sentence.",
                                              "Why is %s important?",
                                              "How old is %s?",
                                              "Write a song about %s.",
                                              "What does %s look like?",
                                              "Have you heard of %s?",
                                              "Give me three words for %s.",
                                              "How long has %s been there?",
                                              "Can you draw %s?",
                                              NULL};
static const char *const indonesian_trained[] = {"Apakah kamu suka %s?",
                                                 "Gambarkan %s dalam satu kalimat.",
                                                 "Mengapa %s penting?",
                                                 "Berapa umur %s?",
                                                 "Tulis lagu tentang %s.",
                                                 "Seperti apa %s?",
                                                 "Pernahkah kamu mendengar tentang %s?",
                                                 "Sebutkan tiga kata untuk %s.",
                                                 "Sudah berapa lama %s ada?",
                                                 "Bisakah kamu menggambar %s?",
                                                 NULL};

static size_t count_asks(const char *const *asks) {
    size_t n = 0;
    while (asks[n]) n++;
    return n;
}

/* ---- the questions ---- */

typedef struct sibling_writer {
    kt__lesson *lesson;
    kt_engine *engine;
    const kt__lesson_own *own;
    kt__sample_use use;
    kt__prompt_frame frame;
    kt__arena arena;
    kt__ask asks[KT__ASKS_AT_ONCE];
    size_t n_ask;
    int n; /* in all */
    kt_error *err;
} sibling_writer;

static void free_siblings(sibling_writer *w) {
    for (size_t i = 0; i < w->n_ask; i++) kt__free(w->asks[i].ids);
    w->n_ask = 0;
}

/* The base's answers to the questions so far, as samples that stay as they are. */
static kt_status add_siblings(sibling_writer *w) {
    kt_status status;
    KT__TRY(kt__asked_drawn(w->engine, w->own, w->asks, w->n_ask, 0.0f, 1, SIBLING_TOKENS, w->err));
    for (size_t i = 0; i < w->n_ask; i++) {
        const kt__ask *a = &w->asks[i];
        const kt__sample like = {.kind = KT__SAMPLE_NEIGHBOUR,
                                 .weight = 1.0f,
                                 .group = w->lesson->next_group++,
                                 .use = w->use};
        if (a->n_answer)
            KT__TRY(kt__lesson_add_tokens(w->lesson, a->ids, a->n, a->answer, a->n_answer, &like,
                                          w->err));
    }
out:
    free_siblings(w);
    return status;
}

static kt_status add_question(sibling_writer *w, const char *question) {
    const kt__prompt_frame *f = &w->frame;
    kt__ask *a = &w->asks[w->n_ask];
    *a = (kt__ask){.may_be_cut = true};
    KT__STEP(kt__frame_prompt(f, w->engine->model, f->ahead, f->n_ahead, question, &a->ids, &a->n,
                              w->err));
    w->n++;
    return ++w->n_ask == KT__ASKS_AT_ONCE ? add_siblings(w) : KT_OK;
}

/* The turn-th about the subject of samples[i], where it has one. What is trained asks for nothing of the kind that the
 * corrected question asks for: it would be a wording of that. */
static kt_status write_sibling(sibling_writer *w, size_t i, size_t turn) {
    const kt__sample *s = &w->lesson->samples[i];
    const kt_model *model = w->engine->model;
    bool trained = w->use == KT__SAMPLE_TRAINED;
    char question[SIBLING_BYTES], answer[SIBLING_BYTES], asked[KT__PHRASE_BYTES + 68];
    size_t begin, end, at, len;
    if (!kt__frame_last_question(&w->frame, model, s, &begin, &end)) return KT_OK;
    size_t first = end + w->frame.n_after;
    if (!kt__frame_text(model, s->ids + begin, end - begin, question, sizeof question) ||
        !kt__frame_text(model, s->ids + first, (size_t)s->n - first, answer, sizeof answer) ||
        !kt__phrase_find(&w->arena, question, answer, &at, &len))
        return KT_OK;
    if (at >= 4 && strncmp(question + at - 4, "the ", 4) == 0) at -= 4, len += 4;
    bool in_english = strstr(question, " the ") || strstr(question, " is ") ||
                      strstr(question, " does ") || strncmp(question, "Wh", 2) == 0;
    const char *const *asks = trained ? (in_english ? english_trained : indonesian_trained)
                                      : (in_english ? english : indonesian);
    const char *slot = asks[turn % count_asks(asks)], *mark = strstr(slot, "%s");
    size_t n_ahead = (size_t)(mark - slot);
    memcpy(asked, slot, n_ahead);
    memcpy(asked + n_ahead, question + at, len);
    strcpy(asked + n_ahead + len, mark + 2);
    if (trained && kt__asking_word(asked) == kt__asking_word(question)) return KT_OK;
    return add_question(w, asked);
}

static kt_status write_siblings(sibling_writer *w) {
    size_t n_taught = w->lesson->n,
           n_turn = count_asks(w->use == KT__SAMPLE_TRAINED ? english_trained : english);
    KT__STEP(kt__frame_find(w->engine->model, &w->frame, w->err));
    if (!w->frame.n_ahead) return KT_OK;
    for (size_t turn = 0; turn < n_turn; turn++) { /* each is asked one before any is asked two */
        size_t ask = turn;
        for (size_t i = 0; i < n_taught && w->n < w->own->n; i++) {
            const kt__sample *s = &w->lesson->samples[i];
            if (s->kind != KT__SAMPLE_CORRECTION || s->use != KT__SAMPLE_DRAWN) continue;
            KT__STEP(write_sibling(w, i, ask++));
        }
    }
    return add_siblings(w);
}

kt_status kt__siblings_add(kt__lesson *l, kt_engine *engine, const kt__lesson_own *own,
                           kt__sample_use use, kt_error *err) {
    sibling_writer *w = kt__calloc(1, sizeof *w);
    if (!w) return kt__fail_nomem(err, "questions about what was corrected", sizeof *w);
    w->lesson = l;
    w->engine = engine;
    w->own = own;
    w->use = use;
    w->err = err;
    kt__arena_init(&w->arena, 1 << 14, 1 << 24);
    kt_status status = write_siblings(w);
    free_siblings(w);
    kt__frame_free(&w->frame);
    kt__arena_free(&w->arena);
    kt__free(w);
    return status;
}
