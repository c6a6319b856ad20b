#include "feedback/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/system.h"

enum {
    VERSION = 1,
    SEED = 0x4a4f5552, /* of the checksums */
    MARK = 0x4b54524a, /* at the begin of a record */
    FRONT_BYTES = 24,  /* of a record, before its body: mark, kind, serial, length */
    SUM_BYTES = KT__JOURNAL_RECORD_BYTES - FRONT_BYTES,
    AT_VERSION = 16,
    AT_BINDING = 32,
    AT_SUM = KT__JOURNAL_HEAD_BYTES - 32
};
static const char magic[16] = "kentang journal";
_Static_assert(AT_BINDING + KT__JOURNAL_BINDING <= AT_SUM, "head");

struct kt__journal {
    int fd;
    char *path;
    uint8_t binding[KT__JOURNAL_BINDING];
    uint64_t end;  /* of the last whole record */
    uint64_t last; /* its serial, as the file was read */
    bool read_only, broken;
};

static kt_status fail_io(const kt__journal *j, const char *what, kt_error *err) {
    int why = errno;
    bool full = why == ENOSPC || why == EDQUOT || why == EFBIG;
    return kt__fail_at(err, KT_E_IO, j->path, UINT64_MAX, "cannot %s the feedback journal: %s%s",
                       what, why ? strerror(why) : "it is shorter than it was",
                       full ? "; nothing was kept of this feedback: free some space" : "");
}

static void encode_head(const uint8_t *binding, uint8_t out[KT__JOURNAL_HEAD_BYTES]) {
    memset(out, 0, KT__JOURNAL_HEAD_BYTES);
    memcpy(out, magic, sizeof magic);
    kt__le_put(out + AT_VERSION, VERSION, 4);
    memcpy(out + AT_BINDING, binding, KT__JOURNAL_BINDING);
    kt__digest_bytes(kt__hash_bytes(SEED, out, AT_SUM), out + AT_SUM);
}

/* The checksum after a body: of the front and the body. */
static void sum_record(const uint8_t *front, const void *body, size_t n, uint8_t out[SUM_BYTES]) {
    uint8_t digest[32];
    kt__hash h;
    kt__hash_init(&h, SEED + 1);
    kt__hash_add(&h, front, FRONT_BYTES);
    kt__hash_add(&h, body, n);
    kt__digest_bytes(kt__hash_end(&h), digest);
    memcpy(out, digest, SUM_BYTES);
}

static void encode_front(uint64_t serial, uint32_t kind, size_t n, uint8_t out[FRONT_BYTES]) {
    kt__le_put(out, MARK, 4);
    kt__le_put(out + 4, kind, 4);
    kt__le_put(out + 8, serial, 8);
    kt__le_put(out + 16, n, 8);
}

/* ---- reading ---- */

/* A whole record in bytes[n], with its body's place; false: there is none. */
static bool decode_record(const uint8_t *bytes, uint64_t n, kt__journal_record *out) {
    uint8_t sum[SUM_BYTES];
    if (n < KT__JOURNAL_RECORD_BYTES || kt__le_get32(bytes) != MARK) return false;
    uint64_t body = kt__le_get64(bytes + 16);
    if (body > KT__JOURNAL_BODY_MAX || body > n - KT__JOURNAL_RECORD_BYTES) return false;
    *out = (kt__journal_record){.serial = kt__le_get64(bytes + 8),
                                .kind = kt__le_get32(bytes + 4),
                                .n_body = (size_t)body,
                                .body = bytes + FRONT_BYTES};
    sum_record(bytes, out->body, out->n_body, sum);
    return !memcmp(sum, out->body + out->n_body, SUM_BYTES);
}

static bool any_record_behind(const uint8_t *bytes, uint64_t n, uint64_t from, uint64_t serial) {
    kt__journal_record r;
    for (uint64_t at = from; at + KT__JOURNAL_RECORD_BYTES <= n; at++) {
        if (bytes[at] == (MARK & 0xff) && decode_record(bytes + at, n - at, &r) &&
            r.serial > serial)
            return true;
    }
    return false;
}

