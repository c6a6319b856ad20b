/* Reading a file that others use, without being noticed.
 *
 * Owns: a piece of a mapped file, read through a descriptor of its own. Pages that were not in the
 * page cache before are dropped after it, those that were stay. The mapping is asked which pages
 * are there; it is never touched, so nothing becomes resident. One user at a time. */
#ifndef KT_HOST_ASIDE_H
#define KT_HOST_ASIDE_H

#include "host/filemap.h"

enum { KT__ASIDE_BYTES = 1 << 20 }; /* of a piece at most */

typedef struct kt__aside {
    const kt__filemap *map;
    int fd;
    /* the piece at hand */
    uint64_t at;
    size_t n;
    unsigned char present[KT__ASIDE_BYTES / 4096]; /* by pages */
} kt__aside;

/* map: with use_mmap, open until the close. */
kt_status kt__aside_open(const kt__filemap *map, kt__aside *out, kt_error *err) KT_CHECKED;
void kt__aside_close(kt__aside *aside); /* also of a zeroed struct with fd -1 */
/* A piece begins: at a multiple of 4096, n of at most KT__ASIDE_BYTES. The system may read it
 * ahead.
 */
void kt__aside_begin(kt__aside *aside, uint64_t at, size_t n);
/* Bytes [at, at + n) of the piece; false where the file is shorter or cannot be read. */
bool kt__aside_read(kt__aside *aside, uint64_t at, void *data, size_t n);
void kt__aside_end(kt__aside *aside); /* what the piece brought into the cache goes */

#endif
