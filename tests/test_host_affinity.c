/* host: lists of processors are read as written, a pool's threads run there and the caller comes
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/affinity.h"
#include "host/pool.h"

static cpu_set_t own_mask(void) {
    cpu_set_t mask;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    return mask;
}

static size_t first_cpu(const cpu_set_t *mask) {
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, mask)) return cpu;
    return 0;
}

static void test_lists_and_masks(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t cpus[8];
        int n;
    } good[] = {
        {"0", {0}, 1},
        {"0-2,5", {0, 1, 2, 5}, 4},
        {"0x5", {0, 2}, 2},
        {"0X10f", {0, 1, 2, 3, 8}, 5},
        {"0x1,0-1,7", {0, 1, 7}, 3},
        {"0x80000000000000001", {0, 67}, 2},
    };
    cpu_set_t allowed = own_mask();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        kt__affinity affinity;
        kt_error err;
        int n_allowed = 0;
        kt_status status = kt__affinity_parse(good[i].text, 0, &affinity, &err);
        for (int k = 0; k < good[i].n; k++) n_allowed += CPU_ISSET(good[i].cpus[k], &allowed) != 0;
        if (!n_allowed) {
            assert_int_equal(status, KT_E_ARG);
            assert_non_null(strstr(err.message, "may run on none"));
            continue;
        }
        assert_int_equal(status, KT_OK);
        assert_true(affinity.pinned);
        assert_int_equal(CPU_COUNT(&affinity.cpus), n_allowed);
        for (int k = 0; k < good[i].n; k++)
            if (CPU_ISSET(good[i].cpus[k], &allowed))
                assert_true(CPU_ISSET(good[i].cpus[k], &affinity.cpus));
    }
}

static void test_what_is_neither_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",    ",",  "0,",      "a",   "-1",   "3-1", "1024",  "0x",
                                      "0xg", "1-", "0-99999", "0 1", "1--2", "0x,", "0x5-7", "0x0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kt__affinity affinity;
        kt_error err;
        kt_status status = kt__affinity_parse(bad[i], 0, &affinity, &err);
        if (status != KT_E_ARG) fail_msg("\"%s\" was read", bad[i]);
    }
    kt__affinity affinity;
    char long_mask[600] = "0x1";
    memset(long_mask + 3, '0', 300);
    assert_int_equal(kt__affinity_parse(long_mask, 0, &affinity, NULL), KT_E_ARG);
    assert_int_equal(kt__affinity_parse("1023", 0, &affinity, NULL), KT_E_ARG);
    assert_int_equal(kt__affinity_parse(NULL, 4, &affinity, NULL), KT_E_ARG);
    assert_int_equal(kt__affinity_parse(NULL, -2, &affinity, NULL), KT_E_ARG);
    assert_int_equal(kt__affinity_parse(NULL, 0, &affinity, NULL), KT_OK);
    assert_false(affinity.pinned);
}

typedef struct seen {
    cpu_set_t want;
    atomic_int wrong, calls, nice;
} seen;

static void look(void *arg, int64_t begin, int64_t end, int worker) {
    seen *s = arg;
    (void)begin, (void)end;
    cpu_set_t mask;
    (void)sched_getaffinity(0, sizeof mask, &mask);
    atomic_fetch_add(&s->wrong, !CPU_EQUAL(&mask, &s->want));
    atomic_fetch_add(&s->calls, 1);
    if (worker) atomic_store(&s->nice, getpriority(PRIO_PROCESS, 0));
    usleep(1000);
}

static void test_threads_run_where_they_should(void **state) {
    (void)state;
    cpu_set_t before = own_mask(), after;
    kt__affinity affinity = {.pinned = true, .priority = KT__PRIORITY_LOW};
    seen s = {.wrong = 0};
    kt__pool *pool;
    kt_error err;
    CPU_ZERO(&affinity.cpus);
    CPU_SET(first_cpu(&before), &affinity.cpus);
    s.want = affinity.cpus;
    assert_int_equal(kt__pool_create_at(3, &affinity, &pool, &err), KT_OK);
    kt__pool_begin(pool, 3);
    while (atomic_load(&s.nice) == 0 && atomic_load(&s.calls) < 10000)
        kt__pool_run(pool, 12, 1, look, &s);
    kt__pool_end(pool);
    after = own_mask();
    assert_true(CPU_EQUAL(&before, &after));
    assert_int_equal(s.wrong, 0);
    int own = getpriority(PRIO_PROCESS, 0);
    assert_true(s.nice >= 10); /* a worker's; ours is as it was */
    assert_true(own < s.nice || own >= 10);
    kt__pool_destroy(pool);
}

/* With the privilege it works and leaves no trace; without, it is refused. */
static void test_raised_priority(void **state) {
    (void)state;
    for (int p = KT__PRIORITY_MEDIUM; p <= KT__PRIORITY_REALTIME; p++) {
        kt__affinity affinity = {.priority = (kt__priority)p};
        kt__pool *pool;
        kt_error err;
        int nice = getpriority(PRIO_PROCESS, 0), policy = sched_getscheduler(0);
        kt_status status = kt__pool_create_at(2, &affinity, &pool, &err);
        assert_true(status == KT_OK || status == KT_E_ARG);
        if (status != KT_OK) assert_non_null(strstr(err.message, "--prio"));
        kt__pool_destroy(pool);
        assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
        assert_int_equal(sched_getscheduler(0), policy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_and_masks),
        cmocka_unit_test(test_what_is_neither_is_refused),
        cmocka_unit_test(test_threads_run_where_they_should),
        cmocka_unit_test(test_raised_priority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
