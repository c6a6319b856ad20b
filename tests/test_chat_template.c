/* Chat rendering: who wrote which byte, what becomes of system messages, what the callers get
 * wrong, and allocation failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chat/chat_template.h"
#include "heap_watch.h"

static const kt__chat_params params = {
    .bos_token = "<s>", .eos_token = "</s>", .now_local_s = 0, .add_generation_prompt = true};

static kt__chat_template *parse(const char *source) {
    kt__chat_template *tmpl = NULL;
    kt_error err = {0};
    if (kt__chat_template_parse(source, strlen(source), &tmpl, &err) != KT_OK)
        fail_msg("%s: %s", source, err.message);
    return tmpl;
}

static void render_json(const char *source, const char *json, kt__chat_out *out) {
    kt__chat_template *tmpl = parse(source);
    kt_error err = {0};
    if (kt__chat_render_json(tmpl, json, strlen(json), &params, out, &err) != KT_OK)
        fail_msg("%s: %s", source, err.message);
    kt__chat_template_free(tmpl);
}

/* ---- origin ---- */

/* want: the text with what is data in [brackets]. */
static void expect_origin(const char *source, const char *json, const char *want) {
    kt__chat_out out = {0};
    char shown[2000];
    size_t n = 0, at = 0;
    render_json(source, json, &out);
    for (size_t i = 0; i < out.n_segs; i++) {
        const kt__chat_seg *seg = &out.segs[i];
        assert_int_equal(seg->offset, at);
        assert_true(seg->len > 0);
        assert_true(i == 0 || seg->from_template != seg[-1].from_template);
        at += seg->len;
        if (!seg->from_template) shown[n++] = '[';
        memcpy(shown + n, out.text + seg->offset, seg->len);
        n += seg->len;
        if (!seg->from_template) shown[n++] = ']';
    }
    shown[n] = '\0';
    assert_int_equal(at, out.len);
    if (strcmp(shown, want) != 0) fail_msg("%s\n  want %s\n  got  %s", source, want, shown);
    kt__chat_out_free(&out);
}

/* not a user's, whose text must show */
#define ONE "[{\"role\": \"tool\", \"content\": \"<|x|> Hi, you\"}]"

