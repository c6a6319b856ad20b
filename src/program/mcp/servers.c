#include "mcp/servers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "mcp/rpc.h"

enum { MAX_CONFIG = 4 << 20, MAX_DEPTH = 32, MAX_SERVERS = 64, DEFAULT_TIMEOUT_S = 60 };

typedef struct reading {
    kt__mcp_servers *servers;
    kt__buf *notes;
    const char *server; /* its name */
    kt_error *err;
} reading;

static kt_status fail_member(const reading *r, const char *key, const char *expected) {
    char where[160];
    snprintf(where, sizeof where, "mcpServers.%.60s%s%.60s", r->server, key ? "." : "",
             key ? key : "");
    return kt__fail_at(r->err, KT_E_ARG, where, UINT64_MAX, "%s: expected %s", where, expected);
}

static const char *copy_text(const reading *r, const char *text) {
    return kt__arena_strndup(&r->servers->arena, text, strlen(text));
}

static kt_status read_one_text(const reading *r, const json_t *from, const char *key,
                               const char **out) {
    const json_t *v = json_object_get(from, key);
    if (!v) return KT_OK;
    if (!json_is_string(v) || !json_string_length(v)) return fail_member(r, key, "a text");
    *out = copy_text(r, json_string_value(v));
    return *out ? KT_OK : kt__fail_nomem(r->err, "the servers", 0);
}

/* A list of texts, after `first` where that is not NULL. */
static kt_status read_texts(const reading *r, const json_t *from, const char *key,
                            const char *first, kt__mcp_texts *out) {
    const json_t *list = json_object_get(from, key), *v;
    size_t i, n = 0;
    if (list && !json_is_array(list)) return fail_member(r, key, "an array of texts");
    const char **texts = kt__arena_calloc(&r->servers->arena, json_array_size(list) + 2,
                                          sizeof *texts);
    if (!texts) return kt__fail_nomem(r->err, "the servers", 0);
    if (first) texts[n++] = first;
    json_array_foreach(list, i, v) {
        if (!json_is_string(v)) return fail_member(r, key, "an array of texts");
        texts[n] = copy_text(r, json_string_value(v));
        if (!texts[n++]) return kt__fail_nomem(r->err, "the servers", 0);
    }
    *out = texts;
    return KT_OK;
}

/* {"NAME": "value"} as "NAME<between>value" */
static kt_status read_pairs(const reading *r, const json_t *from, const char *key,
                            const char *between, kt__mcp_texts *out) {
    json_t *object = json_object_get(from, key), *v;
    const char *name;
    size_t n = 0;
    if (object && !json_is_object(object)) return fail_member(r, key, "an object of texts");
    const char **texts = kt__arena_calloc(&r->servers->arena, json_object_size(object) + 1,
                                          sizeof *texts);
    if (!texts) return kt__fail_nomem(r->err, "the servers", 0);
    json_object_foreach(object, name, v) {
        const char *value = json_string_value(v);
        if (!value || !*name || strpbrk(name, "=:\r\n") || strpbrk(value, "\r\n"))
            return fail_member(r, key, "an object of texts, each one line");
        size_t len = strlen(name) + strlen(between) + strlen(value) + 1;
        char *text = kt__arena_alloc(&r->servers->arena, len);
        if (!text) return kt__fail_nomem(r->err, "the servers", len);
        snprintf(text, len, "%s%s%s", name, between, value);
        texts[n++] = text;
    }
    *out = texts;
    return KT_OK;
}

static kt_status read_whole(const reading *r, const json_t *from, const char *key, int64_t most,
                            int64_t *out) {
    const json_t *v = json_object_get(from, key);
    if (!v) return KT_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > most)
        return fail_member(r, key, "a whole number above 0");
    *out = json_integer_value(v);
    return KT_OK;
}

static kt_status read_switch(const reading *r, const json_t *from, const char *key, bool *out) {
    const json_t *v = json_object_get(from, key);
    if (v && !json_is_boolean(v)) return fail_member(r, key, "true or false");
    if (v) *out = json_is_true(v);
    return KT_OK;
}

/* true, or {"read": [...], "write": [...], "net": true} */
static kt_status read_sandbox(const reading *r, const json_t *from, kt__mcp_sandbox *out) {
    const json_t *v = json_object_get(from, "sandbox");
    if (!v || json_is_false(v)) return KT_OK;
    if (!json_is_true(v) && !json_is_object(v))
        return fail_member(r, "sandbox", "true, or an object with read, write and net");
    out->on = true;
    KT__STEP(read_texts(r, v, "read", NULL, &out->read));
    KT__STEP(read_texts(r, v, "write", NULL, &out->write));
    return read_switch(r, v, "net", &out->net);
}

static kt_status read_limits(const reading *r, const json_t *from, kt__mcp_server_config *c) {
    const json_t *limits = json_object_get(from, "limits");
    int64_t seconds = DEFAULT_TIMEOUT_S, mem_mb = 0;
    KT__STEP(read_whole(r, from, "timeout_s", 86400, &seconds));
    KT__STEP(read_whole(r, limits, "mem_mb", 1 << 24, &mem_mb));
    KT__STEP(read_whole(r, limits, "cpu_s", 1 << 24, &c->cpu_s));
    c->timeout_ms = seconds * 1000;
    c->mem_bytes = mem_mb << 20;
    return KT_OK;
}

