#include "setup/command_model.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/error.h"
#include "setup/model_name.h"
#include "term/cli.h"

/* The library leaves the calling thread's priority alone; here it is one of the workers. */
kt_status kt__command_set_priority(const kt__config *config, kt_error *err) {
    static const int nices[] = {10, 0, -5, -10};
    int64_t priority = config->priority;
    int rc = 0;
    if (priority == 3) {
        struct sched_param param = {.sched_priority = sched_get_priority_min(SCHED_RR)};
        rc = sched_setscheduler(0, SCHED_RR, &param);
    } else if (priority != 0) {
        rc = setpriority(PRIO_PROCESS, 0, nices[priority + 1]);
    }
    if (rc == 0) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "--prio %d is not allowed here: %s; leave it out, or grant CAP_SYS_NICE or a "
                    "limit (ulimit -e, ulimit -r)",
                    (int)priority, strerror(errno));
}

kt__place_asked kt__command_asks(const kt__config *config) {
    return (kt__place_asked){.config = config,
                             .name = "",
                             .log = kt__cli_log,
                             .log_level = KT_LOG_WARN,
                             .n = 1,
                             .is_driven = true};
}

kt_status kt__command_open_ctx(const kt__config *config, int n_threads_max, kt_ctx **ctx,
                               kt_error *err) {
    const kt__place_asked asked = kt__command_asks(config);
    kt_status status;
    *ctx = NULL;
    /* this program owns its process: a model file truncated in use becomes an error, not a SIGBUS */
    KT__TRY(kt_install_fault_guard(err));
    KT__TRY(kt__place_open_ctx(&asked, n_threads_max, ctx, err));
    status = kt__command_set_priority(config, err);
    if (status == KT_OK) return KT_OK;
    kt_ctx_close(*ctx);
    *ctx = NULL;
out:
    return status;
}

kt_status kt__command_open_model(const kt__config *config, bool vocab_only, kt_ctx **ctx,
                                 kt_model **model, kt_error *err) {
    char *path = NULL;
    kt_status status;
    *ctx = NULL;
    *model = NULL;
    KT__TRY(kt__command_open_ctx(config, (int)config->threads_batch, ctx, err));
    KT__TRY(kt__model_name_find(config->model, config->load_in, &path, err));
    KT__TRY(kt__place_open_model(config, *ctx, path, vocab_only, model, err));
out:
    kt__free(path);
    if (status != KT_OK) {
        kt_ctx_close(*ctx);
        *ctx = NULL;
    }
    return status;
}
