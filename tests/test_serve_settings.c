/* serve: settings of one model, engines on cores of their own, presets, and where threads may run. */
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"
#include "setup/tuned.h"

#define ASK "{\"prompt\":\"A cat\",\"max_tokens\":8,\"temperature\":0"

/* The lists of processors of the threads that compute: workers ("kentang-1"), and those that drive
 * an engine, which are held to theirs while a batch runs. */
static void worker_masks(char lists[64][64], int *n) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    *n = 0;
    while ((task = readdir(tasks)) != NULL && *n < 64) {
        char path[320], line[512] = "", name[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        while (fgets(line, sizeof line, f)) {
            if (sscanf(line, "Name: %63s", name) == 1) continue;
            bool worker = !strncmp(name, "kentang-", 8) && name[8] >= '0' && name[8] <= '9';
            if ((worker || !strcmp(name, "kt-engine")) &&
                sscanf(line, "Cpus_allowed_list: %63s", lists[*n]) == 1)
                ++*n;
        }
        fclose(f);
    }
    closedir(tasks);
}

static char *answer_of(const world *w, const char *model) {
    char body[256];
    snprintf(body, sizeof body, ASK ",\"model\":\"%s\"}", model);
    reply *r = post(w, "/v1/completions", body);
    json_t *v = body_of(r);
    assert_int_equal(r->status, 200);
    char *text = strdup(text_at(v, "choices.0.text"));
    json_decref(v);
    free(r);
    return text;
}

static int last_processor(void) {
    cpu_set_t allowed;
    int last = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET((size_t)i, &allowed)) last = i;
    }
    return last;
}

/* Two models with different settings answer alike; the one that is held to a processor has its
 * workers there. */
static void test_settings_of_a_model(void **state) {
    (void)state;
    world w = {0};
    char toml[512], lists[64][64], cpu[16];
    int n, n_there = 0;
    snprintf(cpu, sizeof cpu, "%d", last_processor());
    snprintf(toml, sizeof toml,
             "toml=[[models]]\nname = \"a\"\n[[models]]\nname = \"b\"\ncpus = \"%s\"\n"
             "threads = 2\nctx = 128\nubatch = 64\nparallel = 2\nmmap = false\n"
             "[[models]]\nname = \"c\"\nkv_type = \"q8/f16\"\n",
             cpu);
    const char *const settings[] = {toml, NULL};
    kt_error err;
    if (world_open(&w, &err, settings) != KT_OK) fail_msg("%s", err.message);
    char *a = answer_of(&w, "a"), *b = answer_of(&w, "b");
    free(answer_of(&w, "c"));
    assert_string_equal(a, b);
    free(a);
    free(b);
    worker_masks(lists, &n);
    for (int i = 0; i < n; i++) n_there += !strcmp(lists[i], cpu);
    assert_true(n_there >= 1);
    reply *r = ask(&w, "GET", "/props", "", "");
    json_t *v = body_of(r);
    assert_int_equal(json_integer_value(at(v, "models.1.context")), 128);
    assert_int_equal(json_integer_value(at(v, "models.1.parallel")), 2);
    assert_true(json_integer_value(at(v, "models.0.context")) > 128);
    assert_string_equal(text_at(v, "models.0.plan.kv_keys"), "f16");
    assert_string_equal(text_at(v, "models.2.plan.kv_keys"), "q8_0");
    assert_string_equal(text_at(v, "models.2.plan.kv_values"), "f16");
    json_decref(v);
    free(r);
    world_close(&w);
}

