/* A question in fewer words and another order.
 *
 * Owns: what stays of it: the words that say what it is about, together; of the others some, at random by a number. Of no
 * language, but of those that put blanks between words. Any thread. */
#ifndef KT_TUTOR_REWRITE_H
#define KT_TUTOR_REWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* To out[size]; the subject is question[at, at + len). false: it does not fit, or is as it was. */
bool kt__rewrite_question(const char *question, size_t at, size_t len, uint64_t number, char *out,
                          size_t size);

#endif
