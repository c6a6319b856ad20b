/* The transport over MPI: libkentang-mpi.so, which kentang loads when a launcher started it.
 *
 * Each process sends its part to each other one, directly: of a few processes none waits for a second hop. Who waits
 * looks without a pause for as long as that has paid lately, then sleeps, longer and longer. */
#include <mpi.h>

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "peers/transport.h"

/* A letter on its way, and its bytes. */
typedef struct mpi_letter {
    struct mpi_letter *next;
    MPI_Request request;
    uint8_t bytes[];
} mpi_letter;

typedef struct mpi_job {
    MPI_Comm comm;
    int rank, size;
    atomic_int deadline_ms;
    atomic_bool hurried;   /* the deadline is not the one that was given */
    MPI_Request *requests; /* [2 * size]: receives, then sends; of the process itself none */
    char (*hosts)[MPI_MAX_PROCESSOR_NAME];
    mpi_letter *letters;
    int64_t spin_us; /* how long a wait looks before it sleeps */
} mpi_job;

enum { TAG_PART = 1, TAG_MESSAGE, TAG_LETTER };

enum {
    LEAST_SPIN_US = 8,
    MOST_SPIN_US = 256,
    SHORTEST_SLEEP_US = 5,
    SLACK_NS = 2000,
    SHORT_SLEEP_US = 50,      /* at most, as long as a batch's bytes may be on their way: */
    ON_THEIR_WAY_US = 100000, /* they move when this process looks */
    LONGEST_SLEEP_US = 1000,
    LONGEST_LOOK_US = 100000,
    GRACE_US = 1000000,
    LIST_BYTES = 100 /* of KT__WHY_BYTES */
};

static int64_t clock_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static bool fail_with(char *why, const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code != MPI_SUCCESS) MPI_Error_string(code, text, &n);
    snprintf(why, KT__WHY_BYTES, "%s%s%.150s", what, n ? ": " : "", text);
    return false;
}

/* ---- waiting ---- */

/* Who sleeps is woken before a neighbour's time is over; who yields comes after it. */
static void give_way(int64_t waited_us) {
    int64_t us = waited_us / 16,
            most = waited_us < ON_THEIR_WAY_US ? SHORT_SLEEP_US : LONGEST_SLEEP_US;
    us = us < SHORTEST_SLEEP_US ? SHORTEST_SLEEP_US : us;
    (void)prctl(PR_SET_TIMERSLACK, SLACK_NS); /* of this thread: 50 us else */
    struct timespec t = {0, (long)(us < most ? us : most) * 1000};
    nanosleep(&t, NULL);
}

/* Looks without a pause for as long as that pays: where others come soon. */
static void learn_spin(mpi_job *job, bool paid) {
    job->spin_us = paid ? job->spin_us * 2 : job->spin_us / 2;
    if (job->spin_us > MOST_SPIN_US) job->spin_us = MOST_SPIN_US;
    if (job->spin_us < LEAST_SPIN_US) job->spin_us = LEAST_SPIN_US;
}

/* Whether its part has not come, or it has not taken this one's. */
static bool is_missing(mpi_job *job, int rank) {
    bool missing = false;
    for (int i = rank; i < 2 * job->size; i += job->size) {
        int done = 1;
        if (job->requests[i] != MPI_REQUEST_NULL)
            MPI_Request_get_status(job->requests[i], &done, MPI_STATUS_IGNORE);
        missing = missing || !done;
    }
    return missing;
}

static int count_missing(mpi_job *job) {
    int n = 0;
    for (int r = 0; r < job->size; r++) n += is_missing(job, r);
    return n;
}

/* All of them: of several, one may wait for another one itself. */
static bool tell_late(mpi_job *job, char *why) {
    int len = 0;
    for (int r = 0; r < job->size && len < LIST_BYTES; r++)
        if (is_missing(job, r))
            len += snprintf(why + len, KT__WHY_BYTES - (size_t)len, "%sprocess %d on %.60s",
                            len ? ", " : "", r, job->hosts[r]);
    snprintf(why + len, KT__WHY_BYTES - (size_t)len,
             ": no answer for %g s%s: it has died or hangs, or the network fails",
             atomic_load(&job->deadline_ms) / 1e3,
             atomic_load(&job->hurried) ? ", as the job ends" : " (KENTANG_MPI_DEADLINE)");
    return false;
}

/* One that waits for a single process knows which one it is, and ends the job before those that wait for several, or
 * for process 0, which waits for all. */
