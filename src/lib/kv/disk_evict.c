#include "kv/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

enum { MAX_FILES = 1 << 22, TEMP_AGE_S = 3600 };

typedef struct file {
    kt__kv_key key, parent;
    int32_t index, dir; /* dir: into sweep's directories */
    kt__disk_kind kind;
    int64_t used_ns;
    uint64_t bytes;
    bool orphan; /* what it follows is gone: it cannot be reached */
} file;

/* Its place in the chain: an end comes after its block. */
static int32_t depth_of(const file *f) {
    return f->index + (f->kind == KT__DISK_END);
}

/* Whether it can be reached without another file. */
static bool is_first(const file *f) {
    return f->kind == KT__DISK_END ? !f->parent.w[0] && !f->parent.w[1] : f->index == 0;
}

typedef struct sweep {
    char (*dirs)[KT__DISK_DIR_BYTES + 1];
    size_t n_dirs, cap_dirs;
    file *files;
    size_t n_files, cap_files;
    uint64_t bytes; /* of all, temporary ones included */
} sweep;

/* ---- looking ---- */

/* A listing of its own, from the start. */
static DIR *open_listing(int dir, const char *name) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) close(fd);
    return d;
}

/* ".tmp-PID-...": true when the process that wrote it has ended. On a file system that several
 * machines share the process may run on another one; it then loses one block. */
static bool is_abandoned(const char *name, const struct stat *st) {
    long pid = atol(name + 5);
    bool gone = pid <= 0 || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
    return gone || time(NULL) - st->st_mtime > TEMP_AGE_S;
}

static bool add_file(sweep *s, int dir, const char *name) {
    struct stat st;
    kt__kv_block b;
    kt__disk_kind kind;
    if (name[0] == '.' && strncmp(name, ".tmp-", 5) != 0) return true;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) return true;
    uint64_t bytes = (uint64_t)st.st_size;
    if (name[0] == '.') {
        if (!is_abandoned(name, &st) || unlinkat(dir, name, 0) != 0) s->bytes += bytes;
        return true;
    }
    if (!kt__disk_parse_name(name, &b, &kind)) return true; /* not ours: not counted, not touched */
    s->bytes += bytes;
    if (s->n_files == MAX_FILES) return true;
    if (!kt__vec_reserve(s->files, s->cap_files, s->n_files + 1)) return false;
    int64_t used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    s->files[s->n_files++] = (file){.key = b.key,
                                    .parent = b.parent,
                                    .index = b.index,
                                    .dir = (int32_t)s->n_dirs,
                                    .kind = kind,
                                    .used_ns = used_ns,
                                    .bytes = bytes};
    return true;
}

static bool add_directory(sweep *s, int root, const char *name) {
    bool ok = kt__vec_reserve(s->dirs, s->cap_dirs, s->n_dirs + 1);
    if (!ok) return false;
    DIR *d = open_listing(root, name);
    if (!d) return true;
    const struct dirent *entry;
    while (ok && (entry = readdir(d)) != NULL) ok = add_file(s, dirfd(d), entry->d_name);
    closedir(d);
    memcpy(s->dirs[s->n_dirs++], name, KT__DISK_DIR_BYTES + 1);
    return ok;
}

static bool look_at_all(sweep *s, int root) {
    DIR *d = open_listing(root, ".");
    bool ok = d != NULL;
    const struct dirent *entry;
    while (ok && (entry = readdir(d)) != NULL) {
        const char *name = entry->d_name;
        bool ours = strlen(name) == KT__DISK_DIR_BYTES &&
                    strspn(name, "0123456789abcdef") == KT__DISK_DIR_BYTES;
        if (ours) ok = add_directory(s, root, name);
    }
    if (d) closedir(d);
    return ok;
}

/* ---- choosing ---- */

static int compare_keys(const file *a, const file *b) {
    if (a->dir != b->dir) return a->dir < b->dir ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return memcmp(&a->key, &b->key, sizeof a->key);
}

static int by_key(const void *a, const void *b) {
    return compare_keys(a, b);
}

/* Last in a chain first. */
static int by_index_down(const void *a, const void *b) {
    const file *x = *(file *const *)a, *y = *(file *const *)b;
    if (depth_of(x) != depth_of(y)) return depth_of(x) < depth_of(y) ? 1 : -1;
    return compare_keys(x, y);
}

/* Those out of reach, then the least recently used; of equals the last in a chain. */
static int by_worth(const void *a, const void *b) {
    const file *x = *(file *const *)a, *y = *(file *const *)b;
    if (x->orphan != y->orphan) return x->orphan ? -1 : 1;
    if (x->used_ns != y->used_ns) return x->used_ns < y->used_ns ? -1 : 1;
    return by_index_down(a, b);
}

