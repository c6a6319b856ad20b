/* For tests of the disk cache: chains of blocks whose content follows from their keys, so that
 * whoever reads one can tell whether it is right. */
#ifndef DISK_WORLD_H
#define DISK_WORLD_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kv/disk.h"

/* 4 KiB a block */
static const kt__kv_shape disk_shape = {
    .n_layer = 2, .n_head_kv = 2, .head_dim_k = 16, .head_dim_v = 16};

typedef struct disk_world {
    kt__disk *disk;
    kt__kv_store store;
    kt__kv *kv;
    int32_t page;
    uint8_t *expected, *got;
} disk_world;

static inline void disk_ok(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

static inline kt__disk_params disk_params(const char *dir, uint64_t max_bytes, uint64_t queue) {
    return (kt__disk_params){.dir = dir,
                             .max_bytes = max_bytes,
                             .queue_bytes = queue,
                             .binding = "model",
                             .n_binding = 5};
}

static inline disk_world disk_world_open(const kt__disk_params *params) {
    kt_error err;
    disk_world w = {0};
    disk_ok(kt__disk_open(params, &disk_shape, &w.disk, &err), &err);
    disk_ok(kt__kv_create(&disk_shape, 4, &w.kv, &err), &err);
    w.store = kt__disk_store(w.disk);
    w.page = kt__kv_page_take(w.kv);
    w.expected = malloc(kt__kv_block_bytes(&disk_shape));
    w.got = malloc(kt__kv_block_bytes(&disk_shape));
    return w;
}

static inline void disk_world_close(disk_world *w) {
    kt__disk_close(w->disk);
    kt__kv_destroy(w->kv);
    free(w->expected);
    free(w->got);
}

/* Block number `index` of chain number `chain`; ids is where its tokens go. */
static inline kt__kv_block disk_block(int chain, int index, int32_t ids[KT__PAGE_POS]) {
    kt__kv_block b = {.index = index, .ids = ids};
    b.key = kt__kv_key_root("test", 4);
    for (int i = 0; i <= index; i++) {
        for (int t = 0; t < KT__PAGE_POS; t++) ids[t] = chain * 1000 + i * KT__PAGE_POS + t;
        b.parent = b.key;
        b.key = kt__kv_key_next(b.parent, ids);
    }
    return b;
}

static inline void disk_content(const kt__kv_block *b, uint8_t *out) {
    uint64_t x = b->key.w[0] | 1;
    for (size_t i = 0; i < kt__kv_block_bytes(&disk_shape); i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        out[i] = (uint8_t)x;
    }
}

static inline void disk_put(disk_world *w, int chain, int index) {
    int32_t ids[KT__PAGE_POS];
    kt__kv_block b = disk_block(chain, index, ids);
    disk_content(&b, w->expected);
    kt__kv_block_write(w->kv, w->page, w->expected);
    w->store.put(w->store.user, &b, w->kv, w->page);
}

/* Whether it is there; what is there has to be right. */
static inline bool disk_get(disk_world *w, int chain, int index) {
    int32_t ids[KT__PAGE_POS];
    kt__kv_block b = disk_block(chain, index, ids);
    if (!w->store.get(w->store.user, &b, w->kv, w->page)) return false;
    disk_content(&b, w->expected);
    kt__kv_block_read(w->kv, w->page, w->got);
    if (memcmp(w->got, w->expected, kt__kv_block_bytes(&disk_shape)) != 0)
        fail_msg("chain %d, block %d: found with another content", chain, index);
    return true;
}

/* The path of a block's file. */
static inline void disk_path(const char *dir, int chain, int index, char *out, size_t size) {
    int32_t ids[KT__PAGE_POS];
    char name[KT__DISK_NAME_BYTES];
    kt__kv_block b = disk_block(chain, index, ids);
    kt__disk_name(&b, KT__DISK_BLOCK, name);
    DIR *d = opendir(dir);
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        if (strlen(e->d_name) == KT__DISK_DIR_BYTES)
            snprintf(out, size, "%s/%s/%s", dir, e->d_name, name);
    }
    closedir(d);
}

/* All files below dir: their number (temporary ones apart) and bytes. */
static inline int disk_count(const char *dir, int *n_temp, uint64_t *bytes) {
    int n = 0;
    DIR *d = opendir(dir);
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        char path[1024];
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        int len = snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (len >= (int)sizeof path || lstat(path, &st) != 0) continue;
        if (S_ISDIR(st.st_mode)) {
            n += disk_count(path, n_temp, bytes);
        } else if (e->d_name[0] == '.') {
            ++*n_temp;
            *bytes += (uint64_t)st.st_size;
        } else if (strstr(e->d_name, ".kv")) {
            n++;
            *bytes += (uint64_t)st.st_size;
        }
    }
    closedir(d);
    return n;
}

static inline void disk_remove(const char *dir) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0) fail_msg("cannot remove %s", dir);
}

#endif
