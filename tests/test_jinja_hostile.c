/* Templates made to take long: each ends with a limit, or is done, within half a second of one
 * processor. What a step may cost is what these are about: text that is searched, hashed, compared,
 * repeated, or cut into many origins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "jinja_render.h"

/* Of processor time, so that neighbours do not count; sanitizers take several times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
enum { LIMIT_MS = 20000 };
#else
enum {
    LIMIT_MS = 2000
}; /* half a second; a machine with other work has taken 1,153 ms of its own time */
#endif

#define LOOP(n, body) "{% for a in range(" #n ") %}" body "{% endfor %}"
#define FOREVER(body) LOOP(99999, LOOP(99999, body))
#define TEN_MB "{% set s = 'ab' * 5000000 %}"
#define MB "{% set s = 'ab' * 500000 %}"
/* a million places where the origin of bytes changes */
#define STRIPED "{% set s = ('a' ~ d) * 500000 %}"

static const char *const templates[] = {
    FOREVER(""),
    FOREVER("{{ a }}"),
    FOREVER("{% set x = a * 2 + 1 %}"),
    FOREVER("{{ 0.1 + a }}"),
    FOREVER("{% set x = (0.1 + a)|string %}"),
    FOREVER("{% set x = '0.12345e-300'|float %}"),
    FOREVER("{% set x = '<{}|{}>'.format(a, a) %}"),
    FOREVER("{% set x = strftime_now('%A %B %c %c %c %c') %}"),
    FOREVER("{% set x = [a, a, a]|sort|map('string')|join(',') %}"),
    FOREVER("{% set x = {'k': a, 'l': [a]}|tojson %}"),
    FOREVER("{% set x = namespace(a=a) %}{% set x.b = a %}"),
    FOREVER("{% set x = 'x' * 1000 %}"),
    FOREVER("{% set x = 'a b c d e f g h'.split(' ') %}"),
    FOREVER("{% set x = '\xce\xa3\xce\xb1'.lower() %}"),
    TEN_MB FOREVER("{% set x = s == s ~ '' %}"),
    MB "{% set t = s ~ 'x' %}{% set u = s ~ 'y' %}" FOREVER("{% set x = t == u %}"),
    MB "{% set t = s ~ 'x' %}{% set u = s ~ 'y' %}" FOREVER("{% set x = t < u %}"),
    MB FOREVER("{% set x = 'z' in s %}"),
    MB FOREVER("{% set x = s.find('bb') %}"),
    MB FOREVER("{% set x = s.count('a') %}"),
    MB FOREVER("{% set x = s.rfind('bb') %}"),
    MB "{% set t = 'c' ~ ('ab' * 100000) %}" FOREVER("{% set x = s.rfind(t) %}"),
    "{% set s = 'a' * 1000000 %}{% set t = 'a' * 5000 ~ 'b' %}" FOREVER("{% set x = s.rfind(t) %}"),
    MB FOREVER("{% set x = s.replace('a', 'b') %}"),
    MB FOREVER("{% set x = s.replace('', 'b') %}"),
    MB FOREVER("{% set x = s.split('a') %}"),
    MB FOREVER("{% set x = s.rsplit('a') %}"),
    MB FOREVER("{% set x = s.splitlines() %}"),
    MB FOREVER("{% set x = s|upper %}"),
    MB FOREVER("{% set x = s|tojson %}"),
    MB FOREVER("{% set x = [s]|string %}"),
    MB FOREVER("{% set x = s|list %}"),
    MB FOREVER("{% set x = s[::-1] %}"),
    MB FOREVER("{% set x = s.strip('ab') %}"),
    MB FOREVER("{% set x = s|indent %}"),
    MB FOREVER("{% set x = s.isalpha() %}"),
    MB FOREVER("{% set x = s.startswith('abab') %}"),
    "{% set s = '\xc3\xa9' * 500000 %}" FOREVER("{% set x = s[400000] %}"),
    "{% set s = '\xc3\xa9' * 500000 %}" FOREVER("{% set x = s.find('\xc3\xa9', 400000) %}"),
    MB "{% set d = {s: 1} %}" FOREVER("{% set x = d[s] %}"),
    MB "{% set d = namespace(n={}) %}" LOOP(1000, "{% set _ = d.n.update({s ~ a: 1}) %}")
        LOOP(1000, "{% set _ = d.n.pop(s ~ a) %}"),
    STRIPED FOREVER("{% set x = s[999990] %}"),
    STRIPED FOREVER("{% set x = s[999990:] %}"),
    STRIPED FOREVER("{% set x = s.split('a', 3) %}"),
    STRIPED FOREVER("{% set x = s ~ 'a' %}"),
    "{% set q = range(99999)|list %}" FOREVER("{% set x = q + q %}"),
    "{% set q = range(99999)|list %}" FOREVER("{% set x = q|join %}"),
    "{% set q = range(99999)|list %}" FOREVER("{% set x = q|sort(reverse=true) %}"),
    "{% set q = range(99999)|list %}" FOREVER("{% set x = -1 in q %}"),
    "{% set q = range(99999)|list %}" FOREVER("{% set _ = q.insert(0, 1) %}"),
    "{% set q = range(99999)|list %}" FOREVER("{% set x = q|unique|list %}"),
    "{% set q = range(99999)|list %}" FOREVER("{% set x = q[::-1] * 2 %}"),
    "{% set q = [1] %}" FOREVER("{% set _ = q.extend(q) %}"),
    "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "{% set n = namespace(j='[' * 90 ~ ']' * 90) %}" FOREVER("{% set x = n.j|from_json %}"),
    "{% set n = namespace(j='[' ~ '[],' * 300000 ~ '[]]') %}" FOREVER(
        "{% set x = n.j|from_json %}"),
};

