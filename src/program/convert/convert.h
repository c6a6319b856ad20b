/* From a Hugging Face folder to a GGUF file.
 *
 * Owns: the order of the steps and the general.* keys. Reads the folder's files
 * only, holds some megabytes a thread besides the tokenizer, and needs no network. One call at a
 * time for one target (a lock sees to it); otherwise any thread. */
#ifndef KT_CONVERT_CONVERT_H
#define KT_CONVERT_CONVERT_H

#include "convert/write.h"
#include "quant/recipe.h"

enum { KT__CONVERT_SEED = 0x636f6e76 }; /* of the hash over the sources */

/* recipe NULL: the type of the source. */
kt_status kt__convert_folder(const char *folder, const kt__recipe *recipe,
                             const kt__convert_output *output, kt__convert_report *report,
                             kt_error *err) KT_CHECKED;

#endif
