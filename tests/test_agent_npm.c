/* agent: the servers of the protocol's own packages. Run by tests/clients with KT_MCP_NPM, the folder that has node_modules;
 * without it there is nothing to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/toolbox.h"

static char dir[] = "/tmp/kentang-npm-XXXXXX";
static kt__toolbox *box;

static void show_note(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static void write_servers(const char *path, const char *npm) {
    FILE *out = fopen(path, "w");
    fprintf(out,
            "{\"mcpServers\":{\"all\":{\"command\":\"node\",\"args\":[\"%s/node_modules/"
            "@modelcontextprotocol/server-everything/dist/index.js\"]},"
            "\"fs\":{\"command\":\"node\",\"args\":[\"%s/node_modules/@modelcontextprotocol/"
            "server-filesystem/dist/index.js\",\"%s\"],\"sandbox\":{\"read\":[\"%s\",\"%s\"]}},"
            "\"new\":{\"command\":\"node\",\"args\":[\"%s/modern_server.mjs\"]}}}",
            npm, npm, dir, npm, dir, npm);
    fclose(out);
}

static int start_servers(void **state) {
    char path[128], pins[128];
    kt_error err;
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/servers", dir);
    snprintf(pins, sizeof pins, "%s/pins", dir);
    write_servers(path, getenv("KT_MCP_NPM"));
    const kt__toolbox_opts opts = {
        .servers_file = path, .pins_file = pins, .note = show_note, .max_result = 65536};
    if (kt__toolbox_open(&opts, &box, &err) == KT_OK) return 0;
    fprintf(stderr, "%s\n", err.message);
    return -1;
}

static int stop_servers(void **state) {
    char command[64];
    (void)state;
    kt__toolbox_close(box);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void expect_call(const char *name, const char *args, bool good, const char *words) {
    const kt__agent_tool *tool = kt__toolbox_find(box, name);
    json_t *v = json_loads(args, 0, NULL);
    kt__buf said;
    bool cancelled;
    if (!tool) fail_msg("there is no %s", name);
    bool was_good = kt__toolbox_call(box, tool, v, &said, &cancelled);
    if (was_good != good || !strstr(said.data, words))
        fail_msg("%s %s: %d %.400s", name, args, was_good, said.data);
    kt__buf_free(&said);
    json_decref(v);
}

static void test_everything(void **state) {
    (void)state;
    expect_call("all__echo", "{\"message\":\"hello\"}", true, "hello");
    expect_call("all__get-sum", "{\"a\":2,\"b\":3}", true, "5");
    expect_call("all__echo", "{\"message\":7}", false, "");
    expect_call("all__get-tiny-image", "{}", true, "[image image/png");
    expect_call("all__get-structured-content", "{\"location\":\"New York\"}", true, "temperature");
    expect_call("all__trigger-long-running-operation", "{\"duration\":1,\"steps\":3}", true, "");
    expect_call("all__get-resource-reference", "{\"resourceType\":\"Text\",\"resourceId\":1}", true,
                "");
    expect_call("all__get-resource-links", "{\"count\":2}", true, "resource_link");
}

/* Held by Landlock to what it may read; it may not write. */
static void test_filesystem(void **state) {
    char args[256];
    (void)state;
    snprintf(args, sizeof args, "{\"path\":\"%s\"}", dir);
    expect_call("fs__list_directory", args, true, "servers");
    snprintf(args, sizeof args, "{\"path\":\"%s/servers\"}", dir);
    expect_call("fs__read_text_file", args, true, "mcpServers");
    expect_call("fs__read_text_file", "{\"path\":\"/etc/passwd\"}", false, "denied");
    snprintf(args, sizeof args, "{\"path\":\"%s/new\",\"content\":\"x\"}", dir);
    expect_call("fs__write_file", args, false, "");
}

static void test_modern(void **state) {
    (void)state;
    expect_call("new__add", "{\"a\":2,\"b\":3}", true, "5");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_filesystem),
        cmocka_unit_test(test_modern),
    };
    if (!getenv("KT_MCP_NPM")) return 0;
    return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
