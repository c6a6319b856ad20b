/* What the system says of the process, as Prometheus' text.
 *
 * Owns: reading /proc and the cgroup when asked. Keeps nothing. Any thread. */
#ifndef KT_SERVICES_SYSTEM_METRICS_H
#define KT_SERVICES_SYSTEM_METRICS_H

#include <kentang.h>

#include "base/buf.h"

/* The two comment lines before the samples of kentang_NAME. */
void kt__metric_head(kt__buf *out, const char *name, const char *type, const char *help);
void kt__system_metrics_write(kt__buf *out);

#endif
