/* What this machine can do: its own limits, measured; what of a model suits it; and the machines of a job.
 *
 * Owns: a temporary file of random bytes, a read loop and the timing of a tier's peak loop (limits.c); sizes of the
 * usual recipes, what fits the memory and what decoding can reach (advice.c); the network between machines
 * (machines.c). One thread; pools given must not be in use meanwhile. */
#ifndef KT_MEASURE_LIMITS_H
#define KT_MEASURE_LIMITS_H

#include "host/host.h"
#include "host/pool.h"
#include "kernels/kernels.h"

#include <jansson.h>
#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limits: what decode (bytes) and prefill (integer multiply-adds) cannot exceed. Each result is the best of
 * several passes: a limit, which a busy neighbour can only hide. */

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

/* Which recipe of a model suits this machine.
 *
 * Sizes of the usual recipes, what fits the memory, what decoding can reach, and the choice with its reasons, as
 * `doctor -m` and `inspect` show them. Reads the file's header only. One thread. */

typedef struct kt__advice_row {
    const char *recipe;
    uint64_t bytes;
    double tok_s; /* that reading the weights allows; 0: not measured */
    bool fits;
} kt__advice_row;

enum { KT__ADVICE_ROWS = 8 };

typedef struct kt__advice {
    kt__advice_row rows[KT__ADVICE_ROWS]; /* the best quality first */
    size_t best;                          /* KT__ADVICE_ROWS: none fits */
    char why[200];
    bool from_original; /* the file is quantised already: a recipe wants the weights before that */
} kt__advice;

/* memory: bytes that may be used; read_bytes_per_s: what all threads read, 0: not measured. */
kt_status kt__advise(const char *model, uint64_t memory, double read_bytes_per_s, kt__advice *out,
                     kt_error *err) KT_CHECKED;
/* The same with what is free here, and a short measurement of reading: under half a second. */
kt_status kt__advise_here(const char *model, kt__advice *out, kt_error *err) KT_CHECKED;
/* Memory that is free, and bytes a second that all threads read of it (0: not measured), in under half a second. */
void kt__advice_machine(uint64_t *memory, double *read_bytes_per_s);
void kt__advice_print(const kt__advice *advice);
json_t *kt__advice_json(const kt__advice *advice); /* the caller's; NULL: no memory */

/* kentang doctor --mpi: each machine of a job that mpirun started, and the network between them.
 *
 * The measurements, which all processes make together, and the table, which process 0 prints. One thread; the pool is
 * not in use meanwhile. */

typedef struct kt__machine_asked {
    kt__pool *pool;
    int n_threads;
    const kt__kernels *kernels;
    const kt__cpu *cpu;
    const kt__topology *topology;
    const kt__limits *limits;
    bool json;
} kt__machine_asked;

/* KT_E_ARG: no launcher started this process; KT_E_STATE: a process was lost. */
kt_status kt__machines_measure(const kt__machine_asked *asked, kt_error *err) KT_CHECKED;

#endif
