/* Where threads run, how urgently, and near which memory.
 *
 * Owns: the list of processors that a context's threads are held to and their priority; reading both from text, and
 * moving a thread there and back; the NUMA nodes of processors, and spreading a buffer over them. Default: no
 * pinning, the priority of the thread that creates them. Any thread. */
#ifndef KT_HOST_AFFINITY_H
#define KT_HOST_AFFINITY_H

#include <kentang.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum kt__priority {
    KT__PRIORITY_LOW = -1, /* nice 10 */
    KT__PRIORITY_NORMAL,
    KT__PRIORITY_MEDIUM,  /* nice -5 */
    KT__PRIORITY_HIGH,    /* nice -10 */
    KT__PRIORITY_REALTIME /* SCHED_RR, the lowest of it */
} kt__priority;

typedef struct kt__affinity {
    bool pinned;
    cpu_set_t cpus; /* if pinned */
    kt__priority priority;
} kt__affinity;

/* cpus: "0-3,8", or a mask in hexadecimal, "0x10f", or both with a comma between; NULL: not pinned.
 * KT_E_ARG for what is neither, and where this process may use none of them. */
kt_status kt__affinity_parse(const char *cpus, int priority, kt__affinity *out,
                             kt_error *err) KT_CHECKED;
/* The list alone, as the kernel writes it, too; false for what is neither, and for none. */
bool kt__affinity_read_list(const char *text, cpu_set_t *out);

/* Moves the calling thread to those processors, and back: its priority stays. Does nothing without
 * pinning. */
typedef struct kt__affinity_saved {
    bool moved;
    cpu_set_t cpus;
} kt__affinity_saved;
void kt__affinity_enter(const kt__affinity *affinity, kt__affinity_saved *saved);
void kt__affinity_leave(const kt__affinity_saved *saved);

/* Processors that the calling thread may run on; INT_MAX where the system does not say. */
int kt__affinity_count(void);

/* Priorities above normal need a privilege. While raised, threads that the calling thread creates
 * have the priority. KT_E_ARG: not allowed. A priority below normal cannot be raised again without
 * a privilege, so each thread lowers its own. */
typedef struct kt__priority_saved {
    bool raised;
    int nice, policy;
    struct sched_param param;
} kt__priority_saved;
kt_status kt__priority_raise(kt__priority priority, kt__priority_saved *saved,
                             kt_error *err) KT_CHECKED;
void kt__priority_restore(const kt__priority_saved *saved);
void kt__priority_lower(kt__priority priority); /* of the calling thread, if below normal */
/* From now on the calling thread runs, and reads files, only when nothing else on the machine wants
 * to. */
void kt__priority_background(void);
/* Raises it again while another thread waits for it: on a busy machine it might not run for a long
 * time. */
void kt__priority_hurry(pthread_t thread);

/* Which processors belong to one core, and whole cores shared out.
 *
 * Owns: the reading of the kernel's lists of siblings, and dividing the processors that this process
 * may run on. Any thread. root: as kt__limits_read_at. */

/* Of `cpus`, the cores with numbers [n_cores * i / n, n_cores * (i + 1) / n), counted from the
 * lowest processor on; one_a_core: of each the lowest processor alone. Returns their number. */
int kt__cores_share(const char *root, const cpu_set_t *cpus, int n, int i, bool one_a_core,
                    cpu_set_t *out);
/* "0-3,8"; false: it does not fit. */
bool kt__cores_write_list(const cpu_set_t *cpus, char *out, size_t size);

/* NUMA nodes: where memory lies on machines that have several.
 *
 * Which nodes there are, which of them belong to given processors, and spreading a buffer over them. Knows nothing of
 * a buffer's content. Linux puts a page on the node of the thread that writes it first, which is right for memory
 * that one thread uses, as long as no page holds parts of two threads (kt__pages_unit). Any thread; nothing is
 * cached. */

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
