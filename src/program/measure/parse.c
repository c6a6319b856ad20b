/* kentang parse: what a model wrote, as content, reasoning and tool calls; JSON lines. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "calls/calls.h" /* the parser itself: kentang.h has it for answers only */
#include "calls/prompt.h"
#include "chat/chat_template.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

enum { PARSE_MAX_LINE = 64 << 20, PARSE_MAX_TEMPLATE = 4 << 20 };

typedef struct parse_opts {
    const char *file;
} parse_opts;

static const kt__opt table[] = {
    {.name = "template",
     .kind = KT__OPT_TEXT,
     .at = offsetof(parse_opts, file),
     .arg = "FILE",
     .help = "a Jinja file, whose format the answers have, instead of a model's template"},
};

/* What the lines share. */
typedef struct parse_job {
    kt__chat_template *tmpl;
    kt__chat_params params;
    kt__call_style style;
} parse_job;

typedef struct parsed_call {
    char *id, *name;
    kt__buf args;
} parsed_call;

typedef struct parsed {
    kt__buf content, reasoning;
    parsed_call *calls;
    size_t n_calls, cap;
    bool failed;
} parsed;

/* ---- events ---- */

static void add_parsed_call(parsed *out, const kt__call_event *e) {
    if (!kt__vec_reserve(out->calls, out->cap, out->n_calls + 1)) {
        out->failed = true;
        return;
    }
    parsed_call *call = &out->calls[out->n_calls++];
    *call = (parsed_call){.id = kt__strdup(e->id), .name = kt__strdup(e->name)};
    kt__buf_init(&call->args, PARSE_MAX_LINE * 2u);
}

static void parsed_event(void *ctx, const kt__call_event *e) {
    parsed *out = ctx;
    parsed_call *call = e->index < out->n_calls ? &out->calls[e->index] : NULL;
    switch (e->kind) {
    case KT__CALL_CONTENT: kt__buf_append(&out->content, e->text, e->len); break;
    case KT__CALL_REASONING: kt__buf_append(&out->reasoning, e->text, e->len); break;
    case KT__CALL_BEGIN: add_parsed_call(out, e); break;
    case KT__CALL_ARGS:
        if (call) kt__buf_append(&call->args, e->text, e->len);
        break;
    case KT__CALL_END:
        if (!call) break;
        kt__free(call->id);
        call->id = kt__strdup(e->id);
        break;
    case KT__CALL_ASIDE: break;
    }
}

static void init_parsed(parsed *out) {
    *out = (parsed){0};
    kt__buf_init(&out->content, PARSE_MAX_LINE * 2u);
    kt__buf_init(&out->reasoning, PARSE_MAX_LINE * 2u);
}

static void free_parsed(parsed *out) {
    kt__buf_free(&out->content);
    kt__buf_free(&out->reasoning);
    for (size_t i = 0; i < out->n_calls; i++) {
        kt__free(out->calls[i].id);
        kt__free(out->calls[i].name);
        kt__buf_free(&out->calls[i].args);
    }
    kt__free(out->calls);
}

/* ---- output ---- */

static void put_buf(kt__buf *line, const char *key, const kt__buf *text) {
    kt__json_key(line, key);
    kt__json_string(line, text->data ? text->data : "", text->len, KT__JSON_PLAIN);
}

static void put_call(kt__buf *line, const parsed_call *call) {
    kt__buf_putc(line, '{');
    kt__json_member(line, "id", call->id);
    kt__json_member(line, "type", "function");
    kt__json_member(line, "name", call->name);
    put_buf(line, "arguments", &call->args);
    kt__json_key(line, "function");
    kt__buf_putc(line, '{');
    kt__json_member(line, "name", call->name);
    put_buf(line, "arguments", &call->args);
    kt__buf_puts(line, "}}");
}

static kt_status print_parsed(const parsed *out, kt_error *err) {
    kt__buf line;
    kt__buf_init(&line, PARSE_MAX_LINE * 8u);
    kt__buf_putc(&line, '{');
    put_buf(&line, "content", &out->content);
    put_buf(&line, "reasoning_content", &out->reasoning);
    kt__json_key(&line, "tool_calls");
    kt__buf_putc(&line, '[');
    for (size_t i = 0; i < out->n_calls; i++) {
        if (i > 0) kt__buf_putc(&line, ',');
        put_call(&line, &out->calls[i]);
    }
    kt__buf_puts(&line, "]}\n");
    kt_status status = line.failed || out->failed ? kt__fail_nomem(err, "a line", line.len) : KT_OK;
    if (status == KT_OK) fwrite(line.data, 1, line.len, stdout);
    kt__buf_free(&line);
    return status;
}

