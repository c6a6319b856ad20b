#include "setup/command_model.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "setup/model_file.h"
#include "store/load_in.h"
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

/* ---- lora opts ---- */

static const kt__opt table[] = {
    {.name = "lora",
     .kind = KT__OPT_TEXTS,
     .at = offsetof(kt__lora_opts, files),
     .arg = "FILE[=SCALE]",
     .help =
         "an adapter (LoRA) of the model, with a scale (default 1); may be given up to 8 times"},
};

kt__opt_group kt__lora_opts_group(kt__lora_opts *opts) {
    return (kt__opt_group){"Adapters", table, KT__COUNT(table), opts};
}

void kt__lora_opts_free(kt__lora_opts *opts) {
    kt__opt_texts_free(&opts->files);
}

kt_status kt__lora_split(const char *text, char *path, size_t size, float *scale, kt_error *err) {
    const char *equals = strrchr(text, '=');
    size_t len = strlen(text);
    *scale = 1.0f;
    if (equals && access(text, F_OK) != 0) {
        char *end;
        *scale = strtof(equals + 1, &end);
        if (end == equals + 1 || *end)
            return kt__fail(err, KT_E_ARG, "--lora %.200s: a number is expected after the '='",
                            text);
        len = (size_t)(equals - text);
    }
    if (len >= size) return kt__fail(err, KT_E_LIMIT, "--lora: the path is too long");
    snprintf(path, size, "%.*s", (int)len, text);
    return KT_OK;
}

static kt_status open_one(const char *text, kt_model *model, kt_adapter_use *out, kt_error *err) {
    char path[4096];
    kt_status status = kt__lora_split(text, path, sizeof path, &out->scale, err);
    return status == KT_OK ? kt__adapter_open_path(model, path, &out->adapter, err) : status;
}

kt_status kt__lora_set_open(const kt__lora_opts *opts, kt_model *model, kt__lora_set *out,
                            kt_error *err) {
    kt_status status = KT_OK;
    *out = (kt__lora_set){0};
    if (opts->files.n > KT_ADAPTERS_MAX)
        return kt__fail(err, KT_E_LIMIT, "--lora is given %zu times; %d are allowed", opts->files.n,
                        KT_ADAPTERS_MAX);
    for (size_t i = 0; i < opts->files.n; i++) {
        KT__TRY(open_one(opts->files.items[i], model, &out->uses[i], err));
        out->n++;
    }
out:
    if (status != KT_OK) kt__lora_set_close(out);
    return status;
}

void kt__lora_set_close(kt__lora_set *set) {
    for (size_t i = 0; i < set->n; i++) kt_adapter_close(set->uses[i].adapter);
    *set = (kt__lora_set){0};
}
