/* What an answer is held to: response_format and its like, to a kt_constraint. */
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "mcp/rpc.h"
#include "wire/wire_value.h"

enum { MAX_CHOICES = 100000, MAX_FORM_BYTES = 4 << 20 };

/* The form that the answer is held to; a second one is refused. */
static kt_status set_form(const kt__wire_reader *r, const kt__wire_place *at, const kt_form *form) {
    kt__wire_request *request = r->request;
    if (request->req.constraint.n_forms > 0)
        return kt__wire_fail_at(r, KT_E_ARG, at, "an answer is held to one form, and %s is another",
                                request->form_at);
    kt_form *out = kt__arena_calloc(r->arena, 1, sizeof *out);
    char *path = kt__wire_path(r, at);
    if (!out || !path) return kt__wire_fail_nomem(r);
    *out = *form;
    request->form_at = path;
    request->req.constraint.forms = out;
    request->req.constraint.n_forms = 1;
    return KT_OK;
}

static kt_status hold_to_typed_schema(const kt__wire_reader *r, const kt__wire_place *at,
                                      const json_t *schema) {
    kt__buf text;
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return kt__wire_fail_type(r, at, "a JSON Schema", schema);
    kt__buf_init(&text, MAX_FORM_BYTES);
    kt_form form = {.kind = KT_FORM_JSON_SCHEMA};
    if (kt__json_write(&text, schema)) {
        form.text = kt__arena_strndup(r->arena, text.data, text.len);
        form.len = text.len;
    }
    kt__buf_free(&text);
    if (form.text) return set_form(r, at, &form);
    return kt__wire_fail_at(r, KT_E_LIMIT, at, "a schema of more than %d bytes",
                            (int)MAX_FORM_BYTES);
}

/* Whether a schema has properties and says nowhere else what the value is. */
static bool is_object_without_type(const json_t *schema) {
    static const char *const others[] = {"type",  "enum",  "const", "$ref", "allOf",
                                         "anyOf", "oneOf", "not",   "if"};
    if (!json_is_object(json_object_get(schema, "properties"))) return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (json_object_get(schema, others[i])) return false;
    return true;
}

static void type_objects(json_t *schema, int depth);

/* Of an object whose members are schemas by name, such as "properties". */
static void type_each(json_t *schemas, int depth) {
    const char *key;
    json_t *inner;
    json_object_foreach(schemas, key, inner) {
        type_objects(inner, depth + 1);
    }
}

/* Gives "type": "object" to schemas that have properties alone. By the specification any other value
 * fits them too; those who write them for an answer mean an object, which is what other servers make
 * of them. */
static void type_objects(json_t *schema, int depth) {
    static const char *const named[] = {"properties", "patternProperties", "$defs", "definitions"};
    static const char *const single[] = {"items", "additionalProperties", "not", "if", "then",
                                         "else"};
    static const char *const lists[] = {"allOf", "anyOf", "oneOf", "prefixItems"};
    json_t *inner;
    size_t k;
    if (depth > KT__WIRE_MAX_DEPTH || !json_is_object(schema)) return;
    if (is_object_without_type(schema)) json_object_set_new(schema, "type", json_string("object"));
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        type_each(json_object_get(schema, named[i]), depth);
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        type_objects(json_object_get(schema, single[i]), depth + 1);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_array_foreach(json_object_get(schema, lists[i]), k, inner) {
            type_objects(inner, depth + 1);
        }
    }
}

static kt_status hold_to_schema(const kt__wire_reader *r, const kt__wire_place *at,
                                const json_t *given) {
    json_t *schema = json_deep_copy(given);
    kt_status status = schema ? KT_OK : kt__wire_fail_nomem(r);
    if (schema) {
        type_objects(schema, 0);
        status = hold_to_typed_schema(r, at, schema);
    }
    json_decref(schema);
    return status;
}

static kt_status hold_to_text(const kt__wire_reader *r, const json_t *body, const char *key,
                              kt_form_kind kind) {
    const kt__wire_place at = {.key = key};
    const json_t *v = kt__wire_member(body, key);
    kt_form form = {.kind = kind};
    char *text;
    if (!v || kt__wire_is_empty(v)) return KT_OK;
    kt_status status = kt__wire_read_string(r, &at, v, &text, &form.len);
    form.text = text;
    return status == KT_OK ? set_form(r, &at, &form) : status;
}

static kt_status hold_to_choice(const kt__wire_reader *r, const json_t *body, const char *key) {
    const kt__wire_place at = {.key = key};
    const json_t *v = kt__wire_member(body, key);
    kt_form form = {.kind = KT_FORM_CHOICE};
    if (!v) return KT_OK;
    kt_status status = kt__wire_read_strings(r, &at, v, MAX_CHOICES, &form.choices,
                                             &form.n_choices);
    if (status == KT_OK && form.n_choices == 0)
        return kt__wire_fail_at(r, KT_E_ARG, &at, "a choice of nothing");
    return status == KT_OK ? set_form(r, &at, &form) : status;
}

