/* The scheduler over a simulated clock and a model that only counts: a thousand random schedules in
 * which every accepted request ends exactly once, no page leaks and every bound is kept; and its
 * promises one by one: priorities, shares, short pauses, predictions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "sched/sched.h"
#include "support.h"

enum { PAGE = 16, MAX_TASKS = 64 };

typedef struct fake_task {
    kt__task task;
    atomic_bool cancel;
    int32_t n_prompt, n_answer; /* to come */
    int32_t n_got;
    int pages, n_start, n_end, n_release;
    int64_t first_us, last_us, worst_gap_us, end_us;
    int64_t cost_us; /* of a token, besides the batch */
    int n_long;      /* gaps of more than 20 ms over a step */
    bool in_batch;
} fake_task;

typedef struct fake {
    uint32_t random;
    int64_t now_us;
    int n_pages, n_used;
    int64_t step_us, step_lane_us, tok_us; /* what computing costs */
    int units;                             /* of a batch */
    kt__slice slices[MAX_TASKS];
    int n_slices, unit;
    int64_t batch_unit_us;
    int n_rows, n_out, n_parallel;
    bool finds, speculates, pauses;
    bool one_only;            /* what is written needs room that one task takes all of */
    kt_engine_params targets; /* of the controller, */
    int64_t pages_within;     /* and pages within its contract; 0: all */
    bool stepping;            /* a step has paused */
    int n_narrow, n_pressed;  /* pages more where computed ones are pressed: at most, and so far */
    int64_t n_decoded, n_prefilled;
    fake_task tasks[MAX_TASKS];
    int n_tasks;
} fake;

static uint32_t roll(fake *f, uint32_t n) {
    lcg(&f->random);
    return n ? (f->random >> 8) % n : 0;
}

static fake_task *of(const kt__task *task) {
    return (fake_task *)(uintptr_t)task;
}

static int pages_for(int64_t n_pos) {
    return (int)((n_pos + PAGE - 1) / PAGE);
}

/* ---- the model that only counts ---- */

static int64_t now_us(void *user) {
    return ((fake *)user)->now_us;
}

static bool others_hold(const fake *f, const fake_task *but) {
    for (int i = 0; i < f->n_tasks; i++)
        if (&f->tasks[i] != but && f->tasks[i].pages > 0) return true;
    return false;
}

static bool reserve(void *user, kt__task *task, int32_t n_pos) {
    fake *f = user;
    fake_task *t = of(task);
    if (f->one_only && others_hold(f, t)) return false;
    int need = pages_for(n_pos) - t->pages;
    if (need <= 0) return true;
    if (need > f->n_pages - f->n_used) return false;
    f->n_used += need;
    t->pages += need;
    return true;
}

static void start(void *user, kt__task *task) {
    fake *f = user;
    fake_task *t = of(task);
    assert_int_equal(t->n_end, 0);
    t->n_start++;
    if (task->n_done > 0 || !f->finds || task->n_tok < 2) return;
    int32_t n = (int32_t)roll(f, (uint32_t)task->n_tok) / PAGE * PAGE;
    if (n >= task->n_tok || !reserve(f, task, n)) return;
    task->n_done = n;
    task->loading = roll(f, 4) == 0;
}

static void load(void *user, kt__task *task, int64_t until_us) {
    fake *f = user;
    (void)until_us;
    f->now_us += roll(f, 5000);
    if (task->n_done + PAGE < task->n_tok && reserve(f, task, task->n_done + PAGE))
        task->n_done += PAGE;
    task->loading = roll(f, 3) == 0;
}

static void fork_task(void *user, const kt__task *src, kt__task *dst) {
    fake *f = user;
    assert_true(src->n_done >= dst->n_tok);
    if (reserve(f, dst, dst->n_tok - 1)) dst->n_done = dst->n_tok - 1;
}

static int64_t pages_left(void *user) {
    const fake *f = user;
    return f->n_pages - f->n_used;
}

static int64_t pages_most(void *user, const kt__task *task) {
    const fake *f = user;
    return f->n_pages - f->n_pressed + (task ? f->n_narrow : 0);
}

/* Each page that was computed makes room for another one, once. */
static int64_t press(void *user, const kt__task_list *running, const kt__task_list *waiting,
                     int64_t wanted) {
    fake *f = user;
    int64_t n = -f->n_pressed;
    for (const kt__task *t = running->head; t; t = t->next) n += t->n_done / PAGE;
    for (const kt__task *t = waiting->head; t; t = t->next) n += t->n_done / PAGE;
    if (n > f->n_narrow - f->n_pressed) n = f->n_narrow - f->n_pressed;
    if (n < 0) n = 0;
    if (wanted == 0) return n;
    n = n < wanted ? n : wanted;
    f->n_pages += (int)n;
    f->n_pressed += (int)n;
    return n;
}

static int32_t ahead(void *user, const kt__task *task) {
    (void)task;
    return ((fake *)user)->n_narrow ? 8 : 0;
}

static void drop(void *user, kt__task *task) {
    fake *f = user;
    fake_task *t = of(task);
    assert_false(t->in_batch || task->lent);
    f->n_used -= t->pages;
    t->pages = 0;
    task->n_done = 0;
}

static void take_token(fake *f, fake_task *t) {
    if (t->n_got++ == 0) t->first_us = f->now_us;
    int64_t gap = f->now_us - t->last_us;
    if (t->n_got > 1 && gap > t->worst_gap_us) t->worst_gap_us = gap;
    t->n_long += t->n_got > 1 && gap > f->step_us + 20000;
    t->last_us = f->now_us;
    t->task.n_tok++;
    if (t->n_got == t->n_answer) t->task.finish = KT_FINISH_LENGTH;
}

static bool is_eval(const kt__task *task) {
    return task->kind == KT__TASK_EVAL || task->kind == KT__TASK_EVAL_ALL;
}

/* In half of a step somebody may be cancelled. */
static bool pause_step(fake *f, kt__task *const *tasks, int n) {
    f->now_us += (f->step_us + f->step_lane_us * n) / 2;
    f->stepping = f->pauses && !f->stepping && roll(f, 2);
    for (int i = 0; f->stepping && i < n; i++) {
        if (roll(f, 4) == 0) of(tasks[i])->cancel = true;
    }
    return f->stepping;
}

