/* Conversations that do not fit the context.
 *
 * Owns: which messages are left out, and the encoding of the rest. Any thread. */
#ifndef KT_REQUESTS_SHORTEN_H
#define KT_REQUESTS_SHORTEN_H

#include "prompt/conversation.h"

/* The prompt's ids, for kt__free, of a request with messages and kt_request_params.shorten; ns: as of
 * kt__text_encode_prompt. Where nothing has to go it is the prompt as it is. KT_E_CONTEXT_FULL: the
 * system's messages and the last turn alone do not fit. */
kt_status kt__shorten_encode(const kt_engine *engine, const kt_request_params *request,
                             kt__conversation *conversation, int32_t **ids, size_t *n, int64_t *ns,
                             kt_error *err) KT_CHECKED;

#endif
