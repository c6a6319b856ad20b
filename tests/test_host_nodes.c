/* host: which nodes there are on made-up machines; where memory lies on this one. tests/numa.sh
 * runs it on an emulated machine with two nodes; with one, everything lies there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "host/filemap.h"
#include "host/pages.h"
#include "node_watch.h"

enum { SPREAD_BYTES = 64 << 20 };

/* ---- made-up machines ---- */

static const struct {
    const char *path, *text;
} files[] = {
    {"sys", NULL},
    {"sys/devices", NULL},
    {"sys/devices/system", NULL},
    {"sys/devices/system/node", NULL},
    {"sys/devices/system/node/has_memory", "0-1,3,6\n"},
    {"sys/devices/system/node/node0", NULL},
    {"sys/devices/system/node/node0/cpulist", "0-1\n"},
    {"sys/devices/system/node/node1", NULL},
    {"sys/devices/system/node/node1/cpulist", "2-3,8\n"},
    {"sys/devices/system/node/node2", NULL}, /* processors without memory */
    {"sys/devices/system/node/node2/cpulist", "4\n"},
    {"sys/devices/system/node/node3", NULL}, /* memory without processors */
    {"sys/devices/system/node/node3/cpulist", "\n"},
    {"sys/devices/system/node/node6", NULL}, /* one that went away meanwhile */
};
enum { N_FILES = sizeof files / sizeof *files };

static void make_machine(const char *root) {
    char path[256];
    for (int i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", root, files[i].path);
        if (!files[i].text) {
            assert_int_equal(mkdir(path, 0755), 0);
            continue;
        }
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        fputs(files[i].text, f);
        fclose(f);
    }
}

static void remove_machine(const char *root) {
    char path[256];
    for (int i = N_FILES; i-- > 0;) {
        snprintf(path, sizeof path, "%s/%s", root, files[i].path);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(root), 0);
}

static void test_nodes_of_processors(void **state) {
    (void)state;
    static const struct {
        const char *cpus, *nodes;
    } cases[] = {{"0", "0"},  {"1,8", "0-1"}, {"0-15", "0-1"},  {"3-4", "1"},
                 {"4", NULL}, {"9-15", NULL}, {NULL, "0-1,3,6"}};
    char root[] = "/tmp/kentang-nodes-XXXXXX";
    cpu_set_t cpus, want, got;
    assert_non_null(mkdtemp(root));
    assert_int_equal(kt__nodes_of_at(root, NULL, &got), 0); /* a kernel without nodes */
    make_machine(root);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CPU_ZERO(&want);
        if (cases[i].nodes) assert_true(kt__affinity_read_list(cases[i].nodes, &want));
        if (cases[i].cpus) assert_true(kt__affinity_read_list(cases[i].cpus, &cpus));
        assert_int_equal(kt__nodes_of_at(root, cases[i].cpus ? &cpus : NULL, &got),
                         CPU_COUNT(&want));
        assert_true(CPU_EQUAL(&got, &want));
    }
    remove_machine(root);
}

static void test_unit(void **state) {
    (void)state;
    assert_int_equal(kt__pages_unit(), kt__nodes_several() ? KT__HUGE_PAGE_BYTES : 1);
}

/* ---- this machine ---- */

/* Touched by this thread, on the given processors. */
static void one_thread_touches(bool spread, const kt__affinity *place, const cpu_set_t *on,
                               const cpu_set_t *nodes) {
    cpu_set_t before;
    uint8_t *p = kt__pages_alloc(SPREAD_BYTES);
    assert_non_null(p);
    if (spread) kt__nodes_spread(p, SPREAD_BYTES, place);
    assert_int_equal(nw_node_of(p), NW_UNTOUCHED);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(sched_setaffinity(0, sizeof *on, on), 0);
    memset(p, 1, SPREAD_BYTES);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    nw_assert_spread(p, SPREAD_BYTES, nodes);
    kt__pages_free(p, SPREAD_BYTES);
}

static void test_spread(void **state) {
    (void)state;
    static const kt__affinity anywhere = {.pinned = false};
    cpu_set_t allowed, nodes;
    if (!nw_can_ask() || nw_own_nodes(&nodes) == 0) skip();
    print_message("NUMA nodes: %d\n", CPU_COUNT(&nodes));
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    one_thread_touches(true, NULL, &allowed, &nodes);
    one_thread_touches(true, &anywhere, &allowed, &nodes);
}

/* Threads that stay on a node have their memory there; and so it is without spreading. */
static void test_one_node_alone(void **state) {
    (void)state;
    cpu_set_t before, here;
    size_t cpus[2];
    if (!nw_can_ask() || nw_own_nodes(&here) == 0) skip();
    int n = nw_cpus(cpus, 2); /* the last one: of the second node, where there is one */
    assert_true(n > 0);
    kt__affinity place = {.pinned = true};
    CPU_ZERO(&place.cpus);
    CPU_SET(cpus[n - 1], &place.cpus);
    assert_int_equal(kt__nodes_of_at("", &place.cpus, &here), 1);
    one_thread_touches(false, NULL, &place.cpus, &here);
    one_thread_touches(true, &place, &place.cpus, &here); /* the caller may run elsewhere, too */
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_true(nw_hold_to(cpus[n - 1]));
    one_thread_touches(true, NULL, &place.cpus, &here);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* A copy of a file is read by one thread and used by all. */
static void test_copied_file(void **state) {
    (void)state;
    char path[] = "/tmp/kentang-nodes-XXXXXX";
    cpu_set_t nodes;
    kt__filemap copy;
    kt_error err;
    if (!nw_can_ask() || nw_own_nodes(&nodes) == 0) skip();
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SPREAD_BYTES), 0);
    assert_int_equal(kt__filemap_open(path, false, false, &copy, &err), KT_OK);
    nw_assert_spread(copy.data, SPREAD_BYTES, &nodes);
    kt__filemap_close(&copy);
    close(fd);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_of_processors),
        cmocka_unit_test(test_unit),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_one_node_alone),
        cmocka_unit_test(test_copied_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
