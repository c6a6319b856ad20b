/* The web page that comes with the server.
 *
 * Owns: the files of web/, which are part of the program. Knows nothing of requests. Any thread. */
#ifndef KT_SERVICES_WEB_H
#define KT_SERVICES_WEB_H

#include <stdbool.h>
#include <stddef.h>

typedef struct kt__web_file {
    const char *name; /* after /web/ */
    const char *type; /* for Content-Type */
    bool is_gzip;     /* for Content-Encoding */
    const unsigned char *data, *end;
} kt__web_file;

/* What the page may load and reach: only this server. */
#define KT__WEB_POLICY                                                                            \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src " \
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* NULL: there is none of this name. */
const kt__web_file *kt__web_find(const char *name);
/* The page itself. */
const kt__web_file *kt__web_page(void);

#endif
