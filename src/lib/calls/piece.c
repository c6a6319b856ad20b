/* Pieces as text, and the schemas that they refer to. */
#include <string.h>

#include "base/json.h"
#include "calls/constraint_impl.h"

/* ---- pieces ---- */

void kt__piece_next(kt__buf *out) {
    char last = out->len > 0 ? out->data[out->len - 1] : '[';
    if (last != '[' && last != ':' && last != ',') kt__buf_putc(out, ',');
}

void kt__piece_chars(kt__buf *out, const char *text, size_t len) {
    if (len == 0) return;
    kt__piece_next(out);
    kt__json_string(out, text, len, KT__JSON_PLAIN);
}

void kt__piece_text(kt__buf *out, const char *text) {
    if (text) kt__piece_chars(out, text, strlen(text));
}

/* ---- schemas ---- */

static bool is_named(const kt__jnode *member, const char *name) {
    return member->key && strlen(name) == member->key_len &&
           memcmp(name, member->key, member->key_len) == 0;
}

/* A reference within the tool's schema, from where that is now. */
static void write_ref(kt__buf *out, const kt__jnode *ref, uint32_t tool) {
    kt__buf text;
    kt__buf_init(&text, ref->n + 64u);
    if (ref->n == 1 || (ref->n > 1 && ref->s[0] == '#' && ref->s[1] == '/'))
        kt__buf_printf(&text, "#/prefixItems/%u", tool);
    else
        kt__buf_putc(&text, '#');
    bool own = ref->n > 0 && ref->s[0] == '#';
    if (own) kt__buf_append(&text, ref->s + 1, ref->n - 1);
    kt__json_string(out, own ? text.data : ref->s, own ? text.len : ref->n, KT__JSON_PLAIN);
    if (text.failed) out->failed = true;
    kt__buf_free(&text);
}

/* The schema with its references turned; what is data in it stays as it is. */
static void write_schema(kt__buf *out, const kt__jnode *node, uint32_t tool) {
    bool array = node->type == KT__JT_ARRAY, begun = false;
    if (!array && node->type != KT__JT_OBJECT) {
        kt__jnode_write(out, node);
        return;
    }
    kt__buf_putc(out, array ? '[' : '{');
    for (const kt__jnode *kid = node->first; kid; kid = kid->next) {
        if (is_named(kid, "$schema") || is_named(kid, "$id")) continue;
        if (begun) kt__buf_putc(out, ',');
        begun = true;
        if (!array) {
            kt__json_string(out, kid->key, kid->key_len, KT__JSON_PLAIN);
            kt__buf_putc(out, ':');
        }
        bool data = is_named(kid, "enum") || is_named(kid, "const") || is_named(kid, "default") ||
                    is_named(kid, "examples");
        if (data)
            kt__jnode_write(out, kid);
        else if (is_named(kid, "$ref") && kid->type == KT__JT_STRING)
            write_ref(out, kid, tool);
        else
            write_schema(out, kid, tool);
    }
    kt__buf_putc(out, array ? ']' : '}');
}

void kt__piece_tool_schema(kt__call_writer *w, uint32_t tool) {
    const kt__jnode *schema = w->rules->tools->items[tool].parameters;
    kt__buf *out = &w->schemas;
    if (w->loose[tool]) {
        kt__buf_puts(out, "{\"type\":\"object\"}");
    } else if (!schema) {
        kt__buf_puts(out, "{\"type\":\"object\",\"maxProperties\":0}");
    } else if (kt__jdoc_member(schema, "type", 4)) {
        write_schema(out, schema, tool);
    } else {
        write_schema(out, schema, tool);
        out->len--; /* the brace: the arguments are an object even where that is not said */
        kt__buf_puts(out, schema->n > 0 ? ",\"type\":\"object\"}" : "\"type\":\"object\"}");
    }
}

/* The node's place below the tool's schema, as a fragment. */
static void write_place(kt__call_writer *w, uint32_t tool, const kt__jnode *node) {
    const kt__jnode *root = w->rules->tools->items[tool].parameters;
    char base[1024], place[1024];
    kt__buf text;
    kt__jdoc_pointer(root, base, sizeof base);
    kt__jdoc_pointer(node, place, sizeof place);
    size_t skip = strlen(base);
    if (strlen(place) >= sizeof place - 4 || strncmp(base, place, skip) != 0) w->failed = true;
    kt__buf_init(&text, 8192);
    kt__buf_printf(&text, "#/prefixItems/%u", tool);
    for (const char *s = place + (w->failed ? 0 : skip); *s; s++)
        if (*s == '%')
            kt__buf_puts(&text, "%25");
        else
            kt__buf_putc(&text, *s);
    kt__buf_puts(&w->schemas, "{\"$ref\":");
    kt__json_string(&w->schemas, text.data, text.len, KT__JSON_PLAIN);
    kt__buf_putc(&w->schemas, '}');
    kt__buf_free(&text);
}

uint32_t kt__piece_schema(kt__call_writer *w, uint32_t tool, const kt__jnode *node) {
    if (w->n_schemas == KT__CALL_SCHEMAS) {
        w->failed = true;
        return 0;
    }
    kt__buf_putc(&w->schemas, ',');
    if (w->loose[tool])
        kt__buf_puts(&w->schemas, "{}");
    else
        write_place(w, tool, node);
    w->owner[w->n_schemas] = (uint16_t)tool;
    return w->n_schemas++;
}