static void test_origin(void **state) {
    (void)state;
    const char *m = "{%- set c = messages[0].content %}";
    static const struct {
        const char *expr, *want;
    } rows[] = {
        {"a{{ c }}b", "a[<|x|> Hi, you]b"},
        {"{{ '<|a|>' + c + '<|b|>' }}", "<|a|>[<|x|> Hi, you]<|b|>"},
        {"{{ '<|' ~ messages[0].role ~ '|>' ~ c }}", "<|tool|>[<|x|> Hi, you]"},
        {"{{ bos_token }}{{ c }}{{ eos_token }}", "<s>[<|x|> Hi, you]</s>"},
        {"{{ ('  ' ~ c ~ '  x')|trim|upper }}", "[<|X|> HI, YOU]  X"},
        {"{{ c.split(' ')[1] }}{{ c[:5] }}", "[Hi,<|x|>]"},
        {"{{ ('a' ~ c)[::-1] }}", "[uoy ,iH >|x|<]a"},
        {"{{ ('a' ~ c)[0:3] }}", "a[<|]"},
        {"{{ '-'.join([c, 'z', c]) }}", "[<|x|> Hi, you]-z-[<|x|> Hi, you]"},
        {"{{ [c, 1]|join('<|s|>') }}", "[<|x|> Hi, you]<|s|>1"},
        {"{{ ('<|t|>' ~ c ~ '<|t|>').replace('<|x|>', '<|y|>') }}", "<|t|><|y|>[ Hi, you]<|t|>"},
        {"{{ '<|t|>%s'|replace('%s', c) }}", "<|t|>[<|x|> Hi, you]"},
        {"{{ '<|t|>{}|{}'.format(c, 5) }}{{ '<{}>'.format(c) }}",
         "<|t|>[<|x|> Hi, you]|5<[<|x|> Hi, you]>"},
        {"{{ c|tojson }}{{ [c] }}", "[\"<|x|> Hi, you\"['<|x|> Hi, you']]"},
        {"{{ {'a': '<|t|>'}|tojson }}", "[{\"a\": \"<|t|>\"}]"},
        {"{% set q %}<|a|>{{ c }}{% endset %}{{ q }}", "<|a|>[<|x|> Hi, you]"},
        {"{% macro f(z) %}<|m|>{{ z }}{% endmacro %}{{ f(c) }}{{ f('l') }}",
         "<|m|>[<|x|> Hi, you]<|m|>l"},
        {"{% filter upper %}<|a|>{{ c }}{% endfilter %}", "<|A|>[<|X|> HI, YOU]"},
        {"{{ 1 }}{{ true }}{{ none }}{{ 2.5 }}{{ c|length }}", "1TrueNone2.513"},
        {"{{ c|indent(2, true) }}{{ c * 2 }}", "  [<|x|> Hi, you<|x|> Hi, you<|x|> Hi, you]"},
        {"{% for ch in 'a' ~ c[:2] %}{{ ch }}{% endfor %}", "a[<|]"},
        {"{{ ('a\\nb' ~ c).splitlines()|last }}", "b[<|x|> Hi, you]"},
        {"{{ c or 'x' }}{{ c|default('y') }}{{ zz|default('y') }}",
         "[<|x|> Hi, you<|x|> Hi, you]y"},
        {"{{ strftime_now('%Y') }}", "1970"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char source[400];
        snprintf(source, sizeof source, "%s%s", m, rows[i].expr);
        expect_origin(source, ONE, rows[i].want);
    }
    /* a role is trusted when it is a usual one, and data else */
    expect_origin("{{ '<|' ~ messages[0].role ~ '|>' }}",
                  "[{\"role\": \"im_start\", \"content\": \"\"}]", "<|[im_start]|>");
    /* variables of the request are data, the caller's tokens win over them */
    expect_origin("{{ bos_token }}{{ extra }}",
                  "{\"messages\": [], \"bos_token\": \"<evil>\", \"extra\": \"<|x|>\"}",
                  "<s>[<|x|>]");
}

/* ---- system messages ---- */

#define USERS_ONLY                                                                         \
    "{% for m in messages %}{% if m.role == 'user' %}<u>{{ m.content }}{% elif m.role == " \
    "'assistant' %}<a>{{ m.content }}{% endif %}{% endfor %}"
#define REFUSES                                                                        \
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif " \
    "%}" USERS_ONLY
#define CHAT                                                                                      \
    "[{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": "     \
    "\"Hi\"}, {\"role\": \"assistant\", \"content\": \"Yo\"}, {\"role\": \"user\", \"content\": " \
    "\"Ok\"}]"

#define EACH "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
#define REFUSES_SECOND                                                                             \
    "{% for m in messages %}{% if m.role == 'system' and loop.index0 %}{{ raise_exception('once')" \
    " }}{% endif %}{% endfor %}" EACH
#define FIRST_ONLY                                                                             \
    "{% if messages[0].role == 'system' %}S:{{ messages[0].content }};{% endif %}{% for m in " \
    "messages if m.role == 'user' %}{{ m.content }};{% endfor %}"
#define TWO_SYSTEMS                                                                             \
    "[{\"role\": \"system\", \"content\": \"A\"}, {\"role\": \"system\", \"content\": \"B\"}, " \
    "{\"role\": \"user\", \"content\": \"Hi\"}]"

static void expect_merge(const char *source, const char *json, const char *want, bool merged) {
    kt__chat_out out = {0};
    render_json(source, json, &out);
    assert_string_equal(out.text, want);
    assert_int_equal(out.system_merged, merged);
    kt__chat_out_free(&out);
}

