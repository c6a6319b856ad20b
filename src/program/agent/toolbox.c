#include "agent/toolbox.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/system.h"
#include "mcp/servers.h"

enum { MAX_FILE = 4 << 20, MAX_RESTARTS = 3, MAX_TEXT = 32 << 20 };

typedef struct box_server {
    const kt__mcp_server_config *config;
    kt__mcp_client *client; /* NULL: it does not run */
    int n_starts;
} box_server;

struct kt__toolbox {
    kt__toolbox_opts opts;
    kt__mcp_servers config;
    kt__mcp_pins pins;
    kt__builtins builtins;
    box_server *servers;
    kt__agent_tool *tools;
    size_t n_tools;
    bool recalled;
    const char *starting; /* a server that has not answered yet; NULL: none, or it was named */
    int64_t starting_us;
};

static void tell_user(const kt__toolbox *box, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void tell_user(const kt__toolbox *box, const char *fmt, ...) {
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (box->opts.note) box->opts.note(box->opts.user, line);
}

/* ---- rules ---- */

static bool any_fits(kt__mcp_texts patterns, const char *name) {
    for (; patterns && *patterns; patterns++) {
        if (kt__pattern_matches(*patterns, name)) return true;
    }
    return false;
}

/* A refusal goes before everything, and what was said at the command line before the file. */
static kt__agent_rule rule_of(const kt__toolbox *box, const kt__mcp_server_config *config,
                              const kt__agent_tool *tool) {
    if (any_fits(box->opts.deny, tool->name)) return KT__AGENT_DENY;
    if (config && any_fits(config->deny, tool->own_name)) return KT__AGENT_DENY;
    if (any_fits(box->opts.allow, tool->name)) return KT__AGENT_ALLOW;
    if (!config) return KT__AGENT_ALLOW; /* it was asked for by its name */
    if (any_fits(config->ask, tool->own_name)) return KT__AGENT_ASK;
    return any_fits(config->allow, tool->own_name) ? KT__AGENT_ALLOW : KT__AGENT_ASK;
}

/* ---- tools ---- */

static void add_tool(kt__toolbox *box, size_t server_at, json_t *spec) {
    const kt__mcp_server_config *config = server_at < box->config.n ? &box->config.items[server_at]
                                                                    : NULL;
    kt__agent_tool tool = {.server = config ? config->name : NULL, .server_at = server_at};
    tool.own_name = json_string_value(json_object_get(spec, "name"));
    kt__agent_make_name(tool.server, tool.own_name, tool.name);
    tool.rule = rule_of(box, config, &tool);
    if (tool.rule == KT__AGENT_DENY) return;
    if (kt__toolbox_find(box, tool.name)) {
        tell_user(box, "%s is the name of two tools: one of them is left out", tool.name);
    } else if (box->n_tools == KT__AGENT_MAX_TOOLS) {
        tell_user(box, "%s is left out: there are %d tools already", tool.name,
                  (int)KT__AGENT_MAX_TOOLS);
    } else {
        tool.spec = json_incref(spec);
        box->tools[box->n_tools++] = tool;
    }
}

static void drop_tools(kt__toolbox *box, size_t server_at) {
    size_t kept = 0;
    for (size_t i = 0; i < box->n_tools; i++) {
        if (box->tools[i].server_at == server_at) {
            json_decref(box->tools[i].spec);
        } else {
            box->tools[kept++] = box->tools[i];
        }
    }
    box->n_tools = kept;
}

/* ---- servers ---- */

/* The first time all are taken, later only those that are as they were. */
static void take_server_tools(kt__toolbox *box, size_t at, const json_t *tools) {
    const kt__mcp_server_config *config = &box->config.items[at];
    size_t i;
    json_t *tool;
    if (box->opts.repin || !kt__mcp_pins_knows(&box->pins, config))
        (void)kt__mcp_pins_take(&box->pins, config, tools);
    drop_tools(box, at);
    json_array_foreach(tools, i, tool) {
        if (kt__mcp_pins_holds(&box->pins, config, tool)) {
            add_tool(box, at, tool);
        } else {
            tell_user(box,
                      "%s: the tool %.80s is not what it was when it was first used: refused "
                      "(--repin takes it as it is now)",
                      config->name, json_string_value(json_object_get(tool, "name")));
        }
    }
}

static bool list_server(kt__toolbox *box, size_t at, kt_error *err) {
    json_t *tools;
    kt_status status = kt__mcp_client_tools(box->servers[at].client, &tools, err);
    if (status != KT_OK) return false;
    take_server_tools(box, at, tools);
    json_decref(tools);
    return true;
}

static void tell_start(const kt__toolbox *box, const kt__mcp_server_config *config) {
    char line[512];
    size_t len = 0;
    if (kt__mcp_pins_knows(&box->pins, config)) return;
    for (kt__mcp_texts arg = config->argv; arg && *arg && len < sizeof line; arg++)
        len += (size_t)snprintf(line + len, sizeof line - len, " %s", *arg);
    tell_user(box, "starting the MCP server %s for the first time:%s%s", config->name,
              config->url ? " " : line, config->url ? config->url : "");
}

/* Asked a few times a second while a server is waited for: one that says nothing is named. */
static bool watch_start(void *user) {
    enum { SILENT_US = 5000000 };
    kt__toolbox *box = user;
    if (box->starting && kt__now_us() - box->starting_us >= SILENT_US) {
        tell_user(box, "the MCP server %s says nothing; it is left out after 20 s", box->starting);
        box->starting = NULL;
    }
    return box->opts.stop && box->opts.stop(box->opts.user);
}

static bool start_server(kt__toolbox *box, size_t at, kt_error *err) {
    box_server *s = &box->servers[at];
    s->n_starts++;
    box->starting = s->config->name;
    box->starting_us = kt__now_us();
    kt_status status = kt__mcp_client_open(s->config, watch_start, box, &s->client, err);
    box->starting = NULL;
    if (status != KT_OK) return false;
    if (list_server(box, at, err)) return true;
    kt__mcp_client_close(s->client);
    s->client = NULL;
    return false;
}

static kt_status start_servers(kt__toolbox *box, kt_error *err) {
    box->servers = kt__calloc(box->config.n + 1, sizeof *box->servers);
    if (!box->servers) return kt__fail_nomem(err, "servers", box->config.n);
    for (size_t i = 0; i < box->config.n; i++) {
        kt_error why;
        box->servers[i].config = &box->config.items[i];
        tell_start(box, box->servers[i].config);
        if (!start_server(box, i, &why)) tell_user(box, "%s", why.message);
    }
    if (kt__mcp_pins_save(&box->pins, err) != KT_OK) tell_user(box, "%s", err->message);
    return KT_OK;
}

static kt_status read_servers_file(kt__toolbox *box, kt_error *err) {
    kt__buf text, notes;
    char data[16384];
    size_t n;
    FILE *in = fopen(box->opts.servers_file, "re");
    if (!in)
        return kt__fail_at(err, KT_E_IO, box->opts.servers_file, UINT64_MAX, "cannot read %.200s",
                           box->opts.servers_file);
    kt__buf_init(&text, MAX_FILE);
    kt__buf_init(&notes, 4096);
    while ((n = fread(data, 1, sizeof data, in)) > 0) (void)kt__buf_append(&text, data, n);
    kt_status status = kt__mcp_servers_read(text.data ? text.data : "", text.len, &box->config,
                                            &notes, err);
    if (notes.len) tell_user(box, "%.*s", (int)strcspn(notes.data, "\n"), notes.data);
    fclose(in);
    kt__buf_free(&text);
    kt__buf_free(&notes);
    return status;
}

/* ---- opening ---- */

static kt_status add_builtins(kt__toolbox *box, kt_error *err) {
    json_t *list, *tool;
    size_t i;
    kt_status status = kt__builtins_open(box->opts.builtins, box->opts.folder, &box->builtins, err);
    if (status != KT_OK) return status;
    list = kt__builtins_list(&box->builtins);
    if (!list) return kt__fail_nomem(err, "tools", 0);
    json_array_foreach(list, i, tool) add_tool(box, box->config.n, tool);
    json_decref(list);
    return KT_OK;
}

static bool hint_of(const kt__agent_tool *t, const char *hint, bool otherwise) {
    const json_t *v = json_object_get(json_object_get(t->spec, "annotations"), hint);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

/* One tool that reads here and another that reaches outside, both without being asked about: what
 * the first reads, a text in between can send away with the second. */
static void warn_of_leaks(const kt__toolbox *box) {
    const kt__agent_tool *reads = NULL, *sends = NULL;
    for (size_t i = 0; i < box->n_tools; i++) {
        const kt__agent_tool *t = &box->tools[i];
        if (t->rule != KT__AGENT_ALLOW) continue;
        bool outside = hint_of(t, "openWorldHint", true);
        if (outside && !sends) sends = t;
        if (!outside && !reads && strcmp(t->name, "clock") && strcmp(t->name, "calculator"))
            reads = t;
    }
    if (reads && sends)
        tell_user(box,
                  "warning: %s reads and %s reaches outside, both without being asked about: what "
                  "is read can leave this machine",
                  reads->name, sends->name);
}

static kt_status open_box(kt__toolbox *box, kt_error *err) {
    box->tools = kt__calloc(KT__AGENT_MAX_TOOLS, sizeof *box->tools);
    if (!box->tools) return kt__fail_nomem(err, "tools", 0);
    if (box->opts.servers_file) {
        KT__STEP(read_servers_file(box, err));
        KT__STEP(kt__mcp_pins_open(box->opts.pins_file, &box->pins, err));
        KT__STEP(start_servers(box, err));
    }
    KT__STEP(add_builtins(box, err));
    warn_of_leaks(box);
    return KT_OK;
}

static kt_status make_box(const kt__toolbox_opts *opts, kt__toolbox **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "tools", sizeof **out);
    (*out)->opts = *opts;
    (*out)->builtins.folder = -1;
    return KT_OK;
}

kt_status kt__toolbox_open(const kt__toolbox_opts *opts, kt__toolbox **out, kt_error *err) {
    kt_status status = make_box(opts, out, err);
    if (status == KT_OK) status = open_box(*out, err);
    if (status != KT_OK) {
        kt__toolbox_close(*out);
        *out = NULL;
    }
    return status;
}

static void recall_tool(kt__toolbox *box, const json_t *v) {
    const char *name = json_string_value(json_object_get(v, "name"));
    kt__agent_tool *tool = &box->tools[box->n_tools];
    json_t *spec = json_object_get(v, "spec");
    if (!name || !json_is_object(spec) || box->n_tools == KT__AGENT_MAX_TOOLS) return;
    snprintf(tool->name, sizeof tool->name, "%s", name);
    tool->spec = json_incref(spec);
    tool->own_name = json_string_value(json_object_get(spec, "name"));
    tool->rule = KT__AGENT_ALLOW;
    box->n_tools++;
}

kt_status kt__toolbox_recall(const json_t *list, const kt__toolbox_opts *opts, kt__toolbox **out,
                             kt_error *err) {
    size_t i;
    json_t *v;
    kt_status status = make_box(opts, out, err);
    if (status != KT_OK) return status;
    (*out)->recalled = true;
    (*out)->tools = kt__calloc(KT__AGENT_MAX_TOOLS, sizeof *(*out)->tools);
    if (!(*out)->tools) {
        kt__toolbox_close(*out);
        *out = NULL;
        return kt__fail_nomem(err, "tools", 0);
    }
    json_array_foreach(list, i, v) recall_tool(*out, v);
    return KT_OK;
}

void kt__toolbox_close(kt__toolbox *box) {
    if (!box) return;
    for (size_t i = 0; i < box->n_tools; i++) json_decref(box->tools[i].spec);
    for (size_t i = 0; box->servers && i < box->config.n; i++)
        kt__mcp_client_close(box->servers[i].client);
    kt__builtins_close(&box->builtins);
    kt__mcp_pins_close(&box->pins);
    kt__mcp_servers_free(&box->config);
    kt__free(box->servers);
    kt__free(box->tools);
    kt__free(box);
}

/* ---- use ---- */

size_t kt__toolbox_count(const kt__toolbox *box) {
    return box->n_tools;
}

const kt__agent_tool *kt__toolbox_at(const kt__toolbox *box, size_t i) {
    return &box->tools[i];
}

const kt__agent_tool *kt__toolbox_find(const kt__toolbox *box, const char *name) {
    for (size_t i = 0; i < box->n_tools; i++) {
        if (!strcmp(box->tools[i].name, name)) return &box->tools[i];
    }
    return NULL;
}

json_t *kt__toolbox_list(const kt__toolbox *box) {
    json_t *list = json_array();
    for (size_t i = 0; i < box->n_tools; i++) {
        const kt__agent_tool *t = &box->tools[i];
        json_array_append_new(
            list, json_pack("{s:s,s:s?,s:s,s:O}", "name", t->name, "server", t->server, "rule",
                            t->rule == KT__AGENT_ALLOW ? "allow" : "ask", "spec", t->spec));
    }
    return list;
}

bool kt__toolbox_refresh(kt__toolbox *box) {
    bool changed = false;
    for (size_t i = 0; box->servers && i < box->config.n; i++) {
        kt__mcp_client *client = box->servers[i].client;
        kt_error err;
        if (!client || !kt__mcp_client_is_stale(client)) continue;
        changed = true;
        if (!list_server(box, i, &err)) tell_user(box, "%s", err.message);
    }
    return changed;
}

void kt__toolbox_allow(kt__toolbox *box, const char *name) {
    for (size_t i = 0; i < box->n_tools; i++) {
        if (!strcmp(box->tools[i].name, name)) box->tools[i].rule = KT__AGENT_ALLOW;
    }
}

static bool call_server(kt__toolbox *box, const kt__agent_tool *tool, const json_t *args,
                        kt__buf *text, bool *cancelled) {
    box_server *s = &box->servers[tool->server_at];
    char own_name[512]; /* a restart lists the tools anew: tool is not to be looked at after it */
    json_t *result = NULL, *schema = json_incref(json_object_get(tool->spec, "inputSchema"));
    kt_error err;
    snprintf(own_name, sizeof own_name, "%s", tool->own_name);
    bool runs = s->client ||
                (s->n_starts <= MAX_RESTARTS && start_server(box, tool->server_at, &err));
    if (!s->client && s->n_starts > MAX_RESTARTS)
        (void)kt__fail(&err, KT_E_STATE, "%.60s has ended too often and is not started again",
                       s->config->name);
    kt_status status = runs ? kt__mcp_client_call(s->client, own_name, schema, args, &result, &err)
                            : KT_E_STATE;
    json_decref(schema);
    if (status == KT_E_IO) { /* started again by the next call */
        kt__mcp_client_close(s->client);
        s->client = NULL;
    }
    *cancelled = status == KT_E_CANCELLED;
    bool good = status == KT_OK && kt__agent_result_text(result, text);
    if (status != KT_OK) (void)kt__buf_puts(text, err.message);
    json_decref(result);
    return good;
}

bool kt__toolbox_call(kt__toolbox *box, const kt__agent_tool *tool, const json_t *args,
                      kt__buf *text, bool *cancelled) {
    *cancelled = false;
    kt__buf_init(text, MAX_TEXT);
    bool good = !box->recalled &&
                (tool->server_at < box->config.n
                     ? call_server(box, tool, args, text, cancelled)
                     : kt__builtins_call(&box->builtins, tool->own_name, args, text));
    if (text->failed) {
        good = false;
        (void)kt__buf_puts(text, " [it is too long]");
    }
    kt__agent_cut_middle(text, box->opts.max_result);
    return good;
}

/* A tool's name for a model, and what its result is as text. */

enum { HASH_DIGITS = 8 };

/* Models' formats know letters, digits, _ and -; a long name keeps its beginning and gets a hash. */
void kt__agent_make_name(const char *server, const char *tool, char out[KT__AGENT_NAME + 1]) {
    char whole[512];
    int n = snprintf(whole, sizeof whole, "%.200s%s%.300s", server ? server : "",
                     server ? "__" : "", tool);
    size_t len = n < 0 ? 0 : (size_t)n, kept = len < KT__AGENT_NAME ? len : KT__AGENT_NAME;
    memcpy(out, whole, kept);
    out[kept] = '\0';
    for (char *at = out; *at; at++) {
        if (!isalnum((unsigned char)*at) && *at != '_' && *at != '-') *at = '_';
    }
    if (len <= KT__AGENT_NAME) return;
    kt__digest digest = kt__hash_bytes(1, whole, strlen(whole));
    snprintf(out + KT__AGENT_NAME - HASH_DIGITS, HASH_DIGITS + 1, "%08x",
             (unsigned)(digest.w[0] & 0xffffffff));
}

/* Cut where characters begin. */
static bool is_inside_char(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

void kt__agent_cut_middle(kt__buf *text, size_t max) {
    char note[80];
    if (text->len <= max || max < sizeof note * 2) return;
    size_t head = (max - sizeof note) / 2, tail = text->len - (max - sizeof note) / 2;
    while (head && is_inside_char(text->data[head])) head--;
    while (tail < text->len && is_inside_char(text->data[tail])) tail++;
    int n = snprintf(note, sizeof note, "\n[... %zu bytes left out ...]\n", tail - head);
    memmove(text->data + head + n, text->data + tail, text->len - tail + 1);
    memcpy(text->data + head, note, (size_t)n);
    text->len = head + (size_t)n + (text->len - tail);
}

static size_t base64_bytes(const json_t *data) {
    return json_string_length(data) / 4 * 3;
}

static void add_block(const json_t *block, kt__buf *text) {
    const char *type = json_string_value(json_object_get(block, "type"));
    const json_t *resource = json_object_get(block, "resource");
    const json_t *from = resource ? resource : block;
    const json_t *said = json_object_get(from, "text"), *data = json_object_get(from, "data");
    const char *uri = json_string_value(json_object_get(from, "uri"));
    const char *mime = json_string_value(json_object_get(from, "mimeType"));
    if (text->len) (void)kt__buf_putc(text, '\n');
    if (json_is_string(said)) {
        (void)kt__buf_append(text, json_string_value(said), json_string_length(said));
    } else if (uri) { /* nothing is fetched */
        (void)kt__buf_printf(text, "[%.40s: %.2000s]", type ? type : "resource", uri);
    } else {
        (void)kt__buf_printf(text, "[%.40s %.80s, %zu bytes: it cannot be shown here]",
                             type ? type : "something", mime ? mime : "", base64_bytes(data));
    }
}

bool kt__agent_result_text(const json_t *result, kt__buf *text) {
    const json_t *content = json_object_get(result, "content"), *block;
    const json_t *structured = json_object_get(result, "structuredContent");
    size_t i;
    json_array_foreach(content, i, block) {
        if (!text->failed) add_block(block, text);
    }
    if (!text->len && structured) {
        char *dumped = json_dumps(structured, JSON_COMPACT | JSON_ENCODE_ANY);
        if (dumped) (void)kt__buf_puts(text, dumped);
        free(dumped);
    }
    if (!text->len) (void)kt__buf_puts(text, "(nothing)");
    return !json_is_true(json_object_get(result, "isError"));
}