static kt_status show_records(kt__journal *j, const uint8_t *bytes, uint64_t n, kt__journal_fn *fn,
                              void *user, kt_error *err) {
    uint64_t at = KT__JOURNAL_HEAD_BYTES, serial = 0;
    kt__journal_record r;
    while (decode_record(bytes + at, n - at, &r) && r.serial > serial) {
        r.at = at + FRONT_BYTES;
        serial = r.serial;
        kt_status status = fn ? fn(user, &r, err) : KT_OK;
        if (status != KT_OK) return status;
        at += KT__JOURNAL_RECORD_BYTES + r.n_body;
    }
    j->end = at;
    j->last = serial;
    if (at == n || !any_record_behind(bytes, n, at + 1, serial)) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, j->path, at,
                       "the feedback journal is damaged at byte %" PRIu64
                       ", with good records after it: restore it, or remove it with `kentang "
                       "learn delete`",
                       at);
}

static kt_status check_head(const kt__journal *j, const uint8_t *head, const uint8_t *binding,
                            kt_error *err) {
    uint8_t sum[32];
    kt__digest_bytes(kt__hash_bytes(SEED, head, AT_SUM), sum);
    if (memcmp(head, magic, sizeof magic) != 0 || memcmp(sum, head + AT_SUM, sizeof sum) != 0)
        return kt__fail_at(err, KT_E_FORMAT, j->path, 0, "it is no feedback journal of kentang");
    if (kt__le_get32(head + AT_VERSION) != VERSION)
        return kt__fail_at(err, KT_E_UNSUPPORTED, j->path, AT_VERSION,
                           "a feedback journal of version %u, this kentang reads %d",
                           kt__le_get32(head + AT_VERSION), VERSION);
    if (memcmp(head + AT_BINDING, binding, KT__JOURNAL_BINDING) == 0) return KT_OK;
    return kt__fail_at(err, KT_E_STATE, j->path, AT_BINDING,
                       "what was learned there is of another model file: use that file, another "
                       "learning.dir, or remove it with `kentang learn delete`");
}

static kt_status write_head(kt__journal *j, kt_error *err) {
    uint8_t head[KT__JOURNAL_HEAD_BYTES];
    encode_head(j->binding, head);
    if (!kt__fd_cut(j->fd, 0) || !kt__fd_write_at(j->fd, head, sizeof head, 0) ||
        !kt__fd_sync(j->fd))
        return fail_io(j, "write", err);
    j->end = sizeof head;
    return KT_OK;
}

static kt_status read_all(const kt__journal *j, uint8_t **out, uint64_t *n, kt_error *err) {
    kt__file_info st;
    *out = NULL;
    if (!kt__fd_look(j->fd, &st)) return fail_io(j, "read", err);
    *n = st.bytes;
    if (!st.is_file || *n > (uint64_t)1 << 34)
        return kt__fail_at(err, KT_E_LIMIT, j->path, UINT64_MAX, "it is no file below 16 GiB");
    *out = kt__malloc((size_t)*n);
    if (!*out) return kt__fail_nomem(err, "the feedback journal", (size_t)*n);
    if (kt__fd_read_at(j->fd, *out, (size_t)*n, 0)) return KT_OK;
    return fail_io(j, "read", err);
}

/* Whether bytes[n] are what a crash leaves of the record after `last`: no more than that, and where
 * its front is whole, a front. Blocks that were not written yet are zeros. */
static bool is_torn(const uint8_t *bytes, uint64_t n, uint64_t last) {
    uint8_t mark[4];
    kt__le_put(mark, MARK, 4);
    bool zeros = true;
    for (uint64_t i = 0; i < n && zeros; i++) zeros = bytes[i] == 0;
    if (zeros) return n <= KT__JOURNAL_BODY_MAX + KT__JOURNAL_RECORD_BYTES;
    if (memcmp(bytes, mark, n < sizeof mark ? (size_t)n : sizeof mark) != 0) return false;
    if (n < FRONT_BYTES) return true;
    uint64_t body = kt__le_get64(bytes + 16);
    return kt__le_get64(bytes + 8) == last + 1 && body <= KT__JOURNAL_BODY_MAX &&
           n <= body + KT__JOURNAL_RECORD_BYTES;
}

