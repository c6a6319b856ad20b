/* serve: JSON to requests and back. Every known field lands where it belongs, every wrong one is
 * refused with its path, nothing that kentang cannot do is ignored, and failing allocations leave
 * nothing behind. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/json.h"
#include "heap_watch.h"
#include "wire/wire.h"

static const kt_request_params *defaults(void) {
    static kt_request_params request;
    request = (kt_request_params){.gen = kt_gen_params_default(), .n_choices = 1, .logprobs.n = -1};
    return &request;
}

static kt__wire_request *read_ok(kt__wire_form form, const char *json) {
    kt_error err;
    kt__wire_request *r = NULL;
    kt_status status = kt__wire_read(form, json, strlen(json), defaults(), &r, &err);
    if (status != KT_OK) fail_msg("%s: %s", json, err.message);
    return r;
}

static void refused(kt__wire_form form, const char *json, kt_status expected, const char *where) {
    kt_error err;
    kt__wire_request *r = NULL;
    kt_status status = kt__wire_read(form, json, strlen(json), defaults(), &r, &err);
    if (status != expected || strcmp(err.where, where) != 0 || r) {
        fail_msg("%s: %s at \"%s\" (%s), expected %s at \"%s\"", json, kt_status_name(status),
                 status == KT_OK ? "" : err.where, status == KT_OK ? "" : err.message,
                 kt_status_name(expected), where);
    }
    assert_true(err.message[0] != '\0');
}

/* A conversation that begins with a call. */
#define CALLING(arguments)                                                                   \
    "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\"," \
    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}]}"

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"

/* ---- what is read ---- */

static void test_calls_and_reasoning(void **state) {
    (void)state;
    kt__wire_request *r = read_ok(
        KT__WIRE_CHAT,
        CALLING("\"{\\\"x\\\": 1}\"") ",{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":"
                                      "\"42\"},{\"role\":\"assistant\",\"content\":\"so\","
                                      "\"reasoning\":\"hm\"}],\"tools\":[{"
                                      "\"name\":\"f\"}],\"tool_choice\":{\"type\":\"tool\","
                                      "\"name\":\"f\"},"
                                      "\"parallel_tool_calls\":false,\"reasoning_effort\":"
                                      "\"minimal\",\"reasoning_budget\":7,"
                                      "\"loop_tokens\":64,\"chat_template_kwargs\":{\"x\":1}}");
    assert_null(r->req.prompt.messages);
    assert_string_equal(
        r->req.prompt.chat_json,
        "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"a\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},{\"role\":\"tool\","
        "\"content\":\"42\",\"tool_call_id\":\"a\",\"name\":\"f\"},{\"role\":\"assistant\","
        "\"content\":\"so\",\"reasoning_content\":\"hm\"}]");
    assert_string_equal(r->req.calls.tools, "[{\"name\":\"f\"}]");
    assert_string_equal(r->req.calls.choice, "{\"type\":\"tool\",\"name\":\"f\"}");
    assert_string_equal(r->req.prompt.template_vars, "{\"enable_thinking\":true,\"thinking\":true,"
                                                     "\"reasoning_effort\":\"low\",\"x\":1}");
    assert_true(r->req.calls.one && r->req.parts.split);
    assert_int_equal(r->req.parts.reasoning_budget, 7);
    assert_int_equal(r->req.gen.loop_tokens, 64);
    kt__wire_request_free(r);
    r = read_ok(KT__WIRE_CHAT, "{" HELLO ",\"reasoning_budget\":0,\"tool_choice\":\"none\"}");
    assert_int_equal(r->req.parts.reasoning_budget, -1);
    assert_null(r->req.calls.choice);
    assert_string_equal(r->req.prompt.template_vars,
                        "{\"enable_thinking\":false,\"thinking\":false}");
    kt__wire_request_free(r);
    r = read_ok(KT__WIRE_NATIVE, "{\"prompt\":\"x\"}");
    assert_false(r->req.parts.split);
    kt__wire_request_free(r);
}

static void test_the_least(void **state) {
    (void)state;
    kt__wire_request *r = read_ok(KT__WIRE_CHAT, "{" HELLO "}");
    assert_int_equal(r->req.prompt.n_messages, 1);
    assert_string_equal(r->req.prompt.messages[0].role, "user");
    assert_string_equal(r->req.prompt.messages[0].content, "hello");
    assert_null(r->req.prompt.text);
    assert_null(r->req.prompt.ids);
    assert_int_equal(r->req.n_choices, 1);
    assert_int_equal(r->req.logprobs.n, -1);
    assert_false(r->stream);
    assert_false(r->req.service.exact_kv);
    assert_false(r->req.service.no_cache);
    assert_true(r->req.gen.sampling.seed == KT_SEED_RANDOM);
    kt_sampling usual = kt_sampling_default();
    assert_memory_equal(&r->req.gen.sampling, &usual, sizeof usual);
    kt__wire_request_free(r);
    kt__wire_request_free(NULL);
}

