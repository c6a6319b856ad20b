/* Arbitrary bytes as a file of the disk cache, of a block and of the end after it, in every form:
 * taken or refused, never half taken. Most inputs are changes of a file that was right, some with its
 * digests made right again, so that what follows them is reached. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "kv/disk.h"
#include "kv/prefix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SHAPE(k, v, tail, state, window)                                                      \
    {                                                                                         \
        .n_layer = 1, .n_head_kv = 1, .head_dim_k = 2, .head_dim_v = 2, .k_form = KT__KV_##k, \
        .v_form = KT__KV_##v, .n_tail = tail, .state_bytes = state, .n_window = window,       \
        .locals = {                                                                           \
            window > 0                                                                        \
        }                                                                                     \
    }
static const kt__kv_shape shapes[] = {SHAPE(F16, F16, 0, 0, 0),  SHAPE(Q8, Q8, 0, 0, 0),
                                      SHAPE(Q8, F16, 0, 0, 0),   SHAPE(Q4, Q4, 0, 40, 0),
                                      SHAPE(Q8, Q4, 1, 0, 0),    SHAPE(Q8, Q8, 2, 400, 0),
                                      SHAPE(F16, F16, 0, 40, 0), SHAPE(F16, F16, 0, 0, 1)};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
enum {
    N_BLOCKS = 3,
    N_POS = N_BLOCKS * KT__PAGE_POS,
    HEADER = 256,
    AT_CONTENT_DIGEST = 104 + 4 * KT__PAGE_POS,
    SEED = 0x4b564249,
    MOST = 1 << 14
};
/* of an input's first byte */
enum { CHANGES = 1, SIGNS_CONTENT = 2, SIGNS_HEAD = 4, SIGNS_BOTH = 6, HEAD_ALONE = 8 };

/* A cache over a folder of its own, with a file of each kind that was right. */
typedef struct subject {
    kt__disk *disk;
    kt__kv_store store;
    kt__kv *kv;
    char dir[80];
    int n_kinds; /* 1: no ends */
    kt__kv_block blocks[2];
    char paths[2][256];
    uint8_t goods[2][MOST];
    size_t sizes[2];
} subject;

static subject subjects[N_SHAPES];
static const int32_t ids[KT__PAGE_POS] = {1, 2, 3};

static kt__kv_table new_table(kt__kv *kv) {
    kt_error err;
    kt__kv_table table;
    if (kt__kv_table_init(&table, 2 * N_POS, &err) != KT_OK ||
        kt__kv_table_grow_as(kv, &table, 0, N_POS, KT__GROW_QUANTISED, &err) != KT_OK ||
        !kt__kv_table_hold_end(kv, &table, N_POS))
        abort();
    return table;
}

/* The folder's one folder is the binding's. */
static void find_path(subject *s, kt__disk_kind kind) {
    char name[KT__DISK_NAME_BYTES];
    kt__disk_name(&s->blocks[kind], kind, name);
    DIR *dir = opendir(s->dir);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        if (strlen(e->d_name) == KT__DISK_DIR_BYTES)
            snprintf(s->paths[kind], sizeof s->paths[kind], "%s/%s/%s", s->dir, e->d_name, name);
    }
    closedir(dir);
}

static void read_good(subject *s, kt__disk_kind kind) {
    find_path(s, kind);
    FILE *in = fopen(s->paths[kind], "rb");
    if (!in) abort();
    s->sizes[kind] = fread(s->goods[kind], 1, MOST, in);
    fclose(in);
}

static void put_goods(subject *s) {
    static const uint8_t zeros[MOST];
    kt__kv_table table = new_table(s->kv);
    kt__kv_block_write(s->kv, table.pages[0], zeros);
    s->store.put(s->store.user, &s->blocks[KT__DISK_BLOCK], s->kv, table.pages[0]);
    if (s->n_kinds == 2) {
        kt__kv_end end = kt__kv_end_new(&table, N_POS);
        kt__kv_end_write(s->kv, &end, zeros);
        kt__kv_end_take(s->kv, &table, &end);
        s->store.put_end(s->store.user, &s->blocks[KT__DISK_END], s->kv, &end);
    }
    kt__disk_flush(s->disk);
    kt__kv_table_free(s->kv, &table);
}

