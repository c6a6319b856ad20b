/* kentang learned: what a model has learned from feedback, on this machine. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "setup/learn_config.h"
#include "setup/session.h"
#include "setup/setting_opts.h"
#include "term/cli.h"
#include "term/safe_text.h"

typedef struct learned_opts {
    bool all, deep;
    kt__notes_mode notes; /* corrections enter prompts as such, */
    char notes_why[256];
    int32_t n_step, n_own;
    bool everywhere;
    uint64_t seed;
    uint64_t n_params; /* of the model */
    kt__learn_opts learn;
    kt__session_opts session;
} learned_opts;

/* What is done to a learner; words: what follows the action, or NULL, two of them. */
typedef kt_status action_fn(kt_learner **learner, const learned_opts *opts,
                            const char *const *words, kt_error *err);

static const kt__opt table[] = {
    {.name = "all",
     .kind = KT__OPT_ON,
     .at = offsetof(learned_opts, all),
     .help = "of delete: all that was ever learned there"},
    {.name = "deep",
     .kind = KT__OPT_ON,
     .at = offsetof(learned_opts, deep),
     .help = "of train: every matrix of every layer, else the last layer's after its keys and "
             "values, and the final hidden state"},
    {.name = "everywhere",
     .kind = KT__OPT_ON,
     .at = offsetof(learned_opts, everywhere),
     .help =
         "of train: for every conversation, as corrections of a style are meant; else, where all "
         "that was said are corrections with a subject, for those that one of them opens for"},
    {.name = "steps",
     .kind = KT__OPT_INT,
     .at = offsetof(learned_opts, n_step),
     .min = 1,
     .max = 1000000,
     .arg = "N",
     .help = "of train: updates"},
    {.name = "own",
     .kind = KT__OPT_INT,
     .at = offsetof(learned_opts, n_own),
     .min = 1,
     .max = 100000,
     .arg = "N",
     .help = "of train: conversations that the model writes itself, to stay as they are (800)"},
    {.name = "seed",
     .kind = KT__OPT_SEED,
     .at = offsetof(learned_opts, seed),
     .arg = "N",
     .help = "of train: of all that is random (default 1)"},
};

static kt_status show_status(kt_learner **learner, const learned_opts *opts,
                             const char *const *words, kt_error *err) {
    kt_learner_info i;
    (void)words, (void)err;
    kt_learner_get_info(*learner, &i);
    printf("feedback    %" PRIu64 " (%" PRIu64 " corrections, %" PRIu64 " scores), %" PRIu64
           " deleted\n",
           i.n_feedback, i.n_corrections, i.n_scores, i.n_deleted);
    printf("version     %" PRId64 " of %" PRId64 "%s\n", i.version, i.last_version,
           i.frozen ? ", frozen" : "");
    printf("recalled    %d tokens of %d feedbacks, %.1f KiB in memory\n", (int)i.recall.n,
           (int)i.recall.n_source, (double)i.recall.bytes / 1024);
    if (i.adapter)
        printf("adapter     version %" PRId64 ", quality %+.3f, used %s\n", i.adapter,
               i.quality_delta, kt__learn_use_of(i.scoped, opts->notes != KT__NOTES_OUT));
    if (i.n_instant)
        printf("instant     %d steps, used %s\n", (int)i.n_instant,
               kt__learn_use_of(i.instant_scoped, opts->notes != KT__NOTES_OUT));
    printf("notes       %s\n", opts->notes_why);
    printf("pending     %" PRIu64 " feedbacks that no training has seen\n", i.n_pending);
    printf("on disk     %.1f KiB\n", (double)i.bytes / 1024);
    return KT_OK;
}

static bool print_line(void *user, const char *json, size_t len) {
    (void)user;
    return fwrite(json, 1, len, stdout) == len && putchar('\n') != EOF;
}

static kt_status export_all(kt_learner **learner, const learned_opts *opts,
                            const char *const *words, kt_error *err) {
    (void)opts, (void)words;
    return kt_learner_export(*learner, print_line, NULL, err);
}

