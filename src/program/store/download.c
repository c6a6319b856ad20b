#include "store/fetch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/thread.h"
#include "convert/write.h"

enum {
    CHUNK_BYTES = 4 << 20,
    STACK_BYTES = 1 << 20, /* addresses are long */
    HASH_BYTES = 1 << 20,
    MAX_CONNECTIONS = 16,
    TRIES_WITHOUT_PROGRESS = 5,
    SHOW_MS = 200,
    CHECKPOINT_NS = 2000000000,
    DOWNLOAD_SEED = 0x70756c6c
};

void kt__remote_free(kt__remote *remote) {
    kt__free(remote->url);
    kt__free(remote->name);
    *remote = (kt__remote){0};
}

/* ---- what the server has ---- */

/* A version that If-Range may name: weak ones do not promise equal bytes. */
static const char *strong_etag(const char *etag) {
    return etag[0] == '"' ? etag : NULL;
}

static bool stop_at_once(void *user, const kt__fetch_reply *reply, const void *data, size_t n) {
    size_t *seen = user;
    (void)data;
    *seen += n;
    return reply->code == 206 && *seen < 4096; /* one byte; of a whole file nothing is wanted */
}

/* "\"9f86...\"" of 64 letters is the file's SHA-256 */
static void take_sha(const char *etag, char sha[KT__SHA_HEX]) {
    const char *p = etag + (etag[0] == '"');
    size_t len = strspn(p, "0123456789abcdef");
    if (sha[0] || len != KT__SHA_HEX - 1 || (p[len] && p[len] != '"')) return;
    memcpy(sha, p, len);
    sha[len] = '\0';
}

static kt_status check_probe(kt__remote *r, const kt__fetch_reply *reply, kt_error *err) {
    uint64_t bytes = reply->code == 200 ? reply->length : reply->total;
    if (bytes == UINT64_MAX)
        bytes = r->bytes; /* the hub's list said it, where the server does not */
    if (bytes == UINT64_MAX)
        return kt__fail_at(err, KT_E_IO, reply->url, UINT64_MAX,
                           "the server does not say how long \"%.100s\" is", r->name);
    if (reply->code == 206 && reply->first != 0)
        return kt__fail_at(err, KT_E_IO, reply->url, UINT64_MAX,
                           "the server sent another part than was asked for");
    if (r->bytes != UINT64_MAX && r->bytes != bytes)
        return kt__fail_at(err, KT_E_FORMAT, reply->url, UINT64_MAX,
                           "the hub's list says that \"%.100s\" has %llu bytes, the server says "
                           "%llu",
                           r->name, (unsigned long long)r->bytes, (unsigned long long)bytes);
    r->bytes = bytes;
    r->ranged = reply->code == 206;
    return KT_OK;
}

kt_status kt__remote_probe(kt__fetch *fetch, kt__remote *remote, kt_error *err) {
    if (remote->bytes == 0) return KT_OK; /* there is nothing to ask for */
    size_t seen = 0;
    const kt__fetch_request request = {
        .url = remote->url, .range = "0-0", .sink = stop_at_once, .user = &seen};
    kt__fetch_reply reply;
    kt_status status = KT_OK;
    for (int i = 0; i < 3; i++) {
        const struct timespec pause = {.tv_nsec = 200000000L << i};
        status = kt__fetch_url(fetch, &request, &reply, err);
        if (status == KT_OK || !reply.may_retry) break;
        (void)nanosleep(&pause, NULL);
    }
    if (reply.code == 416 && reply.total == 0) status = KT_OK; /* no byte is there to be sent */
    if (status == KT_OK) status = check_probe(remote, &reply, err);
    if (status != KT_OK) return status;
    memcpy(remote->etag, reply.etag, sizeof remote->etag);
    take_sha(reply.linked_etag, remote->sha);
    return KT_OK;
}

/* ---- the connections ---- */

typedef struct download {
    const kt__access *access;
    const kt__remote *remote;
    const kt__download_params *params;
    kt__part part;
    size_t n_chunks, next_chunk, n_prefix; /* n_prefix: done without a gap */
    bool *chunk_done;
    atomic_uint_fast64_t received; /* for the eye: may count bytes twice after a drop */
    int n_working, n_threads;
    pthread_t threads[MAX_CONNECTIONS];
    kt_status status; /* of the first failure */
    kt_error error;
    pthread_mutex_t lock;
    pthread_cond_t change;
} download;

