/* feedback: a process that takes feedback, rolls back, publishes and deletes is killed at random
 * moments, a hundred times. What it acknowledged is there afterwards, what it had deleted is not, the
 * version that is served is the last acknowledged one or the one it was making, and no adapter is half
 * there. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "feedback/store.h"
#include "support.h"

enum { N_KILLS = 100, D = 16, N_VOCAB = 1000, MAX_TOLD = 1 << 18, ADAPTER_BYTES = 20000 };

/* What the writer says when a call has returned. */
typedef struct told {
    char what; /* 'a' added, 'd' deleted, 'v' a version is served */
    uint32_t version;
    uint64_t id, content;
} told;

/* In memory that both processes see: a told is there when n counts it. */
typedef struct telling {
    atomic_uint_fast64_t n;
    told list[MAX_TOLD];
} telling;

static telling *shared;

static void tell(char what, uint64_t id, uint32_t version, uint64_t content) {
    uint64_t n = atomic_load(&shared->n);
    if (n == MAX_TOLD) _exit(9);
    shared->list[n] = (told){what, version, id, content};
    atomic_store(&shared->n, n + 1);
}

static kt__feedback *open_store(const char *dir) {
    kt__feedback_params p = {.dir = dir, .d_model = D, .n_vocab = N_VOCAB, .max_entries = 1 << 20};
    kt__feedback *s;
    kt_error err;
    p.max_bytes = (uint64_t)1 << 30;
    if (kt__feedback_open(&p, &s, &err) == KT_OK) return s;
    fprintf(stderr, "%s %s\n", err.message, err.where);
    abort();
}

/* Both follow from a number. */
static size_t fill(uint64_t content, char text[512], int8_t keys[4 * D]) {
    int n = snprintf(text, 512, "feedback %llu ", (unsigned long long)content);
    for (; n < (int)(content * 7 % 300) + 40; n++)
        text[n] = (char)('a' + (content + (uint64_t)n) % 26);
    for (int i = 0; i < 4 * D; i++) keys[i] = (int8_t)(content * 31 + (uint64_t)i);
    return (size_t)n;
}

static void add_one(kt__feedback *s, uint64_t content) {
    static const int32_t ids[] = {1, 2, 3, 4};
    char text[512];
    int8_t keys[4 * D];
    uint64_t id;
    uint32_t version;
    kt_error err;
    kt__feedback_item item = {.kind = KT__FEEDBACK_CORRECTION, .about = "x", .text = text};
    item.n_text = fill(content, text, keys);
    item.keys = (kt__feedback_keys){content % 5, ids, keys};
    if (kt__feedback_add(s, &item, &id, &version, &err) != KT_OK) _exit(2);
    tell('a', id, version, content);
}

static void delete_one(kt__feedback *s, uint32_t *x) {
    uint64_t *ids;
    size_t n;
    kt_error err;
    if (kt__feedback_list(s, &ids, &n, &err) != KT_OK) _exit(5);
    if (n > 0) {
        uint64_t id = ids[lcg_below(x, (uint32_t)n)];
        if (kt__feedback_delete(s, id, &err) != KT_OK) _exit(6);
        tell('d', id, 0, 0);
    }
    kt__free(ids);
}

static void change_one(kt__feedback *s, uint32_t *x, const char *adapter) {
    kt__feedback_info info;
    kt_error err;
    uint32_t version;
    kt__feedback_get_info(s, &info);
    switch (lcg_below(x, 3)) {
    case 0:
        version = lcg_below(x, info.last + 1);
        if (kt__feedback_rollback(s, version, &err) != KT_OK) _exit(3);
        tell('v', 0, version, 0);
        break;
    case 1:
        if (kt__feedback_publish(
                s,
                &(kt__feedback_adapter_files){
                    .adapter = adapter, .report = "{}", .n_report = 2, .quality = 0.5},
                &version, &err) != KT_OK)
            _exit(4);
        tell('v', 0, version, 0);
        break;
    default: delete_one(s, x);
    }
}

static pid_t start_writer(const char *dir, const char *adapter, uint32_t x, uint64_t content) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    kt__feedback *s = open_store(dir);
    for (;;) {
        if (lcg_below(&x, 8))
            add_one(s, content++);
        else
            change_one(s, &x, adapter);
    }
}

