/* kt_call_json: the same answers as the calls with structures, and errors that name the member. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "requests_world.h"

typedef struct heard {
    char text[65536]; /* events, each with a newline behind it */
    size_t len;
    int n_events, n_wanted; /* 0: all */
} heard;

static bool hear_event(void *user, const char *json, size_t len) {
    heard *h = user;
    assert_true(len + 1 < sizeof h->text - h->len);
    memcpy(h->text + h->len, json, len);
    memcpy(h->text + h->len + len, "\n", 2);
    h->len += len + 1;
    return ++h->n_events != h->n_wanted;
}

static kt_status call_with(const world *w, const char *json, heard *h, kt_error *err) {
    h->len = 0;
    h->n_events = 0;
    h->text[0] = '\0';
    return kt_call_json(w->engine, json, strlen(json), hear_event, h, err);
}

static void expect_refused(const world *w, const char *json, kt_status status, const char *where) {
    heard h = {0};
    kt_error err;
    assert_int_equal(call_with(w, json, &h, &err), status);
    if (where) assert_string_equal(err.where, where);
    assert_int_equal(h.n_events, 0);
}

static void test_an_answer_is_that_of_kt_chat(void **state) {
    world *w = *state;
    heard h = {0};
    kt_error err;
    answer alone = {0};
    kt_seq *seq;
    kt_message message = {"user", world_prompts[4]};
    kt_gen_params params = kt_gen_params_default();
    params.sampling.seed = 9;
    params.sampling.repeat_penalty = 1.5f;
    params.n_predict = 20;
    MUST(kt_seq_open(w->engine, &seq, &err));
    MUST(kt_chat(seq, &message, 1, &params, note_text, &alone, &alone.report, &err));
    kt_seq_close(seq);
    MUST(call_with(
        w,
        "{\"call\":\"generate\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}],"
        "\"seed\":9,\"repeat_penalty\":1.5,\"max_tokens\":20,\"stop\":null,\"other\":{}}",
        &h, &err));
    char text[MAX_TEXT] = "", *at = h.text;
    while ((at = strstr(at, "{\"text\":\""))) { /* no escapes in this answer */
        at += 9;
        strncat(text, at, strcspn(at, "\""));
    }
    assert_string_equal(text, alone.text);
    assert_non_null(strstr(h.text, "{\"done\":true,\"finish\":\""));
    assert_non_null(strstr(h.text, ",\"seed\":9,"));
}

static void test_no_ends_it_and_stops_count(void **state) {
    world *w = *state;
    heard h = {.n_wanted = 1};
    kt_error err;
    MUST(call_with(w, "{\"call\":\"generate\",\"prompt\":\"Once upon a time\"}", &h, &err));
    assert_non_null(strstr(h.text, "\"finish\":\"cancelled\""));
    h.n_wanted = 0;
    MUST(call_with(w,
                   "{\"call\":\"generate\",\"prompt\":\"Once upon a "
                   "time\",\"temperature\":0,\"stop\":[\" a\"]}",
                   &h, &err));
    assert_non_null(strstr(h.text, "\"finish\":\"stop\""));
}

static void test_tokens_counts_and_embeddings(void **state) {
    world *w = *state;
    heard h = {0};
    kt_error err;
    char count[64];
    MUST(call_with(w,
                   "{\"call\":\"count\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]}",
                   &h, &err));
    snprintf(count, sizeof count, "{\"count\":%zu}\n", w->n_ids[4]);
    assert_string_equal(h.text, count);
    MUST(call_with(w, "{\"call\":\"tokenize\",\"prompt\":\"Once upon a time\"}", &h, &err));
    int32_t ids[32];
    size_t n;
    MUST(kt_tokenize(w->model, "Once upon a time", 16, KT_TOK_ADD_SPECIAL, ids, 32, &n, &err));
    char wanted[512] = "{\"tokens\":[";
    for (size_t i = 0; i < n; i++)
        snprintf(wanted + strlen(wanted), 32, "%s%d", i ? "," : "", ids[i]);
    assert_string_equal(h.text, strcat(wanted, "]}\n"));
    MUST(call_with(w, "{\"call\":\"embed\",\"prompt\":\"a cat\"}", &h, &err));
    kt_model_info info;
    kt_model_get_info(w->model, &info);
    float *x = calloc((size_t)info.d_model, sizeof *x);
    MUST(kt_tokenize(w->model, "a cat", 5, KT_TOK_ADD_SPECIAL, ids, 32, &n, &err));
    MUST(kt_embed(w->engine, ids, n, KT_POOLING_MEAN, true, x, &err));
    const char *at = strchr(h.text, '[') + 1;
    for (int i = 0; i < info.d_model; i++) {
        char *end;
        assert_true((float)strtod(at, &end) == x[i]);
        at = end + 1;
    }
    free(x);
}

static void test_errors_name_the_member(void **state) {
    world *w = *state;
    expect_refused(w, "{", KT_E_FORMAT, NULL);
    expect_refused(w, "[]", KT_E_FORMAT, NULL);
    expect_refused(w, "{}", KT_E_ARG, "call");
    expect_refused(w, "{\"call\":\"sing\"}", KT_E_ARG, "call");
    expect_refused(w, "{\"call\":\"generate\"}", KT_E_ARG, "prompt");
    expect_refused(w, "{\"call\":\"embed\",\"prompt\":7}", KT_E_ARG, "prompt");
    expect_refused(w, "{\"call\":\"generate\",\"prompt\":\"a\",\"top_p\":7}", KT_E_ARG, "top_p");
    expect_refused(w, "{\"call\":\"generate\",\"prompt\":\"a\",\"top_k\":1.5}", KT_E_ARG, "top_k");
    expect_refused(w, "{\"call\":\"generate\",\"prompt\":\"a\",\"max_tokens\":99999999999}",
                   KT_E_ARG, "max_tokens");
    expect_refused(w, "{\"call\":\"generate\",\"prompt\":\"a\",\"stop\":[1]}", KT_E_ARG, "stop");
    expect_refused(w, "{\"call\":\"generate\",\"prompt\":\"a\",\"seed\":\"x\"}", KT_E_ARG, "seed");
}

static void test_sizes_of_structures(void **state) {
    (void)state;
    assert_int_equal(kt_struct_size("kt_request_params"), sizeof(kt_request_params));
    assert_int_equal(kt_struct_size("kt_error"), sizeof(kt_error));
    assert_int_equal(kt_struct_size("kt_nothing"), 0);
    assert_true(kt_abi() == kt_header_abi() && kt_abi() != 0);
}

int main(void) {
    static world w;
    kt_engine_params ep = kt_engine_params_default();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_an_answer_is_that_of_kt_chat, &w),
        cmocka_unit_test_prestate(test_no_ends_it_and_stops_count, &w),
        cmocka_unit_test_prestate(test_tokens_counts_and_embeddings, &w),
        cmocka_unit_test_prestate(test_errors_name_the_member, &w),
        cmocka_unit_test_prestate(test_sizes_of_structures, &w),
    };
    world_open(&w);
    ep.n_ctx = 512;
    open_engine(&w, &ep);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_engine(&w);
    world_close(&w);
    return failed;
}
