#include "kv/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/system.h"
#include "base/thread.h"
#include "kv/image.h"
#include "kv/prefix.h"

enum {
    HEADER_BYTES = 256,
    VERSION = 1,
    BYTE_ORDER_MARK = 0x01020304,
    SEED = 0x4b564249,
    MIN_SLOTS = 2,
    MAX_SLOTS = 4096,
    MAX_END_SLOTS = 16,
    DEFAULT_SLOTS = 40, /* at least: a prompt's slice of 512 tokens becomes known at once */
    MIN_FILES = 16,     /* blocks that max_bytes holds */
    MIN_ENDS = 4,
    N_LOST = 256,
    PATIENCE_NS = 3000000,   /* that a block waits for a place in the queue */
    USE_S = 60,              /* a use is noted if the last one is older */
    PAUSE_US = 30 * 1000000, /* after a failed write */
    SWEEP_SHARE = 32         /* of max_bytes written by us: time to look at the whole */
};
#define DEFAULT_BYTES ((uint64_t)8 << 30)
#define DEFAULT_QUEUE ((uint64_t)32 << 20)
static const char magic[16] = "kentang k/v bloc";

/* where things lie in a file's header */
enum {
    AT_VERSION = 16,
    AT_ORDER = 20,
    AT_BYTES = 24,
    AT_BINDING = 32,
    AT_KEY = 64,
    AT_PARENT = 80,
    AT_INDEX = 96,
    AT_KIND = 100, /* kt__disk_kind */
    AT_IDS = 104,
    AT_BLOCK_DIGEST = AT_IDS + 4 * KT__PAGE_POS,
    AT_FULL_HASH = AT_BLOCK_DIGEST + 32, /* of the model's files, its first bytes; zeros: unknown */
    FULL_HASH_BYTES = 24,
    AT_DIGEST = HEADER_BYTES - 32
};
_Static_assert(AT_FULL_HASH + FULL_HASH_BYTES <= AT_DIGEST, "header");

/* What waits to be written. */
typedef struct slot {
    kt__kv_block block; /* its ids point to `ids` */
    int32_t ids[KT__PAGE_POS];
    uint8_t *file; /* the content after HEADER_BYTES */
} slot;

/* The slots of one kind: a ring, n_waiting of them from `first` on. */
typedef struct queue {
    kt__disk_kind kind;
    slot *slots; /* [n_slots] */
    uint8_t *bytes;
    size_t n_slots, first, n_waiting;
    size_t most_bytes; /* of a file */
} queue;

struct kt__disk {
    kt__kv_shape shape;
    uint64_t max_bytes;
    kt__digest binding;
    void (*full_hash)(void *user, uint8_t out[KT__DISK_HASH_BYTES]);
    void *full_hash_user;
    kt__logger *log;
    int root, dir; /* DIR and the binding's directory below it */
    char *path;
    uint8_t *read_file; /* [the largest file's bytes], get's */

    pthread_mutex_t lock;
    pthread_cond_t work, idle, room;
    pthread_t thread;
    bool has_thread, stop;
    queue blocks, ends;      /* ends: without slots where the shape needs none */
    kt__kv_key lost[N_LOST]; /* not kept recently: blocks that follow them could never be found */
    size_t n_lost, next_lost;
    /* an unusable file was seen: there may be more, so files are written again */
    bool distrust;
    kt_cache_stats stats;

    /* the writing thread's */
    uint64_t unswept_bytes;
    int64_t paused_until_us;
    uint64_t n_temp;
    bool warned;
};

/* ---- a block's file ---- */

static void put_key(uint8_t *out, kt__kv_key key) {
    kt__le_put(out, key.w[0], 8);
    kt__le_put(out + 8, key.w[1], 8);
}

/* Of a file's content; its length follows from what it holds. */
static size_t content_bytes(const kt__disk *d, kt__disk_kind kind, const kt__kv_block *b) {
    return kind == KT__DISK_END
               ? kt__kv_end_bytes(&d->shape, ((int64_t)b->index + 1) * KT__PAGE_POS)
               : kt__kv_block_bytes(&d->shape);
}