/* One chunk on its way. */
typedef struct piece {
    download *d;
    uint64_t at, end;
    bool looked_at;   /* the answer is the one that was asked for */
    kt_status status; /* why the sink ended it */
    kt_error error;
} piece;

static bool refuse_piece(piece *p, kt_status code, const char *url, const char *what) {
    p->status = kt__fail_at(&p->error, code, url, UINT64_MAX, "%s", what);
    return false;
}

/* The answer must be the part that was asked for, of the version that was probed. */
static bool check_answer(piece *p, const kt__fetch_reply *reply) {
    const kt__remote *r = p->d->remote;
    bool same = !r->etag[0] || !strcmp(r->etag, reply->etag);
    uint64_t total = reply->code == 206 ? reply->total : reply->length;
    if (!same || (total != UINT64_MAX && total != r->bytes))
        return refuse_piece(p, KT_E_STATE, reply->url,
                            "the file on the server changed while it was fetched: run it again");
    if (r->ranged && (reply->code != 206 || reply->first != p->at))
        return refuse_piece(p, KT_E_STATE, reply->url,
                            "the server sent another part than was asked for: run it again");
    return true;
}

static bool take_piece(void *user, const kt__fetch_reply *reply, const void *data, size_t n) {
    piece *p = user;
    if (p->status != KT_OK || (!p->looked_at && !check_answer(p, reply))) return false;
    p->looked_at = true;
    if (n > p->end - p->at)
        return refuse_piece(p, KT_E_FORMAT, reply->url, "the server sent more than it said");
    p->status = kt__part_write(&p->d->part, data, n, p->at, &p->error);
    if (p->status != KT_OK) return false;
    p->at += n;
    atomic_fetch_add(&p->d->received, n);
    return true;
}

static bool download_failed(download *d) {
    pthread_mutex_lock(&d->lock);
    bool failed = d->status != KT_OK;
    pthread_mutex_unlock(&d->lock);
    return failed;
}

/* url: where the last answer came from; signed addresses expire, and the first one is asked
 * again. */
static kt_status fetch_piece(kt__fetch *fetch, piece *p, char url[KT__FETCH_ADDRESS],
                             kt_error *err) {
    const kt__remote *r = p->d->remote;
    kt__fetch_reply reply;
    char range[64];
    uint64_t from = p->at = r->ranged ? p->at : 0;
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)from,
             (unsigned long long)p->end - 1);
    const kt__fetch_request request = {.url = url,
                                       .range = r->ranged ? range : NULL,
                                       .if_range = r->ranged ? strong_etag(r->etag) : NULL,
                                       .sink = take_piece,
                                       .user = p};
    p->looked_at = false;
    kt_status status = kt__fetch_url(fetch, &request, &reply, err);
    if (p->status != KT_OK) {
        *err = p->error;
        return p->status;
    }
    bool was_first = !strcmp(url, r->url);
    snprintf(url, KT__FETCH_ADDRESS, "%s", status == KT_OK ? reply.url : r->url);
    if (p->at == p->end) return KT_OK;
    if (status == KT_E_CANCELLED) return status;
    if (status == KT_OK || reply.may_retry || !was_first || p->at > from)
        return kt__fail_at(err, KT_E_BUSY, r->url, p->at,
                           "the connection ended after %llu of %llu bytes, again and again: run "
                           "it again later, what is here is kept",
                           (unsigned long long)p->at, (unsigned long long)r->bytes);
    return status;
}

/* Continues where it stopped until no progress is made for several tries. */
static kt_status fetch_chunk(download *d, kt__fetch *fetch, size_t chunk,
                             char url[KT__FETCH_ADDRESS], kt_error *err) {
    uint64_t whole = d->remote->bytes, step = d->remote->ranged ? CHUNK_BYTES : whole;
    piece p = {.d = d, .at = chunk * step};
    p.end = whole - p.at < step ? whole : p.at + step;
    for (int tries = 0;; tries++) {
        const struct timespec pause = {.tv_sec = tries > 3, .tv_nsec = 100000000L << (tries & 3)};
        uint64_t before = p.at;
        kt_status status = fetch_piece(fetch, &p, url, err);
        if (status != KT_E_BUSY || tries >= TRIES_WITHOUT_PROGRESS || download_failed(d))
            return status == KT_E_BUSY ? KT_E_IO : status;
        if (d->remote->ranged && p.at > before) tries = 0;
        (void)nanosleep(&pause, NULL);
    }
}

