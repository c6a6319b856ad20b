#include "quant/feedback.h"

#include <math.h>
#include <string.h>

enum { STEP = 16 }; /* columns whose errors continue together */

typedef struct rounder {
    kt__type type;
    bool has_levels; /* else codes are chosen for some columns at a time */
    bool by_codes;   /* else a block is encoded as a whole, and its errors continue in later ones */
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

static void spread_plainly(const kt__feedback_spread *s) {
    for (int i = 0; i < s->n_row; i++)
        for (int k = 0; k < s->n_k; k++)
            for (int t = 0; t < s->n; t++) {
                float *y = s->y + (size_t)i * s->ld_y + t;
                *y = fmaf(s->e[(size_t)i * s->ld_e + (size_t)k],
                          s->follow[(size_t)k * s->ld + (size_t)t], *y);
            }
}

static void spread_errors(const kt__feedback *fb, const kt__feedback_spread *s, void *scratch) {
    if (s->n <= 0) return;
    if (fb->spread)
        fb->spread(fb->spread_user, s, scratch);
    else
        spread_plainly(s);
}

/* A stretch of columns of some rows: every pointer is at the stretch's first column. */
typedef struct stretch_rows {
    const float *follow;
    const float *w; /* [n_row][n_col] */
    float *y, *e;   /* the same */
    int64_t n;      /* columns of the stretch */
    int n_row;
    block_grid grid[KT__FEEDBACK_ROWS]; /* of the block at hand */
    int8_t level[KT__FEEDBACK_ROWS][256];
} stretch_rows;

/* Levels of STEP columns of a row from column k0 on, which is column i of its block. */
static void round_columns(const rounder *r, stretch_rows *s, int row, int64_t k0, int i) {
    const block_grid *grid = &s->grid[row];
    const float *w = s->w + (size_t)row * (size_t)r->fb->n_col;
    float *y = s->y + (size_t)row * (size_t)r->fb->n_col, *e = s->e + (y - s->y);
    float scale = grid->scale[i / 16], min = grid->min[i / 16];
    float inverse = scale != 0 ? 1.0f / scale : 0;
    for (int64_t k = k0; k < k0 + STEP; k++) {
        int level = level_near(&r->levels, (y[k] + min) * inverse);
        float miss = w[k] - (scale * (float)level - min);
        const float *follow = s->follow + (size_t)k * r->fb->ld;
        s->level[row][i + (k - k0)] = (int8_t)level;
        e[k] = miss;
        for (int64_t t = k + 1; t < k0 + STEP; t++) y[t] += miss * follow[t];
    }
}

/* What columns [k0, k0 + n_k) of every row give to columns [k0 + n_k, end). */
static void spread_columns(const rounder *r, const stretch_rows *s, int64_t k0, int n_k,
                           int64_t end, void *scratch) {
    const size_t n_col = (size_t)r->fb->n_col;
    const kt__feedback_spread spread = {.e = s->e + k0,
                                        .follow = s->follow + (size_t)k0 * r->fb->ld + k0 + n_k,
                                        .ld_e = n_col,
                                        .ld = r->fb->ld,
                                        .ld_y = n_col,
                                        .n_row = s->n_row,
                                        .n_k = n_k,
                                        .n = (int)(end - k0) - n_k,
                                        .y = s->y + k0 + n_k};
    spread_errors(r->fb, &spread, scratch);
}

/* The errors of columns [i, i + n) of a block that is encoded. */
static void find_errors(const rounder *r, stretch_rows *s, int row, int64_t at, int i, int n,
                        const uint8_t *block) {
    size_t first = (size_t)row * (size_t)r->fb->n_col + (size_t)at;
    float back[256];
    kt__dequantize_row(r->type, block, r->n_block, back);
    for (int k = i; k < i + n; k++) s->e[first + (size_t)k] = s->w[first + (size_t)k] - back[k];
}

/* STEP columns of a row's block of codes: column i of the block on. */
static void choose_columns(const rounder *r, const kt__encoding *how, stretch_rows *s, int row,
                           int64_t at, int i, uint8_t *block) {
    const float *y = s->y + (size_t)row * (size_t)r->fb->n_col + at + i;
    if (r->by_codes) kt__block_choose_again(r->type, y, how->importance + i, i, STEP, block);
    find_errors(r, s, row, at, i, STEP, block);
}

/* One block of every row, from column `at` of the stretch on, into blocks row_bytes apart; and what
 * follows of it to the end of the stretch. */
static void settle_column_block(const rounder *r, const kt__encoding *how, stretch_rows *s,
                                int64_t at, uint8_t *blocks, size_t row_bytes, void *scratch) {
    for (int row = 0; row < s->n_row; row++) {
        uint8_t *block = blocks + (size_t)row * row_bytes;
        const float *y = s->y + (size_t)row * (size_t)r->fb->n_col + at;
        kt__quantize_row_by(r->type, how, y, r->n_block, block);
        if (r->has_levels) read_grid(r, block, &s->grid[row]);
    }
    for (int i = 0; i < r->n_block; i += STEP) {
        for (int row = 0; row < s->n_row; row++) {
            if (r->has_levels)
                round_columns(r, s, row, at + i, i);
            else
                choose_columns(r, how, s, row, at, i, blocks + (size_t)row * row_bytes);
        }
        spread_columns(r, s, at + i, STEP, at + r->n_block, scratch);
    }
    for (int row = 0; r->has_levels && row < s->n_row; row++)
        kt__block_set_levels(r->type, blocks + (size_t)row * row_bytes, s->level[row]);
    spread_columns(r, s, at, r->n_block, s->n, scratch);
}

size_t kt__feedback_room(int64_t n_col) {
    return 2 * KT__FEEDBACK_ROWS * (size_t)n_col;
}

void kt__quantize_rows_feedback(kt__type type, const kt__encoding *how, const kt__feedback *fb,
                                const float *w, int n_row, void *dst, float *room, void *scratch) {
    rounder r = {.type = type, .n_block = kt__type_get(type)->block_elems, .fb = fb};
    size_t n_weight = (size_t)n_row * (size_t)fb->n_col;
    float *y = room, *e = room + n_weight;
    r.has_levels = kt__type_levels(type, &r.levels);
    r.by_codes = kt__block_choose_again(type, NULL, NULL, 0, 0, NULL);
    memcpy(y, w, n_weight * sizeof *y);
    for (int64_t first = 0; first < fb->n_col; first += fb->width) {
        int64_t left = fb->n_col - first;
        stretch_rows s = {.follow = fb->follow + (size_t)first * fb->ld,
                          .w = w + first,
                          .y = y + first,
                          .e = e + first,
                          .n = left < fb->width ? left : fb->width,
                          .n_row = n_row};
        for (int64_t at = 0; at < s.n; at += r.n_block) {
            kt__encoding here = *how;
            here.importance = fb->importance + first + at;
            settle_column_block(&r, &here, &s, at,
                                (uint8_t *)dst + kt__type_row_bytes(type, first + at),
                                kt__type_row_bytes(type, fb->n_col), scratch);
        }
    }
}
