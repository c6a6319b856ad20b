#include "mcp/server.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* ---- the table; clients and models read these texts ---- */

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"string\",\"description\":\"Which model; see list_models. Default: the " \
    "first.\"}"
#define ADAPTER                                                                                    \
    "\"adapter\":{\"type\":[\"string\",\"object\",\"array\"],\"description\":\"An adapter of the " \
    "model by its name (see list_models), {name, scale}, several in an array, or none.\"}"
#define MAX_TOKENS                                                                          \
    "\"max_tokens\":{\"type\":\"integer\",\"minimum\":1,\"description\":\"Longest answer. " \
    "Default: 512.\"}"
#define SEED "\"seed\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"Repeats an answer.\"}"
#define USAGE                                                                                  \
    "\"usage\":{\"type\":\"object\",\"properties\":{\"prompt_tokens\":{\"type\":\"integer\"}," \
    "\"completion_tokens\":{\"type\":\"integer\"}},\"required\":[\"prompt_tokens\","           \
    "\"completion_tokens\"]}"
#define ANSWERED_BY "\"model\":{\"type\":\"string\"}"

static const char generate_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"prompt\":{\"type\":\"string\",\"description\":\"What to say to the model.\"},"
    "\"system\":{\"type\":\"string\",\"description\":\"Instructions for the model.\"},"
    "\"messages\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
    "\"role\":{\"type\":\"string\",\"enum\":[\"system\",\"user\",\"assistant\"]},"
    "\"content\":{\"type\":\"string\"}},\"required\":[\"role\",\"content\"]},"
    "\"description\":\"A conversation, instead of prompt.\"}," MAX_TOKENS ","
    "\"temperature\":{\"type\":\"number\",\"minimum\":0,\"description\":\"0: the most probable "
    "text.\"},"
    "\"stop\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"Texts that end "
    "the answer.\"}," SEED "," MODEL "," ADAPTER "},\"additionalProperties\":false}";
static const char generate_output[] =
    "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},"
    "\"finish\":{\"type\":\"string\",\"enum\":[\"stop\",\"length\",\"deadline\"]},"
    "\"seed\":{\"type\":\"integer\"}," ANSWERED_BY "," USAGE
    "},\"required\":[\"text\",\"finish\",\"model\",\"usage\"]}";

static const char extract_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"text\":{\"type\":\"string\",\"description\":\"The text that is read.\"},"
    "\"schema\":{\"type\":[\"object\",\"boolean\"],\"description\":\"A JSON Schema (2020-12 or an "
    "earlier draft) that the value will fit.\"},"
    "\"instructions\":{\"type\":\"string\",\"description\":\"What to look for, in a "
    "sentence.\"}," MAX_TOKENS "," SEED "," MODEL "," ADAPTER
    "},\"required\":[\"text\",\"schema\"],\"additionalProperties\":false}";
static const char extract_output[] = "{\"type\":\"object\",\"properties\":{\"value\":{"
                                     "\"description\":\"Fits the schema.\"}," ANSWERED_BY "," USAGE
                                     "},\"required\":[\"value\",\"model\",\"usage\"]}";

static const char embed_input[] = "{\"type\":\"object\",\"properties\":{"
                                  "\"input\":{\"type\":[\"string\",\"array\"],\"items\":{\"type\":"
                                  "\"string\"},\"description\":\"A "
                                  "text, or several.\"}," MODEL "," ADAPTER
                                  "},\"required\":[\"input\"],\"additionalProperties\":false}";
static const char embed_output[] =
    "{\"type\":\"object\",\"properties\":{\"embeddings\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"array\",\"items\":{\"type\":\"number\"}}}," ANSWERED_BY "," USAGE
    "},\"required\":[\"embeddings\",\"model\",\"usage\"]}";

static const char count_input[] =
    "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}," MODEL
    "},\"required\":[\"text\"],\"additionalProperties\":false}";
static const char count_output[] =
    "{\"type\":\"object\",\"properties\":{\"tokens\":{\"type\":\"integer\"}," ANSWERED_BY
    "},\"required\":[\"tokens\",\"model\"]}";

