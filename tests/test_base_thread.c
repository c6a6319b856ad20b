/* base: a thread of ours is named and leaves the process's signals alone; a ticket lock goes round.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/thread.h"

typedef struct seen {
    sigset_t mask;
    size_t stack;
} seen;

static void *look_around(void *arg) {
    seen *s = arg;
    pthread_attr_t attr;
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstacksize(&attr, &s->stack);
        pthread_attr_destroy(&attr);
    }
    return NULL;
}

static void test_takes_no_signal_of_its_host(void **state) {
    (void)state;
    static const int blocked[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGPIPE};
    static const int open[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT};
    sigset_t before, after;
    pthread_t thread;
    seen s = {.stack = 0};
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(kt__thread_start(&thread, "kentang-test", 256 << 10, look_around, &s), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++) {
        assert_int_equal(sigismember(&s.mask, blocked[i]), 1);
        assert_int_equal(sigismember(&after, blocked[i]), sigismember(&before, blocked[i]));
    }
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        assert_int_equal(sigismember(&s.mask, open[i]), 0);
    assert_in_range(s.stack, 256 << 10, 512 << 10);
}

static void *wait_for_flag(void *arg) {
    atomic_bool *flag = arg;
    while (!atomic_load(flag)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return NULL;
}

static void test_has_a_name_and_a_usual_stack(void **state) {
    (void)state;
    atomic_bool flag = false;
    pthread_t thread;
    char name[16] = "";
    assert_int_equal(kt__thread_start(&thread, "kentang-a-name-too-long", 1, wait_for_flag, &flag),
                     0);
    assert_int_equal(pthread_getname_np(thread, name, sizeof name), 0);
    assert_string_equal(name, "kentang-a-name-");
    atomic_store(&flag, true);
    pthread_join(thread, NULL);
}

/* ---- tickets ---- */

enum { N_THREADS = 3, N_TURNS = 200 };

typedef struct round {
    kt__ticket ticket;
    int n_in; /* under the lock */
    int order[N_THREADS * N_TURNS];
    int n_order;
    atomic_int n_ready;
} round;

typedef struct player {
    round *all;
    int number;
    bool yields;
} player;

static void *play(void *arg) {
    player *p = arg;
    round *all = p->all;
    atomic_fetch_add(&all->n_ready, 1);
    for (int i = 0; i < N_TURNS; i++) {
        kt__ticket_lock(&all->ticket);
        assert_int_equal(all->n_in++, 0);
        all->order[all->n_order++] = p->number;
        all->n_in--;
        if (p->yields) kt__ticket_yield(&all->ticket);
        kt__ticket_unlock(&all->ticket);
    }
    return NULL;
}

static void test_one_at_a_time(void **state) {
    (void)state;
    static round all;
    player players[N_THREADS];
    pthread_t threads[N_THREADS];
    assert_true(kt__ticket_init(&all.ticket));
    for (int i = 0; i < N_THREADS; i++) {
        players[i] = (player){&all, i, i == 0};
        assert_int_equal(kt__thread_start(&threads[i], "player", 0, play, &players[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(all.n_order, N_THREADS * N_TURNS);
    kt__ticket_destroy(&all.ticket);
}

static void *take_once(void *arg) {
    round *all = arg;
    kt__ticket_lock(&all->ticket);
    all->order[all->n_order++] = 2;
    kt__ticket_unlock(&all->ticket);
    return NULL;
}

static void wait_for_waiter(round *all) {
    for (bool waits = false; !waits;) {
        pthread_mutex_lock(&all->ticket.mutex);
        waits = all->ticket.next == all->ticket.serving + 2;
        pthread_mutex_unlock(&all->ticket.mutex);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void test_asking_again_does_not_overtake(void **state) {
    (void)state;
    for (int with_yield = 0; with_yield < 2; with_yield++) {
        round all = {.n_order = 0};
        pthread_t thread;
        assert_true(kt__ticket_init(&all.ticket));
        kt__ticket_lock(&all.ticket);
        kt__ticket_yield(&all.ticket); /* nobody waits: at once */
        assert_int_equal(kt__thread_start(&thread, "waiter", 0, take_once, &all), 0);
        wait_for_waiter(&all);
        if (with_yield) {
            kt__ticket_yield(&all.ticket);
        } else {
            kt__ticket_unlock(&all.ticket);
            kt__ticket_lock(&all.ticket);
        }
        all.order[all.n_order++] = 1;
        kt__ticket_unlock(&all.ticket);
        pthread_join(thread, NULL);
        assert_int_equal(all.order[0], 2);
        assert_int_equal(all.order[1], 1);
        kt__ticket_destroy(&all.ticket);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_no_signal_of_its_host),
        cmocka_unit_test(test_has_a_name_and_a_usual_stack),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_asking_again_does_not_overtake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
