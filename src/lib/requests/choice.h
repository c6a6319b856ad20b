/* One answer of a request: from logits to tokens, events, and the report at the end.
 *
 * Owns: the one place where tokens are taken, and the one where reports are made. With the engine's
 * turn. */
#ifndef KT_REQUESTS_CHOICE_H
#define KT_REQUESTS_CHOICE_H

#include "requests/submitted.h"

/* Of all choices. */
const kt__work_ops *kt__choice_ops(void);

#endif
