/* Pictures: the bytes of a file to pixels.
 *
 * Owns: which format a file has, its size before anything is decoded, the bounds on both, the
 * orientation that a camera wrote, and what transparent pixels become. Files are decoded by libpng,
 * libjpeg-turbo and libwebp, which are loaded when the first picture of a format comes: a program
 * that sees none needs none of them. Does not know models. Any thread. */
#ifndef KT_PICTURE_PICTURE_H
#define KT_PICTURE_PICTURE_H

#include <kentang.h>

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

#endif