/* All of the header but the content's digest and its own. */
static void frame_file(const kt__disk *d, kt__disk_kind kind, const kt__kv_block *b,
                       uint8_t h[HEADER_BYTES]) {
    memset(h, 0, HEADER_BYTES);
    memcpy(h, magic, sizeof magic);
    kt__le_put(h + AT_VERSION, VERSION, 4);
    kt__le_put(h + AT_ORDER, BYTE_ORDER_MARK, 4);
    kt__le_put(h + AT_BYTES, content_bytes(d, kind, b), 8);
    kt__digest_bytes(d->binding, h + AT_BINDING);
    put_key(h + AT_KEY, b->key);
    put_key(h + AT_PARENT, b->parent);
    kt__le_put(h + AT_INDEX, (uint64_t)b->index, 4);
    kt__le_put(h + AT_KIND, (uint64_t)kind, 4);
    for (int i = 0; i < KT__PAGE_POS; i++) kt__le_put(h + AT_IDS + 4 * i, (uint64_t)b->ids[i], 4);
}

static void get_full_hash(const kt__disk *d, uint8_t out[KT__DISK_HASH_BYTES]) {
    memset(out, 0, KT__DISK_HASH_BYTES);
    if (d->full_hash) d->full_hash(d->full_hash_user, out);
}

static void sign_file(const kt__disk *d, uint8_t *file, size_t bytes) {
    uint8_t full_hash[KT__DISK_HASH_BYTES];
    get_full_hash(d, full_hash);
    memcpy(file + AT_FULL_HASH, full_hash, FULL_HASH_BYTES);
    kt__digest_bytes(kt__hash_bytes(SEED, file + HEADER_BYTES, bytes), file + AT_BLOCK_DIGEST);
    kt__digest_bytes(kt__hash_bytes(SEED, file, AT_DIGEST), file + AT_DIGEST);
}

/* Whether file is what we would have written of this block. */
static bool is_valid(const kt__disk *d, kt__disk_kind kind, const kt__kv_block *b,
                     const uint8_t *file) {
    uint8_t h[HEADER_BYTES];
    frame_file(d, kind, b, h);
    if (memcmp(h, file, AT_BLOCK_DIGEST) != 0) return false;
    return kt__field_has_digest(file + AT_DIGEST, kt__hash_bytes(SEED, file, AT_DIGEST)) &&
           kt__field_has_digest(file + AT_BLOCK_DIGEST, kt__hash_bytes(SEED, file + HEADER_BYTES,
                                                                       content_bytes(d, kind, b)));
}

/* Of a valid file: whether it was computed with a model that agrees with ours in the fingerprint
 * only. */
static bool is_of_another_model(const kt__disk *d, const uint8_t *file) {
    uint8_t ours[KT__DISK_HASH_BYTES];
    get_full_hash(d, ours);
    return kt__field_hashes_differ(ours, file + AT_FULL_HASH, FULL_HASH_BYTES);
}

static void note_use(int fd, const struct stat *st) {
    if (time(NULL) - st->st_mtime < USE_S) return;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    (void)futimens(fd, times); /* no permission: the file looks less recently used than it is */
}

typedef enum found { FOUND, ABSENT, DAMAGED, FOREIGN } found;

static found read_file(const kt__disk *d, kt__disk_kind kind, const kt__kv_block *b,
                       const char *name) {
    struct stat st;
    size_t bytes = HEADER_BYTES + content_bytes(d, kind, b);
    int fd = openat(d->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? ABSENT : DAMAGED;
    bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)bytes &&
              kt__fd_read_at(fd, d->read_file, bytes, 0) && is_valid(d, kind, b, d->read_file);
    bool foreign = ok && is_of_another_model(d, d->read_file);
    if (ok && !foreign) note_use(fd, &st);
    close(fd);
    return foreign ? FOREIGN : ok ? FOUND : DAMAGED;
}

/* ---- the store ---- */

/* Its content, until the next call; NULL: not there. */
static const uint8_t *fetch_content(kt__disk *d, kt__disk_kind kind, const kt__kv_block *b) {
    char name[KT__DISK_NAME_BYTES];
    kt__disk_name(b, kind, name);
    found result = read_file(d, kind, b, name);
    bool unusable = result == DAMAGED || result == FOREIGN;
    if (unusable) (void)unlinkat(d->dir, name, 0); /* so that it can be written again */
    pthread_mutex_lock(&d->lock);
    d->stats.n_found += result == FOUND;
    d->stats.n_missed += result == ABSENT || result == FOREIGN;
    d->stats.n_damaged += result == DAMAGED;
    d->distrust |= unusable;
    if (result == FOUND) d->stats.bytes_read += HEADER_BYTES + content_bytes(d, kind, b);
    pthread_mutex_unlock(&d->lock);
    return result == FOUND ? d->read_file + HEADER_BYTES : NULL;
}

