/* How hot the processors are, and how fast they run now.
 *
 * Owns: the kernel's files of frequencies, temperatures and thermal throttling. Decides nothing. Any
 * thread. root: as kt__limits_read_at. */
#ifndef KT_HOST_HEAT_H
#define KT_HOST_HEAT_H

#include <kentang.h>

void kt__heat_read_at(const char *root, kt_heat *out);
/* Throttling events since boot, of all processors; false: this machine does not count them. */
bool kt__heat_throttled(const char *root, uint64_t *out);

#endif
