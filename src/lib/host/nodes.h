/* NUMA nodes: where memory lies on machines that have several.
 *
 * Owns: which nodes there are, which of them belong to given processors, and spreading a buffer
 * over them. Knows nothing of a buffer's content. Linux puts a page on the node of the thread that
 * writes it first, which is right for memory that one thread uses, as long as no page holds parts
 * of two threads (kt__pages_unit). Any thread; nothing is cached. */
#ifndef KT_HOST_NODES_H
#define KT_HOST_NODES_H

#include "host/affinity.h"

#include <stddef.h>

/* Nodes that have memory and some of the processors (NULL: or none) in *out, a bit a node; returns
 * their number. root: as kt__text_open. */
int kt__nodes_of_at(const char *root, const cpu_set_t *cpus, cpu_set_t *out);
bool kt__nodes_several(void); /* of this machine, with memory */

/* Interleaves the range, page-aligned and not yet touched, over all nodes of these processors (NULL
 * or not pinned: of those that the caller may run on), so that it does not matter which thread
 * touches it first. For memory that all threads use. A memory policy that the process was started
 * with (numactl) takes precedence, and with one node the call does nothing. Best effort: if the
 * kernel refuses, only speed is lost. */
void kt__nodes_spread(void *p, size_t bytes, const kt__affinity *affinity);

#endif
