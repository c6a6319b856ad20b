/* The options of commands, made from the settings: one row of settings.def is both.
 *
 * Owns: the option tables by group, which set a configuration as a file would, and which settings
 * an option gave, so that they can be put after those of files and the environment. One thread. */
#ifndef KT_SETUP_SETTING_OPTS_H
#define KT_SETUP_SETTING_OPTS_H

#include "setup/config.h"
#include "term/options.h"

/* Calls a command with the settings' defaults, for the groups below, which live as long as the call. */
typedef int kt__settings_fn(int argc, char **argv, kt__config *config);
int kt__with_settings(int argc, char **argv, kt__settings_fn *command);
/* All options of a group, or that of one setting; they live as long as the configuration. */
kt__opt_group kt__setting_opts(kt__config *config, kt__option_group group);
kt__opt_group kt__setting_opts_one(kt__config *config, const char *title, int setting);
/* Puts what options gave `given` into `to`. */
kt_status KT_CHECKED kt__setting_opts_apply(const kt__config *given, kt__config *to, kt_error *err);

/* Gives a value to the setting of a key, as its option would: kt__syntax.set over a kt__config. */
bool kt__setting_opts_set(void *config, const char *key, const char *value, const char *from,
                          char *expected, size_t size);

#endif
