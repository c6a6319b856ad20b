/* From one GGUF file to another with other types of weights.
 *
 * Owns: which tensor gets which type (a recipe, rules for names, or the best recipe that fits a
 * size) and the metadata's way into the new file. A file made so is, byte for byte, what converting
 * the folder to the same recipe gives. Reads the source only; any thread. */
#ifndef KT_CONVERT_QUANTIZE_H
#define KT_CONVERT_QUANTIZE_H

#include "convert/imatrix.h"
#include "convert/write.h"
#include "quant/recipe.h"

typedef struct kt__type_rule {
    const char *pattern; /* of a tensor's name, as fnmatch takes it */
    kt__type type;
} kt__type_rule;

typedef struct kt__quantize_params {
    const char *source;
    const kt__recipe *recipe;   /* NULL: the best that fits target_bytes */
    uint64_t target_bytes;      /* of the finished file; 0: no limit */
    const kt__type_rule *rules; /* [n_rules]: the last that matches counts, before the recipe */
    size_t n_rules;
    const kt__imatrix *importance; /* or NULL */
    const kt__row_change *change;  /* of weights before they are encoded; NULL: none */
} kt__quantize_params;

/* What the file would have, within a few bytes; reads the source's header only. */
kt_status kt__quantize_bytes(const char *source, const kt__recipe *recipe, uint64_t *bytes,
                             kt_error *err) KT_CHECKED;
kt_status kt__quantize_file(const kt__quantize_params *params, const kt__convert_output *output,
                            kt__convert_report *report, kt_error *err) KT_CHECKED;

#endif
