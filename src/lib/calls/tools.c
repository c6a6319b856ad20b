#include "calls/tools_impl.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "calls/calls.h"
#include "grammar/grammar.h"

#include <stdio.h>
#include <string.h>

enum { MAX_JSON_BYTES = 4 << 20 };

/* ---- JSON of a node ---- */

static void write_members(kt__buf *out, const kt__json_node *node) {
    bool array = node->type == KT__JSON_ARRAY;
    kt__buf_putc(out, array ? '[' : '{');
    for (const kt__json_node *kid = node->first; kid; kid = kid->next) {
        if (kid != node->first) kt__buf_puts(out, ", ");
        if (!array) {
            kt__json_string(out, kid->key, kid->key_len, KT__JSON_PLAIN);
            kt__buf_puts(out, ": ");
        }
        kt__jnode_write(out, kid);
    }
    kt__buf_putc(out, array ? ']' : '}');
}

void kt__jnode_write(kt__buf *out, const kt__json_node *node) {
    switch (node->type) {
    case KT__JSON_NULL: kt__buf_puts(out, "null"); return;
    case KT__JSON_FALSE: kt__buf_puts(out, "false"); return;
    case KT__JSON_TRUE: kt__buf_puts(out, "true"); return;
    case KT__JSON_NUMBER: kt__buf_append(out, node->s, node->n); return;
    case KT__JSON_STRING: kt__json_string(out, node->s, node->n, KT__JSON_PLAIN); return;
    case KT__JSON_ARRAY:
    case KT__JSON_OBJECT: write_members(out, node); return;
    }
}

/* ---- what a schema allows ---- */

static const kt__json_node *member_of(const kt__json_node *node, const char *name) {
    return node && node->type == KT__JSON_OBJECT ? kt__jdoc_member(node, name, strlen(name)) : NULL;
}

const kt__json_node *kt__schema_resolve(const kt__json_node *root, const kt__json_node *schema) {
    for (int hops = 0; hops < 16; hops++) {
        const kt__json_node *ref = member_of(schema, "$ref");
        if (!ref || ref->type != KT__JSON_STRING || ref->n < 1 || ref->s[0] != '#') return schema;
        schema = kt__jdoc_at((kt__json_node *)root, ref->s + 1, ref->n - 1);
        if (!schema) return NULL;
    }
    return NULL;
}

const kt__json_node *kt__schema_member(const kt__json_node *root, const kt__json_node *schema,
                                       const char *key, size_t len) {
    const kt__json_node *props = member_of(kt__schema_resolve(root, schema), "properties");
    if (!props || props->type != KT__JSON_OBJECT) return NULL;
    return kt__schema_resolve(root, kt__jdoc_member(props, key, len));
}

