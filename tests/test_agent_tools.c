/* agent: tools of servers, most of them hostile: nothing hangs, nothing is lost, nothing is left behind. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/toolbox.h"
#include "base/clock.h"

typedef struct evil {
    char dir[64], config[128], pins[128], state[128];
    kt__toolbox *box;
    char notes[16384];
} evil;

static void keep_note(void *user, const char *line) {
    evil *e = user;
    size_t len = strlen(e->notes);
    snprintf(e->notes + len, sizeof e->notes - len, "%s\n", line);
}

static void make_world(evil *e) {
    memset(e, 0, sizeof *e);
    snprintf(e->dir, sizeof e->dir, "/tmp/kentang-agent-XXXXXX");
    if (!mkdtemp(e->dir)) abort();
    snprintf(e->config, sizeof e->config, "%s/servers.json", e->dir);
    snprintf(e->pins, sizeof e->pins, "%s/pins.json", e->dir);
    snprintf(e->state, sizeof e->state, "%s/state", e->dir);
}

/* Those that say nothing are not waited for long, those that answer at first as long as that may take, the others as
 * long as a busy machine needs. */
static int timeout_of(const char *how) {
    if (!strcmp(how, "silent")) return 1;
    return !strcmp(how, "silent_call") || !strcmp(how, "deaf") || !strcmp(how, "flood") ? 3 : 40;
}

static void write_config(const evil *e, const char *how, const char *more) {
    FILE *out = fopen(e->config, "w");
    assert_non_null(out);
    fprintf(
        out,
        "{\"mcpServers\": {\"evil\": {\"command\": \"/usr/bin/python3\", \"args\": [\"%s/tests/mcp/"
        "evil.py\", \"%s\", \"%s\"], \"timeout_s\": %d%s%s}}}",
        KT_SOURCE_DIR, how, e->state, timeout_of(how), *more ? ", " : "", more);
    fclose(out);
}

static kt_status open_tools(evil *e, bool repin, kt_error *err) {
    kt__toolbox_opts opts = {.servers_file = e->config,
                             .pins_file = e->pins,
                             .repin = repin,
                             .note = keep_note,
                             .user = e,
                             .max_result = 4096};
    e->notes[0] = '\0';
    return kt__toolbox_open(&opts, &e->box, err);
}

static void begin_evil(evil *e, const char *how, const char *more) {
    kt_error err = {0};
    make_world(e);
    write_config(e, how, more);
    if (open_tools(e, false, &err) != KT_OK) fail_msg("%s", err.message);
}

static void end_evil(evil *e) {
    char command[128];
    kt__toolbox_close(e->box);
    snprintf(command, sizeof command, "rm -rf %s", e->dir);
    assert_int_equal(system(command), 0);
}

/* What the model is told; *good: the call succeeded. */
static char *call_echo(evil *e, const char *text, bool *good) {
    static char told[16384];
    const kt__agent_tool *tool = kt__toolbox_find(e->box, "evil__echo");
    json_t *args = json_pack("{s:s}", "text", text);
    kt__buf said;
    bool cancelled;
    if (!tool) fail_msg("no tool: %s", e->notes);
    *good = kt__toolbox_call(e->box, tool, args, &said, &cancelled);
    assert_false(cancelled);
    snprintf(told, sizeof told, "%s", said.data ? said.data : "");
    kt__buf_free(&said);
    json_decref(args);
    return told;
}

static void expect_told(const char *how, bool good, const char *words) {
    evil e;
    bool was_good;
    begin_evil(&e, how, "");
    int64_t begin_us = kt__now_us();
    const char *told = call_echo(&e, "hello", &was_good);
    if (was_good != good || !strstr(told, words))
        fail_msg("%s: %d \"%s\", expected \"%s\"; %s", how, was_good, told, words, e.notes);
    assert_true(kt__now_us() - begin_us < 60000000);
    end_evil(&e);
}

/* ---- calls ---- */

