#include "picture/picture.h"

#include <stdbool.h>
#include <string.h>

#ifdef __linux__
#endif

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"

kt_status kt__rgba_new(int64_t width, int64_t height, kt__rgba *out, kt_error *err) {
    *out = (kt__rgba){0};
    if (width <= 0 || height <= 0)
        return kt__fail(err, KT_E_FORMAT, "the picture has no pixels: its file is damaged");
    if (width > KT__PICTURE_SIDE_MAX || height > KT__PICTURE_SIDE_MAX ||
        width * height > KT__PICTURE_PIXELS_MAX)
        return kt__fail(err, KT_E_LIMIT,
                        "the picture has %lld x %lld pixels, and %d million are read at most, %d a "
                        "side: make it smaller",
                        (long long)width, (long long)height, KT__PICTURE_PIXELS_MAX / 1000000,
                        KT__PICTURE_SIDE_MAX);
    size_t bytes = (size_t)width * (size_t)height * 4;
    out->data = kt__malloc(bytes);
    if (!out->data) return kt__fail_nomem(err, "a picture", bytes);
    out->width = (int)width;
    out->height = (int)height;
    return KT_OK;
}

/* ---- the libraries ----
 *
 * Each version that breaks programs has another file name, so that what is declared here is what
 * the file has: building kentang needs none of their headers. */

static kt_status load_codec(const char *format, const char *file, const char *package, void **out,
                            kt_error *err) {
    *out = kt__library_open(file);
    if (*out) return KT_OK;
    if (kt__process_is_static())
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "a %s picture needs %s, and this is the static binary, which loads no "
                        "library: use kentang as a Debian package or built from source",
                        format, file);
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "a %s picture needs %s, which is not installed; on Debian: apt-get install %s",
                    format, file, package);
}

typedef struct codec_symbol {
    const char *name;
    void *to; /* where the function's address goes */
} codec_symbol;

