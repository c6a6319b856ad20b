/* Reading parts of a mapped file into memory of one's own, without a second copy in the page cache.
 *
 * Owns: two descriptors of the file. What the page cache holds already is copied from there; the rest
 * comes straight from the disk (O_DIRECT) or, where the file system offers no such reads, through pages
 * that are dropped at once. The mapping itself is never touched: a file that became shorter is an error
 * and no signal. Any number of threads may read. */
#ifndef KT_HOST_DIRECT_READ_H
#define KT_HOST_DIRECT_READ_H

#include "host/filemap.h"

typedef struct kt__direct_read {
    const kt__filemap *map;
    int direct;       /* descriptor for O_DIRECT; -1: the file system has none */
    int cached;       /* through the page cache; -1: closed */
    bool shows_pages; /* kt__filemap_shows_pages */
} kt__direct_read;

/* Memory that is read into and the file's bytes lie at the same place within units of so many bytes; each
 * unit is one reader's. At least 4096, a power of two. */
size_t kt__direct_read_unit(void);

/* map: with use_mmap, open until the close. On failure it need not be closed, but may be. */
kt_status kt__direct_read_open(const kt__filemap *map, kt__direct_read *out,
                               kt_error *err) KT_CHECKED;
void kt__direct_read_close(kt__direct_read *file);
/* Bytes [at, at + n) of the file into `to`; all of the units that these lie in may be written. */
kt_status kt__direct_read_part(const kt__direct_read *file, uint64_t at, size_t n, uint8_t *to,
                               kt_error *err) KT_CHECKED;

/* Reading a file that is in use without disturbing the page cache.
 *
 * Owns: a piece of a mapped file, read through a descriptor of its own. Pages that were not in the
 * page cache before are dropped again; those that were there stay. The kernel is asked which pages
 * of the mapping are present; the mapping itself is never touched, so nothing becomes resident. One
 * user at a time. */

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
