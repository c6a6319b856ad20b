/* sample: stop strings over any splitting of the text, against a naive search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "sample/stops.h"
#include "sample_reference.h"

static bool take(kt__buf *out, kt__stops_text text, int *stop) {
    kt__buf_append(out, text.part[0], text.len[0]);
    kt__buf_append(out, text.part[1], text.len[1]);
    *stop = text.stop;
    return text.stop >= 0;
}

/* text in pieces of the given length */
static void run(const char *const *stops, size_t n, const char *text, size_t piece,
                const char *expected, int expected_stop) {
    kt__stops *s;
    kt__buf out;
    int stop = -1;
    kt__buf_init(&out, 1000);
    assert_int_equal(kt__stops_create(stops, n, &s, NULL), KT_OK);
    size_t len = strlen(text);
    for (size_t i = 0; i < len && stop < 0; i += piece) {
        take(&out, kt__stops_push(s, text + i, len - i < piece ? len - i : piece), &stop);
    }
    if (stop < 0) take(&out, kt__stops_flush(s), &(int){0});
    assert_string_equal(out.data ? out.data : "", expected);
    assert_int_equal(stop, expected_stop);
    kt__stops_free(s);
    kt__buf_free(&out);
}

static void test_examples(void **state) {
    (void)state;
    static const char *const user[] = {"User:", "\n\n"};
    static const char *const nested[] = {"b", "abc", "xabcd"};
    static const char *const same_end[] = {"bc", "abc", "c"};
    for (size_t piece = 1; piece < 9; piece++) {
        run(user, 2, "Hello Use User: x", piece, "Hello Use ", 0);
        run(user, 2, "Hello\n \n\nnext", piece, "Hello\n ", 1);
        run(user, 2, "Hello User", piece, "Hello User", -1);
        run(user, 2, "UserUserUser:", piece, "UserUser", 0);
        run(nested, 3, "xabcd", piece, "xa", 0);
        run(same_end + 0, 2, "xabcd", piece, "x", 1);
        run(NULL, 0, "anything", piece, "anything", -1);
    }
}

static void test_text_is_held_no_longer_than_needed(void **state) {
    (void)state;
    static const char *const stops[] = {"</s>"};
    kt__stops *s;
    assert_int_equal(kt__stops_create(stops, 1, &s, NULL), KT_OK);
    kt__stops_text text = kt__stops_push(s, "abc<", 4);
    assert_int_equal(text.len[0] + text.len[1], 3);
    text = kt__stops_push(s, "/s", 2);
    assert_int_equal(text.len[0] + text.len[1], 0);
    text = kt__stops_push(s, "x<", 2);
    assert_int_equal(text.len[0], 3);
    assert_memory_equal(text.part[0], "</s", 3);
    assert_int_equal(text.len[1], 1);
    assert_memory_equal(text.part[1], "x", 1);
    text = kt__stops_flush(s);
    assert_int_equal(text.len[0], 1);
    assert_memory_equal(text.part[0], "<", 1);
    kt__stops_free(s);
}

static void test_nothing_comes_after_a_stop(void **state) {
    (void)state;
    static const char *const stops[] = {"."};
    kt__stops *s;
    assert_int_equal(kt__stops_create(stops, 1, &s, NULL), KT_OK);
    assert_int_equal(kt__stops_push(s, "a.b", 3).stop, 0);
    kt__stops_text text = kt__stops_push(s, "more", 4);
    assert_int_equal(text.len[0] + text.len[1], 0);
    text = kt__stops_flush(s);
    assert_int_equal(text.len[0] + text.len[1], 0);
    kt__stops_free(s);
}

static void test_released_text_is_whole_characters(void **state) {
    (void)state;
    static const char *const stops[] = {"\xe2\x82\xac!",
                                        "\xf0\x9f\x98\x80"}; /* euro sign, a face */
    kt__stops *s;
    assert_int_equal(kt__stops_create(stops, 2, &s, NULL), KT_OK);
    kt__stops_text text = kt__stops_push(s, "5\xe2\x82\xac", 4);
    assert_int_equal(text.len[0] + text.len[1], 1);
    text = kt__stops_push(s, "\xf0\x9f\x98\x81", 4); /* another face with the same first bytes */
    assert_int_equal(text.len[0], 3);
    assert_int_equal(text.len[1], 4);
    kt__stops_free(s);
}

