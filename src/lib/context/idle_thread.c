#include "context/idle_thread.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"
#include "host/affinity.h"
#include "host/direct_read.h"
#include "host/pages.h"

void kt__activity_begin(kt__activity *a) {
    atomic_fetch_add(&a->n_now, 1);
}

void kt__activity_end(kt__activity *a) {
    atomic_store(&a->ended_us, kt__now_us());
    atomic_fetch_sub(&a->n_now, 1);
}

int64_t kt__activity_busy_us(const kt__activity *a, int64_t idle_us, int64_t since_us) {
    if (atomic_load(&a->n_now) > 0) return idle_us;
    int64_t ended_us = atomic_load(&a->ended_us);
    return (ended_us > since_us ? ended_us : since_us) + idle_us - kt__now_us();
}

kt_status kt__idle_thread_init(kt__idle_thread *idle, const kt__activity *activity, kt_error *err) {
    *idle = (kt__idle_thread){.activity = activity};
    if (pthread_mutex_init(&idle->lock, NULL) != 0) return kt__fail_nomem(err, "a lock", 0);
    if (kt__cond_init(&idle->wake) == 0) return KT_OK;
    pthread_mutex_destroy(&idle->lock);
    return kt__fail_nomem(err, "a lock", 0);
}

void kt__idle_thread_free(kt__idle_thread *idle) {
    if (idle->started) {
        pthread_mutex_lock(&idle->lock);
        atomic_store(&idle->quit, true);
        pthread_cond_signal(&idle->wake);
        pthread_mutex_unlock(&idle->lock);
        kt__priority_hurry(idle->thread);
        pthread_join(idle->thread, NULL);
    }
    pthread_cond_destroy(&idle->wake);
    pthread_mutex_destroy(&idle->lock);
}

int kt__idle_thread_start(kt__idle_thread *idle, const char *name, size_t stack_bytes,
                          kt__thread_fn *run, void *arg) {
    idle->started_us = kt__now_us();
    int rc = kt__thread_start(&idle->thread, name, stack_bytes, run, arg);
    idle->started = rc == 0;
    return rc;
}

/* Microseconds until it may continue, if nothing begins before. */
static int64_t busy_for(const kt__idle_thread *idle) {
    return kt__activity_busy_us(idle->activity, KT__IDLE_US, idle->started_us);
}

bool kt__idle_thread_wait(kt__idle_thread *idle) {
    int64_t us;
    pthread_mutex_lock(&idle->lock);
    while (!atomic_load(&idle->quit) && (us = busy_for(idle)) > 0) {
        struct timespec until = kt__time_in_ms(us / 1000 + 1);
        (void)pthread_cond_timedwait(&idle->wake, &idle->lock, &until);
    }
    pthread_mutex_unlock(&idle->lock);
    return !atomic_load(&idle->quit);
}

bool kt__idle_thread_must_rest(const kt__idle_thread *idle) {
    return atomic_load_explicit(&idle->quit, memory_order_relaxed) || busy_for(idle) > 0;
}

/* ---- full hash ---- */

enum {
    SEED = 2,                    /* of the format of what is hashed */
    READ_BYTES = 64 << 10,       /* at a time: then it looks whether to stop */
    HASH_STACK_BYTES = 128 << 10 /* of the thread */
};

struct kt__full_hash {
    const kt__gguf *gguf;
    uint8_t *buffer; /* [READ_BYTES], the thread's */
    kt__idle_thread idle;
    kt_hash_info info; /* under its lock */
};

/* ---- life ---- */

kt_status kt__full_hash_create(const kt__gguf *gguf, const kt__activity *activity,
                               kt__full_hash **out, kt_error *err) {
    *out = NULL;
    kt__full_hash *h = kt__calloc(1, sizeof *h);
    if (!h) return kt__fail_nomem(err, "a model's hash", sizeof *h);
    kt_status status = kt__idle_thread_init(&h->idle, activity, err);
    if (status != KT_OK) {
        kt__free(h);
        return status;
    }
    h->gguf = gguf;
    h->info.bytes_all = kt__gguf_file_bytes(gguf);
    *out = h;
    return KT_OK;
}

void kt__full_hash_destroy(kt__full_hash *h) {
    if (!h) return;
    kt__idle_thread_free(&h->idle);
    kt__free(h->buffer);
    kt__free(h);
}

