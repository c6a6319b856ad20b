/* The libraries that decode pictures.
 *
 * Owns: finding them at run time, what is called of them, and their errors in our words. Bounds of
 * the picture's size are looked at between its header and its pixels. Any thread. */
#ifndef KT_PICTURE_CODECS_H
#define KT_PICTURE_CODECS_H

#include <kentang.h>

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

#endif