static void test_answers(void **state) {
    (void)state;
    expect_told("good", true, "hello");
    expect_told("modern", true, "hello");
    expect_told("wrong_ids", true, "hello");
    expect_told("noise", true, "hello");
    expect_told("huge", true, "hello");
    expect_told("asks", true, "True -32601");
    expect_told("pages", true, "hello");
    expect_told("control", true, "<|im_start|>system");
}

static void test_failures(void **state) {
    (void)state;
    expect_told("fails", false, "it is broken");
    expect_told("refuses", false, "no such thing");
    expect_told("no_result", false, "no object");
    expect_told("silent_call", false, "did not answer in time");
    expect_told("flood", false, "not answer");
    expect_told("dies", false, "out of cheese");
    expect_told("input_required", false, "asks for more");
}

/* What cannot be shown is said; links are not followed. */
static void test_odd_content(void **state) {
    (void)state;
    expect_told("odd", true, "[image image/png, 3 bytes: it cannot be shown here]");
    expect_told("odd", true, "inside");
    expect_told("odd", true, "[resource_link: https://evil.example/x]");
}

static void test_long_result(void **state) {
    (void)state;
    evil e;
    bool good;
    begin_evil(&e, "long", "");
    const char *told = call_echo(&e, "", &good);
    assert_true(good && strlen(told) <= 4096);
    assert_non_null(strstr(told, "bytes left out"));
    assert_null(strstr(told, "MIDDLE"));
    json_t *whole = json_string(told); /* whole characters */
    assert_non_null(whole);
    json_decref(whole);
    end_evil(&e);
}

/* One that died is started again, three times. */
static void test_restarts(void **state) {
    (void)state;
    evil e;
    bool good;
    begin_evil(&e, "dies", "");
    for (int i = 0; i < 4; i++) {
        const char *told = call_echo(&e, "", &good);
        assert_false(good);
        assert_non_null(strstr(told, "out of cheese"));
    }
    assert_non_null(strstr(call_echo(&e, "", &good), "is not started again"));
    end_evil(&e);
}

/* A server that reads nothing, and a call that does not fit its pipe. */
static void test_deaf(void **state) {
    (void)state;
    evil e;
    bool good;
    begin_evil(&e, "deaf", "");
    char *long_text = calloc(1, 1 << 20);
    memset(long_text, 'a', (1 << 20) - 1);
    assert_non_null(strstr(call_echo(&e, long_text, &good), "did not answer in time"));
    assert_false(good);
    free(long_text);
    end_evil(&e);
}

/* ---- starts ---- */

static void expect_no_tools(const char *how, const char *note) {
    evil e;
    begin_evil(&e, how, "");
    assert_int_equal(kt__toolbox_count(e.box), 0);
    if (!strstr(e.notes, note)) fail_msg("%s: %s", how, e.notes);
    end_evil(&e);
}

static void test_starts(void **state) {
    (void)state;
    expect_no_tools("ends", "I cannot be configured");
    expect_no_tools("silent", "did not answer in time");
    expect_no_tools("old_version", "1999-01-01");
    expect_no_tools("unknown_version", "speaks no version");
}

static void test_no_program(void **state) {
    (void)state;
    evil e;
    kt_error err = {0};
    make_world(&e);
    FILE *out = fopen(e.config, "w");
    fputs("{\"mcpServers\": {\"a\": {\"command\": \"no-such-program-here\"}}}", out);
    fclose(out);
    assert_int_equal(open_tools(&e, false, &err), KT_OK);
    assert_non_null(strstr(e.notes, "no program no-such-program-here"));
    end_evil(&e);
}

static bool is_alive(const char *file) {
    int pid = 0;
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%d", &pid), 1);
    fclose(in);
    return kill(pid, 0) == 0;
}

/* Whatever a server started goes with it. */
static void test_nothing_is_left(void **state) {
    (void)state;
    evil e;
    char saved[128];
    begin_evil(&e, "forks", "");
    assert_true(is_alive(e.state));
    snprintf(saved, sizeof saved, "%s", e.state);
    kt__toolbox_close(e.box);
    e.box = NULL;
    for (int i = 0; i < 100 && is_alive(saved); i++) usleep(20000);
    /* it may be a zombie that nobody waits for; it holds nothing */
    char command[256];
    snprintf(command, sizeof command, "! ps -o stat= -p $(cat %s) | grep -qv Z", saved);
    assert_int_equal(system(command), 0);
    end_evil(&e);
}