static void test_system_is_merged(void **state) {
    (void)state;
    expect_merge(REFUSES, CHAT, "<u>Be brief.\nHi<a>Yo<u>Ok", true);
    expect_merge(USERS_ONLY, CHAT, "<u>Be brief.\nHi<a>Yo<u>Ok", true);
    expect_origin(USERS_ONLY, CHAT, "<u>[Be brief.\nHi]<a>[Yo]<u>[Ok]");
    /* a template that shows it, changed or not, is left alone */
    expect_merge("{% for m in messages %}{{ m.content|trim }};{% endfor %}",
                 "[{\"role\": \"system\", \"content\": \" a \\n\"}, {\"role\": \"user\", "
                 "\"content\": \"b\"}]",
                 "a;b;", false);
    expect_merge("{% for m in messages %}{{ m.content.replace('/think', '')|trim }};{% endfor %}",
                 "[{\"role\": \"system\", \"content\": \"a /think b\"}, {\"role\": \"user\", "
                 "\"content\": \"b\"}]",
                 "a  b;b;", false);
    expect_merge(USERS_ONLY, "[{\"role\": \"user\", \"content\": \"Hi\"}]", "<u>Hi", false);
    expect_merge(
        USERS_ONLY,
        "[{\"role\": \"system\", \"content\": \"\"}, {\"role\": \"user\", \"content\": \"Hi\"}]",
        "<u>Hi", false);
    /* several: as they are, else as one, else in the user's */
    expect_merge(EACH, TWO_SYSTEMS, "system:A;system:B;user:Hi;", false);
    expect_merge(REFUSES_SECOND, TWO_SYSTEMS, "system:A\nB;user:Hi;", false);
    expect_merge(FIRST_ONLY, TWO_SYSTEMS, "S:A\nB;Hi;", false);
    expect_merge(REFUSES, TWO_SYSTEMS, "<u>A\nB\nHi", true);
    /* several at the start; contents in parts */
    expect_merge(USERS_ONLY,
                 "[{\"role\": \"system\", \"content\": \"one\"}, {\"role\": \"system\", "
                 "\"content\": [{\"type\":"
                 "\"text\", \"text\": \"two\"}]}, {\"role\": \"user\", \"content\": \"Hi\"}]",
                 "<u>one\ntwo\nHi", true);
    expect_merge("{% for m in messages if m.role == 'user' %}{% for p in m.content %}{{ p.text }}|"
                 "{% endfor %}{% endfor %}",
                 "[{\"role\": \"system\", \"content\": \"one\"}, {\"role\": \"user\", \"content\": "
                 "[{\"type\":"
                 "\"text\", \"text\": \"two\"}]}]",
                 "one\n|two|", true);
}

/* ---- contents in parts ---- */

static kt_status render_status(const char *source, const char *json, char *text, size_t size) {
    kt__chat_template *tmpl = parse(source);
    kt__chat_out out = {0};
    kt_error err = {0};
    kt_status status = kt__chat_render_json(tmpl, json, strlen(json), &params, &out, &err);
    snprintf(text, size, "%s", status == KT_OK ? out.text : err.message);
    kt__chat_out_free(&out);
    kt__chat_template_free(tmpl);
    return status;
}

#define PARTS_ONLY                                                                               \
    "{% for m in messages %}{{ m.role }}{% if m.content[0].type == 'image' %}:{% else %}: "      \
    "{% endif %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% elif p.type == " \
    "'image' %}<image>{% endif %}{% endfor %};{% endfor %}"

static void test_parts_only(void **state) {
    (void)state;
    char text[600];
    assert_int_equal(render_status(PARTS_ONLY, CHAT, text, sizeof text), KT_OK);
    assert_string_equal(text, "system: Be brief.;user: Hi;assistant: Yo;user: Ok;");
    expect_origin(PARTS_ONLY, "[{\"role\": \"user\", \"content\": \"Hi\"}]", "user: [Hi];");
    const char *parts = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, "
                        "{\"type\": \"text\", \"text\": \"Hi\"}]}]";
    assert_int_equal(render_status(PARTS_ONLY, parts, text, sizeof text), KT_OK);
    assert_string_equal(text, "user:<image>Hi;");
}

