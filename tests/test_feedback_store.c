/* feedback: a namespace's journal, versions, quotas, deletion without a trace, and what is refused. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "feedback/journal.h"
#include "feedback/store.h"
#include "support.h"

enum { D = 8, N_VOCAB = 100 };

static char folder[] = "/tmp/kentang-feedback-XXXXXX";
static int n_folders;

static const char *fresh_dir(void) {
    static char dir[128];
    snprintf(dir, sizeof dir, "%s/a/%d", folder, n_folders++);
    return dir;
}

static kt__feedback_params params_of(const char *dir) {
    kt__feedback_params p = {.dir = dir, .d_model = D, .n_vocab = N_VOCAB};
    memset(p.base, 7, sizeof p.base);
    return p;
}

static kt__feedback *open_store(const char *dir) {
    kt__feedback_params p = params_of(dir);
    kt__feedback *s;
    kt_error err;
    die_on(kt__feedback_open(&p, &s, &err), &err);
    return s;
}

static const int32_t ids[] = {1, 2, 3, 4, 5};
static const int8_t keys[2 * D] = {1,   -2,  3,   -4,  5,   -6,  7,   -8,
                                   100, 101, 102, 103, 104, 105, 106, 107};

static kt__feedback_item item_of(const char *text, size_t n_keys) {
    return (kt__feedback_item){.kind = KT__FEEDBACK_CORRECTION,
                               .about = "chatcmpl-1",
                               .prompt = ids,
                               .n_prompt = 3,
                               .answer = ids + 1,
                               .n_answer = 4,
                               .right = ids + 3,
                               .n_right = 2,
                               .text = text,
                               .n_text = strlen(text),
                               .keys = {n_keys, ids, keys}};
}

static uint64_t add(kt__feedback *s, const char *text, size_t n_keys, uint32_t want_version) {
    kt__feedback_item item = item_of(text, n_keys);
    uint64_t id;
    uint32_t version;
    kt_error err;
    die_on(kt__feedback_add(s, &item, &id, &version, &err), &err);
    assert_int_equal(version, want_version);
    return id;
}

static void assert_text(kt__feedback *s, uint64_t id, const char *text) {
    kt__buf buf;
    kt__feedback_item item;
    kt_error err;
    kt__buf_init(&buf, 1 << 20);
    die_on(kt__feedback_get(s, id, &item, &buf, &err), &err);
    assert_int_equal(item.n_text, strlen(text));
    assert_memory_equal(item.text, text, item.n_text);
    assert_string_equal(item.about, "chatcmpl-1");
    assert_int_equal(item.n_prompt, 3);
    assert_memory_equal(item.prompt, ids, 3 * sizeof *ids);
    assert_memory_equal(item.answer, ids + 1, 4 * sizeof *ids);
    assert_memory_equal(item.right, ids + 3, 2 * sizeof *ids);
    assert_memory_equal(item.keys.keys, keys, item.keys.n * D);
    kt__buf_free(&buf);
}

static void assert_chain(kt__feedback *s, uint32_t version, size_t want, const uint64_t *of) {
    uint64_t *chain;
    size_t n;
    kt_error err;
    die_on(kt__feedback_chain(s, version, &chain, &n, &err), &err);
    assert_int_equal(n, want);
    for (size_t i = 0; i < n; i++) assert_int_equal(chain[i], of[i]);
    kt__free(chain);
}

static void test_kept_over_restarts(void **state) {
    (void)state;
    const char *dir = fresh_dir();
    kt__feedback *s = open_store(dir);
    kt__feedback_info info;
    kt_error err;
    uint64_t a = add(s, "first", 2, 1), b = add(s, "says nothing of tokens", 0, 1);
    uint64_t c = add(s, "second", 1, 2);
    die_on(kt__feedback_rollback(s, 1, &err), &err);
    uint64_t d = add(s, "third", 1, 3); /* built on 1 */
    for (int i = 0; i < 2; i++) {
        kt__feedback_get_info(s, &info);
        assert_int_equal(info.version, 3);
        assert_int_equal(info.n_entries, 4);
        assert_int_equal(info.n_acting, 2);
        assert_chain(s, 3, 2, (uint64_t[]){a, d});
        assert_chain(s, 2, 2, (uint64_t[]){a, c});
        assert_chain(s, 0, 0, NULL);
        assert_text(s, a, "first");
        assert_text(s, b, "says nothing of tokens");
        assert_text(s, d, "third");
        kt__feedback_close(s);
        s = open_store(dir);
    }
    die_on(kt__feedback_rollback(s, 0, &err), &err);
    die_on(kt__feedback_freeze(s, true, &err), &err);
    kt__feedback_close(s);
    s = open_store(dir);
    kt__feedback_get_info(s, &info);
    assert_int_equal(info.version, 0);
    assert_true(info.frozen);
    kt__feedback_item item = item_of("x", 1);
    uint64_t id;
    uint32_t version;
    assert_int_equal(kt__feedback_add(s, &item, &id, &version, &err), KT_E_STATE);
    assert_int_equal(kt__feedback_rollback(s, 4, &err), KT_E_ARG);
    kt__feedback_close(s);
}

