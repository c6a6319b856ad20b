/* Large anonymous memory.
 *
 * Owns: mappings that are zero at first, take memory only as they are used, and lie on huge pages
 * where they are large enough and the system allows it. Not for small or short-lived memory
 * (base/alloc.h). Any thread. */
#ifndef KT_HOST_PAGES_H
#define KT_HOST_PAGES_H

#include <stddef.h>

enum { KT__HUGE_PAGE_BYTES = 2 << 20 };

/* bytes > 0; at least 4096-aligned, and by KT__HUGE_PAGE_BYTES where it holds one. NULL: refused.
 */
void *kt__pages_alloc(size_t bytes);
/* The unit of which the per-thread parts of one allocation are multiples. With several NUMA nodes
 * it is a huge page, which lies on one node as a whole, so that no part lies on another thread's
 * node; with one node it is 1. */
size_t kt__pages_unit(void);
void kt__pages_free(void *p, size_t bytes); /* the same bytes; NULL allowed */

#endif
