#include "setup/thinking.h"

#include "base/error.h"

#include <jansson.h>
#include <string.h>

static kt_status set_variable(json_t *vars, const char *name, json_t *v, kt_error *err) {
    return json_object_set_new(vars, name, v) == 0 ? KT_OK
                                                   : kt__fail_nomem(err, "template variables", 0);
}

/* By the names of Qwen's and GLM's templates, and of DeepSeek's, Granite's and Kimi's. */
kt_status kt__thinking_switch(json_t *vars, bool on, kt_error *err) {
    KT__STEP(set_variable(vars, "enable_thinking", json_boolean(on), err));
    return set_variable(vars, "thinking", json_boolean(on), err);
}

/* Templates know three of the words. */
kt_status kt__thinking_effort(json_t *vars, const char *word, bool *known, kt_error *err) {
    static const char *const words[][2] = {
        {"none", NULL},   {"minimal", "low"}, {"low", "low"}, {"medium", "medium"},
        {"high", "high"}, {"xhigh", "high"},  {"max", "high"}};
    const size_t n = sizeof words / sizeof words[0];
    size_t i = 0;
    while (i < n && strcmp(word, words[i][0]) != 0) i++;
    *known = i < n;
    if (!*known) return KT_OK;
    KT__STEP(kt__thinking_switch(vars, words[i][1] != NULL, err));
    return words[i][1] ? set_variable(vars, "reasoning_effort", json_string(words[i][1]), err)
                       : KT_OK;
}