/* OpenAI's interface has null for the content of a message with calls alone: a template that walks over it gets an
 * empty text, one that takes null gets null. */
static void test_null_content(void **state) {
    (void)state;
    char text[600];
    const char *walks =
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %};{% endfor %}";
    const char *takes =
        "{% for m in messages %}{{ m.content if m.content is not none else 'calls' }};{% endfor %}";
    const char *refuses =
        "{% for m in messages %}{{ m.content[0] }}{{ m.content.x.y }}{% endfor %}";
    const char *calls =
        "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": null}]";
    assert_int_equal(render_status(walks, calls, text, sizeof text), KT_OK);
    assert_string_equal(text, "Hi;;");
    assert_int_equal(render_status(takes, calls, text, sizeof text), KT_OK);
    assert_string_equal(text, "Hi;calls;");
    assert_int_equal(render_status(refuses, calls, text, sizeof text), KT_E_TEMPLATE);
}

/* What the user says is never left out without a word. */
static void test_lost_text(void **state) {
    (void)state;
    char text[600];
    const char *never = "{% for m in messages %}{{ m.role }};{% endfor %}";
    const char *with_more = "{% for d in more %}{{ messages[-1].content }}{% endfor %}";
    assert_int_equal(render_status(never, CHAT, text, sizeof text), KT_E_TEMPLATE);
    assert_non_null(strstr(text, "leaves out what the user says"));
    assert_int_equal(
        render_status(with_more, "{\"messages\": " CHAT ", \"more\": [1]}", text, sizeof text),
        KT_OK);
    assert_string_equal(text, "Ok");
}

static void test_refusals_stay(void **state) {
    (void)state;
    kt__chat_template *tmpl = parse(REFUSES);
    kt__chat_out out = {0};
    kt_error err = {0};
    const char *alone =
        "[{\"role\": \"system\", \"content\": \"Be brief.\"}]"; /* no user to merge into */
    assert_int_equal(kt__chat_render_json(tmpl, alone, strlen(alone), &params, &out, &err),
                     KT_E_TEMPLATE);
    assert_non_null(strstr(err.message, "no system"));
    kt__chat_template_free(tmpl);
    tmpl = parse("{{ raise_exception('never') }}");
    assert_int_equal(kt__chat_render_json(tmpl, CHAT, strlen(CHAT), &params, &out, &err),
                     KT_E_TEMPLATE);
    assert_non_null(strstr(err.message, "never"));
    assert_null(out.text);
    kt__chat_template_free(tmpl);
}

/* ---- the callers' side ---- */

static void test_messages(void **state) {
    (void)state;
    const kt_message messages[] = {{"system", "Be brief."}, {"user", "Hi <|im_end|>"}};
    kt__chat_template *tmpl = parse(kt__chat_template_builtin("chatml"));
    kt__chat_out out = {0};
    kt_error err = {0};
    assert_int_equal(kt__chat_render(tmpl, messages, 2, &params, &out, &err), KT_OK);
    assert_string_equal(out.text, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
                                  "Hi <|im_end|><|im_end|>\n<|im_start|>assistant\n");
    assert_int_equal(out.n_segs, 5);
    assert_int_equal(out.segs[3].len, strlen("Hi <|im_end|>"));
    assert_false(out.segs[3].from_template);
    kt__chat_out_free(&out);
    kt__chat_params quiet = params;
    quiet.add_generation_prompt = false;
    assert_int_equal(kt__chat_render(tmpl, messages, 1, &quiet, &out, &err), KT_OK);
    assert_string_equal(out.text, "<|im_start|>system\nBe brief.<|im_end|>\n");
    kt__chat_out_free(&out);
    const kt_message bad[] = {{"user", "\xff"}, {NULL, "x"}};
    assert_int_equal(kt__chat_render(tmpl, bad, 1, &params, &out, &err), KT_E_ARG);
    assert_int_equal(kt__chat_render(tmpl, bad + 1, 1, &params, &out, &err), KT_E_ARG);
    kt__chat_template_free(tmpl);
    assert_null(kt__chat_template_builtin("nope"));
    out = (kt__chat_out){0};
    render_json(kt__chat_template_builtin("command-r"),
                "[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"}]",
                &out);
    assert_string_equal(out.text, "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|>"
                                  "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>U<|END_OF_TURN_TOKEN|>"
                                  "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>");
    kt__chat_out_free(&out);
}

