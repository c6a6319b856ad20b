/* One file from a hub to the disk: requests, the download, and its checksum.
 *
 * Owns: one HTTP request with its redirections, who may see the token, and the errors with their remedies (fetch.c);
 * the connections that fetch a file's ranges side by side (download.c); SHA-256 and SHA-1 (sha.c). */
#ifndef KT_STORE_FETCH_H
#define KT_STORE_FETCH_H

#include "base/buf.h"
#include "net/curl_lib.h"

#include <kentang.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One HTTP request to a hub.
 *
 * The connection, redirections (followed by hand, at most eight), who may see the token, and the errors with their
 * remedies. A token goes to the hub's own scheme, host and port and nowhere else; a redirection from https to http is
 * refused. Does not know what a model is. One kt__fetch, one thread; an access is constant and shared. */

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

/* SHA-256 and SHA-1, by which hubs name what they hold.
 *
 * Both functions (FIPS 180-4) and their text form. SHA-1 only names a small file as git does; nothing trusts it
 * against an attacker. Any thread; one state, one thread. */

typedef struct kt__sha {
    bool is_sha1;
    uint32_t h[8];
    uint64_t n_bytes;
    uint8_t block[64];
} kt__sha;

enum { KT__SHA_HEX = 65 }; /* of the longer one, with its NUL */

void kt__sha256_begin(kt__sha *sha);
/* As git names a file of n_bytes: over "blob N", a NUL and the bytes. */
void kt__sha1_begin_blob(kt__sha *sha, uint64_t n_bytes);
void kt__sha_add(kt__sha *sha, const void *data, size_t n);
/* In small letters; the state is used up. */
void kt__sha_end(kt__sha *sha, char hex[KT__SHA_HEX]);

/* One file from a hub to the disk.
 *
 * Asking for its size and version, the connections that fetch its ranges side by side, going on after a drop or a
 * kill, and the comparison with the hub's checksum. Bytes of two versions never meet in one file: every answer must
 * name the version and the place that were asked for. The file gets its name when all of that is so. Does not know
 * what is in the file. One call at a time for one target (a lock sees to it); otherwise any thread. */

/* A file that a hub offers. */
typedef struct kt__remote {
    char *url;      /* heap */
    char *name;     /* heap; where it lies in the model, "a/b.gguf": kt__name_is_safe holds */
    uint64_t bytes; /* UINT64_MAX: not known before the probe */
    char sha[KT__SHA_HEX]; /* 64 letters: SHA-256; 40: git's name of it; "": the hub says none */
    char etag[KT__FETCH_TAG];
    bool ranged; /* the server gives parts */
} kt__remote;

void kt__remote_free(kt__remote *remote);
/* Asks for size, version and ranges. A size that the hub's list had must be the server's. */
kt_status kt__remote_probe(kt__fetch *fetch, kt__remote *remote, kt_error *err) KT_CHECKED;

/* done of total bytes; called by the caller's thread, some times a second. */
typedef void kt__store_progress_fn(void *user, uint64_t done, uint64_t total);

typedef struct kt__download_params {
    int n_connections;               /* 1 to 16 */
    kt__store_progress_fn *progress; /* or NULL */
    void *user;
} kt__download_params;

/* A probed file. KT_E_STATE: it changed on the server meanwhile, and nothing is kept; after other
 * failures TARGET.part is there for the next call. A file that is there is replaced. */
kt_status kt__download(const kt__access *access, const kt__remote *remote, const char *target,
                       const kt__download_params *params, kt_error *err) KT_CHECKED;

#endif