static kt_status list_versions(kt_learner **learner, const learned_opts *opts,
                               const char *const *words, kt_error *err) {
    kt_learner_info info;
    kt_learned_version *versions;
    size_t n;
    (void)opts, (void)words;
    kt_learner_get_info(*learner, &info);
    kt_status status = kt_learner_versions(*learner, &versions, &n, err);
    if (status != KT_OK) return status;
    printf("  %8s %8s  %s\n", "VERSION", "ON TOP OF", "BY");
    for (size_t i = 0; i < n; i++) {
        const kt_learned_version *v = &versions[i];
        char by[64];
        if (v->feedback)
            snprintf(by, sizeof by, "feedback fb_%" PRIu64, v->feedback);
        else
            snprintf(by, sizeof by, "training, quality %+.3f", v->quality_delta);
        printf("%c %8" PRId64 " %8" PRId64 "   %s%s\n", v->version == info.version ? '*' : ' ',
               v->version, v->parent, by, v->withdrawn ? " (deleted)" : "");
    }
    kt_free(versions);
    return KT_OK;
}

/* "7", "fb_7" */
static kt_status read_number(const char *word, const char *prefix, const char *what, uint64_t *out,
                             kt_error *err) {
    size_t n = strlen(prefix);
    char *end = NULL;
    if (word && n && !strncmp(word, prefix, n)) word += n;
    if (word && *word >= '0' && *word <= '9') *out = strtoull(word, &end, 10);
    return end && !*end ? KT_OK : kt__fail(err, KT_E_ARG, "%s is needed", what);
}

static kt_status roll_back(kt_learner **learner, const learned_opts *opts, const char *const *words,
                           kt_error *err) {
    uint64_t version = 0;
    (void)opts;
    kt_status status = read_number(words[0], "", "a version's number", &version, err);
    if (status == KT_OK && version > INT64_MAX) status = kt__fail(err, KT_E_ARG, "no such version");
    return status == KT_OK ? kt_learner_rollback(*learner, (int64_t)version, err) : status;
}

static kt_status delete_some(kt_learner **learner, const learned_opts *opts,
                             const char *const *words, kt_error *err) {
    uint64_t id = 0;
    if (opts->all && !words[0]) {
        kt_learner *erased = *learner;
        *learner = NULL;
        return kt_learner_erase(erased, err);
    }
    kt_status status = read_number(words[0], "fb_", "a feedback's id, or --all", &id, err);
    return status == KT_OK ? kt_learner_forget(*learner, id, err) : status;
}

/* Minutes of processor time a billion weights: an estimate, from a training of twenty corrections of a model with 1.5
 * billion (docs/LEARNING.md). */
enum { DEEP_MINUTES = 75, LONG_MINUTES = 30 };

static void tell_length(const learned_opts *opts) {
    double minutes = DEEP_MINUTES * (double)opts->n_params * 1e-9;
    if (!opts->deep || opts->n_step || minutes < LONG_MINUTES) return;
    fprintf(stderr,
            "kentang learned: a deep training of this model takes about %.1f hours of processor "
            "time; if it is ended, the same command continues it\n",
            minutes / 60);
}

/* With all threads, at the command's own priority. */
static kt_status train_word(kt_learner **learner, const learned_opts *opts,
                            const char *const *words, kt_error *err) {
    const kt_train_params params = {.deep = opts->deep,
                                    .everywhere = opts->everywhere,
                                    .n_step = opts->n_step,
                                    .n_own = opts->n_own,
                                    .seed = opts->seed};
    kt_train_result result;
    kt_learner_info info;
    (void)words;
    tell_length(opts);
    kt_status status = kt_learner_train(*learner, &params, &result, err);
    if (status != KT_OK) return status;
    kt_learner_get_info(*learner, &info);
    printf("%s, version %" PRId64, result.published ? "published" : "refused", result.version);
    if (result.published)
        printf(", used %s", kt__learn_use_of(info.scoped, opts->notes != KT__NOTES_OUT));
    printf("\n%s\n", result.report);
    kt_free(result.report);
    return KT_OK;
}

/* What the instant loop would make of it. */
static kt_status judge_word(kt_learner **learner, const learned_opts *opts,
                            const char *const *words, kt_error *err) {
    const kt_train_params params = {
        .instant = true, .everywhere = opts->everywhere, .n_own = opts->n_own, .seed = opts->seed};
    kt_train_result result;
    (void)words;
    KT__STEP(kt_learner_train(*learner, &params, &result, err));
    puts("the instant loop at the share that the gate allows (learning.instant_share):");
    puts(result.report);
    kt_free(result.report);
    return KT_OK;
}

