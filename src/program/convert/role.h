/* Roles of tensors: which type a recipe gives a tensor, by its name in GGUF.
 *
 * Owns: the look-up in model/weights.def and globals.def. Any thread; no state. */
#ifndef KT_CONVERT_ROLE_H
#define KT_CONVERT_ROLE_H

#include "quant/recipe.h"

/* The role and layer (0 outside the layers) of "blk.3.attn_q.weight"; a tensor that the tables do
 * not have is a KT__TENSOR_VECTOR. */
kt__tensor_role kt__tensor_role_of(const char *name, int *layer);

#endif
