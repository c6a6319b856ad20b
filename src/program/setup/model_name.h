/* From what a person calls a model to the file that is opened.
 *
 * Owns: the one order in which a name is looked up, the same for every command and the server: a
 * file, a name or alias of kentang.toml, a model that lies in the folder of models, and, for what
 * begins with hf: or is an address, a hub; then, where that is
 * asked for, its quantised copy. Reads the configuration file and the environment, as
 * serve does. May print progress and notes on standard error. Any thread. */
#ifndef KT_SETUP_MODEL_NAME_H
#define KT_SETUP_MODEL_NAME_H

#include "setup/config.h"
#include "store/pull.h"

/* name NULL: the configuration's model. load_in: as the setting; NULL: as the configuration says.
 * *path (for kt__free) NULL: the embedded demo model. */
kt_status KT_CHECKED kt__model_name_find(const char *name, const char *load_in, char **path,
                                         kt_error *err);
/* Whether it means a model, without getting one. */
bool kt__model_name_exists(const char *name);
/* The same for a configuration that is read, whose own names do not count: a kt__find_model_fn. */
kt_status KT_CHECKED kt__model_name_file(const kt__config *config, const char *name,
                                         const char *load_in, bool prepare, char **path,
                                         kt_error *err);
/* The settings from kentang.toml and the environment; for kt__config_free. */
kt_status KT_CHECKED kt__model_name_config(kt__config **out, kt_error *err);
/* Where models lie and come from by these settings; its strings belong to config. */
kt__store kt__model_name_store(const kt__config *config);
/* Gets a model, with progress on a terminal and a line that says what came. */
kt_status KT_CHECKED kt__model_name_pull(const kt__store *store, const char *name,
                                         kt__pull_report *report, kt_error *err);

#endif