static void test_clean_environment(void **state) {
    (void)state;
    evil e;
    bool good;
    setenv("KT_TEST_SECRET", "x", 1);
    begin_evil(&e, "env", "\"env\": {\"MINE\": \"1\"}");
    const char *told = call_echo(&e, "", &good);
    assert_null(strstr(told, "KT_TEST_SECRET"));
    assert_non_null(strstr(told, "MINE"));
    assert_non_null(strstr(told, "PATH"));
    end_evil(&e);
    unsetenv("KT_TEST_SECRET");
}

/* Where the kernel has Landlock; where it has none, the server is not started. */
static void test_sandbox(void **state) {
    (void)state;
    evil e;
    bool good;
    char more[256], secret[160];
    make_world(&e);
    snprintf(more, sizeof more,
             "\"sandbox\": {\"read\": [\"%s/tests\"], \"write\": [\"%s\"], "
             "\"net\": true}",
             KT_SOURCE_DIR, e.dir);
    write_config(&e, "opens", more);
    kt_error err;
    assert_int_equal(open_tools(&e, false, &err), KT_OK);
    if (strstr(e.notes, "no Landlock")) {
        end_evil(&e);
        skip();
    }
    snprintf(secret, sizeof secret, "%s/README.md", KT_SOURCE_DIR);
    assert_non_null(strstr(call_echo(&e, secret, &good), "denied"));
    assert_false(good);
    snprintf(secret, sizeof secret, "%s/tests/mcp/evil.py", KT_SOURCE_DIR);
    assert_non_null(strstr(call_echo(&e, secret, &good), "opened"));
    end_evil(&e);
}

/* ---- pins and rules ---- */

static void test_pins(void **state) {
    (void)state;
    evil e;
    kt_error err;
    begin_evil(&e, "changed", "");
    assert_int_equal(kt__toolbox_count(e.box), 1);
    kt__toolbox_close(e.box);
    assert_int_equal(open_tools(&e, false, &err), KT_OK); /* it has changed */
    assert_int_equal(kt__toolbox_count(e.box), 0);
    assert_non_null(strstr(e.notes, "is not what it was"));
    kt__toolbox_close(e.box);
    assert_int_equal(open_tools(&e, true, &err), KT_OK);
    assert_int_equal(kt__toolbox_count(e.box), 1);
    kt__toolbox_close(e.box);
    assert_int_equal(open_tools(&e, false, &err), KT_OK);
    assert_int_equal(kt__toolbox_count(e.box), 1);
    end_evil(&e);
}

/* A list that changes while it is used. */
static void test_changes(void **state) {
    (void)state;
    evil e;
    bool good;
    begin_evil(&e, "changes", "");
    (void)call_echo(&e, "x", &good);
    assert_true(kt__toolbox_refresh(e.box));
    assert_int_equal(kt__toolbox_count(e.box), 0);
    assert_non_null(strstr(e.notes, "is not what it was"));
    end_evil(&e);
}

static void test_rules(void **state) {
    (void)state;
    static const struct {
        const char *more;
        int n;
        kt__agent_rule rule;
    } rows[] = {{"", 1, KT__AGENT_ASK},
                {"\"allow\": [\"e*\"]", 1, KT__AGENT_ALLOW},
                {"\"allow\": [\"*\"], \"ask\": [\"echo\"]", 1, KT__AGENT_ASK},
                {"\"allow\": [\"*\"], \"deny\": [\"ec?o\"]", 0, KT__AGENT_DENY}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        evil e;
        begin_evil(&e, "good", rows[i].more);
        assert_int_equal(kt__toolbox_count(e.box), rows[i].n);
        if (rows[i].n) assert_int_equal(kt__toolbox_at(e.box, 0)->rule, rows[i].rule);
        end_evil(&e);
    }
}

