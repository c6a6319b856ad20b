/* Options of commands that learn from feedback, or show what was learned.
 *
 * Owns: their table, and which folder they mean: the one that `kentang serve` keeps for this user on
 * its socket. One thread. */
#ifndef KT_SETUP_LEARN_OPTS_H
#define KT_SETUP_LEARN_OPTS_H

#include <kentang.h>

#include "setup/config.h"
#include "setup/learn_config.h"
#include "term/options.h"

typedef struct kt__learn_opts {
    const char *name; /* a namespace as GET /v1/adapters shows it; NULL: this user's */
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