static bool claim_chunk(download *d, size_t *chunk) {
    pthread_mutex_lock(&d->lock);
    bool more = d->status == KT_OK && d->next_chunk < d->n_chunks;
    if (more) *chunk = d->next_chunk++;
    pthread_mutex_unlock(&d->lock);
    return more;
}

static void note_chunk(download *d, size_t chunk, kt_status status, const kt_error *err) {
    pthread_mutex_lock(&d->lock);
    if (status == KT_OK) {
        d->chunk_done[chunk] = true;
        while (d->n_prefix < d->n_chunks && d->chunk_done[d->n_prefix]) d->n_prefix++;
    } else if (d->status == KT_OK) {
        d->status = status;
        d->error = *err;
        d->error.code = status;
    }
    pthread_cond_signal(&d->change);
    pthread_mutex_unlock(&d->lock);
}

static void *run_connection(void *arg) {
    download *d = arg;
    kt__fetch *fetch;
    kt_error err;
    size_t chunk;
    char url[KT__FETCH_ADDRESS];
    snprintf(url, sizeof url, "%s", d->remote->url);
    kt_status status = kt__fetch_open(d->access, &fetch, &err);
    if (status != KT_OK) note_chunk(d, 0, status, &err);
    while (status == KT_OK && claim_chunk(d, &chunk)) {
        status = fetch_chunk(d, fetch, chunk, url, &err);
        note_chunk(d, chunk, status, &err);
    }
    kt__fetch_close(fetch);
    pthread_mutex_lock(&d->lock);
    d->n_working--;
    pthread_cond_signal(&d->change);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- the caller's thread: checksum, checkpoints, progress ---- */

typedef struct follower {
    kt__sha sha;
    uint64_t hashed;
    int64_t kept_ns;
    uint8_t *bytes; /* [HASH_BYTES] */
} follower;

/* Everything up to `to` is on the disk, or on its way there. */
static kt_status hash_up_to(download *d, follower *f, uint64_t to, kt_error *err) {
    while (f->hashed < to) {
        size_t n = to - f->hashed < HASH_BYTES ? (size_t)(to - f->hashed) : HASH_BYTES;
        if (d->remote->sha[0] && !kt__fd_read_at(d->part.fd, f->bytes, n, f->hashed))
            return kt__fail_at(err, KT_E_IO, d->part.path, f->hashed, "cannot read it back");
        if (d->remote->sha[0]) kt__sha_add(&f->sha, f->bytes, n);
        f->hashed += n;
    }
    return KT_OK;
}

static uint64_t prefix_bytes(const download *d) {
    uint64_t whole = d->remote->bytes;
    if (!d->remote->ranged) return d->n_prefix ? whole : 0;
    return d->n_prefix == d->n_chunks ? whole : d->n_prefix * (uint64_t)CHUNK_BYTES;
}

static void show_progress(download *d) {
    uint64_t whole = d->remote->bytes, seen = atomic_load(&d->received);
    if (d->params->progress)
        d->params->progress(d->params->user, seen < whole ? seen : whole, whole);
}

/* Without the lock. */
static kt_status follow_prefix(download *d, follower *f, uint64_t prefix, bool last,
                               kt_error *err) {
    int64_t now = kt__now_ns();
    kt_status status = hash_up_to(d, f, prefix, err);
    show_progress(d);
    if (status != KT_OK || prefix == d->part.good) return status;
    if (!last && now - f->kept_ns < CHECKPOINT_NS) return KT_OK;
    status = kt__part_checkpoint(&d->part, prefix, err);
    f->kept_ns = kt__now_ns();
    return status;
}

static kt_status follow_connections(download *d, follower *f, kt_error *err) {
    kt_status status = KT_OK;
    bool last = false;
    while (!last) {
        struct timespec until = kt__time_in_ms(SHOW_MS);
        pthread_mutex_lock(&d->lock);
        if (d->n_working) pthread_cond_timedwait(&d->change, &d->lock, &until);
        last = d->n_working == 0;
        uint64_t prefix = prefix_bytes(d);
        pthread_mutex_unlock(&d->lock);
        if (status == KT_OK) status = follow_prefix(d, f, prefix, last, err);
        if (status != KT_OK) note_chunk(d, 0, status, err);
    }
    for (int i = 0; i < d->n_threads; i++) pthread_join(d->threads[i], NULL);
    if (d->status != KT_OK) *err = d->error;
    return d->status;
}

static void start_connections(download *d) {
    int wanted = d->remote->ranged ? d->params->n_connections : 1;
    size_t left = d->n_chunks - d->n_prefix;
    if (wanted > MAX_CONNECTIONS) wanted = MAX_CONNECTIONS;
    if ((size_t)wanted > left) wanted = (int)left;
    for (int i = 0; i < wanted; i++) {
        pthread_mutex_lock(&d->lock);
        bool started = kt__thread_start(&d->threads[d->n_threads], "kt-fetch", STACK_BYTES,
                                        run_connection, d) == 0;
        d->n_working += started;
        d->n_threads += started;
        if (!started && !d->n_working) d->status = kt__fail_nomem(&d->error, "a thread", 0);
        pthread_mutex_unlock(&d->lock);
    }
}

/* ---- the whole ---- */

static kt__digest identity_of(const kt__remote *r) {
    kt__hash hash;
    kt__hash_init(&hash, DOWNLOAD_SEED);
    kt__hash_add(&hash, &r->bytes, sizeof r->bytes);
    kt__hash_add(&hash, r->sha, strlen(r->sha) + 1);
    kt__hash_add(&hash, r->etag, strlen(r->etag) + 1);
    if (!r->sha[0] && !r->etag[0]) kt__hash_add(&hash, r->url, strlen(r->url));
    return kt__hash_end(&hash);
}

static kt_status check_sha(const kt__remote *r, follower *f, kt_error *err) {
    char found[KT__SHA_HEX];
    if (!r->sha[0]) return KT_OK;
    kt__sha_end(&f->sha, found);
    if (!strcmp(found, r->sha)) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, r->url, UINT64_MAX,
                       "the bytes that came are not the hub's: checksum %.64s, expected %.64s; "
                       "they were thrown away, run it again",
                       found, r->sha);
}

