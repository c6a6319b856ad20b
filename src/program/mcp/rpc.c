#include "mcp/rpc.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/le.h"

#include <string.h>

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

/* ---- json read ---- */

/* Brackets outside strings: found before a parser recurses over them. */
static size_t json_depth(const char *json, size_t len) {
    size_t depth = 0, most = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = json[i];
        if (in_string) {
            if (c == '\\') i++;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > most) most = depth;
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
        }
    }
    return most;
}

/* ---- what other languages write ---- */

/* The code unit of "\\uXXXX" at s, or 0. */
static unsigned escaped_unit(const char *s, size_t len) {
    unsigned unit = 0;
    if (len < 6 || s[0] != '\\' || s[1] != 'u') return 0;
    for (int i = 2; i < 6; i++) {
        int digit = kt__hex_digit(s[i]);
        if (digit < 0) return 0;
        unit = unit << 4 | (unsigned)digit;
    }
    return unit;
}

/* Languages whose texts are UTF-16 write half a pair where a text was cut there: U+FFFD, as encoders
 * of UTF-8 make of it. In place; false: there was none. */
static bool mend_surrogates(char *json, size_t len) {
    bool found = false;
    for (size_t i = 0; i + 1 < len; i++) {
        if (json[i] != '\\') continue;
        unsigned unit = escaped_unit(json + i, len - i);
        if (unit < 0xd800 || unit > 0xdfff) {
            i++; /* past the escaped character, be it a backslash */
            continue;
        }
        unsigned next = unit < 0xdc00 ? escaped_unit(json + i + 6, len - i < 6 ? 0 : len - i - 6)
                                      : 0;
        bool pair = next >= 0xdc00 && next <= 0xdfff;
        if (!pair) memcpy(json + i + 2, "fffd", 4);
        found |= !pair;
        i += pair ? 11 : 5;
    }
    return found;
}

static json_t *read_mended(const char *json, size_t len, json_error_t *error) {
    json_t *v = NULL;
    char *copy = kt__malloc(len + 1);
    if (copy) {
        memcpy(copy, json, len);
        if (mend_surrogates(copy, len)) v = json_loadb(copy, len, 0, error);
    }
    kt__free(copy);
    return v;
}

static kt_status explain_error(const json_error_t *error, size_t len, kt_error *err) {
    uint64_t at = error->position < 0 ? 0 : (uint64_t)error->position;
    switch (json_error_code(error)) {
    case json_error_out_of_memory: return kt__fail_nomem(err, "a request", len);
    case json_error_null_character:
        return kt__fail_at(
            err, KT_E_FORMAT, NULL, at,
            "a text has the character U+0000 (\\u0000), which no text may have here");
    case json_error_numeric_overflow:
        return kt__fail_at(err, KT_E_FORMAT, NULL, at,
                           "a number is too large: whole ones go to 9223372036854775807, others to "
                           "1.8e308");
    default: return kt__fail_at(err, KT_E_FORMAT, NULL, at, "not JSON: %s", error->text);
    }
}

kt_status kt__json_read(const char *json, size_t len, const kt__json_limits *limits, json_t **out,
                        kt_error *err) {
    json_error_t error;
    *out = NULL;
    kt__error_clear(err);
    if (len > limits->bytes) {
        return kt__fail(err, KT_E_LIMIT, "%zu bytes of JSON; at most %zu are allowed", len,
                        limits->bytes);
    }
    if (len >= 3 && !memcmp(json, "\xef\xbb\xbf", 3)) { /* a byte-order mark says nothing here */
        json += 3;
        len -= 3;
    }
    if (json_depth(json, len) > limits->depth) {
        return kt__fail(err, KT_E_LIMIT, "the JSON nests deeper than %zu", limits->depth);
    }
    *out = json_loadb(json, len, 0, &error);
    if (!*out && json_error_code(&error) == json_error_invalid_syntax)
        *out = read_mended(json, len, &error);
    return *out ? KT_OK : explain_error(&error, len, err);
}

static int append_dumped(const char *data, size_t len, void *user) {
    return kt__buf_append(user, data, len) ? 0 : -1;
}

bool kt__json_write(kt__buf *out, const json_t *value) {
    if (json_dump_callback(value, append_dumped, out, JSON_COMPACT | JSON_ENCODE_ANY) == 0)
        return true;
    out->failed = true;
    return false;
}

/* ---- versions ---- */

static const char *const legacy_versions[] = {KT__MCP_LEGACY, "2025-06-18", "2024-11-05"};

const char *kt__mcp_legacy_version(const char *version) {
    for (size_t i = 0; version && i < sizeof legacy_versions / sizeof legacy_versions[0]; i++) {
        if (!strcmp(version, legacy_versions[i])) return legacy_versions[i];
    }
    return NULL;
}

const char *kt__mcp_versions_json(void) {
    return "[\"" KT__MCP_MODERN "\",\"" KT__MCP_LEGACY "\",\"2025-06-18\",\"2024-11-05\"]";
}

/* ---- values of headers ---- */

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#define ENCODED_BEGIN "=?base64?"
#define ENCODED_END "?="

static bool is_plain_header(const char *text) {
    size_t len = strlen(text);
    if (!strncmp(text, ENCODED_BEGIN, strlen(ENCODED_BEGIN))) return false;
    if (len && (strchr(" \t", text[0]) || strchr(" \t", text[len - 1]))) return false;
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] > 0x7e) return false;
    }
    return true;
}

