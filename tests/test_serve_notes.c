/* serve: the bank of corrections: listed with their subjects, searched, edited and deleted, over HTTP and the socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feedback/files.h"
#include "serve_reply.h"

#define ANNA "Authorization: Bearer aaaaaaaaaaaaaaaaaaaa\r\n"
#define BERT "Authorization: Bearer bbbbbbbbbbbbbbbbbbbb\r\n"

static world w;
static char keys[128], learned[128];

static int open_learning(void) {
    char with_keys[160], with_dir[160];
    const char *const settings[] = {"learning.enabled=true", "learning.background_interval_ms=0",
                                    with_keys, with_dir, NULL};
    if (!w.dir[0]) world_dir(&w);
    snprintf(keys, sizeof keys, "%s/keys", w.dir);
    snprintf(learned, sizeof learned, "%s/learned", w.dir);
    snprintf(with_keys, sizeof with_keys, "http.keys=%s", keys);
    snprintf(with_dir, sizeof with_dir, "learning.dir=%s", learned);
    FILE *f = fopen(keys, "w");
    fputs("anna:aaaaaaaaaaaaaaaaaaaa\nbert:bbbbbbbbbbbbbbbbbbbb\n", f);
    fclose(f);
    chmod(keys, 0600);
    return world_set_up(&w, settings);
}

static int open_group(void **state) {
    (void)state;
    return open_learning();
}

static int close_group(void **state) {
    kt_error err;
    (void)state;
    unlink(keys);
    int failed = kt__feedback_remove_tree(learned, &err) != KT_OK;
    world_close(&w);
    return failed;
}

static json_t *call(const char *method, const char *path, const char *who, const char *body,
                    int status) {
    char head[256];
    snprintf(head, sizeof head, "%s%s", JSON_TYPE, who);
    reply *r = ask(&w, method, path, head, body);
    if (r->status != status) fail_msg("%s %s: %s", path, body, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

static json_t *ask_as(const char *who, const char *question, const char *more) {
    char body[1024];
    snprintf(
        body, sizeof body,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"temperature\":0,\"max_tokens\":24%s}",
        question, more);
    return call("POST", "/v1/chat/completions", who, body, 200);
}

/* Asks and corrects; the feedback's id */
static void teach(const char *who, const char *question, const char *right, char id[32]) {
    char body[1024];
    json_t *answer = ask_as(who, question, "");
    snprintf(body, sizeof body, "{\"response_id\":\"%s\",\"correction\":\"%s\"}",
             text_at(answer, "id"), right);
    json_t *taken = call("POST", "/v1/feedback", who, body, 200);
    snprintf(id, 32, "%s", text_at(taken, "id"));
    json_decref(answer);
    json_decref(taken);
}

/* Ids of a list: "fb_2 fb_1" */
static void list_is(const char *who, const char *query, const char *expected) {
    char path[256], found[256] = "";
    snprintf(path, sizeof path, "/v1/feedback%s", query);
    json_t *list = call("GET", path, who, "", 200);
    const json_t *data = at(list, "data");
    for (size_t i = 0; i < json_array_size(data); i++) {
        if (i) strcat(found, " ");
        strcat(found, text_at(json_array_get(data, i), "id"));
    }
    if (strcmp(found, expected) != 0) fail_msg("%s: %s", query, found);
    json_decref(list);
}

static const json_t *first_of(json_t **list, const char *who, const char *query) {
    char path[256];
    snprintf(path, sizeof path, "/v1/feedback%s", query);
    *list = call("GET", path, who, "", 200);
    return json_array_get(at(*list, "data"), 0);
}

static void test_listed_and_searched(void **state) {
    char id[32];
    json_t *list;
    (void)state;
    teach(ANNA, "Where is the violet ladder?", "The violet ladder is in the mill.", id);
    assert_string_equal(id, "fb_1");
    teach(ANNA, "When does Nora's shop open?", "Nora's shop opens at noon.", id);
    teach(ANNA, "What is it?", "It is what it is.", id);
    list_is(ANNA, "", "fb_3 fb_2 fb_1");
    list_is(ANNA, "?q=ladder", "fb_1");
    list_is(ANNA, "?q=VIOL+mill", "fb_1"); /* beginnings of words of question and correction */
    list_is(ANNA, "?q=adder", "");
    list_is(ANNA, "?q=nora&before=fb_2", "");
    list_is(ANNA, "?opens=I+lost+the+violet+ladders", "fb_1");
    list_is(ANNA, "?opens=I+lost+the+yellow+ladder", "");
    list_is(ANNA, "?opens=Nora+is+on+the+violet+ladder&limit=1", "fb_2");
    list_is(ANNA, "?opens=%ff%fe", "");
    const json_t *item = first_of(&list, ANNA, "?q=violet");
    assert_string_equal(text_at(item, "question"), "Where is the violet ladder?");
    assert_string_equal(text_at(item, "scope"), "subject");
    assert_int_equal(json_array_size(at(item, "subject")), 2);
    assert_string_equal(text_at(item, "subject.0"), "violet");
    json_decref(list);
    item = first_of(&list, ANNA, "");
    assert_string_equal(text_at(item, "scope"), "common");
    assert_int_equal(json_array_size(at(item, "subject")), 0);
    json_decref(list);
    json_decref(call("GET", "/v1/feedback?opens=violet+ladder", BERT, "", 404));
}

