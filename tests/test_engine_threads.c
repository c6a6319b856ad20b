/* Requests from many threads at once: submitted, read, cancelled, closed and counted while the
 * engine's own thread computes and another works on a sequence. For ThreadSanitizer, and for the
 * counts: each accepted request ends exactly once. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "requests_world.h"
#include "support.h"

enum { CLIENTS = 4, ROUNDS = 12 };

typedef struct client {
    world *w;
    pthread_t thread;
    int number;
    uint32_t random;
    int n_accepted, n_finished, n_refused, n_closed;
    bool broken;
} client;

static uint32_t roll(client *c, uint32_t n) {
    return lcg_below(&c->random, n);
}

typedef struct called {
    atomic_int n_finished;
    atomic_bool over;
} called;

static void on_event(void *user, const kt_event *event) {
    called *c = user;
    if (event->kind != KT_EVENT_FINISHED) return;
    atomic_fetch_add(&c->n_finished, 1);
    if (event->last) atomic_store(&c->over, true);
}

/* Reads to the end, or cancels in the middle, or goes away. */
static void by_poll(client *c, kt_request *req, int n_choices) {
    kt_event event;
    int n = 0, finished = 0, leave_at = roll(c, 3) == 0 ? (int)roll(c, 20) : 1 << 30;
    bool cancels = roll(c, 2) == 0;
    while (kt_request_next_event(req, &event, 20000)) {
        finished += event.kind == KT_EVENT_FINISHED;
        if (event.kind == KT_EVENT_TOKEN && event.len && !event.text) c->broken = true;
        if (++n < leave_at) continue;
        if (!cancels) {
            kt_request_close(req);
            c->n_closed++;
            return;
        }
        kt_request_cancel(req);
        leave_at = 1 << 30;
    }
    c->broken |= finished != n_choices;
    c->n_finished += finished == n_choices;
    kt_request_close(req);
}

static void by_callback(client *c, kt_request *req, called *box, int n_choices) {
    if (roll(c, 3) == 0) kt_request_cancel(req);
    for (int i = 0; i < 200000 && !atomic_load(&box->over); i++) {
        struct timespec moment = {0, 100000};
        nanosleep(&moment, NULL);
    }
    kt_request_close(req);
    c->broken |= atomic_load(&box->n_finished) != n_choices;
    c->n_finished += atomic_load(&box->over);
}

static void *client_thread(void *arg) {
    client *c = arg;
    for (int round = 0; round < ROUNDS; round++) {
        kt_error err;
        kt_request *req;
        kt_engine_stats stats;
        called box = {0};
        kt_request_params r = request_of(c->w, (int)roll(c, PROMPTS));
        char name[8];
        snprintf(name, sizeof name, "c%d", c->number);
        bool polls = roll(c, 2);
        r.service.client = name;
        r.n_choices = 1 + (int32_t)roll(c, 2);
        r.service.priority = (int32_t)roll(c, 3);
        r.gen.n_predict = 1 + (int32_t)roll(c, 30);
        r.service.no_cache = roll(c, 4) == 0;
        r.events.on_event = polls ? NULL : on_event;
        r.events.user = &box;
        kt_status status = kt_engine_submit(c->w->engine, &r, &req, &err);
        kt_engine_get_stats(c->w->engine, &stats);
        if (status == KT_E_BUSY) {
            c->n_refused++;
            continue;
        }
        c->broken |= status != KT_OK;
        if (status != KT_OK) continue;
        c->n_accepted++;
        if (polls) {
            by_poll(c, req, r.n_choices);
        } else {
            by_callback(c, req, &box, r.n_choices);
        }
    }
    return NULL;
}

enum { SEQ_ANSWERS = 3 };

static void work_on_a_sequence(world *w) {
    kt_error err;
    kt_seq *seq;
    answer mine = {0}, alone;
    kt_request_report result;
    answer_alone(w, 3, &alone);
    MUST(kt_seq_open(w->engine, &seq, &err));
    for (int i = 0; i < SEQ_ANSWERS; i++) {
        kt_request_params r = request_of(w, 3);
        MUST(kt_seq_truncate(seq, 0, &err));
        mine.len = 0;
        MUST(kt_generate(seq, r.prompt.ids, r.prompt.n_ids, &r.gen, note_text, &mine, &result,
                         &err));
        assert_int_equal(mine.len, alone.len);
        assert_memory_equal(mine.text, alone.text, mine.len);
    }
    kt_seq_close(seq);
}

