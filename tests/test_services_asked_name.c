/* services: names of models that clients ask for, beside files and repositories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "services/asked_name.h"

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *asked, *path;
        bool fits;
    } cases[] = {
        {"Qwen3-8B-Q4_K_M.gguf", "/models/Qwen3-8B-Q4_K_M.gguf", true},
        {"qwen3-8b-q4_k_m", "/models/Qwen3-8B-Q4_K_M.gguf", true},
        {"Qwen3-8B", "/models/Qwen3-8B-Q4_K_M.gguf", true},
        {"Qwen3-8B", "Qwen3-8B-UD-Q4_K_XL.gguf", true},
        {"Qwen3-8B", "Qwen3-8B.BF16.gguf", true},
        {"Qwen/Qwen3-8B", "/models/Qwen3-8B-Q4_K_M.gguf", true},
        {"Qwen/Qwen3-8B", "hf:unsloth/Qwen3-8B-GGUF:q4_k_m", true},
        {"unsloth/Qwen3-8B-GGUF", "hf:unsloth/Qwen3-8B-GGUF:q4_k_m", true},
        {"hf:unsloth/Qwen3-8B-GGUF:q8_0", "hf:unsloth/Qwen3-8B-GGUF:q4_k_m", true},
        {"unsloth/Qwen3-8B-GGUF", "/m/unsloth/Qwen3-8B-GGUF/weights-Q4_K_M.gguf", true},
        {"unsloth/qwen3-8b", "/m/unsloth/Qwen3-8B-GGUF/weights-Q4_K_M.gguf", true},
        {"org/Folder", "/m/org/Folder/", true},
        {"Folder", "/m/org/Folder", true},
        {"Qwen3", "/models/Qwen3-8B-Q4_K_M.gguf", false},
        {"Qwen3-8B-Q8_0", "/models/Qwen3-8B-Q4_K_M.gguf", false},
        {"other/Qwen3-8B-GGUF", "/m/unsloth/Qwen3-8B-GGUF/weights-Q4_K_M.gguf", false},
        {"models", "/models/Qwen3-8B-Q4_K_M.gguf", false},
        {"/models/Qwen3-8B-Q4_K_M.gguf", "/models/Qwen3-8B-Q4_K_M.gguf", false},
        {"gpt-4o", "/models/Qwen3-8B-Q4_K_M.gguf", false},
        {"", "/models/a.gguf", false},
        {":", "/models/a.gguf", false},
        {"-GGUF", "-GGUF", true},
        {"a", "", false},
        {"/", "/", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (kt__asked_name_fits(cases[i].asked, cases[i].path) != cases[i].fits)
            fail_msg("%s, %s", cases[i].asked, cases[i].path);
    assert_false(kt__asked_name_fits("demo", NULL));
    assert_false(kt__asked_name_fits(NULL, "a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