/* {"name", "schema", "strict"}: enforced whatever "strict" says. */
static kt_status hold_to_named_schema(const kt__wire_reader *r, const kt__wire_place *up,
                                      const json_t *named) {
    const kt__wire_place at = {.up = up, .key = "json_schema"},
                         schema_at = {.up = &at, .key = "schema"},
                         strict_at = {.up = &at, .key = "strict"};
    const json_t *schema = kt__wire_member(named, "schema"),
                 *strict = kt__wire_member(named, "strict");
    bool unused;
    if (!json_is_object(named)) return kt__wire_fail_type(r, &at, "an object", named);
    kt_status status = strict ? kt__wire_read_bool(r, &strict_at, strict, &unused) : KT_OK;
    if (status != KT_OK) return status;
    if (!schema) return kt__wire_fail_at(r, KT_E_ARG, &schema_at, "is missing");
    return hold_to_schema(r, &schema_at, schema);
}

/* json_schema as OpenAI has it, or with "schema" next to "type", as others have. */
static kt_status hold_to_response_schema(const kt__wire_reader *r, const kt__wire_place *at,
                                         const json_t *v) {
    const kt__wire_place bare_at = {.up = at, .key = "schema"},
                         named_at = {.up = at, .key = "json_schema"};
    const json_t *named = kt__wire_member(v, "json_schema"), *bare = kt__wire_member(v, "schema");
    if (named) return hold_to_named_schema(r, at, named);
    if (bare) return hold_to_schema(r, &bare_at, bare);
    return kt__wire_fail_at(r, KT_E_ARG, &named_at, "is missing");
}

static kt_status read_response_format(const kt__wire_reader *r, const json_t *body) {
    const kt__wire_place at = {.key = "response_format"}, type_at = {.up = &at, .key = "type"};
    const json_t *v = kt__wire_member(body, "response_format");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return kt__wire_fail_type(r, &at, "an object", v);
    const json_t *type = kt__wire_member(v, "type");
    if (!type) return kt__wire_fail_at(r, KT_E_ARG, &type_at, "is missing");
    if (!json_is_string(type)) return kt__wire_fail_type(r, &type_at, "a string", type);
    const char *name = json_string_value(type);
    if (!strcmp(name, "text")) return KT_OK;
    if (!strcmp(name, "json_schema")) return hold_to_response_schema(r, &at, v);
    if (!strcmp(name, "json_object")) {
        if (kt__wire_member(v, "schema")) return hold_to_response_schema(r, &at, v);
        return set_form(r, &at, &(kt_form){.kind = KT_FORM_JSON_OBJECT});
    }
    return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &type_at,
                            "\"%.40s\" is not one of \"text\", \"json_object\" and \"json_schema\"",
                            name);
}

/* A schema as JSON, or as vLLM's clients send it too, as a text. */
static kt_status hold_to_schema_field(const kt__wire_reader *r, const json_t *body,
                                      const char *key) {
    const kt__wire_place at = {.key = key};
    const json_t *v = kt__wire_member(body, key);
    if (!v) return KT_OK;
    if (json_is_string(v)) return hold_to_text(r, body, key, KT_FORM_JSON_SCHEMA);
    return hold_to_schema(r, &at, v);
}

/* vLLM's {"json", "regex", "choice", "grammar", "json_object"}: one of ours by another name. */
static kt_status read_structured_outputs(const kt__wire_reader *r, const json_t *body) {
    const kt__wire_place at = {.key = "structured_outputs"};
    const json_t *v = kt__wire_member(body, "structured_outputs");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return kt__wire_fail_type(r, &at, "an object", v);
    KT__STEP(hold_to_schema_field(r, v, "json"));
    KT__STEP(hold_to_text(r, v, "regex", KT_FORM_REGEX));
    KT__STEP(hold_to_text(r, v, "grammar", KT_FORM_GRAMMAR));
    KT__STEP(hold_to_choice(r, v, "choice"));
    if (!json_is_true(kt__wire_member(v, "json_object"))) return KT_OK;
    return set_form(r, &at, &(kt_form){.kind = KT_FORM_JSON_OBJECT});
}

kt_status kt__wire_read_constraint(const kt__wire_reader *r, const json_t *body) {
    const kt__wire_place at = {.key = "json_schema"};
    const json_t *schema = kt__wire_member(body, "json_schema");
    KT__STEP(read_response_format(r, body));
    if (schema) KT__STEP(hold_to_schema(r, &at, schema));
    KT__STEP(hold_to_text(r, body, "grammar", KT_FORM_GRAMMAR));
    KT__STEP(hold_to_text(r, body, "regex", KT_FORM_REGEX));
    KT__STEP(hold_to_choice(r, body, "choice"));
    KT__STEP(read_structured_outputs(r, body));
    KT__STEP(hold_to_schema_field(r, body, "guided_json"));
    KT__STEP(hold_to_text(r, body, "guided_regex", KT_FORM_REGEX));
    KT__STEP(hold_to_text(r, body, "guided_grammar", KT_FORM_GRAMMAR));
    return hold_to_choice(r, body, "guided_choice");
}