static bool holds_bytes(const char *path, const char *needle) {
    kt__buf buf;
    kt_error err;
    kt__buf_init(&buf, 1 << 24);
    die_on(kt__files_read(path, &buf, &err), &err);
    bool found = buf.len && memmem(buf.data, buf.len, needle, strlen(needle));
    kt__buf_free(&buf);
    return found;
}

static bool tree_holds(const char *dir, const char *needle) {
    char path[512];
    bool found = false;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        assert_int_equal(stat(path, &st), 0);
        found |= S_ISDIR(st.st_mode) ? tree_holds(path, needle) : holds_bytes(path, needle);
    }
    closedir(d);
    return found;
}

static void put_file(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* What is pending: a correction is 1 and a score its size, in the version that is served or without keys. */
static void test_what_feedbacks_say(void **state) {
    (void)state;
    kt__feedback *s = open_store(fresh_dir());
    kt__feedback_item score = item_of("", 0);
    uint64_t first = add(s, "first", 1, 1), id;
    uint32_t version;
    kt_error err;
    score.kind = KT__FEEDBACK_SCORE;
    score.about = "chatcmpl-2";
    score.n_right = 0;
    score.score = -0.25f;
    die_on(kt__feedback_add(s, &score, &id, &version, &err), &err);
    (void)add(s, "second", 1, 2);
    for (int i = 0; i < 2; i++) {
        kt__feedback_amount all = kt__feedback_amount_after(s, 0), later;
        later = kt__feedback_amount_after(s, first);
        assert_int_equal(all.n, 3);
        assert_int_equal(later.n, 2);
        assert_true(all.said == 2.25 && later.said == 1.25);
        die_on(kt__feedback_rollback(s, 2, &err), &err);
    }
    die_on(kt__feedback_rollback(s, 0, &err), &err);
    assert_true(kt__feedback_amount_after(s, 0).said == 0.25);
    kt__feedback_close(s);
}

static void test_deleted_without_a_trace(void **state) {
    (void)state;
    const char *dir = fresh_dir();
    kt__feedback *s = open_store(dir);
    kt__feedback_info info;
    char adapter[256], path[512], old[512];
    kt_error err;
    uint32_t version;
    uint64_t a = add(s, "kept", 1, 1), b = add(s, "confidential words", 2, 2);
    snprintf(adapter, sizeof adapter, "%s/candidate", folder);
    put_file(adapter, "trained on confidential words");
    die_on(kt__feedback_publish(
               s,
               &(kt__feedback_adapter_files){
                   .adapter = adapter, .report = "{}", .n_report = 2, .quality = 0.25},
               &version, &err),
           &err);
    unlink(adapter);
    assert_int_equal(version, 3);
    assert_int_equal(kt__feedback_adapter(s, 3, NULL), 3);
    die_on(kt__feedback_adapter_path(s, 3, KT__VERSION_ADAPTER, path, sizeof path, &err), &err);
    assert_true(holds_bytes(path, "trained on"));
    uint64_t c = add(s, "kept, too", 1, 4);
    assert_int_equal(kt__feedback_adapter(s, 4, NULL), 3);
    assert_true(tree_holds(dir, "confidential"));
    snprintf(old, sizeof old, "%s/journal", dir);
    int fd = open(old, O_RDONLY); /* the file as it was, to see that it was overwritten */
    die_on(kt__feedback_delete(s, b, &err), &err);
    assert_false(tree_holds(dir, "confidential"));
    char bytes[4096];
    ssize_t n = read(fd, bytes, sizeof bytes);
    assert_true(n > 0 && !memmem(bytes, (size_t)n, "confidential", 12));
    close(fd);
    for (int i = 0; i < 2; i++) {
        kt__feedback_get_info(s, &info);
        assert_int_equal(info.n_entries, 2);
        assert_int_equal(info.n_deleted, 1);
        assert_int_equal(info.version, 4);
        assert_int_equal(info.adapter, 0); /* what was trained with it is gone */
        assert_chain(s, 4, 2, (uint64_t[]){a, c});
        assert_text(s, c, "kept, too");
        kt__feedback_close(s);
        s = open_store(dir);
    }
    assert_int_equal(kt__feedback_delete(s, b, &err), KT_E_ARG);
    assert_int_equal(kt__feedback_adapter_path(s, 3, KT__VERSION_ADAPTER, path, sizeof path, &err),
                     KT_E_ARG);
    assert_true(add(s, "new", 1, 5) > c); /* numbers are not used again */
    die_on(kt__feedback_erase(s, &err), &err);
    assert_int_not_equal(access(dir, F_OK), 0);
}

static void test_quotas_and_refusals(void **state) {
    (void)state;
    const char *dir = fresh_dir();
    kt__feedback_params p = params_of(dir);
    kt__feedback *s, *second;
    kt__feedback_item item = item_of("text", 1);
    kt__feedback_info info;
    uint64_t id;
    uint32_t version;
    kt_error err;
    p.max_entries = 3;
    die_on(kt__feedback_open(&p, &s, &err), &err);
    assert_int_equal(kt__feedback_open(&p, &second, &err), KT_E_BUSY);
    p.read_only = true;
    die_on(kt__feedback_open(&p, &second, &err), &err); /* may look */
    assert_int_equal(kt__feedback_add(second, &item, &id, &version, &err), KT_E_STATE);
    kt__feedback_close(second);
    p.read_only = false;
    for (int i = 0; i < 3; i++) die_on(kt__feedback_add(s, &item, &id, &version, &err), &err);
    assert_int_equal(kt__feedback_add(s, &item, &id, &version, &err), KT_E_LIMIT);
    assert_non_null(strstr(err.message, "learning.max_entries"));
    die_on(kt__feedback_delete(s, id, &err), &err);
    die_on(kt__feedback_add(s, &item, &id, &version, &err), &err);
    kt__feedback_get_info(s, &info);
    kt__feedback_close(s);
    p.max_entries = 0;
    p.max_bytes = info.bytes + 10;
    die_on(kt__feedback_open(&p, &s, &err), &err);
    assert_int_equal(kt__feedback_add(s, &item, &id, &version, &err), KT_E_LIMIT);
    kt__feedback_close(s);
    p.base[0]++;
    assert_int_equal(kt__feedback_open(&p, &s, &err), KT_E_STATE); /* another model */
    assert_non_null(strstr(err.message, "another model"));
}

/* A record that a crash cut off goes, at every length; damage before the end is told. */
static void test_torn_and_damaged(void **state) {
    (void)state;
    const char *dir = fresh_dir();
    char path[256];
    kt__feedback *s = open_store(dir);
    kt__feedback_params p = params_of(dir);
    kt__feedback_info info;
    kt_error err;
    struct stat before, after;
    snprintf(path, sizeof path, "%s/journal", dir);
    add(s, "first", 1, 1);
    assert_int_equal(stat(path, &before), 0);
    add(s, "second", 2, 2);
    kt__feedback_close(s);
    assert_int_equal(stat(path, &after), 0);
    for (off_t size = after.st_size - 1; size >= before.st_size; size--) {
        assert_int_equal(truncate(path, size), 0);
        s = open_store(dir);
        kt__feedback_get_info(s, &info);
        assert_int_equal(info.n_entries, 1);
        assert_int_equal(info.version, 1);
        kt__feedback_close(s);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(after.st_size, before.st_size);
        if (size > before.st_size) assert_int_equal(truncate(path, size), 0); /* zeros */
    }
    s = open_store(dir);
    add(s, "second", 2, 2);
    kt__feedback_close(s);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, KT__JOURNAL_HEAD_BYTES + 50), 1);
    close(fd);
    assert_int_equal(kt__feedback_open(&p, &s, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "damaged"));
}