static void test_all_of_openai(void **state) {
    (void)state;
    kt__wire_request *r = read_ok(
        KT__WIRE_CHAT,
        "{\"model\":\"m\",\"user\":\"u\",\"messages\":[{\"role\":\"developer\",\"content\":\"be\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
        "\"text\":\"b\"}],\"name\":\"x\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
        "]},"
        "{\"role\":\"tool\",\"content\":\"42\"}],\"temperature\":0,"
        "\"top_p\":0.5,\"n\":3,\"stop\":[\"x\",\"\",\"yy\"],\"seed\":17,\"max_tokens\":9,"
        "\"max_completion_tokens\":8.0,\"logprobs\":true,\"top_logprobs\":4,"
        "\"logit_bias\":{\"50256\":-100,\"7\":1.5},\"frequency_penalty\":0.25,"
        "\"presence_penalty\":-0.5,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"response_format\":{\"type\":\"text\"},\"tools\":[],\"tool_choice\":\"auto\","
        "\"modalities\":[\"text\"],\"metadata\":{\"a\":1},\"nobody_knows\":[1,{\"b\":2}],"
        "\"top_k\":null}");
    const kt_request_params *q = &r->req;
    assert_string_equal(r->model, "m");
    assert_string_equal(r->user, "u");
    assert_int_equal(q->prompt.n_messages, 4);
    assert_string_equal(q->prompt.messages[0].role, "system");
    assert_string_equal(q->prompt.messages[1].content, "a\nb");
    assert_string_equal(q->prompt.messages[2].content, "");
    assert_string_equal(q->prompt.messages[3].role, "tool");
    assert_true(q->gen.sampling.temperature == 0.0f && q->gen.sampling.top_p == 0.5f);
    assert_int_equal(q->n_choices, 3);
    assert_int_equal(q->gen.n_stop, 2);
    assert_string_equal(q->gen.stop[1], "yy");
    assert_true(q->gen.sampling.seed == 17);
    assert_int_equal(q->gen.n_predict, 8);
    assert_int_equal(q->logprobs.n, 4);
    assert_int_equal(q->gen.sampling.n_logit_bias, 2);
    assert_int_equal(q->gen.sampling.logit_bias[0].id, 50256);
    assert_true(q->gen.sampling.logit_bias[1].bias == 1.5f);
    assert_true(q->gen.sampling.frequency_penalty == 0.25f);
    assert_true(q->gen.sampling.presence_penalty == -0.5f);
    assert_true(r->stream && r->include_usage);
    assert_int_equal(q->gen.sampling.top_k, 40);
    kt__wire_request_free(r);
}

static void test_forms_of_answers(void **state) {
    (void)state;
    static const struct {
        const char *field, *at, *text;
        kt_form_kind kind;
    } rows[] = {
        {"\"response_format\":{\"type\":\"json_object\"}", "response_format", NULL,
         KT_FORM_JSON_OBJECT},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"strict\":"
         "false,\"schema\":{\"type\": \"null\"}}}",
         "response_format.json_schema.schema", "{\"type\":\"null\"}", KT_FORM_JSON_SCHEMA},
        {"\"response_format\":{\"type\":\"json_schema\",\"schema\":true}", "response_format.schema",
         "true", KT_FORM_JSON_SCHEMA},
        {"\"response_format\":{\"type\":\"json_object\",\"schema\":{}}", "response_format.schema",
         "{}", KT_FORM_JSON_SCHEMA},
        {"\"json_schema\":{\"minimum\":0.5}", "json_schema", "{\"minimum\":0.5}",
         KT_FORM_JSON_SCHEMA},
        {"\"grammar\":\"root ::= [a]\"", "grammar", "root ::= [a]", KT_FORM_GRAMMAR},
        {"\"regex\":\"a+\",\"grammar\":\"\"", "regex", "a+", KT_FORM_REGEX},
        {"\"choice\":[\"a\",\"b\"]", "choice", NULL, KT_FORM_CHOICE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[400];
        snprintf(body, sizeof body, "{" HELLO ",%s}", rows[i].field);
        kt__wire_request *r = read_ok(KT__WIRE_CHAT, body);
        const kt_constraint *c = &r->req.constraint;
        assert_int_equal(c->n_forms, 1);
        assert_int_equal(c->forms->kind, rows[i].kind);
        assert_string_equal(r->form_at, rows[i].at);
        if (rows[i].text) assert_string_equal(c->forms->text, rows[i].text);
        if (rows[i].kind == KT_FORM_CHOICE) assert_int_equal(c->forms->n_choices, 2);
        kt__wire_request_free(r);
    }
}

