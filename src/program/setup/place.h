/* A model opened at one place: on the context that all share, or on cores of its own.
 *
 * Owns: context (where it is its own), model, draft model, engine, disk cache and adapters of one
 * place. Knows no names of models and no requests. Made and closed by models.c, which keeps others
 * off meanwhile; used from any thread. */
#ifndef KT_SETUP_PLACE_H
#define KT_SETUP_PLACE_H

#include <kentang.h>

#include "setup/adapters.h"
#include "setup/config.h"
#include "setup/slog.h"

typedef struct kt__place {
    kt_ctx *ctx; /* its own; NULL: the shared one */
    kt_model *model, *draft;
    kt_engine *engine;
    kt_cache *cache; /* below engine, or NULL */
    kt__adapter_table *adapters;
    kt_mem_plan plan;
    int32_t users;  /* requests that hold it */
    char tuned[16]; /* when what tune found was found, or "" */
    char why[48];   /* where the number of threads comes from, or "": the context's reason */
} kt__place;

/* What to open: settings of the model, its files (NULL: the demo model, no draft model). */
typedef struct kt__place_asked {
    const kt__config *config;
    const char *name, *path, *draft_path;
    kt_ctx *shared;
    kt__slog *log;
    int index, n; /* of n places */
} kt__place_asked;

/* Whether the settings ask for a context of the model's own. base: those of the server. */
bool kt__place_is_own(const kt__config *config, const kt__config *base, int n);
/* What tune found best for several answers; 0: nothing, 1: one place. Opens the model for it. */
kt_status KT_CHECKED kt__place_tuned_contexts(const kt__place_asked *asked, int *out,
                                              kt_error *err);
kt_status KT_CHECKED kt__place_open(const kt__place_asked *asked, bool own, kt__place *out,
                                    kt_error *err);
void kt__place_close(kt__place *place); /* one that was not opened is allowed */
/* The parameters of engines and of models as the settings have them. */
kt_engine_params kt__place_engine_params(const kt__config *config);
kt_model_params kt__place_model_params(const kt__config *config);
kt_ctx *kt__place_ctx(const kt__place *place, kt_ctx *shared);

#endif
