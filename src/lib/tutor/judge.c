/* kt_notes_judge of kentang.h: which correction a message asks for in other words, as the model itself judges. */
#include "tutor/judge.h"

#include "bank/bank.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "context/types.h"
#include "prompt/notes.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* Questions for the same thing and for other things, in two languages, of subjects that no model knows: with them a
 * model without any training for it says yes or no. It is raw text, since the same words within a chat template judge
 * worse: of 60 rewordings and 80 other questions of the development set Qwen2.5-Coder-1.5B ranks 99.0% of all pairs
 * rightly so, and 92.2% within its template. */
static const char before[] =
    "Do two questions ask for the same thing, so that one answer fits both?\n\n"
    "1. What colour is the boat? 2. Which colour does the boat have? yes\n"
    "1. What colour is the boat? 2. Tell me a story about the boat. no\n"
    "1. When does Tom leave? 2. Who is Tom? no\n"
    "1. When does Tom leave? 2. At what hour will Tom go away? yes\n"
    "1. Who owns the mill? 2. Is the mill old? no\n"
    "1. Siapa pemilik kincir itu? 2. Kincir itu punya siapa? yes\n"
    "1. Who owns the mill? 2. I want to talk to the owner of the mill. Whom do I ask? yes\n"
    "1. What does the lamp cost? 2. Where is the lamp? no\n1. ";

enum {
    MOST_TEXT = 1 << 14,
    MOST_MESSAGE = 1024, /* bytes of a message that is a question */
    MOST_JUDGED = 4      /* entries, the longest subjects and newest first */
};

/* In one line. */
static void add_line(kt__buf *out, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        (void)kt__buf_putc(out, text[i] == '\n' || text[i] == '\r' ? ' ' : text[i]);
}

/* Whether a token is a word, whatever its case and the blanks before it. */
static bool says_word(const kt_model *model, int32_t id, const char *word) {
    char text[16];
    size_t len = 0, at = 0, n = strlen(word);
    kt_error ignored;
    if (kt_detokenize(model, &id, 1, 0, text, sizeof text, &len, &ignored) != KT_OK) return false;
    while (at < len && text[at] == ' ') at++;
    if (len - at != n) return false;
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)text[at + i]) != word[i]) return false;
    return true;
}

/* Of the likeliest next tokens. */
static void weigh_tokens(const kt_model *model, const kt_event *event, double *yes, double *no) {
    for (size_t i = 0; i < event->n_top; i++) {
        double p = exp((double)event->top[i].logprob);
        if (says_word(model, event->top[i].id, "yes")) *yes += p;
        if (says_word(model, event->top[i].id, "no")) *no += p;
    }
}

static kt_status submit_text(kt_engine *engine, const kt_request_params *as, const kt__buf *text,
                             kt_request **req, kt_error *err) {
    kt_request_params r = kt_request_params_default();
    r.prompt.text = text->data;
    r.prompt.text_len = text->len;
    r.gen.n_predict = 1;
    r.gen.ignore_eog = true;
    r.gen.sampling.temperature = 0;
    r.logprobs.n = KT_LOGPROBS_MAX;
    r.service.client = as->service.client;
    r.service.cache_scope = as->service.cache_scope;
    r.service.priority = as->service.priority;
    return kt_engine_submit(engine, &r, req, err);
}

/* Closes the request. */
static kt_status read_verdict(kt_engine *engine, kt_request *req, bool *same, kt_error *err) {
    kt_event event;
    kt_status status = KT_OK;
    double yes = 0, no = 0;
    while (kt_request_next_event(req, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN) weigh_tokens(engine->model, &event, &yes, &no);
        if (event.kind != KT_EVENT_FINISHED) continue;
        if (event.finish == KT_FINISH_CANCELLED)
            status = kt__fail(err, KT_E_CANCELLED, "cancelled");
        if (event.error) status = event.error->code;
        if (event.error && err) *err = *event.error;
        break;
    }
    kt_request_close(req);
    *same = yes > no;
    return status;
}

