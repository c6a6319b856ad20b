/* Reading a file that is in use without disturbing the page cache.
 *
 * Owns: a piece of a mapped file, read through a descriptor of its own. Pages that were not in the
 * page cache before are dropped again; those that were there stay. The kernel is asked which pages
 * of the mapping are present; the mapping itself is never touched, so nothing becomes resident. One
 * user at a time. */
#ifndef KT_HOST_COLD_READER_H
#define KT_HOST_COLD_READER_H

#include "host/filemap.h"

enum { KT__COLD_READ_BYTES = 1 << 20 }; /* of a piece at most */

typedef struct kt__cold_reader {
    const kt__filemap *map;
    int fd;
    /* the piece at hand */
    uint64_t at;
    size_t n;
    unsigned char present[KT__COLD_READ_BYTES / 4096]; /* by pages */
} kt__cold_reader;

/* map: with use_mmap, open until the close. */
kt_status kt__cold_reader_open(const kt__filemap *map, kt__cold_reader *out,
                               kt_error *err) KT_CHECKED;
void kt__cold_reader_close(kt__cold_reader *reader); /* a zeroed struct with fd -1 is allowed */
/* A piece begins: at a multiple of 4096, n of at most KT__COLD_READ_BYTES. The system may read it
 * ahead.
 */
void kt__cold_reader_begin(kt__cold_reader *reader, uint64_t at, size_t n);
/* Bytes [at, at + n) of the piece; false where the file is shorter or cannot be read. */
bool kt__cold_reader_read(kt__cold_reader *reader, uint64_t at, void *data, size_t n);
void kt__cold_reader_end(kt__cold_reader *reader); /* drops what the piece brought into the cache */

#endif
