/* kentang doctor --mpi: each machine of a job that mpirun started, and the network between them.
 *
 * Owns: the measurements, which all processes make together, and the table, which process 0 prints. One thread; the pool
 * is not in use meanwhile. */
#ifndef KT_MEASURE_MACHINES_H
#define KT_MEASURE_MACHINES_H

#include "host/host.h"
#include "host/pool.h"
#include "kernels/kernels.h"

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
