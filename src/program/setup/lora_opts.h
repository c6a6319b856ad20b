/* --lora FILE[=SCALE]: adapters of a command's model.
 *
 * Owns: the option, and the adapters that are open for it. One thread. */
#ifndef KT_SETUP_LORA_OPTS_H
#define KT_SETUP_LORA_OPTS_H

#include <kentang.h>

#include "term/options.h"

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
