/* Where the limits are read from.
 *
 * Owns: nothing; it lets a test put a made-up machine under a directory. Used by limits.c and its
 * test. Any thread. */
#ifndef KT_HOST_LIMITS_H
#define KT_HOST_LIMITS_H

#include "host/host.h"

/* kt__limits_read with every file of /proc and /sys looked up below root ("": the real ones). The
 * affinity mask is always this thread's own. */
void kt__limits_read_at(const char *root, kt__limits *out);

#endif
