#include "mcp/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd_io.h"
#include "mcp/json_read.h"

enum { MAX_PINS = 64 << 20 };

static bool usual_path(char *out, size_t size) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = state && *state == '/'
                ? snprintf(out, size, "%s/kentang/mcp-pins.json", state)
                : snprintf(out, size, "%s/.local/state/kentang/mcp-pins.json", home ? home : "");
    return n > 0 && (size_t)n < size && *out == '/';
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
    if (!in && errno != ENOENT)
        return kt__fail_at(err, KT_E_IO, out->path, UINT64_MAX, "cannot read it: %s",
                           strerror(errno));
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
        (void)mkdir(folder, 0700);
        *at = '/';
    }
}

/* Besides the file, and in its place when it is whole. */
static kt_status write_pins(const kt__mcp_pins *pins, const char *text, kt_error *err) {
    char beside[4200];
    snprintf(beside, sizeof beside, "%s.%d", pins->path, (int)getpid());
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool written = fd >= 0 && kt__fd_write(fd, text, strlen(text)) && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    if (written && rename(beside, pins->path) == 0) return KT_OK;
    kt_status status = kt__fail_at(err, KT_E_IO, pins->path, UINT64_MAX, "cannot write it: %s",
                                   strerror(errno));
    (void)unlink(beside);
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
