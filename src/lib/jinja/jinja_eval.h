/* Rendering a template.
 *
 * Owns: one rendering from its variables to its text: statements and macros. Knows nothing of
 * messages or tokens: chat/ brings the variables. One thread a rendering; any number of renderings of
 * one template at once. */
#ifndef KT_JINJA_JINJA_EVAL_H
#define KT_JINJA_JINJA_EVAL_H

#include "jinja/jinja_run.h"

/* Starts a rendering of tmpl; kt__jx_free in any case. */
kt_status kt__jx_init(kt__jx *x, const kt__jinja *tmpl, int64_t now_local_s,
                      kt_error *err) KT_CHECKED;
void kt__jx_free(kt__jx *x);
/* More steps for a template that is given this much: some published ones go through the conversation
 * once for each of its messages. */
void kt__jx_allow(kt__jx *x, size_t input_bytes);
/* Gives the variable `name` a value; a name that the template does not use is ignored. */
void kt__jx_set(kt__jx *x, const char *name, size_t len, kt__jv value);
/* Renders into *out, a string of x's arena. */
kt_status kt__jx_render(kt__jx *x, const kt__jstr **out) KT_CHECKED;

#endif
