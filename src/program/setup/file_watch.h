/* Whether the file of a model is still the one that was loaded.
 *
 * Owns: the comparison of what stat(2) says now with what it said then. Reads no file. Any
 * thread. */
#ifndef KT_SETUP_FILE_WATCH_H
#define KT_SETUP_FILE_WATCH_H

#include <kentang.h>
#include <time.h>

#include <sys/types.h>

typedef struct kt__file_stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
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
