/* The plan of a conversion: which tensors the GGUF file gets, of which type, made from what.
 *
 * Owns: the mapping of tensor names (tensors.def), what is dropped, and the question of tied heads.
 * Reads no weights but to compare two heads, and for the mean of BitNet's. Immutable once made; any thread. */
#ifndef KT_CONVERT_PLAN_H
#define KT_CONVERT_PLAN_H

#include "convert/config.h"
#include "convert/folder.h"
#include "convert/plan_parts.h"
#include "convert/planned.h"
#include "convert/sentence.h"
#include "quant/recipe.h"

/* recipe NULL: as the source. n_tokens: of the tokenizer; the embedding may have more rows.
 * sentence: what sentence-transformers put after the model; it must outlive the plan. */
kt_status kt__weight_plan_make(const kt__folder *folder, const kt__hf_config *config,
                               const kt__sentence *sentence, int64_t n_tokens,
                               const kt__recipe *recipe, const kt__convert_notes *notes,
                               kt__weight_plan *out, kt_error *err) KT_CHECKED;
/* Rows of the embedding. */
kt_status kt__weight_plan_rows(const kt__folder *folder, const kt__hf_config *config, size_t *out,
                               kt_error *err) KT_CHECKED;
/* The tensor in GGUF, and its change, of a folder's (with any prefix) in a model of this
 * architecture (KT__HF_*); to[size]. false: none that the table has. */
bool kt__tensor_name_find(const char *name, kt__hf_archs arch, char *to, size_t size,
                          kt__change *change);

/* The block after the layers that proposes tokens (multi-token prediction). DeepSeek's class has it as
 * one more layer; Qwen3.5's has the layer, and what is before and after it, under "mtp.". A file gets
 * the first of several blocks.
 *
 * Owns: whether a folder has one, and what of it becomes no tensor. Internal to the plan. */

/* Sets config->n_mtp. */
kt_status kt__plan_find_mtp(const kt__folder *folder, kt__hf_config *config,
                            kt_error *err) KT_CHECKED;
/* Which of its tensors are the model's own once more. */
kt_status kt__plan_look_at_mtp(planner *p) KT_CHECKED;
/* A row of the block that is not in this layer, or in none. */
bool kt__plan_is_left_of_mtp(const planner *p, const map_row *row, int64_t layer);
/* A folder's tensor that is the model's own once more. */
bool kt__plan_is_copy_in_mtp(const planner *p, const char *name);
/* A layer after the last, which proposes tokens. */
bool kt__plan_is_next_layer(const planner *p, const char *name);

#endif