/* ---- a line ---- */

/* The end of the prompt that such an answer follows; one that the template refuses has none. */
static kt_status prompt_of(const parse_job *job, const json_t *options, const kt__tools *tools,
                           kt__chat_out *out, kt_error *err) {
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"Hello\"}]";
    const json_t *on = json_object_get(options, "enable_thinking");
    kt__reason_choice choice = json_is_true(on)    ? KT__REASON_ON
                               : json_is_false(on) ? KT__REASON_OFF
                                                   : KT__REASON_DEFAULT;
    kt__buf json;
    kt__buf_init(&json, PARSE_MAX_LINE);
    kt_status status = kt__call_prompt_json(&job->style, messages, sizeof messages - 1, tools,
                                            choice, &json, err);
    if (status == KT_OK)
        status = kt__chat_render_json(job->tmpl, json.data, json.len, &job->params, out, err);
    kt__buf_free(&json);
    if (status == KT_E_TEMPLATE) *out = (kt__chat_out){0};
    return status == KT_E_TEMPLATE ? KT_OK : status;
}

static kt_status feed_parser(kt__call_parser *parser, const json_t *options, const char *s,
                             size_t n, kt_error *err) {
    json_int_t cut = json_integer_value(json_object_get(options, "cut"));
    size_t first = cut > 0 && (size_t)cut < n ? (size_t)cut : n;
    KT__STEP(kt__call_feed(parser, s, first, err));
    KT__STEP(kt__call_feed(parser, s + first, n - first, err));
    if (json_is_true(json_object_get(options, "is_partial"))) return KT_OK;
    return kt__call_finish(parser, err);
}

static kt_status parse_text(const parse_job *job, const json_t *options, const json_t *text,
                            const kt__tools *tools, parsed *out, kt_error *err) {
    kt__chat_out prompt = {0};
    kt__call_parser *parser = NULL;
    const char *mode = json_string_value(json_object_get(options, "reasoning_format"));
    const json_t *parallel = json_object_get(options, "parallel_tool_calls");
    bool native = json_is_true(json_object_get(options, "native_calls"));
    bool split = !options || (mode && strcmp(mode, "none") != 0);
    kt__call_options how = {.tools = tools,
                            .reasoning = split ? KT__REASON_SPLIT : KT__REASON_KEEP,
                            .one_call = json_is_false(parallel),
                            .any_spelling = !native && !json_object_get(options, "json_schema"),
                            .json_content = json_object_get(options, "json_schema") != NULL};
    kt_status status = prompt_of(job, options, tools, &prompt, err);
    if (status == KT_OK) {
        kt__call_prompt_tail(&prompt, &how.prompt_tail, &how.prompt_tail_len);
        status = kt__call_parser_create(&job->style, &how, parsed_event, out, &parser, err);
    }
    if (status == KT_OK)
        status = feed_parser(parser, options, json_string_value(text), json_string_length(text),
                             err);
    kt__call_parser_free(parser);
    kt__chat_out_free(&prompt);
    return status;
}

static kt_status tools_of(const json_t *root, kt__tools **out, kt_error *err) {
    const json_t *list = json_object_get(root, "tools");
    *out = NULL;
    if (!list || json_is_null(list)) return KT_OK;
    char *text = json_dumps(list, JSON_ENCODE_ANY);
    if (!text) return kt__fail_nomem(err, "a list of tools", 0);
    kt_status status = kt__tools_read(text, strlen(text), out, err);
    free(text);
    return status;
}

static kt_status parse_line(const parse_job *job, const char *line, size_t len, kt_error *err) {
    json_error_t bad;
    json_t *root = json_loadb(line, len, JSON_ALLOW_NUL, &bad);
    const json_t *text = json_object_get(root, "text");
    kt__tools *tools = NULL;
    parsed out;
    init_parsed(&out);
    kt_status status;
    if (!json_is_string(text))
        KT__TRY(kt__fail(err, KT_E_FORMAT, "expected an object with \"text\""));
    KT__TRY(tools_of(root, &tools, err));
    KT__TRY(parse_text(job, json_object_get(root, "options"), text, tools, &out, err));
    KT__TRY(print_parsed(&out, err));
out:
    free_parsed(&out);
    kt__tools_free(tools);
    json_decref(root);
    return status;
}

