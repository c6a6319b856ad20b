/* The models that are served.
 *
 * Owns: the context, and for each configured model its file, engine and engine thread: opened with
 * its first request, closed after it was idle for long enough, or where it is idle and another one
 * needs its memory. Models that a client fetched or created are added to them; of one that is deleted the
 * place stays. Requests
 * name a model by its
 * configured name, or by what its file and its repository are called; no path ever comes from a
 * client. Any thread; loading blocks the
 * caller. */
#ifndef KT_SERVICES_MODELS_H
#define KT_SERVICES_MODELS_H

#include <kentang.h>

#include "services/learners.h"
#include "setup/adapters.h"
#include "setup/config.h"
#include "setup/model_file.h"
#include "setup/slog.h"

typedef struct kt__models kt__models;
typedef struct kt__served kt__served;

typedef struct kt__served_info {
    const char *name;
    bool loaded;
    bool gone;           /* kt__served_forget: it is listed nowhere */
    int64_t loaded_s;    /* Unix time; 0: not loaded */
    int32_t users;       /* requests that hold it */
    int32_t contexts;    /* engines on cores of their own; 1: one for all */
    kt_model_info model; /* strings are NULL where it is not loaded; the others are copies */
    kt_engine_info engine;
    kt_engine_params targets; /* of the controller; the other members are not for use */
    kt_mem_plan plan;         /* as it was when the model was loaded */
    kt_hash_info hash;
    int64_t step_us; /* of one answer, as it was measured after the first load; 0: it was not */
    char tuned[16];  /* when what `kentang tune` found and is used was found, or "" */
    char arch[64], quant[32], general_name[128];
    const char *trouble; /* why its answers cannot be relied on: a constant; NULL: they can */
} kt__served_info;

kt_status KT_CHECKED kt__models_create(const kt__config *config, kt__slog *log, kt__models **out,
                                       kt_error *err);
/* Gives running requests drain_ms to end, then closes everything. */
void kt__models_drain(kt__models *models, int64_t drain_ms);
void kt__models_free(kt__models *models);
/* Who waits for other models' answers to end gives up: before the workers are joined. */
void kt__models_stop_waiting(kt__models *models);
kt_ctx *kt__models_ctx(const kt__models *models);

/* NULL or "": the first. A name that is none, and no alias, may be the base name or the repository
 * of one model's file. KT_E_ARG with the names that there are. */
kt_status KT_CHECKED kt__models_find(kt__models *models, const char *name, kt__served **out,
                                     kt_error *err);
/* The model that a request means by a name. Unless strict_names is set, more names do than
 * kt__models_find knows: the beginning of a single one, and any name where one model is served. */
kt_status KT_CHECKED kt__models_find_for(kt__models *models, const char *name, kt__served **out,
                                         kt_error *err);
/* The same as kt__models_find for the names that Ollama's clients use: "demo:latest" is "demo", where no model is
 * named so. */
kt_status KT_CHECKED kt__models_find_tagged(kt__models *models, const char *name, kt__served **out,
                                            kt_error *err);
size_t kt__models_count(const kt__models *models); /* it may grow */
/* As many as there will ever be. */
size_t kt__models_cap(const kt__models *models);
/* One more, with the settings that hold for all, or its own if it was created; what is there under that name,
 * or opened by it, stays as it is, unless it was created anew or is gone. name: a kt__find_model_fn's.
 * KT_E_LIMIT: there are kt__models_cap; KT_E_BUSY: what was created anew is in use. */
kt_status KT_CHECKED kt__models_add(kt__models *models, const char *name, kt_error *err);
/* The file of its weights as it would be loaded now, without quantising it; for kt__free; *path NULL: the
 * demo model. */
kt_status KT_CHECKED kt__served_file(const kt__served *served, char **path, kt_error *err);
/* What the configuration opens it by; NULL: the demo model. */
const char *kt__served_path(const kt__served *served);
/* It was added, not configured. */
bool kt__served_is_added(const kt__served *served);
/* An added one is meant by no name any more; answers that run are finished. */
void kt__served_forget(kt__served *served);
bool kt__served_is_gone(kt__served *served);
/* Of a created model what its requests have unless they say otherwise (kt__made.words), and its modelfile;
 * for kt__free. NULL: it is none. */
char *kt__served_words(kt__served *served);
char *kt__served_modelfile(kt__served *served);
/* The settings of a created model that is in use; NULL: it is none. */
const kt__config *kt__served_made(const kt__served *served);
/* The numbers of its requests that do not say; false: it was not created, and those of the settings hold. */
bool kt__served_request(kt__served *served, kt_request_params *out);
kt__served *kt__models_at(kt__models *models, size_t index);
const char *kt__served_name(const kt__served *served);

/* Loads it where it is not, for which idle models are unloaded where the memory does not hold both
 * (KT_E_BUSY where others answer, for longer than it waits for them); stays loaded until
 * kt__served_done with the same engine. With several contexts it is the one with the fewest
 * requests; among such, always the same for one `who` (NULL: nobody). */
kt_status KT_CHECKED kt__served_use(kt__served *served, const char *who, kt_model **model,
                                    kt_engine **engine, kt_error *err);
/* Unloads it; true: it is not loaded any more. false: it is in use, or being loaded. why: ends the log's
 * line "model NAME unloaded". */
bool kt__served_unload(kt__served *served, const char *why);
void kt__served_done(kt__served *served, const kt_engine *engine);
/* Those that a request names, for a model that is in use; uses[n], each to be closed before
 * kt__served_done. */
kt_status KT_CHECKED kt__served_adapters(kt__served *served, const kt_engine *engine,
                                         const kt__config *config, const kt__adapter_named *named,
                                         size_t n, kt_adapter_use *uses, kt_error *err);
/* false: it is not open. */
bool kt__served_adapter_info(kt__served *served, const char *name, kt_adapter_info *out);
/* The learner of a namespace, for a model that is in use; *out NULL: there is none, and make is
 * false. Valid until it is done with, before kt__served_done. */
kt_status KT_CHECKED kt__served_learner(kt__served *served, const kt__config *config,
                                        const char *name, bool make, kt_learner **out,
                                        kt_error *err);
void kt__served_learner_done(kt__served *served, const kt_learner *learner); /* or NULL */
kt__learner_table *kt__served_learners(kt__served *served);
/* After a reload. */
void kt__models_renew_adapters(kt__models *models, const kt__config *config);
/* Neither waits for loading nor for a computation. */
void kt__served_get_info(kt__served *served, kt__served_info *out);
/* Whether the settings name an encoder of pictures for its file at path (NULL: none), or one lies next to it. */
bool kt__served_has_mmproj(const kt__served *served, const char *path);
/* Whether it sees pictures: where it is loaded, that it does; else that it would. */
bool kt__served_sees(kt__served *served);
/* Calls look with the model where it is loaded, under its lock: it must not block. false: it is not. */
typedef void kt__look_fn(void *user, const kt_model *model);
bool kt__served_look(kt__served *served, kt__look_fn *look, void *user);
/* Counts continue over unloading and loading again. */
void kt__served_get_stats(kt__served *served, kt_engine_stats *out);
/* Looks at the files, and unloads what is idle for idle_s (0: nothing); one model a call. */
void kt__models_tick(kt__models *models, int64_t idle_s);
/* Weights that are mapped and, with the rest of the plan, more than there is memory for: they are
 * read from disk again and again. */
bool kt__plan_exceeds_memory(const kt_mem_plan *plan);

#endif
