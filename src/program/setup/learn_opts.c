#include "setup/learn_config.h"

#include <stdio.h>

#include "base/error.h"
#include "base/system.h"
#include "setup/config.h"

#define AT(member) offsetof(kt__learn_opts, member)

static const kt__opt table[] = {
    {.name = "namespace",
     .kind = KT__OPT_TEXT,
     .at = AT(name),
     .arg = "NAME",
     .help = "whose it is, as GET /v1/adapters shows it (default: yours on the server's socket, "
             "uid:NUMBER)"},
};

kt__opt_group kt__learn_opts_group(kt__learn_opts *opts) {
    return (kt__opt_group){"What was learned", table, KT__COUNT(table), opts};
}

/* The server's configuration, as far as learning goes. */
static kt_status read_learning(const kt__config *given, kt__config *c, kt_error *err) {
    if (given->model) KT__STEP(kt__config_set_model(c, given->model, err));
    KT__STEP(kt__config_set(c, "learning.enabled", "true", "--learn", err));
    if (given->learn_dir)
        KT__STEP(kt__config_set(c, "learning.dir", given->learn_dir, "--learn-dir", err));
    if (given->learn_notes)
        KT__STEP(kt__config_set(c, "learning.notes", given->learn_notes, "--set", err));
    if (given->learn_instant)
        KT__STEP(kt__config_set(c, "learning.instant", given->learn_instant, "--set", err));
    c->learn_instant_lr = given->learn_instant_lr;
    c->learn_instant_share = given->learn_instant_share;
    c->learn_instant_ewc = given->learn_instant_ewc;
    return kt__config_finish(c, err);
}

static kt_status find_folder(const kt__learn_opts *opts, const kt__config *given, kt__config *c,
                             char *folder, size_t size, kt_error *err) {
    char own[32];
    snprintf(own, sizeof own, "uid:%u", (unsigned)kt__process_user());
    KT__STEP(read_learning(given, c, err));
    return kt__namespace_folder(c, c->models[0].name, opts->name ? opts->name : own, folder, size,
                                err);
}

kt_status kt__learn_opts_open(const kt__learn_opts *opts, const kt__config *given,
                              kt_engine *engine, bool read_only, kt_learner **out, kt_error *err) {
    char folder[4096];
    kt__config *c = NULL;
    kt_status status;
    *out = NULL;
    KT__TRY(kt__config_create(&c, err));
    KT__TRY(find_folder(opts, given, c, folder, sizeof folder, err));
    if (opts->instant)
        KT__TRY(kt__config_set(c, "learning.instant", opts->everywhere ? "everywhere" : "scoped",
                               "--set", err));
    kt_learner_params params = kt__learn_params_of(c, folder);
    params.read_only = read_only;
    if (read_only && !kt__file_exists(folder))
        KT__TRY(kt__fail_at(err, KT_E_IO, folder, UINT64_MAX, "nothing was learned there"));
    KT__TRY(kt_learner_open(engine, &params, out, err));
out:
    kt__config_free(c);
    return status;
}

kt_status kt__learn_opts_notes(const kt__config *given, const kt_model *model, kt__notes_mode *mode,
                               char *said, size_t size, kt_error *err) {
    kt__config *c = NULL;
    kt_probe_result so_far;
    kt_status status;
    *mode = KT__NOTES_OUT;
    KT__TRY(kt__config_create(&c, err));
    KT__TRY(read_learning(given, c, err));
    kt__notes_mode set = kt__learn_notes_of(c);
    if (set != KT__NOTES_AUTO) {
        *mode = set;
        snprintf(said, size, "learning.notes is %s", c->learn_notes);
    } else {
        kt__note_verdict verdict = kt__note_probe_read(c, c->models[0].name, model, &so_far);
        bool presumed = kt__note_presumed(model);
        *mode = kt__notes_mode_of(verdict, presumed);
        kt__note_verdict_say(verdict, presumed, &so_far, said, size);
    }
out:
    kt__config_free(c);
    return status;
}

kt_status kt__learn_opts_probe(const kt__config *given, kt_engine *engine, const kt_model *model,
                               kt_probe_result *out, kt_error *err) {
    kt__config *c = NULL;
    kt_status status;
    KT__TRY(kt__config_create(&c, err));
    KT__TRY(read_learning(given, c, err));
    KT__TRY(kt_notes_probe(engine, out, err));
    KT__TRY(kt__note_probe_write(c, c->models[0].name, model, out, err));
out:
    kt__config_free(c);
    return status;
}
