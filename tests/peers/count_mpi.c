/* Preloaded into a job's processes: counts what each really sends through MPI, by its profiling interface, and writes
 * "messages bytes" into $KT_COUNT.RANK at the end. How often a batch stops between two layers and is resumed depends on how
 * busy the machine is: the step that says so (model/forward.c) and the message that resumes it (FIRST words of
 * peers/message.c) are not counted. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEP_BYTES = 4, STEP_PAUSE = 1, RESUMING_BYTES = 1024 };

static unsigned long long n_messages, n_bytes;

int MPI_Isend(const void *buf, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    int size = 0;
    MPI_Type_size(type, &size);
    unsigned long long bytes = (unsigned long long)n * (unsigned long long)size;
    if (bytes == STEP_BYTES && *(const int *)buf == STEP_PAUSE) {
        n_messages--; /* of the message that will resume it */
        n_bytes -= RESUMING_BYTES;
    } else {
        n_messages++;
        n_bytes += bytes;
    }
    return PMPI_Isend(buf, n, type, to, tag, comm, request);
}

int MPI_Finalize(void) {
    char path[512];
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", getenv("KT_COUNT"), rank);
    FILE *f = fopen(path, "w");
    if (f) fprintf(f, "%llu %llu\n", n_messages, n_bytes);
    if (f) fclose(f);
    return PMPI_Finalize();
}
