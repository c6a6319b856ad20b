/* serve: a full queue: refusals, and requests of many prompts that wait for room. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dialects/dialects.h"
#include "jobs/job.h"
#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, NULL)

static void test_full_queue(void **state) {
    kt_error err;
    world mine = {0};
    static const char *const settings[] = {"limits.queue=1", "parallel=1", NULL};
    static const char ask_long[] =
        "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":900,\"stream\":true}\n";
    (void)state;
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    /* the requests of a try may have ended, or not yet begun, when the last one comes */
    reply *r = NULL;
    int fd = -1;
    for (int tries = 0; tries < 40; tries++) {
        fd = connect_socket(&mine);
        for (int i = 0; i < 4; i++) assert_true(send_all(fd, ask_long, sizeof ask_long - 1));
        usleep((useconds_t)(5000 * (tries % 4)));
        r = post(&mine, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1}");
        if (r->status == 429) break;
        free(r);
        r = NULL;
        close(fd);
    }
    assert_non_null(r);
    assert_non_null(strstr(r->text, "Retry-After: "));
    assert_non_null(strstr(r->text, "rate_limit_error"));
    free(r);
    close(fd);
    world_close(&mine);
}

/* Choices of a completion with n prompts, each alone or in one request, as one text. */
static void texts_of(const reply *r, char *out, size_t size) {
    json_t *v = body_of(r), *c;
    size_t i;
    out[0] = '\0';
    json_array_foreach(json_object_get(v, "choices"), i, c) {
        size_t len = strlen(out);
        snprintf(out + len, size - len, "%d:%s|",
                 (int)json_integer_value(json_object_get(c, "index")), text_at(c, "text"));
    }
    json_decref(v);
}

enum { N_PROMPTS = 20 };

static void body_of_many(char *out, size_t size, int n_tokens) {
    size_t len = (size_t)snprintf(out, size, "{\"prompt\":[");
    for (int i = 0; i < N_PROMPTS; i++)
        len += (size_t)snprintf(out + len, size - len, "%s\"The %d.\"", i ? "," : "", i);
    snprintf(out + len, size - len, "],\"max_tokens\":%d,\"seed\":7,\"ignore_eos\":true}",
             n_tokens);
}

/* More prompts in a request than the queue takes: the rest wait, and come as places become free. */
static void test_more_prompts_than_places(void **state) {
    (void)state;
    kt_error err;
    world mine = {0};
    char body[2048], wide[8192], narrow[8192];
    static const char *const settings[] = {"limits.queue=2", "parallel=1", NULL};
    body_of_many(body, sizeof body, 6);
    reply *r = post(&w, "/v1/completions", body);
    assert_int_equal(r->status, 200);
    texts_of(r, wide, sizeof wide);
    free(r);
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    r = post(&mine, "/v1/completions", body);
    if (r->status != 200) fail_msg("%s", r->text);
    texts_of(r, narrow, sizeof narrow);
    assert_string_equal(narrow, wide);
    free(r);
    world_close(&mine);
}

/* Fills a queue as long as it is told to. */
typedef struct filler {
    kt_engine *engine;
    atomic_bool stop;
    pthread_t thread;
} filler;

static void *fill(void *arg) {
    filler *f = arg;
    enum { N = 64 };
    kt_request *reqs[N] = {0};
    kt_request_params request = kt_request_params_default();
    kt_event event;
    request.prompt.text = "y";
    request.prompt.text_len = 1;
    request.gen.n_predict = 2;
    request.service.priority = -5; /* the others' prompts come first */
    while (!atomic_load(&f->stop)) {
        for (int i = 0; i < N; i++) {
            while (reqs[i] && kt_request_next_event(reqs[i], &event, 0)) {
                if (event.kind != KT_EVENT_FINISHED) continue;
                kt_request_close(reqs[i]);
                reqs[i] = NULL;
            }
            if (!reqs[i] && kt_engine_submit(f->engine, &request, &reqs[i], NULL) != KT_OK)
                reqs[i] = NULL;
        }
    }
    for (int i = 0; i < N; i++) kt_request_close(reqs[i]);
    return NULL;
}

/* NULL: the server has none; for kt__job_release. */
static kt__job *ref_first_job(world *mine) {
    pthread_mutex_lock(&mine->server->shared.lock);
    kt__job *job = mine->server->shared.n_jobs ? mine->server->shared.jobs[0] : NULL;
    if (job) kt__job_ref(job);
    pthread_mutex_unlock(&mine->server->shared.lock);
    return job;
}

/* A request of several prompts whose next one found the queue full when none of its own was left.
 */
