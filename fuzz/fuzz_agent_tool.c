/* Arbitrary bytes as what comes from a tool or goes to one: a result, a schema with headers, a file of
 * servers, an expression. */
#include <string.h>

#include "agent/toolbox.h"
#include "mcp/link.h"
#include "mcp/rpc.h"
#include "mcp/servers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_servers_of(const char *text, size_t len) {
    kt__mcp_servers servers;
    kt__buf notes;
    kt_error err;
    kt__buf_init(&notes, 4096);
    if (kt__mcp_servers_read(text, len, &servers, &notes, &err) == KT_OK) {
        for (size_t i = 0; i < servers.n; i++) {
            if (!servers.items[i].argv == !servers.items[i].url) __builtin_trap();
        }
        kt__mcp_servers_free(&servers);
    } else if (!err.message[0]) {
        __builtin_trap();
    }
    kt__buf_free(&notes);
}

static void read_result_of(const char *text, size_t len, size_t max) {
    const kt__json_limits limits = {1 << 20, 64};
    char name[KT__AGENT_NAME + 1];
    json_t *v;
    kt_error err;
    kt__buf out;
    if (kt__json_read(text, len, &limits, &v, &err) != KT_OK) return;
    kt__buf_init(&out, 1 << 16);
    (void)kt__agent_result_text(v, &out);
    kt__agent_cut_middle(&out, max);
    if (out.data && strlen(out.data) > out.len) __builtin_trap();
    kt__buf_clear(&out);
    bool sound = kt__mcp_params_are_sound(v);
    if (kt__mcp_param_headers(v, json_object_get(v, "arguments"), &out) && sound && out.len &&
        out.data[out.len - 1] != '\n')
        __builtin_trap();
    const char *tool = json_string_value(json_object_get(v, "name"));
    if (tool) kt__agent_make_name("server", tool, name);
    kt__buf_free(&out);
    json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[8192];
    double value;
    kt_error err;
    if (size < 2) return 0;
    const char *body = (const char *)data + 1;
    if (data[0] % 3 == 0) read_servers_of(body, size - 1);
    if (data[0] % 3 == 1) read_result_of(body, size - 1, 160 + (size_t)data[1]);
    if (data[0] % 3 == 2 && size < sizeof text) {
        memcpy(text, body, size - 1);
        text[size - 1] = '\0';
        if (kt__calc(text, &value, &err) != KT_OK && !err.message[0]) __builtin_trap();
    }
    return 0;
}
