/* kt_notes_probe of kentang.h: whether a model uses notes rightly, by made-up notes. */
#include <string.h>

#include "bank/bank.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "context/types.h"
#include "tutor/judge.h"

enum { MOST_TOKENS = 48, MOST_ANSWER = 1 << 14 };

/* A note that no model knows; a question that it answers, in other words; and one about the same subject that it does not
 * answer. value: what only the note says. */
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
    r.messages = &message;
    r.n_messages = 1;
    r.split = true;
    r.reasoning_budget = -1;
    r.bank = bank;
    r.gen.sampling.temperature = 0;
    r.gen.n_predict = MOST_TOKENS;
    r.no_cache = true;
    r.priority = -KT_PRIORITY_MAX;
    KT__TRY(kt_request_run(engine, &r, keep_text, &answer, NULL, err));
    *says = answer.data && strstr(answer.data, p->value) != NULL;
out:
    kt__buf_free(&answer);
    kt_bank_close(bank);
    return status;
}

static kt_status compare_questions(kt_engine *engine, const probe_note *p, const char *question,
                                   bool *same, kt_error *err) {
    const kt_request_params as = {.priority = -KT_PRIORITY_MAX};
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