static kt_status read_way(const reading *r, const json_t *from, kt__mcp_server_config *c) {
    const char *command = NULL, *type = json_string_value(json_object_get(from, "type"));
    KT__STEP(read_one_text(r, from, "command", &command));
    KT__STEP(read_one_text(r, from, "url", &c->url));
    if (!command == !c->url) return fail_member(r, NULL, "\"command\" or \"url\"");
    if (type && !strcmp(type, "sse"))
        return fail_member(r, "type", "stdio or http: the transport of 2024 is not spoken");
    if (command) KT__STEP(read_texts(r, from, "args", command, &c->argv));
    KT__STEP(read_pairs(r, from, "env", "=", &c->env));
    KT__STEP(read_one_text(r, from, "cwd", &c->cwd));
    KT__STEP(read_pairs(r, from, "headers", ": ", &c->headers));
    return read_switch(r, from, "private", &c->private_net);
}

static void note_strangers(const reading *r, const json_t *from) {
    static const char *const known[] = {
        "command", "args",      "env",     "cwd",     "url",  "headers",  "allow",  "ask",
        "deny",    "timeout_s", "sandbox", "private", "type", "disabled", "limits", "description"};
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)from, key, v) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) found |= !strcmp(known[i], key);
        if (!found)
            (void)kt__buf_printf(r->notes, "mcpServers.%.60s.%.60s means nothing here\n", r->server,
                                 key);
    }
}

static kt_status read_server(const reading *r, const json_t *from) {
    kt__mcp_server_config *c = &r->servers->items[r->servers->n];
    if (!json_is_object(from)) return fail_member(r, NULL, "an object");
    if (json_is_true(json_object_get(from, "disabled"))) return KT_OK;
    c->name = copy_text(r, r->server);
    if (!c->name) return kt__fail_nomem(r->err, "the servers", 0);
    KT__STEP(read_way(r, from, c));
    KT__STEP(read_texts(r, from, "allow", NULL, &c->allow));
    KT__STEP(read_texts(r, from, "ask", NULL, &c->ask));
    KT__STEP(read_texts(r, from, "deny", NULL, &c->deny));
    KT__STEP(read_sandbox(r, from, &c->sandbox));
    KT__STEP(read_limits(r, from, c));
    note_strangers(r, from);
    r->servers->n++;
    return KT_OK;
}

static kt_status read_servers(reading *r, json_t *root) {
    json_t *list = json_object_get(root, "mcpServers"), *v;
    size_t n = json_object_size(list);
    if (!json_is_object(list))
        return kt__fail_at(r->err, KT_E_ARG, "mcpServers", UINT64_MAX,
                           "expected {\"mcpServers\": {\"NAME\": {\"command\": ...}}}");
    if (n > MAX_SERVERS)
        return kt__fail_at(r->err, KT_E_LIMIT, "mcpServers", UINT64_MAX, "at most %d servers",
                           (int)MAX_SERVERS);
    r->servers->items = kt__arena_calloc(&r->servers->arena, n + 1, sizeof *r->servers->items);
    if (!r->servers->items) return kt__fail_nomem(r->err, "the servers", n);
    json_object_foreach(list, r->server, v) {
        kt_status status = read_server(r, v);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

kt_status kt__mcp_servers_read(const char *json, size_t len, kt__mcp_servers *out, kt__buf *notes,
                               kt_error *err) {
    const kt__json_limits limits = {MAX_CONFIG, MAX_DEPTH};
    reading r = {.servers = out, .notes = notes, .server = "", .err = err};
    json_t *root;
    memset(out, 0, sizeof *out);
    kt__arena_init(&out->arena, 4096, 64 << 20);
    kt_status status = kt__json_read(json, len, &limits, &root, err);
    if (status == KT_OK) status = read_servers(&r, root);
    json_decref(root);
    if (status != KT_OK) kt__mcp_servers_free(out);
    return status;
}

void kt__mcp_servers_free(kt__mcp_servers *servers) {
    kt__arena_free(&servers->arena);
    memset(servers, 0, sizeof *servers);
}

/* ---- pins ---- */

enum { MAX_PINS = 64 << 20 };

static bool usual_path(char *out, size_t size) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = state && kt__files_is_absolute(state)
                ? snprintf(out, size, "%s/kentang/mcp-pins.json", state)
                : snprintf(out, size, "%s/.local/state/kentang/mcp-pins.json", home ? home : "");
    return n > 0 && (size_t)n < size && kt__files_is_absolute(out);
}

static kt_status read_pins(const char *text, size_t len, kt__mcp_pins *out, kt_error *err) {
    const kt__json_limits limits = {MAX_PINS, 80};
    json_t *root;
    kt_status status = kt__json_read(text, len, &limits, &root, err);
    json_t *servers = json_object_get(root, "servers");
    if (status == KT_OK && !json_is_object(servers))
        status = kt__fail(err, KT_E_FORMAT, "this file has no \"servers\"");
    if (status == KT_OK) out->servers = json_incref(servers);
    json_decref(root);
    if (status != KT_OK) snprintf(err->where, sizeof err->where, "%.159s", out->path);
    return status;
}

static kt_status read_pins_file(FILE *in, kt__mcp_pins *out, kt_error *err) {
    kt__buf text;
    char data[16384];
    size_t n;
    kt__buf_init(&text, MAX_PINS);
    while ((n = fread(data, 1, sizeof data, in)) > 0) (void)kt__buf_append(&text, data, n);
    kt_status status = ferror(in) || text.failed
                           ? kt__fail_at(err, KT_E_IO, out->path, UINT64_MAX, "cannot read it")
                           : read_pins(text.data ? text.data : "", text.len, out, err);
    kt__buf_free(&text);
    return status;
}

kt_status kt__mcp_pins_open(const char *path, kt__mcp_pins *out, kt_error *err) {
    memset(out, 0, sizeof *out);
    bool fits = path ? (size_t)snprintf(out->path, sizeof out->path, "%s", path) < sizeof out->path
                     : usual_path(out->path, sizeof out->path);
    if (!fits)
        return kt__fail(err, KT_E_ARG,
                        "there is no place for what servers' tools looked like: set HOME, or give "
                        "--pins FILE");
    FILE *in = fopen(out->path, "re");
    if (!in && errno != ENOENT) return kt__fail_system(err, errno, out->path, "cannot read it");
    kt_status status = in ? read_pins_file(in, out, err) : KT_OK;
    if (in) fclose(in);
    if (status == KT_OK && !out->servers) out->servers = json_object();
    return status;
}

void kt__mcp_pins_close(kt__mcp_pins *pins) {
    json_decref(pins->servers);
    pins->servers = NULL;
}

static void make_folders(const char *path) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *at = folder + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)kt__folder_make(folder, true);
        *at = '/';
    }
}

