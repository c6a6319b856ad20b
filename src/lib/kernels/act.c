#include <assert.h>

#include "kernels/kernels.h"

static size_t align64(size_t n) { return (n + 63) & ~(size_t)63; }

kt__act_layout kt__act_layout_of(kt__act_kind kind, int n_col) {
    kt__act_layout layout = {0};
    size_t n = (size_t)n_col;
    assert(n_col >= 0);
    switch (kind) {
    case KT__ACT_Q32:
        assert(n % 32 == 0);
        layout.d = align64(n);
        layout.s32 = layout.d + align64(n / 32 * sizeof(float));
        layout.row_bytes = layout.s32 + align64(n / 32 * sizeof(int16_t));
        break;
    case KT__ACT_Q256:
        assert(n % 256 == 0);
        layout.d = align64(n);
        layout.s16 = layout.d + align64(n / 256 * sizeof(float));
        layout.s32 = layout.s16 + align64(n / 16 * sizeof(int16_t));
        layout.row_bytes = layout.s32 + align64(n / 32 * sizeof(int16_t));
        break;
    default: /* an odd number of lines: rows 4 KB apart would meet in the same sets of L1 */
        layout.row_bytes = align64(n * sizeof(float)) | 64;
        break;
    }
    return layout;
}