static kt_status keep_aside(const kt__journal *j, const uint8_t *bytes, uint64_t n, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    if (snprintf(path, sizeof path, "%s.damaged", j->path) >= (int)sizeof path)
        return kt__fail(err, KT_E_LIMIT, "the journal's path is too long");
    int fd = kt__fd_open(path, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_APPEND |
                                   KT__OPEN_NO_LINK | KT__OPEN_PRIVATE);
    bool kept = fd >= 0 && kt__fd_write(fd, bytes, (size_t)n) && kt__fd_sync(fd);
    kt_status status = kept ? KT_OK : fail_io(j, "keep the damaged end of", err);
    if (fd >= 0) kt__fd_close(fd);
    return status;
}

/* What is no record at the end is cut. */
static kt_status cut_tail(kt__journal *j, const uint8_t *bytes, kt__journal_tail *tail,
                          kt_error *err) {
    const uint8_t *from = bytes + tail->at;
    tail->damaged = tail->acknowledged > j->last ||
                    (tail->n > 0 && !is_torn(from, tail->n, j->last));
    if (j->read_only || tail->n == 0) return KT_OK;
    if (tail->damaged) KT__STEP(keep_aside(j, from, tail->n, err));
    if (kt__fd_cut(j->fd, j->end) && kt__fd_sync(j->fd)) return KT_OK;
    return fail_io(j, "cut the end of", err);
}

/* A new file's head may have been cut off, too. */
static kt_status take_in(kt__journal *j, kt__journal_fn *fn, void *user, kt__journal_tail *tail,
                         kt_error *err) {
    kt_status status;
    uint8_t *bytes;
    uint64_t n = 0;
    KT__TRY(read_all(j, &bytes, &n, err));
    if (n < KT__JOURNAL_HEAD_BYTES) {
        tail->n = n;
        tail->damaged = tail->acknowledged > 0;
        if (!j->read_only) status = write_head(j, err);
        goto out;
    }
    KT__TRY(check_head(j, bytes, j->binding, err));
    KT__TRY(show_records(j, bytes, n, fn, user, err));
    tail->at = j->end;
    tail->n = n - j->end;
    status = cut_tail(j, bytes, tail, err);
out:
    kt__free(bytes);
    return status;
}

kt_status kt__journal_open(const char *path, const uint8_t binding[KT__JOURNAL_BINDING],
                           bool read_only, kt__journal_fn *fn, void *user, kt__journal **out,
                           kt__journal_tail *tail, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__journal *j = kt__calloc(1, sizeof *j);
    if (!j) return kt__fail_nomem(err, "a feedback journal", sizeof *j);
    j->fd = -1;
    j->read_only = read_only;
    memcpy(j->binding, binding, sizeof j->binding);
    j->path = kt__strdup(path);
    if (!j->path) {
        status = kt__fail_nomem(err, "a path", strlen(path));
        goto out;
    }
    j->fd = kt__fd_open(path, (read_only ? KT__OPEN_READ : KT__OPEN_BOTH | KT__OPEN_CREATE) |
                                  KT__OPEN_NO_LINK | KT__OPEN_PRIVATE);
    KT__TRY(j->fd < 0 ? fail_io(j, "open", err) : KT_OK);
    KT__TRY(take_in(j, fn, user, tail, err));
    *out = j;
    j = NULL;
out:
    kt__journal_close(j);
    return status;
}

void kt__journal_close(kt__journal *j) {
    if (!j) return;
    if (j->fd >= 0) kt__fd_close(j->fd);
    kt__free(j->path);
    kt__free(j);
}

uint64_t kt__journal_bytes(const kt__journal *j) {
    return j->end;
}

kt_status kt__journal_read(kt__journal *j, uint64_t at, size_t n_body, kt__buf *out,
                           kt_error *err) {
    kt__journal_record r;
    size_t n = n_body + KT__JOURNAL_RECORD_BYTES;
    kt__buf_clear(out);
    if (!kt__buf_reserve(out, n)) return kt__fail_nomem(err, "a feedback's bytes", n);
    uint8_t *bytes = (uint8_t *)out->data;
    if (!kt__fd_read_at(j->fd, bytes, n, at - FRONT_BYTES)) return fail_io(j, "read", err);
    if (!decode_record(bytes, n, &r) || r.n_body != n_body)
        return kt__fail_at(err, KT_E_FORMAT, j->path, at, "the feedback journal is damaged");
    memmove(bytes, r.body, n_body);
    out->len = n_body;
    return KT_OK;
}

/* ---- writing ---- */

