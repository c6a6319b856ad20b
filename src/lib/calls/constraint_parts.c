/* Pieces as text, and the schemas that they refer to. */
#include "calls/constraint_impl.h"

#include "base/json.h"

#include <string.h>

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

static bool is_named(const kt__json_node *member, const char *name) {
    return member->key && strlen(name) == member->key_len &&
           memcmp(name, member->key, member->key_len) == 0;
}

/* A reference within the tool's schema, from where that is now. */
static void write_ref(kt__buf *out, const kt__json_node *ref, uint32_t tool) {
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
static void write_schema(kt__buf *out, const kt__json_node *node, uint32_t tool) {
    bool array = node->type == KT__JSON_ARRAY, begun = false;
    if (!array && node->type != KT__JSON_OBJECT) {
        kt__jnode_write(out, node);
        return;
    }
    kt__buf_putc(out, array ? '[' : '{');
    for (const kt__json_node *kid = node->first; kid; kid = kid->next) {
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
        else if (is_named(kid, "$ref") && kid->type == KT__JSON_STRING)
            write_ref(out, kid, tool);
        else
            write_schema(out, kid, tool);
    }
    kt__buf_putc(out, array ? ']' : '}');
}

void kt__piece_tool_schema(kt__call_writer *w, uint32_t tool) {
    const kt__json_node *schema = w->rules->tools->items[tool].parameters;
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
static void write_place(kt__call_writer *w, uint32_t tool, const kt__json_node *node) {
    const kt__json_node *root = w->rules->tools->items[tool].parameters;
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

uint32_t kt__piece_schema(kt__call_writer *w, uint32_t tool, const kt__json_node *node) {
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

/* Arguments between tags, as Python has them, and as Gemma has them: pieces for each parameter. */

enum { MAX_NEST = 8 };

static const kt__json_node *keyword_of(const kt__json_node *schema, const char *name) {
    return schema && schema->type == KT__JSON_OBJECT ? kt__jdoc_member(schema, name, strlen(name))
                                                     : NULL;
}

static const kt__json_node *root_of(const kt__call_writer *w, uint32_t tool) {
    const kt__json_node *root = w->rules->tools->items[tool].parameters;
    return root ? kt__schema_resolve(root, root) : NULL;
}

static uint32_t types_of(const kt__call_writer *w, uint32_t tool, const kt__json_node *schema) {
    return kt__schema_types(w->rules->tools->items[tool].parameters, schema);
}

static const kt__json_node *resolve_schema(const kt__call_writer *w, uint32_t tool,
                                           const kt__json_node *schema) {
    return kt__schema_resolve(w->rules->tools->items[tool].parameters, schema);
}

/* ---- values ---- */

static void json_value(kt__call_writer *w, uint32_t tool, const kt__json_node *schema) {
    kt__piece_next(&w->pieces);
    kt__buf_printf(&w->pieces, "{\"json\":%u}", kt__piece_schema(w, tool, schema));
}

/* Characters up to `stop`, by a schema of strings. */
static void chars_value(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                        const char *stop) {
    kt__piece_next(&w->pieces);
    kt__buf_putc(&w->pieces, '{');
    if (schema && !w->loose[tool])
        kt__buf_printf(&w->pieces, "\"text\":%u,", kt__piece_schema(w, tool, schema));
    kt__buf_puts(&w->pieces, "\"until\":");
    kt__json_text(&w->pieces, stop);
    kt__buf_putc(&w->pieces, '}');
}

/* A value between tags that may be a string and other things: the text, or a word for the others. */
static void mixed_value(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                        uint32_t types, const char *stop) {
    static const struct {
        kt__json_type type;
        const char *word;
    } words[] = {{KT__JSON_NULL, "null"}, {KT__JSON_FALSE, "false"}, {KT__JSON_TRUE, "true"}};
    kt__piece_next(&w->pieces);
    kt__buf_puts(&w->pieces, "{\"any\":[");
    chars_value(w, tool, schema, stop);
    for (size_t i = 0; i < 3; i++)
        if (types & 1u << words[i].type) kt__piece_text(&w->pieces, words[i].word);
    kt__buf_puts(&w->pieces, "]}");
}

static void tagged_value(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                         const char *stop) {
    uint32_t types = types_of(w, tool, schema);
    if (types == KT__TYPES_STRING)
        chars_value(w, tool, schema, stop);
    else if (types & KT__TYPES_STRING)
        mixed_value(w, tool, schema, types, stop);
    else
        json_value(w, tool, schema);
}

/* A keyword that says nothing about which values there are. */
static bool is_harmless(const kt__json_node *keyword) {
    static const char *const names[] = {"type",     "properties", "required", "items",
                                        "minItems", "maxItems",   "title",    "default",
                                        "examples", "description"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == keyword->key_len &&
            memcmp(names[i], keyword->key, keyword->key_len) == 0)
            return true;
    return keyword->key_len == 20 && memcmp(keyword->key, "additionalProperties", 20) == 0 &&
           keyword->type == KT__JSON_FALSE;
}

/* A list or object that can be written part by part: all that its schema says is its parts. */
static bool is_simple(const kt__json_node *schema, uint32_t types) {
    bool list = types == 1u << KT__JSON_ARRAY, object = types == 1u << KT__JSON_OBJECT;
    if (!schema || schema->type != KT__JSON_OBJECT || (!list && !object)) return false;
    if (!keyword_of(schema, list ? "items" : "properties")) return false;
    for (const kt__json_node *kid = schema->first; kid; kid = kid->next)
        if (!is_harmless(kid)) return false;
    return !list || keyword_of(schema, "items")->type == KT__JSON_OBJECT;
}

static void put_bound(kt__buf *out, const kt__json_node *schema, const char *keyword,
                      const char *name) {
    const kt__json_node *n = keyword_of(schema, keyword);
    if (!n || n->type != KT__JSON_NUMBER || memchr(n->s, '.', n->n) || n->s[0] == '-') return;
    kt__buf_printf(out, ",\"%s\":%.*s", name, (int)n->n, n->s);
}

/* ---- members ---- */

typedef void member_writer(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                           const char *key, size_t len, int depth);

static bool is_required(const kt__json_node *schema, const kt__json_node *member) {
    const kt__json_node *list = keyword_of(schema, "required");
    for (const kt__json_node *name = list && list->type == KT__JSON_ARRAY ? list->first : NULL;
         name; name = name->next)
        if (name->type == KT__JSON_STRING && name->n == member->key_len &&
            memcmp(name->s, member->key, name->n) == 0)
            return true;
    return false;
}

/* Every property of an object's schema, each once and in any order. */
static void write_members(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                          const char *with, member_writer *member, int depth) {
    const kt__json_node *props = keyword_of(schema, "properties");
    const kt__json_node *first = props && props->type == KT__JSON_OBJECT ? props->first : NULL;
    uint32_t n = 0;
    if (!first) return;
    kt__piece_next(&w->pieces);
    kt__buf_puts(&w->pieces, "{\"each\":[");
    for (const kt__json_node *p = first; p; p = p->next) {
        kt__piece_next(&w->pieces);
        kt__buf_putc(&w->pieces, '[');
        member(w, tool, p, p->key, p->key_len, depth);
        kt__buf_putc(&w->pieces, ']');
    }
    kt__buf_puts(&w->pieces, "],\"must\":[");
    for (const kt__json_node *p = first; p; p = p->next, n++)
        if (is_required(schema, p)) {
            kt__piece_next(&w->pieces);
            kt__buf_printf(&w->pieces, "%u", n);
        }
    kt__buf_putc(&w->pieces, ']');
    if (with) {
        kt__buf_puts(&w->pieces, ",\"with\":");
        kt__json_text(&w->pieces, with);
    }
    kt__buf_putc(&w->pieces, '}');
}

/* ---- tags ---- */

/* The format's text around a value, or between parameters. */
static void pad_text(kt__call_writer *w, const char *text) {
    if (!w->f->pad_optional) {
        kt__piece_text(&w->pieces, text);
        return;
    }
    kt__piece_next(&w->pieces);
    kt__buf_puts(&w->pieces, "{\"any\":[\"\"");
    kt__piece_text(&w->pieces, text);
    kt__buf_puts(&w->pieces, "]}");
}

void kt__piece_tagged_gap(kt__call_writer *w) {
    pad_text(w, w->f->gap);
}

static void tagged_member(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                          const char *key, size_t len, int depth) {
    const kt__call_format *f = w->f;
    uint32_t types = types_of(w, tool, schema);
    (void)depth;
    kt__piece_text(&w->pieces, f->param_open);
    kt__piece_chars(&w->pieces, key, len);
    if (f->key_end) {
        kt__piece_text(&w->pieces, f->key_end);
        pad_text(w, f->pad);
        tagged_value(w, tool, schema, f->param_close);
    } else if (types == KT__TYPES_STRING) {
        kt__piece_text(&w->pieces, f->true_end);
        chars_value(w, tool, schema, f->param_close);
    } else if (types & KT__TYPES_STRING) {
        kt__piece_next(&w->pieces);
        kt__buf_puts(&w->pieces, "{\"any\":[[");
        kt__piece_text(&w->pieces, f->true_end);
        chars_value(w, tool, schema, f->param_close);
        kt__buf_puts(&w->pieces, "],[");
        kt__piece_text(&w->pieces, f->false_end);
        json_value(w, tool, schema);
        kt__buf_puts(&w->pieces, "]]}");
    } else {
        kt__piece_text(&w->pieces, f->false_end);
        json_value(w, tool, schema);
    }
    pad_text(w, f->pad);
    kt__piece_text(&w->pieces, f->param_close);
    pad_text(w, f->gap);
}

static void element_member(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                           const char *key, size_t len, int depth);

static void element_value(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                          const char *stop, int depth) {
    const kt__json_node *s = resolve_schema(w, tool, schema);
    uint32_t types = types_of(w, tool, schema);
    if (depth > MAX_NEST || w->loose[tool] || !is_simple(s, types)) {
        tagged_value(w, tool, schema, stop);
    } else if (types == 1u << KT__JSON_OBJECT) {
        write_members(w, tool, s, NULL, element_member, depth + 1);
    } else {
        kt__piece_next(&w->pieces);
        kt__buf_puts(&w->pieces, "{\"some\":[");
        element_member(w, tool, keyword_of(s, "items"), "item", 4, depth + 1);
        kt__buf_putc(&w->pieces, ']');
        put_bound(&w->pieces, s, "minItems", "min");
        put_bound(&w->pieces, s, "maxItems", "max");
        kt__buf_putc(&w->pieces, '}');
    }
}

static void element_member(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                           const char *key, size_t len, int depth) {
    kt__buf stop;
    kt__buf_init(&stop, 1 << 16);
    kt__buf_puts(&stop, w->f->param_close);
    kt__buf_append(&stop, key, len);
    kt__buf_putc(&stop, '>');
    kt__piece_text(&w->pieces, w->f->param_open);
    kt__piece_chars(&w->pieces, key, len);
    kt__piece_text(&w->pieces, w->f->key_end);
    element_value(w, tool, schema, stop.data ? stop.data : "", depth);
    kt__piece_text(&w->pieces, stop.data);
    if (stop.failed) w->failed = true;
    kt__buf_free(&stop);
}

void kt__piece_tagged(kt__call_writer *w, uint32_t tool) {
    write_members(w, tool, root_of(w, tool), NULL,
                  w->f->close_has_key ? element_member : tagged_member, 0);
}

/* ---- Python ---- */

static void python_member(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                          const char *key, size_t len, int depth) {
    (void)depth;
    kt__piece_chars(&w->pieces, key, len);
    kt__piece_text(&w->pieces, "=");
    json_value(w, tool, schema);
}

void kt__piece_python(kt__call_writer *w, uint32_t tool) {
    write_members(w, tool, root_of(w, tool), ", ", python_member, 0);
}

/* ---- Gemma ---- */

static void bare_member(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                        const char *key, size_t len, int depth);

static void bare_value(kt__call_writer *w, uint32_t tool, const kt__json_node *schema, int depth) {
    const kt__json_node *s = resolve_schema(w, tool, schema);
    uint32_t types = types_of(w, tool, schema);
    if (types == KT__TYPES_STRING) {
        kt__piece_text(&w->pieces, w->f->quote);
        chars_value(w, tool, schema, w->f->quote);
        kt__piece_text(&w->pieces, w->f->quote);
    } else if (types & KT__TYPES_STRING) { /* or another JSON value */
        kt__piece_next(&w->pieces);
        kt__buf_puts(&w->pieces, "{\"any\":[[");
        kt__piece_text(&w->pieces, w->f->quote);
        chars_value(w, tool, schema, w->f->quote);
        kt__piece_text(&w->pieces, w->f->quote);
        kt__buf_puts(&w->pieces, "]");
        json_value(w, tool, schema);
        kt__buf_puts(&w->pieces, "]}");
    } else if (depth > MAX_NEST || w->loose[tool] || !is_simple(s, types)) {
        json_value(w, tool, schema);
    } else if (types == 1u << KT__JSON_OBJECT) {
        kt__piece_text(&w->pieces, "{");
        write_members(w, tool, s, ",", bare_member, depth + 1);
        kt__piece_text(&w->pieces, "}");
    } else {
        kt__piece_text(&w->pieces, "[");
        kt__piece_next(&w->pieces);
        kt__buf_puts(&w->pieces, "{\"some\":[");
        bare_value(w, tool, keyword_of(s, "items"), depth + 1);
        kt__buf_puts(&w->pieces, "],\"with\":\",\"");
        put_bound(&w->pieces, s, "minItems", "min");
        put_bound(&w->pieces, s, "maxItems", "max");
        kt__buf_putc(&w->pieces, '}');
        kt__piece_text(&w->pieces, "]");
    }
}

static void bare_member(kt__call_writer *w, uint32_t tool, const kt__json_node *schema,
                        const char *key, size_t len, int depth) {
    kt__piece_chars(&w->pieces, key, len);
    kt__piece_text(&w->pieces, ":");
    bare_value(w, tool, schema, depth);
}

void kt__piece_bare(kt__call_writer *w, uint32_t tool) {
    kt__piece_text(&w->pieces, "{");
    write_members(w, tool, root_of(w, tool), ",", bare_member, 0);
    kt__piece_text(&w->pieces, "}");
}