static bool is_late(mpi_job *job, int64_t waited_us) {
    int64_t deadline_us = (int64_t)atomic_load(&job->deadline_ms) * 1000;
    if (waited_us <= deadline_us) return false;
    return waited_us > 2 * deadline_us || waited_us > deadline_us + GRACE_US ||
           (count_missing(job) < 2 && !is_missing(job, 0));
}

/* patient: however long it takes. Time in which this process was stopped is not waited. */
static bool await_all(mpi_job *job, bool patient, char *why) {
    int64_t waited_us = 0, looked_us = clock_us();
    for (;;) {
        int done = 0;
        int code = MPI_Testall(2 * job->size, job->requests, &done, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS) return fail_with(why, "a process of the job was lost", code);
        if (done && !patient) learn_spin(job, waited_us <= job->spin_us);
        if (done) return true;
        int64_t now_us = clock_us(), since_us = now_us - looked_us;
        waited_us += since_us < LONGEST_LOOK_US ? since_us : LONGEST_LOOK_US;
        looked_us = now_us;
        if (!patient && is_late(job, waited_us)) return tell_late(job, why);
        if (waited_us > job->spin_us) give_way(waited_us);
    }
}

/* ---- calls ---- */

static bool fits_int(size_t n, char *why) {
    return n <= INT_MAX || fail_with(why, "a message of more than 2 GiB", MPI_SUCCESS);
}

static bool mpi_gather(void *state, void *buf, const size_t *at, char *why) {
    mpi_job *job = state;
    uint8_t *bytes = buf;
    int me = job->rank;
    size_t own = at[me + 1] - at[me];
    for (int r = 0; r < job->size; r++) {
        size_t n = at[r + 1] - at[r];
        if (!fits_int(n, why)) return false;
        if (r != me && n)
            MPI_Irecv(bytes + at[r], (int)n, MPI_BYTE, r, TAG_PART, job->comm, &job->requests[r]);
    }
    for (int i = 1; own && i < job->size;
         i++) { /* to the next one first: no process gets all at once */
        int r = (me + i) % job->size;
        MPI_Isend(bytes + at[me], (int)own, MPI_BYTE, r, TAG_PART, job->comm,
                  &job->requests[job->size + r]);
    }
    return await_all(job, false, why);
}

static bool mpi_broadcast(void *state, void *buf, size_t n, char *why) {
    mpi_job *job = state;
    if (!fits_int(n, why)) return false;
    if (job->rank > 0) {
        MPI_Irecv(buf, (int)n, MPI_BYTE, 0, TAG_MESSAGE, job->comm, &job->requests[0]);
        return await_all(job, true, why);
    }
    for (int r = 1; r < job->size; r++)
        MPI_Isend(buf, (int)n, MPI_BYTE, r, TAG_MESSAGE, job->comm, &job->requests[job->size + r]);
    return await_all(job, false, why);
}

/* ---- letters ---- */

/* What has arrived is done with. */
static bool drop_sent(mpi_job *job, char *why) {
    for (mpi_letter **at = &job->letters; *at;) {
        mpi_letter *letter = *at;
        int done = 0;
        int code = MPI_Test(&letter->request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) return fail_with(why, "a process of the job was lost", code);
        if (done) *at = letter->next;
        if (done)
            free(letter);
        else
            at = &letter->next;
    }
    return true;
}

static bool mpi_post(void *state, int rank, const void *buf, size_t n, char *why) {
    mpi_job *job = state;
    if (!fits_int(n, why) || !drop_sent(job, why)) return false;
    mpi_letter *letter = malloc(sizeof *letter + n);
    if (!letter) return fail_with(why, "no memory is left", MPI_SUCCESS);
    memcpy(letter->bytes, buf, n);
    letter->next = job->letters;
    job->letters = letter;
    int code = MPI_Isend(letter->bytes, (int)n, MPI_BYTE, rank, TAG_LETTER, job->comm,
                         &letter->request);
    return code == MPI_SUCCESS || fail_with(why, "a process of the job was lost", code);
}

static bool mpi_look(void *state, int *rank, size_t *n, char *why) {
    mpi_job *job = state;
    MPI_Status status;
    int there = 0, bytes = 0;
    if (!drop_sent(job, why)) return false;
    int code = MPI_Iprobe(MPI_ANY_SOURCE, TAG_LETTER, job->comm, &there, &status);
    if (code != MPI_SUCCESS) return fail_with(why, "a process of the job was lost", code);
    if (there) MPI_Get_count(&status, MPI_BYTE, &bytes);
    *rank = there ? status.MPI_SOURCE : -1;
    *n = (size_t)bytes;
    return true;
}