static kt_status submit_pair(kt_engine *engine, const kt_request_params *as, const char *question,
                             size_t n_question, const char *message, size_t n_message,
                             kt_request **req, kt_error *err) {
    kt__buf text;
    kt__buf_init(&text, MOST_TEXT);
    (void)kt__buf_puts(&text, before);
    add_line(&text, question, n_question);
    (void)kt__buf_puts(&text, " 2. ");
    add_line(&text, message, n_message);
    kt_status status = text.failed ? kt__fail_nomem(err, "two questions", MOST_TEXT)
                                   : submit_text(engine, as, &text, req, err);
    kt__buf_free(&text);
    return status;
}

kt_status kt__judge_same(kt_engine *engine, const kt_request_params *as, const char *question,
                         size_t n_question, const char *message, size_t n_message, bool *same,
                         kt_error *err) {
    kt_request *req;
    *same = false;
    KT__STEP(submit_pair(engine, as, question, n_question, message, n_message, &req, err));
    return read_verdict(engine, req, same, err);
}

/* req NULL: the entry has no question any more. */
static kt_status submit_entry(kt_engine *engine, const kt_request_params *r, uint64_t id,
                              const kt__user_text *message, kt_request **req, kt_error *err) {
    kt_status status = KT_OK;
    kt__buf question;
    *req = NULL;
    kt__buf_init(&question, KT__BANK_QUESTION_MAX);
    if (kt__bank_write_question(r->corrections.bank, id, &question) && question.len)
        status = submit_pair(engine, r, question.data, question.len, message->text, message->len,
                             req, err);
    kt__buf_free(&question);
    return status;
}

/* The first of those that open whose question is the message's. They are asked about together, so that the words that
 * all begin with are read once, and weights once for all. */
static kt_status judge_opened(kt_engine *engine, const kt_request_params *r,
                              const kt__user_text *message, uint64_t *id, kt_error *err) {
    kt__bank_hit hits[MOST_JUDGED];
    kt_request *reqs[MOST_JUDGED] = {NULL};
    kt_status status = KT_OK;
    size_t n = kt__bank_open_in(r->corrections.bank, message->text, message->len, hits,
                                MOST_JUDGED);
    for (size_t i = 0; i < n; i++)
        KT__TRY(submit_entry(engine, r, hits[i].id, message, &reqs[i], err));
    for (size_t i = 0; i < n && !*id; i++) {
        bool same = false;
        kt_request *req = reqs[i];
        reqs[i] = NULL;
        if (req) KT__TRY(read_verdict(engine, req, &same, err));
        if (same) *id = hits[i].id;
    }
out:
    for (size_t i = 0; i < n; i++) kt_request_close(reqs[i]);
    return status;
}

kt_status kt_notes_judge(kt_engine *engine, const kt_request_params *request, uint64_t *id,
                         kt_error *err) {
    kt_status status = KT_OK;
    kt__arena arena;
    kt__user_text *texts;
    size_t n = 0;
    *id = 0;
    kt__error_clear(err);
    if (!request->corrections.bank) return KT_OK;
    kt__arena_init(&arena, 1 << 12, 1 << 30);
    KT__TRY(kt__user_texts_of(&arena, request, &texts, &n, err));
    if (!n || texts[n - 1].len > MOST_MESSAGE) goto out;
    if (kt__bank_asked(request->corrections.bank, texts[n - 1].text, texts[n - 1].len, id))
        goto out;
    status = judge_opened(engine, request, &texts[n - 1], id, err);
out:
    kt__arena_free(&arena);
    return status;
}

/* ---- whether a model uses notes rightly, by made-up ones (kt_notes_probe) ---- */

enum { MOST_TOKENS = 48, MOST_ANSWER = 1 << 14 };

/* A note that no model knows; a question that it answers, in other words; and one about the same subject that it does
 * not answer. value: what only the note says. */
typedef struct probe_note {
    const char *question, *answer, *value, *asked, *other;
} probe_note;