static void test_all_of_llama_cpp(void **state) {
    (void)state;
    kt__wire_request *r = read_ok(
        KT__WIRE_NATIVE,
        "{\"id\":\"q1\",\"prompt\":\"once\",\"n_predict\":5,\"top_k\":3,\"min_p\":0.1,"
        "\"typical_p\":0.9,\"repeat_penalty\":1.1,\"repeat_last_n\":-1,\"dry_multiplier\":0.8,"
        "\"dry_base\":2,\"dry_allowed_length\":3,\"dry_penalty_last_n\":99,"
        "\"dry_sequence_breakers\":[\"\\n\"],\"xtc_probability\":0.5,\"xtc_threshold\":0.2,"
        "\"mirostat\":2,\"mirostat_tau\":4,\"mirostat_eta\":0.2,\"dynatemp_range\":0.5,"
        "\"dynatemp_exponent\":2,\"top_n_sigma\":1.5,\"min_keep\":2,\"ignore_eos\":true,"
        "\"cache_prompt\":false,\"exact_kv\":true,\"n_probs\":5,\"samplers\":[\"top_k\",\"temperature\"],"
        "\"logit_bias\":[[5,false],[6,-1]],\"priority\":-3,\"deadline_ms\":1500,\"seed\":-1}");
    const kt_request_params *q = &r->req;
    const kt_sampling *s = &q->gen.sampling;
    assert_true(q->service.exact_kv);
    assert_string_equal(r->id, "q1");
    assert_string_equal(q->prompt.text, "once");
    assert_int_equal(q->prompt.text_len, 4);
    assert_int_equal(q->prompt.text_flags, KT_TOK_ADD_SPECIAL | KT_TOK_PARSE_SPECIAL);
    assert_int_equal(q->gen.n_predict, 5);
    assert_int_equal(s->top_k, 3);
    assert_true(s->min_p == 0.1f && s->typical_p == 0.9f && s->repeat_penalty == 1.1f);
    assert_int_equal(s->repeat_last_n, -1);
    assert_true(s->dry_multiplier == 0.8f && s->dry_base == 2.0f);
    assert_int_equal(s->dry_allowed_length, 3);
    assert_int_equal(s->dry_penalty_last_n, 99);
    assert_int_equal(s->n_dry_breakers, 1);
    assert_true(s->xtc_probability == 0.5f && s->xtc_threshold == 0.2f);
    assert_int_equal(s->mirostat, 2);
    assert_true(s->mirostat_tau == 4.0f && s->mirostat_eta == 0.2f);
    assert_true(s->dynatemp_range == 0.5f && s->dynatemp_exponent == 2.0f);
    assert_true(s->top_n_sigma == 1.5f);
    assert_int_equal(s->min_keep, 2);
    assert_true(q->gen.ignore_eog);
    assert_true(q->service.no_cache);
    assert_int_equal(q->logprobs.n, 5);
    assert_string_equal(s->chain, "top_k;temperature");
    assert_true(isinf(s->logit_bias[0].bias) && s->logit_bias[0].bias < 0);
    assert_int_equal(q->service.priority, -3);
    assert_int_equal(q->service.deadline_ms, 1500);
    assert_true(s->seed == KT_SEED_RANDOM);
    kt__wire_request_free(r);
}

static void test_prompts(void **state) {
    (void)state;
    kt__wire_request *r = read_ok(KT__WIRE_TEXT, "{\"prompt\":[1,2,3],\"logprobs\":0}");
    assert_int_equal(r->req.prompt.n_ids, 3);
    assert_int_equal(r->req.prompt.ids[2], 3);
    assert_int_equal(r->req.logprobs.n, 0);
    kt__wire_request_free(r);
    r = read_ok(KT__WIRE_TEXT, "{\"prompt\":[\"one\"]}");
    assert_string_equal(r->req.prompt.text, "one");
    kt__wire_request_free(r);
    r = read_ok(KT__WIRE_NATIVE, "{" HELLO "}");
    assert_int_equal(r->req.prompt.n_messages, 1);
    kt__wire_request_free(r);
    r = read_ok(KT__WIRE_TEXT, "{\"prompt\":[\"one\",[7,8],\"\"]}");
    assert_int_equal(r->n_prompts, 3);
    assert_string_equal(r->req.prompt.text, "one");
    kt_request_params second = r->req;
    kt__wire_set_prompt(r, 1, &second);
    assert_null(second.prompt.text);
    assert_int_equal(second.prompt.n_ids, 2);
    assert_int_equal(second.prompt.ids[1], 8);
    kt__wire_request_free(r);
    refused(KT__WIRE_NATIVE, "{\"prompt\":[\"one\",\"two\"]}", KT_E_UNSUPPORTED, "prompt");
    refused(KT__WIRE_TEXT, "{\"prompt\":[[[1]]]}", KT_E_ARG, "prompt[0][0]");
    refused(KT__WIRE_TEXT, "{\"prompt\":[\"one\",[]]}", KT_E_ARG, "prompt[1]");
    refused(KT__WIRE_TEXT, "{\"prompt\":[\"one\",3]}", KT_E_ARG, "prompt[1]");
    refused(KT__WIRE_TEXT, "{\"prompt\":[1,\"two\"]}", KT_E_ARG, "prompt[1]");
    refused(KT__WIRE_TEXT, "{\"prompt\":[-1]}", KT_E_ARG, "prompt[0]");
    refused(KT__WIRE_TEXT, "{\"prompt\":[]}", KT_E_ARG, "prompt");
    refused(KT__WIRE_NATIVE, "{\"prompt\":\"a\"," HELLO "}", KT_E_ARG, "prompt");
    refused(KT__WIRE_TEXT, "{\"prompt\":\"a\"," HELLO "}", KT_E_ARG, "prompt");
    refused(KT__WIRE_TEXT, "{" HELLO "}", KT_E_ARG, "messages");
    refused(KT__WIRE_NATIVE, "{}", KT_E_ARG, "prompt");
    refused(KT__WIRE_CHAT, "{\"prompt\":\"a\"}", KT_E_ARG, "messages");
}

