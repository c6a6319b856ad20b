/* The gate of the draft model over a simulated clock: however long prompts and answers are, however
 * dear the draft model and however wrong, drafting costs a hundredth of the time and four steps at
 * most; where it pays it is used, in the first answer of a process, too; a long prompt is not
 * followed for a short answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "answer/spec.h"
#include "support.h"

enum { ROWS = 64, READY = 2 };

typedef struct machine {
    double plain_us, verify_row_us; /* the model: a step, a row more in it */
    double draft_row_us, draft_step_us;
    double right;
    uint32_t random;
    int bad_tries; /* the first ones, which a neighbour disturbs */
    double new_us; /* a row's state in memory that none has been in */
    int n_states;  /* of rows, that have been in some */
} machine;

typedef struct run {
    kt__draft_gate gate;
    kt__spec_costs costs;
    double usual_right;
    double us, plain_us; /* with and without */
    int64_t n_followed;
} run;

static double roll(machine *m) {
    return lcg_unit(&m->random);
}

static double noisy(machine *m, double us) {
    return us * (0.95 + 0.1 * roll(m));
}

/* One answer; the draft model begins anew. */
static void answer(machine *m, run *r, int32_t n_prompt, int32_t n_answer, int32_t n_predict) {
    int32_t n_done = 0, n_got = 1;
    double right = r->usual_right;
    while (n_got < n_answer) {
        kt__draft_step step = {&r->costs, 1, 1};
        int32_t rows = n_prompt + n_got - n_done;
        int k = 0, accepted = 0;
        if (kt__draft_gate_rests(&r->gate)) {
            k = 0;
        } else if (rows <= READY) {
            k = kt__draft_gate_choose(&r->gate, &step, right, 1, 8);
            if (k == 0 && !kt__draft_gate_pays(&r->gate, &step, right, 1, 8))
                kt__draft_gate_rest(&r->gate);
        } else {
            kt__draft_lag lag = {rows - 1, n_got, n_predict - n_got, 8, right};
            int32_t n_covered = kt__draft_gate_covers(&r->gate, &step, &lag);
            if (n_covered > 0) {
                int32_t n = kt__draft_gate_slice(&r->gate, &step, ROWS);
                n_done = n_prompt + n_got - 1 - n_covered;
                if (n > n_covered) n = n_covered;
                double us = noisy(m, m->draft_row_us * n);
                kt__draft_gate_followed(&r->gate, n, us);
                r->us += us;
                r->n_followed += n;
                n_done += n;
            }
        }
        if (k > 0) {
            double us = noisy(m, m->draft_step_us * k);
            kt__draft_gate_verify(&r->gate, &step, k);
            kt__draft_gate_drafted(&r->gate, k, us);
            r->us += us;
            while (accepted < k && n_got + accepted + 1 < n_answer && roll(m) < m->right)
                accepted++;
            kt__draft_gate_accepted(&r->gate, accepted);
            for (int i = 0; i < accepted; i++) right += 0.1 * (1 - right);
            if (accepted < k) right -= 0.1 * right;
            r->usual_right += 0.05 * (right - r->usual_right);
            n_done = n_prompt + n_got + (accepted < k ? accepted : k - 1);
        }
        double noise = noisy(m, 1);
        if (k > 0 && m->bad_tries > 0) noise *= --m->bad_tries > 0 ? 2 : 3;
        double us = noise * (m->plain_us + m->verify_row_us * k);
        double charged = us;
        if (m->new_us > 0 && 1 + k > m->n_states) {
            us += m->new_us * (1 + k - m->n_states);
            m->n_states = 1 + k;
            charged = (double)kt__spec_measure_new(&r->costs, 1 + k, (int64_t)us);
        } else {
            kt__spec_measure(&r->costs, 1 + k, (int64_t)us);
        }
        kt__draft_gate_stepped(&r->gate, charged);
        r->us += us;
        r->plain_us += (m->bad_tries > 0 ? 1 : noise) * m->plain_us * (1 + accepted);
        n_got += 1 + accepted;
    }
}

static run begin(double size) {
    run r = {.usual_right = 0.85};
    kt__draft_gate_init(&r.gate, size);
    return r;
}