static void append_bytes(const char *path, const void *bytes, size_t n) {
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

/* What is not the one record that a crash cuts off is kept aside, and said. */
static void test_damaged_end(void **state) {
    (void)state;
    const char *dir = fresh_dir();
    char path[256], aside[300];
    struct stat st, whole;
    kt__feedback_info info;
    snprintf(path, sizeof path, "%s/journal", dir);
    snprintf(aside, sizeof aside, "%s.damaged", path);
    kt__feedback *s = open_store(dir);
    for (uint32_t i = 1; i <= 10; i++) add(s, "text", 1, i);
    kt__feedback_close(s);
    assert_int_equal(stat(path, &whole), 0);
    append_bytes(path, "some bytes that are no record of this journal", 40);
    s = open_store(dir);
    kt__feedback_get_info(s, &info);
    assert_true(info.damaged);
    assert_int_equal(info.n_cut, 40);
    assert_int_equal(info.cut_at, whole.st_size);
    assert_int_equal(info.n_entries, 10);
    kt__feedback_close(s);
    assert_int_equal(stat(aside, &st), 0);
    assert_int_equal(st.st_size, 40);
    s = open_store(dir); /* once is enough */
    kt__feedback_get_info(s, &info);
    assert_false(info.damaged);
    kt__feedback_close(s);
    assert_int_equal(truncate(path, whole.st_size / 2), 0); /* half of what was acknowledged */
    s = open_store(dir);
    kt__feedback_get_info(s, &info);
    assert_true(info.damaged);
    assert_true(info.n_entries < 10);
    kt__feedback_close(s);
    s = open_store(dir);
    kt__feedback_get_info(s, &info);
    assert_false(info.damaged);
    kt__feedback_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_over_restarts),      cmocka_unit_test(test_what_feedbacks_say),
        cmocka_unit_test(test_deleted_without_a_trace), cmocka_unit_test(test_quotas_and_refusals),
        cmocka_unit_test(test_torn_and_damaged),        cmocka_unit_test(test_damaged_end),
    };
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kt_error err;
    char below[128];
    for (int i = 0; i < n_folders; i++) {
        snprintf(below, sizeof below, "%s/a/%d", folder, i);
        if (kt__files_remove_tree(below, &err) != KT_OK) return 1;
    }
    if (kt__files_remove_tree(folder, &err) != KT_OK) return 1;
    return failed;
}
