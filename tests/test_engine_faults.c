/* Every allocation fails in turn, over a whole life: context, model, engine, sequences, chats,
 * requests. The failed call says KT_E_NOMEM and changes nothing (the same call succeeds when
 * memory is back, and the answer is the one of an undisturbed life), nothing leaks, nothing
 * crashes. And: no allocation at all while a batch runs or a token is decoded. */
#include <hwloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "context/types.h"
#include "heap_watch.h"

/* ---- hwloc asserts that its own allocations succeed: they are not failed ---- */

#if HEAP_WATCHED
#define SUSPENDED(name, parameters, arguments) \
    HEAP_EXPORT int name parameters {          \
        int(*real) parameters = NULL;          \
        heap_find(&real, #name);               \
        heap.suspended = true;                 \
        int rc = real arguments;               \
        heap.suspended = false;                \
        return rc;                             \
    }
SUSPENDED(hwloc_topology_init, (hwloc_topology_t * topology), (topology))
SUSPENDED(hwloc_topology_load, (hwloc_topology_t topology), (topology))
SUSPENDED(hwloc_topology_set_components,
          (hwloc_topology_t topology, unsigned long flags, const char *name),
          (topology, flags, name))
#endif

/* ---- a life ---- */

typedef struct source {
    const char *path; /* NULL: the demo model */
    bool use_mmap;
    int n_threads; /* 0: from the machine's topology */
} source;

typedef struct life {
    const source *from;
    bool retry; /* repeat the call that failed, once */
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq, *copy;
    kt_request *req;
    char *rendered, *json_rendered;
    int32_t *encoded;
    kt_error err;
    /* what came of it */
    char text[4096];
    size_t len;
    uint64_t sum; /* over ids and logits */
} life;

static void digest(life *l, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) l->sum = (l->sum ^ p[i]) * 0x100000001b3u;
}

static void digest_logits(life *l, const kt_seq *seq) {
    kt_model_info info;
    kt_model_get_info(l->model, &info);
    digest(l, kt_seq_logits(seq), (size_t)info.n_vocab * sizeof(float));
}

static void keep_text(life *l, const char *text, size_t len) {
    if (len > sizeof l->text - 1 - l->len) len = sizeof l->text - 1 - l->len;
    memcpy(l->text + l->len, text, len);
    l->len += len;
    l->text[l->len] = '\0';
}

static bool on_text(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    keep_text(user, text, len);
    return true;
}

