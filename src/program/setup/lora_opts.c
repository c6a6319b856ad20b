#include "setup/lora_opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "store/adapter_file.h"

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
