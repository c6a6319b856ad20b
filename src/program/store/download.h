/* One file from a hub to the disk.
 *
 * Owns: asking for its size and version, the connections that fetch its ranges side by side, going
 * on after a drop or a kill, and the comparison with the hub's checksum. Bytes of two versions never
 * meet in one file: every answer must name the version and the place that were asked for. The file
 * gets its name when all of that is so. Does not know what is in the file. One call at a time for
 * one target (a lock sees to it); otherwise any thread. */
#ifndef KT_STORE_DOWNLOAD_H
#define KT_STORE_DOWNLOAD_H

#include "store/fetch.h"
#include "store/sha.h"

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
