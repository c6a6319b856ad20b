#include "mcp/param_headers.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "mcp/versions.h"

enum { MAX_PARAMS = 32, DEEPEST = 64 };
#define MARK "x-mcp-header"

typedef struct marks {
    const char *names[MAX_PARAMS];
    size_t n;
    bool sound;
} marks;

static bool is_token(const char *name) {
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("!#$%&'*+-.^_`|~", *at)) return false;
    }
    return *name != '\0';
}

static bool is_primitive(const json_t *schema) {
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type &&
           (!strcmp(type, "string") || !strcmp(type, "integer") || !strcmp(type, "boolean"));
}

static void take_mark(const json_t *schema, marks *m) {
    const json_t *mark = json_object_get(schema, MARK);
    const char *name = json_string_value(mark);
    if (!mark) return;
    m->sound = m->sound && name && is_token(name) && is_primitive(schema) && m->n < MAX_PARAMS;
    for (size_t i = 0; m->sound && i < m->n; i++) m->sound = strcasecmp(m->names[i], name) != 0;
    if (m->sound) m->names[m->n++] = name;
}

/* Those that a chain of `properties` leads to. */
static void take_reachable(const json_t *schema, int depth, marks *m) {
    const char *key;
    json_t *v;
    if (depth > DEEPEST) return;
    json_object_foreach(json_object_get(schema, "properties"), key, v) {
        take_mark(v, m);
        take_reachable(v, depth + 1, m);
    }
}

/* Wherever they are; a property may have this name, which then is an object. */
static size_t count_marks(const json_t *v, int depth) {
    size_t n = json_is_string(json_object_get(v, MARK)), i;
    const char *key;
    json_t *part;
    if (depth > DEEPEST) return n;
    json_object_foreach((json_t *)(uintptr_t)v, key, part) n += count_marks(part, depth + 1);
    json_array_foreach(v, i, part) n += count_marks(part, depth + 1);
    return n;
}

bool kt__mcp_params_are_sound(const json_t *schema) {
    marks m = {.sound = true};
    take_reachable(schema, 0, &m);
    return m.sound && count_marks(schema, 0) == m.n;
}

static void write_value(const json_t *v, kt__buf *lines) {
    if (json_is_integer(v)) {
        (void)kt__buf_printf(lines, "%lld", (long long)json_integer_value(v));
    } else if (json_is_boolean(v)) {
        (void)kt__buf_puts(lines, json_is_true(v) ? "true" : "false");
    } else {
        (void)kt__mcp_header_encode(json_string_value(v), lines);
    }
}

static void write_params(const json_t *schema, const json_t *args, int depth, kt__buf *lines) {
    const char *key;
    json_t *v;
    if (depth > DEEPEST) return;
    json_object_foreach(json_object_get(schema, "properties"), key, v) {
        const char *name = json_string_value(json_object_get(v, MARK));
        const json_t *value = json_object_get(args, key);
        if (name && (json_is_string(value) || json_is_integer(value) || json_is_boolean(value))) {
            (void)kt__buf_printf(lines, "Mcp-Param-%s: ", name);
            write_value(value, lines);
            (void)kt__buf_putc(lines, '\n');
        }
        if (json_is_object(value)) write_params(v, value, depth + 1, lines);
    }
}

bool kt__mcp_param_headers(const json_t *schema, const json_t *args, kt__buf *lines) {
    write_params(schema, args, 0, lines);
    return !lines->failed;
}