static bool decode(void *user, kt__task *const *tasks, int n) {
    fake *f = user;
    assert_true(n > 0 && n <= f->n_parallel);
    if (!f->stepping && pause_step(f, tasks, n)) return false;
    f->stepping = false;
    f->now_us += (f->step_us + f->step_lane_us * n) / 2;
    for (int i = 0; i < n; i++) {
        if (!tasks[i]) continue;
        fake_task *t = of(tasks[i]);
        assert_int_equal(t->task.n_tok - t->task.n_done, 1);
        assert_true(t->pages >= pages_for(t->task.n_done + 1));
        assert_int_equal(t->n_end, 0);
        assert_false(t->in_batch || t->task.held || t->task.kind == KT__TASK_EMBED);
        if (is_eval(&t->task)) {
            assert_int_equal(++t->task.n_done, t->task.n_tok);
            t->task.finish = KT_FINISH_LENGTH;
            continue;
        }
        int more = f->speculates ? 1 + (int)roll(f, 4) : 1;
        while (more-- > 0 && t->task.finish == KT_FINISH_NONE &&
               t->pages >= pages_for(t->task.n_done + 1)) {
            t->task.n_done++;
            take_token(f, t);
        }
        f->now_us += t->cost_us;
        t->task.cost_us += t->cost_us;
        f->n_decoded++;
    }
    return true;
}

static void prefill_begin(void *user, const kt__slice *slices, int n) {
    fake *f = user;
    int32_t rows = 0;
    int outs = 0;
    assert_int_equal(f->n_slices, 0);
    assert_true(n > 0 && n <= f->n_parallel);
    for (int i = 0; i < n; i++) {
        fake_task *t = of(slices[i].task);
        assert_true(slices[i].n > 0 && t->task.n_done + slices[i].n <= t->task.n_tok);
        assert_true(t->pages >= pages_for(t->task.n_done + slices[i].n));
        assert_false(t->in_batch);
        assert_int_equal(t->n_end, 0);
        assert_true((t->task.kind == KT__TASK_EMBED) == (slices[0].task->kind == KT__TASK_EMBED));
        t->in_batch = true;
        f->slices[i] = slices[i];
        rows += slices[i].n;
        bool complete = t->task.n_done + slices[i].n == t->task.n_tok;
        outs += t->task.kind == KT__TASK_EVAL_ALL ? slices[i].n : complete;
    }
    assert_true(rows <= f->n_rows && outs <= f->n_out);
    f->n_slices = n;
    f->unit = 0;
    f->batch_unit_us = rows * f->tok_us / f->units;
    f->n_prefilled += rows;
}

static bool prefill_run(void *user, int64_t until_us) {
    fake *f = user;
    bool any = false;
    assert_true(f->n_slices > 0);
    for (; f->unit < f->units; any = true) {
        if (any && f->now_us + f->batch_unit_us > until_us) return false;
        f->now_us += f->batch_unit_us;
        f->unit++;
    }
    for (int i = 0; i < f->n_slices; i++) {
        fake_task *t = of(f->slices[i].task);
        t->in_batch = false;
        if (t->n_end > 0) continue;
        t->task.n_done += f->slices[i].n;
        if (t->task.n_done < t->task.n_tok) continue;
        if (t->task.kind != KT__TASK_ANSWER) {
            t->task.finish = KT_FINISH_LENGTH;
        } else {
            take_token(f, t);
        }
    }
    f->n_slices = 0;
    return true;
}

static void prefill_abort(void *user) {
    fake *f = user;
    for (int i = 0; i < f->n_slices; i++) of(f->slices[i].task)->in_batch = false;
    f->n_slices = 0;
}

static void prefill_leave(void *user, kt__task *task) {
    fake *f = user;
    int n = 0;
    assert_true(of(task)->in_batch);
    of(task)->in_batch = false;
    for (int i = 0; i < f->n_slices; i++) {
        if (f->slices[i].task != task) f->slices[n++] = f->slices[i];
    }
    assert_int_equal(n, f->n_slices - 1);
    f->n_slices = n;
}

static void end(void *user, kt__task *task) {
    fake_task *t = of(task);
    t->n_end++;
    t->end_us = ((fake *)user)->now_us;
    assert_true(task->finish != KT_FINISH_NONE);
}

static void release(void *user, kt__task *task) {
    fake *f = user;
    fake_task *t = of(task);
    assert_false(t->in_batch);
    f->n_used -= t->pages;
    t->pages = 0;
    t->n_release++;
}

static int64_t prefill_unit_us(void *user) {
    return ((fake *)user)->batch_unit_us;
}

static const kt__sched_ops ops = {.now_us = now_us,
                                  .start = start,
                                  .load = load,
                                  .fork = fork_task,
                                  .reserve = reserve,
                                  .press = press,
                                  .ahead = ahead,
                                  .pages_left = pages_left,
                                  .pages_most = pages_most,
                                  .drop = drop,
                                  .decode = decode,
                                  .prefill_begin = prefill_begin,
                                  .prefill_run = prefill_run,
                                  .prefill_abort = prefill_abort,
                                  .prefill_unit_us = prefill_unit_us,
                                  .prefill_leave = prefill_leave,
                                  .end = end,
                                  .release = release};

/* ---- building ---- */

static fake *new_fake(uint32_t seed) {
    fake *f = calloc(1, sizeof *f);
    *f = (fake){.random = seed * 2654435761u + 1,
                .now_us = 1000,
                .n_pages = 1000,
                .step_us = 40000,
                .step_lane_us = 2000,
                .tok_us = 8000,
                .units = 140,
                .n_rows = 512,
                .n_out = 32,
                .n_parallel = 8};
    return f;
}

static kt__sched *new_sched(fake *f) {
    kt__sched *s;
    kt__sched_params p = {.n_parallel = f->n_parallel,
                          .n_rows = f->n_rows,
                          .n_out = f->n_out,
                          .page_pos = PAGE,
                          .gap_us = 200000,
                          .optimizer = kt__optimizer_params_of(&f->targets),
                          .unit_share = 1.0 / f->units};
    p.optimizer.n_pages = f->pages_within;
    assert_int_equal(kt__sched_create(&p, &ops, f, &s, NULL), KT_OK);
    return s;
}