/* Two engines on disjoint cores share the requests; each answer is what one engine gives. */
static void test_contexts(void **state) {
    (void)state;
    world one = {0}, two = {0};
    char lists[64][64], part[2][256];
    int n, n_part[2] = {0};
    kt_error err;
    const char *const alone[] = {"contexts=1", NULL}, *const both[] = {"contexts=2", NULL};
    if (kt_cpus_split(NULL, 2, 1, false, part[1], sizeof part[1], &err) != KT_OK) skip();
    assert_int_equal(kt_cpus_split(NULL, 2, 0, false, part[0], sizeof part[0], &err), KT_OK);
    if (world_open(&one, &err, alone) != KT_OK) fail_msg("%s", err.message);
    char *expected = answer_of(&one, "demo");
    world_close(&one);
    if (world_open(&two, &err, both) != KT_OK) fail_msg("%s", err.message);
    /* long ones hold their engine while the others come */
    char texts[2][8192] = {"", ""};
    int fds[2];
    for (int i = 0; i < 2; i++) fds[i] = begin_stream(&two, i ? "y" : "x", 900, texts[i], 8192);
    for (int tries = 0; tries < 2000 && !(n_part[0] && n_part[1]); tries++) {
        worker_masks(lists, &n);
        for (int i = 0; i < n; i++) {
            n_part[0] += !strcmp(lists[i], part[0]);
            n_part[1] += !strcmp(lists[i], part[1]);
        }
        usleep(1000);
    }
    assert_true(n_part[0] && n_part[1]);
    for (int i = 0; i < 4; i++) {
        char *text = answer_of(&two, "demo");
        assert_string_equal(text, expected);
        free(text);
    }
    reply *r = ask(&two, "GET", "/props", "", "");
    json_t *v = body_of(r);
    assert_int_equal(json_integer_value(at(v, "models.0.contexts")), 2);
    json_decref(v);
    free(r);
    for (int i = 0; i < 2; i++) close(fds[i]);
    world_close(&two);
    free(expected);
}

static void test_preset_extreme(void **state) {
    (void)state;
    world w = {0};
    kt_error err;
    const char *const settings[] = {"preset=extreme", "threads=0", NULL};
    if (world_open(&w, &err, settings) != KT_OK) fail_msg("%s", err.message);
    char *text = answer_of(&w, "demo");
    free(text);
    world_close(&w);
}

static void test_too_many_contexts(void **state) {
    (void)state;
    world w = {0};
    kt_error err = {0};
    const char *const settings[] = {"contexts=64", NULL};
    char list[256];
    if (kt_cpus_split(NULL, 64, 0, false, list, sizeof list, &err) == KT_OK) skip();
    assert_int_equal(world_open(&w, &err, settings), KT_E_ARG);
    assert_non_null(strstr(err.message, "cannot be shared out among 64"));
    rmdir(w.dir);
}

static void expect_refused(const char *toml, const char *says) {
    kt__config *c;
    kt_error err;
    assert_int_equal(kt__config_create(&c, &err), KT_OK);
    kt_status status = kt__config_read_toml(c, toml, strlen(toml), "f.toml", &err);
    if (status == KT_OK) status = kt__config_finish(c, &err);
    if (status != KT_E_ARG || !strstr(err.message, says)) fail_msg("%s", err.message);
    kt__config_free(c);
}

static void test_refusals(void **state) {
    (void)state;
    expect_refused("[[models]]\nname = \"a\"\nlisten = \"x\"\n", "unknown setting");
    expect_refused("[[models]]\nname = \"a\"\nweb = false\n", "of the server, not of one model");
    expect_refused("[[models]]\nname = \"a\"\nthreads = -1\n", "f.toml:3: threads: expected");
    expect_refused("[[models]]\nname = \"a\"\nthreds = 1\n", "did you mean \"threads\"");
    expect_refused("[[models]]\nname = \"a\"\npreset = \"fast\"\n", "none, potato or extreme");
    expect_refused("[[models]]\nname = \"a\"\nkv_type = \"q9\"\n",
                   "f16, q8_0 (q8), q4_0 (q4), k8v4");
    expect_refused("kv_type = \"code/q4\"\n", "KEYS/VALUES of these types");
    expect_refused("kv_tail = -2\n", "kv_tail");
    expect_refused("kv_pressure = \"some\"\n", "kv_pressure");
    expect_refused("kv_type = \"q8/q9\"\n", "f16, q8_0 (q8), q4_0 (q4), k8v4");
    expect_refused("rope_scaling = \"ntk\"\n", "model, none, linear or yarn");
    expect_refused("contexts = 65\n", "contexts");
    expect_refused("[optimizer]\ntarget_latency_ms = 0\n", "target_latency_ms");
}

