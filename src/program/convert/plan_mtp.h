/* The block after the layers that proposes tokens (multi-token prediction). DeepSeek's class has it as
 * one more layer; Qwen3.5's has the layer, and what is before and after it, under "mtp.". A file gets
 * the first of several blocks.
 *
 * Owns: whether a folder has one, and what of it becomes no tensor. Internal to the plan. */
#ifndef KT_CONVERT_PLAN_MTP_H
#define KT_CONVERT_PLAN_MTP_H

#include "convert/plan_parts.h"

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