static bool one_waits_for_the_clock(world *mine) {
    bool found = false;
    kt__job *job = ref_first_job(mine);
    if (!job) return false;
    pthread_mutex_lock(&job->lock);
    found = job->state == KT__JOB_CROWDED && job->answer.n_submitted < N_PROMPTS;
    for (int i = 0; i < KT__JOB_AT_ONCE; i++) found = found && !job->answer.parts[i].req;
    pthread_mutex_unlock(&job->lock);
    kt__job_release(job);
    return found;
}

typedef struct asking {
    world *mine;
    const char *body;
    reply *answer;
    atomic_bool over;
    pthread_t thread;
} asking;

static void *ask_many(void *arg) {
    asking *a = arg;
    a->answer = post(a->mine, "/v1/completions", a->body);
    atomic_store(&a->over, true);
    return NULL;
}

/* When the queue is full of others' and none of a request's own prompts is left to make room, the
 * clock takes it up again. */
static void test_refill_by_the_clock(void **state) {
    (void)state;
    kt_error err;
    world mine = {0};
    kt_model *model;
    char body[2048], alone[8192], among[8192];
    static const char *const settings[] = {"limits.queue=2", "parallel=1", NULL};
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    body_of_many(body, sizeof body, 3);
    reply *r = post(&mine, "/v1/completions", body);
    texts_of(r, alone, sizeof alone);
    free(r);
    filler f = {0};
    assert_int_equal(
        kt__served_use(kt__models_at(mine.server->shared.models, 0), NULL, &model, &f.engine, &err),
        KT_OK);
    int seen = 0, answered = 0;
    for (int tries = 0; tries < 60 && !(seen && answered); tries++) {
        asking a = {.mine = &mine, .body = body};
        atomic_store(&f.stop, false);
        assert_int_equal(pthread_create(&f.thread, NULL, fill, &f), 0);
        assert_int_equal(pthread_create(&a.thread, NULL, ask_many, &a), 0);
        bool waits = false;
        while (!atomic_load(&a.over) && !waits) {
            waits = one_waits_for_the_clock(&mine);
            usleep(200);
        }
        atomic_store(&f.stop, true);
        pthread_join(f.thread, NULL);
        pthread_join(a.thread, NULL);
        seen += waits;
        if (a.answer->status == 200) {
            texts_of(a.answer, among, sizeof among);
            assert_string_equal(among, alone);
            answered += waits;
        } else { /* its first prompt found the queue full: an honest refusal */
            assert_int_equal(a.answer->status, 429);
            assert_non_null(strstr(a.answer->text, "Retry-After: "));
        }
        free(a.answer);
    }
    assert_true(seen > 0 && answered > 0);
    kt__served_done(kt__models_at(mine.server->shared.models, 0), f.engine);
    world_close(&mine);
}

/* ---- prompts that wait ---- */

static atomic_int n_runs;

static void counted_run(kt__work_item *item) {
    atomic_fetch_add(&n_runs, 1);
    kt__job_read_and_submit(item);
}

/* From now on the workers' runs of the request at hand are counted, if it has its first prompts in the
 * engine and no worker has it; returns how many of its prompts are left, 0: not yet. */
static int count_runs(world *mine) {
    int left = 0;
    kt__job *job = ref_first_job(mine);
    if (!job) return 0;
    pthread_mutex_lock(&job->lock);
    if (job->state == KT__JOB_ANSWERING && job->answer.n_submitted >= KT__JOB_AT_ONCE) {
        left = (int)(job->request.wire->n_prompts - job->answer.n_submitted);
        job->item.run = counted_run;
    }
    pthread_mutex_unlock(&job->lock);
    kt__job_release(job);
    return left;
}

/* More prompts than a request may have in the engine at once: a worker has the request only when one
 * of them has a place, and each time gives the place to one. */
static void test_waiting_prompts_sleep(void **state) {
    (void)state;
    char body[2048];
    asking a = {.mine = &w, .body = body};
    body_of_many(body, sizeof body, 60);
    int left = 0;
    for (int tries = 0; tries < 20 && left == 0; tries++) {
        atomic_store(&n_runs, 0);
        atomic_store(&a.over, false);
        assert_int_equal(pthread_create(&a.thread, NULL, ask_many, &a), 0);
        while (!atomic_load(&a.over) && !(left = count_runs(&w))) usleep(200);
        pthread_join(a.thread, NULL);
        assert_int_equal(a.answer->status, 200);
        free(a.answer);
    }
    assert_true(left > 0);
    if (atomic_load(&n_runs) > left)
        fail_msg("%d runs of workers for %d prompts that waited", atomic_load(&n_runs), left);
}

/* ---- the states ---- */

static void drop_job(kt__task_item *item) {
    kt__job_release(KT__JOB_OF(item, task));
}

