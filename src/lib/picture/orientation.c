#include "picture/orientation.h"

#include <stdbool.h>
#include <string.h>

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