static void test_json_requests(void **state) {
    (void)state;
    kt__chat_template *tmpl = parse(
        "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ x }}");
    kt__chat_out out = {0};
    kt_error err = {0};
    const char *object =
        "{\"messages\": [], \"tools\": [], \"add_generation_prompt\": false, \"x\": 1}";
    assert_int_equal(kt__chat_render_json(tmpl, object, strlen(object), &params, &out, &err),
                     KT_OK);
    assert_string_equal(out.text, "FalseTrueFalse1");
    kt__chat_out_free(&out);
    assert_int_equal(kt__chat_render_json(tmpl, "[]", 2, &params, &out, &err), KT_OK);
    assert_string_equal(out.text, "TrueTrueTrue");
    kt__chat_out_free(&out);
    const char *const bad[] = {"{}", "1", "{\"messages\": 1}", "[1]", "[[]]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kt__chat_render_json(tmpl, bad[i], strlen(bad[i]), &params, &out, &err),
                         KT_E_ARG);
    assert_int_equal(kt__chat_render_json(tmpl, "[", 1, &params, &out, &err), KT_E_FORMAT);
    kt__chat_template_free(tmpl);
}

/* ---- allocation failures ---- */

static kt_status whole_run(void) {
    kt__chat_template *tmpl = NULL;
    kt__chat_out out = {0};
    kt_error err;
    kt_status status = kt__chat_template_parse(REFUSES, strlen(REFUSES), &tmpl, &err);
    if (status == KT_OK)
        status = kt__chat_render_json(tmpl, CHAT, strlen(CHAT), &params, &out, &err);
    kt__chat_out_free(&out);
    kt__chat_template_free(tmpl);
    return status;
}

static void test_allocation_failures(void **state) {
    (void)state;
    if (!HEAP_WATCHED) skip();
    long n = 1;
    for (;; n++) {
        heap_begin(n, n);
        kt_status status = whole_run();
        long failed = heap.n_failed, live = heap.n_live;
        heap_end();
        heap_sweep();
        assert_int_equal(live, 0);
        if (!failed) {
            assert_int_equal(status, KT_OK);
            break;
        }
        assert_int_equal(status, KT_E_NOMEM);
    }
    assert_true(n > 4);
}

/* A template that wants user and assistant in turns, refuses a system message after others, and one that leaves it out: as
 * agents' conversations are, nothing of them is lost. */
static void test_conversations_are_mended(void **state) {
    (void)state;
    static const char strict[] =
        "{% set ns = namespace(last='') %}{% for m in messages %}"
        "{% if m.role == 'system' and loop.index0 %}{{ raise_exception('at the beginning') }}"
        "{% endif %}{% if m.role == ns.last %}{{ raise_exception('in turns') }}{% endif %}"
        "{% set ns.last = m.role %}{{ m.role }}:{{ m.content }};{% endfor %}";
    static const char forgetful[] =
        "{% for m in messages %}{% if m.role != 'system' or loop.first %}"
        "{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}";
    static const char late[] = "[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","
                               "\"content\":\"ok\"},{\"role\":\"system\",\"content\":\"RULE\"},"
                               "{\"role\":\"user\",\"content\":\"now\"}]";
    static const char doubled[] = "[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\","
                                  "\"content\":\"one\"},{\"role\":\"user\",\"content\":\"two\"}]";
    char text[512];
    assert_int_equal(render_status(strict, late, text, sizeof text), KT_OK);
    assert_string_equal(text, "system:RULE;user:hi;assistant:ok;user:now;");
    assert_int_equal(render_status(forgetful, late, text, sizeof text), KT_OK);
    assert_string_equal(text, "system:RULE;user:hi;assistant:ok;user:now;");
    assert_int_equal(render_status(strict, doubled, text, sizeof text), KT_OK);
    assert_string_equal(text, "system:S;user:one\ntwo;");
}