static bool disk_get(void *user, const kt__kv_block *b, kt__kv *kv, int32_t page) {
    const uint8_t *content = fetch_content(user, KT__DISK_BLOCK, b);
    if (content) kt__kv_block_write(kv, page, content);
    return content != NULL;
}

static bool disk_get_end(void *user, const kt__kv_block *b, kt__kv *kv, const kt__kv_end *end) {
    const uint8_t *content = fetch_content(user, KT__DISK_END, b);
    if (content) kt__kv_end_write(kv, end, content);
    return content != NULL;
}

static bool is_on_disk(const kt__disk *d, kt__disk_kind kind, const kt__kv_block *b) {
    char name[KT__DISK_NAME_BYTES];
    kt__disk_name(b, kind, name);
    return faccessat(d->dir, name, F_OK, 0) == 0;
}

static bool disk_has(void *user, const kt__kv_block *b) {
    return is_on_disk(user, KT__DISK_BLOCK, b);
}

static bool disk_has_end(void *user, const kt__kv_block *b) {
    return is_on_disk(user, KT__DISK_END, b);
}

static bool disk_lacks(void *user, const kt__kv_block *b, bool end) {
    kt__disk *d = user;
    pthread_mutex_lock(&d->lock);
    bool distrust = d->distrust;
    pthread_mutex_unlock(&d->lock);
    return distrust || !is_on_disk(d, end ? KT__DISK_END : KT__DISK_BLOCK, b);
}

/* Zeros, of places that are free again and of ends that follow nothing, are no block's key. */
static bool is_lost(const kt__disk *d, kt__kv_key key) {
    if (!key.w[0] && !key.w[1]) return false;
    for (size_t i = 0; i < d->n_lost; i++) {
        if (kt__kv_key_equal(d->lost[i], key)) return true;
    }
    return false;
}

static void mark_lost(kt__disk *d, kt__kv_key key) {
    d->stats.n_dropped++;
    if (is_lost(d, key)) return;
    d->lost[d->next_lost] = key;
    d->next_lost = (d->next_lost + 1) % N_LOST;
    if (d->n_lost < N_LOST) d->n_lost++;
}

static void unmark_lost(kt__disk *d, kt__kv_key key) {
    for (size_t i = 0; i < d->n_lost; i++) {
        if (kt__kv_key_equal(d->lost[i], key)) d->lost[i] = (kt__kv_key){{0, 0}};
    }
}

/* A place in the queue; false where none comes free for a short while: the disk is slower than the
 * computation, and the blocks that follow do not wait. The lock is held. */
static bool wait_for_room(kt__disk *d, const queue *q) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (q->n_waiting == q->n_slots) {
        if (pthread_cond_timedwait(&d->room, &d->lock, &until) != 0) return false;
    }
    return true;
}

/* The slot after the waiting ones, the caller's to fill: the writing thread does not look at it
 * yet. NULL: there is no room, or what b follows was not kept. */
static slot *begin_put(kt__disk *d, queue *q, const kt__kv_block *b) {
    pthread_mutex_lock(&d->lock);
    bool keep = !d->stop && !is_lost(d, b->parent) && wait_for_room(d, q);
    if (!keep && q->kind == KT__DISK_BLOCK) mark_lost(d, b->key);
    if (!keep && q->kind == KT__DISK_END) d->stats.n_dropped++;
    slot *s = &q->slots[(q->first + q->n_waiting) % q->n_slots];
    pthread_mutex_unlock(&d->lock);
    if (!keep) return NULL;
    s->block = *b;
    memcpy(s->ids, b->ids, sizeof s->ids);
    s->block.ids = s->ids;
    return s;
}

static void finish_put(kt__disk *d, queue *q, const slot *s) {
    pthread_mutex_lock(&d->lock);
    if (q->kind == KT__DISK_BLOCK) unmark_lost(d, s->block.key);
    q->n_waiting++;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
}

static void disk_put(void *user, const kt__kv_block *b, const kt__kv *kv, int32_t page) {
    kt__disk *d = user;
    slot *s = begin_put(d, &d->blocks, b);
    if (!s) return;
    kt__kv_block_read(kv, page, s->file + HEADER_BYTES);
    finish_put(d, &d->blocks, s);
}

