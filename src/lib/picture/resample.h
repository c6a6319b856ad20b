/* Pictures in other sizes.
 *
 * Owns: resampling with the filters that image processors of models use, to the very pixels of the
 * library that these use (Pillow 11: a filter as wide as the reduction, weights of 22 bits, rounded to
 * bytes after each direction). Any thread. */
#ifndef KT_PICTURE_RESAMPLE_H
#define KT_PICTURE_RESAMPLE_H

#include "picture/picture.h"

typedef enum kt__resample_filter {
    KT__RESAMPLE_BILINEAR,
    KT__RESAMPLE_BICUBIC, /* a = -0.5 */
    KT__RESAMPLE_LANCZOS, /* three lobes */
    KT__RESAMPLE_FILTERS
} kt__resample_filter;

/* A picture of that size, both sides 1 to KT__PICTURE_SIDE_MAX. */
kt_status kt__picture_resample(const kt__picture *from, int width, int height,
                               kt__resample_filter filter, kt__picture *out,
                               kt_error *err) KT_CHECKED;

#endif