/* The interpreter's own time: what the kernel takes for fresh pages differs by a factor between machines, and is bounded by
 * KT__JX_MAX_MEMORY. */
static int64_t cpu_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return (int64_t)used.ru_utime.tv_sec * 1000 + used.ru_utime.tv_usec / 1000;
}

static void expect_quick(const char *source, size_t len) {
    kt__jinja *tmpl;
    kt__jx x;
    const kt__jstr *text;
    kt_error err = {0};
    int64_t start = cpu_ms();
    if (kt__jinja_parse(source, len, &tmpl, &err) != KT_OK) fail_msg("%.200s", err.message);
    kt_status status = jinja_render(&x, tmpl, "{\"d\": \"d\"}", 10, NULL, NULL, 0, &text, &err);
    kt__jx_free(&x);
    kt__jinja_free(tmpl);
    int64_t took = cpu_ms() - start;
    if (getenv("KT_TEST_SHOW"))
        print_message("%5d ms %-14s %.100s\n", (int)took, kt_status_name(status), source);
    bool ends = status == KT_OK || status == KT_E_LIMIT || status == KT_E_NOMEM;
    if (!ends) fail_msg("%.200s: %s", source, err.message);
    if (took > LIMIT_MS) fail_msg("%.200s: %d ms", source, (int)took);
}

static void test_templates(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        expect_quick(templates[i], strlen(templates[i]));
}

/* n copies of unit with their number where it has a %d */
static char *numbered(const char *before, const char *unit, int n, const char *after) {
    size_t room = strlen(before) + (size_t)n * (strlen(unit) + 12) + strlen(after) + 1, at = 0;
    char *s = malloc(room);
    assert_non_null(s);
    at += (size_t)sprintf(s, "%s", before);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    for (int i = 0; i < n; i++) at += (size_t)sprintf(s + at, unit, i);
#pragma GCC diagnostic pop
    sprintf(s + at, "%s", after);
    return s;
}

static void test_many_names(void **state) {
    (void)state;
    static const struct {
        const char *before, *unit, *after;
    } cases[] = {
        {"{% for z in [1] %}", "{%% set v%d = 1 %%}", FOREVER("{{ zz }}") "{% endfor %}"},
        {"{% macro m(q) %}{% endmacro %}{{ m(", "k%d=1,", "q=1) }}"},
        {"{% set s = '{k1}' * 1000000 %}{{ s.format(", "k%d=1,", "q=1) }}"},
        {"{% set s = {", "'k%d': 1,", "} %}" FOREVER("{% set x = s|tojson(sort_keys=true) %}")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *source = numbered(cases[i].before, cases[i].unit, 20000, cases[i].after);
        kt__jinja *tmpl;
        if (i == 1) { /* the macro's error is a right answer */
            kt__jx x;
            const kt__jstr *text;
            kt_error err;
            int64_t start = cpu_ms();
            assert_int_equal(kt__jinja_parse(source, strlen(source), &tmpl, &err), KT_OK);
            assert_int_equal(jinja_render(&x, tmpl, "{}", 2, NULL, NULL, 0, &text, &err),
                             KT_E_TEMPLATE);
            kt__jx_free(&x);
            kt__jinja_free(tmpl);
            assert_true(cpu_ms() - start < LIMIT_MS);
        } else {
            expect_quick(source, strlen(source));
        }
        free(source);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
