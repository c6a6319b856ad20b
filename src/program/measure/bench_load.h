/* Load on an engine or a running server: single requests, and kentang bench --server, which sends many. */
#ifndef KT_MEASURE_BENCH_LOAD_H
#define KT_MEASURE_BENCH_LOAD_H

#include "base/buf.h"
#include "setup/config.h"

#include <kentang.h>
#include <stdbool.h>

/* One request of a load and what came of it: over HTTP, as a line on a Unix socket, or from an engine of this
 * process.
 *
 * The target, the bytes of requests, connections and the reading of streams. Knows no options and no figures. A
 * target may be used by many threads; a caller and a shot belong to one. */

typedef struct kt__target {
    char host[256], port[16]; /* of HTTP */
    char path[108];           /* of the Unix socket, "" if there is none */
    kt_engine *engine;        /* of this process, or NULL */
    const char *prompt, *key; /* key: NULL: none */
    int32_t n_predict;
    bool fresh;    /* each prompt begins with a number of its own: no cache has it, */
    uint32_t salt; /* not even one of an earlier run: random */
    bool keep;     /* a caller's requests share its connection */
} kt__target;

typedef struct kt__shot {
    int32_t number;
    int64_t at_us; /* when it is, or was, due; times count from it */
    bool good;     /* it was answered to the end */
    int status;    /* HTTP's; 0: none */
    int64_t first_us, total_us, last_us;
    int32_t n_tokens;
    float *gaps_ms; /* [n_predict]: before each token but the first */
} kt__shot;

/* An independent client. Begins as {.target = ...} with fd -1. */
typedef struct kt__caller {
    const kt__target *target;
    int fd;
    kt__buf request, text;
} kt__caller;

/* url: http://HOST:PORT, http://[ADDRESS]:PORT, unix:PATH, a path that begins with / or . */
kt_status KT_CHECKED kt__target_read(kt__target *target, const char *url, kt_error *err);
void kt__caller_open(kt__caller *caller, const kt__target *target);
void kt__caller_close(kt__caller *caller);
/* Asks and waits for the end; shot->at_us and the rest of its head are the caller's to set. */
void kt__caller_ask(kt__caller *caller, kt__shot *shot);

/* kentang bench --server: load on a running server, as from many independent clients.
 *
 * The option's command. Requests start at their times whether earlier ones have ended or not (an open loop), and
 * latencies count from those times, so that a slow server cannot hide its queue. Started by bench.c. */

bool kt__bench_wants_server(int argc, char **argv); /* --server is among the options */
int kt__bench_server(int argc, char **argv, kt__config *config);

#endif