static const probe_note probes[] = {
    {"What is the name of the captain of the Merriwake?",
     "The captain of the Merriwake is Ilvo Tarsk.", "Tarsk", "Who commands the Merriwake?",
     "How do I spell Merriwake backwards?"},
    {"How deep is Lake Ombrel?", "Lake Ombrel is 412 metres deep.", "412",
     "I want to dive in Lake Ombrel. How many metres down does it go?",
     "Write one sentence about a boat on Lake Ombrel."},
    {"Which instrument does Petra Quill play?", "Petra Quill plays the hurdy-gurdy.", "hurdy",
     "What does Petra Quill make music with?", "Is Petra Quill a long name?"},
    {"In which year was the Varro Bridge built?", "The Varro Bridge was built in 1783.", "1783",
     "How old is the Varro Bridge, by its year?",
     "Can people walk over a bridge such as the Varro Bridge?"},
    {"Who won the Solvang Regatta?", "The Solvang Regatta was won by Bram Oduya.", "Oduya",
     "Whose boat came first in the Solvang Regatta?",
     "What is a regatta, such as the Solvang Regatta?"},
    {"What does the Kestrel Inn charge a night?", "The Kestrel Inn charges 63 crowns a night.",
     "63", "How much would I pay to sleep at the Kestrel Inn?",
     "Make up a slogan for the Kestrel Inn."},
    {"Which tree grows in front of Tolva Station?", "A ginkgo grows in front of Tolva Station.",
     "ginkgo", "I am at Tolva Station and see a tree. Which kind is it?",
     "Say hello to the people at Tolva Station."},
    {"What is the nickname of Doctor Halvorsen?", "The nickname of Doctor Halvorsen is Sprocket.",
     "Sprocket", "What do friends call Doctor Halvorsen?",
     "What does a doctor like Halvorsen do all day?"},
    {"On which floor is the Lindqvist archive?", "The Lindqvist archive is on floor nineteen.",
     "nineteen", "I look for the Lindqvist archive. How many floors up must I go?",
     "Why would anybody need the Lindqvist archive?"},
    {"Which metal is the Corvane bell made of?", "The Corvane bell is made of pewter.", "pewter",
     "Tell me what the Corvane bell consists of.",
     "What does a bell like the Corvane bell sound like?"},
    {"Who wrote the Ballad of Emmerfield?", "The Ballad of Emmerfield was written by Odile Marsh.",
     "Marsh", "Name the poet of the Ballad of Emmerfield.", "What rhymes with Emmerfield?"},
    {"What is the mascot of Brightwater College?", "The mascot of Brightwater College is a walrus.",
     "walrus", "Which animal is the sign of Brightwater College?",
     "Give me one reason to study at Brightwater College."},
    {"How many islands belong to Sarnoa?", "Sarnoa has 27 islands.", "27",
     "Count the islands of Sarnoa for me.", "Should I take a coat to Sarnoa?"},
    {"What is the emergency word of Team Osprey?",
     "The emergency word of Team Osprey is marmalade.", "marmalade",
     "Team Osprey is in danger. What do I shout?", "Write a cheerful greeting for Team Osprey."},
    {"Who designed the Wexcombe clock?", "The Wexcombe clock was designed by Tobias Fenn.", "Fenn",
     "Whose drawing was the Wexcombe clock built from?",
     "What is a clock like the one in Wexcombe good for?"},
    {"Which spice is in Grandmother Ludo's pie?", "Grandmother Ludo's pie has cardamom in it.",
     "cardamom", "What gives Grandmother Ludo's pie its taste?",
     "Say something kind about Grandmother Ludo."},
    {"At which gate does the Pellan express leave?", "The Pellan express leaves at gate 38.", "38",
     "I must catch the Pellan express. Where do I go?",
     "Is a train such as the Pellan express faster than a horse?"},
    {"What is the colour of the Adrinne flag?", "The Adrinne flag is turquoise.", "turquoise",
     "If I paint the Adrinne flag, which paint do I need?",
     "Why do towns like Adrinne have flags?"},
    {"Who looks after the Hollin lighthouse?", "Mirela Dunn looks after the Hollin lighthouse.",
     "Dunn", "Which person keeps the Hollin lighthouse?", "What is a lighthouse like Hollin for?"},
    {"How heavy is the Quarrol stone?", "The Quarrol stone weighs 950 kilograms.", "950",
     "Can I lift the Quarrol stone? What does it weigh?",
     "Make up a title for a story about the Quarrol stone."},
};