/* "system" beside the messages is the first of them, in this form alone. */
static void test_system(void **state) {
    (void)state;
    kt__wire_request *r = read_ok(KT__WIRE_SYSTEM, "{\"system\":\"be\"," HELLO "}");
    assert_int_equal(r->req.prompt.n_messages, 2);
    assert_string_equal(r->req.prompt.messages[0].role, "system");
    assert_string_equal(r->req.prompt.messages[0].content, "be");
    assert_string_equal(r->req.prompt.messages[1].content, "hello");
    kt__wire_request_free(r);
    r = read_ok(KT__WIRE_SYSTEM,
                "{\"system\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
                "\"text\":\"b\"}]," HELLO "}");
    assert_string_equal(r->req.prompt.messages[0].content, "a\nb");
    kt__wire_request_free(r);
    static const char *const none[] = {"{\"system\":\"\"," HELLO "}", "{\"system\":null," HELLO "}",
                                       "{\"system\":[]," HELLO "}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        r = read_ok(KT__WIRE_SYSTEM, none[i]);
        assert_int_equal(r->req.prompt.n_messages, 1);
        kt__wire_request_free(r);
    }
    r = read_ok(KT__WIRE_CHAT, "{\"system\":7," HELLO "}");
    assert_int_equal(r->req.prompt.n_messages, 1);
    kt__wire_request_free(r);
    refused(KT__WIRE_SYSTEM, "{\"system\":7," HELLO "}", KT_E_ARG, "system");
    refused(KT__WIRE_SYSTEM, "{\"system\":[{\"type\":\"image\"}]," HELLO "}", KT_E_UNSUPPORTED,
            "system[0].type");
    refused(KT__WIRE_SYSTEM, "{\"system\":\"s\",\"messages\":[{\"role\":\"usr\"}]}", KT_E_ARG,
            "messages[0].role");
    refused(KT__WIRE_SYSTEM, "{\"system\":\"s\",\"prompt\":\"p\"}", KT_E_ARG, "messages");
}