static bool put_record(int fd, uint64_t at, uint64_t serial, uint32_t kind, const void *body,
                       size_t n) {
    uint8_t front[FRONT_BYTES], sum[SUM_BYTES];
    encode_front(serial, kind, n, front);
    sum_record(front, body, n, sum);
    return kt__fd_write_at(fd, front, sizeof front, at) &&
           kt__fd_write_at(fd, body, n, at + FRONT_BYTES) &&
           kt__fd_write_at(fd, sum, sizeof sum, at + FRONT_BYTES + n);
}

static kt_status check_writable(const kt__journal *j, size_t n, kt_error *err) {
    if (n > KT__JOURNAL_BODY_MAX)
        return kt__fail(err, KT_E_LIMIT, "a feedback of %zu bytes, at most %d are kept", n,
                        KT__JOURNAL_BODY_MAX);
    if (!j->broken && !j->read_only) return KT_OK;
    return kt__fail_at(err, KT_E_STATE, j->path, UINT64_MAX,
                       j->broken
                           ? "an earlier write failed and could not be taken back: start again"
                           : "it was opened for reading");
}

kt_status kt__journal_append(kt__journal *j, uint64_t serial, uint32_t kind, const void *body,
                             size_t n, uint64_t *at, kt_error *err) {
    kt_status status = check_writable(j, n, err);
    if (status != KT_OK) return status;
    if (put_record(j->fd, j->end, serial, kind, body, n) && kt__fd_sync_data(j->fd)) {
        *at = j->end + FRONT_BYTES;
        j->end += KT__JOURNAL_RECORD_BYTES + n;
        return KT_OK;
    }
    status = fail_io(j, "write", err);
    j->broken = !kt__fd_cut(j->fd, j->end) || !kt__fd_sync(j->fd);
    return status;
}

typedef struct rewriting {
    kt__journal *from, *to;
    kt__journal_change_fn *change;
    void *user;
    kt__buf body;
} rewriting;

static kt_status rewrite_record(void *user, const kt__journal_record *r, kt_error *err) {
    rewriting *w = user;
    kt__journal_record to = *r;
    kt__buf_clear(&w->body);
    if (w->change(w->user, r, &to.kind, &w->body) == KT__JOURNAL_CHANGE) {
        to.body = (const uint8_t *)w->body.data;
        to.n_body = w->body.len;
        if (w->body.failed) return kt__fail_nomem(err, "a feedback's bytes", 0);
    }
    to.at = w->to->end + FRONT_BYTES;
    if (!put_record(w->to->fd, w->to->end, to.serial, to.kind, to.body, to.n_body))
        return fail_io(w->to, "write", err);
    w->to->end += KT__JOURNAL_RECORD_BYTES + to.n_body;
    return KT_OK;
}

/* The old file has no name any more; what was changed is overwritten in it anyway. */
static kt_status blot_record(void *user, const kt__journal_record *r, kt_error *err) {
    static const uint8_t zeros[4096];
    rewriting *w = user;
    uint32_t kind = r->kind;
    (void)err;
    kt__buf_clear(&w->body);
    if (w->change(w->user, r, &kind, &w->body) != KT__JOURNAL_CHANGE) return KT_OK;
    for (size_t done = 0; done < r->n_body;) {
        size_t n = r->n_body - done < sizeof zeros ? r->n_body - done : sizeof zeros;
        if (!kt__fd_write_at(w->from->fd, zeros, n, r->at + done)) return KT_OK;
        done += n;
    }
    return KT_OK;
}

static kt_status each_record(kt__journal *j, kt__journal_fn *fn, void *user, kt_error *err) {
    uint8_t *bytes;
    uint64_t n = 0, end = j->end;
    kt_status status = read_all(j, &bytes, &n, err);
    if (status == KT_OK) status = show_records(j, bytes, end < n ? end : n, fn, user, err);
    kt__free(bytes);
    j->end = end;
    return status;
}

static kt_status replace_by(const rewriting *w, kt_error *err) {
    if (kt__fd_sync(w->to->fd) && rename(w->to->path, w->from->path) == 0) return KT_OK;
    return fail_io(w->from, "replace", err);
}

