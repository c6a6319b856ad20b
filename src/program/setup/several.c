#include "setup/several.h"

#include <stdlib.h>

#include "base/error.h"
#include "setup/place.h"

typedef struct unshared_setting {
    bool asked;
    const char *what, *instead;
} unshared_setting;

static kt_status refuse_asked(const unshared_setting *list, size_t n, kt_error *err) {
    for (size_t i = 0; i < n; i++)
        if (list[i].asked)
            return kt__fail(err, KT_E_UNSUPPORTED,
                            "%s cannot be used where several processes compute a model together: "
                            "%s, or start kentang without mpirun",
                            list[i].what, list[i].instead);
    return KT_OK;
}

static kt_status check_model(const kt__model_config *m, const kt__config *config, kt_error *err) {
    const unshared_setting list[] = {
        {m->own->contexts > 1, "contexts above 1", "set contexts = 1"},
        {kt__place_is_own(m->own, config, 1),
         "a model's own threads, cpus, priority or isa, or the preset extreme,",
         "set them for all of the server, and another preset"},
    };
    return refuse_asked(list, sizeof list / sizeof *list, err);
}

kt_status kt__several_check(const kt__config *config, kt_error *err) {
    const unshared_setting list[] = {
        {config->n_models > 1, "more than one model", "serve one of them"},
        {config->pull, "http.pull", "set it to false"},
    };
    KT__STEP(refuse_asked(list, sizeof list / sizeof *list, err));
    return check_model(&config->models[0], config, err);
}

/* Open MPI's default is a second; with --mca the processes' environment has it. */
int64_t kt__several_end_ms(void) {
    const char *text = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    long s = text && *text ? strtol(text, NULL, 10) : 1;
    return (s < 1 ? 1 : s > 3600 ? 3600 : s) * 400;
}
