/* From settings to an engine: the one way in which commands and the server bring up a context, a
 * model, a draft model and an engine.
 *
 * Owns: context (where it is its own), model, draft model, engine, disk cache and adapters of one
 * place, and what presets and `kentang tune` say where a setting does not. Knows no names of models
 * and no requests. Who made a place keeps others off while it is opened and closed; it is used from
 * any thread. */
#ifndef KT_SETUP_PLACE_H
#define KT_SETUP_PLACE_H

#include <kentang.h>

#include "setup/adapters.h"
#include "setup/config.h"

typedef struct kt__place {
    kt_ctx *ctx; /* its own; NULL: the shared one */
    kt_model *model, *draft;
    kt_engine *engine;
    kt_cache *cache; /* below engine, or NULL */
    kt__adapter_table *adapters;
    kt_mem_plan plan;
    int32_t users;    /* requests that hold it */
    char tuned[16];   /* when what tune found was found, or "" */
    char why[48];     /* the preset that was followed, and where its threads come from; or "" */
    char kv_why[128]; /* what keys and values are kept as for want of memory, and its cost; or "" */
} kt__place;

/* What to open: settings of the model, its files (path NULL, draft_path "": the demo model;
 * draft_path NULL: no draft model). */
typedef struct kt__place_asked {
    const kt__config *config;
    const char *name, *path, *draft_path;
    kt_ctx *shared; /* NULL: it has a context of its own */
    kt_log_fn *log;
    void *log_user;
    kt_log_level log_level;
    int index, n; /* of n places */
    bool
        is_driven; /* the caller that opens it drives the engine, which is not started, and wants to know where the
                       disk cache cannot be opened */
    bool is_single; /* one sequence, and no requests besides */
} kt__place_asked;

/* Whether the settings ask for a context of the model's own. base: those of the server. */
bool kt__place_is_own(const kt__config *config, const kt__config *base, int n);
/* What tune found best for several answers; 0: nothing, 1: one place. Opens the model for it. */
kt_status KT_CHECKED kt__place_tuned_contexts(const kt__place_asked *asked, int *out,
                                              kt_error *err);
kt_status KT_CHECKED kt__place_open(const kt__place_asked *asked, bool own, kt__place *out,
                                    kt_error *err);
/* The cache and the engine alone, before what requests used is closed. */
void kt__place_close_engine(kt__place *place);
void kt__place_close(kt__place *place); /* one that was not opened is allowed */
/* A context, and a model in it, as the settings say; path NULL: the demo model. */
kt_status KT_CHECKED kt__place_open_ctx(const kt__place_asked *asked, int n_threads_max,
                                        kt_ctx **out, kt_error *err);
/* A process that a launcher started besides the first one computes its part of what that one does,
 * and is over with it: it does not return from here. */
kt_status KT_CHECKED kt__place_join(const kt__config *config, kt_ctx *ctx, kt_error *err);
/* Joins first, where it is more than a vocabulary, and no replica. */
kt_status KT_CHECKED kt__place_open_model(const kt__config *config, kt_ctx *ctx, const char *path,
                                          bool vocab_only, kt_model **out, kt_error *err);
/* Does the configuration ask for a BLAS, whose answers are not reproducible? */
bool kt__place_uses_blas(const kt__config *config);
kt_model_params kt__place_model_params(const kt__config *config);
/* The parameters of an engine as the settings have them; the types of keys and values are
 * checked. */
kt_engine_params kt__place_engine_params(const kt__config *config);
kt_status KT_CHECKED kt__place_kv_params(const kt__config *config, kt_engine_params *params,
                                         kt_error *err);
kt_ctx *kt__place_ctx(const kt__place *place, kt_ctx *shared);

#endif