static fake_task *new_task(fake *f, const char *client, int32_t n_prompt, int32_t n_answer) {
    fake_task *t = &f->tasks[f->n_tasks++];
    assert_true(f->n_tasks <= MAX_TASKS);
    *t = (fake_task){.n_prompt = n_prompt, .n_answer = n_answer};
    t->task.cancel = &t->cancel;
    t->task.arrival_us = f->now_us;
    t->task.deadline_us = INT64_MAX;
    t->task.n_tok = n_prompt;
    t->task.n_predict = n_answer;
    t->task.client = kt__calloc(1, sizeof *t->task.client + strlen(client) + 1);
    strcpy(t->task.client->name, client);
    return t;
}

static fake_task *add(kt__sched *s, fake *f, const char *client, int32_t n_prompt,
                      int32_t n_answer) {
    fake_task *t = new_task(f, client, n_prompt, n_answer);
    kt__sched_add(s, &t->task);
    return t;
}

static void run(kt__sched *s, fake *f, int max_steps) {
    for (int i = 0; kt__sched_n_tasks(s) > 0; i++) {
        if (i > max_steps) fail_msg("%d tasks do not end", kt__sched_n_tasks(s));
        if (!kt__sched_step(s)) f->now_us += 1000;
    }
}

static void finish(kt__sched *s, fake *f) {
    for (int i = 0; i < f->n_tasks; i++) {
        assert_int_equal(f->tasks[i].n_end, 1);
        assert_int_equal(f->tasks[i].n_release, 1);
    }
    kt__sched_destroy(s);
    assert_int_equal(f->n_used, 0);
    free(f);
}

/* ---- a thousand schedules ---- */

/* A call on a sequence, which has pages already that it will keep. */
static void add_lent(kt__sched *s, fake *f) {
    static const kt__task_kind kinds[] = {KT__TASK_ANSWER, KT__TASK_EVAL, KT__TASK_EVAL_ALL};
    int32_t before = (int32_t)roll(f, (uint32_t)f->n_pages * PAGE / 8);
    fake_task *t = new_task(f, "", before + 1 + (int32_t)roll(f, 60), 1 + (int32_t)roll(f, 20));
    kt__task *task = &t->task;
    task->kind = kinds[roll(f, 3)];
    task->lent = true;
    task->priority = KT_PRIORITY_MAX + 1;
    if (is_eval(task)) {
        kt__free(task->client);
        task->client = NULL;
    }
    if (reserve(f, task, before)) task->n_done = before;
    kt__sched_add(s, task);
}

static void disturb(kt__sched *s, fake *f, int *outside) {
    static const char *const clients[] = {"a", "b", "c"};
    int used = 0, lanes = 0;
    for (int i = 0; i < f->n_tasks; i++) {
        fake_task *t = &f->tasks[i];
        used += t->pages;
        lanes += t->task.state == KT__TASK_RUNNING && t->n_end == 0;
        if (t->n_end == 0 && roll(f, 60) == 0) t->task.held = !t->task.held;
        if (roll(f, 400) == 0) t->cancel = true;
    }
    assert_int_equal(used + *outside, f->n_used);
    assert_true(lanes <= f->n_parallel && f->n_used <= f->n_pages);
    if (roll(f, 10) == 0) { /* sequences take pages and give them back */
        int n = (int)roll(f, (uint32_t)(f->n_pages / 4 + 1));
        int most = f->n_pages - f->n_used + *outside;
        f->n_used -= *outside;
        *outside = n < most ? n : most;
        f->n_used += *outside;
    }
    if (f->n_tasks > MAX_TASKS - 5 || roll(f, 4) != 0) return;
    if (roll(f, 6) == 0) add_lent(s, f);
    int32_t n_prompt = 1 + (int32_t)roll(f, roll(f, 5) ? 40 : (uint32_t)f->n_pages * PAGE / 2);
    fake_task *first = new_task(f, clients[roll(f, 3)], n_prompt, 1 + (int32_t)roll(f, 40));
    first->task.priority = (int32_t)roll(f, 3) - 1;
    first->task.kind = roll(f, 8) == 0 ? KT__TASK_EMBED : KT__TASK_ANSWER;
    if (roll(f, 8) == 0) first->task.deadline_us = f->now_us + roll(f, 5000000);
    kt__sched_add(s, &first->task);
    for (uint32_t n = roll(f, 6) ? 0 : 1 + roll(f, 3); n > 0 && first->task.kind == KT__TASK_ANSWER;
         n--) {
        fake_task *t = new_task(f, "a", n_prompt, 1 + (int32_t)roll(f, 20));
        t->task.first = &first->task;
        kt__sched_add(s, &t->task);
    }
}

static void random_schedule(uint32_t seed) {
    fake *f = new_fake(seed);
    int outside = 0;
    f->n_parallel = 1 + (int)roll(f, 6);
    f->n_pages = 6 + (int)roll(f, 60);
    f->n_rows = 8 << roll(f, 6);
    f->n_out = 1 + (int)roll(f, 4);
    f->units = 1 + (int)roll(f, 20);
    f->finds = roll(f, 2);
    f->speculates = roll(f, 2);
    f->pauses = roll(f, 8) == 0;
    f->targets.optimize = seed % 3 == 0;
    f->targets.target_latency_ms = 1 + (int32_t)(seed % 97);
    kt__sched *s = new_sched(f);
    for (int i = 0; i < 300; i++) {
        disturb(s, f, &outside);
        if (!kt__sched_step(s)) f->now_us += 1000;
    }
    f->n_used -= outside;
    for (int i = 0; i < f->n_tasks; i++) f->tasks[i].task.held = false;
    run(s, f, 100000);
    finish(s, f);
}

static void test_a_thousand_random_schedules(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 1000; seed++) random_schedule(seed);
}

/* Whatever state it is in, everything ends at once. */
static void test_the_end_of_all(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 200; seed++) {
        fake *f = new_fake(seed);
        int outside = 0, n = (int)roll(f, 60);
        f->n_pages = 40;
        f->n_parallel = 4;
        kt__sched *s = new_sched(f);
        for (int i = 0; i < n; i++) {
            disturb(s, f, &outside);
            (void)kt__sched_step(s);
        }
        f->n_used -= outside;
        kt__sched_end_all(s, KT_FINISH_CANCELLED, true);
        assert_int_equal(kt__sched_n_tasks(s), 0);
        finish(s, f);
    }
}

/* ---- calls on sequences ---- */