static const char list_input[] = "{\"type\":\"object\",\"additionalProperties\":false}";
static const char list_output[] =
    "{\"type\":\"object\",\"properties\":{\"models\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"loaded\":{\"type\":\"boolean\"},"
    "\"context_length\":{\"type\":\"integer\"},\"adapters\":{\"type\":\"array\",\"items\":{"
    "\"type\":"
    "\"string\"}}},\"required\":[\"name\",\"loaded\"]}}},"
    "\"required\":[\"models\"]}";

static const kt__mcp_tool server_tools[] = {
    {KT__MCP_GENERATES, "generate", "Generate text",
     "Answers a prompt or continues a conversation, by a language model that runs on this "
     "machine.",
     generate_input, generate_output},
    {KT__MCP_EXTRACTS, "extract", "Extract data",
     "Reads a text and answers with a JSON value that fits the given JSON Schema; every answer "
     "fits, since the model can write nothing else.",
     extract_input, extract_output},
    {KT__MCP_EMBEDS, "embed", "Embed texts",
     "Vectors of texts, of length 1, for comparing their meaning by dot products.", embed_input,
     embed_output},
    {KT__MCP_COUNTS, "count_tokens", "Count tokens",
     "How many tokens a text is for a model, without what a chat template adds.", count_input,
     count_output},
    {KT__MCP_LISTS, "list_models", "List models", "The models that are served here.", list_input,
     list_output},
};

const kt__mcp_tool *kt__mcp_tool_find(const char *name) {
    for (size_t i = 0; i < sizeof server_tools / sizeof server_tools[0]; i++) {
        if (!strcmp(server_tools[i].name, name)) return &server_tools[i];
    }
    return NULL;
}

void kt__mcp_tools_write(kt__buf *out) {
    (void)kt__buf_puts(out, "\"tools\":[");
    for (size_t i = 0; i < sizeof server_tools / sizeof server_tools[0]; i++) {
        const kt__mcp_tool *t = &server_tools[i];
        (void)kt__buf_puts(out, i ? ",{" : "{");
        kt__json_member(out, "name", t->name);
        kt__json_member(out, "title", t->title);
        kt__json_member(out, "description", t->description);
        (void)kt__buf_printf(out, ",\"inputSchema\":%s,\"outputSchema\":%s,", t->input, t->output);
        (void)kt__buf_puts(out, "\"annotations\":{\"readOnlyHint\":true,\"destructiveHint\":false,"
                                "\"openWorldHint\":false}}");
    }
    (void)kt__buf_putc(out, ']');
}

/* ---- arguments ---- */

static bool has_json_type(const json_t *v, const char *type) {
    if (!strcmp(type, "string")) return json_is_string(v);
    if (!strcmp(type, "array")) return json_is_array(v);
    if (!strcmp(type, "object")) return json_is_object(v);
    if (!strcmp(type, "boolean")) return json_is_boolean(v);
    if (!strcmp(type, "number")) return json_is_number(v);
    return json_is_integer(v) ||
           (json_is_real(v) && json_real_value(v) == (double)(int64_t)json_real_value(v));
}

static bool fits_type(const json_t *v, const json_t *type) {
    size_t i;
    const json_t *one;
    if (json_is_string(type)) return has_json_type(v, json_string_value(type));
    json_array_foreach(type, i, one) {
        if (has_json_type(v, json_string_value(one))) return true;
    }
    return !type;
}

static kt_status check_argument(const json_t *schema, const char *name, const json_t *v,
                                kt_error *err) {
    const json_t *expected = json_object_get(json_object_get(schema, "properties"), name);
    if (!expected)
        return kt__fail_at(err, KT_E_ARG, name, UINT64_MAX, "%.60s: there is no such argument",
                           name);
    if (fits_type(v, json_object_get(expected, "type"))) return KT_OK;
    char *type = json_dumps(json_object_get(expected, "type"), JSON_ENCODE_ANY);
    kt_status status = kt__fail_at(err, KT_E_ARG, name, UINT64_MAX, "%.60s: expected %.60s", name,
                                   type ? type : "another type");
    free(type);
    return status;
}

