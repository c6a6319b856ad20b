/* Prompts from conversations: template and tokenizer. Any thread. */
#ifndef KT_ENGINE_TEXT_H
#define KT_ENGINE_TEXT_H

#include "engine/types.h"

/* kt_chat_encode; the time of the template and of the tokenizer are added to ns[0] and ns[1]. */
kt_status kt__chat_encode_timed(const kt_model *model, const kt_message *messages, size_t n,
                                bool add_generation_prompt, int32_t **ids, size_t *n_ids,
                                int64_t *ns, kt_error *err) KT_CHECKED;
/* The same from JSON, as kt_chat_render_json takes it. */
kt_status kt__chat_encode_json(const kt_model *model, const char *json, size_t json_len,
                               int32_t **ids, size_t *n_ids, kt_error *err) KT_CHECKED;

#endif
