#include "quant/feedback.h"

#include <math.h>
#include <string.h>

enum { STEP = 16 }; /* columns whose errors continue together */

typedef struct rounder {
    kt__type type;
    kt__levels levels;
    int n_block; /* weights */
    const kt__feedback *fb;
} rounder;

/* A block's scales: weight i of it is scale[i / 16] * level - min[i / 16]. */
typedef struct block_grid {
    float scale[16], min[16];
} block_grid;

static void read_grid(const rounder *r, const void *block, block_grid *grid) {
    if (r->n_block == 256) {
        kt__super super;
        kt__super_unpack(r->type, block, &super);
        for (int g = 0; g < 16; g++) {
            grid->scale[g] = super.d * (float)super.scale[g];
            grid->min[g] = super.has_min ? super.dmin * (float)super.min[g] : 0;
        }
        return;
    }
    kt__block32 small;
    kt__block32_unpack(r->type, block, &small);
    for (int g = 0; g < 2; g++) {
        grid->scale[g] = small.d;
        grid->min[g] = small.has_min ? -small.m : 0;
    }
}

static int level_near(const kt__levels *levels, float v) {
    if (!levels->table) {
        if (!(v > (float)levels->lo)) return levels->lo;
        return v < (float)levels->hi ? (int)lrintf(v) : levels->hi;
    }
    int at = 0;
    for (int k = 1; k < 16; k++)
        at += v >= ((float)levels->table[k - 1] + (float)levels->table[k]) * 0.5f;
    return levels->table[at];
}

/* y[begin..end) takes the errors of n_k columns (a multiple of 4) whose rows begin at `follow`, in
 * their order. */
static void spread_errors(const float *restrict e, int n_k, const float *restrict follow, size_t ld,
                          int64_t begin, int64_t end, float *restrict y) {
    for (int k = 0; k < n_k; k += 4, follow += 4 * ld) {
        const float *a = follow, *b = a + ld, *c = b + ld, *d = c + ld;
        float ea = e[k], eb = e[k + 1], ec = e[k + 2], ed = e[k + 3];
        for (int64_t t = begin; t < end; t++)
            y[t] = (((y[t] + ea * a[t]) + eb * b[t]) + ec * c[t]) + ed * d[t];
    }
}

/* Levels of one block of a row, column by column. Pointers are at the stretch's first column, `at`
 * is the block's first; e receives the errors. */
static void round_block(const rounder *r, const block_grid *grid, const float *follow, int64_t at,
                        const float *w, float *y, float *e, int8_t *q) {
    const size_t ld = r->fb->ld;
    for (int i = 0; i < r->n_block; i += STEP) {
        float scale = grid->scale[i / 16], min = grid->min[i / 16];
        float inverse = scale != 0 ? 1.0f / scale : 0;
        for (int64_t k = at + i; k < at + i + STEP; k++) {
            int level = level_near(&r->levels, (y[k] + min) * inverse);
            float miss = w[k] - (scale * (float)level - min);
            const float *row = follow + (size_t)k * ld;
            q[k - at] = (int8_t)level;
            e[k] = miss;
            for (int64_t t = k + 1; t < at + i + STEP; t++) y[t] += miss * row[t];
        }
        spread_errors(e + at + i, STEP, follow + (size_t)(at + i) * ld, ld, at + i + STEP,
                      at + r->n_block, y);
    }
}

/* One block of every row, and what follows of it to the end of the stretch. */
static void settle_column_block(const rounder *r, const kt__encoding *how, int64_t first, int64_t n,
                                int64_t at, const float *w, int n_row, uint8_t *dst, float *y,
                                float *e) {
    const kt__feedback *fb = r->fb;
    const float *follow = fb->follow + (size_t)first * fb->ld;
    size_t row_bytes = kt__type_row_bytes(r->type, fb->n_col),
           before = kt__type_row_bytes(r->type, first + at);
    kt__encoding here = *how;
    here.importance = fb->importance + first + at;
    for (int i = 0; i < n_row; i++) {
        size_t row = (size_t)i * (size_t)fb->n_col + (size_t)first;
        uint8_t *block = dst + (size_t)i * row_bytes + before;
        block_grid grid;
        int8_t q[256];
        kt__quantize_row_by(r->type, &here, y + row + at, r->n_block, block);
        read_grid(r, block, &grid);
        round_block(r, &grid, follow, at, w + row, y + row, e + row, q);
        kt__block_set_levels(r->type, block, q);
    }
    for (int k = 0; k < r->n_block; k += STEP)
        for (int i = 0; i < n_row; i++) {
            size_t row = (size_t)i * (size_t)fb->n_col + (size_t)first;
            spread_errors(e + row + at + k, STEP, follow + (size_t)(at + k) * fb->ld, fb->ld,
                          at + r->n_block, n, y + row);
        }
}

size_t kt__feedback_room(int64_t n_col) {
    return 2 * KT__FEEDBACK_ROWS * (size_t)n_col;
}

void kt__quantize_rows_feedback(kt__type type, const kt__encoding *how, const kt__feedback *fb,
                                const float *w, int n_row, void *dst, float *room) {
    rounder r = {.type = type, .n_block = kt__type_get(type)->block_elems, .fb = fb};
    size_t n_weight = (size_t)n_row * (size_t)fb->n_col;
    float *y = room, *e = room + n_weight;
    if (!kt__type_levels(type, &r.levels)) return;
    memcpy(y, w, n_weight * sizeof *y);
    for (int64_t first = 0; first < fb->n_col; first += fb->width) {
        int64_t n = fb->n_col - first < fb->width ? fb->n_col - first : fb->width;
        for (int64_t at = 0; at < n; at += r.n_block)
            settle_column_block(&r, how, first, n, at, w, n_row, dst, y, e);
    }
}
