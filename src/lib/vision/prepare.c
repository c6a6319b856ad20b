#include "vision/prepare.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct pixel_size {
    int width, height;
} pixel_size;

static int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

static int within(int n, int most) {
    return n < 1 ? 1 : n > most ? most : n;
}

/* The longer side as long as the file says, the other by the ratio, even. */
static pixel_size longest_side(const kt__vision *v, int width, int height) {
    double ratio = (double)width / (double)height;
    int longest = v->longest;
    if (width >= height) {
        int h = (int)((double)longest / ratio);
        return (pixel_size){longest, within(h + h % 2, longest)};
    }
    int w = (int)((double)longest * ratio);
    return (pixel_size){within(w + w % 2, longest), longest};
}

/* Both sides whole tiles: the longer one, and the other by the ratio of what it was. */
static pixel_size whole_tiles(const kt__vision *v, pixel_size from) {
    double ratio = (double)from.width / (double)from.height;
    if (from.width >= from.height) {
        int width = round_up(from.width, v->side);
        return (pixel_size){width, round_up(within((int)((double)width / ratio), width), v->side)};
    }
    int height = round_up(from.height, v->side);
    return (pixel_size){round_up(within((int)((double)height * ratio), height), v->side), height};
}

kt__tiling kt__vision_tiling(const kt__vision *v, int width, int height) {
    if (!v->family->tiles) return (kt__tiling){0, 0, 1};
    pixel_size size = whole_tiles(v, longest_side(v, width, height));
    int n_x = size.width / v->side, n_y = size.height / v->side;
    if (n_x * n_y == 1) return (kt__tiling){0, 0, 1};
    return (kt__tiling){n_x, n_y, n_x * n_y + 1};
}

static size_t tile_bytes(const kt__vision *v) {
    return (size_t)v->side * (size_t)v->side * 3;
}

static void copy_tile(const kt__vision *v, const kt__picture *from, int tile_x, int tile_y,
                      uint8_t *to) {
    size_t row = (size_t)v->side * 3;
    for (int y = 0; y < v->side; y++)
        memcpy(to + (size_t)y * row,
               from->rgb + ((size_t)(tile_y * v->side + y) * (size_t)from->width +
                            (size_t)(tile_x * v->side)) *
                               3,
               row);
}

/* The picture as a whole in one tile. */
static kt_status shrink(const kt__vision *v, const kt__picture *from, uint8_t *to, kt_error *err) {
    kt__picture whole = {0};
    KT__STEP(kt__picture_resample(from, v->side, v->side, v->family->filter, &whole, err));
    memcpy(to, whole.rgb, tile_bytes(v));
    kt__picture_free(&whole);
    return KT_OK;
}

/* Resized twice, as the processor does it: what is lost on the way is part of what models learned from. */
static kt_status cut_grid(const kt__vision *v, const kt__picture *from, const kt__tiling *tiling,
                          uint8_t *to, kt_error *err) {
    kt__picture longest = {0}, whole = {0};
    pixel_size first = longest_side(v, from->width, from->height);
    pixel_size size = whole_tiles(v, first);
    kt_status status;
    KT__TRY(
        kt__picture_resample(from, first.width, first.height, v->family->filter, &longest, err));
    KT__TRY(
        kt__picture_resample(&longest, size.width, size.height, v->family->filter, &whole, err));
    for (int y = 0; y < tiling->n_y; y++)
        for (int x = 0; x < tiling->n_x; x++, to += tile_bytes(v)) copy_tile(v, &whole, x, y, to);
    status = shrink(v, &whole, to, err);
out:
    kt__picture_free(&longest);
    kt__picture_free(&whole);
    return status;
}

kt_status kt__vision_cut(const kt__vision *v, const kt__picture *picture, kt__tiling *tiling,
                         uint8_t **out, kt_error *err) {
    *tiling = kt__vision_tiling(v, picture->width, picture->height);
    size_t bytes = (size_t)tiling->n_tile * tile_bytes(v);
    *out = kt__malloc(bytes);
    if (!*out) return kt__fail_nomem(err, "a picture's tiles", bytes);
    kt_status status = tiling->n_tile > 1 ? cut_grid(v, picture, tiling, *out, err)
                                          : shrink(v, picture, *out, err);
    if (status == KT_OK) return KT_OK;
    kt__free(*out);
    *out = NULL;
    return status;
}

void kt__vision_write(const kt__vision *v, const kt__tiling *tiling, kt__buf *out) {
    if (!v->family->tiles) {
        (void)kt__buf_puts(out, v->family->in_place);
        return;
    }
    char place[64];
    for (int y = 1; y <= tiling->n_y; y++) {
        for (int x = 1; x <= tiling->n_x; x++) {
            snprintf(place, sizeof place, "<fake_token_around_image><row_%d_col_%d>", y, x);
            (void)kt__buf_puts(out, place);
            (void)kt__buf_puts(out, v->family->in_place);
        }
        (void)kt__buf_putc(out, '\n');
    }
    if (tiling->n_y) (void)kt__buf_putc(out, '\n');
    (void)kt__buf_puts(out, "<fake_token_around_image><global-img>");
    (void)kt__buf_puts(out, v->family->in_place);
    (void)kt__buf_puts(out, "<fake_token_around_image>");
}
