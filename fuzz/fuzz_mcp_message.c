/* Arbitrary bytes as a message of MCP: it is answered, or is a call whose arguments are checked; what is
 * said is JSON, a line each. */
#include <string.h>

#include "mcp/rpc.h"
#include "mcp/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_said(const kt__buf *out) {
    for (const char *at = out->data; at && *at;) {
        const char *end = strchr(at, '\n');
        size_t len = end ? (size_t)(end - at) : strlen(at);
        json_t *v = json_loadb(at, len, 0, NULL);
        if (!json_is_object(v)) __builtin_trap();
        json_decref(v);
        at += len + (end != NULL);
    }
}

static void check_call(const kt__mcp_turn *turn, kt__buf *out) {
    kt_error err;
    json_t *none = json_object();
    const json_t *args = turn->args ? turn->args : none;
    if (kt__mcp_tool_check(turn->tool, args, &err) == KT_OK) {
        bool chat = turn->tool->does == KT__MCP_GENERATES || turn->tool->does == KT__MCP_EXTRACTS;
        json_t *body = chat ? kt__mcp_tool_request(turn->tool, args) : NULL;
        if (chat && !body) __builtin_trap();
        json_decref(body);
        kt__mcp_write_result(out, turn, "{}", NULL);
    } else {
        kt__mcp_write_failure(out, turn, err.message);
    }
    json_decref(none);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const kt__json_limits limits = {1 << 20, 64};
    const kt__mcp_head head = {.version = "2026-07-28", .method = "tools/call", .name = "embed"};
    kt__arena arena;
    kt__buf out;
    kt__mcp_turn turn;
    json_t *message;
    kt_error err;
    if (size < 1 ||
        kt__json_read((const char *)data + 1, size - 1, &limits, &message, &err) != KT_OK)
        return 0;
    kt__arena_init(&arena, 1024, 16 << 20);
    kt__buf_init(&out, 64 << 20);
    if (kt__mcp_take(message, data[0] & 1 ? &head : NULL, &arena, &out, &turn, &err) != KT_OK)
        __builtin_trap();
    if (turn.step == KT__MCP_CALL) check_call(&turn, &out);
    check_said(&out);
    json_decref(message);
    kt__buf_free(&out);
    kt__arena_free(&arena);
    return 0;
}
