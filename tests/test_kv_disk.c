/* kv: the disk cache. What was put is found by the next process; cut, changed or foreign files are
 * clean misses; the queue is bounded; the directory keeps its size, and what was used last; several
 * processes share it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "disk_world.h"
#include "heap_watch.h"
#include "kv/prefix.h"

enum { BLOCK = 4096, FILE_BYTES = BLOCK + 256 };

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/kentang-disk-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    disk_remove(dir);
    return 0;
}

static kt_cache_stats stats_of(disk_world *w) {
    kt_cache_stats stats;
    kt__disk_get_stats(w->disk, &stats);
    return stats;
}

static void write_chain(int chain, int n) {
    kt__disk_params p = disk_params(dir, 0, 0);
    disk_world w = disk_world_open(&p);
    for (int i = 0; i < n; i++) disk_put(&w, chain, i);
    disk_world_close(&w);
}

static void test_found_again(void **state) {
    (void)state;
    char deep[128];
    snprintf(deep, sizeof deep, "%s/a/b/", dir);
    kt__disk_params p = disk_params(deep, 0, 0);
    disk_world w = disk_world_open(&p);
    assert_false(disk_get(&w, 1, 0));
    for (int i = 0; i < 30; i++) disk_put(&w, 1, i);
    kt__disk_flush(w.disk);
    for (int i = 0; i < 30; i++) assert_true(disk_get(&w, 1, i));
    assert_false(disk_get(&w, 1, 30));
    assert_false(disk_get(&w, 2, 0));
    disk_put(&w, 1, 3); /* once more: there is nothing to write */
    kt__disk_flush(w.disk);
    kt_cache_stats s = stats_of(&w);
    assert_int_equal(s.n_written, 30);
    assert_int_equal(s.n_present, 1);
    assert_int_equal(s.n_found, 30);
    assert_int_equal(s.n_missed, 3);
    assert_int_equal(s.n_dropped + s.n_failed + s.n_damaged, 0);
    assert_int_equal(s.bytes_written, 30 * FILE_BYTES);
    disk_world_close(&w);
    w = disk_world_open(&p);
    int32_t ids[KT__PAGE_POS];
    kt__kv_block b = disk_block(1, 7, ids);
    assert_true(w.store.has(w.store.user, &b));
    b = disk_block(3, 7, ids);
    assert_false(w.store.has(w.store.user, &b));
    for (int i = 0; i < 30; i++) assert_true(disk_get(&w, 1, i));
    disk_world_close(&w);
    /* another model: another directory below */
    p.binding = "other";
    w = disk_world_open(&p);
    assert_false(disk_get(&w, 1, 0));
    disk_world_close(&w);
    char path[512];
    struct stat st;
    snprintf(deep, sizeof deep, "%s/a/b", dir);
    disk_path(deep, 1, 0, path, sizeof path);
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void overwrite(const char *path, long at, const void *data, size_t n) {
    FILE *f = fopen(path, "r+b");
    if (!f) fail_msg("no %s", path);
    fseek(f, at, SEEK_SET);
    fwrite(data, 1, n, f);
    fclose(f);
}

static uint8_t byte_at(const char *path, long at) {
    FILE *f = fopen(path, "rb");
    fseek(f, at, SEEK_SET);
    int c = getc(f);
    fclose(f);
    return (uint8_t)c;
}

