/* Files that clients upload, and records of batches, in a directory.
 *
 * Owns: the directory with its lock (one server at a time), names of files, and writing so that
 * after a crash a record is the old one or the new one, whole. A file NAME.json next to NAME says
 * whose it is. Knows nothing of what a batch does. Any thread; records are written by one. */
#ifndef KT_SERVICES_BATCH_STORE_H
#define KT_SERVICES_BATCH_STORE_H

#include <jansson.h>
#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

typedef struct kt__batch_store kt__batch_store;

enum { KT__BATCH_ID = 40 }; /* bytes of an id with its end */

/* Makes the directory, mode 0700. KT_E_STATE: another server has it. */
kt_status KT_CHECKED kt__batch_store_open(const char *dir, kt__batch_store **out, kt_error *err);
void kt__batch_store_close(kt__batch_store *store);

/* "file-" or "batch_" and 24 random digits. */
void kt__batch_new_id(const char *prefix, char id[KT__BATCH_ID]);
/* A file with its record; client: who may see it. */
kt_status KT_CHECKED kt__batch_store_put(kt__batch_store *store, const char *client,
                                         const char *name, const char *purpose, const char *data,
                                         size_t len, char id[KT__BATCH_ID], kt_error *err);
/* The record of a file that is there already, whose size it notes. */
kt_status KT_CHECKED kt__batch_store_announce(kt__batch_store *store, const char *client,
                                              const char *id, const char *name, const char *purpose,
                                              kt_error *err);
/* A record, for json_decref; NULL: there is none, or it is another client's (client NULL: any). */
json_t *kt__batch_store_record(kt__batch_store *store, const char *id, const char *client);
kt_status KT_CHECKED kt__batch_store_save(kt__batch_store *store, const char *id,
                                          const json_t *record, kt_error *err);
/* Records whose id begins so, the newest first, for json_decref. */
json_t *kt__batch_store_list(kt__batch_store *store, const char *prefix, const char *client);
/* The content's descriptor, -1: none; append: for writing at its end, made where it is missing. */
int kt__batch_store_open_file(kt__batch_store *store, const char *id, bool append);
bool kt__batch_store_delete(kt__batch_store *store, const char *id);
/* A record as clients see it: without what is ours. */
void kt__batch_store_write(kt__buf *out, const json_t *record);

/* Bodies of forms with files: multipart/form-data (RFC 7578).
 *
 * Owns: finding the parts of a body that is in memory whole. Copies nothing. Any thread. */

typedef struct kt__multipart {
    const char *body;
    size_t len, at;
    char boundary[80]; /* with the two dashes before it */
    size_t boundary_len;
} kt__multipart;

typedef struct kt__multipart_part {
    char name[64], filename[256]; /* "": none; cut to fit */
    const char *data;             /* in the body */
    size_t len;
} kt__multipart_part;

/* type: the Content-Type header; false: it is no such form, or its boundary is none. */
bool kt__multipart_begin(kt__multipart *form, const char *type, const char *body, size_t len);
/* false: there are no more, or the body is cut off. */
bool kt__multipart_next(kt__multipart *form, kt__multipart_part *out);

#endif
