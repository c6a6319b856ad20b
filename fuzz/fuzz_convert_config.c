/* libFuzzer: a config.json from arbitrary bytes. Refused, or its numbers hold what later code
 * relies on, and its keys can be written.
 *
 *   build-fuzz/fuzz_convert_config -max_total_time=60 */
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "convert/config.h"
#include "convert/json_file.h"

static void need(bool condition) {
    if (!condition) abort();
}

static void write_keys(const kt__hf_config *config) {
    kt__gguf_writer *w;
    char *head;
    size_t n;
    uint64_t data_bytes;
    kt_error err;
    need(kt__gguf_writer_open_memory(&w, &err) == KT_OK);
    kt__hf_config_put(config, 100, w);
    need(kt__gguf_writer_take_header(w, &head, &n, &data_bytes, &err) == KT_OK);
    kt__free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const kt__convert_notes notes = {NULL, NULL};
    kt__hf_config c;
    json_t *root;
    kt_error err;
    if (kt__folder_parse_json((const char *)data, size, "config.json", &root, &err) != KT_OK)
        return 0;
    if (kt__hf_config_read(root, "config.json", &notes, &c, &err) != KT_OK) return 0;
    need(c.n_layer >= 1 && c.n_head >= 1 && c.n_head_kv >= 1 && c.n_head % c.n_head_kv == 0);
    need(c.head_dim >= 2 && c.head_dim <= 1024 && c.head_dim % 2 == 0);
    need(c.n_rot >= 2 && c.n_rot <= c.head_dim && c.rope.n_factors <= KT__HF_MAX_FACTORS);
    write_keys(&c);
    kt__hf_config_free(&c);
    return 0;
}