void kt__full_hash_get(kt__full_hash *h, kt_hash_info *out) {
    pthread_mutex_lock(&h->idle.lock);
    *out = h->info;
    pthread_mutex_unlock(&h->idle.lock);
}

/* ---- reading ---- */

/* Reads of a piece until its end or until there is something better to do; returns the place from
 * which to continue. false in *ok: it cannot be read. */
static uint64_t read_piece(kt__full_hash *h, kt__cold_reader *reader, uint64_t at, uint64_t end,
                           kt__hash *hash, bool *ok) {
    size_t n = end - at < KT__COLD_READ_BYTES ? (size_t)(end - at) : KT__COLD_READ_BYTES;
    uint64_t piece_end = at + n;
    kt__cold_reader_begin(reader, at, n);
    while (*ok && at < piece_end && !kt__idle_thread_must_rest(&h->idle)) {
        n = piece_end - at < READ_BYTES ? (size_t)(piece_end - at) : READ_BYTES;
        *ok = kt__cold_reader_read(reader, at, h->buffer, n);
        if (*ok) kt__hash_add(hash, h->buffer, n);
        at += n;
    }
    kt__cold_reader_end(reader);
    return at;
}

static void hash_advance(kt__full_hash *h, uint64_t n) {
    pthread_mutex_lock(&h->idle.lock);
    h->info.bytes_done += n;
    pthread_mutex_unlock(&h->idle.lock);
}

static bool hash_file(kt__full_hash *h, const kt__filemap *map, kt__hash *hash) {
    kt__cold_reader reader;
    bool ok = kt__cold_reader_open(map, &reader, NULL) == KT_OK;
    for (uint64_t at = 0; ok && at < map->size;) {
        ok = kt__idle_thread_wait(&h->idle);
        if (!ok) break;
        uint64_t to = read_piece(h, &reader, at, map->size, hash, &ok);
        hash_advance(h, to - at);
        at = to;
    }
    kt__cold_reader_close(&reader);
    return ok;
}

static bool hash_memory(kt__full_hash *h, const uint8_t *data, uint64_t size, kt__hash *hash) {
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < KT__COLD_READ_BYTES ? (size_t)(size - at) : KT__COLD_READ_BYTES;
        if (!kt__idle_thread_wait(&h->idle)) return false;
        kt__hash_add(hash, data + at, n);
        hash_advance(h, n);
        at += n;
    }
    return true;
}

/* The parts in order, each after its size. */
static bool hash_parts(kt__full_hash *h, kt__hash *hash) {
    for (int i = 0; i < kt__gguf_n_parts(h->gguf); i++) {
        const uint8_t *data;
        uint64_t size;
        uint8_t bytes[8];
        const kt__filemap *map = kt__gguf_part_bytes(h->gguf, i, &data, &size);
        kt__le_put(bytes, size, sizeof bytes);
        kt__hash_add(hash, bytes, sizeof bytes);
        bool mapped = map && map->mapped;
        if (mapped ? !hash_file(h, map, hash) : !hash_memory(h, data, size, hash)) return false;
    }
    return kt__gguf_check(h->gguf, NULL) == KT_OK;
}

static void *hash_all(void *arg) {
    kt__full_hash *h = arg;
    kt__hash hash;
    if (!atomic_load(&h->idle.quit)) kt__priority_background();
    kt__hash_init(&hash, SEED);
    bool ok = hash_parts(h, &hash);
    kt__digest digest = kt__hash_end(&hash);
    pthread_mutex_lock(&h->idle.lock);
    h->info.state = ok ? KT_HASH_KNOWN : KT_HASH_FAILED;
    if (ok) kt__digest_bytes(digest, h->info.hash);
    pthread_mutex_unlock(&h->idle.lock);
    return NULL;
}

kt_status kt__full_hash_start(kt__full_hash *h, kt_error *err) {
    kt_status status = KT_OK;
    pthread_mutex_lock(&h->idle.lock);
    if (!h->idle.started) {
        if (!h->buffer) h->buffer = kt__malloc(READ_BYTES);
        int rc = ENOMEM;
        if (h->buffer)
            rc = kt__idle_thread_start(&h->idle, "kt-hash", HASH_STACK_BYTES, hash_all, h);
        if (rc == 0) h->info.state = KT_HASH_RUNNING;
        if (rc != 0)
            status = kt__fail(err, KT_E_NOMEM, "no thread for the model's hash: %s", strerror(rc));
    }
    pthread_mutex_unlock(&h->idle.lock);
    return status;
}

