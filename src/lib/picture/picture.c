#include "picture/picture.h"

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <string.h>

/* ---- how the camera was held ---- */

typedef struct byte_range {
    const uint8_t *data;
    size_t len;
} byte_range;

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t little_endian(const uint8_t *p) {
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* ---- where the EXIF is ---- */

/* A segment APP1 before the first scan */
static byte_range exif_of_jpeg(const uint8_t *data, size_t len) {
    for (size_t at = 2; at + 4 <= len && data[at] == 0xff && data[at + 1] != 0xda;) {
        size_t size = (size_t)data[at + 2] << 8 | data[at + 3];
        if (size < 2 || size > len - at - 2) break;
        if (data[at + 1] == 0xe1 && size >= 8 && !memcmp(data + at + 4, "Exif\0\0", 6))
            return (byte_range){data + at + 10, size - 8};
        at += 2 + size;
    }
    return (byte_range){NULL, 0};
}

/* A chunk eXIf, of big-endian length, name, content and check sum */
static byte_range exif_of_png(const uint8_t *data, size_t len) {
    for (size_t at = 8; at + 12 <= len;) {
        size_t size = big_endian(data + at);
        if (size > len - at - 12) break;
        if (!memcmp(data + at + 4, "eXIf", 4)) return (byte_range){data + at + 8, size};
        at += 12 + size;
    }
    return (byte_range){NULL, 0};
}

/* A chunk EXIF, of name, little-endian length, and content, padded to an even size */
static byte_range exif_of_webp(const uint8_t *data, size_t len) {
    for (size_t at = 12; at + 8 <= len;) {
        size_t size = little_endian(data + at + 4);
        if (size > len - at - 8) break;
        if (!memcmp(data + at, "EXIF", 4)) {
            bool named = size > 6 && !memcmp(data + at + 8, "Exif\0\0", 6);
            return (byte_range){data + at + (named ? 14 : 8), size - (named ? 6 : 0)};
        }
        at += 8 + size + (size & 1);
    }
    return (byte_range){NULL, 0};
}

/* ---- what it says ---- */

enum { TAG_ORIENTATION = 0x112, ENTRY_BYTES = 12 };

/* TIFF's first directory: after its offset a count, and entries of tag, type, number and value. */
static int orientation_of(byte_range exif) {
    const uint8_t *d = exif.data;
    if (exif.len < 8) return 1;
    bool little = !memcmp(d, "II", 2);
    if (!little && memcmp(d, "MM", 2)) return 1;
    size_t at = little ? little_endian(d + 4) : big_endian(d + 4);
    if (at > exif.len - 2) return 1;
    size_t n = little ? (size_t)d[at + 1] << 8 | d[at] : (size_t)d[at] << 8 | d[at + 1];
    for (at += 2; n > 0 && at + ENTRY_BYTES <= exif.len; n--, at += ENTRY_BYTES) {
        unsigned tag = little ? (unsigned)d[at + 1] << 8 | d[at] : (unsigned)d[at] << 8 | d[at + 1];
        unsigned value = little ? d[at + 8] : d[at + 9];
        if (tag == TAG_ORIENTATION) return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

int kt__picture_orientation(const uint8_t *data, size_t len) {
    if (len < 16) return 1;
    if (data[0] == 0xff) return orientation_of(exif_of_jpeg(data, len));
    if (data[0] == 0x89) return orientation_of(exif_of_png(data, len));
    return orientation_of(exif_of_webp(data, len));
}

/* ---- decoding ---- */

typedef enum file_kind { FILE_PNG, FILE_JPEG, FILE_WEBP, FILE_OTHER } file_kind;

static file_kind kind_of_file(const uint8_t *data, size_t len) {
    if (len >= 8 && !memcmp(data, "\x89PNG\r\n\x1a\n", 8)) return FILE_PNG;
    if (len >= 3 && !memcmp(data, "\xff\xd8\xff", 3)) return FILE_JPEG;
    if (len >= 12 && !memcmp(data, "RIFF", 4) && !memcmp(data + 8, "WEBP", 4)) return FILE_WEBP;
    return FILE_OTHER;
}

bool kt__picture_is_one(const uint8_t *data, size_t len) {
    return kind_of_file(data, len) != FILE_OTHER;
}

/* Other formats that people have, by what they begin with. */
static const char *name_of_other(const uint8_t *data, size_t len) {
    static const struct {
        size_t at;
        const char *magic, *name;
    } rows[] = {
        {0, "GIF8", "a GIF"},       {0, "BM", "a BMP"},         {0, "II*", "a TIFF"},
        {0, "MM", "a TIFF"},        {4, "ftypheic", "an HEIC"}, {4, "ftypmif1", "an HEIF"},
        {4, "ftypavif", "an AVIF"}, {0, "<svg", "an SVG"},      {0, "<?xml", "an SVG"},
        {0, "%PDF", "a PDF"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].magic);
        if (len >= rows[i].at + n && !memcmp(data + rows[i].at, rows[i].magic, n))
            return rows[i].name;
    }
    return NULL;
}

static kt_status refuse_other(const uint8_t *data, size_t len, kt_error *err) {
    const char *name = name_of_other(data, len);
    if (len == 0) return kt__fail(err, KT_E_FORMAT, "the picture is empty: 0 bytes");
    if (name)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "%s file is not read: save the picture as PNG, JPEG or WebP", name);
    return kt__fail(err, KT_E_FORMAT, "%zu bytes that are no PNG, JPEG or WebP file", len);
}

static kt_status decode_file(const uint8_t *data, size_t len, kt__rgba *out, kt_error *err) {
    if (len > KT__PICTURE_BYTES_MAX)
        return kt__fail(err, KT_E_LIMIT, "a picture of %zu MB; %d are read at most", len >> 20,
                        KT__PICTURE_BYTES_MAX >> 20);
    switch (kind_of_file(data, len)) {
    case FILE_PNG: return kt__decode_png(data, len, out, err);
    case FILE_JPEG: return kt__decode_jpeg(data, len, out, err);
    case FILE_WEBP: return kt__decode_webp(data, len, out, err);
    default: return refuse_other(data, len, err);
    }
}

/* Where the pixel that is shown at (x, y) of a picture turned by EXIF's number lies in a file of w x
 * h pixels. From 5 on width and height change places. */
static size_t source_of(int orientation, int w, int h, int x, int y) {
    int right = w - 1, bottom = h - 1, sx = x, sy = y;
    switch (orientation) {
    case 2: sx = right - x; break;
    case 3: sx = right - x, sy = bottom - y; break;
    case 4: sy = bottom - y; break;
    case 5: sx = y, sy = x; break;
    case 6: sx = y, sy = bottom - x; break;
    case 7: sx = right - y, sy = bottom - x; break;
    case 8: sx = right - y, sy = x; break;
    default: break;
    }
    return (size_t)sy * (size_t)w + (size_t)sx;
}

static uint8_t over_white(unsigned value, unsigned opacity) {
    return (uint8_t)((value * opacity + 255 * (255 - opacity) + 127) / 255);
}

static kt_status put_upright(const kt__rgba *from, int orientation, kt__picture *out,
                             kt_error *err) {
    bool turned = orientation >= 5;
    int width = turned ? from->height : from->width, height = turned ? from->width : from->height;
    size_t bytes = (size_t)width * (size_t)height * 3;
    uint8_t *to = out->rgb = kt__malloc(bytes);
    if (!to) return kt__fail_nomem(err, "a picture", bytes);
    out->width = width;
    out->height = height;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, to += 3) {
            const uint8_t *p = from->data +
                               4 * source_of(orientation, from->width, from->height, x, y);
            for (int c = 0; c < 3; c++) to[c] = over_white(p[c], p[3]);
        }
    }
    return KT_OK;
}

kt_status kt__picture_decode(const uint8_t *data, size_t len, kt__picture *out, kt_error *err) {
    kt__rgba pixels = {0};
    *out = (kt__picture){0};
    kt_status status = decode_file(data, len, &pixels, err);
    if (status == KT_OK)
        status = put_upright(&pixels, kt__picture_orientation(data, len), out, err);
    kt__free(pixels.data);
    return status;
}

void kt__picture_free(kt__picture *picture) {
    kt__free(picture->rgb);
    *picture = (kt__picture){0};
}
