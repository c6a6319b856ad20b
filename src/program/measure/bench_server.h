/* kentang bench --server: load on a running server, as from many independent clients.
 *
 * Owns: the option's command. Requests start at their times whether earlier ones have ended or not
 * (an open loop), and latencies count from those times, so that a slow server cannot hide its
 * queue. Started by bench.c. */
#ifndef KT_MEASURE_BENCH_SERVER_H
#define KT_MEASURE_BENCH_SERVER_H

#include "setup/config.h"

#include <stdbool.h>

bool kt__bench_wants_server(int argc, char **argv); /* --server is among the options */
int kt__bench_server(int argc, char **argv, kt__config *config);

#endif