static void test_names_of_clients(void **state) {
    (void)state;
    static const kt__wire_name names[] = {
        {"stop", "stop_sequences"}, {"top", "options.top"}, {NULL, NULL}};
    static const struct {
        const char *where, *message, *new_where, *new_message;
    } cases[] = {
        {"stop[1]", "stop[1]: bad", "stop_sequences[1]", "stop_sequences[1]: bad"},
        {"stop", "stop", "stop_sequences", "stop_sequences"},
        {"stopper", "stopper: bad", "stopper", "stopper: bad"},
        {"top_p", "top_p: bad", "top_p", "top_p: bad"},
        {"top", "must not be", "options.top", "must not be"},
        {"chain", "unknown sampler", "samplers", "unknown sampler"},
        {"", "stop", "", "stop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt_error err;
        (void)kt__fail_at(&err, KT_E_ARG, cases[i].where, UINT64_MAX, "%s", cases[i].message);
        kt__wire_rename_error(names, &err);
        assert_string_equal(err.where, cases[i].new_where);
        assert_string_equal(err.message, cases[i].new_message);
        kt__wire_rename_error(NULL, &err);
    }
}

/* ---- what is refused ---- */

static void test_wrong_types_and_ranges(void **state) {
    (void)state;
    static const struct {
        const char *json, *where;
    } cases[] = {
        {"{\"messages\":\"hello\"}", "messages"},
        {"{\"messages\":[]}", "messages"},
        {"{\"messages\":[3]}", "messages[0]"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
        {"{\"messages\":[{\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":3,\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"usr\",\"content\":\"a\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":3}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[3]}]}", "messages[0].content[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}]}",
         "messages[0].content[0].type"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
         "messages[0].content[0].text"},
        {"{" HELLO ",\"temperature\":\"hot\"}", "temperature"},
        {"{" HELLO ",\"temperature\":1e7}", "temperature"},
        {"{" HELLO ",\"top_p\":1.5}", "top_p"},
        {"{" HELLO ",\"top_p\":-0.1}", "top_p"},
        {"{" HELLO ",\"top_k\":2.5}", "top_k"},
        {"{" HELLO ",\"top_k\":1e300}", "top_k"},
        {"{" HELLO ",\"n\":0}", "n"},
        {"{" HELLO ",\"n\":129}", "n"},
        {"{" HELLO ",\"max_tokens\":-2}", "max_tokens"},
        {"{" HELLO ",\"max_tokens\":2147483648}", "max_tokens"},
        {"{" HELLO ",\"stream\":1}", "stream"},
        {"{" HELLO ",\"stream_options\":true}", "stream_options"},
        {"{" HELLO ",\"stream_options\":{\"include_usage\":0}}", "stream_options.include_usage"},
        {"{" HELLO ",\"stop\":3}", "stop"},
        {"{" HELLO ",\"stop\":[\"a\",4]}", "stop[1]"},
        {"{" HELLO ",\"seed\":\"x\"}", "seed"},
        {"{" HELLO ",\"seed\":1.5}", "seed"},
        {"{" HELLO ",\"logprobs\":1}", "logprobs"},
        {"{" HELLO ",\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs"},
        {"{" HELLO ",\"top_logprobs\":2}", "top_logprobs"},
        {"{" HELLO ",\"logit_bias\":3}", "logit_bias"},
        {"{" HELLO ",\"logit_bias\":{\"x\":1}}", "logit_bias.x"},
        {"{" HELLO ",\"logit_bias\":{\"\":1}}", "logit_bias."},
        {"{" HELLO ",\"logit_bias\":{\"12\":\"y\"}}", "logit_bias.12"},
        {"{" HELLO ",\"logit_bias\":{\"99999999999\":1}}", "logit_bias.99999999999"},
        {"{" HELLO ",\"logit_bias\":[1]}", "logit_bias[0]"},
        {"{" HELLO ",\"logit_bias\":[[1,2],[3,\"a\"]]}", "logit_bias[1]"},
        {"{" HELLO ",\"response_format\":\"json\"}", "response_format"},
        {"{" HELLO ",\"response_format\":{}}", "response_format.type"},
        {"{" HELLO ",\"tools\":{}}", "tools"},
        {"{" HELLO ",\"tool_choice\":\"required\"}", "tool_choice"},
        {"{" HELLO ",\"tool_choice\":7,\"tools\":[{}]}", "tool_choice"},
        {"{" HELLO ",\"parallel_tool_calls\":7}", "parallel_tool_calls"},
        {"{" HELLO ",\"reasoning_effort\":\"some\"}", "reasoning_effort"},
        {"{" HELLO ",\"reasoning_effort\":1}", "reasoning_effort"},
        {"{" HELLO ",\"enable_thinking\":\"yes\"}", "enable_thinking"},
        {"{" HELLO ",\"reasoning_budget\":-2}", "reasoning_budget"},
        {"{" HELLO ",\"loop_tokens\":-1}", "loop_tokens"},
        {"{" HELLO ",\"chat_template_kwargs\":[]}", "chat_template_kwargs"},
        {"{" HELLO ",\"chat_template_kwargs\":{\"tools\":[]}}", "chat_template_kwargs.tools"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":7}]}", "messages[0].tool_calls"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\"}]}]}",
         "messages[0].tool_calls[0].function"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]}",
         "messages[0].tool_calls[0].function.name"},
        {CALLING("\"[1]\"") "]}", "messages[0].tool_calls[0].function.arguments"},
        {CALLING("7") "]}", "messages[0].tool_calls[0].function.arguments"},
        {CALLING("{}") ",{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"\"}]}",
         "messages[1].tool_call_id"},
        {"{" HELLO ",\"response_format\":{\"type\":\"json_schema\"}}",
         "response_format.json_schema"},
        {"{" HELLO ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}}",
         "response_format.json_schema.schema"},
        {"{" HELLO ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":7}}",
         "response_format.json_schema"},
        {"{" HELLO ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},"
         "\"strict\":1}}}",
         "response_format.json_schema.strict"},
        {"{" HELLO ",\"response_format\":{\"type\":\"json_schema\",\"schema\":[]}}",
         "response_format.schema"},
        {"{" HELLO ",\"json_schema\":\"{}\"}", "json_schema"},
        {"{" HELLO ",\"grammar\":7}", "grammar"},
        {"{" HELLO ",\"regex\":[\"a\"]}", "regex"},
        {"{" HELLO ",\"choice\":[]}", "choice"},
        {"{" HELLO ",\"choice\":[1]}", "choice[0]"},
        {"{" HELLO ",\"regex\":\"a\",\"choice\":[\"b\"]}", "choice"},
        {"{" HELLO ",\"model\":5}", "model"},
        {"{" HELLO ",\"cache_prompt\":\"yes\"}", "cache_prompt"},
        {"{" HELLO ",\"exact_kv\":1}", "exact_kv"},
        {"{" HELLO ",\"deadline_ms\":-1}", "deadline_ms"},
        {"{" HELLO ",\"priority\":101}", "priority"},
        {"[]", ""},
        {"7", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refused(KT__WIRE_CHAT, cases[i].json,
                i < sizeof cases / sizeof *cases - 1 ? KT_E_ARG : KT_E_FORMAT, cases[i].where);
    }
}