/* With every lane taken, a call on a sequence gets one at once; the answer that gave it up goes on
 * afterwards with the pages that it had. An end of all requests is none of its. */
static void test_a_call_on_a_sequence_goes_first(void **state) {
    (void)state;
    fake *f = new_fake(3);
    f->n_parallel = 2;
    kt__sched *s = new_sched(f);
    fake_task *a = add(s, f, "a", 10, 50), *b = add(s, f, "b", 10, 50);
    for (int i = 0; i < 5; i++) (void)kt__sched_step(s);
    fake_task *call = new_task(f, "", 100, 0);
    call->task.kind = KT__TASK_EVAL;
    call->task.lent = true;
    call->task.priority = KT_PRIORITY_MAX + 1;
    kt__sched_add(s, &call->task);
    (void)kt__sched_step(s);
    assert_int_equal(call->task.state, KT__TASK_RUNNING);
    assert_true(a->task.state == KT__TASK_PARKED || b->task.state == KT__TASK_PARKED);
    for (int i = 0; i < 10 && call->n_end == 0; i++) (void)kt__sched_step(s);
    assert_int_equal(call->n_end, 1);
    for (int i = 0; i < 3; i++) (void)kt__sched_step(s);
    assert_int_equal(a->task.state, KT__TASK_RUNNING);
    assert_int_equal(b->task.state, KT__TASK_RUNNING);
    assert_int_equal(a->task.n_recomputed + b->task.n_recomputed, 0);
    fake_task *other = new_task(f, "", 500, 0);
    other->task.kind = KT__TASK_EVAL;
    other->task.lent = true;
    kt__sched_add(s, &other->task);
    kt__sched_end_all(s, KT_FINISH_CANCELLED, false);
    assert_int_equal(kt__sched_n_tasks(s), 1);
    run(s, f, 1000);
    assert_int_equal(other->task.finish, KT_FINISH_LENGTH);
    finish(s, f);
}

/* Pages of sequences cannot be taken back: where none are left, the call ends at once. */
static void test_a_call_without_pages_ends(void **state) {
    (void)state;
    fake *f = new_fake(4);
    f->n_pages = 10;
    kt__sched *s = new_sched(f);
    fake_task *calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = new_task(f, "", 5 * PAGE, 100);
        calls[i]->task.lent = true;
        kt__sched_add(s, &calls[i]->task);
    }
    run(s, f, 1000);
    int n_errors = 0;
    for (int i = 0; i < 2; i++) n_errors += calls[i]->task.finish == KT_FINISH_ERROR;
    assert_true(n_errors >= 1);
    finish(s, f);
}

/* ---- promises ---- */

static void test_answers_flow_while_a_long_prompt_is_computed(void **state) {
    (void)state;
    fake *f = new_fake(1);
    kt__sched *s = new_sched(f);
    fake_task *t[3];
    for (int i = 0; i < 3; i++) t[i] = add(s, f, "a", 20, 400);
    for (int i = 0; i < 10; i++) (void)kt__sched_step(s);
    for (int i = 0; i < 3; i++) t[i]->worst_gap_us = 0;
    int64_t alone_us = 4096 * f->tok_us, begin_us = f->now_us;
    int64_t decoded = f->n_decoded, steps_us;
    fake_task *prompt = add(s, f, "b", 4096, 1);
    while (prompt->n_end == 0) (void)kt__sched_step(s);
    for (int i = 0; i < 3; i++) assert_true(t[i]->worst_gap_us <= 250000);
    /* no time is lost: it is the prompt's and the steps' */
    steps_us = (f->n_decoded - decoded) / 3 * (f->step_us + 3 * f->step_lane_us);
    assert_true(f->now_us - begin_us <= (alone_us + steps_us) * 105 / 100);
    kt__sched_end_all(s, KT_FINISH_CANCELLED, true);
    finish(s, f);
}

/* On a slow machine batches get smaller, so that a cancel is not waited for, and no time is lost.
 */
static void test_no_part_of_a_batch_is_long(void **state) {
    (void)state;
    static const double guesses[] = {1, 0.1, 10}; /* of how long one part is */
    for (int i = 0; i < 3; i++) {
        fake *f = new_fake(1);
        f->tok_us = 14000;
        f->units = 56;
        f->n_pages = 2000;
        kt__sched_params p = {.n_parallel = f->n_parallel,
                              .n_rows = f->n_rows,
                              .n_out = f->n_out,
                              .page_pos = PAGE,
                              .gap_us = 200000,
                              .unit_share = guesses[i] / f->units};
        kt__sched *s;
        assert_int_equal(kt__sched_create(&p, &ops, f, &s, NULL), KT_OK);
        add(s, f, "a", 8000, 1);
        while (f->n_prefilled <= f->n_rows) (void)kt__sched_step(s); /* the first is measured */
        assert_true(f->batch_unit_us > 40000 && f->batch_unit_us <= 60000);
        add(s, f, "b", 8, 100); /* beside an answer they are shorter still */
        while (f->tasks[1].n_got < 20) (void)kt__sched_step(s);
        assert_true(f->batch_unit_us <= 60000);
        kt__sched_end_all(s, KT_FINISH_CANCELLED, true);
        finish(s, f);
    }
}

/* prefill_begin looks at n_rows. */
static void test_rows_of_a_batch_can_be_fewer(void **state) {
    (void)state;
    fake *f = new_fake(1);
    kt__sched *s = new_sched(f);
    kt__sched_set_rows(s, f->n_rows = 64);
    add_lent(s, f);
    add(s, f, "a", 300, 1);
    run(s, f, 100000);
    kt__sched_set_rows(s, f->n_rows = 512);
    add(s, f, "a", 2000, 1);
    run(s, f, 100000);
    finish(s, f);
}

static void test_a_short_prompt_does_not_wait_for_a_long_one(void **state) {
    (void)state;
    fake *f = new_fake(1);
    kt__sched *s = new_sched(f);
    fake_task *big = add(s, f, "a", 8000, 1);
    for (int i = 0; i < 20; i++) (void)kt__sched_step(s);
    fake_task *small = add(s, f, "a", 30, 1);
    while (small->n_end == 0) (void)kt__sched_step(s);
    assert_int_equal(big->n_end, 0);
    assert_true(small->end_us - small->task.arrival_us < 2 * 512 * f->tok_us + 1000000);
    run(s, f, 10000);
    finish(s, f);
}