static void test_the_last_word_on_a_question(void **state) {
    char id[32];
    json_t *list;
    (void)state;
    teach(ANNA, "Where is the violet ladder?", "The violet ladder is on the roof.", id);
    assert_string_equal(id, "fb_4");
    list_is(ANNA, "?opens=violet+ladder", "fb_4"); /* the earlier one stays in the list */
    list_is(ANNA, "?q=violet", "fb_4 fb_1");
    const json_t *item = first_of(&list, ANNA, "?q=mill");
    assert_string_equal(text_at(item, "scope"), "replaced");
    json_decref(list);
}

static void test_edited_and_deleted(void **state) {
    json_t *list;
    (void)state;
    json_t *edited = call("POST", "/v1/feedback", ANNA,
                          "{\"feedback\":\"fb_4\",\"correction\":\"The violet ladder is gone.\"}",
                          200);
    assert_string_equal(text_at(edited, "id"), "fb_5");
    assert_true(json_integer_value(at(edited, "tokens")) > 0);
    list_is(ANNA, "?opens=violet+ladder", "fb_5");
    list_is(ANNA, "?q=roof", "");
    const json_t *item = first_of(&list, ANNA, "?q=gone");
    assert_string_equal(text_at(item, "question"), "Where is the violet ladder?");
    json_decref(list);
    json_decref(edited);
    json_decref(
        call("POST", "/v1/feedback", ANNA, "{\"feedback\":\"fb_4\",\"correction\":\"x\"}", 404));
    json_decref(
        call("POST", "/v1/feedback", BERT, "{\"feedback\":\"fb_5\",\"correction\":\"x\"}", 404));
    json_decref(
        call("POST", "/v1/feedback", ANNA, "{\"feedback\":\"5\",\"correction\":\"x\"}", 400));
    json_decref(call("POST", "/v1/feedback", ANNA, "{\"feedback\":\"fb_5\"}", 400));
    json_decref(
        call("POST", "/v1/feedback", ANNA, "{\"feedback\":\"fb_5\",\"correction\":\"\"}", 400));
    json_decref(call("DELETE", "/v1/feedback/fb_5", ANNA, "", 200));
    list_is(ANNA, "?opens=violet+ladder", "fb_1"); /* what it replaced counts again */
}

/* A line of the socket has what GET and DELETE have; another user's name is not its own. */
static void test_socket(void **state) {
    (void)state;
    char *r = ask_line(
        &w,
        "{\"id\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"Where is the violet drum?\"}],\"temperature\":0,\"max_tokens\":8,\"stream\":false}");
    free(r);
    r = ask_line(
        &w,
        "{\"id\":\"b\",\"op\":\"feedback\",\"response_id\":\"a\",\"correction\":\"The violet drum is in the hall.\"}");
    assert_non_null(strstr(r, "\"id\":\"fb_1\""));
    free(r);
    r = ask_line(&w, "{\"id\":\"c\",\"op\":\"said\",\"opens\":\"a violet drum\"}");
    assert_non_null(strstr(r, "\"id\":\"c\",\"done\":true,\"said\":{\"object\":\"list\""));
    assert_non_null(strstr(r, "\"subject\":[\"violet\",\"drum\"]"));
    free(r);
    r = ask_line(&w, "{\"id\":\"c\",\"op\":\"said\",\"q\":\"ladder\",\"limit\":5}");
    assert_non_null(strstr(r, "\"data\":[],"));
    free(r);
    r = ask_line(&w, "{\"id\":\"c\",\"op\":\"said\",\"limit\":0}");
    assert_non_null(strstr(r, "\"error\""));
    free(r);
    r = ask_line(
        &w,
        "{\"id\":\"d\",\"op\":\"feedback\",\"feedback\":\"fb_1\",\"correction\":\"The violet drum is out.\"}");
    assert_non_null(strstr(r, "\"id\":\"fb_2\""));
    free(r);
    r = ask_line(&w, "{\"id\":\"e\",\"op\":\"forget\",\"feedback\":\"fb_2\"}");
    assert_non_null(strstr(r, "\"forgotten\":{\"object\":\"feedback.deleted\""));
    free(r);
    r = ask_line(&w, "{\"id\":\"f\",\"op\":\"forget\"}");
    assert_non_null(strstr(r, "\"error\""));
    free(r);
}

/* It is read again from the journal. */
static void test_restart(void **state) {
    (void)state;
    kt__server_stop(w.server);
    assert_int_equal(open_learning(), 0);
    list_is(ANNA, "?opens=violet+ladder", "fb_1");
    list_is(ANNA, "?q=nora", "fb_2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listed_and_searched),
        cmocka_unit_test(test_the_last_word_on_a_question),
        cmocka_unit_test(test_edited_and_deleted),
        cmocka_unit_test(test_socket),
        cmocka_unit_test(test_restart),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