static void test_what_kentang_does_not_do(void **state) {
    (void)state;
    static const struct {
        const char *json, *where;
    } cases[] = {
        {"{" HELLO ",\"response_format\":{\"type\":\"xml\"}}", "response_format.type"},
        {"{" HELLO ",\"modalities\":[\"text\",\"audio\"]}", "modalities[1]"},
        {"{" HELLO ",\"audio\":{\"voice\":\"x\"}}", "audio"},
        {"{" HELLO ",\"best_of\":2}", "best_of"},
        {"{" HELLO ",\"best_of\":2,\"stream\":true}", "best_of"},
        {"{" HELLO ",\"echo\":true}", "echo"},
        {"{" HELLO ",\"logit_bias\":[[\"the\",2]]}", "logit_bias[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "messages[0].content[0].type"},
        {"{\"messages\":[{\"role\":\"system\",\"content\":\"a\",\"images\":[\"aGk=\"]}]}",
         "messages[0].images"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(KT__WIRE_CHAT, cases[i].json, KT_E_UNSUPPORTED, cases[i].where);
    kt__wire_request *r = read_ok(KT__WIRE_CHAT,
                                  "{" HELLO ",\"best_of\":1,\"echo\":false,\"grammar\":\"\"}");
    kt__wire_request_free(r);
}

static void test_bytes_that_are_no_json(void **state) {
    (void)state;
    static const char *const broken[] = {"",
                                         "{",
                                         "{\"a\":}",
                                         "{" HELLO "} x",
                                         "\xff\xfe",
                                         "{\"prompt\":\"\xc3\"}",
                                         "{\"prompt\":\"a\\u0000b\"}",
                                         "{\"n\":99999999999999999999}",
                                         "nul"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        refused(KT__WIRE_NATIVE, broken[i], KT_E_FORMAT, "");
    char deep[2 * KT__WIRE_MAX_DEPTH + 8];
    memset(deep, '[', KT__WIRE_MAX_DEPTH + 1);
    deep[KT__WIRE_MAX_DEPTH + 1] = '\0';
    refused(KT__WIRE_NATIVE, deep, KT_E_LIMIT, "");
    /* brackets in a string are no depth */
    char quoted[2 * KT__WIRE_MAX_DEPTH + 64];
    memset(deep, '[', 2 * KT__WIRE_MAX_DEPTH);
    deep[2 * KT__WIRE_MAX_DEPTH] = '\0';
    snprintf(quoted, sizeof quoted, "{\"prompt\":\"\\\"%s\"}", deep);
    kt__wire_request *r = read_ok(KT__WIRE_NATIVE, quoted);
    assert_int_equal(r->req.prompt.text_len, 2 * KT__WIRE_MAX_DEPTH + 1);
    kt__wire_request_free(r);
    kt_error err;
    assert_int_equal(
        kt__wire_read(KT__WIRE_NATIVE, "{}", (size_t)KT__WIRE_MAX_BYTES + 1, NULL, &r, &err),
        KT_E_LIMIT);
}

static void test_paths_begin_with_the_prefix(void **state) {
    (void)state;
    kt_error err;
    kt__wire_request *r;
    json_t *body = json_loads("{\"messages\":[{\"role\":\"x\",\"content\":\"\"}]}", 0, NULL);
    assert_int_equal(kt__wire_read_value(KT__WIRE_CHAT, body, "body", defaults(), NULL, &r, &err),
                     KT_E_ARG);
    assert_string_equal(err.where, "body.messages[0].role");
    json_decref(body);
    assert_int_equal(kt__wire_read_value(KT__WIRE_CHAT, NULL, "body", defaults(), NULL, &r, &err),
                     KT_E_ARG);
    assert_string_equal(err.where, "body");
}

#if HEAP_WATCHED
/* jansson reports some failed allocations as an invalid token: KT_E_FORMAT from the parser then. */
static void test_failing_allocations(void **state) {
    (void)state;
    static const char json[] =
        "{\"stop\":[\"a\",\"b\"],\"logit_bias\":{\"1\":2},\"samplers\":[\"top_k\"],"
        "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":["
        "{\"type\":\"text\",\"text\":\"x\"}]}]}";
    for (long n = 1;; n++) {
        kt_error err;
        kt__wire_request *r = NULL;
        heap_begin(n, n);
        kt_status status = kt__wire_read(KT__WIRE_CHAT, json, sizeof json - 1, defaults(), &r,
                                         &err);
        bool failed = heap.n_failed > 0;
        kt__wire_request_free(r);
        heap_end();
        assert_int_equal(heap.n_live, 0);
        heap_sweep();
        if (!failed) {
            assert_int_equal(status, KT_OK);
            assert_true(n > 10);
            break;
        }
        assert_true(status == KT_E_NOMEM || status == KT_E_FORMAT || status == KT_OK);
        if (status == KT_OK) continue; /* a table of jansson's that did not have to grow */
    }
}
#endif

/* A text that was cut within a character of UTF-16, as JavaScript's can be. */
static void test_half_characters(void **state) {
    (void)state;
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"prompt\":\"a\\ud83db\"}", "a\xef\xbf\xbd\x62"},
        {"{\"prompt\":\"\\uDE00\\ud83d\"}", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"{\"prompt\":\"\\ud83d\\ud83d\\ude00\"}", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {"{\"prompt\":\"\\\\ud83d\\\\\\ud83d.\"}", "\\ud83d\\\xef\xbf\xbd."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__wire_request *r = read_ok(KT__WIRE_NATIVE, cases[i].json);
        assert_string_equal(r->req.prompt.text, cases[i].text);
        kt__wire_request_free(r);
    }
    refused(KT__WIRE_NATIVE, "{\"prompt\":\"\\ud83d}", KT_E_FORMAT, "");
    refused(KT__WIRE_NATIVE, "{\"prompt\":\"\\ud8\"}", KT_E_FORMAT, "");
}

/* What JSON can write and no text or number here may be is told in words of ours. */
static void test_too_large_to_hold(void **state) {
    (void)state;
    static const struct {
        const char *json, *says;
    } cases[] = {
        {"{\"prompt\":\"a\\u0000\"}", "U+0000"},
        {"{\"prompt\":\"a\",\"seed\":9223372036854775808}", "9223372036854775807"},
        {"{\"prompt\":\"a\",\"temperature\":1e999}", "1.8e308"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt_error err;
        kt__wire_request *r = NULL;
        kt_status status = kt__wire_read(KT__WIRE_NATIVE, cases[i].json, strlen(cases[i].json),
                                         NULL, &r, &err);
        assert_int_equal(status, KT_E_FORMAT);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s: %s", cases[i].json, err.message);
    }
}

/* ---- what is written ---- */

static json_t *parsed(kt__buf *buf) {
    json_error_t error;
    assert_false(buf->failed);
    json_t *v = json_loadb(buf->data, buf->len, 0, &error);
    if (!v) fail_msg("not JSON: %s in %s", error.text, buf->data);
    kt__buf_free(buf);
    return v;
}

static const json_t *at(const json_t *v, const char *path) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *part = strtok(copy, "."); part; part = strtok(NULL, ".")) {
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(part)) : json_object_get(v, part);
        if (!v) fail_msg("nothing at %s of %s", part, path);
    }
    return v;
}

static void test_strings(void **state) {
    (void)state;
    static const struct {
        const char *in;
        size_t len;
        const char *out;
    } cases[] = {
        {"", 0, "\"\""},
        {"a\"b\\c/", 6, "\"a\\\"b\\\\c/\""},
        {"\n\t\r\b\f\x01\x1f", 7, "\"\\n\\t\\r\\b\\f\\u0001\\u001f\""},
        {"a\0b", 3, "\"a\\u0000b\""},
        {"\xf0\x9f\xa5\x94 \xc3\xa9", 7, "\"\xf0\x9f\xa5\x94 \xc3\xa9\""},
        {"x\xffy\xc3", 4, "\"x\xef\xbf\xbdy\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__buf buf;
        kt__buf_init(&buf, 1 << 20);
        kt__json_string(&buf, cases[i].in, cases[i].len, KT__JSON_PLAIN);
        assert_string_equal(buf.data, cases[i].out);
        kt__buf_free(&buf);
    }
}

static kt__wire_answer sample_answer(kt__wire_form form) {
    static const kt__wire_token top[] = {{.id = 5, .text = "a", .len = 1, .logprob = -0.5f},
                                         {.id = 6, .text = "\xc3", .len = 1, .logprob = -INFINITY}};
    static const kt__wire_token token = {5, "a", 1, -0.5f, top, 2};
    static const kt__wire_choice choices[] = {
        {.text = "say \"a\"", .len = 7, .finish = KT_FINISH_EOG, .tokens = &token, .n_tokens = 1},
        {.index = 1, .text = "", .finish = KT_FINISH_LENGTH}};
    static const kt__wire_usage usage = {10, 4, 7, 3};
    return (kt__wire_answer){.form = form,
                             .id = "id-1",
                             .model = "m",
                             .created_s = 1700000000,
                             .choices = choices,
                             .n_choices = 2,
                             .usage = &usage,
                             .seed = UINT64_MAX - 1};
}

static void test_answers(void **state) {
    (void)state;
    kt__buf buf;
    kt__buf_init(&buf, 1 << 20);
    kt__wire_answer a = sample_answer(KT__WIRE_CHAT);
    kt__wire_write_answer(&buf, &a);
    assert_non_null(strstr(buf.data, "\"seed\":18446744073709551614"));
    a.seed = 1;
    kt__buf_clear(&buf);
    kt__wire_write_answer(&buf, &a);
    json_t *v = parsed(&buf);
    assert_string_equal(json_string_value(at(v, "object")), "chat.completion");
    assert_string_equal(json_string_value(at(v, "choices.0.message.content")), "say \"a\"");
    assert_string_equal(json_string_value(at(v, "choices.0.finish_reason")), "stop");
    assert_string_equal(json_string_value(at(v, "choices.1.finish_reason")), "length");
    assert_true(json_is_null(at(v, "choices.1.logprobs")));
    assert_int_equal(
        json_integer_value(at(v, "choices.0.logprobs.content.0.top_logprobs.1.bytes.0")), 0xc3);
    assert_true(json_number_value(at(v, "choices.0.logprobs.content.0.top_logprobs.1.logprob")) ==
                -9999.0);
    assert_int_equal(json_integer_value(at(v, "usage.total_tokens")), 17);
    assert_int_equal(json_integer_value(at(v, "usage.prompt_tokens_details.cached_tokens")), 4);
    json_decref(v);
    a.form = KT__WIRE_TEXT;
    kt__wire_write_answer(&buf, &a);
    v = parsed(&buf);
    assert_string_equal(json_string_value(at(v, "object")), "text_completion");
    assert_string_equal(json_string_value(at(v, "choices.0.text")), "say \"a\"");
    assert_true(json_number_value(at(v, "choices.0.logprobs.token_logprobs.0")) == -0.5);
    json_decref(v);
    a.form = KT__WIRE_NATIVE;
    a.n_choices = 1;
    kt__wire_write_answer(&buf, &a);
    v = parsed(&buf);
    assert_string_equal(json_string_value(at(v, "text")), "say \"a\"");
    assert_string_equal(json_string_value(at(v, "finish")), "eog");
    json_decref(v);
}

static void test_chunks(void **state) {
    (void)state;
    kt__buf buf;
    kt__buf_init(&buf, 1 << 20);
    static const kt__wire_choice part = {.index = 2, .text = "so", .len = 2};
    kt__wire_answer a = {.form = KT__WIRE_CHAT,
                         .id = "id-1",
                         .model = "m",
                         .created_s = 1,
                         .choices = &part,
                         .n_choices = 1,
                         .seed = 1};
    kt__wire_write_chunk(&buf, &a, true);
    json_t *v = parsed(&buf);
    assert_string_equal(json_string_value(at(v, "object")), "chat.completion.chunk");
    assert_string_equal(json_string_value(at(v, "choices.0.delta.role")), "assistant");
    assert_string_equal(json_string_value(at(v, "choices.0.delta.content")), "so");
    assert_true(json_is_null(at(v, "choices.0.finish_reason")));
    json_decref(v);
    static const kt__wire_choice end = {.index = 2, .finish = KT_FINISH_STOP};
    a.choices = &end;
    kt__wire_write_chunk(&buf, &a, false);
    v = parsed(&buf);
    assert_int_equal(json_object_size(at(v, "choices.0.delta")), 0);
    json_decref(v);
    static const kt__wire_usage usage = {1, 0, 2, 0};
    a = (kt__wire_answer){.form = KT__WIRE_CHAT,
                          .id = "id-1",
                          .model = "m",
                          .created_s = 1,
                          .usage = &usage,
                          .seed = 1};
    kt__wire_write_chunk(&buf, &a, false);
    v = parsed(&buf);
    assert_int_equal(json_array_size(at(v, "choices")), 0);
    assert_int_equal(json_integer_value(at(v, "usage.total_tokens")), 3);
    json_decref(v);
}

static void test_errors(void **state) {
    (void)state;
    kt__buf buf;
    kt_error err;
    kt__buf_init(&buf, 1 << 20);
    (void)kt__fail_at(&err, KT_E_ARG, "messages[0].role", 0, "what \"is\" it");
    kt__wire_write_error(&buf, &err);
    json_t *v = parsed(&buf);
    assert_string_equal(json_string_value(at(v, "error.message")), "what \"is\" it");
    assert_string_equal(json_string_value(at(v, "error.param")), "messages[0].role");
    assert_string_equal(json_string_value(at(v, "error.code")), "KT_E_ARG");
    assert_string_equal(json_string_value(at(v, "error.type")), "invalid_request_error");
    json_decref(v);
    (void)kt__fail(&err, KT_E_CONTEXT_FULL, "long");
    kt__wire_write_error(&buf, &err);
    v = parsed(&buf);
    assert_string_equal(json_string_value(at(v, "error.code")), "context_length_exceeded");
    assert_true(json_is_null(at(v, "error.param")));
    json_decref(v);
    assert_int_equal(kt__wire_http_status(KT_E_BUSY), 429);
    assert_int_equal(kt__wire_http_status(KT_E_INTERNAL), 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least),
        cmocka_unit_test(test_all_of_openai),
        cmocka_unit_test(test_calls_and_reasoning),
        cmocka_unit_test(test_forms_of_answers),
        cmocka_unit_test(test_all_of_llama_cpp),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_names_of_clients),
        cmocka_unit_test(test_wrong_types_and_ranges),
        cmocka_unit_test(test_half_characters),
        cmocka_unit_test(test_too_large_to_hold),
        cmocka_unit_test(test_what_kentang_does_not_do),
        cmocka_unit_test(test_bytes_that_are_no_json),
        cmocka_unit_test(test_paths_begin_with_the_prefix),
#if HEAP_WATCHED
        cmocka_unit_test(test_failing_allocations),
#endif
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