static kt_status find_symbols(void *lib, const codec_symbol *symbols, size_t n, kt_error *err) {
    for (size_t i = 0; i < n; i++) {
        void *found = kt__library_find(lib, symbols[i].name);
        if (!found)
            return kt__fail(err, KT_E_UNSUPPORTED,
                            "the installed library for pictures has no %s: install the one of the "
                            "distribution",
                            symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
    }
    return KT_OK;
}

/* ---- PNG: libpng's simplified interface ---- */

enum { PNG_VERSION = 1, PNG_RGBA = 3, PNG_16BIT_SRGB = 4, PNG_FAILED = 2 };

typedef struct png_handle {
    void *opaque;
    uint32_t version, width, height, format, flags, n_colours, warning_or_error;
    char message[64];
} png_handle;

typedef struct png_lib {
    int (*begin)(png_handle *, const void *, size_t);
    int (*finish)(png_handle *, const void *, void *, int32_t, void *);
    void (*release)(png_handle *);
} png_lib;

static kt_status open_png(png_lib *lib, kt_error *err) {
    void *file;
    KT__STEP(load_codec("PNG", "libpng16.so.16", "libpng16-16", &file, err));
    const codec_symbol symbols[] = {{"png_image_begin_read_from_memory", &lib->begin},
                                    {"png_image_finish_read", &lib->finish},
                                    {"png_image_free", &lib->release}};
    return find_symbols(file, symbols, 3, err);
}

static kt_status fail_png(const png_handle *png, kt_error *err) {
    return kt__fail(err, KT_E_FORMAT, "the PNG file is damaged: %.60s", png->message);
}

/* Of an animated file this is the still picture that viewers show which know no animation. */
kt_status kt__decode_png(const uint8_t *data, size_t len, kt__rgba *out, kt_error *err) {
    png_handle png = {.version = PNG_VERSION};
    png_lib lib;
    kt_status status;
    KT__STEP(open_png(&lib, err));
    if (!lib.begin(&png, data, len)) return fail_png(&png, err);
    KT__TRY(kt__rgba_new(png.width, png.height, out, err));
    png.format = PNG_RGBA;
    png.flags |= PNG_16BIT_SRGB;
    if (!lib.finish(&png, NULL, out->data, 0, NULL) || png.warning_or_error >= PNG_FAILED)
        status = fail_png(&png, err);
out:
    lib.release(&png);
    return status;
}

/* ---- JPEG: libjpeg-turbo's TurboJPEG interface ---- */

enum { JPEG_RGBA = 7, JPEG_CMYK = 11, JPEG_LIMIT_SCANS = 32768 };
enum { JPEG_OF_CMYK = 3, JPEG_OF_YCCK = 4 };

typedef struct jpeg_lib {
    void *(*open)(void);
    int (*header)(void *, const unsigned char *, unsigned long, int *, int *, int *, int *);
    int (*decode)(void *, const unsigned char *, unsigned long, unsigned char *, int, int, int, int,
                  int);
    char *(*message)(void *);
    int (*close)(void *);
} jpeg_lib;

static kt_status open_jpeg(jpeg_lib *lib, kt_error *err) {
    void *file;
    KT__STEP(load_codec("JPEG", "libturbojpeg.so.0", "libturbojpeg0", &file, err));
    const codec_symbol symbols[] = {{"tjInitDecompress", &lib->open},
                                    {"tjDecompressHeader3", &lib->header},
                                    {"tjDecompress2", &lib->decode},
                                    {"tjGetErrorStr2", &lib->message},
                                    {"tjDestroy", &lib->close}};
    return find_symbols(file, symbols, 5, err);
}

/* Whether an APP14 segment says that Adobe wrote it: then 255 is no ink. */
static bool is_of_adobe(const uint8_t *data, size_t len) {
    for (size_t at = 2; at + 16 <= len && data[at] == 0xff && data[at + 1] != 0xda;) {
        if (data[at + 1] == 0xee && !memcmp(data + at + 4, "Adobe", 5)) return true;
        at += 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
    }
    return false;
}

/* In place: inks to red, green and blue, as much as paper and black let through. */
static void rgb_of_inks(kt__rgba *picture, bool inverted) {
    size_t n = (size_t)picture->width * (size_t)picture->height;
    for (size_t i = 0; i < n; i++) {
        uint8_t *p = picture->data + i * 4;
        unsigned black = inverted ? p[3] : 255u - p[3];
        for (int c = 0; c < 3; c++) {
            unsigned light = inverted ? p[c] : 255u - p[c];
            p[c] = (uint8_t)((light * black + 127) / 255);
        }
        p[3] = 255;
    }
}

/* A file that was cut short is decoded to grey where its data ends, with a warning; other warnings
 * are about what does no harm. */
static kt_status check_jpeg(const jpeg_lib *lib, void *jpeg, int result, kt_error *err) {
    const char *message = lib->message(jpeg);
    if (result == 0) return KT_OK;
    if (!strncmp(message, "Premature end", 13))
        return kt__fail(err, KT_E_FORMAT, "the JPEG file is cut short");
    if (strstr(message, "extraneous") || strstr(message, "Inconsistent progression")) return KT_OK;
    return kt__fail(err, KT_E_FORMAT, "the JPEG file is damaged: %.100s", message);
}

kt_status kt__decode_jpeg(const uint8_t *data, size_t len, kt__rgba *out, kt_error *err) {
    int width = 0, height = 0, sampling, space;
    kt_status status;
    jpeg_lib lib;
    KT__STEP(open_jpeg(&lib, err));
    void *jpeg = lib.open();
    if (!jpeg) return kt__fail_nomem(err, "a JPEG decoder", 0);
    if (lib.header(jpeg, data, (unsigned long)len, &width, &height, &sampling, &space) != 0)
        KT__TRY(kt__fail(err, KT_E_FORMAT, "the JPEG file is damaged: %.100s", lib.message(jpeg)));
    KT__TRY(kt__rgba_new(width, height, out, err));
    bool inks = space == JPEG_OF_CMYK || space == JPEG_OF_YCCK;
    int result = lib.decode(jpeg, data, (unsigned long)len, out->data, width, 0, height,
                            inks ? JPEG_CMYK : JPEG_RGBA, JPEG_LIMIT_SCANS);
    KT__TRY(check_jpeg(&lib, jpeg, result, err));
    if (inks) rgb_of_inks(out, is_of_adobe(data, len));
out:
    lib.close(jpeg);
    return status;
}

/* ---- WebP ---- */

typedef struct webp_lib {
    int (*info)(const uint8_t *, size_t, int *, int *);
    uint8_t *(*decode)(const uint8_t *, size_t, uint8_t *, size_t, int);
} webp_lib;

enum { WEBP_FLAGS_AT = 20, WEBP_ANIMATED = 2 };

kt_status kt__decode_webp(const uint8_t *data, size_t len, kt__rgba *out, kt_error *err) {
    int width = 0, height = 0;
    webp_lib lib;
    void *file;
    if (len > WEBP_FLAGS_AT && !memcmp(data + 12, "VP8X", 4) && data[WEBP_FLAGS_AT] & WEBP_ANIMATED)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "the WebP file is animated: give one of its pictures");
    KT__STEP(load_codec("WebP", "libwebp.so.7", "libwebp7", &file, err));
    const codec_symbol symbols[] = {{"WebPGetInfo", &lib.info},
                                    {"WebPDecodeRGBAInto", &lib.decode}};
    KT__STEP(find_symbols(file, symbols, 2, err));
    if (!lib.info(data, len, &width, &height))
        return kt__fail(err, KT_E_FORMAT, "the WebP file is damaged");
    KT__STEP(kt__rgba_new(width, height, out, err));
    size_t bytes = (size_t)width * (size_t)height * 4;
    if (!lib.decode(data, len, out->data, bytes, width * 4))
        return kt__fail(err, KT_E_FORMAT, "the WebP file is damaged or cut short");
    return KT_OK;
}