/* Besides the file, and in its place when it is whole. */
static kt_status write_pins(const kt__mcp_pins *pins, const char *text, kt_error *err) {
    char fresh[4200];
    snprintf(fresh, sizeof fresh, "%s.%ld", pins->path, kt__process_number());
    int fd = kt__fd_open(fresh, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_NEW | KT__OPEN_PRIVATE);
    bool written = fd >= 0 && kt__fd_write(fd, text, strlen(text)) && kt__fd_sync(fd);
    if (fd >= 0) kt__fd_close(fd);
    if (written && rename(fresh, pins->path) == 0) return KT_OK;
    kt_status status = kt__fail_system(err, errno, pins->path, "cannot write it");
    (void)kt__file_remove(fresh);
    return status;
}

kt_status kt__mcp_pins_save(kt__mcp_pins *pins, kt_error *err) {
    if (!pins->changed) return KT_OK;
    json_t *root = json_pack("{s:O}", "servers", pins->servers);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS);
    json_decref(root);
    if (!text) return kt__fail_nomem(err, "the pins", 0);
    make_folders(pins->path);
    kt_status status = write_pins(pins, text, err);
    free(text);
    if (status == KT_OK) pins->changed = false;
    return status;
}

/* The command line or the address: another one is another server. */
static json_t *origin_of(const kt__mcp_server_config *server) {
    json_t *list = json_array();
    if (server->url) json_array_append_new(list, json_string(server->url));
    for (kt__mcp_texts arg = server->argv; arg && *arg; arg++)
        json_array_append_new(list, json_string(*arg));
    return list;
}

static const json_t *pinned_tools(const kt__mcp_pins *pins, const kt__mcp_server_config *server) {
    const json_t *entry = json_object_get(pins->servers, server->name);
    json_t *from = origin_of(server);
    bool same = json_equal(json_object_get(entry, "from"), from);
    json_decref(from);
    return same ? json_object_get(entry, "tools") : NULL;
}

bool kt__mcp_pins_knows(const kt__mcp_pins *pins, const kt__mcp_server_config *server) {
    return pinned_tools(pins, server) != NULL;
}

bool kt__mcp_pins_take(kt__mcp_pins *pins, const kt__mcp_server_config *server,
                       const json_t *tools) {
    json_t *by_name = json_object(), *tool;
    size_t i;
    json_array_foreach(tools, i, tool) {
        (void)json_object_set(by_name, json_string_value(json_object_get(tool, "name")), tool);
    }
    json_t *entry = json_pack("{s:o,s:o}", "from", origin_of(server), "tools", by_name);
    pins->changed = true;
    return entry && json_object_set_new(pins->servers, server->name, entry) == 0;
}

bool kt__mcp_pins_holds(const kt__mcp_pins *pins, const kt__mcp_server_config *server,
                        const json_t *tool) {
    const char *name = json_string_value(json_object_get(tool, "name"));
    const json_t *was = json_object_get(pinned_tools(pins, server), name);
    return was && json_equal(was, tool);
}
