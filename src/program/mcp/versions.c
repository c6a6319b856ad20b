#include "mcp/versions.h"

#include <string.h>

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
