/* JSON bytes: what is read and written again reads as the same. */
#include <stdlib.h>
#include <string.h>

#include "jinja/jinja_run.h"
#include "jinja/json.h"

static void round_trip(kt__jx *x, kt__jv value) {
    const kt__jdump opt = {0};
    const kt__jstr *text;
    kt__jv again;
    uint64_t steps = UINT64_MAX;
    if (kt__jx_dump(x, value, &opt, &text) != KT_OK) return;
    kt_status status = kt__json_parse(&x->arena, text->data, text->len, &again, NULL);
    if (status == KT_E_NOMEM) return;
    bool infinite = memmem(text->data, text->len, "Infinity", 8) !=
                    NULL; /* a number over the range */
    if (status != KT_OK && !infinite) abort();
    if (status == KT_OK && !kt__j_equal(value, again, &steps)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__jinja *nothing;
    kt__jx x;
    kt__jv value;
    if (kt__jinja_parse("", 0, &nothing, NULL) != KT_OK) return 0;
    if (kt__jx_init(&x, nothing, 0, NULL) == KT_OK) {
        x.arena.max_bytes = 32 << 20;
        if (kt__json_parse(&x.arena, (const char *)data, size, &value, NULL) == KT_OK)
            round_trip(&x, value);
    }
    kt__jx_free(&x);
    kt__jinja_free(nothing);
    return 0;
}
