/* One HTTP request to a hub.
 *
 * Owns: the connection, redirections (followed by hand, at most eight), who may see the token, and
 * the errors with their remedies. A token goes to the hub's own scheme, host and port and nowhere
 * else; a redirection from https to http is refused. Does not know what a model is. One kt__fetch,
 * one thread; an access is constant and shared. */
#ifndef KT_STORE_FETCH_H
#define KT_STORE_FETCH_H

#include <kentang.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/curl_lib.h"

/* An address of a hub or a file; one that a redirection leads to, which may be signed; a header. */
enum { KT__FETCH_URL = 4096, KT__FETCH_ADDRESS = 16384 + 8, KT__FETCH_TAG = 256 };

/* Where requests go and what they may show. */
typedef struct kt__access {
    kt__curl curl;
    char base[KT__FETCH_URL];   /* of the hub, without a slash at its end */
    char origin[KT__FETCH_URL]; /* "https://host:443" of base */
    char token[512];            /* "": none */
    char token_file[512];       /* where it may be put, for messages */
    const atomic_bool *stop;    /* set: requests end, with KT_E_CANCELLED; or NULL */
} kt__access;

typedef struct kt__fetch_reply {
    long code;
    char url[KT__FETCH_ADDRESS]; /* that answered, after all redirections */
    char etag[KT__FETCH_TAG];
    char linked_etag[KT__FETCH_TAG]; /* a hub's own, besides its redirection: the SHA-256 */
    char commit[KT__FETCH_TAG];      /* the same */
    char link[KT__FETCH_URL];        /* the Link header, whose "next" continues a list */
    uint64_t length;                 /* Content-Length; UINT64_MAX: not said */
    uint64_t first, total; /* Content-Range: first byte of a 206, and whole; else UINT64_MAX */
    bool may_retry;        /* after a failure: trying again may help */
} kt__fetch_reply;

/* A piece of the body of a 2xx answer; false ends the request. */
typedef bool kt__fetch_sink(void *user, const kt__fetch_reply *reply, const void *data, size_t n);

typedef struct kt__fetch_request {
    const char *url;
    const char *range;    /* "0-99", or NULL: all */
    const char *if_range; /* an ETag: another version comes whole; or NULL */
    const char *accept;   /* or NULL */
    kt__fetch_sink *sink;
    void *user;
} kt__fetch_request;

typedef struct kt__fetch kt__fetch;

/* base: the hub; token_file: NULL: none. A token file that others may read is refused. */
kt_status kt__access_open(const char *base, const char *token_file, kt__access *out,
                          kt_error *err) KT_CHECKED;
/* A token where none was found so far; path: where it came from, for messages. */
kt_status kt__access_add_token(kt__access *access, const char *text, const char *path,
                               kt_error *err) KT_CHECKED;
void kt__access_close(kt__access *access); /* forgets the token; also of a zeroed one */

kt_status kt__fetch_open(const kt__access *access, kt__fetch **out, kt_error *err) KT_CHECKED;
void kt__fetch_close(kt__fetch *fetch);
/* KT_OK: a 2xx answer came to its end, or the sink ended it (reply->code says which it was). */
kt_status kt__fetch_url(kt__fetch *fetch, const kt__fetch_request *request, kt__fetch_reply *reply,
                        kt_error *err) KT_CHECKED;
/* The body into out, whose cap is an error; again up to three times where that may help. */
kt_status kt__fetch_text(kt__fetch *fetch, const char *url, const char *accept, kt__buf *out,
                         kt__fetch_reply *reply, kt_error *err) KT_CHECKED;
/* Where a list that came in pages continues, by its Link header; "" at its end. Another host than
 * the one that answered is an error. */
kt_status kt__fetch_next(const kt__fetch *fetch, const kt__fetch_reply *reply,
                         char url[KT__FETCH_ADDRESS], kt_error *err) KT_CHECKED;
/* Appends text with what is not letter, digit or -._~/ as %XX. */
bool kt__url_append(kt__buf *url, const char *text);

#endif
