/* The template interpreter: a table of templates with what python3-jinja2 makes of them, errors
 * with their lines, stated limits, and memory running out at every allocation. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jinja/jinja_run.h"
#include "jinja/json.h"
#include "jinja_render.h"

typedef struct jinja_case {
    const char *source, *want; /* NULL: an error */
} jinja_case;

#define X(source, want) {source, want},
static const jinja_case cases[] = {
#include "jinja_cases.inc"
};
#define FAMILIES
static const jinja_case families[] = {
#include "jinja_cases.inc"
};
#undef FAMILIES
#undef X

/* As VARIABLES, PLAIN and MESSAGES in tests/peer/templates_table.py. */
static const char variables[] =
    "{\"messages\": [], \"add_generation_prompt\": false, \"s\": \"Hello, World\", \"t\": \"  "
    "spaced \\n\","
    "\"u\": \"\xc3\xb1\x61nd\xc3\xba \xc3\x89\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xc3\x9f "
    "\xce\x91\xce\xa3\", \"h\": \"<b>\\\"x\\\" & 'y'</b>\", \"e\": \"\", \"m\": "
    "\"one\\ntwo\\r\\nthree\\n\","
    "\"i\": 7, \"f\": 2.5, \"yes\": true, \"no\": false, \"nil\": null, \"l\": [3, 1, 2],"
    "\"ls\": [\"b\", \"A\", \"c\", \"a\"], \"o\": {\"b\": 1, \"A\": \"x\", \"c\": [1, 2]},"
    "\"deep\": {\"x\": {\"y\": [{\"z\": \"found\"}]}},"
    "\"users\": [{\"name\": \"Budi\", \"age\": 30, \"on\": true}, {\"name\": \"ani\", \"age\": 25, "
    "\"on\": "
    "false}, {\"name\": \"Citra\", \"age\": 30}], \"mixed\": [1, \"x\", null, 2.0, [1], {\"k\": "
    "1}]}";

#define MESSAGE(last)                                                                   \
    "{\"messages\": [{\"role\": \"system\", \"content\": \" Be brief. \"},"             \
    "{\"role\": \"user\", \"content\": \"Halo, <|im_end|> \xc3\xa9\"},"                 \
    "{\"role\": \"assistant\", \"content\": \"<think>\\nhm\\n</think>\\n\\nHai! \"},"   \
    "{\"role\": \"user\", \"content\": " last "}],"                                     \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get\","            \
    "\"description\": \"Gets a \\\"thing\\\"\", \"parameters\": {\"type\": \"object\"," \
    "\"properties\": {\"z\": {\"type\": \"string\"}, \"a\": {\"type\": \"integer\"}},"  \
    "\"required\": [\"z\"]}}}], \"add_generation_prompt\": true}"
static const char plain[] = MESSAGE("\"Dan?\"");
static const char parts[] = MESSAGE("[{\"type\": \"text\", \"text\": \"a\"}]");

enum { NOW = 1722000000 };

/* *out: the text, for free; NULL where it fails */
static kt_status render_parsed(const kt__jinja *tmpl, const char *json, char **out, kt_error *err) {
    kt__jx x;
    const kt__jstr *text;
    *out = NULL;
    kt_status status = jinja_render(&x, tmpl, json, strlen(json), "<s>", "</s>", NOW, &text, err);
    if (status == KT_OK) *out = strndup(text->data, text->len);
    kt__jx_free(&x);
    return status;
}

static kt_status render(const char *source, const char *json, char **out, kt_error *err) {
    kt__jinja *tmpl;
    *out = NULL;
    kt_status status = kt__jinja_parse(source, strlen(source), &tmpl, err);
    if (status != KT_OK) return status;
    status = render_parsed(tmpl, json, out, err);
    kt__jinja_free(tmpl);
    return status;
}

static int check(const jinja_case *c, const char *json) {
    char *out;
    kt_error err = {0};
    kt_status status = render(c->source, json, &out, &err);
    bool ok = c->want ? status == KT_OK && strcmp(out, c->want) == 0 : status == KT_E_TEMPLATE;
    if (c->want == NULL && ok) ok = strncmp(err.message, "line ", 5) == 0;
    if (!ok)
        print_error("%s\n  want %s\n  got  %s\n", c->source, c->want ? c->want : "an error",
                    status == KT_OK ? out : err.message);
    free(out);
    return !ok;
}

