/* Calls and results in a prompt: a sentence follows the result of a call that was made before in the
 * same turn, and no other one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "calls/format.h"
#include "calls/prompt.h"

#define USER "{\"role\":\"user\",\"content\":\"Weather?\"}"
#define CALL(id, args)                                                       \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"" id \
    "\",\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":" args "}}]}"
#define RESULT(id, text) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" text "\"}"
#define PARIS "\"{\\\"city\\\":\\\"Paris\\\"}\""

typedef struct prompt_case {
    const char *messages;
    const char *noted; /* a letter for each result: y or n */
} prompt_case;

static const prompt_case cases[] = {
    {"[" USER "," CALL("a", PARIS) "," RESULT("a", "18") "]", "n"},
    {"[" USER
     "," CALL("a", PARIS) "," RESULT("a", "18") "," CALL("b", PARIS) "," RESULT("b", "18") "]",
     "ny"},
    /* as an object, and with other white space */
    {"[" USER "," CALL("a", PARIS) "," RESULT("a", "18") "," CALL(
         "b", "{\"city\": \"Paris\"}") "," RESULT("b", "18") "]",
     "ny"},
    {"[" USER "," CALL("a", PARIS) "," RESULT("a", "18") "," CALL(
         "b", "{\"city\":\"Rome\"}") "," RESULT("b", "20") "]",
     "nn"},
    /* in another turn */
    {"[" USER "," CALL("a", PARIS) "," RESULT("a", "18") "," USER "," CALL("b", PARIS) "," RESULT(
         "b", "18") "]",
     "nn"},
    /* of an id that was there before */
    {"[" USER
     "," CALL("a", PARIS) "," RESULT("a", "18") "," CALL("a", PARIS) "," RESULT("a", "18") "]",
     "ny"},
    {"[" USER "," CALL("a", "\"no JSON\"") "," RESULT("a", "18") "]", "n"},
};

static void check_case(const kt__call_style *style, const prompt_case *c) {
    kt__buf out;
    kt_error err = {0};
    kt__buf_init(&out, 1 << 20);
    kt_status status = kt__call_prompt_json(style, c->messages, strlen(c->messages), NULL,
                                            KT__REASON_DEFAULT, &out, &err);
    if (strstr(c->messages, "no JSON")) {
        assert_int_equal(status, KT_E_FORMAT);
    } else {
        assert_int_equal(status, KT_OK);
        (void)kt__buf_append(&out, "", 1);
        const char *at = out.data;
        for (const char *noted = c->noted; *noted; noted++) {
            at = strstr(at, "\"role\": \"tool\"");
            assert_non_null(at);
            const char *end = strchr(at, '}');
            const char *note = strstr(at, "This call was made before");
            if ((note && note < end) != (*noted == 'y')) fail_msg("%s: %s", c->messages, out.data);
            at = end;
        }
    }
    kt__buf_free(&out);
}

static void test_calls_made_twice(void **state) {
    (void)state;
    kt__call_style style;
    assert_true(kt__call_style_named("hermes", "none", &style));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&style, &cases[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls_made_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