static void test_a_higher_priority_goes_first_and_suspends(void **state) {
    (void)state;
    fake *f = new_fake(1);
    f->n_parallel = 2;
    kt__sched *s = new_sched(f);
    fake_task *low[3];
    for (int i = 0; i < 3; i++) low[i] = add(s, f, "a", 20, 500);
    for (int i = 0; i < 20; i++) (void)kt__sched_step(s);
    fake_task *high = new_task(f, "a", 20, 10);
    high->task.priority = 1;
    kt__sched_add(s, &high->task);
    for (int i = 0; i < 15; i++) (void)kt__sched_step(s);
    assert_int_equal(high->n_end, 1);
    /* the youngest that ran was suspended, and keeps what it had */
    assert_int_equal(low[0]->task.n_preempted, 0);
    assert_int_equal(low[1]->task.n_preempted, 1);
    run(s, f, 10000);
    assert_int_equal(low[1]->task.n_recomputed, 0);
    finish(s, f);
}

/* One client has the lanes full and the queue, too; another one comes with a few requests. */
static void test_clients_get_equal_shares(void **state) {
    (void)state;
    fake *f = new_fake(1);
    f->n_parallel = 4;
    kt__sched *s = new_sched(f);
    fake_task *of_a[30], *of_b[4];
    for (int i = 0; i < 30; i++) of_a[i] = add(s, f, "a", 20, 2000);
    for (int i = 0; i < 300; i++) (void)kt__sched_step(s);
    int64_t a_before = 0, a_got = 0, b_got = 0;
    for (int i = 0; i < 30; i++) a_before += of_a[i]->n_got;
    for (int i = 0; i < 4; i++) of_b[i] = add(s, f, "b", 20, 2000);
    for (int i = 0; i < 1500; i++) (void)kt__sched_step(s);
    for (int i = 0; i < 30; i++) a_got += of_a[i]->n_got;
    for (int i = 0; i < 4; i++) b_got += of_b[i]->n_got;
    a_got -= a_before;
    assert_true(b_got > a_got * 8 / 10 && b_got < a_got * 12 / 10);
    kt__sched_end_all(s, KT_FINISH_CANCELLED, true);
    finish(s, f);
}

static void test_cancel_frees_at_once(void **state) {
    (void)state;
    fake *f = new_fake(1);
    kt__sched *s = new_sched(f);
    fake_task *t = add(s, f, "a", 4096, 10);
    for (int i = 0; i < 7; i++) (void)kt__sched_step(s);
    assert_true(t->in_batch && f->n_used > 0);
    t->cancel = true;
    int64_t before_us = f->now_us;
    (void)kt__sched_step(s);
    assert_int_equal(t->n_release, 1);
    assert_int_equal(f->n_used, 0);
    assert_true(f->now_us - before_us < 100000);
    int64_t prefilled = f->n_prefilled;
    /* beside another one in the same batch, which goes on */
    fake_task *a = add(s, f, "a", 200, 10), *b = add(s, f, "a", 200, 10);
    (void)kt__sched_step(s);
    assert_true(a->in_batch && b->in_batch);
    a->cancel = true;
    int unit = f->unit, before = f->n_used, pages = a->pages;
    before_us = f->now_us;
    (void)kt__sched_step(s);
    assert_int_equal(a->n_release, 1);
    assert_int_equal(f->n_used, before - pages);
    assert_true(f->now_us - before_us < 100000);
    assert_true(b->in_batch && f->unit > unit);
    run(s, f, 1000);
    assert_int_equal(f->n_prefilled, prefilled + 400);
    assert_int_equal(b->n_got, 10);
    finish(s, f);
}

/* Two readers do not read: they lose lanes and pages to those who do, and get them back. */
static void test_slow_readers_hold_up_nobody(void **state) {
    (void)state;
    fake *f = new_fake(1);
    f->n_parallel = 2;
    f->n_pages = 14;
    kt__sched *s = new_sched(f);
    fake_task *slow[2];
    for (int i = 0; i < 2; i++) slow[i] = add(s, f, "a", 90, 60);
    for (int i = 0; i < 4; i++) (void)kt__sched_step(s);
    for (int i = 0; i < 2; i++) slow[i]->task.held = true;
    fake_task *other = add(s, f, "a", 150, 60);
    for (int i = 0; i < 200; i++) (void)kt__sched_step(s);
    assert_int_equal(other->n_end, 1);
    assert_int_equal(slow[0]->n_end + slow[1]->n_end, 0);
    for (int i = 0; i < 2; i++) slow[i]->task.held = false;
    run(s, f, 1000);
    finish(s, f);
}

/* Nothing will make room: the answer ends, and says whether more memory would have helped. */
static void test_out_of_pages_alone(void **state) {
    (void)state;
    for (int outside = 0; outside < 2; outside++) {
        fake *f = new_fake(1);
        f->n_pages = 10;
        f->n_used = outside ? 4 : 0;
        kt__sched *s = new_sched(f);
        fake_task *t = add(s, f, "a", 80, 1000);
        run(s, f, 1000);
        assert_int_equal(t->task.finish, outside ? KT_FINISH_ERROR : KT_FINISH_CONTEXT);
        f->n_used -= outside ? 4 : 0;
        finish(s, f);
    }
}

/* In a quiet hour and in a busy one the forecast is within a third of what comes. */
/* A prompt that has place where its pages are pressed is computed, in smaller slices where that is what there is room
 * for; and a full store presses for proposals, too. */
static void test_pages_are_pressed_before_it_ends(void **state) {
    enum { STORE = 40, NARROW = 60 };
    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        fake *f = new_fake(1);
        f->n_pages = STORE;
        f->n_narrow = NARROW;
        kt__sched *s = new_sched(f);
        fake_task *t = add(s, f, "a", (STORE + NARROW - 4) * PAGE, 3 * PAGE + 90 * extra);
        while (t->n_got == 0 && t->n_end == 0) (void)kt__sched_step(s);
        while (t->n_end == 0) {
            (void)kt__sched_step(s);
            bool full = f->n_pressed == NARROW;
            int pages = t->pages + f->n_pages - f->n_used;
            assert_true(t->n_end || full || pages * PAGE >= t->task.n_done + 8);
        }
        assert_int_equal(t->task.finish, extra ? KT_FINISH_CONTEXT : KT_FINISH_LENGTH);
        assert_int_equal(t->task.n_preempted, 0);
        run(s, f, 10);
        finish(s, f);
    }
}

