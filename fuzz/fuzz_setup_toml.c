/* Arbitrary bytes as a configuration file: a tree or a refusal with a place, and what is taken can
 * be printed and read again. */
#include <string.h>

#include "setup/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__config *c, *again;
    kt_error err;
    kt__buf text;
    if (kt__config_create(&c, &err) != KT_OK) return 0;
    kt_status status = kt__config_read_toml(c, (const char *)data, size, "f", &err);
    if (status != KT_OK && (!err.message[0] || err.code != status)) __builtin_trap();
    if (status == KT_OK && kt__config_finish(c, &err) == KT_OK &&
        kt__config_create(&again, &err) == KT_OK) {
        kt__buf_init(&text, 1 << 24);
        kt__config_print(c, &text);
        if (kt__config_read_toml(again, text.data, text.len, "again", &err) != KT_OK)
            __builtin_trap();
        kt__buf_free(&text);
        kt__config_free(again);
    }
    kt__config_free(c);
    return 0;
}
