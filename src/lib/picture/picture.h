/* Pictures: the bytes of a file to pixels, upright and within bounds, and in other sizes.
 *
 * Owns: which format a file has, its size before anything is decoded, the bounds on both, the orientation that a
 * camera wrote, the libraries that decode (found at run time), and resampling. Files are hostile. Any thread. */
#ifndef KT_PICTURE_PICTURE_H
#define KT_PICTURE_PICTURE_H

#include <kentang.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of width * 3 bytes, red, green and blue in sRGB, from the top. */
typedef struct kt__picture {
    int width, height;
    uint8_t *rgb; /* for kt__free */
} kt__picture;

/* A PNG, JPEG or WebP file as it is to be looked at: turned as its EXIF says, transparent parts over
 * white, of 16 bits the upper 8; of an animated PNG its still picture. KT_E_FORMAT: it is damaged, cut short or
 * none of these; KT_E_UNSUPPORTED: it is animated or of a kind that is not read, or a library is missing;
 * KT_E_LIMIT: it is too large. */
kt_status kt__picture_decode(const uint8_t *data, size_t len, kt__picture *out,
                             kt_error *err) KT_CHECKED;
/* Whether bytes begin as a picture that kt__picture_decode reads. */
bool kt__picture_is_one(const uint8_t *data, size_t len);
void kt__picture_free(kt__picture *picture);

/* How a camera was held: the orientation in a picture's EXIF.
 *
 * Finding the EXIF of JPEG, PNG and WebP files and reading one number of it; what is damaged there counts as absent.
 * Any thread. */

/* 1 to 8, as EXIF numbers them; 1 where nothing is said. */
int kt__picture_orientation(const uint8_t *data, size_t len);

/* The libraries that decode pictures.
 *
 * Finding them at run time, what is called of them, and their errors in our words. Bounds of the picture's size are
 * looked at between its header and its pixels. Any thread. */

enum {
    KT__PICTURE_BYTES_MAX = 64 << 20, /* of a file */
    KT__PICTURE_SIDE_MAX = 32768,     /* pixels */
    KT__PICTURE_PIXELS_MAX = 40 << 20,
};

/* Pixels of four bytes, the last one their opacity. */
typedef struct kt__rgba {
    int width, height;
    uint8_t *data; /* for kt__free */
} kt__rgba;

/* Memory for a picture of that size; KT_E_FORMAT: it has no pixels; KT_E_LIMIT, KT_E_NOMEM. */
kt_status kt__rgba_new(int64_t width, int64_t height, kt__rgba *out, kt_error *err) KT_CHECKED;

kt_status kt__decode_png(const uint8_t *data, size_t len, kt__rgba *out, kt_error *err) KT_CHECKED;
kt_status kt__decode_jpeg(const uint8_t *data, size_t len, kt__rgba *out, kt_error *err) KT_CHECKED;
kt_status kt__decode_webp(const uint8_t *data, size_t len, kt__rgba *out, kt_error *err) KT_CHECKED;

/* Pictures in other sizes.
 *
 * Resampling with the filters that image processors of models use, to the very pixels of the library that these use
 * (Pillow 11: a filter as wide as the reduction, weights of 22 bits, rounded to bytes after each direction). Any
 * thread. */

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
