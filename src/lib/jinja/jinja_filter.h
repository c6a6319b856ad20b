/* The filters, one function each: see jinja_filters.def.
 *
 * Owns: nothing but their declarations. Called by the interpreter only, in its thread. */
#ifndef KT_JINJA_JINJA_FILTER_H
#define KT_JINJA_JINJA_FILTER_H

#include "jinja/jinja_run.h"

#define F(name, function) kt__jfn function;
#include "jinja/jinja_filters.def"
#undef F

#endif
