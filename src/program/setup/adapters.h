/* The adapters that are served.
 *
 * Owns: what the settings `adapters` and `adapter` say, and for each model the adapters that
 * requests have named so far, opened with the first of them. A reload forgets those that are not
 * listed any more, or whose file was replaced; what runs keeps its own. No file name ever comes
 * from a client. A table from any thread. */
#ifndef KT_SETUP_ADAPTERS_H
#define KT_SETUP_ADAPTERS_H

#include <kentang.h>

#include "base/buf.h"
#include "setup/config.h"

enum { KT__ADAPTER_NAME_MAX = 127 };

/* One that a request names. */
typedef struct kt__adapter_named {
    const char *name;
    float scale;
} kt__adapter_named;

/* A line of the setting: "NAME=FILE" of the first model, "MODEL/NAME=FILE" of another. */
typedef struct kt__adapter_entry {
    const char *model, *path;
    char name[KT__ADAPTER_NAME_MAX + 1];
} kt__adapter_entry;

/* The index-th of config->adapters; false: it is not of that form, or of a model that is not there. */
bool kt__adapter_entry_read(const kt__config *config, size_t index, kt__adapter_entry *out);
/* What holds for requests of the first model that do not say: "NAME" or "NAME=SCALE" each. */
size_t kt__adapters_default(const kt__config *config, kt__adapter_named named[KT_ADAPTERS_MAX],
                            char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1]);
/* ,"adapters":["NAME",...]: what requests to this model may name. */
void kt__adapters_write_names(kt__buf *out, const kt__config *config, const char *model_name);
/* KT_E_ARG names the line that cannot be used. */
kt_status KT_CHECKED kt__adapters_check(const kt__config *config, kt_error *err);

typedef struct kt__adapter_table kt__adapter_table;

kt_status KT_CHECKED kt__adapter_table_create(kt__adapter_table **out, kt_error *err);
void kt__adapter_table_free(kt__adapter_table *table);
void kt__adapter_table_clear(kt__adapter_table *table); /* before its model is closed */
/* Forgets what config has no more, or another file of. */
void kt__adapter_table_renew(kt__adapter_table *table, const kt__config *config,
                             const char *model_name);
/* uses[n], each to be closed; opens what is not open. KT_E_ARG with the names that there are. */
kt_status KT_CHECKED kt__adapter_table_get(kt__adapter_table *table, const kt__config *config,
                                           const char *model_name, kt_model *model,
                                           const kt__adapter_named *named, size_t n,
                                           kt_adapter_use *uses, kt_error *err);
/* false: not open. Strings of out are NULL. */
bool kt__adapter_table_info(kt__adapter_table *table, const char *name, kt_adapter_info *out);

#endif
