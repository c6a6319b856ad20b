/* libFuzzer: a safetensors header from arbitrary bytes. Refused, or the tensors lie side by side
 * from the header's end to the file's end, each as long as its shape says.
 *
 *   build-fuzz/fuzz_convert_header -max_total_time=60 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "convert/safetensors.h"

static void need(bool condition) {
    if (!condition) abort();
}

/* The first two bytes say how much data follows the header. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__safetensors st;
    kt_error err;
    if (size < 3) return 0;
    uint64_t n_data = (uint64_t)data[0] << 8 | data[1], n = size - 2;
    kt_status status = kt__safetensors_parse((const char *)data + 2, n, 8 + n + n_data, "f", &st,
                                             &err);
    if (status != KT_OK) {
        need(err.code == status && err.message[0] && !st.tensors);
        return 0;
    }
    uint64_t at = 8 + n;
    for (size_t i = 0; i < st.n; i++) {
        need(st.tensors[i].begin == at && st.tensors[i].end >= at && st.tensors[i].name[0]);
        at = st.tensors[i].end;
    }
    need(at == 8 + n + n_data);
    kt__safetensors_free(&st);
    return 0;
}