/* Each damaged file is a miss and goes away; put again, it is found. */
static void test_damaged_files(void **state) {
    (void)state;
    char path[512];
    write_chain(1, 1);
    disk_path(dir, 1, 0, path, sizeof path);
    kt__disk_params p = disk_params(dir, 0, 0);
    disk_world w = disk_world_open(&p);
    uint64_t n_damaged = 0;
    for (long at = 0; at < FILE_BYTES; at += at < 256 ? 1 : 61) {
        uint8_t changed = (uint8_t)(byte_at(path, at) ^ (1u << at % 8));
        overwrite(path, at, &changed, 1);
        assert_false(disk_get(&w, 1, 0));
        n_damaged++;
        assert_int_equal(access(path, F_OK), -1);
        disk_put(&w, 1, 0);
        kt__disk_flush(w.disk);
        assert_true(disk_get(&w, 1, 0));
    }
    for (off_t size = 0; size <= FILE_BYTES + 1; size += size < 258 ? 1 : 119) {
        if (size == FILE_BYTES) continue;
        assert_int_equal(truncate(path, size), 0);
        assert_false(disk_get(&w, 1, 0));
        n_damaged++;
        disk_put(&w, 1, 0);
        kt__disk_flush(w.disk);
    }
    assert_int_equal(stats_of(&w).n_damaged, n_damaged);
    disk_world_close(&w);
}

