/* Which model answers a request for "auto".
 *
 * Owns: the table of routes, a JSON file that people edit and POST /v1/routes replaces; the vectors of its
 * examples; and how answers of each route were rated, which the file keeps, too. A request takes the route
 * with the example that is nearest to its text, by embeddings of the table's encoder:
 *
 *   {"encoder": MODEL, "otherwise": ROUTE, "least": 0.2,
 *    "routes": [{"name": ROUTE, "model": MODEL, "adapter": ADAPTER, "examples": [TEXT, ...], "good": 3, "bad": 1}, ...]}
 *
 * encoder: any served model, an encoder or one that writes; otherwise: the route where no example is as near
 * as least (absent: the first, and 0); adapter, good and bad may be absent. Any thread. */
#ifndef KT_SERVICES_ROUTES_H
#define KT_SERVICES_ROUTES_H

#include "services/models.h"

/* The model's name that asks for a choice. */
#define KT__ROUTES_AUTO "auto"

typedef struct kt__routes kt__routes;

typedef struct kt__routes_choice {
    char route[64], model[128];
    char adapter[128]; /* "": none of its own */
    /* {"name": ..., "score": ..., ...}: what was chosen, and why; for kt__free */
    char *why;
} kt__routes_choice;

/* models outlive it. KT_E_IO: no such file; KT_E_FORMAT: it is no table; KT_E_ARG: it names a model that
 * is not served. */
kt_status KT_CHECKED kt__routes_open(const char *path, kt__models *models, kt__slog *log,
                                     kt__routes **out, kt_error *err);
void kt__routes_close(kt__routes *routes); /* NULL is allowed */
/* text: what the user says, NUL-terminated. who: as kt__served_use takes it. Waits for the encoder; where that
 * fails, or there is no text, the route is `otherwise`, and `why` says so. A file that was changed is read
 * again; one that is no table any more is said in the log, and the last one holds. */
kt_status KT_CHECKED kt__routes_choose(kt__routes *routes, const char *text, const char *who,
                                       kt__routes_choice *out, kt_error *err);
/* An answer of a route was rated, from 0 to 1; one of a route that is gone is forgotten. */
void kt__routes_rate(kt__routes *routes, const char *route, float score);
/* The table as the file has it. */
kt_status KT_CHECKED kt__routes_write(kt__routes *routes, kt__buf *out, kt_error *err);
/* Replaces it; KT_E_ARG with the member in err->where: it is no table. */
kt_status KT_CHECKED kt__routes_replace(kt__routes *routes, const char *json, size_t len,
                                        kt_error *err);

#endif
