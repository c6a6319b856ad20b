/* Whether two questions ask for the same thing, as a model judges.
 *
 * Owns: the text with examples that the model continues, and what of its next token counts as yes. Waits for that
 * token. Any thread. */
#ifndef KT_TUTOR_JUDGE_H
#define KT_TUTOR_JUDGE_H

#include <kentang.h>

/* as: whose client, scope and priority it has. */
kt_status kt__judge_same(kt_engine *engine, const kt_request_params *as, const char *question,
                         size_t n_question, const char *message, size_t n_message, bool *same,
                         kt_error *err) KT_CHECKED;

#endif
