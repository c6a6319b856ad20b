/* serve: the bank of corrections: listed with their subjects, searched, edited and deleted, over HTTP and the socket; and what enters
 * prompts as notes: reported in answers, counted, for its own client alone, and only where settings or the model's probe say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/files.h"
#include "serve_reply.h"
#include "setup/learn_config.h"

#define ANNA "Authorization: Bearer aaaaaaaaaaaaaaaaaaaa\r\n"
#define BERT "Authorization: Bearer bbbbbbbbbbbbbbbbbbbb\r\n"

static world w;
static char keys[128], learned[128];

#define DEMO_FILE "model=" KT_SOURCE_DIR "/src/lib/context/demo.gguf"

/* more: a setting; model: another one, or NULL for the embedded model; interval: of what begins by itself */
static int open_by_itself(const char *more, const char *model, const char *interval) {
    char with_keys[160], with_dir[160];
    const char *const settings[] = {
        "learning.enabled=true", interval, with_keys, with_dir, more, model, NULL};
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

static int open_with(const char *more, const char *model) {
    return open_by_itself(more, model, "learning.background_interval_ms=0");
}

static int open_learning(void) {
    return open_with("learning.notes=off", NULL);
}

static int open_group(void **state) {
    (void)state;
    return open_learning();
}

static int close_group(void **state) {
    kt_error err;
    (void)state;
    unlink(keys);
    int failed = kt__files_remove_tree(learned, &err) != KT_OK;
    world_close(&w);
    return failed;
}

static json_t *call(const char *method, const char *path, const char *who, const char *body,
                    int status) {
    return call_as(&w, method, path, who, body, status);
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
    list_is(ANNA, "?opens=I%20lost%20the%20violet%20ladder%3F", "fb_1");
    list_is(ANNA, "?q=violet%20mill", "fb_1");
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

/* ---- notes in prompts ---- */

static void ids_are(const json_t *answer, const char *path, const char *first, size_t n) {
    const json_t *ids = at(answer, path);
    assert_int_equal(json_array_size(ids), n);
    if (n) assert_string_equal(json_string_value(json_array_get(ids, 0)), first);
}

static int64_t prompt_of(const json_t *answer) {
    return json_integer_value(at(answer, "usage.prompt_tokens"));
}

static void closed_as_without(void) {
    json_t *with = ask_as(ANNA, "I lost the violet ladder.", "");
    json_t *without = ask_as(ANNA, "I lost the violet ladder.", ",\"adapter\":\"none\"");
    assert_null(at(with, "kentang.learned"));
    assert_int_equal(prompt_of(with), prompt_of(without));
    json_decref(with);
    json_decref(without);
}

/* Without notes, too, an answer says what was recalled in it; and the bank says what was learned. */
static void test_recited_is_reported(void **state) {
    (void)state;
    json_t *again = ask_as(ANNA, "where is the violet ladder", "");
    assert_string_equal(text_at(again, "choices.0.message.content"),
                        "The violet ladder is in the mill.");
    ids_are(again, "kentang.learned", "fb_1", 1);
    json_decref(again);
    json_t *none = ask_as(ANNA, "where is the violet ladder", ",\"adapter\":\"none\"");
    assert_null(at(none, "kentang.learned"));
    json_decref(none);
    reply *r = ask(&w, "POST", "/v1/chat/completions", JSON_TYPE ANNA,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"Where is the violet "
                   "ladder?\"}],\"temperature\":0,\"max_tokens\":24,\"stream\":true}");
    assert_non_null(strstr(r->body, "\"learned\":[\"fb_1\"]"));
    free(r);
    json_t *list = call("POST", "/v1/chat/completions", ANNA,
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"What have you "
                        "learned?\"}],\"temperature\":1.5,\"max_tokens\":200}",
                        200);
    const char *text = text_at(list, "choices.0.message.content");
    assert_string_equal(text,
                        "I have learned from 3 corrections:\n- What is it? It is what it is.\n"
                        "- When does Nora's shop open? Nora's shop opens at noon.\n"
                        "- Where is the violet ladder? The violet ladder is in the mill.");
    ids_are(list, "kentang.learned", "fb_3", 3);
    json_decref(list);
    json_t *alone = ask_as(BERT, "What have you learned?", "");
    assert_null(at(alone, "kentang.learned"));
    json_decref(alone);
}

/* A file that nobody has measured. */
static void test_unknown_is_off(void **state) {
    (void)state;
    kt__server_stop(w.server);
    assert_int_equal(open_with("learning.notes=auto", DEMO_FILE), 0);
    closed_as_without();
}

static bool metrics_have(const char *line) {
    reply *r = ask(&w, "GET", "/metrics", ANNA, "");
    bool have = strstr(r->body, line) != NULL;
    free(r);
    return have;
}

/* One bank, and every dialect, engine and form of answer tells what it took of it. */
static void test_notes_are_reported(void **state) {
    (void)state;
    kt__server_stop(w.server);
    assert_int_equal(open_with("learning.notes=on", NULL), 0);
    json_t *with = ask_as(ANNA, "I lost the violet ladder.", "");
    json_t *without = ask_as(ANNA, "I lost the violet ladder.", ",\"adapter\":\"none\"");
    json_t *other = ask_as(BERT, "I lost the violet ladder.", "");
    ids_are(with, "kentang.learned", "fb_1", 1);
    assert_null(at(without, "kentang.learned"));
    assert_null(at(other, "kentang.learned"));
    assert_true(prompt_of(with) > prompt_of(without));
    assert_int_equal(prompt_of(other), prompt_of(without));
    json_t *closed = ask_as(ANNA, "I lost the yellow ladder.", "");
    assert_null(at(closed, "kentang.learned"));
    json_t *several = ask_as(ANNA, "Nora is on the violet ladder.", "");
    ids_are(several, "kentang.learned", "fb_1", 2);
    json_t *tools = ask_as(
        ANNA, "I lost the violet ladder.",
        ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\"}}}]");
    ids_are(tools, "kentang.learned", "fb_1", 1);
    json_t *form = ask_as(ANNA, "I lost the violet ladder.",
                          ",\"response_format\":{\"type\":\"json_object\"}");
    ids_are(form, "kentang.learned", "fb_1", 1);
    assert_true(metrics_have("kentang_noted_prompts_total{model=\"demo\"} 4"));
    assert_true(metrics_have("kentang_notes_total{model=\"demo\"} 5"));
    json_t *all[] = {with, without, other, closed, several, tools, form};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

static void test_streams_tell(void **state) {
    (void)state;
    reply *r = ask(
        &w, "POST", "/v1/chat/completions", JSON_TYPE ANNA,
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"I lost the violet ladder.\"}]}],"
        "\"temperature\":0,\"max_tokens\":8,\"stream\":true}");
    assert_int_equal(r->status, 200);
    assert_non_null(strstr(r->body, "\"learned\":[\"fb_1\"]"));
    free(r);
    r = ask(
        &w, "POST", "/v1/messages", JSON_TYPE ANNA,
        "{\"model\":\"demo\",\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"I lost the violet ladder.\"}]}");
    assert_int_equal(r->status, 200);
    assert_non_null(strstr(r->body, "\"learned\":[\"fb_1\"]"));
    free(r);
}

/* A word on an answer with notes is on what its user wrote: deleting the note's correction leaves nothing of it. */
static void test_no_trace_in_others(void **state) {
    char id[32], path[64];
    (void)state;
    teach(ANNA, "Where is the violet violin?", "The violet violin is at Zanzibar.", id);
    json_t *answer = ask_as(ANNA, "I miss the violet violin.", "");
    ids_are(answer, "kentang.learned", id, 1);
    char body[256];
    snprintf(body, sizeof body, "{\"response_id\":\"%s\",\"correction\":\"Nobody knows.\"}",
             text_at(answer, "id"));
    json_decref(call("POST", "/v1/feedback", ANNA, body, 200));
    json_t *list;
    const json_t *item = first_of(&list, ANNA, "?q=nobody");
    assert_null(strstr(text_at(item, "prompt"), "Zanzibar"));
    json_decref(list);
    snprintf(path, sizeof path, "/v1/feedback/%s", id);
    json_decref(call("DELETE", path, ANNA, "", 200));
    item = first_of(&list, ANNA, "?q=nobody");
    assert_null(strstr(text_at(item, "prompt"), "Zanzibar"));
    json_decref(list);
    json_decref(answer);
}

/* The demo model alone makes "suitcave" of it. */
static void test_noted_words_are_ended(void **state) {
    char id[32], path[64];
    (void)state;
    teach(ANNA, "How much does the grey suitcase weigh?", "The grey suitcase weighs thirty grams.",
          id);
    json_t *answer = ask_as(ANNA, "Tell me the weight of the grey suitcase, please.", "");
    assert_string_equal(text_at(answer, "choices.0.message.content"),
                        "The grey suitcase weighs thirty grams.");
    json_decref(answer);
    snprintf(path, sizeof path, "/v1/feedback/%s", id);
    json_decref(call("DELETE", path, ANNA, "", 200));
}

static void test_rolled_back_opens_nothing(void **state) {
    (void)state;
    json_decref(call("POST", "/v1/adapters/rollback", ANNA, "{\"version\":0}", 200));
    json_t *answer = ask_as(ANNA, "I lost the violet ladder.", "");
    assert_null(at(answer, "kentang.learned"));
    json_decref(answer);
    json_t *named = ask_as(ANNA, "I lost the violet ladder.", ",\"adapter\":1");
    ids_are(named, "kentang.learned", "fb_1", 1);
    json_decref(named);
    json_decref(call("POST", "/v1/adapters/rollback", ANNA, "{\"version\":1}", 200));
}

static kt__note_verdict verdict_of(const kt_probe_result *write) {
    kt_error err;
    kt_model *model;
    kt_engine *engine;
    kt__served *served = kt__models_at(w.server->shared.models, 0);
    const kt__config *config = w.server->shared.start;
    assert_int_equal(kt__served_use(served, "test", &model, &engine, &err), KT_OK);
    if (write) {
        assert_int_equal(kt__note_probe_write(config, kt__served_name(served), model, write, &err),
                         KT_OK);
    }
    kt__note_verdict verdict = kt__note_probe_read(config, kt__served_name(served), model, NULL);
    kt__served_done(served, engine);
    return verdict;
}

static void opens_a_note(void) {
    json_t *answer = ask_as(ANNA, "I lost the violet ladder.", "");
    ids_are(answer, "kentang.learned", "fb_1", 1);
    json_decref(answer);
}

static void open_again(const char *model) {
    kt__server_stop(w.server);
    assert_int_equal(open_with("learning.notes=auto", model), 0);
}

/* Of the embedded model it is known, what `kentang learn probe` found comes before that, and holds for that file alone. */
static void test_auto_asks_the_probe(void **state) {
    (void)state;
    const kt_probe_result yes = {
        .n_asked = 20, .n_used = 18, .n_others = 20, .uses = true, .whole = true};
    const kt_probe_result no = {.n_asked = 20, .n_used = 1, .n_others = 20, .whole = true};
    char path[160];
    open_again(NULL);
    assert_int_equal(verdict_of(NULL), KT__NOTES_USED);
    opens_a_note();
    open_again(DEMO_FILE);
    assert_int_equal(verdict_of(NULL), KT__NOTES_UNKNOWN);
    assert_int_equal(verdict_of(&yes), KT__NOTES_USED);
    opens_a_note();
    snprintf(path, sizeof path, "%s/demo/notes.probe", learned);
    FILE *f = fopen(path, "w");
    fputs("0000000000000000000000000000000000000000000000000000000000000000 yes: 20\n", f);
    fclose(f);
    open_again(DEMO_FILE);
    closed_as_without();
    open_again(NULL);
    assert_int_equal(verdict_of(&no), KT__NOTES_NOT_USED);
    closed_as_without();
}

/* One that judges recites what is asked for, and gets no notes for anything else. */
static void test_judged_is_recited(void **state) {
    (void)state;
    const kt_probe_result judged = {
        .n_asked = 20, .n_used = 18, .n_others = 20, .n_same = 17, .judges = true, .whole = true};
    open_again(DEMO_FILE);
    assert_int_equal(verdict_of(&judged), KT__NOTES_JUDGED);
    json_t *answer = ask_as(ANNA, "where is the violet ladder", "");
    ids_are(answer, "kentang.learned", "fb_1", 1);
    json_decref(answer);
    closed_as_without();
}

static json_t *first_verdict(json_t *answer) {
    return json_array_get(json_object_get(answer, "notes"), 0);
}

/* A server resumes a probe that was left off, while nobody uses the model, and keeps what it found. */
static void test_probes_by_itself(void **state) {
    (void)state;
    const kt_probe_result begun = {.n_asked = 18, .n_used = 17, .n_others = 18, .n_leaked = 1};
    bool whole = false;
    open_again(DEMO_FILE);
    assert_int_equal(verdict_of(&begun), KT__NOTES_UNKNOWN);
    closed_as_without(); /* fewer than a billion weights */
    kt__server_stop(w.server);
    assert_int_equal(
        open_by_itself("learning.notes=auto", DEMO_FILE, "learning.background_interval_ms=20"), 0);
    closed_as_without();
    json_t *answer = call("GET", "/v1/adapters", ANNA, "", 200);
    assert_string_equal(json_string_value(json_object_get(first_verdict(answer), "verdict")),
                        "measuring");
    assert_int_equal(json_integer_value(json_object_get(first_verdict(answer), "asked")), 18);
    json_decref(answer);
    for (int i = 0; i < 300 && !whole; i++) {
        usleep(100000);
        answer = call("GET", "/v1/adapters", ANNA, "", 200);
        whole = json_integer_value(json_object_get(first_verdict(answer), "asked")) == 20;
        if (whole) assert_true(json_is_true(json_object_get(first_verdict(answer), "enters")));
        json_decref(answer);
    }
    assert_true(whole);
    opens_a_note();
    kt__server_stop(w.server);
    assert_int_equal(open_with("learning.notes=auto", DEMO_FILE),
                     0); /* as the next server reads it */
    assert_int_equal(verdict_of(NULL), KT__NOTES_USED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listed_and_searched),
        cmocka_unit_test(test_the_last_word_on_a_question),
        cmocka_unit_test(test_edited_and_deleted),
        cmocka_unit_test(test_socket),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_recited_is_reported),
        cmocka_unit_test(test_unknown_is_off),
        cmocka_unit_test(test_notes_are_reported),
        cmocka_unit_test(test_streams_tell),
        cmocka_unit_test(test_no_trace_in_others),
        cmocka_unit_test(test_noted_words_are_ended),
        cmocka_unit_test(test_rolled_back_opens_nothing),
        cmocka_unit_test(test_auto_asks_the_probe),
        cmocka_unit_test(test_judged_is_recited),
        cmocka_unit_test(test_probes_by_itself),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
