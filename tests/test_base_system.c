/* What rooms ask the system for (base/system.h), the same on every system: paths, folders, descriptors, this process. */
#include "base/system.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "support.h"

static char folder[] = "/tmp/kentang-system-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void test_what_is_at_a_path(void **state) {
    (void)state;
    kt__file_info info, same;
    const char *path = in_folder("file");
    assert_false(kt__file_exists(path));
    assert_int_equal(errno, ENOENT);
    assert_false(kt__file_look(path, &info));
    int fd = kt__fd_open(path, KT__OPEN_BOTH | KT__OPEN_CREATE | KT__OPEN_PRIVATE);
    assert_true(fd >= 0);
    assert_true(kt__fd_write(fd, "abcdef", 6));
    assert_true(kt__fd_cut(fd, 4) && kt__fd_sync(fd) && kt__fd_sync_data(fd));
    assert_true(kt__file_look(path, &info) && kt__fd_look(fd, &same));
    assert_true(info.is_file && !info.is_folder && !info.is_link && !info.is_pipe);
    assert_int_equal(info.bytes, 4);
    assert_true(info.number == same.number && info.device == same.device);
    assert_true(info.changed_s > 1600000000);
    assert_true(kt__fd_close(fd) && kt__fd_close(-1));
    assert_true(kt__file_readable(path) && kt__file_remove(path) && !kt__file_exists(path));
    assert_true(kt__file_look(folder, &info) && info.is_folder);
}

static void test_ways_of_opening(void **state) {
    (void)state;
    char text[8] = "";
    const char *path = in_folder("ways");
    assert_int_equal(kt__fd_open(path, KT__OPEN_READ), -1);
    int fd = kt__fd_open(path, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_NEW);
    assert_true(fd >= 0 && kt__fd_write(fd, "one", 3) && kt__fd_close(fd));
    assert_int_equal(kt__fd_open(path, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_NEW), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(kt__fd_open(path, KT__OPEN_READ | KT__OPEN_FOLDER), -1);
    fd = kt__fd_open(path, KT__OPEN_WRITE | KT__OPEN_APPEND);
    assert_true(fd >= 0 && kt__fd_write(fd, "two", 3) && kt__fd_close(fd));
    fd = kt__fd_open(path, KT__OPEN_READ);
    assert_int_equal(kt__fd_read(fd, text, sizeof text), 6);
    assert_memory_equal(text, "onetwo", 6);
    assert_int_equal(kt__fd_read(fd, text, sizeof text), 0);
    assert_true(kt__fd_read_at(fd, text, 2, 4) && !memcmp(text, "wo", 2));
    assert_true(kt__fd_has_input(fd, 0) && !kt__fd_is_terminal(fd) && kt__fd_close(fd));
    fd = kt__fd_open(path, KT__OPEN_WRITE | KT__OPEN_EMPTY);
    kt__file_info info;
    assert_true(fd >= 0 && kt__fd_look(fd, &info) && info.bytes == 0 && kt__fd_close(fd));
    assert_true(kt__file_remove(path));
}

static void test_a_lock_is_one_openers(void **state) {
    (void)state;
    const char *path = in_folder("lock");
    int first = kt__fd_open(path, KT__OPEN_BOTH | KT__OPEN_CREATE);
    int second = kt__fd_open(path, KT__OPEN_BOTH | KT__OPEN_CREATE);
    assert_true(kt__fd_lock(first, false) && !kt__fd_lock(second, false));
    assert_true(kt__fd_close(first) && kt__fd_lock(second, false) && kt__fd_close(second));
    assert_true(kt__file_remove(path));
}

static void test_a_folders_names(void **state) {
    (void)state;
    int n = 0, n_known = 0;
    assert_true(kt__folder_make(in_folder("below"), true) &&
                !kt__folder_make(in_folder("below"), true));
    int fd = kt__fd_open(in_folder(".hidden"), KT__OPEN_WRITE | KT__OPEN_CREATE);
    assert_true(kt__fd_close(fd));
    kt__listing *listing = kt__listing_open(folder);
    for (const char *name; (name = kt__listing_next(listing)) != NULL; n++)
        n_known += !strcmp(name, "below") || !strcmp(name, ".hidden");
    kt__listing_close(listing);
    assert_int_equal(n, 2);
    assert_int_equal(n_known, 2);
    assert_true(kt__file_remove(in_folder(".hidden")) && kt__folder_remove(in_folder("below")));
    assert_null(kt__listing_open(in_folder("below")));
    kt__listing_close(NULL);
}

static void test_this_process(void **state) {
    (void)state;
    uint64_t first = 0, second = 0;
    char text[256];
    kt__process_use use;
    assert_true(kt__random_bytes(&first, sizeof first) && kt__random_bytes(&second, sizeof second));
    assert_true(first != second);
    assert_true(kt__process_number() > 0 && kt__system_processors() > 0);
    assert_true(kt__process_used(&use) && use.peak_bytes > 1 << 16);
    assert_true(kt__system_name(text, sizeof text) && *text);
    assert_true(kt__system_host(text, sizeof text) && *text);
    assert_null(kt__library_open("no-such-library.so.7"));
    assert_true(*kt__library_error());
    assert_false(kt__process_is_static());
}

static void test_letters_and_patterns(void **state) {
    (void)state;
    (void)setlocale(LC_ALL, "tr_TR.UTF-8"); /* where there is one its i is another */
    assert_int_equal(kt__strcasecmp("TITLE", "title"), 0);
    assert_int_equal(kt__strncasecmp("Content-Type: x", "content-type: y", 14), 0);
    assert_true(kt__strcasecmp("ab", "abc") < 0 && kt__strcasecmp("b", "A") > 0);
    assert_true(kt__strcasecmp("\xc3\xa4", "\xc3\x84") != 0);
    (void)setlocale(LC_ALL, "C");
    assert_true(kt__pattern_matches("blk.*.ffn_[gu]*", "blk.3.ffn_gate") &&
                !kt__pattern_matches("a?", "a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_at_a_path),     cmocka_unit_test(test_ways_of_opening),
        cmocka_unit_test(test_a_lock_is_one_openers), cmocka_unit_test(test_a_folders_names),
        cmocka_unit_test(test_this_process),          cmocka_unit_test(test_letters_and_patterns),
    };
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)kt__folder_remove(folder);
    return failed;
}
