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

#endif
