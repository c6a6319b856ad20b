/* Files as memory.
 *
 * Owns: a read-only mapping (or a private copy with use_mmap off), mlock, and noticing that a file shrinks while it
 * is mapped; the fault guard with its table of mapped files (fault_guard.c). Knows nothing of what the bytes mean.
 * Any thread; a map is immutable between open and close, and outlives its readers.
 *
 * Reading beyond the new end of a file that shrank is a SIGBUS. Without the fault guard (kt_install_fault_guard)
 * kt__filemap_check before each step makes that unlikely; with it, the reader sees zeros, and the next check says so. */
#ifndef KT_HOST_FILEMAP_H
#define KT_HOST_FILEMAP_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kt__filemap {
    const uint8_t *data; /* page-aligned */
    uint64_t size;       /* at least 1 */
    int fd;              /* kept open to see truncation; -1 for a copy */
    bool mapped;
    bool locked;
    char *path;
    int guard_slot; /* entry in the fault guard's table, -1: none */
} kt__filemap;

/* Opens and maps path whole. A directory, a pipe or an empty file is refused. lock asks for mlock;
 * refusal is an error (KT_E_LIMIT) that names RLIMIT_MEMLOCK. On failure *out can be closed again
 * without harm. */
kt_status kt__filemap_open(const char *path, bool use_mmap, bool lock, kt__filemap *out,
                           kt_error *err) KT_CHECKED;
void kt__filemap_close(kt__filemap *map); /* a zeroed struct is allowed, and closing twice */
/* KT_E_TRUNCATED if the file is now shorter than when it was mapped, or the fault guard had to
 * replace some of its pages. One fstat; call it before and after each step. */
kt_status kt__filemap_check(const kt__filemap *map, kt_error *err) KT_CHECKED;

/* A descriptor of the same file, which is mapped, with advice and flags (of open) of its own; -1 on failure. */
kt_status kt__filemap_open_again(const kt__filemap *map, int flags, int *fd,
                                 kt_error *err) KT_CHECKED;

/* Of these bytes of the mapping a few here and there are read: pages come one by one as they are asked
 * for, without those around them. */
void kt__filemap_read_sparsely(const kt__filemap *map, const uint8_t *data, uint64_t n);

/* Of these bytes short stretches are read, with others between them that never are: in small pages. */
void kt__filemap_read_stretches(const kt__filemap *map, const uint8_t *data, uint64_t n);

/* Whether mincore says which of the file's pages are in memory: it does to the file's owner and to
 * those who may write to it; to others all of them seem to be. */
bool kt__filemap_shows_pages(const kt__filemap *map);

/* The fault guard's table of mapped files.
 *
 * A fixed, lock-free table of address ranges and the SIGBUS handler of kt_install_fault_guard (kentang.h): a fault
 * inside a registered range gets zero pages from there to the range's end and the range is marked; any other fault
 * goes to the handler that was there before. This table and that handler are the library's only process-wide state;
 * without the handler the table has no effect. Any thread; the handler calls async-signal-safe functions only. */

/* The slot of [data, data + size), or -1 when the table is full: the range is then not guarded. */
int kt__fault_guard_add(const void *data, size_t size);
void kt__fault_guard_remove(int slot); /* -1 allowed; before the range is unmapped */
bool kt__fault_guard_hit(int slot);    /* some page of the range was replaced */

#endif
