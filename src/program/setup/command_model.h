/* Context and model of a command, from the settings that its options gave.
 *
 * Owns: finding the model that is meant, what a program does that owns its process (the fault guard,
 * the priority of its own thread), and warnings on standard error. One thread. */
#ifndef KT_SETUP_COMMAND_MODEL_H
#define KT_SETUP_COMMAND_MODEL_H

#include "setup/place.h"

/* What a command asks of a place: its own context, driven by the command. */
kt__place_asked kt__command_asks(const kt__config *config);
/* The priority of the settings for the calling thread, once the context is open. */
kt_status KT_CHECKED kt__command_set_priority(const kt__config *config, kt_error *err);
/* The context that the settings ask for: tier, threads, processors, priority. */
kt_status KT_CHECKED kt__command_open_ctx(const kt__config *config, int n_threads_max, kt_ctx **ctx,
                                          kt_error *err);
/* A context and the model in it. On failure both are NULL. Close with kt_model_close, kt_ctx_close. */
kt_status KT_CHECKED kt__command_open_model(const kt__config *config, bool vocab_only, kt_ctx **ctx,
                                            kt_model **model, kt_error *err);

#endif
