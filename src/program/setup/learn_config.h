/* Learning, as it is set: the settings of its loops, whose feedback is whose, and the options of its commands.
 *
 * Owns: presets and what the words of [learning] mean; the names under which clients learn; which folder a command
 * means. No state; any thread. */
#ifndef KT_SETUP_LEARN_CONFIG_H
#define KT_SETUP_LEARN_CONFIG_H

#include "setup/config.h"
#include "term/options.h"

#include <kentang.h>

/* Whose feedback is whose.
 *
 * The names under which clients learn: a client's own ("key:anna", "uid:1000"), one that it gave a name
 * ("key:anna/work"), or one that the configuration lets all share ("@team"); and the folder of each. No client can
 * write the name of another's. Functions of texts; any thread. */

enum { KT__NAMESPACE_BYTES = 128, KT__NAMESPACE_FOLDER_BYTES = 220 };

/* given: as the client wrote it, or NULL. KT_E_ARG: it is no name; KT_E_LIMIT: too long. */
kt_status KT_CHECKED kt__namespace_of(const kt__config *config, const char *client,
                                      const char *given, char out[KT__NAMESPACE_BYTES],
                                      kt_error *err);
/* DIR/MODEL/NAMESPACE with what a folder's name may hold. */
kt_status KT_CHECKED kt__namespace_folder(const kt__config *config, const char *model,
                                          const char *name, char *out, size_t size, kt_error *err);
/* DIR/MODEL: what all of a model's namespaces share. */
kt_status KT_CHECKED kt__namespace_model_folder(const kt__config *config, const char *model,
                                                char *out, size_t size, kt_error *err);
/* Whether a client may have one name more, where name has no folder yet; KT_E_LIMIT: it has as many as
 * it may. */
kt_status KT_CHECKED kt__namespace_check_new(const kt__config *config, const char *model,
                                             const char *name, kt_error *err);
/* Letters, digits, '.', '-' and '_', 1 to 48. */
bool kt__namespace_is_name(const char *given);

/* Settings. */

/* What the settings, else the preset, else the defaults say. */
typedef struct kt__learn_plan {
    float quality_threshold;
    int64_t interval_ms, min_samples;
    kt_consolidation consolidation;
    float instant_lr; /* 0: there is no instant loop */
    bool instant_everywhere;
} kt__learn_plan;

/* What becomes of the corrections that a conversation opens. */
typedef enum kt__notes_mode {
    KT__NOTES_OUT, /* they stay out of the prompt */
    KT__NOTES_IN,
    KT__NOTES_RECITED, /* the one that kt_notes_judge finds is the answer; where it finds none, they stay out */
    KT__NOTES_AUTO /* as the probe of the model says: what is set, and no model's */
} kt__notes_mode;

/* As it is set. */
kt__notes_mode kt__learn_notes_of(const kt__config *config);
/* For which requests an adapter is used, where notes are given or not: a phrase, constant. */
const char *kt__learn_use_of(bool scoped, bool notes);
kt__learn_plan kt__learn_plan_of(const kt__config *config); /* one that was checked */
/* What a learner is opened with in a folder, whose name stays the caller's. */
kt_learner_params kt__learn_params_of(const kt__config *config, const char *folder);
/* KT_E_ARG: a word of [learning] that is none. */
kt_status KT_CHECKED kt__learn_config_check(const kt__config *config, kt_error *err);
/* Whether trainings begin by themselves at this minute of the day. */
bool kt__learn_config_in_hours(const kt__config *config, int minute);

/* Whether a model uses notes rightly, as far as it was measured: by `kentang learn probe`, or by a server while it has
 * nothing else to do.
 *
 * Owns: its file, DIR/MODEL/notes.probe, which holds for the model with that fingerprint alone, what is known of the
 * embedded model without one, and what is presumed of others. No state; any thread. */

typedef enum kt__note_verdict {
    KT__NOTES_UNKNOWN, /* not measured, or not to the end */
    KT__NOTES_USED,
    KT__NOTES_JUDGED, /* it says rightly which correction a question asks for, and recites that */
    KT__NOTES_NOT_USED
} kt__note_verdict;

kt__notes_mode kt__notes_mode_of(kt__note_verdict verdict, bool presumed);
/* What is to be said of a whole probe. */
kt__note_verdict kt__note_verdict_of(const kt_probe_result *result);

/* name: the model's, as it is served. so_far (or NULL): what was counted, also where the probe was left off. */
kt__note_verdict kt__note_probe_read(const kt__config *config, const char *name,
                                     const kt_model *model, kt_probe_result *so_far);
/* Whether notes are used until it is measured: of models with a billion weights and more. */
bool kt__note_presumed(const kt_model *model);
/* Verdict or presumption, in the words of the server's log and of `run`: out[size]. */
void kt__note_verdict_say(kt__note_verdict verdict, bool presumed, const kt_probe_result *so_far,
                          char *out, size_t size);
/* Of a probe that is whole, or was left off. */
kt_status KT_CHECKED kt__note_probe_write(const kt__config *config, const char *name,
                                          const kt_model *model, const kt_probe_result *result,
                                          kt_error *err);

/* Options of commands that learn from feedback, or show what was learned.
 *
 * Their table, and which folder they mean: the one that `kentang serve` keeps for this user on its socket. One
 * thread. */

typedef struct kt__learn_opts {
    const char *name;         /* a namespace as GET /v1/adapters shows it; NULL: this user's */
    bool instant, everywhere; /* with an instant loop, whatever is set, and how it would be used */
} kt__learn_opts;

/* --namespace; --learn and --learn-dir are settings */
kt__opt_group kt__learn_opts_group(kt__learn_opts *opts);
/* given: what options said of the model and of learning. The learner is closed before the engine. */
kt_status KT_CHECKED kt__learn_opts_open(const kt__learn_opts *opts, const kt__config *given,
                                         kt_engine *engine, bool read_only, kt_learner **out,
                                         kt_error *err);
/* What becomes of corrections there; said: out[size], why. */
kt_status KT_CHECKED kt__learn_opts_notes(const kt__config *given, const kt_model *model,
                                          kt__notes_mode *mode, char *said, size_t size,
                                          kt_error *err);
/* Measures whether the model uses notes rightly, and keeps it there. */
kt_status KT_CHECKED kt__learn_opts_probe(const kt__config *given, kt_engine *engine,
                                          const kt_model *model, kt_probe_result *out,
                                          kt_error *err);

#endif