static bool mpi_take(void *state, int rank, void *buf, size_t n, char *why) {
    mpi_job *job = state;
    MPI_Irecv(buf, (int)n, MPI_BYTE, rank, TAG_LETTER, job->comm, &job->requests[rank]);
    return await_all(job, false, why);
}

/* Those that are on their way arrive, or there is no hope for them. */
static void end_letters(mpi_job *job) {
    char why[KT__WHY_BYTES];
    int64_t begin_us = clock_us();
    while (job->letters && drop_sent(job, why)) {
        int64_t waited_us = clock_us() - begin_us;
        if (waited_us > (int64_t)atomic_load(&job->deadline_ms) * 1000) break;
        give_way(waited_us);
    }
}

static int mpi_rank(const void *state) {
    return ((const mpi_job *)state)->rank;
}
static int mpi_size(const void *state) {
    return ((const mpi_job *)state)->size;
}
static const char *mpi_host(const void *state, int rank) {
    return ((const mpi_job *)state)->hosts[rank];
}

static void mpi_hurry(void *state, int ms) {
    mpi_job *job = state;
    if (ms >= atomic_load(&job->deadline_ms)) return;
    atomic_store(&job->hurried, true);
    atomic_store(&job->deadline_ms, ms);
}

/* ---- life ---- */

static void free_job(mpi_job *job) {
    free(job->requests);
    free(job->hosts);
    free(job);
}

static void mpi_end(void *state, bool clean) {
    mpi_job *job = state;
    if (!clean) {
        fflush(NULL);
        MPI_Abort(job->comm, 1);
    }
    end_letters(job);
    MPI_Comm_free(&job->comm);
    MPI_Finalize();
    free_job(job);
}

/* Different threads call, but one at a time. */
static bool start_mpi(char *why) {
    int provided = MPI_THREAD_SINGLE, joined = 0;
    MPI_Initialized(&joined);
    if (joined)
        return fail_with(why, "one context of a process can join, and another one has",
                         MPI_SUCCESS);
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) return fail_with(why, "MPI_Init", code);
    if (provided < MPI_THREAD_SERIALIZED)
        return fail_with(why, "this MPI was built without threads", MPI_SUCCESS);
    return true;
}

static bool learn_hosts(mpi_job *job, char *why) {
    int n = 0;
    job->requests = malloc(2 * (size_t)job->size * sizeof(MPI_Request));
    job->hosts = calloc((size_t)job->size, sizeof *job->hosts);
    if (!job->requests || !job->hosts) return fail_with(why, "no memory is left", MPI_SUCCESS);
    for (int i = 0; i < 2 * job->size; i++) job->requests[i] = MPI_REQUEST_NULL;
    MPI_Get_processor_name(job->hosts[job->rank], &n);
    int code = MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, job->hosts, MPI_MAX_PROCESSOR_NAME,
                             MPI_CHAR, job->comm);
    return code == MPI_SUCCESS || fail_with(why, "the first message", code);
}

static bool mpi_start(void **state, int deadline_s, char *why) {
    if (!start_mpi(why)) return false;
    mpi_job *job = calloc(1, sizeof *job);
    if (!job) return fail_with(why, "no memory is left", MPI_SUCCESS);
    atomic_init(&job->deadline_ms,
                (deadline_s < INT_MAX / 1000 ? deadline_s : INT_MAX / 1000) * 1000);
    job->spin_us = MOST_SPIN_US;
    MPI_Comm_dup(MPI_COMM_WORLD, &job->comm);
    MPI_Comm_set_errhandler(job->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(job->comm, &job->rank);
    MPI_Comm_size(job->comm, &job->size);
    if (!learn_hosts(job, why)) {
        free_job(job);
        return false;
    }
    *state = job;
    return true;
}

__attribute__((visibility("default"))) const kt__transport *kt__transport_table(void);

const kt__transport *kt__transport_table(void) {
    static const kt__transport table = {
        .version = KT__TRANSPORT_VERSION,
        .start = mpi_start,
        .rank = mpi_rank,
        .size = mpi_size,
        .host = mpi_host,
        .gather = mpi_gather,
        .broadcast = mpi_broadcast,
        .post = mpi_post,
        .look = mpi_look,
        .take = mpi_take,
        .hurry = mpi_hurry,
        .end = mpi_end,
    };
    return &table;
}