static void disk_put_end(void *user, const kt__kv_block *b, const kt__kv *kv,
                         const kt__kv_end *end) {
    kt__disk *d = user;
    slot *s = begin_put(d, &d->ends, b);
    if (!s) return;
    kt__kv_end_read(kv, end, s->file + HEADER_BYTES);
    finish_put(d, &d->ends, s);
}

uint64_t kt__disk_queue_bytes(const kt__disk *d) {
    uint64_t bytes = (uint64_t)d->blocks.n_slots * d->blocks.most_bytes;
    /* and what an end is read into */
    if (d->ends.n_slots) bytes += (uint64_t)(d->ends.n_slots + 1) * d->ends.most_bytes;
    return bytes;
}

kt__kv_store kt__disk_store(kt__disk *d) {
    kt__kv_store store = {.user = d, .get = disk_get, .put = disk_put, .has = disk_has};
    if (!d->ends.n_slots) return store;
    store.get_end = disk_get_end;
    store.put_end = disk_put_end;
    store.has_end = disk_has_end;
    store.lacks = disk_lacks;
    return store;
}

/* ---- the writing thread ---- */

typedef enum wrote { WROTE, PRESENT, FAILED } wrote;

static wrote write_new(kt__disk *d, const slot *s, size_t bytes, const char *name) {
    char temp[64];
    snprintf(temp, sizeof temp, ".tmp-%ld-%" PRIx64 "-%" PRIx64, (long)getpid(),
             (uint64_t)(uintptr_t)d, d->n_temp++);
    int fd = openat(d->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return FAILED;
    bool ok = kt__fd_write(fd, s->file, bytes);
    int why = errno;
    if (close(fd) != 0 && ok) ok = false, why = errno;
    if (ok && renameat(d->dir, temp, d->dir, name) != 0) ok = false, why = errno;
    if (ok) return WROTE;
    (void)unlinkat(d->dir, temp, 0);
    errno = why;
    return FAILED;
}

static wrote write_slot(kt__disk *d, kt__disk_kind kind, slot *s, bool distrust) {
    size_t bytes = content_bytes(d, kind, &s->block);
    char name[KT__DISK_NAME_BYTES];
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    kt__disk_name(&s->block, kind, name);
    if (!distrust && utimensat(d->dir, name, times, AT_SYMLINK_NOFOLLOW) == 0) return PRESENT;
    frame_file(d, kind, &s->block, s->file);
    sign_file(d, s->file, bytes);
    return write_new(d, s, HEADER_BYTES + bytes, name);
}

static void warn_once(kt__disk *d, int why) {
    if (d->warned || !d->log) return;
    d->warned = true;
    kt__log_line(d->log, KT_LOG_WARN,
                 "the cache in %s cannot be written: %s; it is tried again now and then", d->path,
                 strerror(why));
}

static bool is_sweep_due(const kt__disk *d) {
    return d->unswept_bytes > d->max_bytes / SWEEP_SHARE;
}

static void sweep_files(kt__disk *d, bool wait) {
    kt__disk_swept swept;
    if (!kt__disk_sweep(d->root, d->max_bytes, wait, &swept))
        return; /* again after the next block */
    d->unswept_bytes = 0;
    pthread_mutex_lock(&d->lock);
    d->stats.n_evicted += swept.n_removed;
    pthread_mutex_unlock(&d->lock);
}

/* Writes one slot, with the lock released meanwhile. */
static void write_one(kt__disk *d, queue *q) {
    slot *s = &q->slots[q->first];
    size_t bytes = HEADER_BYTES + content_bytes(d, q->kind, &s->block);
    bool distrust = d->distrust;
    pthread_mutex_unlock(&d->lock);
    wrote result = FAILED;
    if (kt__now_us() >= d->paused_until_us) {
        result = write_slot(d, q->kind, s, distrust);
        if (result == FAILED) {
            warn_once(d, errno);
            d->paused_until_us = kt__now_us() + PAUSE_US;
        }
    }
    if (result == WROTE) d->unswept_bytes += bytes;
    if (is_sweep_due(d)) sweep_files(d, false);
    pthread_mutex_lock(&d->lock);
    d->stats.n_written += result == WROTE;
    d->stats.n_present += result == PRESENT;
    d->stats.n_failed += result == FAILED;
    if (result == WROTE) d->stats.bytes_written += bytes;
    if (result == FAILED && q->kind == KT__DISK_BLOCK) mark_lost(d, s->block.key);
    q->first = (q->first + 1) % q->n_slots;
    q->n_waiting--;
    pthread_cond_signal(&d->room);
}

/* Blocks first: an end is of no use without those that lead to it. NULL: nothing waits. */
static queue *next_to_write(kt__disk *d) {
    return d->blocks.n_waiting ? &d->blocks : d->ends.n_waiting ? &d->ends : NULL;
}

static void *write_all(void *user) {
    kt__disk *d = user;
    sweep_files(d, false);
    pthread_mutex_lock(&d->lock);
    for (;;) {
        for (queue *q; (q = next_to_write(d)) != NULL;) write_one(d, q);
        pthread_cond_broadcast(&d->idle);
        if (d->stop) break;
        pthread_cond_wait(&d->work, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    if (is_sweep_due(d))
        sweep_files(d, true); /* another process was sweeping when it was due before */
    return NULL;
}

void kt__disk_flush(kt__disk *d) {
    pthread_mutex_lock(&d->lock);
    while (next_to_write(d)) pthread_cond_wait(&d->idle, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

void kt__disk_get_stats(kt__disk *d, kt_cache_stats *out) {
    pthread_mutex_lock(&d->lock);
    *out = d->stats;
    pthread_mutex_unlock(&d->lock);
}

/* ---- opening ---- */

static kt_status fail_dir(const kt__disk *d, const char *what, kt_error *err) {
    return kt__fail_system(err, errno, d->path, "the cache directory %s", what);
}

/* mkdir -p */
static kt_status make_path(const kt__disk *d, kt_error *err) {
    char *end = d->path;
    bool ok = true;
    while (ok && *end) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char was = *end;
        *end = '\0';
        ok = mkdir(d->path, 0700) == 0 || errno == EEXIST || errno == EROFS || errno == EACCES;
        *end = was;
    }
    return ok ? KT_OK : fail_dir(d, "cannot be made", err);
}

/* Blocks become part of answers, so no other user may be able to write them. */
static kt_status check_owner(const kt__disk *d, kt_error *err) {
    struct stat st;
    if (fstat(d->dir, &st) != 0) return fail_dir(d, "cannot be read", err);
    if (st.st_uid == geteuid() && !(st.st_mode & 022)) return KT_OK;
    return kt__fail_at(
        err, KT_E_ARG, d->path, UINT64_MAX,
        "others may write to the cache directory: give one that belongs to you, with "
        "mode 0700");
}

static kt_status open_directories(kt__disk *d, kt_error *err) {
    char name[KT__DISK_DIR_BYTES + 1];
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    kt_status status = make_path(d, err);
    if (status != KT_OK) return status;
    d->root = open(d->path, flags);
    if (d->root < 0) return fail_dir(d, "cannot be opened", err);
    snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64, d->binding.w[0], d->binding.w[1]);
    if (mkdirat(d->root, name, 0700) != 0 && errno != EEXIST)
        return fail_dir(d, "cannot be written", err);
    d->dir = openat(d->root, name, flags | O_NOFOLLOW);
    if (d->dir < 0) return fail_dir(d, "cannot be opened", err);
    return check_owner(d, err);
}

static kt_status make_queue(queue *q, size_t n_slots, size_t most_bytes, kt_error *err) {
    q->n_slots = n_slots;
    q->most_bytes = most_bytes;
    q->slots = kt__calloc(n_slots, sizeof *q->slots);
    q->bytes = kt__calloc(n_slots, most_bytes); /* touched as it is used */
    if (!q->slots || !q->bytes)
        return kt__fail_nomem(err, "the disk cache's queue", n_slots * most_bytes);
    for (size_t i = 0; i < n_slots; i++) q->slots[i].file = q->bytes + i * most_bytes;
    return KT_OK;
}

static kt_status make_queues(kt__disk *d, uint64_t bytes, kt_error *err) {
    size_t block = HEADER_BYTES + kt__kv_block_bytes(&d->shape), most = block;
    uint64_t slots = (bytes ? bytes : DEFAULT_QUEUE) / block;
    kt_status status;
    if (!bytes && slots < DEFAULT_SLOTS) slots = DEFAULT_SLOTS;
    slots = slots < MIN_SLOTS ? MIN_SLOTS : slots > MAX_SLOTS ? MAX_SLOTS : slots;
    d->ends.kind = KT__DISK_END;
    KT__TRY(make_queue(&d->blocks, (size_t)slots, block, err));
    if (kt__kv_needs_ends(&d->shape)) {
        size_t end = HEADER_BYTES + kt__kv_end_bytes_most(&d->shape);
        slots = DEFAULT_QUEUE / end;
        slots = slots < MIN_SLOTS ? MIN_SLOTS : slots > MAX_END_SLOTS ? MAX_END_SLOTS : slots;
        KT__TRY(make_queue(&d->ends, (size_t)slots, end, err));
        if (end > most) most = end;
    }
    d->read_file = kt__malloc(most);
    if (!d->read_file) status = kt__fail_nomem(err, "what the disk cache reads into", most);
out:
    return status;
}

static void free_queue(queue *q) {
    kt__free(q->slots);
    kt__free(q->bytes);
}

static kt_status start_writer(kt__disk *d, kt_error *err) {
    int rc = kt__thread_start(&d->thread, "kentang-disk", 0, write_all, d);
    d->has_thread = rc == 0;
    return rc == 0 ? KT_OK
                   : kt__fail(err, KT_E_NOMEM, "no thread for the disk cache: %s", strerror(rc));
}

static kt_status check_size(const kt__disk *d, kt_error *err) {
    size_t block = HEADER_BYTES + kt__kv_block_bytes(&d->shape);
    size_t end = kt__kv_needs_ends(&d->shape) ? kt__kv_end_bytes_most(&d->shape) : 0;
    if (d->max_bytes / MIN_FILES < block)
        return kt__fail(err, KT_E_ARG,
                        "a disk cache of %" PRIu64
                        " bytes is too small: a block has %zu, and %d should fit",
                        d->max_bytes, block, MIN_FILES);
    if (d->max_bytes / MIN_ENDS < end)
        return kt__fail(err, KT_E_ARG,
                        "a disk cache of %" PRIu64
                        " bytes is too small: what a prompt continues from has %zu with this "
                        "model and these forms of K/V, and %d should fit",
                        d->max_bytes, end, MIN_ENDS);
    return KT_OK;
}

static kt_status disk_new(kt__disk **out, kt_error *err) {
    kt__disk *d = kt__calloc(1, sizeof *d);
    if (!d) return kt__fail_nomem(err, "the disk cache", sizeof *d);
    d->root = d->dir = -1;
    if (pthread_mutex_init(&d->lock, NULL) == 0) {
        if (pthread_cond_init(&d->work, NULL) == 0) {
            if (pthread_cond_init(&d->idle, NULL) == 0) {
                if (pthread_cond_init(&d->room, NULL) == 0) {
                    *out = d;
                    return KT_OK;
                }
                pthread_cond_destroy(&d->idle);
            }
            pthread_cond_destroy(&d->work);
        }
        pthread_mutex_destroy(&d->lock);
    }
    kt__free(d);
    return kt__fail_nomem(err, "the disk cache's lock", 0);
}

kt_status kt__disk_open(const kt__disk_params *params, const kt__kv_shape *shape, kt__disk **out,
                        kt_error *err) {
    kt__disk *d = NULL;
    *out = NULL;
    kt_status status = disk_new(&d, err);
    if (status != KT_OK) return status;
    d->shape = *shape;
    d->max_bytes = params->max_bytes ? params->max_bytes : DEFAULT_BYTES;
    d->binding = kt__hash_bytes(SEED, params->binding, params->n_binding);
    d->full_hash = params->full_hash;
    d->full_hash_user = params->full_hash_user;
    d->log = params->log;
    d->path = kt__strdup(params->dir);
    if (!d->path) {
        status = kt__fail_nomem(err, "a directory's name", 0);
        goto out;
    }
    KT__TRY(check_size(d, err));
    KT__TRY(open_directories(d, err));
    KT__TRY(make_queues(d, params->queue_bytes, err));
    KT__TRY(start_writer(d, err));
    *out = d;
    d = NULL;
out:
    kt__disk_close(d);
    return status;
}

void kt__disk_close(kt__disk *d) {
    if (!d) return;
    if (d->has_thread) {
        pthread_mutex_lock(&d->lock);
        d->stop = true;
        pthread_cond_signal(&d->work);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    if (d->dir >= 0) close(d->dir);
    if (d->root >= 0) close(d->root);
    pthread_cond_destroy(&d->room);
    pthread_cond_destroy(&d->idle);
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->lock);
    free_queue(&d->blocks);
    free_queue(&d->ends);
    kt__free(d->read_file);
    kt__free(d->path);
    kt__free(d);
}
