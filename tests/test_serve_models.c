/* serve: models whose files change or cannot be loaded: what is answered, what /ready and the log
 * say, and what stays private. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "jobs/job.h"
#include "serve_reply.h"
#include "setup/model_file.h"

static char model_path[128];

/* The program that makes models lies beside the tests. */
static int make_model(void **state) {
    char exe[PATH_MAX], command[PATH_MAX + 256];
    (void)state;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return 1;
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    snprintf(model_path, sizeof model_path, "/tmp/kentang-served-%d.gguf", (int)getpid());
    snprintf(command, sizeof command, "'%s/kentang' synth --preset tiny-llama %s >/dev/null 2>&1",
             exe, model_path);
    return system(command) == 0 ? 0 : 1;
}

static int remove_model(void **state) {
    (void)state;
    unlink(model_path);
    return 0;
}

static void copy_model(const char *to) {
    char command[512];
    snprintf(command, sizeof command, "cp %s %s", model_path, to);
    assert_int_equal(system(command), 0);
}

typedef struct served_file {
    world w;
    char path[128], log[16384];
    int pipes[2];
    size_t log_len;
} served_file;

static void open_served(served_file *f, const char *extra) {
    kt_error err;
    char setting[160];
    snprintf(f->path, sizeof f->path, "/tmp/kentang-served-copy-%d.gguf", (int)getpid());
    copy_model(f->path);
    snprintf(setting, sizeof setting, "model=%s", f->path);
    const char *const settings[] = {setting, "log.level=warn", extra, NULL};
    if (world_open(&f->w, &err, settings) != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(pipe2(f->pipes, O_NONBLOCK), 0);
    world_log_to(&f->w, f->pipes[1]);
    reply *r = ask(&f->w, "GET", "/ready", "", "");
    assert_int_equal(r->status, 200);
    free(r);
}

static void close_served(served_file *f) {
    world_log_to(&f->w, STDERR_FILENO);
    close(f->pipes[0]);
    close(f->pipes[1]);
    world_close(&f->w);
    unlink(f->path);
}

/* Until the log has it; how often it is there a little later. */
static int log_says(served_file *f, const char *what) {
    int n = 0;
    for (int i = 0; i < 50 && !strstr(f->log, what); i++) {
        while (receive_pipe(f->pipes[0], f->log, sizeof f->log, &f->log_len)) {
        }
        usleep(100000);
    }
    usleep(1300000); /* the clock looks once a second */
    while (receive_pipe(f->pipes[0], f->log, sizeof f->log, &f->log_len)) {
    }
    for (const char *at = f->log; (at = strstr(at, what)) != NULL; at++) n++;
    return n;
}

static void expect_not_ready(served_file *f, const char *why) {
    reply *r = ask(&f->w, "GET", "/ready", "", "");
    if (r->status != 503 || !strstr(r->body, why)) fail_msg("%s", r->text);
    assert_null(strstr(r->text, "/tmp"));
    free(r);
}

static void test_truncated(void **state) {
    served_file f = {0};
    (void)state;
    open_served(&f, NULL);
    assert_int_equal(truncate(f.path, 4096), 0);
    reply *r = post(&f.w, "/v1/completions", "{\"prompt\":\"Once\",\"max_tokens\":2}");
    if (r->status != 500 || !strstr(r->text, "KT_E_TRUNCATED") || strstr(r->text, "/tmp"))
        fail_msg("%s", r->text);
    free(r);
    assert_int_equal(log_says(&f, "was truncated while it is served"), 1);
    assert_non_null(strstr(f.log, "failed: "));
    expect_not_ready(&f, "truncated");
    close_served(&f);
}

static void expect_managed(served_file *f, const char *what, const char *body, int status,
                           const char *says) {
    char path[64];
    snprintf(path, sizeof path, "/v1/models/%s", what);
    reply *r = post(&f->w, path, body);
    if (r->status != status || !strstr(r->body, says)) fail_msg("%s: %s", what, r->text);
    free(r);
}

/* Loaded and unloaded by clients, where that is allowed; a request loads it anyway. */
static void test_managed(void **state) {
    served_file f = {0};
    (void)state;
    open_served(&f, NULL);
    expect_managed(&f, "unload", "{}", 403, "http.manage");
    expect_managed(&f, "load", "{}", 403, "http.manage");
    close_served(&f);
    f = (served_file){0};
    open_served(&f, "http.manage=true");
    reply *r = ask(&f.w, "GET", "/v1/models", "", "");
    assert_non_null(strstr(r->body, "\"manage\":true"));
    free(r);
    for (int i = 0; i < 2; i++) expect_managed(&f, "unload", "{}", 200, "\"loaded\":false");
    r = ask(&f.w, "GET", "/props", "", "");
    assert_non_null(strstr(r->body, "\"loaded\":false"));
    free(r);
    for (int i = 0; i < 2; i++) expect_managed(&f, "load", "{}", 200, "\"loaded\":true");
    expect_managed(&f, "unload", "{}", 200, "\"loaded\":false");
    r = post(&f.w, "/v1/completions", "{\"prompt\":\"Once\",\"max_tokens\":2}");
    assert_int_equal(r->status, 200);
    free(r);
    expect_managed(&f, "load", "{\"model\":\"none\"}", 404, "none");
    expect_managed(&f, "unload", "{\"model\":\"none\"}", 404, "none");
    expect_managed(&f, "unload", "{\"model\":7}", 400, "expected a text");
    close_served(&f);
}

static void test_overwritten(void **state) {
    served_file f = {0};
    char zeros[4096] = {0};
    (void)state;
    open_served(&f, NULL);
    usleep(20000); /* a clock tick of the file system */
    int fd = open(f.path, O_WRONLY);
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, 100000), sizeof zeros);
    close(fd);
    assert_int_equal(log_says(&f, "was written to while it is served"), 1);
    expect_not_ready(&f, "written to");
    close_served(&f);
}