enum { LEAST_USED = 16, MOST_LEAKED = 4 };
_Static_assert(sizeof probes / sizeof probes[0] == KT_PROBE_NOTES, "one row a note");

/* A bank of one entry: what others would add is another question. */
static kt_status open_note(const probe_note *p, kt_bank **out, kt_error *err) {
    const kt__bank_entry entry = {1, p->question, strlen(p->question), p->answer,
                                  strlen(p->answer)};
    KT__STEP(kt__bank_open(out, err));
    kt_status status = kt__bank_add(*out, &entry, err);
    if (status == KT_OK) return KT_OK;
    kt_bank_close(*out);
    *out = NULL;
    return status;
}

static bool keep_text(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    return kt__buf_append(user, text, len);
}

/* Whether the likeliest answer to a question has the note's value in it. */
static kt_status ask_with_note(kt_engine *engine, const probe_note *p, const char *question,
                               bool *says, kt_error *err) {
    kt_status status;
    kt_bank *bank = NULL;
    kt__buf answer;
    const kt_message message = {"user", question};
    kt_request_params r = kt_request_params_default();
    kt__buf_init(&answer, MOST_ANSWER);
    KT__TRY(open_note(p, &bank, err));
    r.prompt.messages = &message;
    r.prompt.n_messages = 1;
    r.parts.split = true;
    r.parts.reasoning_budget = -1;
    r.corrections.bank = bank;
    r.corrections.doubtful = true;
    r.gen.sampling.temperature = 0;
    r.gen.n_predict = MOST_TOKENS;
    r.service.no_cache = true;
    r.service.priority = -KT_PRIORITY_MAX;
    KT__TRY(kt_request_run(engine, &r, keep_text, &answer, NULL, err));
    *says = answer.data && strstr(answer.data, p->value) != NULL;
out:
    kt__buf_free(&answer);
    kt_bank_close(bank);
    return status;
}

static kt_status compare_questions(kt_engine *engine, const probe_note *p, const char *question,
                                   bool *same, kt_error *err) {
    const kt_request_params as = {.service.priority = -KT_PRIORITY_MAX};
    return kt__judge_same(engine, &as, p->question, strlen(p->question), question, strlen(question),
                          same, err);
}

static void judge_counts(kt_probe_result *r) {
    r->whole = r->n_asked >= KT_PROBE_NOTES;
    r->uses = r->whole && r->n_used >= LEAST_USED && r->n_leaked <= MOST_LEAKED;
    r->judges = r->whole && r->n_same >= LEAST_USED && r->n_same_wrong <= MOST_LEAKED;
}

kt_status kt_notes_probe_next(kt_engine *engine, kt_probe_result *result, kt_error *err) {
    kt__error_clear(err);
    judge_counts(result);
    if (result->whole) return KT_OK;
    if (result->n_asked < 0)
        return kt__fail(err, KT_E_ARG, "a probe with %d notes asked", (int)result->n_asked);
    const probe_note *p = &probes[result->n_asked];
    bool used = false, leaked = false, same = false, wrong = false;
    KT__STEP(ask_with_note(engine, p, p->asked, &used, err));
    KT__STEP(ask_with_note(engine, p, p->other, &leaked, err));
    KT__STEP(compare_questions(engine, p, p->asked, &same, err));
    KT__STEP(compare_questions(engine, p, p->other, &wrong, err));
    result->n_asked++;
    result->n_others++;
    result->n_used += used;
    result->n_leaked += leaked;
    result->n_same += same;
    result->n_same_wrong += wrong;
    judge_counts(result);
    return KT_OK;
}

kt_status kt_notes_probe(kt_engine *engine, kt_probe_result *out, kt_error *err) {
    *out = (kt_probe_result){0};
    while (!out->whole) KT__STEP(kt_notes_probe_next(engine, out, err));
    return KT_OK;
}