/* A job of the dialect as it is while a worker submits its next prompts. */
static kt__job *submitting_job(void) {
    kt__job *job;
    kt_error err;
    assert_int_equal(kt__job_create(&w.server->shared, &kt__dialect_chat, "t-", "test", &job, &err),
                     KT_OK);
    job->task.run = drop_job;
    kt__job_move(job, KT__JOB_READ);
    kt__job_move(job, KT__JOB_ANSWERING);
    kt__job_move(job, KT__JOB_SUBMITTING);
    job->answer.n_submitted = 1;
    return job;
}

/* A job is with one thread at a time: what a worker or another thread has is not ended, and what has ended
 * or failed does not answer again. */
static void test_moves(void **state) {
    static const kt__job_state away[] = {KT__JOB_READING, KT__JOB_ELSEWHERE, KT__JOB_SUBMITTING,
                                         KT__JOB_FAILING};
    (void)state;
    for (int from = 0; from < KT__JOB_STATES; from++) {
        assert_false(kt__job_may_move(KT__JOB_ENDED, (kt__job_state)from));
        assert_false(kt__job_may_move((kt__job_state)from, (kt__job_state)from));
        assert_int_equal(kt__job_may_move(KT__JOB_FAILED, (kt__job_state)from),
                         from == KT__JOB_ENDED);
    }
    for (size_t i = 0; i < sizeof away / sizeof away[0]; i++)
        assert_false(kt__job_may_move(away[i], KT__JOB_ENDED));
}

/* A full queue after the first prompts is no error; the clock lets it try again. */
static void test_crowded_job(void **state) {
    (void)state;
    kt_error err = {.code = KT_E_BUSY};
    kt__job *job = submitting_job();
    kt__job_hand_back(job, KT_E_BUSY, &err);
    assert_int_equal(job->state, KT__JOB_CROWDED);
    assert_int_equal(job->answer.error.code, KT_OK);
    kt__job_retry(job);
    assert_int_equal(job->state, KT__JOB_ANSWERING);
    kt__job_release(job);
}

/* A prompt fails while a worker submits others, which fail, too: the first error is the answer, and the job
 * waits for the worker. */
static void test_fails_with_a_worker(void **state) {
    (void)state;
    kt_error first = {.code = KT_E_STATE, .message = "the first"};
    kt_error second = {.code = KT_E_ARG, .message = "the second"};
    kt__job *job = submitting_job();
    job->answer.stream = true;
    pthread_mutex_lock(&job->lock);
    kt__job_fail(job, &first);
    pthread_mutex_unlock(&job->lock);
    assert_int_equal(job->state, KT__JOB_FAILING);
    assert_true(kt__job_is_away(job));
    size_t len = job->answer.out.len;
    assert_true(len > 0);
    kt__job_hand_back(job, KT_E_ARG, &second);
    assert_int_equal(job->state, KT__JOB_FAILED);
    pthread_mutex_lock(&job->lock);
    kt__job_fail(job, &second);
    pthread_mutex_unlock(&job->lock);
    assert_int_equal(job->answer.out.len, len);
    assert_string_equal(job->answer.error.message, "the first");
    kt__job_release(job);
}

/* A client that is gone does not come back by a cancel. */
static void test_interest_only_falls(void **state) {
    (void)state;
    kt__job *job = submitting_job();
    kt__job_cancel(job);
    assert_int_equal(job->interest, KT__JOB_CANCELLED);
    kt__job_abandon(job);
    kt__job_cancel(job);
    assert_int_equal(job->interest, KT__JOB_ABANDONED);
    kt__job_release(job);
}

/* More answers than the queue holds are refused before anything is computed. */
static void test_prompts_times_answers(void **state) {
    (void)state;
    char body[4096];
    world mine = {0};
    kt_error err;
    if (world_open(&mine, &err, NULL) != KT_OK) fail_msg("%s", err.message);
    for (int n_prompts = 16; n_prompts <= 17; n_prompts++) {
        int n = snprintf(body, sizeof body, "{\"n\":16,\"max_tokens\":1,\"prompt\":[\"a\"");
        for (int i = 1; i < n_prompts; i++)
            n += snprintf(body + n, sizeof body - (size_t)n, ",\"a\"");
        snprintf(body + n, sizeof body - (size_t)n, "]}");
        reply *r = post(&mine, "/v1/completions", body);
        if (r->status != (n_prompts == 16 ? 200 : 413)) fail_msg("%s", r->text);
        if (n_prompts == 17) assert_non_null(strstr(r->text, "limits.queue"));
        free(r);
    }
    world_close(&mine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_prompts_times_answers),
        cmocka_unit_test(test_waiting_prompts_sleep),
        cmocka_unit_test(test_more_prompts_than_places),
        cmocka_unit_test(test_refill_by_the_clock),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_crowded_job),
        cmocka_unit_test(test_fails_with_a_worker),
        cmocka_unit_test(test_interest_only_falls),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
