/* kv: a writer of the disk cache is killed at random moments, a hundred times, while another one
 * may be at work too. The next start finds each block as it was put, or not at all; nothing is left
 * behind that does not go away by itself. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "disk_world.h"
#include "support.h"

enum { N_KILLS = 100, N_CHAINS = 6, N_BLOCKS = 40, MAX_FILES = 150 };

static kt__disk_params params_of(const char *dir) {
    return disk_params(dir, (uint64_t)MAX_FILES * (kt__kv_block_bytes(&disk_shape) + 256), 0);
}

/* Writes for ever, by chains, as prompts do. */
static void write_on(const char *dir, unsigned seed) {
    kt__disk_params p = params_of(dir);
    disk_world w = disk_world_open(&p);
    for (unsigned i = seed;; i++) {
        for (int b = 0; b < N_BLOCKS; b++) disk_put(&w, (int)(i % N_CHAINS), b);
        for (int b = 0; b < N_BLOCKS && disk_get(&w, (int)((i + 1) % N_CHAINS), b); b++) {
        }
    }
}

static pid_t start_writer(const char *dir, unsigned seed) {
    pid_t pid = fork();
    if (pid == 0) {
        write_on(dir, seed);
        _exit(1);
    }
    return pid;
}

static void wait_us(uint32_t us) {
    const struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static void test_killed_at_any_moment(void **state) {
    (void)state;
    char dir[] = "/tmp/kentang-kill-XXXXXX";
    uint32_t x = (uint32_t)time(NULL);
    int n_found = 0;
    assert_non_null(mkdtemp(dir));
    print_message("seed %u\n", x);
    for (int i = 0; i < N_KILLS; i++) {
        pid_t pids[2] = {start_writer(dir, (unsigned)i),
                         i % 4 ? 0 : start_writer(dir, (unsigned)i + 3)};
        lcg(&x);
        wait_us(x >> 8 & 0x3fff); /* up to 16 ms, its start included */
        for (int k = 0; k < 2; k++) {
            if (!pids[k]) continue;
            kill(pids[k], SIGKILL);
            waitpid(pids[k], NULL, 0);
        }
        if (i % 5) continue;
        kt__disk_params p = params_of(dir);
        disk_world w = disk_world_open(&p);
        for (int c = 0; c < N_CHAINS; c++) {
            for (int b = 0; b < N_BLOCKS; b++) n_found += disk_get(&w, c, b); /* right, or absent */
        }
        kt_cache_stats s;
        kt__disk_get_stats(w.disk, &s);
        assert_int_equal(s.n_damaged, 0); /* a file that is there is whole: it was renamed */
        disk_world_close(&w);
    }
    print_message("%d blocks found\n", n_found);
    assert_true(n_found > 0);
    kt__disk_params p = params_of(dir);
    disk_world w = disk_world_open(&p); /* its sweep removes what the dead left */
    for (int b = 0; b < N_BLOCKS; b++) disk_put(&w, 0, b);
    kt__disk_flush(w.disk);
    for (int b = 0; b < N_BLOCKS; b++) assert_true(disk_get(&w, 0, b));
    disk_world_close(&w);
    int n_temp = 0;
    uint64_t bytes = 0;
    int n = disk_count(dir, &n_temp, &bytes);
    assert_int_equal(n_temp, 0);
    assert_true(n >= N_BLOCKS && n <= MAX_FILES + MAX_FILES / 8);
    disk_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed_at_any_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