static void test_bad_files(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"mcpServers\": []}",
        "{\"mcpServers\": {\"a\": {}}}",
        "{\"mcpServers\": {\"a\": {\"command\": 7}}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"url\": \"y\"}}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": \"y\"}}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"env\": {\"A\": 1}}}}",
        "{\"mcpServers\": {\"a\": {\"url\": \"x\", \"type\": \"sse\"}}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"timeout_s\": -1}}}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        kt__mcp_servers servers;
        kt__buf notes;
        kt_error err;
        kt__buf_init(&notes, 4096);
        kt_status status = kt__mcp_servers_read(texts[i], strlen(texts[i]), &servers, &notes, &err);
        if (status == KT_OK) fail_msg("%s", texts[i]);
        kt__buf_free(&notes);
    }
}

/* ---- names and tools of our own ---- */

static void test_names(void **state) {
    (void)state;
    char name[KT__AGENT_NAME + 1], other[KT__AGENT_NAME + 1], lengthy[300];
    kt__agent_make_name("my server", "do.it", name);
    assert_string_equal(name, "my_server__do_it");
    memset(lengthy, 'a', sizeof lengthy);
    lengthy[200] = '\0';
    kt__agent_make_name("s", lengthy, name);
    lengthy[199] = 'b';
    kt__agent_make_name("s", lengthy, other);
    assert_int_equal(strlen(name), KT__AGENT_NAME);
    assert_string_not_equal(name, other);
}

static void expect_builtin(const kt__builtins *b, const char *tool, const char *args, bool good,
                           const char *words) {
    json_t *v = json_loads(args, 0, NULL);
    kt__buf text;
    kt__buf_init(&text, 1 << 20);
    bool was_good = kt__builtins_call(b, tool, v, &text);
    if (was_good != good || !strstr(text.data ? text.data : "", words))
        fail_msg("%s %s: %d %s", tool, args, was_good, text.data);
    kt__buf_free(&text);
    json_decref(v);
}

static void test_builtins(void **state) {
    (void)state;
    kt__builtins b;
    kt_error err;
    char dir[] = "/tmp/kentang-files-XXXXXX", command[400];
    assert_non_null(mkdtemp(dir));
    snprintf(
        command, sizeof command,
        "cd %s && mkdir in && echo inside >in/a && ln -s /etc/passwd out && ln -s in/a link && "
        "mkfifo pipe",
        dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(kt__builtins_open("calculator", dir, &b, &err), KT_OK);
    expect_builtin(&b, "calculator", "{\"expression\":\"17*23 + -2^2\"}", true, "387");
    expect_builtin(&b, "calculator", "{\"expression\":\"sqrt(2)*(1\"}", false, "expected )");
    expect_builtin(&b, "calculator", "{}", false, "expected a text");
    expect_builtin(&b, "clock", "{}", false, "no such tool");
    expect_builtin(&b, "list_files", "{}", true, "in/");
    expect_builtin(&b, "read_file", "{\"path\":\"/in/a\"}", true, "inside");
    expect_builtin(&b, "read_file", "{\"path\":\"link\"}", true, "inside");
    expect_builtin(&b, "read_file", "{\"path\":\"out\"}", false, "");
    expect_builtin(&b, "read_file", "{\"path\":\"../etc/passwd\"}", false, "");
    expect_builtin(&b, "read_file", "{\"path\":\"in/../../x\"}", false, "");
    expect_builtin(&b, "read_file", "{\"path\":\"pipe\"}", false, "");
    expect_builtin(&b, "read_file", "{\"path\":\"in\"}", false, "");
    kt__builtins_close(&b);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(kt__builtins_open("clok", NULL, &b, &err), KT_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_odd_content),
        cmocka_unit_test(test_long_result),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_deaf),
        cmocka_unit_test(test_starts),
        cmocka_unit_test(test_no_program),
        cmocka_unit_test(test_clean_environment),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_builtins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
