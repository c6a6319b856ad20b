/* What runs, as JSON: /props of HTTP, `stats` of the socket, and with it `kentang ps`.
 *
 * Owns: nothing; reads models and jobs. Any thread. */
#ifndef KT_JOBS_STATS_H
#define KT_JOBS_STATS_H

#include "base/buf.h"
#include "services/shared.h"

/* {"version", "uptime_s", "models": [...], "requests": [...], "other_requests"}: requests are those of
 * one client, and the others are a number; client NULL: all of them. */
void kt__stats_write(kt__shared *shared, const char *client, kt__buf *out);

#endif
