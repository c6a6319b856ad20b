/* The names the interpreter knows: filters, tests, methods, global functions.
 *
 * Owns: name to number. The functions of the numbers are in jinja_eval's tables, in the same
 * order. Any thread. */
#ifndef KT_JINJA_JINJA_NAMES_H
#define KT_JINJA_JINJA_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define F(name, function) KT__JF_##name,
typedef enum kt__jfilter_id {
#include "jinja/jinja_filters.def"
    KT__JF_COUNT
} kt__jfilter_id;
#undef F

#define T(name, text) KT__JTEST_##name,
typedef enum kt__jtest_id {
#include "jinja/jinja_tests.def"
    KT__JTEST_COUNT
} kt__jtest_id;
#undef T

#define G(name) KT__JG_##name,
typedef enum kt__jglobal_id {
#include "jinja/jinja_globals.def"
    KT__JG_COUNT
} kt__jglobal_id;
#undef G

/* The number, or KT__J_UNKNOWN (UINT16_MAX). */
uint16_t kt__j_find_filter(const char *name, size_t len);
uint16_t kt__j_find_test(const char *name, size_t len);
uint16_t kt__j_find_global(const char *name, size_t len);

#endif
