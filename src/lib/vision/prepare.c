#include "vision/vision.h"

#include <math.h>
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

/* The size, in pixels, to which a picture of width x height is resized: its longer side becomes the v->longest that the mmproj
 * file states, the other follows by the ratio, rounded up to an even number. */
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

static int at_least(double n, int least) {
    return n < least ? least : (int)n;
}

/* Both sides whole squares of patches, and the pixels within bounds, as near to the picture's form as may be. */
static pixel_size whole_squares(const kt__vision *v, int width, int height) {
    int square = v->patch * v->merge;
    double w = width, h = height, s = square;
    double w_out = nearbyint(w / s) * s, h_out = nearbyint(h / s) * s; /* ties to even */
    if (w_out * h_out > (double)v->max_pixels) {
        double by = sqrt(w * h / (double)v->max_pixels);
        w_out = floor(w / by / s) * s;
        h_out = floor(h / by / s) * s;
    } else if (w_out * h_out < (double)v->min_pixels) {
        double by = sqrt((double)v->min_pixels / (w * h));
        w_out = ceil(w * by / s) * s;
        h_out = ceil(h * by / s) * s;
    }
    return (pixel_size){at_least(w_out, square), at_least(h_out, square)};
}

static kt__tiling tiles_of(const kt__vision *v, int n_x, int n_y, pixel_size tile) {
    int square = v->patch * v->merge, rows_x = tile.width / square;
    return (kt__tiling){.n_x = n_x,
                        .n_y = n_y,
                        .n_tile = n_x * n_y + 1,
                        .width = tile.width,
                        .height = tile.height,
                        .n_rows = rows_x * (tile.height / square),
                        .rows_x = rows_x};
}

kt__tiling kt__vision_tiling(const kt__vision *v, int width, int height) {
    const pixel_size side = {v->side, v->side};
    if (v->family->has & KT__EYE_ANY_SIZE)
        return tiles_of(v, 0, 0, whole_squares(v, width, height));
    if (!(v->family->has & KT__EYE_TILES)) return tiles_of(v, 0, 0, side);
    pixel_size size = whole_tiles(v, longest_side(v, width, height));
    int n_x = size.width / v->side, n_y = size.height / v->side;
    return n_x * n_y == 1 ? tiles_of(v, 0, 0, side) : tiles_of(v, n_x, n_y, side);
}

size_t kt__tiling_bytes(const kt__tiling *t) {
    return (size_t)t->n_tile * (size_t)t->width * (size_t)t->height * 3;
}

static size_t tile_bytes(const kt__tiling *t) {
    return (size_t)t->width * (size_t)t->height * 3;
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
static kt_status shrink_whole(const kt__vision *v, const kt__picture *from,
                              const kt__tiling *tiling, uint8_t *to, kt_error *err) {
    kt__picture whole = {0};
    KT__STEP(
        kt__picture_resample(from, tiling->width, tiling->height, v->family->filter, &whole, err));
    memcpy(to, whole.rgb, tile_bytes(tiling));
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
        for (int x = 0; x < tiling->n_x; x++, to += tile_bytes(tiling))
            copy_tile(v, &whole, x, y, to);
    status = shrink_whole(v, &whole, tiling, to, err);
out:
    kt__picture_free(&longest);
    kt__picture_free(&whole);
    return status;
}

enum { LONGEST_FORM = 200 }; /* times as long as wide, as the processor has it */

static kt_status check_form(const kt__vision *v, const kt__picture *p, const kt__tiling *tiling,
                            kt_error *err) {
    int64_t longer = p->width > p->height ? p->width : p->height;
    int64_t shorter = p->width > p->height ? p->height : p->width;
    if (!(v->family->has & KT__EYE_ANY_SIZE)) return KT_OK;
    if (longer <= shorter * LONGEST_FORM && tiling->n_rows <= v->n_rows) return KT_OK;
    return kt__fail(
        err, KT_E_LIMIT,
        "a picture of %d x %d pixels is too long and narrow for this model: cut it into parts",
        p->width, p->height);
}

kt_status kt__vision_cut(const kt__vision *v, const kt__picture *picture, kt__tiling *tiling,
                         uint8_t **out, kt_error *err) {
    *tiling = kt__vision_tiling(v, picture->width, picture->height);
    size_t bytes = kt__tiling_bytes(tiling);
    *out = NULL;
    KT__STEP(check_form(v, picture, tiling, err));
    *out = kt__malloc(bytes);
    if (!*out) return kt__fail_nomem(err, "a picture's tiles", bytes);
    kt_status status = tiling->n_tile > 1 ? cut_grid(v, picture, tiling, *out, err)
                                          : shrink_whole(v, picture, tiling, *out, err);
    if (status == KT_OK) return KT_OK;
    kt__free(*out);
    *out = NULL;
    return status;
}

void kt__vision_write(const kt__vision *v, const kt__tiling *tiling, kt__buf *out) {
    if (!(v->family->has & KT__EYE_TILES)) {
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