static int parse_input(const parse_job *job) {
    kt_error err = {0};
    char *line = NULL;
    size_t len = 0;
    int code = 0, got = 0;
    for (long number = 1;
         code == 0 && (got = kt__cli_read_line(stdin, PARSE_MAX_LINE, &line, &len, &err)) > 0;
         number++) {
        bool blank = strspn(line, " \t\r") == len;
        if (!blank && parse_line(job, line, len, &err) != KT_OK)
            code = kt__cli_error("parse", err.code, NULL, "line %ld: %s%s%s", number, err.message,
                                 err.where[0] ? " at " : "", err.where);
        kt__free(line);
    }
    return got < 0 ? kt__cli_fail("parse", &err) : code;
}

/* ---- all ---- */

static int parse_with(const char *source, size_t len) {
    kt_error err = {0};
    parse_job job = {.params = {.bos_token = "",
                                .eos_token = "",
                                .now_local_s = kt__chat_now_local(),
                                .add_generation_prompt = true}};
    if (kt__chat_template_parse(source, len, &job.tmpl, &err) != KT_OK)
        return kt__cli_fail("parse", &err);
    job.style = kt__call_style_of(source, len);
    kt__call_style_probe(job.tmpl, &job.params, &job.style);
    fprintf(stderr, "format: %s, reasoning: %s\n", kt__call_style_name(&job.style),
            kt__call_style_reasoning(&job.style));
    if (kt__call_style_note(&job.style)) fprintf(stderr, "%s\n", kt__call_style_note(&job.style));
    int code = parse_input(&job);
    kt__chat_template_free(job.tmpl);
    return code;
}

static int parse_with_file(const char *file) {
    kt_error err = {0};
    char *source;
    size_t len;
    if (kt__cli_read_file(file, PARSE_MAX_TEMPLATE, &source, &len, &err) != KT_OK)
        return kt__cli_fail("parse", &err);
    int code = parse_with(source, len);
    kt__free(source);
    return code;
}

static int parse_with_model(const kt__config *opts) {
    kt_error err = {0};
    kt_ctx *ctx;
    kt_model *model;
    kt_model_info info;
    if (kt__command_open_model(opts, true, &ctx, &model, &err) != KT_OK)
        return kt__cli_fail("parse", &err);
    kt_model_get_info(model, &info);
    int code = info.template_ ? parse_with(info.template_, strlen(info.template_))
                              : kt__cli_error("parse", KT_E_UNSUPPORTED, "give one with --template",
                                              "the model has no chat template");
    kt_model_close(model);
    kt_ctx_close(ctx);
    return code;
}

static int parse_command(int argc, char **argv, kt__config *config) {
    parse_opts opts = {0};
    const kt__opt_group groups[] = {{"Parse", table, KT__COUNT(table), &opts},
                                    kt__setting_opts_one(config, "Model", KT__SETTING_model)};
    const kt__syntax syntax = {
        .command = "parse",
        .usage = "[OPTIONS]",
        .about =
            "Reads JSON lines {\"text\": ...} with what a model wrote and writes, for each, a "
            "line\n"
            "{\"content\": ..., \"reasoning_content\": ..., \"tool_calls\": [...]}. The format is "
            "that "
            "of\n"
            "the model's chat template. A line may have \"tools\", as OpenAI's interface has them, "
            "and\n"
            "\"options\": enable_thinking, parallel_tool_calls (true or false), reasoning_format\n"
            "(\"auto\" or \"none\"; with options and without it: none), is_partial (the answer "
            "goes\n"
            "on), json_schema (the content is JSON), cut (a byte at which the text arrives in two\n"
            "pieces: the result is the same).",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .notes =
            "Example:\n"
            "  echo '{\"text\": \"<think>Hm.</think>Yes.\"}' | kentang parse --template FILE\n"};
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, NULL, &n_words);
    if (code >= 0) return code;
    if (opts.file && config->model) return kt__cli_usage_error("parse", "give -m or --template");
    code = opts.file ? parse_with_file(opts.file) : parse_with_model(config);
    return kt__cli_finish("parse", code);
}

int kt__cmd_parse(int argc, char **argv) {
    return kt__with_settings(argc, argv, parse_command);
}