static void test_predictions(void **state) {
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        fake *f = new_fake(1);
        kt__sched_load load;
        kt__sched *s = new_sched(f);
        add(s, f, "a", 1000, 100);
        add(s, f, "a", 500, 50);
        run(s, f, 10000);
        if (busy) {
            for (int i = 0; i < 4; i++) add(s, f, "a", 20, 300);
            for (int i = 0; i < 5; i++) (void)kt__sched_step(s);
        }
        kt__sched_get_load(s, &load);
        const kt__sched_request request = {0, kt__client_key("a"), 2000, 200};
        kt__forecast forecast = kt__sched_predict(&load, &request);
        fake_task *t = add(s, f, "a", 2000, 200);
        while (t->n_end == 0) (void)kt__sched_step(s);
        int64_t first_us = t->first_us - t->task.arrival_us,
                all_us = t->end_us - t->task.arrival_us;
        assert_true(forecast.first_us > first_us * 2 / 3 && forecast.first_us < first_us * 4 / 3);
        assert_true(forecast.all_us > all_us * 2 / 3 && forecast.all_us < all_us * 4 / 3);
        run(s, f, 10000);
        finish(s, f);
    }
}

/* What goes first counts, and nothing else: full lanes and a queue of one client at priority 0, and
 * the forecast, by a copy of the load, against what comes. */
