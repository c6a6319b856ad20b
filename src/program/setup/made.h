/* Models that were created: another one's weights with settings of their own (store/modelfile.h).
 *
 * Owns: what the lines of a modelfile mean here: settings of a configuration, and what is added to
 * requests; the check of all that before it is kept; which names such models may have. Opens no model.
 * Any thread. */
#ifndef KT_SETUP_MADE_H
#define KT_SETUP_MADE_H

#include "setup/config.h"
#include "store/modelfile.h"
#include "store/pull.h"

/* FROM of a model that has the weights inside the program. */
#define KT__MADE_DEMO "demo"

/* The name as the folder of models has it: "mario" of "mario:latest", "mario/7b" of "mario:7b". */
kt_status KT_CHECKED kt__made_name(const char *text, char *out, size_t size, kt_error *err);
/* The modelfile of the created model that a name means; *found false: it means none. file is to be
 * freed in any case. */
kt_status KT_CHECKED kt__made_find(const kt__store *store, const char *name, kt__modelfile *file,
                                   bool *found, kt_error *err);
/* A created model as it is served. All three are NULL where there is none. */
typedef struct kt__made {
    kt__config *config; /* all settings as they hold for it */
    char *words; /* what its requests have unless they say otherwise, as JSON: {"stop": [...],
                           "messages": [...], "system": "..."} */
    char *text;  /* the modelfile */
} kt__made;

/* path: what a configuration or the folder calls it; name: how it is served. base outlives it. */
kt_status KT_CHECKED kt__made_open(const kt__config *base, const char *name, const char *path,
                                   kt__made *out, kt_error *err);
void kt__made_close(kt__made *made); /* also of a zeroed one */
/* Checks it, with what the model that FROM names says if that was created, too, and keeps it. FROM
 * names a model of the folder, KT__MADE_DEMO, or a file, by its whole path. */
kt_status KT_CHECKED kt__made_create(const kt__store *store, const kt__config *config,
                                     const char *name, kt__modelfile *file, kt_error *err);
/* Further models of the folder that have the weights of this one: the name of one; NULL: there is none. For
 * kt__free. */
kt_status KT_CHECKED kt__made_of(const kt__shelf *shelf, const kt__shelf_model *model, char **out,
                                 kt_error *err);

#endif