static uint32_t types_of_name(const kt__json_node *name) {
    static const struct {
        const char *name;
        uint32_t types;
    } rows[] = {
        {"null", 1u << KT__JSON_NULL},      {"boolean", 1u << KT__JSON_FALSE | 1u << KT__JSON_TRUE},
        {"integer", 1u << KT__JSON_NUMBER}, {"number", 1u << KT__JSON_NUMBER},
        {"string", 1u << KT__JSON_STRING},  {"array", 1u << KT__JSON_ARRAY},
        {"object", 1u << KT__JSON_OBJECT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (kt__jdoc_is(name, rows[i].name)) return rows[i].types;
    return KT__TYPES_ALL;
}

/* Of a list of type names, of values, or of schemas. */
typedef enum list_kind { LIST_NAMES, LIST_VALUES, LIST_SCHEMAS } list_kind;

static uint32_t schema_types(const kt__json_node *root, const kt__json_node *schema, int depth);

static uint32_t types_of_list(const kt__json_node *root, const kt__json_node *list, list_kind kind,
                              int depth) {
    uint32_t types = 0;
    if (!list || list->type != KT__JSON_ARRAY) return KT__TYPES_ALL;
    for (const kt__json_node *kid = list->first; kid; kid = kid->next)
        types |= kind == LIST_NAMES    ? types_of_name(kid)
                 : kind == LIST_VALUES ? 1u << kid->type
                                       : schema_types(root, kid, depth);
    return types;
}

static uint32_t schema_types(const kt__json_node *root, const kt__json_node *schema, int depth) {
    uint32_t types = KT__TYPES_ALL;
    schema = kt__schema_resolve(root, schema);
    if (depth > 16 || !schema || schema->type != KT__JSON_OBJECT) return types;
    const kt__json_node *type = member_of(schema, "type"), *one = member_of(schema, "const");
    if (type && type->type == KT__JSON_STRING) types = types_of_name(type);
    if (type && type->type == KT__JSON_ARRAY) types = types_of_list(root, type, LIST_NAMES, depth);
    if (one) types &= 1u << one->type;
    const kt__json_node *all = member_of(schema, "allOf");
    types &= types_of_list(root, member_of(schema, "enum"), LIST_VALUES, depth);
    types &= types_of_list(root, member_of(schema, "anyOf"), LIST_SCHEMAS, depth + 1);
    types &= types_of_list(root, member_of(schema, "oneOf"), LIST_SCHEMAS, depth + 1);
    if (all && all->type == KT__JSON_ARRAY)
        for (const kt__json_node *kid = all->first; kid; kid = kid->next)
            types &= schema_types(root, kid, depth + 1);
    return types;
}

uint32_t kt__schema_types(const kt__json_node *root, const kt__json_node *schema) {
    return schema_types(root, schema, 0);
}

uint32_t kt__tool_param_types(const kt__tools *tools, uint32_t tool, const char *key, size_t len) {
    const kt__json_node *root = tools->items[tool].parameters;
    return schema_types(root, root ? kt__schema_member(root, root, key, len) : NULL, 0);
}

bool kt__tools_have_param(const kt__tools *tools, const char *key, size_t len) {
    for (uint32_t i = 0; i < tools->n; i++) {
        const kt__json_node *root = tools->items[i].parameters;
        if (root && kt__schema_member(root, root, key, len)) return true;
        if (root && !kt__jdoc_member(kt__schema_resolve(root, root), "properties", 10)) return true;
    }
    return false;
}

static bool fits_grammar(kt__grammar *g, const char *json, size_t len) {
    kt__gstate s;
    size_t n = len;
    kt__grammar_start(g, &s);
    return kt__grammar_feed(g, &s, json, &n) && kt__grammar_accepts(g, &s);
}

bool kt__tool_takes(const kt__tools *tools, uint32_t tool, const char *json, size_t len) {
    const kt__json_node *schema = tools->items[tool].parameters;
    kt__buf text;
    kt__grammar *g = NULL;
    bool fits = len > 0 && json[0] == '{';
    kt__buf_init(&text, 4 << 20);
    if (schema)
        kt__jnode_write(&text, schema);
    else
        kt__buf_puts(&text, "{\"maxProperties\":0}");
    const kt__grammar_source source = {
        .kind = KT__GRAMMAR_SCHEMA, .text = text.data, .len = text.len, .layout = KT__LAYOUT_ANY};
    if (fits && !text.failed && kt__grammar_create(&source, &g, NULL, NULL) == KT_OK)
        fits = fits_grammar(g, json, len);
    kt__grammar_free(g);
    kt__buf_free(&text);
    return fits;
}

/* ---- reading ---- */

static kt_status tool_error(kt_error *err, kt_status status, const kt__json_node *node,
                            const char *what) {
    char place[256];
    kt__jdoc_pointer(node, place, sizeof place);
    return kt__fail_at(err, status, place, UINT64_MAX, "%s", what);
}

static bool name_is_good(const kt__json_node *name) {
    if (name->n == 0 || name->n > KT__TOOL_NAME_MAX) return false;
    for (uint32_t i = 0; i < name->n; i++) {
        char c = name->s[i], low = (char)(c | 32);
        bool word = (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9');
        if (!word && c != '_' && c != '-' && c != '.') return false;
    }
    return true;
}

/* The object that has the name: the tool itself, or its "function". */
static kt_status function_of(const kt__json_node *item, const kt__json_node **out, kt_error *err) {
    if (item->type != KT__JSON_OBJECT)
        return tool_error(err, KT_E_FORMAT, item, "a tool is an object");
    const kt__json_node *type = member_of(item, "type"), *function = member_of(item, "function");
    if (type && !kt__jdoc_is(type, "function") && !kt__jdoc_is(type, "custom"))
        return tool_error(err, KT_E_UNSUPPORTED, type,
                          "this type of tool is not supported: only \"function\" is");
    if (type && kt__jdoc_is(type, "custom") && !member_of(item, "input_schema"))
        return tool_error(err, KT_E_UNSUPPORTED, type,
                          "tools with free input are not supported: only \"function\" is");
    if (function && function->type != KT__JSON_OBJECT)
        return tool_error(err, KT_E_FORMAT, function, "a function is an object");
    *out = function ? function : item;
    return KT_OK;
}

static kt_status read_parameters(const kt__json_node *function, kt__tool *out, kt_error *err) {
    kt__json_node *params = (kt__json_node *)member_of(function, "parameters");
    if (!params) params = (kt__json_node *)member_of(function, "input_schema");
    if (params && params->type == KT__JSON_NULL) params = NULL;
    if (params && params->type != KT__JSON_OBJECT)
        return tool_error(err, KT_E_FORMAT, params, "parameters are a JSON Schema of an object");
    out->parameters = params;
    return KT_OK;
}

static kt_status read_tool(kt__tools *tools, const kt__json_node *item, kt__tool *out,
                           kt_error *err) {
    const kt__json_node *function = NULL, *name, *strict;
    kt_status status = function_of(item, &function, err);
    if (status != KT_OK) return status;
    name = member_of(function, "name");
    if (!name || name->type != KT__JSON_STRING || !name_is_good(name))
        return tool_error(err, KT_E_FORMAT, name ? name : function,
                          "a tool has a name of 1 to 128 letters, digits, _, - and .");
    if (kt__tools_find(tools, name->s, name->n) != UINT32_MAX)
        return tool_error(err, KT_E_FORMAT, name, "two tools have this name");
    out->name = kt__arena_strndup(&tools->arena, name->s, name->n);
    out->name_len = name->n;
    if (!out->name) return kt__fail_nomem(err, "a list of tools", name->n);
    out->description = member_of(function, "description");
    strict = member_of(function, "strict");
    if (strict && strict->type > KT__JSON_TRUE)
        return tool_error(err, KT_E_FORMAT, strict, "strict is true or false");
    out->strict = strict && strict->type == KT__JSON_TRUE;
    return read_parameters(function, out, err);
}

static void write_tool(kt__buf *b, const kt__tool *tool) {
    kt__buf_puts(b, "{\"type\": \"function\", \"function\": {\"name\": ");
    kt__json_text(b, tool->name);
    if (tool->description && tool->description->type == KT__JSON_STRING) {
        kt__buf_puts(b, ", \"description\": ");
        kt__jnode_write(b, tool->description);
    }
    kt__buf_puts(b, ", \"parameters\": ");
    if (tool->parameters)
        kt__jnode_write(b, tool->parameters);
    else
        kt__buf_puts(b, "{\"type\": \"object\", \"properties\": {}}");
    if (tool->strict) kt__buf_puts(b, ", \"strict\": true");
    kt__buf_puts(b, "}}");
}

static kt_status write_tools(kt__tools *tools, kt_error *err) {
    kt__buf b;
    kt__buf_init(&b, 2 * MAX_JSON_BYTES);
    kt__buf_putc(&b, '[');
    for (uint32_t i = 0; i < tools->n; i++) {
        if (i > 0) kt__buf_puts(&b, ", ");
        write_tool(&b, &tools->items[i]);
    }
    kt__buf_putc(&b, ']');
    bool failed = b.failed;
    tools->json = failed ? NULL : kt__buf_take(&b, &tools->json_len);
    kt__buf_free(&b);
    return tools->json ? KT_OK : kt__fail_nomem(err, "a list of tools", 0);
}

static kt_status read_list(kt__tools *tools, const char *json, size_t len, kt_error *err) {
    kt__json_node *root;
    if (len > MAX_JSON_BYTES)
        return kt__fail(err, KT_E_LIMIT, "the list of tools has over %d MiB", MAX_JSON_BYTES >> 20);
    kt_status status = kt__jdoc_parse(&tools->arena, json, len, &root, err);
    if (status != KT_OK) return status;
    if (root->type != KT__JSON_ARRAY)
        return kt__fail(err, KT_E_FORMAT, "tools are a list of objects");
    if (root->n > KT__TOOLS_MAX)
        return kt__fail(err, KT_E_LIMIT, "%u tools; at most %d are taken", root->n, KT__TOOLS_MAX);
    tools->items = kt__arena_calloc(&tools->arena, root->n + 1, sizeof *tools->items);
    if (!tools->items) return kt__fail_nomem(err, "a list of tools", 0);
    for (const kt__json_node *item = root->first; item && status == KT_OK; item = item->next) {
        status = read_tool(tools, item, &tools->items[tools->n], err);
        if (status == KT_OK) tools->n++;
    }
    return status == KT_OK ? write_tools(tools, err) : status;
}

kt_status kt__tools_read(const char *json, size_t len, kt__tools **out, kt_error *err) {
    kt__tools *tools = kt__calloc(1, sizeof *tools);
    *out = NULL;
    if (!tools) return kt__fail_nomem(err, "a list of tools", sizeof *tools);
    kt__arena_init(&tools->arena, 16 << 10, 256 << 20);
    kt_status status = read_list(tools, json, len, err);
    if (status == KT_OK)
        *out = tools;
    else
        kt__tools_free(tools);
    return status;
}

void kt__tools_free(kt__tools *tools) {
    if (!tools) return;
    kt__arena_free(&tools->arena);
    kt__free(tools->json);
    kt__free(tools);
}

uint32_t kt__tools_count(const kt__tools *tools) {
    return tools ? tools->n : 0;
}

const char *kt__tools_name(const kt__tools *tools, uint32_t i) {
    return tools->items[i].name;
}

uint32_t kt__tools_find(const kt__tools *tools, const char *name, size_t len) {
    for (uint32_t i = 0; tools && i < tools->n; i++)
        if (tools->items[i].name_len == len && memcmp(tools->items[i].name, name, len) == 0)
            return i;
    return UINT32_MAX;
}

/* ---- which tools may or must be called ---- */

bool kt__tool_allowed(const kt__tool_choice *choice, uint32_t i) {
    if (choice->mode == KT__TOOL_NONE) return false;
    return !choice->limited || (choice->allowed[i / 64] >> (i % 64) & 1);
}

static kt_status unknown_choice(kt_error *err) {
    return kt__fail(err, KT_E_ARG,
                    "tool_choice is \"auto\", \"none\", \"required\", a tool's name, or an object "
                    "with a type of function, tool, allowed_tools, auto, any or none");
}

static bool mode_named(const kt__json_node *word, kt__tool_mode *mode) {
    if (kt__jdoc_is(word, "auto"))
        *mode = KT__TOOL_AUTO;
    else if (kt__jdoc_is(word, "none"))
        *mode = KT__TOOL_NONE;
    else if (kt__jdoc_is(word, "required") || kt__jdoc_is(word, "any"))
        *mode = KT__TOOL_REQUIRED;
    else
        return false;
    return true;
}

static kt_status allow_named(const kt__tools *tools, const kt__json_node *name,
                             kt__tool_choice *out, kt_error *err) {
    if (!name || name->type != KT__JSON_STRING) return unknown_choice(err);
    uint32_t i = kt__tools_find(tools, name->s, name->n);
    if (i == UINT32_MAX)
        return kt__fail(err, KT_E_ARG, "tool_choice names %.*s, which is not among the tools",
                        (int)(name->n < 64 ? name->n : 64), name->s);
    out->limited = true;
    out->allowed[i / 64] |= UINT64_C(1) << (i % 64);
    return KT_OK;
}

static kt__json_node *choice_member(const kt__json_node *object, const char *name) {
    return object && object->type == KT__JSON_OBJECT ? kt__jdoc_member(object, name, strlen(name))
                                                     : NULL;
}

/* The name within {"function":{"name"}} or {"name"}. */
static const kt__json_node *named_in(const kt__json_node *object) {
    const kt__json_node *function = choice_member(object, "function");
    return choice_member(function ? function : object, "name");
}

static kt_status read_allowed(const kt__tools *tools, const kt__json_node *object,
                              kt__tool_choice *out, kt_error *err) {
    const kt__json_node *inner = choice_member(object, "allowed_tools");
    if (!inner) inner = object;
    const kt__json_node *mode = choice_member(inner, "mode"), *list = choice_member(inner, "tools");
    if (mode && !mode_named(mode, &out->mode)) return unknown_choice(err);
    if (!list || list->type != KT__JSON_ARRAY || list->n == 0) return unknown_choice(err);
    kt_status status = KT_OK;
    for (const kt__json_node *kid = list->first; kid && status == KT_OK; kid = kid->next)
        status = allow_named(tools, named_in(kid), out, err);
    return status;
}

static kt_status read_choice(const kt__tools *tools, const kt__json_node *root,
                             kt__tool_choice *out, kt_error *err) {
    if (root->type == KT__JSON_NULL) return KT_OK;
    if (root->type == KT__JSON_STRING) {
        if (mode_named(root, &out->mode)) return KT_OK;
        out->mode = KT__TOOL_REQUIRED;
        return allow_named(tools, root, out, err);
    }
    const kt__json_node *type = choice_member(root, "type");
    if (!type) return unknown_choice(err);
    if (mode_named(type, &out->mode)) return KT_OK;
    if (kt__jdoc_is(type, "allowed_tools")) return read_allowed(tools, root, out, err);
    if (!kt__jdoc_is(type, "function") && !kt__jdoc_is(type, "tool")) return unknown_choice(err);
    out->mode = KT__TOOL_REQUIRED;
    return allow_named(tools, named_in(root), out, err);
}

kt_status kt__tool_choice_read(const kt__tools *tools, const char *json, size_t len,
                               kt__tool_choice *out, kt_error *err) {
    kt__arena arena;
    kt__json_node *root;
    *out = (kt__tool_choice){.mode = KT__TOOL_AUTO};
    if (len == 0) return KT_OK;
    kt__arena_init(&arena, 4096, 64 << 20);
    kt_status status;
    KT__TRY(kt__jdoc_parse(&arena, json, len, &root, err));
    KT__TRY(read_choice(tools, root, out, err));
    if (out->mode == KT__TOOL_REQUIRED && kt__tools_count(tools) == 0)
        status = kt__fail(err, KT_E_ARG, "tool_choice asks for a call, and there are no tools");
out:
    kt__arena_free(&arena);
    return status;
}