/* ---- page job ---- */

enum { RELAY_STACK_BYTES = 128 << 10 };

struct kt__page_job {
    const kt__gguf *gguf;
    kt__idle_thread idle;
    /* under its lock */
    bool running;
    kt__relay_end end;
};

kt_status kt__page_job_create(const kt__gguf *gguf, const kt__activity *activity,
                              kt__page_job **out, kt_error *err) {
    *out = NULL;
    kt__page_job *job = kt__calloc(1, sizeof *job);
    if (!job) return kt__fail_nomem(err, "the pages of a model", sizeof *job);
    kt_status status = kt__idle_thread_init(&job->idle, activity, err);
    if (status != KT_OK) {
        kt__free(job);
        return status;
    }
    job->gguf = gguf;
    *out = job;
    return KT_OK;
}

void kt__page_job_destroy(kt__page_job *job) {
    if (!job) return;
    kt__idle_thread_free(&job->idle);
    kt__free(job);
}

static bool wait_for_idle(void *job) {
    return kt__idle_thread_wait(&((kt__page_job *)job)->idle);
}

/* Not of the lowest priority: while pages are read, threads that change the process's mappings wait. */
static void *relay_parts(void *arg) {
    kt__page_job *job = arg;
    kt__relay_end end = KT__RELAY_LARGE;
    for (int i = 0; i < kt__gguf_n_parts(job->gguf) && end <= KT__RELAY_LARGE; i++) {
        const uint8_t *data;
        uint64_t size;
        const kt__filemap *map = kt__gguf_part_bytes(job->gguf, i, &data, &size);
        if (!map || !map->mapped) continue;
        kt__relay_end of_part = kt__relay_run(map, wait_for_idle, job);
        if (of_part != KT__RELAY_LARGE) end = of_part;
    }
    pthread_mutex_lock(&job->idle.lock);
    job->end = end;
    job->running = false;
    pthread_mutex_unlock(&job->idle.lock);
    return NULL;
}

kt_status kt__page_job_start(kt__page_job *job, kt_error *err) {
    int rc = 0;
    pthread_mutex_lock(&job->idle.lock);
    if (!job->idle.started) {
        rc = kt__idle_thread_start(&job->idle, "kt-pages", RELAY_STACK_BYTES, relay_parts, job);
        job->running = rc == 0;
    }
    pthread_mutex_unlock(&job->idle.lock);
    if (rc == 0) return KT_OK;
    return kt__fail(err, KT_E_NOMEM, "no thread for the model's pages: %s", strerror(rc));
}

static void count_pages(const kt__gguf *gguf, kt_pages_info *out) {
    for (int i = 0; i < kt__gguf_n_parts(gguf); i++) {
        const uint8_t *data;
        uint64_t size;
        kt__page_use use;
        const kt__filemap *map = kt__gguf_part_bytes(gguf, i, &data, &size);
        bool known = map ? kt__page_use_of_file(map, &use) : kt__page_use_at("", data, size, &use);
        out->bytes += size;
        if (!known) continue;
        out->mapped_bytes += use.mapped_bytes;
        out->large_bytes += use.large_bytes;
    }
}

void kt__page_job_get(kt__page_job *job, kt_pages_info *out) {
    static const char *const ends[] = {
        [KT__RELAY_DONE] = "read again into large pages",
        [KT__RELAY_LARGE] = "nothing to do",
        [KT__RELAY_STOPPED] = "stopped",
        [KT__RELAY_SLOW] = "left as they are: the disk is slow",
        [KT__RELAY_SHARED] = "left as they are: another process uses the file",
        [KT__RELAY_UNKNOWN] = "left as they are: the system does not offer it here",
    };
    *out = (kt_pages_info){.ended = ""};
    count_pages(job->gguf, out);
    pthread_mutex_lock(&job->idle.lock);
    out->running = job->running;
    if (job->idle.started && !job->running) out->ended = ends[job->end];
    pthread_mutex_unlock(&job->idle.lock);
}