static void test_many_clients(void **state) {
    world *w = *state;
    kt_error err;
    client clients[CLIENTS];
    kt_engine_stats stats;
    kt_engine_params ep = {.n_parallel = 3, .n_ctx = 256, .n_queue_max = 5, .n_ubatch = 48};
    ep.kv_bytes = 40 * page_bytes(w);
    open_engine(w, &ep);
    MUST(kt_engine_start(w->engine, &err));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.w = w, .number = i, .random = (uint32_t)i + 1};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]), 0);
    }
    work_on_a_sequence(w);
    int accepted = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        assert_false(clients[i].broken);
        assert_int_equal(clients[i].n_finished + clients[i].n_closed, clients[i].n_accepted);
        accepted += clients[i].n_accepted;
    }
    kt_engine_stop(w->engine, -1);
    kt_engine_get_stats(w->engine, &stats);
    assert_int_equal(stats.n_submitted, accepted + SEQ_ANSWERS);
    expect_idle(w);
    close_engine(w);
}

/* Stopped while everything is under way, started again. */
static void test_stop_and_start(void **state) {
    world *w = *state;
    kt_error err;
    static answer out[6];
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 256};
    open_engine(w, &ep);
    for (int round = 0; round < 4; round++) {
        MUST(kt_engine_start(w->engine, &err));
        assert_int_equal(kt_engine_start(w->engine, &err), KT_E_STATE);
        assert_int_equal(kt_engine_step(w->engine, 0, NULL, &err), KT_E_STATE);
        submit_all(w, 6, out);
        struct timespec moment = {0, 5000000 * round};
        nanosleep(&moment, NULL);
        kt_engine_stop(w->engine, round % 2 ? 5 : 0);
        kt_request_params r = request_of(w, 0);
        kt_request *req;
        assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_STATE);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(out[i].n_finished, 1);
            close_request(w, &out[i]);
        }
    }
    close_engine(w);
}

/* ---- signals ---- */

typedef struct thread_look {
    char name[16];
    sigset_t blocked;
} thread_look;

/* The driver's name and signals, as its own events see them. */
static void look_at_thread(void *user, const kt_event *event) {
    thread_look *look = user;
    (void)event;
    pthread_sigmask(SIG_SETMASK, NULL, &look->blocked);
    (void)pthread_getname_np(pthread_self(), look->name, sizeof look->name);
}

/* A signal for the program must not be delivered to a library's thread; the mask of the thread that
 * starts it stays what it was. */
static void test_the_driver_takes_no_signals(void **state) {
    world *w = *state;
    kt_error err;
    kt_request *req;
    sigset_t mine;
    thread_look look = {.name = ""};
    static const int of_the_process[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM};
    open_engine(w, NULL);
    MUST(kt_engine_start(w->engine, &err));
    kt_request_params r = request_of(w, 4);
    r.gen.n_predict = 1;
    r.events.on_event = look_at_thread;
    r.events.user = &look;
    MUST(kt_engine_submit(w->engine, &r, &req, &err));
    kt_engine_stop(w->engine, -1);
    kt_request_close(req);
    assert_string_equal(look.name, "kt-engine");
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mine), 0);
    for (size_t i = 0; i < sizeof of_the_process / sizeof *of_the_process; i++) {
        assert_true(sigismember(&look.blocked, of_the_process[i]));
        assert_false(sigismember(&mine, of_the_process[i]));
    }
    close_engine(w);
}

int main(void) {
    static world w;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_many_clients, &w),
        cmocka_unit_test_prestate(test_stop_and_start, &w),
        cmocka_unit_test_prestate(test_the_driver_takes_no_signals, &w),
    };
    world_open(&w);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_close(&w);
    return failed;
}