static void test_never_slower_by_more_than_a_hundredth(void **state) {
    (void)state;
    static const double rights[] = {0, 0.2, 0.5, 0.8, 0.95};
    static const double sizes[] = {0.05, 0.15, 0.4, 1};
    static const double verify[] = {0.02, 0.15, 0.6};
    static const int32_t prompts[] = {1, 30, 500, 6000};
    static const int32_t lengths[] = {2, 20, 150, 1500};
    for (int i = 0; i < 5 * 4 * 3 * 4 * 4; i++) {
        double size = sizes[i / 5 % 4];
        machine m = {.plain_us = 60000,
                     .verify_row_us = 60000 * verify[i / 20 % 3],
                     .draft_step_us = 60000 * size * (i % 2 ? 1 : 2.5), /* and guesses are wrong */
                     .draft_row_us = 60000 * size * (i % 3 ? 0.3 : 0.9),
                     .right = rights[i % 5],
                     .random = (uint32_t)i};
        run r = begin(size);
        int32_t n_prompt = prompts[i / 60 % 4], n_answer = lengths[i / 240 % 4];
        for (int a = 0; a < 40; a++) {
            int32_t n = 1 + (int32_t)(roll(&m) * 2 * n_answer);
            answer(&m, &r, n_prompt, n, a % 2 ? n : 1 << 20);
            /* the grant, and what a first guess was wrong by: of two slices and trials */
            double slack = 4.5 * m.plain_us + 16 * m.draft_row_us + 16 * m.draft_step_us;
            if (r.us > 1.01 * r.plain_us + slack)
                fail_msg("case %d, answer %d: %.2f s, plain %.2f s", i, a, r.us / 1e6,
                         r.plain_us / 1e6);
        }
    }
}

static void test_faster_where_it_pays(void **state) {
    (void)state;
    machine m = {60000, 4000, 1800, 6000, 0.85, 1, 0, 0, 0};
    run r = begin(0.1);
    for (int a = 0; a < 20; a++) answer(&m, &r, 100, 400, 1000);
    if (r.us > 0.6 * r.plain_us) fail_msg("%.2f s, plain %.2f s", r.us / 1e6, r.plain_us / 1e6);
}

static void test_in_the_first_answer(void **state) {
    (void)state;
    static const int32_t prompts[] = {10, 300, 5000};
    for (int i = 0; i < 3; i++) {
        machine m = {60000, 4000, 1800, 6000, 0.85, 1, 0, 0, 0};
        run r = begin(0.1);
        answer(&m, &r, prompts[i], 400, 1000);
        if (r.us > 0.75 * r.plain_us)
            fail_msg("after %d tokens: %.2f s, plain %.2f s", prompts[i], r.us / 1e6,
                     r.plain_us / 1e6);
    }
}

/* A block whose proposals take nearly half a step, and a neighbour while the first are tried: they are
 * tried again, and bring what they bring without. */
static void test_a_bad_first_try(void **state) {
    (void)state;
    for (int bad = 0; bad < 4; bad++) {
        machine m = {60000, 9000, 0, 24000, 0.97, 1, bad, 0, 0};
        run r = begin(0.4);
        answer(&m, &r, 1, 300, 300);
        double most = bad < 3 ? 0.95 : 0.99;
        if (r.us > most * r.plain_us)
            fail_msg("%d bad tries: %.2f s, plain %.2f s", bad, r.us / 1e6, r.plain_us / 1e6);
    }
}

/* Qwen3.5 0.8B on a virtual machine: a state of 19 MB takes three steps' time where no state has been
 * before. A block that is right is used nevertheless; one that is not costs that once. */
static void test_states_in_new_memory(void **state) {
    (void)state;
    for (int right = 0; right < 2; right++) {
        machine m = {18600, 5000, 0, 5200, right ? 0.97 : 0, 1, 0, 55000, 2};
        run r = begin(0.4);
        answer(&m, &r, 1, 300, 300);
        if (right ? r.us > 0.85 * r.plain_us : r.us > 1.03 * r.plain_us)
            fail_msg("right %d: %.3f s, plain %.3f s", right, r.us / 1e6, r.plain_us / 1e6);
        if (!right) assert_in_range(m.n_states, 2, 3);
    }
}

/* All of a prompt of 4000 tokens would take the draft model seven seconds; twenty tokens take one.
 */
static void test_a_long_prompt_and_short_answers(void **state) {
    (void)state;
    machine m = {60000, 4000, 1800, 6000, 0.85, 1, 0, 0, 0};
    run r = begin(0.1);
    for (int a = 0; a < 20; a++) answer(&m, &r, 10, 400, 1000); /* the account is full */
    int64_t before = r.n_followed;
    double us = r.us, plain_us = r.plain_us;
    for (int a = 0; a < 20; a++) answer(&m, &r, 4000, 20, 1000);
    assert_in_range(r.n_followed - before, 0, 20 * 80);
    assert_true(r.us - us < 1.05 * (r.plain_us - plain_us));
    us = r.us, plain_us = r.plain_us;
    for (int a = 0; a < 3; a++) answer(&m, &r, 4000, 2000, 4000);
    assert_true(r.us - us < 0.65 * (r.plain_us - plain_us));
    before = r.n_followed; /* what may come is known to be little */
    for (int a = 0; a < 20; a++) answer(&m, &r, 2000, 60, 60);
    assert_in_range(r.n_followed - before, 0, 20 * 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_slower_by_more_than_a_hundredth),
        cmocka_unit_test(test_faster_where_it_pays),
        cmocka_unit_test(test_in_the_first_answer),
        cmocka_unit_test(test_a_bad_first_try),
        cmocka_unit_test(test_states_in_new_memory),
        cmocka_unit_test(test_a_long_prompt_and_short_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