static void test_cases(void **state) {
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bad += check(&cases[i], variables);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        bad += check(&families[i], strstr(families[i].source, "part.") ? parts : plain);
    assert_int_equal(bad, 0);
}

/* ---- errors ---- */

static void expect_error(const char *source, kt_status code, const char *line, const char *what) {
    char *out;
    kt_error err = {0};
    kt_status status = render(source, variables, &out, &err);
    if (status != code || strncmp(err.message, line, strlen(line)) != 0 ||
        !strstr(err.message, what))
        fail_msg("%s: %d \"%s\", expected %d \"%s\" and \"%s\"", source, (int)status, err.message,
                 (int)code, line, what);
}

static void test_errors_name_lines(void **state) {
    (void)state;
    expect_error("a\n{{ 1 +\n }}", KT_E_TEMPLATE, "line 3:", "the end of the expression");
    expect_error("a\nb\n{{ x.y }}", KT_E_TEMPLATE, "line 3:", "'x' is undefined");
    expect_error("{% if yes %}\n\n{{ raise_exception('stop here') }}{% endif %}", KT_E_TEMPLATE,
                 "line 3:", "stop here");
    expect_error("{{ s\n|upper\n|nope }}", KT_E_TEMPLATE, "line 3:", "'nope'");
    expect_error("\n\n{% for x in l %}{{ x }}", KT_E_TEMPLATE, "line 3:", "before 'endfor'");
    expect_error("{% set x = 'a\n\n{{ 1 }}", KT_E_TEMPLATE, "line 1:", "without its end");
    expect_error("\n{% import 'x' as y %}", KT_E_TEMPLATE, "line 2:", "'import'");
    expect_error("{{ 9223372036854775807 + 1 }}", KT_E_TEMPLATE, "line 1:", "64 bits");
    expect_error("{{ 4294967296 * 4294967296 }}", KT_E_TEMPLATE, "line 1:", "64 bits");
    expect_error("\xff", KT_E_TEMPLATE, "line 1:", "UTF-8");
}

static void test_big_integers_pass_through(void **state) {
    (void)state;
    char *out;
    kt_error err;
    const char *json =
        "{\"messages\": [], \"n\": [123456789012345678901234567890, -0, 18446744073709551616]}";
    assert_int_equal(render("{{ n|tojson }} {{ n[0] is integer }} {{ n[0] > n[2] }} {{ n[0] > 1 }}",
                            json, &out, &err),
                     KT_OK);
    assert_string_equal(out,
                        "[123456789012345678901234567890, 0, 18446744073709551616] True True True");
    free(out);
}

