/* store: checksums, names that are safe, the choice among a hub's files, and what hubs answer. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "store/hub.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* FIPS 180-4's examples, and lengths around a block's end against one piece at a time. */
static void test_sha(void **state) {
    (void)state;
    char hex[KT__SHA_HEX], again[KT__SHA_HEX], text[300];
    kt__sha sha;
    kt__sha256_begin(&sha);
    kt__sha_add(&sha, "abc", 3);
    kt__sha_end(&sha, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    kt__sha256_begin(&sha);
    kt__sha_end(&sha, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    kt__sha1_begin_blob(&sha, 6); /* echo hello | git hash-object --stdin */
    kt__sha_add(&sha, "hello\n", 6);
    kt__sha_end(&sha, hex);
    assert_string_equal(hex, "ce013625030ba8dba906f756967f9e9ca394464a");
    memset(text, 'x', sizeof text);
    for (size_t n = 50; n < 140; n++) {
        kt__sha256_begin(&sha);
        kt__sha_add(&sha, text, n);
        kt__sha_end(&sha, hex);
        kt__sha256_begin(&sha);
        for (size_t i = 0; i < n; i++) kt__sha_add(&sha, text + i, 1);
        kt__sha_end(&sha, again);
        assert_string_equal(hex, again);
    }
}

static void test_safe_names(void **state) {
    (void)state;
    static const char *const good[] = {"a", "a/b.gguf", "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
                                       "a b (1)"};
    static const char *const bad[] = {"",   "/a",     "a/",   "a//b",      ".a",   "a/.b",
                                      "..", "a/../b", "a\\b", "a\nb.gguf", "\x80", "a/./b"};
    for (size_t i = 0; i < COUNT(good); i++) assert_true(kt__name_is_safe(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++) assert_false(kt__name_is_safe(bad[i]));
    char longest[300];
    memset(longest, 'a', sizeof longest);
    longest[201] = '\0';
    assert_false(kt__name_is_safe(longest));
    longest[200] = '\0';
    assert_true(kt__name_is_safe(longest));
    assert_true(kt__name_has_tag("Model-Q4_K_M.gguf", "q4_k_m"));
    assert_true(kt__name_has_tag("model.UD-Q4_K_XL-00001-of-00002.gguf", "q4_k_xl"));
    assert_false(kt__name_has_tag("Model-Q4_K_M.gguf", "q4_k"));
    assert_false(kt__name_has_tag("Model-IQ4_XS.gguf", "q4_xs"));
    assert_false(kt__name_has_tag("Model-Q4_0.gguf", "4_0"));
}

/* The names that are chosen, joined by blanks; "!" where it is refused. */
static const char *choose(const char *const *names, size_t n, const char *file, const char *tag) {
    static char out[1024];
    const kt__wish wish = {file, tag, "test"};
    bool chosen[32];
    kt_error err;
    out[0] = '\0';
    if (kt__choose_files(names, n, &wish, chosen, &err) != KT_OK) return "!";
    for (size_t i = 0; i < n; i++) {
        if (!chosen[i]) continue;
        strcat(out, out[0] ? " " : "");
        strcat(out, names[i]);
    }
    return out;
}

static void test_choice(void **state) {
    (void)state;
    static const char *const many[] = {"m-Q8_0.gguf",
                                       "m-Q4_K_M.gguf",
                                       "mmproj-m-f16.gguf",
                                       "README.md",
                                       "big/m-F32-00001-of-00002.gguf",
                                       "big/m-F32-00002-of-00002.gguf",
                                       "m-Q6_K-00001-of-00002.gguf"};
    assert_string_equal(choose(many, COUNT(many), NULL, NULL), "m-Q4_K_M.gguf mmproj-m-f16.gguf");
    assert_string_equal(choose(many, COUNT(many), NULL, "q8_0"), "m-Q8_0.gguf mmproj-m-f16.gguf");
    assert_string_equal(choose(many, COUNT(many), NULL, "F32"),
                        "big/m-F32-00001-of-00002.gguf big/m-F32-00002-of-00002.gguf");
    assert_string_equal(choose(many, COUNT(many), NULL, "q6_k"), "!"); /* half of it */
    assert_string_equal(choose(many, COUNT(many), NULL, "q5_k_m"), "!");
    assert_string_equal(choose(many, COUNT(many), "m-Q8_0.gguf", NULL),
                        "m-Q8_0.gguf mmproj-m-f16.gguf");
    assert_string_equal(choose(many, COUNT(many), "mmproj-m-f16.gguf", NULL), "mmproj-m-f16.gguf");
    assert_string_equal(choose(many, COUNT(many), "README.md", NULL), "!");
    static const char *const eyes[] = {"m.gguf", "mmproj-BF16.gguf", "mmproj-F32.gguf",
                                       "x/mmproj-Q8_0.gguf", "mmproj-F16.gguf"};
    assert_string_equal(choose(eyes, 5, NULL, NULL), "m.gguf mmproj-F16.gguf");
    assert_string_equal(choose(eyes, 4, NULL, NULL), "m.gguf mmproj-BF16.gguf");
    assert_string_equal(choose(eyes + 1, 2, NULL, NULL), "!");
    static const char *const two[] = {"a-Q8_0.gguf", "b-Q8_0.gguf"};
    assert_string_equal(choose(two, 2, NULL, NULL), "!");
    assert_string_equal(choose(two, 2, NULL, "q8_0"), "!");
    assert_string_equal(choose(two, 1, NULL, NULL), "a-Q8_0.gguf");
    static const char *const folder[] = {"config.json", "model.safetensors", "train.py",
                                         "consolidated.safetensors", "sub/x.safetensors"};
    assert_string_equal(choose(folder, COUNT(folder), NULL, NULL), "config.json model.safetensors");
    assert_string_equal(choose(folder + 1, COUNT(folder) - 1, NULL, NULL), "!");
    assert_string_equal(choose(folder, 0, NULL, NULL), "!");
}

static void test_name_parts(void **state) {
    (void)state;
    kt__hub_name n;
    kt_error err;
    assert_int_equal(kt__hub_name_parse("hf:O/R@v1/sub/f.gguf", &n, &err), KT_OK);
    assert_string_equal(n.repo, "O/R");
    assert_string_equal(n.revision, "v1");
    assert_string_equal(n.file, "sub/f.gguf");
    assert_int_equal(kt__hub_name_parse("hf.co/O/R:q4_k_m", &n, &err), KT_OK);
    assert_string_equal(n.repo, "O/R");
    assert_string_equal(n.tag, "q4_k_m");
    assert_int_equal(kt__hub_name_parse("http://h:80/a/b.gguf", &n, &err), KT_OK);
    assert_string_equal(n.repo, "h");
    assert_string_equal(n.url, "http://h:80/a/");
    assert_string_equal(n.file, "b.gguf");
    static const char *const bad[] = {"",     ":",       "a:",       "O/R@",           "/a",
                                      "a//b", "http://", "http://h", "http://h/x.bin", "O/../R",
                                      "hf:"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(kt__hub_name_parse(bad[i], &n, &err), KT_E_ARG);
}

static void test_answers(void **state) {
    (void)state;
    static const char page[] =
        "<a href=\"../\">up</a><a HREF='m%20a.gguf'>m</a><a href=\"./b.gguf\">"
        "<a href=\"/etc/x.gguf\"><a href=\"?C=N\"><a href=\"%2e%2e%2fy.gguf\">"
        "<a href=\"b.gguf\"><a href=\"q&amp;r.gguf\"><a href=\"%00.gguf\"><a href=\"";
    static const char tree[] =
        "[{\"type\":\"file\",\"path\":\"a.gguf\",\"size\":5,\"oid\":\"00\",\"lfs\":"
        "{\"oid\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        "\"}},{\"path\":\"../b\"},{\"path\":7},3]";
    static const char layers[] =
        "{\"layers\":[{\"mediaType\":\"application/vnd.ollama.image.model\","
        "\"digest\":\"sha256:../../x\",\"size\":1}]}";
    kt__offer offer = {0};
    kt_error err;
    assert_int_equal(kt__hub_read_listing(page, sizeof page - 1, "http://h/", &offer, &err), KT_OK);
    assert_int_equal(offer.n, 3);
    assert_string_equal(offer.files[0].url, "http://h/m%20a.gguf");
    assert_string_equal(offer.files[1].name, "b.gguf");
    assert_string_equal(offer.files[2].name, "q&r.gguf");
    kt__offer_free(&offer);
    assert_int_equal(kt__hub_read_tree(tree, sizeof tree - 1, "http://h/", &offer, &err), KT_OK);
    assert_int_equal(offer.n, 1);
    assert_int_equal(offer.files[0].bytes, 5);
    assert_int_equal(strlen(offer.files[0].sha), 64);
    kt__offer_free(&offer);
    assert_int_equal(kt__hub_read_tree("{}", 2, "http://h/", &offer, &err), KT_E_FORMAT);
    assert_int_equal(kt__hub_read_manifest(layers, sizeof layers - 1, "u", "n.gguf", &offer, &err),
                     KT_E_FORMAT);
    assert_int_equal(kt__hub_read_manifest("{}", 2, "u", "n.gguf", &offer, &err), KT_E_FORMAT);
    kt__offer_free(&offer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha),     cmocka_unit_test(test_safe_names),
        cmocka_unit_test(test_choice),  cmocka_unit_test(test_name_parts),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
