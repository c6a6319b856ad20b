/* serve: the web page, and what pages of other origins may do. tests/browser looks at the page itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"
#include "services/web.h"

#define APP "Origin: https://app.example:8080\r\n"
#define FOREIGN "Origin: https://other.example\r\n"
#define PREFLIGHT "Access-Control-Request-Method: POST\r\n"

static world w;
WORLD_OF_GROUP(w, "http.cors=https://app.example:8080", NULL)

static const char *const names[] = {
#define X(symbol, name, path, type) name,
#include "services/web_files.def"
#undef X
};

static void expect(const world *where, const char *method, const char *path, const char *headers,
                   int status, const char *says, const char *says_not) {
    reply *r = ask(where, method, path, headers, "");
    if (r->status != status || !strstr(r->text, says) || (says_not && strstr(r->text, says_not)))
        fail_msg("%s %s: %.600s", method, path, r->text);
    free(r);
}

static void test_page(void **state) {
    (void)state;
    const char *html = "Accept: text/html,application/xhtml+xml\r\n";
    expect(&w, "GET", "/", html, 200, "<title>kentang</title>", NULL);
    expect(&w, "GET", "/", html, 200,
           "Content-Security-Policy: default-src 'none'; script-src 'self'", NULL);
    expect(&w, "GET", "/", html, 200, "Content-Type: text/html; charset=utf-8", NULL);
    expect(&w, "GET", "/", "Accept: */*\r\n", 200, "kentang is running", "<title>");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "/web/%s", names[i]);
        expect(&w, "HEAD", path, "Accept-Encoding: gzip\r\n", 200,
               "Content-Security-Policy:", NULL);
    }
    expect(&w, "GET", "/web/main.js", "", 200, "Content-Type: text/javascript", "Content-Encoding");
    expect(&w, "HEAD", "/web/pdf.min.mjs", "Accept-Encoding: gzip, br\r\n", 200,
           "Content-Encoding: gzip\r\n", NULL);
    expect(&w, "GET", "/web/pdf.min.mjs", "", 406, "clients that accept gzip", "Content-Encoding");
    expect(&w, "GET", "/web/../main.c", "", 404, "there is nothing", NULL);
    expect(&w, "GET", "/web/", "", 404, "there is nothing", NULL);
}

/* What the page loads are its own files. */
static void test_files(void **state) {
    (void)state;
    const kt__web_file *page = kt__web_page();
    char *text = strndup((const char *)page->data, (size_t)(page->end - page->data));
    assert_null(strstr(text, "http://"));
    assert_null(strstr(text, "https://"));
    assert_null(strstr(text, "style="));
    free(text);
}

static void test_switched_off(void **state) {
    (void)state;
    static world off;
    const char *const settings[] = {"web=false", NULL};
    assert_int_equal(world_set_up(&off, settings), 0);
    expect(&off, "GET", "/", "Accept: text/html\r\n", 200, "kentang is running", "<title>");
    expect(&off, "GET", "/web/main.js", "", 404, "there is nothing", NULL);
    expect(&off, "GET", "/health", APP, 403, "other origins", "Access-Control");
    world_close(&off);
}

static void test_origins(void **state) {
    (void)state;
    expect(&w, "GET", "/v1/models", APP, 200,
           "Access-Control-Allow-Origin: https://app.example:8080\r\n", NULL);
    expect(&w, "GET", "/v1/models", APP, 200, "Vary: Origin", NULL);
    expect(&w, "GET", "/v1/models", "", 200, "\"data\"", "Access-Control");
    expect(&w, "GET", "/v1/models", FOREIGN, 403, "other origins", "Access-Control");
    expect(&w, "OPTIONS", "/v1/chat/completions", APP PREFLIGHT, 200,
           "Access-Control-Allow-Headers: Authorization", NULL);
    expect(&w, "OPTIONS", "/v1/chat/completions", FOREIGN PREFLIGHT, 200, "", "Access-Control");
    expect(&w, "OPTIONS", "/v1/chat/completions", PREFLIGHT, 405, "only POST", "Access-Control");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_origins),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