/* What is mapped is whole, so answers are right: that is said, and served on. */
static void test_removed_or_replaced(void **state) {
    for (int replaced = 0; replaced < 2; replaced++) {
        served_file f = {0};
        char other[160];
        (void)state;
        open_served(&f, NULL);
        snprintf(other, sizeof other, "%s.new", f.path);
        if (replaced) copy_model(other);
        assert_int_equal(replaced ? rename(other, f.path) : unlink(f.path), 0);
        assert_int_equal(log_says(&f, replaced ? "was replaced" : "was removed"), 1);
        reply *r = post(&f.w, "/v1/completions", "{\"prompt\":\"Once\",\"max_tokens\":2}");
        assert_int_equal(r->status, 200);
        free(r);
        r = ask(&f.w, "GET", "/ready", "", "");
        assert_int_equal(r->status, 200);
        free(r);
        close_served(&f);
    }
}

/* Without a map nothing that happens to the file matters. */
static void test_read_into_memory(void **state) {
    served_file f = {0};
    (void)state;
    open_served(&f, "mmap=false");
    assert_int_equal(truncate(f.path, 4096), 0);
    usleep(1500000);
    reply *r = post(&f.w, "/v1/completions", "{\"prompt\":\"Once\",\"max_tokens\":2}");
    assert_int_equal(r->status, 200);
    free(r);
    r = ask(&f.w, "GET", "/ready", "", "");
    assert_int_equal(r->status, 200);
    free(r);
    close_served(&f);
}

/* A client that names the file, or a repository of its name. */
static void test_named_by_file(void **state) {
    served_file f = {0};
    char body[400];
    (void)state;
    open_served(&f, "strict_names=true");
    const char *base = strrchr(f.path, '/') + 1;
    static const struct {
        const char *before, *after;
        long status;
    } cases[] = {{"", "", 200}, {"Owner/", "", 200}, {"no-", "", 404}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body, "{\"model\":\"%s%s%s\",\"prompt\":\"Once\",\"max_tokens\":2}",
                 cases[i].before, base, cases[i].after);
        reply *r = post(&f.w, "/v1/completions", body);
        if ((long)r->status != cases[i].status)
            fail_msg("%s: %d, %s", body, (int)r->status, r->text);
        free(r);
    }
    close_served(&f);
}

/* The server's fault, and the server's paths. */
static void test_cannot_be_loaded(void **state) {
    world mine = {0};
    kt_error err;
    char toml[256], path[] = "/tmp/kentang-bad-model-XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    assert_int_equal(write(fd, "no model at all, but long enough for a header", 45), 45);
    close(fd);
    snprintf(toml, sizeof toml,
             "toml=[[models]]\nname = 'good'\n[[models]]\nname = 'bad'\npath = '%s'\n", path);
    const char *const settings[] = {toml, NULL};
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    world_log_to(&mine, -1);
    reply *r = post(&mine, "/v1/completions", "{\"model\":\"bad\",\"prompt\":\"x\"}");
    if (r->status != 500 || !strstr(r->text, "server_error") ||
        !strstr(r->text, "\"param\":null") || !strstr(r->text, "cannot be loaded") ||
        strstr(r->text, "/tmp"))
        fail_msg("%s", r->text);
    free(r);
    char *text = ask_line(&mine, "{\"model\":\"bad\",\"prompt\":\"x\"}");
    if (!strstr(text, "server_error") || strstr(text, "/tmp")) fail_msg("%s", text);
    free(text);
    r = post(&mine, "/v1/completions", "{\"model\":\"good\",\"prompt\":\"x\",\"max_tokens\":1}");
    assert_int_equal(r->status, 200);
    free(r);
    world_log_to(&mine, STDERR_FILENO);
    world_close(&mine);
    unlink(path);
}

