/* Files that are there whole or not at all, and whether they are still the same.
 *
 * Owns: replacing a file atomically and for good (temporary file, sync, rename, sync of the folder), folders, and
 * removing a tree of two levels. Knows nothing of what is in them. Any thread. */
#ifndef KT_BASE_FILES_H
#define KT_BASE_FILES_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { KT__FILES_PATH_MAX = 4096 };

/* "dir/name" into out[KT__FILES_PATH_MAX]; KT_E_LIMIT: too long. */
kt_status kt__files_path(char *out, const char *dir, const char *name, kt_error *err) KT_CHECKED;
const char *
kt__files_name(const char *path); /* what is after its last slash; all of it without one */
/* From the root of the file system, whatever the working folder is. */
bool kt__files_is_absolute(const char *path);
/* mkdir -p, mode 0700 */
kt_status kt__files_make_dir(const char *dir, kt_error *err) KT_CHECKED;
/* What is renamed or made in a folder is certain only once the folder is on disk. */
kt_status kt__files_sync_dir(const char *dir, kt_error *err) KT_CHECKED;
kt_status kt__files_replace(const char *dir, const char *name, const void *data, size_t n,
                            kt_error *err) KT_CHECKED;
/* KT_E_IO with err->offset 0 where there is no such file; KT_E_LIMIT: more than out->max. */
kt_status kt__files_read(const char *path, kt__buf *out, kt_error *err) KT_CHECKED;
/* from's bytes to a new file, synced. */
kt_status kt__files_copy(const char *from, const char *to, kt_error *err) KT_CHECKED;
/* A folder with what is in it, at most four folders deep; what is not there is removed already. */
kt_status kt__files_remove_tree(const char *dir, kt_error *err) KT_CHECKED;

/* Makes a name in the path's folder durable: after a rename. A folder that cannot be opened or made
 * durable is passed over: the file itself is good. */
void kt__sync_folder_of(const char *path);
/* Both are there, and the same. */
bool kt__same_file(const char *a, const char *b);

/* Whether a file is still the one that it was: what stat(2) says now is compared with what it said then. */

typedef struct kt__file_stamp {
    uint64_t dev, ino, size;
    int64_t changed_s, changed_ns;
} kt__file_stamp;

typedef enum kt__file_change {
    KT__FILE_SAME,
    KT__FILE_GONE,      /* nothing at its path: what is mapped stays whole */
    KT__FILE_REPLACED,  /* another file: in the same way */
    KT__FILE_TRUNCATED, /* pages of the map are gone */
    KT__FILE_WRITTEN    /* the map shows the new bytes */
} kt__file_change;

/* path NULL, or nothing there: all zero */
kt__file_stamp kt__file_stamp_of(const char *path);
/* then: all zero: KT__FILE_SAME, there is nothing to compare with */
kt__file_change kt__file_changed(const char *path, const kt__file_stamp *then);

#endif
