/* Adapters as PEFT saves them (a folder with adapter_config.json and adapter_model.safetensors) as
 * the GGUF file that llama.cpp's adapters are.
 *
 * Owns: the configuration's keys (ranks and alphas by pattern, rank-stabilised scaling), the
 * mapping of names, and the change of rows where a model's rotary pairs lie otherwise in GGUF. What
 * GGUF has one number for and a folder several is folded into B. What cannot be expressed is
 * refused by name. The folder's bytes are hostile; it is never written. Any thread. */
#ifndef KT_CONVERT_PEFT_H
#define KT_CONVERT_PEFT_H

#include <kentang.h>
#include <stdbool.h>

/* What the adapter is for; from the open model. */
typedef struct kt__peft_model {
    const char *arch; /* general.architecture */
    int head_dim;
} kt__peft_model;

typedef struct kt__peft_file {
    void *data; /* of a GGUF file */
    size_t size;
} kt__peft_file;

kt_status kt__peft_read(const char *folder, const kt__peft_model *model, kt__peft_file *out,
                        kt_error *err) KT_CHECKED;
void kt__peft_free(kt__peft_file *file); /* also of a zeroed one */

#endif