static void test_predictions_know_the_order(void **state) {
    (void)state;
    static const struct {
        int32_t priority;
        const char *client;
        int64_t most_us; /* 0: at least a minute */
    } cases[] = {{1, "a", 8000000}, {0, "b", 20000000}, {0, "a", 0}, {-1, "c", 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fake *f = new_fake(1);
        kt__sched_load load;
        f->n_parallel = 4;
        kt__sched *s = new_sched(f);
        add(s, f, "a", 1000, 100);
        add(s, f, "a", 500, 50);
        run(s, f, 10000);
        for (int i = 0; i < 24; i++) add(s, f, "a", 200, 300);
        for (int i = 0; i < 40; i++) (void)kt__sched_step(s);
        kt__sched_get_load(s, &load);
        const kt__sched_request request = {cases[k].priority, kt__client_key(cases[k].client), 100,
                                           20};
        kt__forecast forecast = kt__sched_predict(&load, &request);
        fake_task *t = new_task(f, cases[k].client, 100, 20);
        t->task.priority = cases[k].priority;
        kt__sched_add(s, &t->task);
        while (t->n_end == 0) (void)kt__sched_step(s);
        int64_t first_us = t->first_us - t->task.arrival_us;
        bool in_class = cases[k].most_us ? forecast.first_us < cases[k].most_us
                                         : forecast.first_us > 60000000;
        if (!in_class)
            fail_msg("case %zu: predicted %lld us, came after %lld", k,
                     (long long)forecast.first_us, (long long)first_us);
        if (forecast.first_us > 2 * first_us + 1000000 ||
            forecast.first_us < first_us / 2 - 1000000)
            fail_msg("case %zu: predicted %lld us, came after %lld", k,
                     (long long)forecast.first_us, (long long)first_us);
        run(s, f, 100000);
        finish(s, f);
    }
}

/* ---- the controller ---- */

static int64_t step_once(kt__sched *s, fake *f) {
    int64_t begin_us = f->now_us;
    if (!kt__sched_step(s)) f->now_us += 1000;
    return f->now_us - begin_us;
}

static int lanes_now(const kt__sched *s) {
    kt__sched_counts c;
    kt__sched_get_counts(s, &c);
    return c.n_lanes;
}

/* One answer, then 31 more: within the target again after 20 steps at most, and steady from then on.
 * All answers come, whole. */
static void test_a_load_step_is_brought_back(void **state) {
    (void)state;
    enum { TARGET_MS = 60, LATER = 20 };
    fake *f = new_fake(11);
    f->n_parallel = 32;
    f->n_pages = 4000;
    f->step_us = 20000;
    f->step_lane_us = 4000; /* ten lanes take 60 ms */
    f->tok_us = 10;
    f->targets = (kt_engine_params){.optimize = true, .target_latency_ms = TARGET_MS};
    kt__sched *s = new_sched(f);
    (void)add(s, f, "a", 8, 60);
    for (int i = 0; i < 10; i++) (void)step_once(s, f);
    for (int i = 0; i < 31; i++) (void)add(s, f, "a", 8, 60);
    for (int i = 0; i < LATER; i++) (void)step_once(s, f);
    for (int i = 0; i < 15; i++) assert_true(step_once(s, f) <= TARGET_MS * 1000);
    assert_true(lanes_now(s) >= 7 && lanes_now(s) <= 10);
    run(s, f, 100000);
    for (int i = 0; i < f->n_tasks; i++) {
        assert_int_equal(f->tasks[i].n_got, 60);
        assert_int_equal(f->tasks[i].task.n_recomputed, 0); /* suspended, not thrown out */
    }
    finish(s, f);
}

/* A constant load that is just too much, with steps that vary by a tenth: at most two changes of
 * direction in any minute. */
static void test_a_constant_load_is_calm(void **state) {
    (void)state;
    enum { MINUTES = 20 };
    int64_t turns[1000], n_turns = 0;
    fake *f = new_fake(12);
    f->n_parallel = 16;
    f->step_us = 20000;
    f->targets = (kt_engine_params){.optimize = true, .target_latency_ms = 60};
    f->n_pages = 100000;
    kt__sched *s = new_sched(f);
    for (int i = 0; i < 16; i++) (void)add(s, f, "a", 8, 1 << 20);
    int was = lanes_now(s), way = 0;
    while (f->now_us < MINUTES * INT64_C(60000000)) {
        f->step_lane_us = 3600 + roll(f, 800);
        (void)step_once(s, f);
        int now = lanes_now(s), turn = now > was ? 1 : now < was ? -1 : 0;
        if (turn && way && turn != way) turns[n_turns++] = f->now_us;
        if (turn) way = turn;
        was = now;
        for (int64_t i = 2; i < n_turns; i++) assert_true(turns[i] - turns[i - 2] > 60000000);
    }
    assert_true(was >= 7 && was <= 11);
    kt__sched_end_all(s, KT_FINISH_CANCELLED, true);
    finish(s, f);
}

/* Ever new clients with short answers take no more than their shares: of two lanes for eight clients
 * one with a long answer has a quarter of the steps at least. */
static void test_new_clients_do_not_starve_a_long_answer(void **state) {
    (void)state;
    fake *f = new_fake(18);
    f->n_parallel = 2;
    f->n_pages = 10000;
    kt__sched *s = new_sched(f);
    fake_task *answer = add(s, f, "long", 8, 2000);
    for (int i = 0; i < 500; i++) (void)step_once(s, f);
    int n_before = answer->n_got, n_steps = 0;
    for (int i = 0; answer->n_end == 0 && i < 400; i++) {
        char name[16];
        snprintf(name, sizeof name, "new %d", i);
        while (kt__sched_n_tasks(s) < 8) (void)add(s, f, name, 8, 100);
        for (int k = 0; k < 40 && answer->n_end == 0; k++, n_steps++) (void)step_once(s, f);
        if (f->n_tasks > MAX_TASKS - 8) break;
    }
    int n_got = answer->n_got - n_before;
    if (n_got < n_steps / 4) fail_msg("%d of %d steps", n_got, n_steps);
    kt__sched_end_all(s, KT_FINISH_CANCELLED, true);
    finish(s, f);
}

/* Long prompts of several clients where only one can be worked on: each loses its work once at most. */
static void test_suspended_ones_do_not_undo_each_other(void **state) {
    (void)state;
    enum { N = 3, LONG = 2000 };
    static const char *const names[N] = {"a", "b", "c"};
    fake *f = new_fake(21);
    fake_task *tasks[N];
    f->n_parallel = 1;
    f->n_pages = 1000;
    f->one_only = true;
    kt__sched *s = new_sched(f);
    for (int i = 0; i < N; i++) tasks[i] = add(s, f, names[i], LONG, 20);
    run(s, f, 3000);
    for (int i = 0; i < N; i++) {
        assert_int_equal(tasks[i]->n_got, 20);
        assert_true(tasks[i]->task.n_recomputed <= LONG);
    }
    finish(s, f);
}

static uint64_t n_actions_of(const kt__sched *s, kt_action action) {
    kt__sched_counts c;
    kt__sched_get_counts(s, &c);
    return c.n_actions[action];
}

/* 32 answers that come to 32 pages each, for 200 pages: with the controller as many run as can end,
 * so that none is suspended and computed again, in no more time; without it many are. */
static void test_memory_bounds_answers(void **state) {
    (void)state;
    int64_t took_us[2];
    for (int on = 0; on < 2; on++) {
        fake *f = new_fake(15);
        f->n_parallel = 32;
        f->n_pages = 200;
        f->targets = (kt_engine_params){.optimize = on, .target_latency_ms = 1000};
        kt__sched *s = new_sched(f);
        for (int i = 0; i < 32; i++) (void)add(s, f, "a", 12 * PAGE, 20 * PAGE);
        int64_t begin_us = f->now_us;
        run(s, f, 1000000);
        took_us[on] = f->now_us - begin_us;
        int64_t n_again = 0;
        for (int i = 0; i < f->n_tasks; i++) {
            assert_int_equal(f->tasks[i].n_got, 20 * PAGE);
            n_again += f->tasks[i].task.n_recomputed;
        }
        if (on) {
            assert_int_equal(n_again, 0);
            assert_int_equal(n_actions_of(s, KT_ACTION_REDUCE_BATCH_SIZE), 1);
            assert_int_equal(lanes_now(s), 5); /* of 180 pages */
        } else {
            assert_true(n_again > 1000);
        }
        finish(s, f);
    }
    assert_true(took_us[1] <= took_us[0]);
}

/* What the memory contract leaves may be less than the store's share. */
static void test_the_contract_bounds_answers(void **state) {
    (void)state;
    fake *f = new_fake(16);
    f->n_pages = 1000;
    f->targets = (kt_engine_params){.optimize = true, .target_latency_ms = 1000};
    f->pages_within = 100;
    kt__sched *s = new_sched(f);
    for (int i = 0; i < 8; i++) (void)add(s, f, "a", 12 * PAGE, 20 * PAGE);
    for (int i = 0; i < 10; i++) (void)step_once(s, f);
    assert_int_equal(lanes_now(s), 3);
    run(s, f, 1000000);
    finish(s, f);
}

/* Answers that turn out shorter than their limits let more of them run. */
static void test_ended_answers_say_how_long_others_will_be(void **state) {
    (void)state;
    fake *f = new_fake(17);
    f->n_pages = 100;
    f->targets = (kt_engine_params){.optimize = true, .target_latency_ms = 1000};
    kt__sched *s = new_sched(f);
    for (int i = 0; i < 40; i++) add(s, f, "a", PAGE, 4 * PAGE)->task.n_predict = 60 * PAGE;
    int most = 0;
    for (int i = 0; i < 1000 && kt__sched_n_tasks(s); i++) {
        kt__sched_counts c;
        (void)step_once(s, f);
        kt__sched_get_counts(s, &c);
        if (i < 4) assert_true(c.n_running <= 6);
        if (c.n_running > most) most = c.n_running;
    }
    assert_int_equal(kt__sched_n_tasks(s), 0);
    assert_int_equal(most, 8);
    finish(s, f);
}

/* A prompt's slices give way before lanes do. */
static void test_slices_give_way_first(void **state) {
    (void)state;
    fake *f = new_fake(13);
    f->targets = (kt_engine_params){.optimize = true, .target_latency_ms = 100};
    f->n_pages = 4000;
    f->tok_us = 2000;
    kt__sched *s = new_sched(f);
    for (int i = 0; i < 4; i++) (void)add(s, f, "a", 8, 4000);
    for (int i = 0; i < 10; i++) (void)step_once(s, f);
    fake_task *prompt = add(s, f, "b", 8192, 1);
    for (int i = 0; i < 20; i++) (void)step_once(s, f);
    for (int i = 0; i < 20 && prompt->n_end == 0; i++) assert_true(step_once(s, f) <= 105000);
    assert_int_equal(lanes_now(s), 8);
    kt__sched_end_all(s, KT_FINISH_CANCELLED, true);
    finish(s, f);
}

/* The processor gets half as fast: what lanes cost beside each other is still known, so predictions
 * for other numbers of lanes hold after a few steps. */
static void test_a_slower_processor_misleads_no_prediction(void **state) {
    (void)state;
    fake *f = new_fake(14);
    f->n_pages = 100000;
    f->n_parallel = 16;
    kt__sched *s = new_sched(f);
    (void)add(s, f, "a", 2, 1 << 20);
    for (int i = 0; i < 100; i++) (void)step_once(s, f);
    for (int i = 0; i < 15; i++) (void)add(s, f, "a", 2, 40);
    while (kt__sched_n_tasks(s) > 1) (void)step_once(s, f);
    f->step_us *= 2;
    f->step_lane_us *= 2;
    for (int i = 0; i < 12; i++) (void)step_once(s, f);
    kt__sched_load load;
    kt__sched_get_load(s, &load);
    double of_16 = load.step_us + 16 * load.step_us_lane;
    double really = (double)f->step_us + 16 * (double)f->step_lane_us;
    if (of_16 < 0.8 * really || of_16 > 1.25 * really) fail_msg("%.0f for %.0f", of_16, really);
    kt__sched_end_all(s, KT_FINISH_CANCELLED, true);
    finish(s, f);
}

static void test_recommendations(void **state) {
    (void)state;
    kt_recommendation r[4];
    kt_engine_stats st = {.running = 8, .decode_step_us = 200000, .kv_blocks = 100};
    assert_int_equal(kt_optimizer_recommend(&st, NULL, r, 4), 1);
    assert_int_equal(r[0].action, KT_ACTION_REDUCE_BATCH_SIZE);
    assert_int_equal(r[0].value, 3);
    assert_true(r[0].measured == 200 && r[0].target == 100);
    assert_string_equal(kt_action_name(r[0].action), "reduce_batch_size");
    assert_string_equal(kt_action_name(KT_ACTION_COUNT), "none");
    st.kv_blocks_used = 95;
    st.gap_ms_now = 200;
    assert_int_equal(kt_optimizer_recommend(&st, NULL, r, 1), 3); /* one of three is written */
    assert_int_equal(kt_optimizer_recommend(&st, NULL, r, 4), 3);
    assert_int_equal(r[1].action, KT_ACTION_REDUCE_PROMPT_SLICE);
    assert_int_equal(r[2].action, KT_ACTION_INCREASE_QUANTIZATION);
    kt_engine_params targets = {.min_throughput = 300, .target_latency_ms = 50};
    st = (kt_engine_stats){.running = 4, .waiting = 2, .decode_step_us = 20000};
    assert_int_equal(kt_optimizer_recommend(&st, &targets, r, 4), 1);
    assert_int_equal(r[0].action, KT_ACTION_INCREASE_BATCH_SIZE);
    assert_int_equal(r[0].value, 5);
    targets.min_throughput = 100;
    assert_int_equal(kt_optimizer_recommend(&st, &targets, r, 4), 0);
    st = (kt_engine_stats){0};
    assert_int_equal(kt_optimizer_recommend(&st, NULL, NULL, 0), 0);
}

/* Answers whose masks take long: another client feels them in one gap of a hundred at most, they do
 * end, and among themselves they are not slowed. */
static void test_costly_answers_step_aside(void **state) {
    static const int64_t costs[] = {5000, 13000, 60000}, steps[] = {500, 5000, 20000};
    (void)state;
    for (int i = 0; i < 9; i++) {
        fake *f = new_fake(7);
        f->n_parallel = 8;
        f->n_pages = 1000;
        f->step_us = steps[i / 3];
        f->step_lane_us = 0;
        kt__sched *s = new_sched(f);
        for (int k = 0; k < 4; k++) add(s, f, "heavy", 4, 50)->cost_us = costs[i % 3];
        fake_task *plain = add(s, f, "plain", 4, 2000);
        while (plain->n_end == 0) (void)kt__sched_step(s);
        if (plain->n_long > 20) fail_msg("%d: %d long gaps", i, plain->n_long);
        assert_true(plain->end_us < 2000 * (f->step_us + f->step_us / 4) + 30 * 50000);
        assert_true(f->tasks[0].n_got > 1 && f->tasks[3].n_got > 1);
        int64_t begin_us = f->now_us;
        int n = f->n_tasks;
        for (int k = 0; k < 4; k++) begin_us += 50 * costs[i % 3] + 50 * f->step_us;
        run(s, f, 100000);
        assert_true(f->now_us < begin_us);
        assert_int_equal(f->n_tasks, n);
        finish(s, f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thousand_random_schedules),
        cmocka_unit_test(test_the_end_of_all),
        cmocka_unit_test(test_a_call_on_a_sequence_goes_first),
        cmocka_unit_test(test_a_call_without_pages_ends),
        cmocka_unit_test(test_answers_flow_while_a_long_prompt_is_computed),
        cmocka_unit_test(test_no_part_of_a_batch_is_long),
        cmocka_unit_test(test_rows_of_a_batch_can_be_fewer),
        cmocka_unit_test(test_a_short_prompt_does_not_wait_for_a_long_one),
        cmocka_unit_test(test_a_higher_priority_goes_first_and_suspends),
        cmocka_unit_test(test_clients_get_equal_shares),
        cmocka_unit_test(test_cancel_frees_at_once),
        cmocka_unit_test(test_slow_readers_hold_up_nobody),
        cmocka_unit_test(test_costly_answers_step_aside),
        cmocka_unit_test(test_out_of_pages_alone),
        cmocka_unit_test(test_pages_are_pressed_before_it_ends),
        cmocka_unit_test(test_predictions),
        cmocka_unit_test(test_predictions_know_the_order),
        cmocka_unit_test(test_a_load_step_is_brought_back),
        cmocka_unit_test(test_a_constant_load_is_calm),
        cmocka_unit_test(test_new_clients_do_not_starve_a_long_answer),
        cmocka_unit_test(test_suspended_ones_do_not_undo_each_other),
        cmocka_unit_test(test_memory_bounds_answers),
        cmocka_unit_test(test_the_contract_bounds_answers),
        cmocka_unit_test(test_ended_answers_say_how_long_others_will_be),
        cmocka_unit_test(test_slices_give_way_first),
        cmocka_unit_test(test_a_slower_processor_misleads_no_prediction),
        cmocka_unit_test(test_recommendations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