/* What --check prints of a model's own settings means the same when it is read. */
static void test_round_trip(void **state) {
    (void)state;
    static const char toml[] =
        "threads = 3\n[[models]]\nname = \"a\"\ncpus = \"0-1\"\nblas = true\n"
        "rope_freq_scale = 0.5\n[models.cache]\ndir = \"/tmp/c\"\nmax = \"2G\"\n"
        "[[models]]\nname = \"b\"\npreset = \"potato\"\nkv_type = \"q8\"\nkv_tail = 64\n";
    kt__config *c;
    kt_error err;
    char text[2][65536];
    for (int i = 0; i < 2; i++) {
        const char *from = i ? text[0] : toml;
        kt__buf out;
        kt__buf_init(&out, 1 << 20);
        assert_int_equal(kt__config_create(&c, &err), KT_OK);
        if (kt__config_read_toml(c, from, strlen(from), "f", &err) != KT_OK ||
            kt__config_finish(c, &err) != KT_OK)
            fail_msg("%s", err.message);
        assert_int_equal(c->models[0].own->threads, 3);
        assert_string_equal(c->models[0].own->cpus, "0-1");
        assert_string_equal(c->models[0].own->blas, "on"); /* of true */
        assert_true(!c->blas && !c->models[1].own->blas);
        assert_string_equal(c->models[0].own->cache_dir, "/tmp/c");
        assert_true(c->models[0].own->cache_bytes == 2ULL << 30 && !c->cache_bytes);
        assert_int_equal(c->models[1].own->batch, 1024); /* its context depends on the model */
        assert_int_equal(c->models[1].own->threads, 3);
        assert_int_equal(c->ctx, 0);
        assert_string_equal(c->models[1].own->kv_type, "q8");
        assert_int_equal(c->models[1].own->kv_tail, 64);
        assert_int_equal(c->models[0].own->kv_tail, -1);
        assert_true(!c->models[0].own->kv_type || !*c->models[0].own->kv_type);
        kt__config_print(c, &out);
        snprintf(text[i], sizeof text[i], "%s", out.data);
        kt__buf_free(&out);
        kt__config_free(c);
    }
    assert_string_equal(text[0], text[1]);
}

/* Names that other servers know are named, with what holds instead; their values are not. */
static void test_names_of_other_servers(void **state) {
    (void)state;
    static const char text[] =
        "USE_FLASH_ATTENTION=false\nAPI_KEY=sesame\nLOAD_IN_4BIT=true\nOTHER=1\n";
    char path[] = "/tmp/kentang-env-XXXXXX";
    char *environment[] = {(char *)(uintptr_t) "USE_FLASH_ATTENTION=1",
                           (char *)(uintptr_t) "PORT=1", NULL};
    kt__config *c;
    kt_error err;
    kt__buf strange;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    kt__buf_init(&strange, 4096);
    assert_int_equal(kt__config_create(&c, &err), KT_OK);
    assert_int_equal(kt__config_read_dotenv(c, path, &strange, &err), KT_OK);
    assert_string_equal(c->load_in, "4bit");
    assert_string_equal(c->flash_attn, "off");
    assert_null(strstr(strange.data, "USE_FLASH_ATTENTION"));
    assert_non_null(strstr(strange.data, ":2: API_KEY has no effect here: "));
    assert_null(strstr(strange.data, "sesame"));
    assert_null(strstr(strange.data, "OTHER"));
    kt__buf_clear(&strange);
    assert_int_equal(kt__config_read_environment(c, environment, &strange, &err), KT_OK);
    assert_string_equal(c->flash_attn, "on");
    assert_int_equal(strange.len, 0); /* PORT may be meant for another program */
    kt__buf_free(&strange);
    kt__config_free(c);
    unlink(path);
}

static void test_step_threads(void **state) {
    (void)state;
    kt_ctx_params params = kt_ctx_params_default();
    kt_ctx *ctx;
    kt_model *model;
    kt_error err;
    int n = 0;
    params.n_threads = 2;
    assert_int_equal(kt_ctx_open(&params, &ctx, &err), KT_OK);
    assert_int_equal(kt_model_open_demo(ctx, NULL, &model, &err), KT_OK);
    assert_int_equal(kt__step_threads_find(model, 2, &n, &err), KT_OK);
    assert_true(n == 1 || n == 2);
    assert_int_equal(kt__step_threads_find(model, 1, &n, &err), KT_OK);
    assert_int_equal(n, 1);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_of_a_model),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_preset_extreme),
        cmocka_unit_test(test_too_many_contexts),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_names_of_other_servers),
        cmocka_unit_test(test_step_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
