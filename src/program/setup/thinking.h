/* What chat templates are told of thinking.
 *
 * Owns: the names of the variables by which templates switch it and say how much, for requests and for options.
 * Any thread. */
#ifndef KT_SETUP_THINKING_H
#define KT_SETUP_THINKING_H

#include <kentang.h>
#include <stdbool.h>

struct json_t;

/* Puts into vars whether the model thinks. KT_E_NOMEM, also of vars NULL. */
kt_status KT_CHECKED kt__thinking_switch(struct json_t *vars, bool on, kt_error *err);
/* The same by one of OpenAI's words: none, minimal, low, medium, high, xhigh, max. *known false: it is none, and
 * vars stays as it is. */
kt_status KT_CHECKED kt__thinking_effort(struct json_t *vars, const char *word, bool *known,
                                         kt_error *err);

#endif