static void test_bad_stops_are_refused(void **state) {
    (void)state;
    static const char *const empty[] = {"a", ""};
    static const char *const broken[] = {"\xe2\x82"};
    const char *many[KT__STOPS_MAX + 1];
    kt__stops *s;
    kt_error err;
    assert_int_equal(kt__stops_create(empty, 2, &s, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "1 is empty"));
    assert_int_equal(kt__stops_create(broken, 1, &s, &err), KT_E_ARG);
    for (int i = 0; i <= KT__STOPS_MAX; i++) many[i] = "x";
    assert_int_equal(kt__stops_create(many, KT__STOPS_MAX + 1, &s, &err), KT_E_LIMIT);
    assert_null(s);
}

/* Where the first complete stop ends, by looking at every end and every stop. */
static int naive(const char *text, size_t len, char stops[][8], int n, size_t *begin) {
    for (size_t end = 1; end <= len; end++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            size_t size = strlen(stops[i]);
            if (size > end || memcmp(text + end - size, stops[i], size) != 0) continue;
            if (best < 0 || size > strlen(stops[best])) best = i;
        }
        if (best < 0) continue;
        *begin = end - strlen(stops[best]);
        return best;
    }
    *begin = len;
    return -1;
}

/* After every push, what is held must be exactly the longest end of the text that begins a stop. */
static size_t naive_held(const char *text, size_t len, char stops[][8], int n) {
    for (size_t held = len < 7 ? len : 7; held; held--) {
        for (int i = 0; i < n; i++) {
            if (strlen(stops[i]) >= held && !memcmp(stops[i], text + len - held, held)) return held;
        }
    }
    return 0;
}

static void test_random_texts_against_naive(void **state) {
    (void)state;
    uint64_t seed = 42;
    for (int trial = 0; trial < 20000; trial++) {
        char stops[4][8], text[64];
        const char *pointers[4];
        int n = 1 + (int)(ref_random(&seed) % 4), letters = 2 + (int)(ref_random(&seed) % 3);
        for (int i = 0; i < n; i++) {
            size_t size = 1 + ref_random(&seed) % 7;
            for (size_t j = 0; j < size; j++) {
                stops[i][j] = (char)('a' + (int)(ref_random(&seed) % (uint64_t)letters));
            }
            stops[i][size] = '\0';
            pointers[i] = stops[i];
        }
        size_t len = ref_random(&seed) % sizeof text;
        for (size_t j = 0; j < len; j++) {
            text[j] = (char)('a' + (int)(ref_random(&seed) % (uint64_t)letters));
        }
        size_t begin;
        int expected = naive(text, len, stops, n, &begin), stop = -1;
        kt__stops *s;
        kt__buf out;
        kt__buf_init(&out, 1000);
        assert_int_equal(kt__stops_create(pointers, (size_t)n, &s, NULL), KT_OK);
        kt__noalloc_enter();
        for (size_t i = 0; i < len && stop < 0;) {
            size_t piece = ref_random(&seed) % 6;
            if (piece > len - i) piece = len - i;
            kt__stops_text got = kt__stops_push(s, text + i, piece);
            kt__noalloc_leave();
            take(&out, got, &stop);
            kt__noalloc_enter();
            i += piece;
            if (stop < 0) {
                assert_int_equal(i - out.len, naive_held(text, i, stops, n));
            }
        }
        kt__noalloc_leave();
        if (stop < 0) take(&out, kt__stops_flush(s), &(int){0});
        assert_int_equal(out.len, begin);
        if (begin) assert_memory_equal(out.data, text, begin);
        assert_true(stop == expected ||
                    (stop >= 0 && expected >= 0 && !strcmp(stops[stop], stops[expected])));
        kt__stops_free(s);
        kt__buf_free(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_text_is_held_no_longer_than_needed),
        cmocka_unit_test(test_nothing_comes_after_a_stop),
        cmocka_unit_test(test_released_text_is_whole_characters),
        cmocka_unit_test(test_bad_stops_are_refused),
        cmocka_unit_test(test_random_texts_against_naive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
