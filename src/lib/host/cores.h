/* Which processors belong to one core, and whole cores shared out.
 *
 * Owns: the reading of the kernel's lists of siblings, and dividing the processors that this process
 * may run on. Any thread. root: as kt__limits_read_at. */
#ifndef KT_HOST_CORES_H
#define KT_HOST_CORES_H

#include <kentang.h>
#include <sched.h>

/* Of `cpus`, the cores with numbers [n_cores * i / n, n_cores * (i + 1) / n), counted from the
 * lowest processor on; one_a_core: of each the lowest processor alone. Returns their number. */
int kt__cores_share(const char *root, const cpu_set_t *cpus, int n, int i, bool one_a_core,
                    cpu_set_t *out);
/* "0-3,8"; false: it does not fit. */
bool kt__cores_write_list(const cpu_set_t *cpus, char *out, size_t size);

#endif
