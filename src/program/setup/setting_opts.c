#include "setup/setting_opts.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "setup/config_set.h"
#include "term/cli.h"

static const char *const titles[] = {[KT__OPTIONS_NONE] = "",
                                     [KT__OPTIONS_MODEL] = "Model",
                                     [KT__OPTIONS_SIZES] = "Size and threads",
                                     [KT__OPTIONS_CORES] = "Processors",
                                     [KT__OPTIONS_DRAFT] = "Speculation",
                                     [KT__OPTIONS_CACHE] = "Disk cache",
                                     [KT__OPTIONS_MANY] = "Many at once",
                                     [KT__OPTIONS_LEARN] = "Learning from feedback",
                                     [KT__OPTIONS_SERVER] = "Serving",
                                     [KT__OPTIONS_LISTEN] = "The server"};

int kt__with_settings(int argc, char **argv, kt__settings_fn *command) {
    kt__config *config;
    kt_error err;
    if (kt__config_create(&config, &err) != KT_OK) return kt__cli_fail(argv[0], &err);
    int code = command(argc, argv, config);
    kt__config_free(config);
    return code;
}

/* ---- values ---- */

/* Of "PLACE: expected THIS, got ..." THIS: the parser says the rest in the option's own words. */
static bool keep_failed(const char *why, char *expected, size_t size) {
    const char *what = strstr(why, ": expected "), *end = what ? strstr(what, ", got \"") : NULL;
    if (end)
        snprintf(expected, size, "%.*s", (int)(end - what - 11), what + 11);
    else
        snprintf(expected, size, "another value (%s)", why);
    return false;
}

static bool keep_setting(void *base, const kt__opt *opt, const char *value, char *expected,
                         size_t size) {
    kt__config *config = base;
    char from[64];
    size_t n;
    kt_error err;
    snprintf(from, sizeof from, "--%s", opt->name);
    kt_status status = opt->at == KT__SETTING_model
                           ? kt__config_set_model(config, value, &err)
                           : kt__config_set_text(config, &kt__config_settings(&n)[opt->at], value,
                                                 from, &err);
    if (status != KT_OK) return keep_failed(err.message, expected, size);
    config->given[opt->at] = true;
    return true;
}

bool kt__setting_opts_set(void *config, const char *key, const char *value, const char *from,
                          char *expected, size_t size) {
    kt__config *to = config;
    size_t n, i = 0;
    kt_error err;
    const kt__setting *settings = kt__config_settings(&n);
    while (i < n && strcmp(settings[i].key, key) != 0) i++;
    if (i == n) return keep_failed("there is no such setting", expected, size);
    kt_status status = i == KT__SETTING_model
                           ? kt__config_set_model(to, value, &err)
                           : kt__config_set_text(to, &settings[i], value, from, &err);
    if (status != KT_OK) return keep_failed(err.message, expected, size);
    to->given[i] = true;
    return true;
}

/* --cpu-mask and --cpu-range make one list; a mask may come without its 0x. */
static bool keep_cpus(void *base, const kt__opt *opt, const char *value, char *expected,
                      size_t size) {
    kt__config *config = base;
    char list[512];
    bool is_mask = !strcmp(opt->name, "cpu-mask");
    bool bare = is_mask && strncmp(value, "0x", 2) != 0 && strncmp(value, "0X", 2) != 0;
    const char *before = config->given[KT__SETTING_cpus] && config->cpus ? config->cpus : "";
    int n = snprintf(list, sizeof list, "%s%s%s%s", before, *before ? "," : "", bare ? "0x" : "",
                     value);
    if (n < 0 || (size_t)n >= sizeof list) return keep_failed("it is too long", expected, size);
    return keep_setting(base, opt, list, expected, size);
}

/* ---- tables ---- */

static kt__opt_kind kind_of(const kt__setting *s) {
    switch (s->kind) {
    case KT__SET_BOOL: return KT__OPT_ON;
    case KT__SET_INT: return kt__setting_has_words(s) ? KT__OPT_TEXT : KT__OPT_INT;
    case KT__SET_FLOAT: return KT__OPT_FLOAT;
    case KT__SET_SIZE: return KT__OPT_SIZE;
    default: return s->argument && strchr(s->argument, '|') ? KT__OPT_ENUM : KT__OPT_TEXT;
    }
}

static kt__opt option_of(const kt__setting *s, size_t index) {
    kt__opt_kind kind = kind_of(s);
    return (kt__opt){.name = s->option,
                     .brief = s->brief,
                     .also = s->also,
                     .kind = kind,
                     .at = index,
                     .min = s->low,
                     .max = s->high,
                     .choices = kind == KT__OPT_ENUM ? s->argument : NULL,
                     .arg = kind == KT__OPT_ENUM ? NULL : s->argument,
                     .help = s->help,
                     .keep = index == KT__SETTING_cpus ? keep_cpus : keep_setting};
}

static const kt__opt mask = {.name = "cpu-mask",
                             .brief = "C",
                             .kind = KT__OPT_TEXT,
                             .at = KT__SETTING_cpus,
                             .arg = "HEX",
                             .help = "the same as a mask: f is 0 to 3",
                             .keep = keep_cpus};

/* The rows of a group, or of one setting, in the configuration's arena. */
static kt__opt_group group_of(kt__config *config, const char *title, kt__option_group group,
                              int setting) {
    size_t n_settings, n = 0;
    const kt__setting *settings = kt__config_settings(&n_settings);
    kt__opt *opts = kt__arena_calloc(&config->arena, n_settings + 1, sizeof *opts);
    if (!opts) return (kt__opt_group){title, &mask, 0, config};
    for (size_t i = 0; i < n_settings; i++) {
        if (setting >= 0 ? i != (size_t)setting : settings[i].group != group) continue;
        opts[n++] = option_of(&settings[i], i);
        if (i == KT__SETTING_cpus) opts[n++] = mask;
    }
    return (kt__opt_group){title, opts, n, config};
}

kt__opt_group kt__setting_opts(kt__config *config, kt__option_group group) {
    return group_of(config, titles[group], group, -1);
}

kt__opt_group kt__setting_opts_one(kt__config *config, const char *title, int setting) {
    return group_of(config, title, KT__OPTIONS_NONE, setting);
}

/* ---- after files and the environment ---- */

static kt_status apply_one(const kt__config *given, kt__config *to, const kt__setting *s,
                           kt_error *err) {
    const void *from = (const char *)given + s->at;
    void *slot = (char *)to + s->at;
    if (s->kind != KT__SET_TEXT && s->kind != KT__SET_PATH) {
        memcpy(slot, from, kt__setting_size(s->kind));
        return KT_OK;
    }
    const char *text = *(const char *const *)from;
    return kt__config_copy_text(to, text ? text : "", text ? strlen(text) : 0, slot, err);
}

kt_status kt__setting_opts_apply(const kt__config *given, kt__config *to, kt_error *err) {
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    kt_status status = KT_OK;
    for (size_t i = 0; i < n && status == KT_OK; i++)
        if (given->given[i]) status = apply_one(given, to, &settings[i], err);
    if (given->given[KT__SETTING_model]) to->n_models = 0; /* in place of the file's */
    return status;
}