static kt_status download_open(download *d, follower *f, const char *target, kt_error *err) {
    const kt__remote *r = d->remote;
    kt_status status = kt__part_open(target, r->bytes, identity_of(r), &d->part, err);
    if (status != KT_OK) return status;
    uint64_t step = r->ranged || r->bytes == 0 ? CHUNK_BYTES : r->bytes;
    d->n_chunks = (size_t)((r->bytes + step - 1) / step);
    d->n_prefix = (size_t)(d->part.good / step);
    if (d->part.good == r->bytes) d->n_prefix = d->n_chunks;
    d->next_chunk = d->n_prefix;
    atomic_store(&d->received, prefix_bytes(d));
    d->chunk_done = kt__calloc(d->n_chunks + 1, sizeof *d->chunk_done);
    f->bytes = kt__malloc(HASH_BYTES);
    if (!d->chunk_done || !f->bytes) return kt__fail_nomem(err, "a download", d->n_chunks);
    if (strlen(r->sha) == 40)
        kt__sha1_begin_blob(&f->sha, r->bytes);
    else
        kt__sha256_begin(&f->sha);
    return KT_OK;
}

kt_status kt__download(const kt__access *access, const kt__remote *remote, const char *target,
                       const kt__download_params *params, kt_error *err) {
    download d = {.access = access, .remote = remote, .params = params};
    follower f = {.kept_ns = kt__now_ns()};
    bool wrong = false;
    kt_status status;
    pthread_mutex_init(&d.lock, NULL);
    if (kt__cond_init(&d.change) != 0) {
        pthread_mutex_destroy(&d.lock);
        return kt__fail_nomem(err, "a download", 0);
    }
    KT__TRY(download_open(&d, &f, target, err));
    start_connections(&d);
    status = follow_connections(&d, &f, err);
    wrong = status == KT_E_STATE;
    KT__TRY(status);
    wrong = true;
    KT__TRY(check_sha(remote, &f, err));
    wrong = false;
    KT__TRY(kt__part_finish(&d.part, err));
out:
    if (wrong)
        kt__part_remove(&d.part);
    else
        kt__part_close(&d.part);
    kt__free(d.chunk_done);
    kt__free(f.bytes);
    pthread_cond_destroy(&d.change);
    pthread_mutex_destroy(&d.lock);
    return status;
}