/* ---- entries: what was corrected, and what it is about ---- */

static void print_text(const char *name, const json_t *text) {
    if (!text) return;
    printf("    %s  ", name);
    kt__safe_print(stdout, json_string_value(text), json_string_length(text), 0);
    putchar('\n');
}

static void print_subject(const json_t *entry) {
    const json_t *subject = json_object_get(entry, "subject");
    const char *scope = json_string_value(json_object_get(entry, "scope"));
    if (json_array_size(subject) == 0 && scope) printf("  (opens for nothing: %s)", scope);
    for (size_t i = 0; i < json_array_size(subject); i++) {
        const json_t *word = json_array_get(subject, i);
        fputs(i ? " " : "  [", stdout);
        kt__safe_print(stdout, json_string_value(word), json_string_length(word), 0);
    }
    if (json_array_size(subject)) putchar(']');
}

static bool print_entry(void *user, const char *line, size_t len) {
    bool *any = user;
    json_t *entry = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    const json_t *correction = json_object_get(entry, "correction");
    if (correction) {
        printf("fb_%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(entry, "id")));
        print_subject(entry);
        putchar('\n');
        print_text("Q", json_object_get(entry, "question"));
        print_text("A", correction);
        *any = true;
    }
    json_decref(entry);
    return !ferror(stdout);
}

static kt_status list_entries(kt_learner *learner, const kt_learner_query *query, kt_error *err) {
    bool any = false;
    kt_status status = kt_learner_list(learner, query, print_entry, &any, err);
    if (status == KT_OK && !any) puts("(none)");
    return status;
}

static kt_status show_entries(kt_learner **learner, const learned_opts *opts,
                              const char *const *words, kt_error *err) {
    const kt_learner_query query = {.text = words[0]};
    (void)opts;
    return list_entries(*learner, &query, err);
}

static kt_status show_opened(kt_learner **learner, const learned_opts *opts,
                             const char *const *words, kt_error *err) {
    const kt_learner_query query = {.opens = words[0]};
    (void)opts;
    if (!words[0]) return kt__fail(err, KT_E_ARG, "a user's message is needed");
    return list_entries(*learner, &query, err);
}

static kt_status edit_entry(kt_learner **learner, const learned_opts *opts,
                            const char *const *words, kt_error *err) {
    uint64_t id = 0;
    kt_feedback_result r;
    (void)opts;
    KT__STEP(read_number(words[0], "fb_", "a feedback's id", &id, err));
    if (!words[1]) return kt__fail(err, KT_E_ARG, "the corrected answer is needed");
    KT__STEP(kt_learner_edit(*learner, id, words[1], strlen(words[1]), &r, err));
    printf("fb_%" PRIu64 ", version %" PRId64 "\n", r.id, r.version);
    return KT_OK;
}

static kt_status freeze_word(kt_learner **learner, const learned_opts *opts,
                             const char *const *words, kt_error *err) {
    (void)opts, (void)words;
    return kt_learner_freeze(*learner, true, err);
}

static kt_status thaw_word(kt_learner **learner, const learned_opts *opts, const char *const *words,
                           kt_error *err) {
    (void)opts, (void)words;
    return kt_learner_freeze(*learner, false, err);
}

/* Of the model, not of a learner. */
static kt_status probe_model(const kt__session *session, const kt__config *config, kt_error *err) {
    static const char *const words[] = {
        [KT__NOTES_OUT] = "off",
        [KT__NOTES_IN] = "on",
        [KT__NOTES_RECITED] = "what it judges, recited, without notes,"};
    kt_probe_result r;
    KT__STEP(kt__learn_opts_probe(config, session->engine, session->model, &r, err));
    printf("notes used         %d of %d questions that they answer\n", (int)r.n_used,
           (int)r.n_asked);
    printf("taken for others   %d of %d questions that they do not answer\n", (int)r.n_leaked,
           (int)r.n_others);
    printf("judged the same    %d of %d questions that ask for the same, %d of %d others\n",
           (int)r.n_same, (int)r.n_asked, (int)r.n_same_wrong, (int)r.n_others);
    printf("learning.notes     auto is %s for this model\n",
           words[kt__notes_mode_of(kt__note_verdict_of(&r), false)]);
    return KT_OK;
}

static const struct {
    const char *name;
    bool changes;
    action_fn *run;
} actions[] = {{"status", false, show_status},   {"list", false, list_versions},
               {"entries", false, show_entries}, {"opens", false, show_opened},
               {"edit", true, edit_entry},       {"export", false, export_all},
               {"rollback", true, roll_back},    {"train", true, train_word},
               {"judge", true, judge_word},      {"freeze", true, freeze_word},
               {"thaw", true, thaw_word},        {"delete", true, delete_some}};

/* words: the action, and two more or NULL */
static int act_on_words(learned_opts *opts, const char *const *words) {
    kt_error err = {0};
    kt__session session = {0};
    kt_learner *learner = NULL;
    size_t i = 0;
    bool probes = !strcmp(words[0], "probe");
    while (i < KT__COUNT(actions) && strcmp(actions[i].name, words[0]) != 0) i++;
    if (i == KT__COUNT(actions) && !probes)
        return kt__cli_usage_error(
            "learned",
            "\"%.40s\" is not one of status, list, entries, opens, edit, export, train, judge, probe, "
            "rollback, freeze, thaw and delete",
            words[0]);
    kt_status status;
    /* what the model writes for a training is written many at a time */
    bool writes = !probes && (actions[i].run == train_word || actions[i].run == judge_word);
    if (!writes) opts->session.config->parallel = 1;
    KT__TRY(kt__session_open(&opts->session, &session, &err));
    opts->n_params = session.info.n_params;
    if (probes) {
        status = probe_model(&session, opts->session.config, &err);
        goto out;
    }
    opts->learn.instant = actions[i].run == judge_word;
    opts->learn.everywhere = opts->everywhere;
    KT__TRY(kt__learn_opts_open(&opts->learn, opts->session.config, session.engine,
                                !actions[i].changes, &learner, &err));
    KT__TRY(kt__learn_opts_notes(opts->session.config, session.model, &opts->notes, opts->notes_why,
                                 sizeof opts->notes_why, &err));
    KT__TRY(actions[i].run(&learner, opts, words + 1, &err));
out:
    kt_learner_close(learner);
    kt__session_close(&session);
    return status == KT_OK ? 0 : kt__cli_fail("learned", &err);
}

static int learned_command(int argc, char **argv, kt__config *config) {
    learned_opts opts = {.session = {.config = config, .many = true}};
    config->chat_fallback = true; /* as the server that learns has it */
    const kt__opt_group groups[] = {
        {"Options", table, KT__COUNT(table), &opts},
        kt__learn_opts_group(&opts.learn),
        kt__setting_opts_one(config, "Its folder", KT__SETTING_learn_dir),
        kt__setting_opts_one(config, "As the server has it", KT__SETTING_learn_instant),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "learned",
        .usage = "ACTION [WORD...] [OPTIONS]",
        .about =
            "What a model has learned from feedback. ACTION is\n"
            "status: how much; list: its versions; export: all that was said, as lines of JSON\n"
            "entries [WORDS]: what was corrected (where WORDS begin words of it), and the words\n"
            "  that say what it is about; opens TEXT: those that a user's message TEXT opens\n"
            "edit ID TEXT: another correction in the place of one\n"
            "train: an adapter trained from it, and served where it passes the gate\n"
            "judge: what the gate says of the instant loop (learning.instant), of all that was said\n"
            "probe: whether the model uses notes rightly, by made-up ones, kept for learning.notes\n"
            "rollback VERSION: an earlier version served again (0: the model alone)\n"
            "freeze, thaw: no more feedback taken, or taken again\n"
            "delete ID, delete --all: without a trace.\n"
            "`kentang learn status` and so on mean the same. What changes something needs a server\n"
            "that learns there to be stopped, or asked: POST /v1/adapters/train,\n"
            "/v1/adapters/rollback, POST /v1/feedback, DELETE /v1/feedback/ID.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .min_words = 1,
        .max_words = 3,
        .word = "ACTION"};
    const char *words[4] = {NULL};
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    return code >= 0 ? code : act_on_words(&opts, words);
}

int kt__cmd_learned(int argc, char **argv) {
    return kt__with_settings(argc, argv, learned_command);
}
