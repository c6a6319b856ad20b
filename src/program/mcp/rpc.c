#include "mcp/rpc.h"

#include <string.h>

#include "base/error.h"
#include "base/json_out.h"

static bool is_rpc_id(const json_t *v) {
    return json_is_string(v) || json_is_integer(v);
}

static kt_status read_rpc_response(const json_t *json, kt__rpc_message *out, kt_error *err) {
    const json_t *code;
    out->kind = KT__RPC_RESPONSE;
    out->result = json_object_get(json, "result");
    out->error = json_object_get(json, "error");
    if (!out->result == !out->error)
        return kt__fail(err, KT_E_FORMAT,
                        "expected \"method\", or one of \"result\" and \"error\"");
    if (out->result && !out->id)
        return kt__fail_at(err, KT_E_FORMAT, "id", UINT64_MAX, "id: a result without one");
    code = json_object_get(out->error, "code");
    if (out->error && !json_is_integer(code))
        return kt__fail_at(err, KT_E_FORMAT, "error", UINT64_MAX,
                           "error: expected an object with a whole number \"code\"");
    return KT_OK;
}

kt_status kt__rpc_read(const json_t *json, kt__rpc_message *out, kt_error *err) {
    memset(out, 0, sizeof *out);
    kt__error_clear(err);
    if (json_is_array(json))
        return kt__fail(err, KT_E_FORMAT, "several messages in one array are not taken here");
    if (!json_is_object(json)) return kt__fail(err, KT_E_FORMAT, "expected a JSON object");
    const json_t *id = json_object_get(json, "id"), *method = json_object_get(json, "method");
    const char *version = json_string_value(json_object_get(json, "jsonrpc"));
    if (is_rpc_id(id)) out->id = id;
    if (!version || strcmp(version, "2.0") != 0)
        return kt__fail_at(err, KT_E_FORMAT, "jsonrpc", UINT64_MAX, "jsonrpc: expected \"2.0\"");
    if (id && !out->id && (method || !json_is_null(id)))
        return kt__fail_at(err, KT_E_FORMAT, "id", UINT64_MAX,
                           "id: expected a text or a whole number");
    if (!method) return read_rpc_response(json, out, err);
    if (!json_is_string(method) || !json_string_length(method))
        return kt__fail_at(err, KT_E_FORMAT, "method", UINT64_MAX, "method: expected a text");
    out->kind = id ? KT__RPC_REQUEST : KT__RPC_NOTIFICATION;
    out->method = json_string_value(method);
    out->params = json_object_get(json, "params");
    if (json_is_null(out->params)) out->params = NULL;
    if (out->params && !json_is_object(out->params))
        return kt__fail_at(err, KT_E_FORMAT, "params", UINT64_MAX, "params: expected an object");
    return KT_OK;
}

static void begin_message(kt__buf *out, const char *id) {
    (void)kt__buf_puts(out, "{\"jsonrpc\":\"2.0\"");
    if (id) (void)kt__buf_printf(out, ",\"id\":%s", id);
}

void kt__rpc_begin_result(kt__buf *out, const char *id) {
    begin_message(out, id);
    (void)kt__buf_puts(out, ",\"result\":");
}

void kt__rpc_end_result(kt__buf *out) {
    (void)kt__buf_putc(out, '}');
}

void kt__rpc_write_result(kt__buf *out, const char *id, const char *result) {
    kt__rpc_begin_result(out, id);
    (void)kt__buf_puts(out, result ? result : "{}");
    kt__rpc_end_result(out);
}

void kt__rpc_write_error(kt__buf *out, const char *id, int code, const char *message,
                         const char *data) {
    begin_message(out, id);
    (void)kt__buf_printf(out, ",\"error\":{\"code\":%d", code);
    kt__json_member(out, "message", message);
    if (data) (void)kt__buf_printf(out, ",\"data\":%s", data);
    (void)kt__buf_puts(out, "}}");
}

static void write_call(kt__buf *out, const char *id, const char *method, const char *params) {
    begin_message(out, id);
    kt__json_member(out, "method", method);
    if (params) (void)kt__buf_printf(out, ",\"params\":%s", params);
    (void)kt__buf_putc(out, '}');
}

void kt__rpc_write_request(kt__buf *out, int64_t id, const char *method, const char *params) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)id);
    write_call(out, digits, method, params);
}

void kt__rpc_write_notification(kt__buf *out, const char *method, const char *params) {
    write_call(out, NULL, method, params);
}

int kt__rpc_code_of(kt_status status) {
    switch (status) {
    case KT_E_FORMAT: return KT__RPC_PARSE;
    case KT_E_ARG:
    case KT_E_LIMIT:
    case KT_E_UNSUPPORTED: return KT__RPC_INVALID;
    default: return KT__RPC_INTERNAL;
    }
}
