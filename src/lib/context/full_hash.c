#include "context/full_hash.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/thread.h"
#include "host/cold_reader.h"
#include "host/affinity.h"

enum {
    SEED = 2,               /* of the format of what is hashed */
    READ_BYTES = 64 << 10,  /* at a time: then it looks whether to stop */
    STACK_BYTES = 128 << 10 /* of the thread */
};

struct kt__full_hash {
    const kt__gguf *gguf;
    const kt__activity *activity;
    uint8_t *buffer; /* [READ_BYTES], the thread's */
    pthread_t thread;
    atomic_bool quit;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* under the lock */
    bool started;
    int64_t started_us;
    kt_hash_info info;
};

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

/* ---- life ---- */

static bool init_locks(kt__full_hash *h) {
    if (pthread_mutex_init(&h->lock, NULL) != 0) return false;
    if (kt__cond_init(&h->wake) == 0) return true;
    pthread_mutex_destroy(&h->lock);
    return false;
}

kt_status kt__full_hash_create(const kt__gguf *gguf, const kt__activity *activity,
                               kt__full_hash **out, kt_error *err) {
    *out = NULL;
    kt__full_hash *h = kt__calloc(1, sizeof *h);
    if (!h) return kt__fail_nomem(err, "a model's hash", sizeof *h);
    if (!init_locks(h)) {
        kt__free(h);
        return kt__fail_nomem(err, "a lock", 0);
    }
    h->gguf = gguf;
    h->activity = activity;
    h->info.bytes_all = kt__gguf_file_bytes(gguf);
    *out = h;
    return KT_OK;
}

void kt__full_hash_destroy(kt__full_hash *h) {
    if (!h) return;
    if (h->started) {
        pthread_mutex_lock(&h->lock);
        atomic_store(&h->quit, true);
        pthread_cond_signal(&h->wake);
        pthread_mutex_unlock(&h->lock);
        kt__priority_hurry(h->thread);
        pthread_join(h->thread, NULL);
    }
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    kt__free(h->buffer);
    kt__free(h);
}

void kt__full_hash_get(kt__full_hash *h, kt_hash_info *out) {
    pthread_mutex_lock(&h->lock);
    *out = h->info;
    pthread_mutex_unlock(&h->lock);
}

/* ---- when to read ---- */

/* Microseconds until it may be read on, if nothing begins before. */
static int64_t busy_for(const kt__full_hash *h) {
    return kt__activity_busy_us(h->activity, KT__HASH_IDLE_US, h->started_us);
}

/* false: to be destroyed */
static bool wait_until_idle(kt__full_hash *h) {
    int64_t us;
    pthread_mutex_lock(&h->lock);
    while (!atomic_load(&h->quit) && (us = busy_for(h)) > 0) {
        struct timespec until = kt__time_in_ms(us / 1000 + 1);
        (void)pthread_cond_timedwait(&h->wake, &h->lock, &until);
    }
    pthread_mutex_unlock(&h->lock);
    return !atomic_load(&h->quit);
}

static bool has_to_stop(const kt__full_hash *h) {
    return atomic_load_explicit(&h->quit, memory_order_relaxed) || busy_for(h) > 0;
}

/* ---- reading ---- */

/* Reads of a piece until its end or until there is something better to do; returns the place from
 * which to continue. false in *ok: it cannot be read. */
static uint64_t read_piece(kt__full_hash *h, kt__cold_reader *reader, uint64_t at, uint64_t end,
                           kt__hash *hash, bool *ok) {
    size_t n = end - at < KT__COLD_READ_BYTES ? (size_t)(end - at) : KT__COLD_READ_BYTES;
    uint64_t piece_end = at + n;
    kt__cold_reader_begin(reader, at, n);
    while (*ok && at < piece_end && !has_to_stop(h)) {
        n = piece_end - at < READ_BYTES ? (size_t)(piece_end - at) : READ_BYTES;
        *ok = kt__cold_reader_read(reader, at, h->buffer, n);
        if (*ok) kt__hash_add(hash, h->buffer, n);
        at += n;
    }
    kt__cold_reader_end(reader);
    return at;
}

static void hash_advance(kt__full_hash *h, uint64_t n) {
    pthread_mutex_lock(&h->lock);
    h->info.bytes_done += n;
    pthread_mutex_unlock(&h->lock);
}

static bool hash_file(kt__full_hash *h, const kt__filemap *map, kt__hash *hash) {
    kt__cold_reader reader;
    bool ok = kt__cold_reader_open(map, &reader, NULL) == KT_OK;
    for (uint64_t at = 0; ok && at < map->size;) {
        ok = wait_until_idle(h);
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
        if (!wait_until_idle(h)) return false;
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
    if (!atomic_load(&h->quit)) kt__priority_background();
    kt__hash_init(&hash, SEED);
    bool ok = hash_parts(h, &hash);
    kt__digest digest = kt__hash_end(&hash);
    pthread_mutex_lock(&h->lock);
    h->info.state = ok ? KT_HASH_KNOWN : KT_HASH_FAILED;
    if (ok) kt__digest_bytes(digest, h->info.hash);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

kt_status kt__full_hash_start(kt__full_hash *h, kt_error *err) {
    kt_status status = KT_OK;
    pthread_mutex_lock(&h->lock);
    if (!h->started) {
        if (!h->buffer) h->buffer = kt__malloc(READ_BYTES);
        h->started_us = kt__now_us();
        int rc = ENOMEM;
        if (h->buffer) rc = kt__thread_start(&h->thread, "kt-hash", STACK_BYTES, hash_all, h);
        h->started = rc == 0;
        if (rc == 0) h->info.state = KT_HASH_RUNNING;
        if (rc != 0)
            status = kt__fail(err, KT_E_NOMEM, "no thread for the model's hash: %s", strerror(rc));
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}
