#include "context/full_hash.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"
#include "host/cold_reader.h"
#include "host/affinity.h"

enum {
    SEED = 2,               /* of the format of what is hashed */
    READ_BYTES = 64 << 10,  /* at a time: then it looks whether to stop */
    STACK_BYTES = 128 << 10 /* of the thread */
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
        if (h->buffer) rc = kt__idle_thread_start(&h->idle, "kt-hash", STACK_BYTES, hash_all, h);
        if (rc == 0) h->info.state = KT_HASH_RUNNING;
        if (rc != 0)
            status = kt__fail(err, KT_E_NOMEM, "no thread for the model's hash: %s", strerror(rc));
    }
    pthread_mutex_unlock(&h->idle.lock);
    return status;
}
