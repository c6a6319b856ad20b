#include "picture/picture.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"

/* ---- filters: of the distance in pixels of the smaller picture ---- */

static double bilinear_at(double x) {
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Keys 1981 */
static double bicubic_at(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static double sinc_at(double x) {
    const double pi = 3.14159265358979323846;
    double s, c;
    if (x == 0.0) return 1.0;
    kt__sincos(x * pi, &s, &c);
    return s / (x * pi);
}

static double lanczos_at(double x) {
    return -3.0 <= x && x < 3.0 ? sinc_at(x) * sinc_at(x / 3.0) : 0.0;
}

static const struct {
    double (*at)(double x);
    double support;
} filters[KT__RESAMPLE_FILTERS] = {{bilinear_at, 1.0}, {bicubic_at, 2.0}, {lanczos_at, 3.0}};

/* ---- weights ---- */

enum { WEIGHT_BITS = 22 };

/* What each pixel of a line is made of: most weights from first[i] on. */
typedef struct line_weights {
    int n, most;
    int *first, *count; /* [n] */
    int32_t *weights;   /* [n][most] */
} line_weights;

static void free_weights(line_weights *w) {
    kt__free(w->first);
    kt__free(w->count);
    kt__free(w->weights);
}

/* Pixel i of n_to from n_from, into row[most]. */
static void fill_weights(line_weights *w, int i, int n_from, double scale,
                         kt__resample_filter filter, double *row) {
    double stretch = scale > 1.0 ? scale : 1.0, support = filters[filter].support * stretch;
    double centre = ((double)i + 0.5) * scale, sum = 0.0;
    int first = (int)(centre - support + 0.5), end = (int)(centre + support + 0.5);
    if (first < 0) first = 0;
    if (end > n_from) end = n_from;
    w->first[i] = first;
    w->count[i] = end - first;
    for (int k = 0; k < end - first; k++) {
        row[k] = filters[filter].at(((double)(k + first) - centre + 0.5) * (1.0 / stretch));
        sum += row[k];
    }
    for (int k = 0; k < end - first; k++) {
        double fixed = (sum != 0.0 ? row[k] / sum : row[k]) * (1 << WEIGHT_BITS);
        w->weights[(size_t)i * (size_t)w->most + (size_t)k] = (int32_t)(fixed < 0.0 ? fixed - 0.5
                                                                                    : fixed + 0.5);
    }
}

static kt_status make_weights(int n_from, int n_to, kt__resample_filter filter, line_weights *w,
                              kt_error *err) {
    double scale = (double)n_from / (double)n_to, stretch = scale > 1.0 ? scale : 1.0;
    w->n = n_to;
    w->most = (int)ceil(filters[filter].support * stretch) * 2 + 1;
    w->first = kt__calloc((size_t)n_to, sizeof *w->first);
    w->count = kt__calloc((size_t)n_to, sizeof *w->count);
    w->weights = kt__calloc((size_t)n_to * (size_t)w->most, sizeof *w->weights);
    double *row = kt__calloc((size_t)w->most, sizeof *row);
    if (!w->first || !w->count || !w->weights || !row) {
        kt__free(row);
        return kt__fail_nomem(err, "a picture's weights", 0);
    }
    for (int i = 0; i < n_to; i++) fill_weights(w, i, n_from, scale, filter, row);
    kt__free(row);
    return KT_OK;
}

/* ---- the two directions ---- */

static uint8_t byte_of(int32_t sum) {
    int32_t value = sum >> WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* One pixel: pixels lie step bytes apart. */
static void weigh_pixel(const line_weights *w, int i, const uint8_t *line, size_t step,
                        uint8_t *to) {
    const int32_t *weights = w->weights + (size_t)i * (size_t)w->most;
    const uint8_t *p = line + (size_t)w->first[i] * step;
    int32_t sum[3] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1)};
    for (int k = 0; k < w->count[i]; k++, p += step)
        for (int c = 0; c < 3; c++) sum[c] += p[c] * weights[k];
    for (int c = 0; c < 3; c++) to[c] = byte_of(sum[c]);
}

static kt_status new_picture(int width, int height, kt__picture *out, kt_error *err) {
    size_t bytes = (size_t)width * (size_t)height * 3;
    out->rgb = kt__malloc(bytes);
    if (!out->rgb) return kt__fail_nomem(err, "a picture", bytes);
    out->width = width;
    out->height = height;
    return KT_OK;
}

static kt_status resample_lines(const kt__picture *from, int width, kt__resample_filter filter,
                                kt__picture *out, kt_error *err) {
    line_weights w = {0};
    kt_status status;
    KT__TRY(make_weights(from->width, width, filter, &w, err));
    KT__TRY(new_picture(width, from->height, out, err));
    for (int y = 0; y < from->height; y++) {
        const uint8_t *line = from->rgb + (size_t)y * (size_t)from->width * 3;
        uint8_t *to = out->rgb + (size_t)y * (size_t)width * 3;
        for (int x = 0; x < width; x++) weigh_pixel(&w, x, line, 3, to + (size_t)x * 3);
    }
out:
    free_weights(&w);
    return status;
}

static kt_status resample_columns(const kt__picture *from, int height, kt__resample_filter filter,
                                  kt__picture *out, kt_error *err) {
    line_weights w = {0};
    kt_status status;
    size_t row = (size_t)from->width * 3;
    KT__TRY(make_weights(from->height, height, filter, &w, err));
    KT__TRY(new_picture(from->width, height, out, err));
    for (int y = 0; y < height; y++) {
        uint8_t *to = out->rgb + (size_t)y * row;
        for (int x = 0; x < from->width; x++)
            weigh_pixel(&w, y, from->rgb + (size_t)x * 3, row, to + (size_t)x * 3);
    }
out:
    free_weights(&w);
    return status;
}

/* A direction that keeps its size is left out, as it changes nothing. */
kt_status kt__picture_resample(const kt__picture *from, int width, int height,
                               kt__resample_filter filter, kt__picture *out, kt_error *err) {
    kt__picture lines = {0};
    kt_status status = KT_OK;
    *out = (kt__picture){0};
    if (width < 1 || height < 1 || width > KT__PICTURE_SIDE_MAX || height > KT__PICTURE_SIDE_MAX)
        return kt__fail(err, KT_E_ARG, "a picture of %d x %d pixels", width, height);
    if (width != from->width) KT__TRY(resample_lines(from, width, filter, &lines, err));
    const kt__picture *wide = lines.rgb ? &lines : from;
    if (height != from->height) {
        status = resample_columns(wide, height, filter, out, err);
    } else if (lines.rgb) {
        *out = lines;
        lines.rgb = NULL;
    } else {
        KT__TRY(new_picture(width, height, out, err));
        memcpy(out->rgb, from->rgb, (size_t)width * (size_t)height * 3);
    }
out:
    if (status != KT_OK) kt__picture_free(out);
    kt__picture_free(&lines);
    return status;
}