static void check_item(kt__feedback *s, uint64_t id, uint64_t content) {
    char text[512];
    int8_t keys[4 * D];
    kt__buf buf;
    kt__feedback_item item;
    kt_error err;
    size_t n = fill(content, text, keys);
    kt__buf_init(&buf, 1 << 20);
    die_on(kt__feedback_get(s, id, &item, &buf, &err), &err);
    assert_int_equal(item.n_text, n);
    assert_memory_equal(item.text, text, n);
    assert_int_equal(item.keys.n, content % 5);
    assert_memory_equal(item.keys.keys, keys, item.keys.n * D);
    kt__buf_free(&buf);
}

static bool was_deleted(uint64_t id) {
    for (uint64_t i = 0; i < atomic_load(&shared->n); i++) {
        if (shared->list[i].what == 'd' && shared->list[i].id == id) return true;
    }
    return false;
}

/* All that was told, less what one deletion that was under way may have taken. */
static void check_items(kt__feedback *s) {
    int n_missing = 0;
    for (uint64_t i = 0; i < atomic_load(&shared->n); i++) {
        const told *t = &shared->list[i];
        kt__buf buf;
        kt__feedback_item item;
        kt_error err;
        if (t->what != 'a') continue;
        kt__buf_init(&buf, 1 << 20);
        bool there = kt__feedback_get(s, t->id, &item, &buf, &err) == KT_OK;
        kt__buf_free(&buf);
        bool deleted = was_deleted(t->id);
        if (deleted) assert_false(there);
        if (there) check_item(s, t->id, t->content);
        if (!deleted && !there) {
            n_missing++;
            tell('d', t->id, 0, 0);
        }
    }
    assert_true(n_missing <= 1);
}

static void check_versions(kt__feedback *s, uint32_t last_told) {
    kt__feedback_info info;
    kt__feedback_version *versions;
    size_t n;
    kt_error err;
    kt__feedback_get_info(s, &info);
    /* the last acknowledged one, or what the call that was killed had made */
    if (info.version != last_told) tell('v', 0, info.version, 0);
    die_on(kt__feedback_versions(s, &versions, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        char path[512];
        struct stat st;
        if (versions[i].feedback || versions[i].withdrawn) continue;
        die_on(kt__feedback_adapter_path(s, versions[i].number, KT__VERSION_ADAPTER, path,
                                         sizeof path, &err),
               &err);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, ADAPTER_BYTES);
    }
    kt__free(versions);
}

/* The version that the last calls that returned have left. */
static uint32_t last_version(uint64_t *n_told) {
    uint32_t version = 0;
    *n_told = atomic_load(&shared->n);
    for (uint64_t i = 0; i < *n_told; i++) {
        if (shared->list[i].what != 'd') version = shared->list[i].version;
    }
    return version;
}

static void wait_us(uint32_t us) {
    const struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static void put_adapter(const char *path) {
    char bytes[ADAPTER_BYTES];
    FILE *f = fopen(path, "wb");
    memset(bytes, 'w', sizeof bytes);
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, f), sizeof bytes);
    fclose(f);
}

static void test_killed_at_any_moment(void **state) {
    (void)state;
    char root[] = "/tmp/kentang-kill-XXXXXX", dir[64], adapter[64];
    uint32_t x = (uint32_t)time(NULL);
    uint64_t n_told;
    kt_error err;
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/ns", root);
    snprintf(adapter, sizeof adapter, "%s/candidate", root);
    put_adapter(adapter);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    print_message("seed %u\n", x);
    for (int i = 0; i < N_KILLS; i++) {
        int how;
        pid_t pid = start_writer(dir, adapter, lcg(&x), (uint64_t)i * 1000000);
        wait_us(500 + (lcg(&x) >> 8 & 0x7fff)); /* up to 33 ms */
        kill(pid, SIGKILL);
        waitpid(pid, &how, 0);
        assert_true(WIFSIGNALED(how));
        uint32_t version = last_version(&n_told);
        kt__feedback *s = open_store(dir);
        check_items(s);
        check_versions(s, version);
        kt__feedback_close(s);
    }
    print_message("%llu acknowledged\n", (unsigned long long)n_told);
    assert_true(n_told > N_KILLS);
    munmap(shared, sizeof *shared);
    die_on(kt__files_remove_tree(root, &err), &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed_at_any_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
