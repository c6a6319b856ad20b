/* One setting of a configuration.
 *
 * Owns: what config.c and config_read.c share: finding a setting and giving it a checked value.
 * `from` is what to blame in errors. One thread. */
#ifndef KT_SERVE_CONFIG_SET_H
#define KT_SERVE_CONFIG_SET_H

#include "serve/config.h"

enum {
#define X(member, kind, key, value, low, high, live, help) KT__SETTING_##member,
#include "serve/settings.def"
#undef X
    KT__N_SETTINGS
};

const kt__setting *kt__config_find_key(const char *key); /* NULL: there is none */
void *kt__config_slot(kt__config *config, const kt__setting *setting);
/* Into the configuration's arena; *out is NULL where len is 0. */
kt_status KT_CHECKED kt__config_copy_text(kt__config *config, const char *text, size_t len,
                                          const char **out, kt_error *err);
/* From text, whatever the setting's kind. */
kt_status KT_CHECKED kt__config_set_text(kt__config *config, const kt__setting *setting,
                                         const char *value, const char *from, kt_error *err);
kt_status KT_CHECKED kt__config_set_number(kt__config *config, const kt__setting *setting,
                                           double value, const char *from, kt_error *err);
kt_status KT_CHECKED kt__config_set_size(kt__config *config, const kt__setting *setting,
                                         double bytes, const char *from, kt_error *err);
/* "a, b" */
kt_status KT_CHECKED kt__config_set_list(kt__config *config, const kt__setting *setting,
                                         const char *value, kt_error *err);
/* Errors; the code is returned. */
kt_status kt__config_expected(const char *from, const char *what, const char *got, kt_error *err);
kt_status kt__config_unknown(const char *key, const char *const *names, size_t n, const char *from,
                             kt_error *err);
kt_status kt__config_unknown_key(const char *key, const char *from, kt_error *err);

#endif