static kt_status sync_folder_of(const char *path, kt_error *err) {
    char dir[KT__FILES_PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return kt__files_sync_dir(dir, err);
}

static kt_status open_fresh(const kt__journal *from, kt__journal **out, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    kt__journal_tail none = {0};
    if (snprintf(path, sizeof path, "%s.new", from->path) >= (int)sizeof path)
        return kt__fail(err, KT_E_LIMIT, "the journal's path is too long");
    if (!kt__file_remove(path) && errno != ENOENT) return fail_io(from, "rewrite", err);
    return kt__journal_open(path, from->binding, false, NULL, NULL, out, &none, err);
}

kt_status kt__journal_rewrite(kt__journal **journal, kt__journal_change_fn *change,
                              kt__journal_fn *moved, void *user, kt_error *err) {
    rewriting w = {.from = *journal, .change = change, .user = user};
    kt_status status;
    kt_error ignored;
    kt__buf_init(&w.body, KT__JOURNAL_BODY_MAX);
    KT__TRY(check_writable(w.from, 0, err));
    KT__TRY(open_fresh(w.from, &w.to, err));
    char *path = kt__strdup(w.from->path);
    status = path ? each_record(w.from, rewrite_record, &w, err)
                  : kt__fail_nomem(err, "a path", strlen(w.from->path));
    if (status == KT_OK) status = replace_by(&w, err);
    if (status != KT_OK) {
        kt__file_remove(w.to->path);
        kt__journal_close(w.to);
        kt__free(path);
        goto out;
    }
    status = sync_folder_of(path, err); /* the new file is the journal, whatever this says */
    (void)each_record(w.from, blot_record, &w, &ignored);
    (void)kt__fd_sync(w.from->fd);
    kt__journal_close(w.from);
    kt__free(w.to->path);
    w.to->path = path;
    *journal = w.to;
    kt_status shown = each_record(w.to, moved, user, status == KT_OK ? err : NULL);
    status = status == KT_OK ? shown : status;
out:
    kt__buf_free(&w.body);
    return status;
}

/* ---- audit ---- */

int64_t kt__feedback_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Begins with a newline only where a crash cut the line before. */
void kt__feedback_audit(const char *dir, const char *event, uint64_t id, uint32_t version) {
    char path[KT__FILES_PATH_MAX], line[256], last = '\n';
    kt__file_info st;
    kt_error ignored;
    if (kt__files_path(path, dir, "audit.jsonl", &ignored) != KT_OK) return;
    int fd = kt__fd_open(path, KT__OPEN_BOTH | KT__OPEN_CREATE | KT__OPEN_APPEND |
                                   KT__OPEN_NO_LINK | KT__OPEN_PRIVATE);
    if (fd < 0) return;
    if (kt__fd_look(fd, &st) && st.bytes > 0) (void)kt__fd_read_at(fd, &last, 1, st.bytes - 1);
    int n = snprintf(line, sizeof line,
                     "%s{\"time_us\":%" PRId64 ",\"event\":\"%s\",\"feedback\":%" PRIu64
                     ",\"version\":%" PRIu32 "}\n",
                     last == '\n' ? "" : "\n", kt__feedback_now_us(), event, id, version);
    (void)kt__fd_write(fd, line, (size_t)n);
    kt__fd_close(fd);
}

uint64_t kt__feedback_audited(const char *dir) {
    static const char mark[] = "\"feedback\":";
    char path[KT__FILES_PATH_MAX], text[4097], *rest, *end;
    kt__file_info st;
    kt_error ignored;
    uint64_t highest = 0;
    if (kt__files_path(path, dir, "audit.jsonl", &ignored) != KT_OK) return 0;
    int fd = kt__fd_open(path, KT__OPEN_READ | KT__OPEN_NO_LINK);
    if (fd < 0) return 0;
    uint64_t size = kt__fd_look(fd, &st) ? st.bytes : 0;
    size_t n = size < sizeof text - 1 ? (size_t)size : sizeof text - 1;
    if (!kt__fd_read_at(fd, text, n, size - n)) n = 0;
    kt__fd_close(fd);
    text[n] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *at = strstr(line, mark);
        bool lost = strstr(line, "\"damaged\"") || strstr(line, "\"recovered\"");
        uint64_t id = at ? strtoull(at + sizeof mark - 1, &end, 10) : 0;
        if (!at || *end != ',') continue;       /* cut off */
        if (lost || id > highest) highest = id; /* what was lost: ids after this are given again */
    }
    return highest;
}
