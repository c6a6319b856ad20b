/* A request's prompt as token ids: its conversation through the model's template and tokenizer. Any thread. */
#ifndef KT_PROMPT_TEXT_H
#define KT_PROMPT_TEXT_H

#include "prompt/conversation.h"
#include "prompt/pictures.h"

/* A prompt of r, which has one of text, messages and chat_json, as ids for kt__free. What cannot be
 * `most` tokens or fewer is KT_E_CONTEXT_FULL before it is encoded where its length says so, else at
 * the first token too many. The time of the template and of the tokenizer are added to ns[0] and
 * ns[1]. conversation, or NULL, has its tools and gets its end; pictures, or NULL, are the opened ones of r. */
kt_status kt__text_encode_prompt(const kt_model *model, const kt_request_params *r,
                                 kt__conversation *conversation, kt__pictures *pictures,
                                 size_t most, int32_t **ids, size_t *n_ids, int64_t *ns,
                                 kt_error *err) KT_CHECKED;

#endif