/* A request that forbids every token is at fault itself. */
static void test_everything_forbidden(void **state) {
    world mine = {0};
    kt_error err;
    (void)state;
    if (world_open(&mine, &err, NULL) != KT_OK) fail_msg("%s", err.message);
    char *body = malloc(1 << 20);
    size_t len = 0;
    for (int all = 1; all >= 0; all--) { /* but one: that one is the answer */
        len = (size_t)sprintf(body, "{\"prompt\":\"a\",\"max_tokens\":1,\"logit_bias\":[[0,false]");
        kt__served_info info;
        kt__served_get_info(kt__models_at(mine.server->shared.models, 0), &info);
        for (int i = 1; i < info.model.n_vocab; i++)
            len += (size_t)sprintf(body + len, ",[%d,%s]", i, i == 75 && !all ? "0.0" : "false");
        sprintf(body + len, "]}");
        reply *r = post(&mine, "/v1/completions", body);
        if (r->status != (all ? 400 : 200)) fail_msg("%s", r->text);
        if (all) assert_non_null(strstr(r->text, "forbids every token"));
        free(r);
    }
    free(body);
    world_close(&mine);
}

static void test_weights_beyond_memory(void **state) {
    (void)state;
    kt_mem_plan plan = {
        .budget_bytes = 700u << 20, .weights_bytes = 935u << 20, .kv_bytes = 366u << 20};
    assert_true(kt__plan_exceeds_memory(&plan));
    plan.weights_counted = true; /* a plan that counts them fits, or is refused */
    assert_false(kt__plan_exceeds_memory(&plan));
    plan.weights_counted = false;
    plan.weights_bytes = 300u << 20;
    assert_false(kt__plan_exceeds_memory(&plan));
    plan.weights_bytes = 335u << 20;
    assert_true(kt__plan_exceeds_memory(&plan));
    plan.budget_bytes = 0; /* unknown */
    assert_false(kt__plan_exceeds_memory(&plan));
}

/* A default adapter that is none ends the start; one that breaks later is what /ready says. */
static void test_default_adapter(void **state) {
    world mine = {0};
    kt_error err;
    char adapters[256];
    (void)state;
    snprintf(adapters, sizeof adapters, "adapters=bad=%s", model_path);
    const char *const settings[] = {adapters, "adapter=bad", NULL};
    assert_int_not_equal(world_open(&mine, &err, settings), KT_OK);
    assert_non_null(strstr(err.message, "adapter"));
    unlink(mine.socket);
    rmdir(mine.dir);
    memset(&mine, 0, sizeof mine);
    if (world_open(&mine, &err, NULL) != KT_OK) fail_msg("%s", err.message);
    atomic_store(&mine.server->shared.adapter_fails, true);
    reply *r = ask(&mine, "GET", "/ready", "", "");
    if (r->status != 503 || !strstr(r->body, "default adapter")) fail_msg("%s", r->text);
    free(r);
    world_close(&mine);
}

/* ---- models that memory does not hold together ---- */

#define TWO_MODELS "toml=mem = 66000000\n[[models]]\nname = 'a'\n[[models]]\nname = 'b'\n"

static int status_of(const world *w, const char *model) {
    char body[200];
    snprintf(body, sizeof body, "{\"model\":\"%s\",\"prompt\":\"Once\",\"max_tokens\":2}", model);
    reply *r = post(w, "/v1/completions", body);
    int status = r->status;
    free(r);
    return status;
}

static void test_idle_makes_room(void **state) {
    world mine = {0};
    kt_error err;
    const char *const settings[] = {TWO_MODELS, NULL};
    (void)state;
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(status_of(&mine, "a"), 200);
        assert_int_equal(status_of(&mine, "b"), 200);
    }
    world_close(&mine);
}

/* An answer of the other model ends first, whole. */
static void test_answers_end_first(void **state) {
    world mine = {0};
    kt_error err;
    char text[1 << 16] = "";
    const char *const settings[] = {TWO_MODELS, NULL};
    (void)state;
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    int fd = begin_stream(&mine, "long", 300, text, sizeof text);
    assert_true(fd >= 0);
    assert_int_equal(status_of(&mine, "b"), 200);
    assert_true(receive_until(fd, text, sizeof text, "\"finish\":\"length\""));
    close(fd);
    assert_int_equal(status_of(&mine, "a"), 200);
    world_close(&mine);
}

/* One that does not fit alone turns nobody out but the first time. */
static void test_too_large_alone(void **state) {
    world mine = {0};
    kt_error err;
    kt__served_info info;
    const char *const settings[] = {
        "toml=mem = 66000000\n[[models]]\nname = 'a'\n[[models]]\nname = 'b'\nkv = 50000000\n",
        NULL};
    (void)state;
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    world_log_to(&mine, -1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(status_of(&mine, "a"), 200);
        assert_int_equal(status_of(&mine, "b"), 503);
    }
    kt__served_get_info(kt__models_at(mine.server->shared.models, 0), &info);
    assert_true(info.loaded);
    world_log_to(&mine, STDERR_FILENO);
    world_close(&mine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_managed),
        cmocka_unit_test(test_overwritten),
        cmocka_unit_test(test_removed_or_replaced),
        cmocka_unit_test(test_read_into_memory),
        cmocka_unit_test(test_named_by_file),
        cmocka_unit_test(test_cannot_be_loaded),
        cmocka_unit_test(test_everything_forbidden),
        cmocka_unit_test(test_weights_beyond_memory),
        cmocka_unit_test(test_default_adapter),
        cmocka_unit_test(test_idle_makes_room),
        cmocka_unit_test(test_answers_end_first),
        cmocka_unit_test(test_too_large_alone),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