static kt_status check_arguments(const json_t *schema, const json_t *args, kt_error *err) {
    const char *name;
    const json_t *v;
    size_t i;
    json_t *mutable_args = (json_t *)(uintptr_t)args; /* jansson's iterators want it; read only */
    json_array_foreach(json_object_get(schema, "required"), i, v) {
        name = json_string_value(v);
        if (!json_object_get(args, name))
            return kt__fail_at(err, KT_E_ARG, name, UINT64_MAX, "%s: this argument is missing",
                               name);
    }
    json_object_foreach(mutable_args, name, v) {
        kt_status status = check_argument(schema, name, v, err);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

/* A prompt or messages, and all inputs are texts: what types alone do not say. */
static kt_status check_subject(const kt__mcp_tool *tool, const json_t *args, kt_error *err) {
    const json_t *input = json_object_get(args, "input"), *v;
    size_t i;
    bool prompt = json_object_get(args, "prompt"), messages = json_object_get(args, "messages");
    if (tool->does == KT__MCP_GENERATES && prompt == messages)
        return kt__fail_at(err, KT_E_ARG, "prompt", UINT64_MAX,
                           "prompt: give either prompt or messages");
    if (tool->does == KT__MCP_GENERATES && messages && json_object_get(args, "system"))
        return kt__fail_at(err, KT_E_ARG, "system", UINT64_MAX,
                           "system: with messages it is one of them");
    if (tool->does != KT__MCP_EMBEDS) return KT_OK;
    if (json_is_array(input) ? !json_array_size(input) : !json_string_length(input))
        return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX, "input: it is empty");
    json_array_foreach(input, i, v) {
        if (!json_string_length(v))
            return kt__fail_at(err, KT_E_ARG, "input", UINT64_MAX,
                               "input[%zu]: expected a text that is not empty", i);
    }
    return KT_OK;
}

kt_status kt__mcp_tool_check(const kt__mcp_tool *tool, const json_t *args, kt_error *err) {
    json_t *schema = json_loads(tool->input, 0, NULL);
    if (!schema) return kt__fail_nomem(err, "a schema", strlen(tool->input));
    kt_status status = check_arguments(schema, args, err);
    json_decref(schema);
    return status == KT_OK ? check_subject(tool, args, err) : status;
}

/* ---- requests ---- */

static json_t *said_by(const char *role, const char *text) {
    return json_pack("{s:s,s:s}", "role", role, "content", text);
}

static json_t *generate_messages(const json_t *args) {
    json_t *given = json_object_get(args, "messages");
    const char *system = json_string_value(json_object_get(args, "system"));
    if (given) return json_incref(given);
    json_t *list = json_array();
    if (system) json_array_append_new(list, said_by("system", system));
    json_array_append_new(list,
                          said_by("user", json_string_value(json_object_get(args, "prompt"))));
    return list;
}

/* The schema is in the prompt as well: the constraint says what may be written, not what was
 * meant. */
static json_t *extract_messages(const json_t *args) {
    const char *wanted = json_string_value(json_object_get(args, "instructions"));
    const char *text = json_string_value(json_object_get(args, "text"));
    char *schema = json_dumps(json_object_get(args, "schema"), JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *prompt = schema ? json_sprintf("%s%sText:\n%s\n\nAnswer with one JSON value that fits "
                                           "this JSON Schema, from what the text says:\n%s",
                                           wanted ? wanted : "", wanted ? "\n\n" : "", text, schema)
                            : NULL;
    json_t *list = prompt ? json_pack("[{s:s,s:O}]", "role", "user", "content", prompt) : NULL;
    json_decref(prompt);
    free(schema);
    return list;
}

static void copy_argument(json_t *to, const json_t *args, const char *name) {
    json_t *v = json_object_get(args, name);
    if (v) (void)json_object_set(to, name, v);
}

json_t *kt__mcp_tool_request(const kt__mcp_tool *tool, const json_t *args) {
    static const char *const same[] = {"model", "max_tokens", "temperature",
                                       "seed",  "stop",       "adapter"};
    bool extracts = tool->does == KT__MCP_EXTRACTS;
    json_t *messages = extracts ? extract_messages(args) : generate_messages(args);
    json_t *body = json_pack("{s:o,s:i}", "messages", messages, "max_tokens",
                             (int)KT__MCP_DEFAULT_TOKENS);
    for (size_t i = 0; body && i < sizeof same / sizeof same[0]; i++)
        copy_argument(body, args, same[i]);
    return body;
}