/* What Jinja has and published chat templates have not: refused when it is reached, by name. */
static void test_what_is_left_out(void **state) {
    (void)state;
    static const char *const sources[][2] = {
        {"{{ '%s' % s }}", "'%'"},
        {"{{ '%d'|format(i) }}", "%s and %%"},
        {"{{ '%s'|format(a=i) }}", "without names"},
        {"{{ '{:>5}'.format(s) }}", "{:>5}"},
        {"{{ '{!r}'.format(s) }}", "{!r}"},
        {"{{ '{0.x}'.format(o) }}", "{0.x}"},
        {"{{ 2 ** 3 }}", "'**'"},
        {"{{ l|batch(2) }}", "'batch'"},
        {"{{ s|center }}", "'center'"},
        {"{{ s|e }}", "'e'"},
        {"{{ f|round }}", "'round'"},
        {"{{ s is upper }}", "'upper'"},
        {"{{ s.zfill(3) }}", "'zfill'"},
        {"{{ s.swapcase() }}", "'swapcase'"},
        {"{% call f() %}{% endcall %}", "'call'"},
        {"{% macro m() %}{{ varargs[0].x }}{% endmacro %}{{ m() }}", "undefined"},
        {"{% for x in l %}{{ loop.cycle(1) }}{% endfor %}", "'cycle'"},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        expect_error(sources[i][0], KT_E_TEMPLATE, "line 1:", sources[i][1]);
}

/* ---- limits ---- */

static char *repeated(const char *before, const char *unit, size_t n, const char *after) {
    size_t a = strlen(before), u = strlen(unit), z = strlen(after);
    char *s = malloc(a + n * u + z + 1), *to = s;
    assert_non_null(s);
    memcpy(to, before, a);
    to += a;
    for (size_t i = 0; i < n; i++, to += u) memcpy(to, unit, u);
    memcpy(to, after, z + 1);
    return s;
}

static void expect_deep(const char *before, const char *unit, const char *after) {
    for (size_t n = 250; n <= 100000; n *= 20) {
        char *source = repeated(before, unit, n, after);
        char *out;
        kt_error err = {0};
        kt_status status = render(source, variables, &out, &err);
        if (status != KT_E_LIMIT) fail_msg("%zu x \"%s\": %s", n, unit, err.message);
        free(source);
    }
}

static void test_source_depth(void **state) {
    (void)state;
    expect_deep("{{ ", "(", "");
    expect_deep("{{ ", "[", "");
    expect_deep("{{ ", "{1:", "");
    expect_deep("{{ ", "-", "1 }}");
    expect_deep("{{ ", "not ", "1 }}");
    expect_deep("{{ 1", " + 1", " }}");
    expect_deep("{{ 1", "|abs", " }}");
    expect_deep("{{ o", ".b", " }}");
    expect_deep("{{ 1", " if 1 else 2", " }}");
    expect_deep("{{ 1", " and 1", " }}");
    expect_deep("", "{% if yes %}", "");
    expect_deep("", "{% for x in l %}", "");
    expect_deep("{% set x", " | upper", " %}{% endset %}");
}

static void test_long_is_not_deep(void **state) {
    (void)state;
    const char *const units[] = {"{% if yes %}a{% endif %}", "{{ 'a' }}", "{# b #}a",
                                 "{% set x = 1 %}a"};
    for (size_t i = 0; i < 4; i++) {
        char *source = repeated("", units[i], 3000, "");
        char *out;
        kt_error err;
        assert_int_equal(render(source, variables, &out, &err), KT_OK);
        assert_int_equal(strlen(out), 3000);
        free(out);
        free(source);
    }
    char *chain = repeated("{% if no %}", "{% elif no %}b", 3000, "{% else %}a{% endif %}");
    char *joined = repeated("{{ 'a'", " ~ 'a'", 2999, " }}");
    const jinja_case long_ones[] = {{chain, "a"}};
    assert_int_equal(check(&long_ones[0], variables), 0);
    char *out;
    kt_error err;
    assert_int_equal(render(joined, variables, &out, &err), KT_OK);
    assert_int_equal(strlen(out), 3000);
    free(out);
    free(chain);
    free(joined);
}

static void test_work_limits(void **state) {
    (void)state;
    expect_error(
        "{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
        KT_E_LIMIT, "line 1:", "steps");
    expect_error("{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}", KT_E_LIMIT,
                 "line 1:", "deeper");
    expect_error("{{ 'x' * 100000000 }}", KT_E_LIMIT, "line 1:", "64 MiB");
    expect_error("{% set ns = namespace(x='0123456789' * 1000) %}{% for a in range(99) %}"
                 "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
                 KT_E_LIMIT, "line 1:", "64 MiB");
    expect_error("{% set x = 'x' * 999 %}{% for a in range(99999) %}{{ x }}{% endfor %}",
                 KT_E_LIMIT, "line 1:", "64 MiB");
    expect_error(
        "{% set x = ('a' ~ s) * 300000 %}{% for a in range(99) %}{% set y = x ~ 'a' %}{% endfor %}",
        KT_E_NOMEM, "line 1:", "memory");
    expect_error("{% set q = [] %}{% set _ = q.append(q) %}{{ q }}", KT_E_TEMPLATE,
                 "line 1:", "nested");
    expect_error("{% set q = [] %}{% set _ = q.append(q) %}{{ q|tojson }}", KT_E_TEMPLATE,
                 "line 1:", "nested");
    /* lists that share their parts are small and stand for 2^60 items */
    expect_error(
        "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}"
        "{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}",
        KT_E_LIMIT, "line 1:", "steps");
    expect_error("{% set n = namespace(a=(1,)) %}{% for i in range(60) %}{% set n.a = (n.a, n.a) %}"
                 "{% endfor %}{{ {n.a: 1} }}",
                 KT_E_LIMIT, "line 1:", "steps");
    expect_error("{% set n = namespace(a=[]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}"
                 "{% endfor %}{{ n.a|tojson }}",
                 KT_E_LIMIT, "line 1:", "");
}

/* ---- memory ---- */

/* Every allocation of a rendering fails once: the arena's cap is moved up a little at a time. */
static void test_memory_ends_anywhere(void **state) {
    (void)state;
    static const char source[] =
        "{%- macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro -%}"
        "{% set ns = namespace(n=0) %}{% for k, v in o.items() if v %}{% set ns.n = loop.length "
        "%}{{ k ~ v }}"
        "{% endfor %}{{ m(1, b=4) }}{{ s.split(',')|map('upper')|join('-') }}"
        "{{ users|selectattr('on')|map(attribute='name')|list|tojson(indent=2) }}{{ l|sort }}{{ "
        "ls|unique|list }}"
        "{% set q | trim %} {{ s ~ i }}{{ '{}{x}'.format(f, x=i) }} {% endset %}{{ q[::-1] "
        "}}{{ h|safe + '<' }}"
        "{{ mixed|string|replace('x', 'yy')|indent|title }}{{ {'a': [1]}|dictsort }}{{ "
        "strftime_now('%Y') }}"
        "{{ '[1, \"a\"]'|from_json }}{{ dict(o, x=1)|items|list }}";
    kt__jinja *tmpl;
    kt_error err;
    assert_int_equal(kt__jinja_parse(source, sizeof source - 1, &tmpl, &err), KT_OK);
    kt_status status = KT_E_NOMEM;
    size_t cap = 4096, rounds = 0;
    for (; status != KT_OK; cap += 24, rounds++) {
        kt__jx x;
        kt__jv root;
        const kt__jstr *text = NULL;
        assert_int_equal(kt__jx_init(&x, tmpl, 0, &err), KT_OK);
        assert_int_equal(kt__json_parse(&x.arena, variables, sizeof variables - 1, &root, &err),
                         KT_OK);
        for (size_t i = 0; i < root.u.d->n; i++)
            kt__jx_set(&x, root.u.d->items[i].key.u.s->data, root.u.d->items[i].key.u.s->len,
                       root.u.d->items[i].val);
        if (cap == 4096) cap = x.arena.used_bytes;
        x.arena.max_bytes = cap;
        status = kt__jx_render(&x, &text);
        if (status != KT_OK) assert_int_equal(status, KT_E_NOMEM);
        kt__jx_free(&x);
        assert_true(cap < (1 << 20));
    }
    assert_true(rounds > 200);
    kt__jinja_free(tmpl);
}

/* ---- threads ---- */

typedef struct worker {
    const kt__jinja *tmpl;
    const char *want;
    int bad;
} worker;

static void *render_many(void *arg) {
    worker *w = arg;
    for (int i = 0; i < 200; i++) {
        char *out;
        kt_error err;
        kt_status status = render_parsed(w->tmpl, plain, &out, &err);
        w->bad += status != KT_OK || strcmp(out, w->want) != 0;
        free(out);
    }
    return NULL;
}

static void test_one_template_many_threads(void **state) {
    (void)state;
    kt__jinja *tmpl;
    kt_error err;
    pthread_t threads[4];
    worker workers[4];
    const char *source = families[1].source;
    assert_int_equal(kt__jinja_parse(source, strlen(source), &tmpl, &err), KT_OK);
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){tmpl, families[1].want, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, render_many, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].bad, 0);
    }
    kt__jinja_free(tmpl);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_errors_name_lines),
        cmocka_unit_test(test_big_integers_pass_through),
        cmocka_unit_test(test_what_is_left_out),
        cmocka_unit_test(test_source_depth),
        cmocka_unit_test(test_long_is_not_deep),
        cmocka_unit_test(test_work_limits),
        cmocka_unit_test(test_memory_ends_anywhere),
        cmocka_unit_test(test_one_template_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