/* Evaluates the call; KT_E_NOMEM alone is an allowed failure, and one repetition must heal it. */
#define STEP(call)                                                                                \
    do {                                                                                          \
        kt_status step_ = (call);                                                                 \
        if (step_ == KT_E_NOMEM && l->err.message[0] == '\0') fail_msg("%s: no text", #call);     \
        if (step_ == KT_E_NOMEM && l->retry)                                                      \
            step_ = (call);                                                                       \
        else if (step_ == KT_E_NOMEM)                                                             \
            return step_;                                                                         \
        if (step_ != KT_OK) fail_msg("%s: %s: %s", #call, kt_status_name(step_), l->err.message); \
    } while (0)

static kt_status open_model(life *l) {
    kt_model_params mp = kt_model_params_default();
    mp.use_mmap = l->from->use_mmap;
    if (l->from->path) return kt_model_open(l->ctx, l->from->path, &mp, &l->model, &l->err);
    return kt_model_open_demo(l->ctx, &mp, &l->model, &l->err);
}

static kt_gen_params busy_params(void) {
    static const char *const breakers[] = {"\n", ":", "* *"};
    static const char *const stops[] = {"never said", "\x01\x02"};
    static const kt_logit_bias bias[] = {{5, -1.0f}, {7, 0.5f}};
    kt_gen_params gp = kt_gen_params_default();
    gp.n_predict = 12;
    gp.stop = stops;
    gp.n_stop = 2;
    gp.ignore_eog = true;
    gp.sampling.seed = 42;
    gp.sampling.repeat_penalty = 1.1f;
    gp.sampling.dry_multiplier = 0.8f;
    gp.sampling.dry_breakers = breakers;
    gp.sampling.n_dry_breakers = 3;
    gp.sampling.top_n_sigma = 2.0f;
    gp.sampling.typical_p = 0.98f;
    gp.sampling.xtc_probability = 0.1f;
    gp.sampling.logit_bias = bias;
    gp.sampling.n_logit_bias = 2;
    return gp;
}

/* A chat that failed halfway stays in the sequence as far as it got: it begins again. */
static kt_status chat(life *l, const kt_gen_params *gp) {
    static const kt_message messages[] = {{"system", "Be brief."},
                                          {"user", "Tell me a short story about a cat."}};
    kt_request_report result;
    l->len = 0;
    return kt_chat(l->seq, messages, 2, gp, on_text, l, &result, &l->err);
}

static kt_status use_text(life *l) {
    static const char text[] =
        "Na\xc3\xafve caf\xc3\xa9 <|im_end|> 12345\n\n  kentang \xf0\x9f\xa5\x94";
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"say \\u00e9\"}], "
        "\"add_generation_prompt\": true}";
    static const kt_message message = {"user", "Say it."};
    int32_t ids[256];
    char back[512];
    size_t n, len;
    STEP(kt_tokenize(l->model, text, sizeof text - 1, KT_TOK_ADD_SPECIAL | KT_TOK_PARSE_SPECIAL,
                     ids, 256, &n, &l->err));
    digest(l, ids, n * sizeof *ids);
    STEP(kt_detokenize(l->model, ids, n, KT_TOK_RENDER_SPECIAL, back, sizeof back, &len, &l->err));
    digest(l, back, len);
    STEP(kt_chat_render(l->model, &message, 1, true, &l->rendered, &len, &l->err));
    digest(l, l->rendered, len);
    STEP(kt_chat_render_json(l->model, json, sizeof json - 1, &l->json_rendered, &len, &l->err));
    digest(l, l->json_rendered, len);
    STEP(kt_chat_encode(l->model, &message, 1, true, &l->encoded, &n, &l->err));
    digest(l, l->encoded, n * sizeof *l->encoded);
    return KT_OK;
}

static kt_status use_sequences(life *l) {
    static const int32_t ids[] = {3, 5, 8, 13, 21, 34, 55, 89, 144, 233};
    STEP(kt_seq_copy(l->seq, &l->copy, &l->err));
    digest_logits(l, l->copy);
    STEP(kt_seq_truncate(l->seq, 4, &l->err));
    STEP(kt_seq_eval(l->seq, ids, 10, &l->err));
    const kt_eval_item items[] = {{.seq = l->seq, .ids = ids, .n = 1},
                                  {.seq = l->copy, .ids = ids + 2, .n = 3}};
    STEP(kt_engine_eval(l->engine, items, 2, &l->err));
    digest_logits(l, l->seq);
    digest_logits(l, l->copy);
    return KT_OK;
}

static kt_status read_events(life *l) {
    kt_event event;
    while (kt_request_next_event(l->req, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN) keep_text(l, event.text, event.len);
        if (event.kind != KT_EVENT_FINISHED || !event.error) continue;
        l->err = *event.error;
        return l->err.code;
    }
    return KT_OK;
}

static kt_status use_request(life *l) {
    static const int32_t ids[] = {9, 10, 11};
    kt_request_params r = kt_request_params_default();
    r.seq = l->copy;
    r.seq_append = true;
    r.prompt.ids = ids;
    r.prompt.n_ids = 3;
    r.gen.sampling.mirostat = 2;
    r.gen.sampling.seed = 7;
    r.gen.n_predict = 4;
    r.gen.ignore_eog = true;
    STEP(kt_engine_submit(l->engine, &r, &l->req, &l->err));
    STEP(read_events(l));
    return KT_OK;
}

static kt_status live(life *l) {
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = {.n_ctx = 320, .n_seq_max = 3, .n_ubatch = 16};
    kt_gen_params gp = busy_params();
    cp.n_threads = l->from->n_threads;
    cp.mem_bytes = 1u << 30;
    STEP(kt_ctx_open(&cp, &l->ctx, &l->err));
    STEP(open_model(l));
    STEP(kt_engine_open(l->model, &ep, &l->engine, &l->err));
    STEP(kt_seq_open(l->engine, &l->seq, &l->err));
    STEP(chat(l, &gp));
    kt_status status = use_text(l);
    if (status == KT_OK) status = use_sequences(l);
    if (status == KT_OK) status = use_request(l);
    return status;
}

static void end(life *l) {
    kt_request_close(l->req);
    kt_seq_close(l->copy);
    kt_seq_close(l->seq);
    kt_engine_close(l->engine);
    kt_model_close(l->model);
    kt_ctx_close(l->ctx);
    kt_free(l->rendered);
    kt_free(l->json_rendered);
    kt_free(l->encoded);
}

/* ---- failing ---- */

static void no_leak(long n, const char *how) {
    if (heap.n_live == 0) return;
    heap_print_live(0);
    fail_msg("%ld blocks alive after %s %ld", heap.n_live, how, n);
}

static long n_refused;

/* One life, in which the calls [n, last] fail; true when at least one did. */
static bool live_with_failures(const life *sound, long n, long last, const char *how) {
    static life l;
    l = (life){.from = sound->from, .retry = last == n};
    heap_begin(n, last);
    kt_status status = live(&l);
    end(&l);
    heap_end();
    no_leak(n, how);
    heap_sweep();
    if (status != KT_OK && status != KT_E_NOMEM) fail_msg("%s %ld: %d", how, n, status);
    n_refused += status != KT_OK;
    if (status == KT_OK && (strcmp(l.text, sound->text) != 0 || l.sum != sound->sum))
        fail_msg("%s %ld: another answer:\n%s\ninstead of\n%s", how, n, l.text, sound->text);
    return heap.n_failed > 0;
}

/* Calls are tried one by one, in strides where there are very many. */
static long stride(long n_calls, long n_lives) {
    long s = n_calls / n_lives;
    return s < 1 ? 1 : s;
}

static void fail_all(const source *from, long n_lives) {
    static life sound;
    if (!HEAP_WATCHED) skip();
    for (int i = 0; i < 2; i++) { /* the first leaves what the system keeps for itself */
        sound = (life){.from = from};
        heap_begin(0, 0);
        assert_int_equal(live(&sound), KT_OK);
        end(&sound);
        heap_end();
        if (i == 1) no_leak(0, "an undisturbed life");
        memset(heap.blocks, 0, sizeof heap.blocks);
        heap.n_live = 0;
        heap.live_bytes = 0;
    }
    long n_calls = heap.n_calls, step = stride(n_calls, n_lives), n = 1;
    assert_true(sound.len > 20);
    while (live_with_failures(&sound, n, n, "failing call")) n += n < 64 ? 1 : step;
    assert_true(n > n_calls - step);
    n_refused = 0;
    for (n = 1; live_with_failures(&sound, n, LONG_MAX, "failing from call");) n += step;
    print_message("%ld calls, one in %ld; %ld lives ended early\n", n_calls, step, n_refused);
}

#if defined(__SANITIZE_ADDRESS__)
enum { LIVES = 60 };
#else
enum { LIVES = 200 };
#endif

static void test_demo_model(void **state) {
    (void)state;
    fail_all(&(source){.n_threads = 2}, LIVES);
}

/* What opening a context adds where it counts the processors; the rest of a life is the one above. */
static void test_topology(void **state) {
    (void)state;
    fail_all(&(source){.n_threads = 0}, LIVES / 4);
}

static void with_file(const char *preset, bool use_mmap) {
    char path[256], command[1024];
    if (!HEAP_WATCHED) skip();
    snprintf(path, sizeof path, "%s/faults-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant q4_0 '%s' >/dev/null 2>&1", KT_BINARY_DIR,
             preset, path);
    assert_int_equal(system(command), 0);
    fail_all(&(source){.path = path, .use_mmap = use_mmap, .n_threads = 1}, LIVES / 4);
    unlink(path);
}

static void test_mapped_file(void **state) {
    (void)state;
    with_file("tiny-llama", true);
}

static void test_read_file(void **state) {
    (void)state;
    with_file("tiny-gemma3", false);
}

/* ---- not allocating ---- */

static void test_no_allocation_while_running(void **state) {
    (void)state;
    static life l;
    static const int32_t ids[] = {3, 5, 8, 13, 21, 34, 55, 89, 144, 233};
    if (!HEAP_WATCHED) skip();
    l = (life){.from = &(source){.n_threads = 2}};
    assert_int_equal(live(&l), KT_OK);
    heap_begin(0, 0);
    assert_int_equal(kt_seq_eval(l.seq, ids, 10, &l.err), KT_OK);
    for (int i = 0; i < 40; i++) assert_int_equal(kt_seq_eval(l.copy, ids, 1, &l.err), KT_OK);
    heap_end();
    assert_int_equal(heap.n_calls + heap.n_others, 0);

    kt_request_close(l.req);
    kt_request_params r = kt_request_params_default();
    r.seq = l.seq;
    r.seq_append = true;
    r.prompt.ids = ids;
    r.prompt.n_ids = 10;
    r.gen = busy_params();
    r.gen.n_predict = 60;
    assert_int_equal(kt_engine_submit(l.engine, &r, &l.req, &l.err), KT_OK);
    heap_begin(0, 0);
    assert_int_equal(read_events(&l), KT_OK);
    heap_end();
    assert_int_equal(heap.n_calls + heap.n_others, 0);
    end(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo_model),
        cmocka_unit_test(test_topology),
        cmocka_unit_test(test_mapped_file),
        cmocka_unit_test(test_read_file),
        cmocka_unit_test(test_no_allocation_while_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
