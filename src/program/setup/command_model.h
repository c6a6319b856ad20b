/* Context and model of a command, from the settings that its options gave.
 *
 * Owns: finding the model that is meant, what a program does that owns its process (the fault guard,
 * the priority of its own thread), and warnings on standard error. One thread. */
#ifndef KT_SETUP_COMMAND_MODEL_H
#define KT_SETUP_COMMAND_MODEL_H

#include <kentang.h>

#include "setup/place.h"
#include "term/options.h"

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

/* --lora FILE[=SCALE]: adapters of a command's model.
 *
 * Owns: the option, and the adapters that are open for it. One thread. */

typedef struct kt__lora_opts {
    kt__opt_texts files;
} kt__lora_opts;

typedef struct kt__lora_set {
    kt_adapter_use uses[KT_ADAPTERS_MAX];
    size_t n;
} kt__lora_set;

kt__opt_group kt__lora_opts_group(kt__lora_opts *opts);
void kt__lora_opts_free(kt__lora_opts *opts);
/* A text up to its last '=' that a number follows, and that number; 1 where there is none. The file
 * may have such a name: where it exists as it is written, it is meant. */
kt_status KT_CHECKED kt__lora_split(const char *text, char *path, size_t size, float *scale,
                                    kt_error *err);
/* On failure nothing is open. */
kt_status KT_CHECKED kt__lora_set_open(const kt__lora_opts *opts, kt_model *model,
                                       kt__lora_set *out, kt_error *err);
void kt__lora_set_close(kt__lora_set *set); /* before the model */

#endif
