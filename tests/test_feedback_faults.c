/* feedback: without memory, and without room on the disk. A call that fails has changed nothing, and
 * the next one goes on; nothing is left allocated. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/files.h"
#include "fault_alloc.h"
#include "feedback/store.h"
#include "support.h"

enum { D = 8, N_VOCAB = 100 };

static char root[] = "/tmp/kentang-feedback-XXXXXX", dir[64];

static kt_status open_store(kt__feedback **out, kt_error *err) {
    kt__feedback_params p = {.dir = dir, .d_model = D, .n_vocab = N_VOCAB};
    return kt__feedback_open(&p, out, err);
}

static kt_status add(kt__feedback *s, size_t n_text, uint64_t *id, kt_error *err) {
    static const int32_t ids[] = {1, 2};
    static const int8_t keys[2 * D] = {1, 2, 3};
    static char text[100000];
    uint32_t version;
    kt__feedback_item item = {.kind = KT__FEEDBACK_CORRECTION, .about = "", .text = text};
    item.right = ids;
    item.n_right = 2;
    item.n_text = n_text;
    item.keys = (kt__feedback_keys){2, ids, keys};
    return kt__feedback_add(s, &item, id, &version, err);
}

static uint64_t count(kt__feedback *s) {
    kt__feedback_info info;
    kt__feedback_get_info(s, &info);
    return info.n_entries;
}

/* Opens, adds, asks, deletes; fails where it has to. */
static kt_status round_trip(kt_error *err) {
    kt__feedback *s;
    kt__feedback_item item;
    kt__feedback_version *versions = NULL;
    uint64_t *ids = NULL, id = 0, before = 0;
    size_t n;
    kt__buf buf;
    kt__buf_init(&buf, 1 << 20);
    kt_status status = open_store(&s, err);
    if (status != KT_OK) return status;
    before = count(s);
    status = add(s, 10, &id, err);
    assert_int_equal(count(s), before + (status == KT_OK));
    if (status == KT_OK) status = kt__feedback_get(s, id, &item, &buf, err);
    if (status == KT_OK) status = kt__feedback_list(s, &ids, &n, err);
    kt__free(ids);
    if (status == KT_OK)
        status = kt__feedback_chain(s, 1, &ids, &n, err);
    else
        ids = NULL;
    kt__free(ids);
    if (status == KT_OK) status = kt__feedback_versions(s, &versions, &n, err);
    kt__free(versions);
    if (status == KT_OK) status = kt__feedback_delete(s, id, err);
    kt__buf_free(&buf);
    kt__feedback_close(s);
    return status;
}

static void test_without_memory(void **state) {
    (void)state;
    kt_status status = KT_E_NOMEM;
    kt_error err;
    for (long i = 0; status != KT_OK; i++) {
        n_calls = 0;
        fail_at = i;
        status = round_trip(&err);
        fail_at = -1;
        if (status != KT_OK && status != KT_E_NOMEM && status != KT_E_LIMIT)
            fail_msg("call %ld: %s: %s", i, kt_status_name(status), err.message);
        assert_int_equal(live, 0);
        assert_true(i < 1000);
    }
}

static void test_full_disk(void **state) {
    (void)state;
    kt__feedback *s;
    kt__feedback_info info;
    uint64_t id, first;
    kt_error err;
    struct rlimit old, low;
    die_on(open_store(&s, &err), &err);
    die_on(add(s, 10, &first, &err), &err);
    kt__feedback_get_info(s, &info);
    uint64_t n = count(s);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = info.bytes + 5000;
    setrlimit(RLIMIT_FSIZE, &low);
    assert_int_equal(add(s, 50000, &id, &err), KT_E_IO);
    assert_non_null(strstr(err.message, "nothing was kept"));
    assert_int_equal(count(s), n);
    die_on(add(s, 100, &id, &err), &err); /* a smaller one fits */
    setrlimit(RLIMIT_FSIZE, &old);
    die_on(add(s, 50000, &id, &err), &err);
    kt__feedback_close(s);
    die_on(open_store(&s, &err), &err);
    assert_int_equal(count(s), n + 2);
    kt__feedback_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_memory),
                                       cmocka_unit_test(test_full_disk)};
    if (!mkdtemp(root)) return 1;
    snprintf(dir, sizeof dir, "%s/ns", root);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kt_error err;
    return kt__files_remove_tree(root, &err) == KT_OK ? failed : 1;
}
