/* config.json's values by name, and what a class means where the file is silent. */
#include "convert/config.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *model_type, *name;
    double value;
} defaults[] = {
#define X(model_type, name, value) {model_type, name, value},
#include "convert/config_defaults.def"
#undef X
};
enum { N_DEFAULTS = sizeof defaults / sizeof *defaults };

const double *kt__hf_default(const kt__hf_config *c, const char *name) {
    for (int i = 0; i < N_DEFAULTS; i++)
        if (strcmp(defaults[i].model_type, c->model_type) == 0 &&
            strcmp(defaults[i].name, name) == 0)
            return &defaults[i].value;
    return NULL;
}

json_t *kt__hf_config_get(const kt__hf_config *c, const char *name) {
    json_t *value = json_object_get(c->text, name);
    return value ? value : json_object_get(c->root, name);
}

bool kt__hf_flag(const kt__hf_config *c, const char *name, bool fallback) {
    json_t *value = kt__hf_config_get(c, name);
    const double *preset = kt__hf_default(c, name);
    if (json_is_boolean(value)) return json_is_true(value);
    return preset ? *preset != 0.0 : fallback;
}

kt_status kt__hf_refuse(const kt__hf_config *c, const char *name, const char *why, kt_error *err) {
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX, "\"%s\": %s", name, why);
}

void kt__convert_note(const kt__convert_notes *notes, const char *fmt, ...) {
    char line[512];
    va_list args;
    if (!notes || !notes->fn) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    notes->fn(notes->user, line);
}
