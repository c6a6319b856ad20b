/* Files as memory.
 *
 * Owns: a read-only mapping (or a private copy with use_mmap off), mlock, and the truth about a file that
 * shrinks while mapped. Any thread; a map is immutable. */
#ifndef KT_HOST_FILEMAP_H
#define KT_HOST_FILEMAP_H

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct kt__filemap {
    const uint8_t *data;
    uint64_t size;
    int fd;            /* kept open to see truncation; -1 for a copy */
    bool mapped;
    bool locked;
    char *path;
    int guard_slot;    /* entry in the fault guard's table, -1: none */
} kt__filemap;

/* Opens and maps path whole. lock asks for mlock; refusal is an error that names RLIMIT_MEMLOCK. */
kt_status kt__filemap_open(const char *path, bool use_mmap, bool lock, kt__filemap *out, kt_error *err)
    KT_CHECKED;
void kt__filemap_close(kt__filemap *map);
/* KT_E_TRUNCATED if the file is now shorter than when it was mapped, or the fault guard had to replace one
 * of its pages. One fstat; call it before each step. */
kt_status kt__filemap_check(const kt__filemap *map, kt_error *err) KT_CHECKED;
/* Hints for the kernel: the range will be read soon / in order. */
void kt__filemap_advise(const kt__filemap *map, bool will_need);

/* kt_install_fault_guard (kentang.h) is here too: a SIGBUS handler that puts a zero page under the fault
 * when its address is in a registered map, marks the map, and otherwise calls the previous handler. Its
 * table is the one process-wide state of the library, and exists only on request. */
#endif