static file *find_parent(const sweep *s, const file *f) {
    file wanted = {.key = f->parent, .dir = f->dir, .kind = KT__DISK_BLOCK};
    return bsearch(&wanted, s->files, s->n_files, sizeof wanted, by_key);
}

/* From the ends of chains to their beginnings: a block that is followed by a recent one is recent.
 * Then back: a block whose parent is missing is an orphan, and so are those that follow it. */
static void connect_chains(const sweep *s, file **order) {
    qsort(order, s->n_files, sizeof *order, by_index_down);
    for (size_t i = 0; i < s->n_files; i++) {
        file *parent = is_first(order[i]) ? NULL : find_parent(s, order[i]);
        if (parent && depth_of(parent) < depth_of(order[i]) && parent->used_ns < order[i]->used_ns)
            parent->used_ns = order[i]->used_ns;
    }
    for (size_t i = s->n_files; i-- > 0;) {
        const file *parent = is_first(order[i]) ? NULL : find_parent(s, order[i]);
        order[i]->orphan = !is_first(order[i]) && (!parent || parent->orphan);
    }
}

static void remove_files(sweep *s, int root, file **order, uint64_t target, kt__disk_swept *out) {
    for (size_t i = 0; i < s->n_files && s->bytes > target; i++) {
        char path[KT__DISK_DIR_BYTES + 1 + KT__DISK_NAME_BYTES], name[KT__DISK_NAME_BYTES];
        const file *f = order[i];
        kt__kv_block b = {.key = f->key, .parent = f->parent, .index = f->index};
        kt__disk_name(&b, f->kind, name);
        snprintf(path, sizeof path, "%s/%s", s->dirs[f->dir], name);
        if (unlinkat(root, path, 0) != 0 && errno != ENOENT) continue;
        s->bytes -= f->bytes;
        out->n_removed++;
    }
}

static bool make_room(sweep *s, int root, uint64_t target, kt__disk_swept *out) {
    file **order = kt__calloc(s->n_files + 1, sizeof *order);
    if (!order) return false;
    qsort(s->files, s->n_files, sizeof *s->files, by_key);
    for (size_t i = 0; i < s->n_files; i++) order[i] = &s->files[i];
    connect_chains(s, order);
    qsort(order, s->n_files, sizeof *order, by_worth);
    remove_files(s, root, order, target, out);
    kt__free(order);
    return true;
}

bool kt__disk_sweep(int root, uint64_t max_bytes, bool wait, kt__disk_swept *out) {
    sweep s = {0};
    *out = (kt__disk_swept){0};
    int fd = openat(root, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool ok = flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) == 0 && look_at_all(&s, root);
    if (ok && s.bytes > max_bytes) ok = make_room(&s, root, max_bytes - max_bytes / 16, out);
    out->bytes = s.bytes;
    close(fd); /* and with it the lock */
    kt__free(s.dirs);
    kt__free(s.files);
    return ok;
}

/* ---- disk name ---- */

static const char *const suffixes[] = {[KT__DISK_BLOCK] = ".kv", [KT__DISK_END] = ".end"};

void kt__disk_name(const kt__kv_block *b, kt__disk_kind kind, char out[KT__DISK_NAME_BYTES]) {
    snprintf(out, KT__DISK_NAME_BYTES,
             "%06x-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "%016" PRIx64 "%s",
             (unsigned)b->index & 0xffffffu, b->key.w[0], b->key.w[1], b->parent.w[0],
             b->parent.w[1], suffixes[kind]);
}

static bool parse_hex(const char *s, int n, uint64_t *out) {
    *out = 0;
    for (int i = 0; i < n; i++) {
        int digit = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
                    : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
                                                 : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

bool kt__disk_parse_name(const char *name, kt__kv_block *out, kt__disk_kind *kind) {
    uint64_t index;
    if (strlen(name) < 6 + 1 + 32 + 1 + 32) return false;
    if (name[6] != '-' || name[39] != '-') return false;
    *kind = strcmp(name + 72, suffixes[KT__DISK_END]) == 0 ? KT__DISK_END : KT__DISK_BLOCK;
    if (strcmp(name + 72, suffixes[*kind]) != 0) return false;
    *out = (kt__kv_block){0};
    if (!parse_hex(name, 6, &index) || !parse_hex(name + 7, 16, &out->key.w[0]) ||
        !parse_hex(name + 23, 16, &out->key.w[1]) || !parse_hex(name + 40, 16, &out->parent.w[0]) ||
        !parse_hex(name + 56, 16, &out->parent.w[1]))
        return false;
    out->index = (int32_t)index;
    return true;
}