/* An answer that was begun does not stand among the thoughts that the template opens. */
static void test_begun_answers(void **state) {
    (void)state;
    static const struct {
        const char *last, *want;
    } cases[] = {
        {"\"content\":\"The\"", "u;<think>\n\n</think>\n\nThe"},
        {"\"content\":\"The\",\"reasoning_content\":\"R1\"", "u;<think>\nR1\n</think>\n\nThe"},
        {"\"content\":\"\",\"reasoning_content\":\"R1\"", "u;<think>\nR1\n</think>\n\n"},
        {"\"content\":\"R1</think>The\"", "u;<think>\nR1</think>The"},
        {"\"content\":\"\"", "u;<think>\n"},
    };
    static const char source[] = "{% for m in messages %}{{ m.content }};{% endfor %}"
                                 "{% if add_generation_prompt %}{{ '<think>\\n' }}{% endif %}";
    kt__chat_template *tmpl = parse(source);
    kt__chat_params goes_on = params;
    goes_on.add_generation_prompt = goes_on.continue_last = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[256];
        kt__chat_out out = {0};
        int n = snprintf(json, sizeof json,
                         "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",%s}]",
                         cases[i].last);
        assert_int_equal(kt__chat_render_json(tmpl, json, (size_t)n, &goes_on, &out, NULL), KT_OK);
        assert_string_equal(out.text, cases[i].want);
        kt__chat_out_free(&out);
    }
    kt__chat_template_free(tmpl);
}

/* Only with extras, and only where nothing else sets them. */
static void test_extras(void **state) {
    (void)state;
    static const char source[] =
        "{{ date_string or 'none' }};{{ datetime or 'none' }};{{ functions or 'none' }}"
        "{{ messages[0].content }}";
    static const char plain[] = "[{\"role\":\"user\",\"content\":\"u\"}]";
    const struct {
        bool extras;
        const char *json, *want;
    } cases[] = {
        {false, plain, "none;none;noneu"},
        {true, plain, "01 Jan 1970;Jan 01 1970;noneu"},
        {true, "{\"tools\":[{\"a\":1}],\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}",
         "01 Jan 1970;Jan 01 1970;[{\"a\": 1}]u"},
        {true,
         "{\"date_string\":\"d\",\"functions\":\"f\",\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}",
         "d;Jan 01 1970;fu"},
    };
    kt__chat_template *tmpl = parse(source);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__chat_params with = params;
        kt__chat_out out = {0};
        with.extras = cases[i].extras;
        assert_int_equal(
            kt__chat_render_json(tmpl, cases[i].json, strlen(cases[i].json), &with, &out, NULL),
            KT_OK);
        assert_string_equal(out.text, cases[i].want);
        kt__chat_out_free(&out);
    }
    kt__chat_template_free(tmpl);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_system_is_merged),
        cmocka_unit_test(test_conversations_are_mended),
        cmocka_unit_test(test_begun_answers),
        cmocka_unit_test(test_extras),
        cmocka_unit_test(test_parts_only),
        cmocka_unit_test(test_null_content),
        cmocka_unit_test(test_lost_text),
        cmocka_unit_test(test_refusals_stay),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_json_requests),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
