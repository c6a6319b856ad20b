/* Where a version's adapter is used: everywhere, or where an entry of its bank opens.
 *
 * Owns: that test, of conversations (kt_learned_adapter of kentang.h) and of feedbacks. A pure function of the
 * texts and of the bank. Any thread. */
#ifndef KT_TUTOR_ADAPTER_SCOPE_H
#define KT_TUTOR_ADAPTER_SCOPE_H

#include <kentang.h>

#include "feedback/store.h"

/* A correction with a subject: its question opens an entry. */
bool kt__item_opens(kt_bank *bank, const kt__feedback_item *item);
/* What an answer to a feedback's question is computed with: adapter, or NULL. */
kt_adapter *kt__adapter_for_item(kt_adapter *adapter, kt_bank *bank, const kt__feedback_item *item);

#endif