static void open_subject(int i) {
    subject *s = &subjects[i];
    kt_error err;
    snprintf(s->dir, sizeof s->dir, "/dev/shm/kentang-fuzz-disk-%ld-%d", (long)getpid(), i);
    const kt__disk_params params = {.dir = s->dir, .binding = "fuzz", .n_binding = 4};
    if (kt__disk_open(&params, &shapes[i], &s->disk, &err) != KT_OK ||
        kt__kv_create(&shapes[i], 3 * N_BLOCKS, &s->kv, &err) != KT_OK)
        abort();
    s->store = kt__disk_store(s->disk);
    s->n_kinds = s->store.get_end ? 2 : 1;
    kt__kv_key root = kt__kv_key_root("fuzz", 4);
    s->blocks[KT__DISK_BLOCK] = (kt__kv_block){kt__kv_key_next(root, ids), root, ids, 0};
    s->blocks[KT__DISK_END] = (kt__kv_block){
        kt__kv_key_next(root, ids), {{0, 0}}, ids, N_BLOCKS - 1};
    put_goods(s);
    for (int kind = 0; kind < s->n_kinds; kind++) read_good(s, (kt__disk_kind)kind);
}

static void remove_folders(void) {
    char command[128];
    for (int i = 0; i < N_SHAPES; i++) kt__disk_close(subjects[i].disk);
    snprintf(command, sizeof command, "rm -rf /dev/shm/kentang-fuzz-disk-%ld-*", (long)getpid());
    (void)!system(command);
}

static void sign_digest(uint8_t *out, const uint8_t *data, size_t n) {
    kt__digest_bytes(kt__hash_bytes(SEED, data, n), out);
}

/* Changes of three bytes each: where, and by what; then, with a byte that is left, its length. */
static size_t change_good(const subject *s, int kind, int flags, const uint8_t *data, size_t size,
                          uint8_t *file) {
    size_t n = s->sizes[kind];
    memcpy(file, s->goods[kind], n);
    for (; size >= 3; data += 3, size -= 3) {
        size_t at = (size_t)kt__le_get(data, 2);
        file[flags & HEAD_ALONE ? at % HEADER : at % n] ^= data[2];
    }
    if (flags & SIGNS_CONTENT) sign_digest(file + AT_CONTENT_DIGEST, file + HEADER, n - HEADER);
    if (flags & SIGNS_HEAD) sign_digest(file + HEADER - 32, file, HEADER - 32);
    return size ? n * data[0] / 255 : n;
}

static bool take_block(const subject *s) {
    int32_t page = kt__kv_page_take(s->kv);
    if (page < 0) abort();
    bool taken = s->store.get(s->store.user, &s->blocks[KT__DISK_BLOCK], s->kv, page);
    kt__kv_page_drop(s->kv, page);
    return taken;
}

/* What was taken can be continued from. */
static bool take_end(const subject *s) {
    kt_error err;
    kt__kv_table table = new_table(s->kv);
    kt__kv_end end = kt__kv_end_new(&table, N_POS);
    bool taken = s->store.get_end(s->store.user, &s->blocks[KT__DISK_END], s->kv, &end);
    if (taken) kt__kv_end_take(s->kv, &table, &end);
    if (taken && (!kt__kv_has_end(s->kv, &table, N_POS) ||
                  kt__kv_table_grow(s->kv, &table, N_POS, N_POS + 1, &err) != KT_OK))
        abort();
    kt__kv_table_free(s->kv, &table);
    return taken;
}

/* signs: what was signed anew, as of change_good. */
static void try_file(const subject *s, int kind, int signs, const uint8_t *file, size_t n) {
    const uint8_t *good = s->goods[kind];
    FILE *out = fopen(s->paths[kind], "wb");
    if (!out) abort();
    fwrite(file, 1, n, out);
    fclose(out);
    bool taken = kind == KT__DISK_END ? take_end(s) : take_block(s);
    bool whole = n == s->sizes[kind], head = whole && !memcmp(file, good, HEADER);
    bool content = whole && !memcmp(file + HEADER, good + HEADER, n - HEADER);
    if (head && content && !taken) abort();
    if (taken && !((head || signs & SIGNS_HEAD) && (content || signs == SIGNS_BOTH))) abort();
    if (!taken && access(s->paths[kind], F_OK) == 0) abort(); /* it would be tried again */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t file[MOST];
    if (!subjects[0].disk) {
        for (int i = 0; i < N_SHAPES; i++) open_subject(i);
        atexit(remove_folders);
    }
    if (size < 2 || size > MOST) return 0;
    const subject *s = &subjects[data[1] / 2 % N_SHAPES];
    int flags = data[0], kind = data[1] & 1 && s->n_kinds == 2 ? KT__DISK_END : KT__DISK_BLOCK;
    size_t n = size - 2;
    if (flags & CHANGES)
        n = change_good(s, kind, flags, data + 2, n, file);
    else
        memcpy(file, data + 2, n);
    try_file(s, kind, flags & CHANGES ? flags & SIGNS_BOTH : 0, file, n);
    return 0;
}