static void test_foreign_files(void **state) {
    (void)state;
    char path[512], other[512];
    write_chain(1, 2);
    disk_path(dir, 1, 0, path, sizeof path);
    disk_path(dir, 1, 1, other, sizeof other);
    kt__disk_params p = disk_params(dir, 0, 0);
    disk_world w = disk_world_open(&p);
    assert_int_equal(rename(other, path), 0); /* a good block under another one's name */
    assert_false(disk_get(&w, 1, 0));
    assert_false(disk_get(&w, 1, 1));
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_false(disk_get(&w, 1, 0));
    assert_int_equal(access("/etc/passwd", F_OK), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(disk_get(&w, 1, 0));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(disk_get(&w, 1, 0));
    disk_put(&w, 1, 0); /* a directory in the way is touched and left */
    kt__disk_flush(w.disk);
    assert_false(disk_get(&w, 1, 0));
    disk_world_close(&w);
}

static uint8_t full_hash; /* of the model now; 0: not known */

static void get_full_hash(void *user, uint8_t out[KT__DISK_HASH_BYTES]) {
    (void)user;
    memset(out, full_hash, KT__DISK_HASH_BYTES);
}

/* Blocks of a model that only looks the same, by the hash of all of it: missed, where both sides
 * know it, and then written again. */
static void test_models_that_look_the_same(void **state) {
    (void)state;
    kt__disk_params p = disk_params(dir, 0, 0);
    p.full_hash = get_full_hash;
    disk_world w = disk_world_open(&p);
    static const struct {
        uint8_t written, read;
        bool found;
    } cases[] = {{0, 0, true}, {0, 7, true}, {7, 0, true}, {7, 7, true}, {7, 8, false}};
    for (int i = 0; i < 5; i++) {
        full_hash = cases[i].written;
        for (int b = 0; b < 3; b++) disk_put(&w, i, b);
        kt__disk_flush(w.disk);
        full_hash = cases[i].read;
        for (int b = 0; b < 3; b++) assert_int_equal(disk_get(&w, i, b), cases[i].found);
    }
    assert_int_equal(stats_of(&w).n_missed, 3);
    assert_int_equal(stats_of(&w).n_damaged, 0);
    for (int b = 0; b < 3; b++) disk_put(&w, 4, b);
    kt__disk_flush(w.disk);
    for (int b = 0; b < 3; b++) assert_true(disk_get(&w, 4, b));
    full_hash = 7;
    assert_false(disk_get(&w, 4, 0));
    full_hash = 0;
    disk_world_close(&w);
}

static void test_bad_directories(void **state) {
    (void)state;
    kt_error err;
    kt__disk *disk;
    char path[128];
    snprintf(path, sizeof path, "%s/file", dir);
    FILE *f = fopen(path, "w");
    fclose(f);
    kt__disk_params p = disk_params(path, 0, 0);
    assert_int_equal(kt__disk_open(&p, &disk_shape, &disk, &err), KT_E_IO);
    assert_string_equal(err.where, path);
    p = disk_params(dir, 15 * FILE_BYTES, 0);
    assert_int_equal(kt__disk_open(&p, &disk_shape, &disk, &err), KT_E_ARG);
    write_chain(1, 1);
    char block[512];
    disk_path(dir, 1, 0, block, sizeof block);
    *strrchr(block, '/') = '\0';
    assert_int_equal(chmod(block, 0777), 0);
    p = disk_params(dir, 0, 0);
    assert_int_equal(kt__disk_open(&p, &disk_shape, &disk, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "others may write"));
    assert_null(disk);
}

/* With two places in the queue and no time to write, what does not fit is dropped, and with it what
 * follows; nothing blocks. */
static void test_the_queue_is_bounded(void **state) {
    (void)state;
    enum { N = 500 };
    kt__disk_params p = disk_params(dir, 0, 1);
    disk_world w = disk_world_open(&p);
    for (int i = 0; i < N; i++) disk_put(&w, 1, i % 60);
    kt__disk_flush(w.disk);
    kt_cache_stats s = stats_of(&w);
    assert_int_equal(s.n_written + s.n_present + s.n_dropped, N);
    bool gap = false;
    int n_dropped = (int)s.n_dropped;
    for (int i = 0; i < 60; i++) gap |= !disk_get(&w, 1, i);
    assert_true(n_dropped > 0 || !gap);
    for (int i = 0; i < 60; i++) { /* slowly, all is kept */
        disk_put(&w, 1, i);
        kt__disk_flush(w.disk);
    }
    for (int i = 0; i < 60; i++) assert_true(disk_get(&w, 1, i));
    disk_world_close(&w);
}

static void set_used(int chain, int index, int seconds_ago) {
    char path[512];
    disk_path(dir, chain, index, path, sizeof path);
    struct timespec t = {.tv_sec = time(NULL) - seconds_ago};
    const struct timespec times[2] = {t, t};
    if (utimensat(AT_FDCWD, path, times, 0) != 0) fail_msg("%s: %s", path, strerror(errno));
}

static bool exists(int chain, int index) {
    char path[512];
    disk_path(dir, chain, index, path, sizeof path);
    return access(path, F_OK) == 0;
}

static void sweep(uint64_t max_bytes, uint64_t n_removed) {
    kt__disk_swept swept;
    int root = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(kt__disk_sweep(root, max_bytes, false, &swept));
    close(root);
    int n_temp = 0;
    uint64_t bytes = 0;
    disk_count(dir, &n_temp, &bytes);
    assert_int_equal(swept.n_removed, n_removed);
    assert_int_equal(swept.bytes, bytes);
}

/* Chain 1 was used long ago, but its end just now; chain 2 a while ago; chain 3 lacks its
 * beginning. */
static void test_what_goes_first(void **state) {
    (void)state;
    for (int chain = 1; chain <= 3; chain++) write_chain(chain, 10);
    for (int i = 0; i < 10; i++) set_used(1, i, i == 9 ? 0 : 5000);
    for (int i = 0; i < 10; i++) set_used(2, i, 600);
    for (int i = 0; i < 10; i++) set_used(3, i, 10);
    char path[512];
    disk_path(dir, 3, 4, path, sizeof path);
    unlink(path);
    sweep(29 * FILE_BYTES, 0);
    sweep(24 * FILE_BYTES, 7); /* down to 22.5 blocks: five orphans, then two of chain 2's end */
    for (int i = 0; i < 10; i++) {
        assert_true(exists(1, i));
        assert_int_equal(exists(2, i), i < 8);
        assert_int_equal(exists(3, i), i < 4);
    }
    sweep(16 * FILE_BYTES, 7);
    for (int i = 0; i < 10; i++) assert_int_equal(exists(2, i), i < 1);
    sweep(10 * FILE_BYTES, 6);
    for (int i = 0; i < 10; i++) assert_int_equal(exists(1, i), i < 9);
    for (int i = 0; i < 4; i++) assert_false(exists(3, i));
}

/* ---- ends ---- */

/* Pages are quantised but for the last of a sequence; states have 100 numbers. */
static const kt__kv_shape end_shape = {.n_layer = 2,
                                       .n_head_kv = 1,
                                       .head_dim_k = 16,
                                       .head_dim_v = 16,
                                       .k_form = KT__KV_Q8,
                                       .v_form = KT__KV_Q8,
                                       .n_tail = 1,
                                       .state_bytes = 400};
enum { END_BLOCKS = 5, END_POS = END_BLOCKS * KT__PAGE_POS };

typedef struct end_world {
    kt__disk *disk;
    kt__kv *kv;
    kt__prefix *prefix;
    kt__kv_table table;
    kt__kv_key root;
    int32_t ids[END_POS];
} end_world;

static void fill(uint8_t *out, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static end_world end_world_open(void) {
    kt_error err;
    end_world w = {.root = kt__kv_key_root("ends", 4)};
    kt__disk_params p = disk_params(dir, 0, 0);
    disk_ok(kt__disk_open(&p, &end_shape, &w.disk, &err), &err);
    disk_ok(kt__kv_create(&end_shape, 16, &w.kv, &err), &err);
    disk_ok(kt__prefix_create(w.kv, 0, &w.prefix, &err), &err);
    disk_ok(kt__kv_table_init(&w.table, 2 * END_POS, &err), &err);
    kt__kv_store store = kt__disk_store(w.disk);
    kt__prefix_set_store(w.prefix, &store);
    for (int i = 0; i < END_POS; i++) w.ids[i] = 100 + i;
    return w;
}

static void end_world_close(end_world *w) {
    kt__kv_table_free(w->kv, &w->table);
    kt__prefix_destroy(w->prefix);
    kt__disk_close(w->disk);
    kt__kv_destroy(w->kv);
}

static void grow_to_end(end_world *w) {
    kt_error err;
    disk_ok(kt__kv_table_grow_as(w->kv, &w->table, 0, END_POS, KT__GROW_QUANTISED, &err), &err);
    assert_true(kt__kv_table_hold_end(w->kv, &w->table, END_POS));
}

static void write_end(void) {
    uint8_t bytes[8192];
    end_world w = end_world_open();
    kt__prefix_cursor cursor = {w.root, 0};
    grow_to_end(&w);
    for (uint32_t i = 0; i + 1 < END_BLOCKS; i++) {
        fill(bytes, kt__kv_block_bytes(&end_shape), i);
        kt__kv_block_write(w.kv, w.table.pages[i], bytes);
    }
    fill(bytes, kt__kv_end_bytes(&end_shape, END_POS), 99);
    kt__kv_end place = kt__kv_end_new(&w.table, END_POS);
    kt__kv_end_write(w.kv, &place, bytes);
    kt__kv_end_take(w.kv, &w.table, &place);
    kt__prefix_put_blocks(w.prefix, &cursor, w.ids, END_POS, &w.table);
    assert_int_equal(cursor.n_block, END_BLOCKS - 1); /* the last one is not quantised */
    for (int i = 0; i < 2; i++) {                     /* once is enough */
        kt__prefix_put_end(w.prefix, w.root, w.ids, END_BLOCKS, &w.table);
        kt__disk_flush(w.disk);
    }
    kt_cache_stats s;
    kt__disk_get_stats(w.disk, &s);
    assert_int_equal(s.n_written, END_BLOCKS);
    end_world_close(&w);
}

static bool load_end_again(end_world *w) {
    kt__prefix_cursor cursor = {w->root, 0};
    grow_to_end(w);
    while (cursor.n_block < END_BLOCKS) {
        if (!kt__prefix_load_part(w->prefix, w->root, &cursor, w->ids, END_BLOCKS, &w->table))
            return false;
    }
    return true;
}

static void shell_in_dir(const char *format) {
    char command[512];
    snprintf(command, sizeof command, format, dir);
    assert_int_equal(system(command), 0);
}

static void test_ends_are_found_with_their_blocks(void **state) {
    (void)state;
    uint8_t expected[8192], got[8192];
    size_t block = kt__kv_block_bytes(&end_shape), end = kt__kv_end_bytes(&end_shape, END_POS);
    write_end();
    end_world w = end_world_open();
    assert_int_equal(kt__prefix_find_end(w.prefix, w.root, w.ids, END_POS, 0), END_BLOCKS);
    assert_int_equal(kt__prefix_find_end(w.prefix, w.root, w.ids, END_POS - 1, 0), 0);
    assert_int_equal(kt__prefix_find_end(w.prefix, w.root, w.ids, END_POS, END_BLOCKS), 0);
    assert_true(load_end_again(&w));
    for (uint32_t i = 0; i + 1 < END_BLOCKS; i++) {
        fill(expected, block, i);
        kt__kv_block_read(w.kv, w.table.pages[i], got);
        assert_memory_equal(got, expected, block);
    }
    fill(expected, end, 99);
    assert_true(kt__kv_has_end(w.kv, &w.table, END_POS));
    kt__kv_end place = kt__kv_end_of(w.kv, &w.table, END_POS);
    kt__kv_end_read(w.kv, &place, got);
    assert_memory_equal(got, expected, end);
    assert_int_equal(kt__kv_table_own_end(w.kv, &w.table, END_POS), END_POS);
    end_world_close(&w);
    /* a block under an end's name, and one that is cut, are not taken */
    shell_in_dir("cd '%s'/*/ && cp 000003* \"$(ls 000004*.end)\"");
    w = end_world_open();
    assert_int_equal(kt__prefix_find_end(w.prefix, w.root, w.ids, END_POS, 0), END_BLOCKS);
    assert_false(load_end_again(&w));
    end_world_close(&w);
    w = end_world_open(); /* and it is gone */
    assert_int_equal(kt__prefix_find_end(w.prefix, w.root, w.ids, END_POS, 0), 0);
    end_world_close(&w);
}

static uint64_t sweep_all(uint64_t max_bytes) {
    kt__disk_swept swept;
    int root = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(kt__disk_sweep(root, max_bytes, false, &swept));
    close(root);
    return swept.bytes;
}

/* Its use keeps the blocks that lead to it; without one of these it goes first. */
static void test_an_end_goes_with_its_blocks(void **state) {
    (void)state;
    write_end();
    shell_in_dir("touch -d '1 hour ago' '%s'/*/0*.kv");
    write_chain(1, 2);
    for (int i = 0; i < 2; i++) set_used(1, i, 1000);
    uint64_t all = sweep_all(1 << 20);
    sweep_all(all - 1); /* both blocks of chain 1 go, the older though its files are younger */
    shell_in_dir("test $(ls '%s'/*/00000[0-4]-* | wc -l) = 6");
    sweep_all(all - FILE_BYTES - 1);
    shell_in_dir("test $(ls '%s'/*/00000[0-4]-* | wc -l) = 5");
    shell_in_dir("rm '%s'/*/000002-*.kv");
    all = sweep_all(1 << 20);
    sweep_all(all - 1);
    shell_in_dir("test $(ls '%s'/*/00000[013]-*.kv | wc -l) = 3");
    shell_in_dir("test $(ls '%s'/*/*.end | wc -l) = 0");
}

static void test_what_writers_left(void **state) {
    (void)state;
    char path[512];
    write_chain(1, 2);
    disk_path(dir, 1, 0, path, sizeof path);
    char *end = strrchr(path, '/') + 1;
    size_t room = (size_t)(path + sizeof path - end);
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
    const char *const names[] = {".tmp-%ld-1", ".tmp-x", "notes.txt"};
    for (int i = 0; i < 4; i++) {
        snprintf(end, room, names[i < 3 ? i : 0], (long)(i < 3 ? pid : getpid()));
        FILE *f = fopen(path, "w");
        fputs("12345", f);
        fclose(f);
    }
    kt__disk_swept swept;
    int root = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(kt__disk_sweep(root, 1 << 20, false, &swept));
    close(root);
    assert_int_equal(swept.bytes, 2 * FILE_BYTES + 5); /* ours is alive; notes are not counted */
    int n_temp = 0;
    uint64_t bytes = 0;
    disk_count(dir, &n_temp, &bytes);
    assert_int_equal(n_temp, 1);
    snprintf(end, room, "notes.txt");
    assert_int_equal(access(path, F_OK), 0);
}

/* Used blocks are noted, so that a sweep of another process sees it. */
static void test_use_is_noted(void **state) {
    (void)state;
    write_chain(1, 3);
    for (int i = 0; i < 3; i++) set_used(1, i, 1000);
    kt__disk_params p = disk_params(dir, 0, 0);
    disk_world w = disk_world_open(&p);
    for (int i = 0; i < 2; i++) assert_true(disk_get(&w, 1, i));
    disk_world_close(&w);
    char path[512];
    for (int i = 0; i < 3; i++) {
        struct stat st;
        disk_path(dir, 1, i, path, sizeof path);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(time(NULL) - st.st_mtime < 100, i < 2);
    }
}

/* Three processes write, read and sweep one small directory. */
static void test_several_processes(void **state) {
    (void)state;
    enum { N = 3, MAX_FILES = 64 };
    pid_t pids[N];
    for (int n = 0; n < N; n++) {
        pids[n] = fork();
        if (pids[n] != 0) continue;
        kt__disk_params p = disk_params(dir, (uint64_t)MAX_FILES * FILE_BYTES, 0);
        disk_world w = disk_world_open(&p);
        for (int round = 0; round < 12; round++) {
            for (int i = 0; i < 20; i++) disk_put(&w, (round + n) % 5, i);
            for (int i = 0; i < 20 && disk_get(&w, (round + n + 1) % 5, i); i++) {
            }
            kt__disk_flush(w.disk);
        }
        kt_cache_stats s = stats_of(&w);
        disk_world_close(&w);
        _exit(s.n_failed + s.n_damaged + s.n_dropped ? 1 : 0);
    }
    for (int n = 0; n < N; n++) {
        int status;
        waitpid(pids[n], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    int n_temp = 0;
    uint64_t bytes = 0;
    disk_count(dir, &n_temp, &bytes);
    assert_int_equal(n_temp, 0);
    print_message("%d of %d blocks\n", (int)(bytes / FILE_BYTES), MAX_FILES);
    /* each may be a thirty-second over between two looks */
    assert_true(bytes <= (uint64_t)MAX_FILES * FILE_BYTES * (32 + N + 1) / 32);
}

#if HEAP_WATCHED
static void test_failing_allocations(void **state) {
    (void)state;
    for (long n = 1;; n++) {
        kt_error err;
        kt__disk *disk = NULL;
        kt__disk_params p = disk_params(dir, 0, 0);
        heap_begin(n, n);
        kt_status status = kt__disk_open(&p, &disk_shape, &disk, &err);
        bool failed = heap.n_failed > 0;
        kt__disk_close(disk);
        heap_end();
        assert_int_equal(heap.n_live, 0);
        heap_sweep();
        if (status == KT_OK) {
            if (!failed) break;
            continue;
        }
        assert_int_equal(status, KT_E_NOMEM);
        assert_true(n < 100);
    }
}
#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_found_again),
        TEST(test_damaged_files),
        TEST(test_foreign_files),
        TEST(test_models_that_look_the_same),
        TEST(test_bad_directories),
        TEST(test_the_queue_is_bounded),
        TEST(test_what_goes_first),
        TEST(test_ends_are_found_with_their_blocks),
        TEST(test_an_end_goes_with_its_blocks),
        TEST(test_what_writers_left),
        TEST(test_use_is_noted),
        TEST(test_several_processes),
#if HEAP_WATCHED
        TEST(test_failing_allocations),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
