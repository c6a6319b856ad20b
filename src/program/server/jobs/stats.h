/* What runs, as JSON: /props of HTTP, `stats` of the socket, and with it `kentang ps`.
 *
 * Owns: nothing; reads models and jobs. Any thread. */
#ifndef KT_JOBS_STATS_H
#define KT_JOBS_STATS_H

#include "base/buf.h"
#include "services/shared.h"

/* {"version", "uptime_s", "models": [...], "pull": {...}, "requests": [...], "other_requests"}: requests are those of
 * one client, and the others are a number; client NULL: all of them. */
void kt__stats_write(kt__shared *shared, const char *client, kt__buf *out);

/* What is fetched, or was last: {"object":"model.pull","name","state","bytes_done","bytes"} and, when it
 * ended, "model" or "error", after the text `before`; false, and nothing written: there was none. */
bool kt__stats_write_pull(kt__shared *shared, const char *before, kt__buf *out);

#endif
