/* The machine's own limits, measured: what decode (bytes) and prefill (integer multiply-adds)
 * cannot exceed.
 *
 * Owns: a temporary file of random bytes, a read loop, and the timing of a tier's peak loop. Knows
 * no models. Used by doctor, and by commands that quote a share of the limit. One thread; it
 * uses the pool given, which must not be in use meanwhile. Each result is the best of several
 * passes: a limit, which a busy neighbour can only hide. */
#ifndef KT_MEASURE_LIMITS_H
#define KT_MEASURE_LIMITS_H

#include "host/host.h"
#include "host/pool.h"
#include "kernels/kernels.h"

/* The last cache as far as these cores can have it: a virtual machine may report that of the whole
 * processor. 0: unknown. */
uint64_t kt__cache_believed(const kt__topology *topology);

/* Random bytes in a mapped file that is already unlinked, so that nothing remains however
 * the program ends. */
typedef struct kt__random_file {
    const uint8_t *data;
    uint64_t size;
    char place[128]; /* the folder, or "memory" where no folder had room; the file's own path */
} kt__random_file;

/* Bytes of the file that a measurement on this machine wants: several times the last cache, at most
 * 512 MiB and a quarter of what memory is left; 0: not enough memory for a meaningful one. */
uint64_t kt__random_file_size(const kt__topology *topology, const kt__limits *limits);
/* Writes up to `size` bytes within about limit_us (a slow disk gives a smaller file). */
kt_status kt__random_file_open(uint64_t size, int64_t limit_us, kt__random_file *out,
                               kt_error *err) KT_CHECKED;
/* An existing file of bytes as good as random, a model's weights: its own state in the page cache
 * (small pages after a write, large ones after a read) is part of the limit. At most `size` bytes.
 * False where it cannot be mapped or is too short to say anything. */
bool kt__random_file_of(const char *path, uint64_t size, kt__random_file *out);
void kt__random_file_close(kt__random_file *file); /* also of a zeroed one */

/* Bytes per second read from data[size] by n_threads of the pool, in about limit_us (at least two
 * passes). */
double kt__measure_read(kt__pool *pool, int n_threads, const uint8_t *data, uint64_t size,
                        int64_t limit_us);
/* u8 x i8 -> i32 multiply-adds per second of this tier; the same way; 0 if the tier has no peak
 * loop. / */
double kt__measure_i8(kt__pool *pool, int n_threads, const kt__kernels *kernels, int64_t limit_us);

#endif