static void put_base64(kt__buf *out, const unsigned char *data, size_t n) {
    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)data[i] << 16;
        if (i + 1 < n) v |= (unsigned)data[i + 1] << 8;
        if (i + 2 < n) v |= data[i + 2];
        (void)kt__buf_putc(out, base64_digits[v >> 18]);
        (void)kt__buf_putc(out, base64_digits[v >> 12 & 63]);
        (void)kt__buf_putc(out, i + 1 < n ? base64_digits[v >> 6 & 63] : '=');
        (void)kt__buf_putc(out, i + 2 < n ? base64_digits[v & 63] : '=');
    }
}

bool kt__mcp_header_encode(const char *text, kt__buf *out) {
    if (is_plain_header(text)) return kt__buf_puts(out, text);
    (void)kt__buf_puts(out, ENCODED_BEGIN);
    put_base64(out, (const unsigned char *)text, strlen(text));
    return kt__buf_puts(out, ENCODED_END) && !out->failed;
}

/* The one encoding of a text is compared, so that nothing needs to be decoded. */
bool kt__mcp_header_says(const char *value, const char *text) {
    kt__buf encoded;
    size_t begin = strlen(ENCODED_BEGIN);
    if (strncmp(value, ENCODED_BEGIN, begin) != 0) return !strcmp(value, text);
    kt__buf_init(&encoded, 1 << 20);
    put_base64(&encoded, (const unsigned char *)text, strlen(text));
    (void)kt__buf_puts(&encoded, ENCODED_END);
    bool same = !encoded.failed && !strcmp(encoded.data ? encoded.data : "", value + begin);
    kt__buf_free(&encoded);
    return same;
}

/* ---- eras ---- */

static kt__mcp_era break_rule(kt__mcp_era era, int code, const char *fmt, const char *text) {
    era.error = code;
    snprintf(era.message, sizeof era.message, fmt, text);
    return era;
}

static const char *meta_text(const kt__rpc_message *m, const char *key) {
    return json_string_value(json_object_get(json_object_get(m->params, "_meta"), key));
}

/* params.name or params.uri of the methods whose requests have the header Mcp-Name. */
static const char *name_in_body(const kt__rpc_message *m) {
    if (!strcmp(m->method, "tools/call") || !strcmp(m->method, "prompts/get"))
        return json_string_value(json_object_get(m->params, "name"));
    if (!strcmp(m->method, "resources/read"))
        return json_string_value(json_object_get(m->params, "uri"));
    return NULL;
}

/* Programs on the way route by the head: it must not say anything else than the body. */
static kt__mcp_era check_head(const kt__rpc_message *m, const kt__mcp_head *head, kt__mcp_era era,
                              const char *version) {
    const char *name = name_in_body(m);
    if (!head->version || strcmp(head->version, version) != 0)
        return break_rule(era, KT__RPC_HEADER_MISMATCH,
                          "MCP-Protocol-Version: the head and _meta of the body differ%s", "");
    if (!head->method || strcmp(head->method, m->method) != 0)
        return break_rule(era, KT__RPC_HEADER_MISMATCH,
                          "Mcp-Method: the head and the body's \"%.80s\" differ", m->method);
    if (name && (!head->name || !kt__mcp_header_says(head->name, name)))
        return break_rule(era, KT__RPC_HEADER_MISMATCH,
                          "Mcp-Name: the head and the body's \"%.80s\" differ", name);
    return era;
}

static kt__mcp_era check_modern(const kt__rpc_message *m, const kt__mcp_head *head) {
    kt__mcp_era era = {.modern = true};
    const json_t *meta = json_object_get(m->params, "_meta");
    const char *version = meta_text(m, KT__MCP_META_VERSION);
    if (m->kind != KT__RPC_REQUEST) return era;
    if (!version)
        return break_rule(era, KT__RPC_PARAMS, "params._meta: \"%s\" is missing",
                          KT__MCP_META_VERSION);
    if (!json_is_object(json_object_get(meta, KT__MCP_META_CAPABILITIES)))
        return break_rule(era, KT__RPC_PARAMS, "params._meta: \"%s\" is missing",
                          KT__MCP_META_CAPABILITIES);
    if (head) era = check_head(m, head, era, version);
    if (era.error || !strcmp(version, KT__MCP_MODERN)) return era;
    era.requested = version;
    return break_rule(era, KT__RPC_VERSION, "the protocol version \"%.60s\" is not spoken here",
                      version);
}

kt__mcp_era kt__mcp_era_of(const kt__rpc_message *m, const kt__mcp_head *head) {
    kt__mcp_era era = {0};
    const char *header = head ? head->version : NULL;
    if (meta_text(m, KT__MCP_META_VERSION) || (header && !strcmp(header, KT__MCP_MODERN)) ||
        (m->method && !strcmp(m->method, "server/discover")))
        return check_modern(m, head);
    if (!header || kt__mcp_legacy_version(header) || !strcmp(header, "2025-03-26")) return era;
    era.requested = header;
    return break_rule(era, KT__RPC_VERSION, "the protocol version \"%.60s\" is not spoken here",
                      header);
}
