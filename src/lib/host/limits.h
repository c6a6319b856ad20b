/* Where the limits are read from.
 *
 * Owns: nothing; it lets a test put a made-up machine under a directory. Used by limits.c and its
 * test. Any thread. */
#ifndef KT_HOST_LIMITS_H
#define KT_HOST_LIMITS_H

#include <stdbool.h>

#include "host/host.h"

/* kt__limits_read with every file of /proc and /sys looked up below root ("": the real ones). The
 * affinity mask is always this thread's own. */
void kt__limits_read_at(const char *root, kt__limits *out);

/* Where this process is in the cgroup hierarchies.
 *
 * Owns: /proc/self/cgroup, /proc/self/mountinfo, and the walk over a group and its ancestors,
 * versions 1 and 2. Knows nothing of what the groups' files say. Any thread. */

/* root and dir as kt__text_open takes them. */
typedef void kt__cgroup_level(const char *root, const char *dir, bool v2, void *arg);

/* Calls level for the process's own group and every visible ancestor, in each mounted hierarchy
 * that may have the controller ("cpu", "memory"). A group binds with all of its ancestors. */
void kt__cgroup_walk(const char *root, const char *controller, kt__cgroup_level *level, void *arg);

#endif
