/* picture: files to pixels, whatever a camera, a browser or an attacker wrote; and other sizes, to the
 * pixel. */
#include "base/alloc.h"
#include "picture/picture.h"
#include "support.h"

enum { FILE_MAX = 1 << 16 };

static size_t read_file(const char *name, uint8_t *out) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/pictures/%s", KT_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(out, 1, FILE_MAX, file);
    fclose(file);
    return len;
}

static kt__picture decode(const char *name) {
    static uint8_t data[FILE_MAX];
    size_t len = read_file(name, data);
    kt__picture out;
    kt_error err;
    kt_status status = kt__picture_decode(data, len, &out, &err);
    if (status == KT_E_UNSUPPORTED && strstr(err.message, "not installed")) skip();
    die_on(status, &err);
    return out;
}

static void pixel_is(const kt__picture *p, int x, int y, int red, int green, int blue, int near) {
    const uint8_t *at = p->rgb + ((size_t)y * (size_t)p->width + (size_t)x) * 3;
    const int want[] = {red, green, blue};
    for (int c = 0; c < 3; c++)
        if (at[c] < want[c] - near || at[c] > want[c] + near)
            fail_msg("(%d, %d) is %d %d %d", x, y, at[0], at[1], at[2]);
}

static void corners_are(const char *name, int near) {
    kt__picture p = decode(name);
    assert_int_equal(p.width, 48);
    assert_int_equal(p.height, 32);
    pixel_is(&p, 5, 5, 255, 0, 0, near);
    pixel_is(&p, 40, 5, 0, 255, 0, near);
    pixel_is(&p, 5, 25, 0, 0, 255, near);
    pixel_is(&p, 40, 25, 255, 255, 255, near);
    kt__picture_free(&p);
}

static void colours_and_orientations(void **state) {
    (void)state;
    const char *jpegs[] = {"turned-1.jpg", "turned-2.jpg", "turned-4.jpg", "turned-6.jpg",
                           "turned-7.jpg", "turned-8.jpg", "inks.jpg"};
    const char *exact[] = {"turned-3.png", "turned-5.png", "corners.webp", "palette.png",
                           "moving.png"};
    for (size_t i = 0; i < sizeof jpegs / sizeof *jpegs; i++) corners_are(jpegs[i], 6);
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) corners_are(exact[i], 0);
}

static void grey_and_clear(void **state) {
    (void)state;
    kt__picture p = decode("grey.png");
    pixel_is(&p, 5, 5, 76, 76, 76, 0);
    kt__picture_free(&p);
    p = decode("grey.jpg");
    pixel_is(&p, 5, 5, 76, 76, 76, 3);
    kt__picture_free(&p);
    p = decode("grey16.png");
    pixel_is(&p, 3, 3, 0x80, 0x80, 0x80, 1);
    kt__picture_free(&p);
    p = decode("clear.png"); /* black there, but nothing of it is seen */
    pixel_is(&p, 5, 5, 255, 255, 255, 0);
    pixel_is(&p, 5, 25, 0, 0, 255, 0);
    kt__picture_free(&p);
}

static void refused(const uint8_t *data, size_t len, kt_status want, const char *text) {
    kt__picture out;
    kt_error err;
    kt_status status = kt__picture_decode(data, len, &out, &err);
    if (status != want || !strstr(err.message, text))
        fail_msg("%s: %s", kt_status_name(status), status ? err.message : "accepted");
    assert_null(out.rgb);
}

/* Of the file whose header says so many pixels a side. */
static void refused_size(uint32_t side, kt_status want, const char *text) {
    static uint8_t data[FILE_MAX];
    size_t len = read_file("chart.png", data);
    for (int i = 0; i < 8; i++) data[16 + i] = (uint8_t)(side >> (24 - i % 4 * 8));
    uint32_t crc = ~0u; /* of the header's name and content */
    for (int i = 12; i < 29; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    for (int i = 0; i < 4; i++) data[29 + i] = (uint8_t)(~crc >> (24 - i * 8));
    refused(data, len, want, text);
}

static void bad_files_are_refused(void **state) {
    (void)state;
    static uint8_t data[FILE_MAX];
    const char *names[] = {"chart.png", "shapes.jpg", "corners.webp"};
    refused(data, 0, KT_E_FORMAT, "empty");
    refused((const uint8_t *)"GIF89a..", 8, KT_E_UNSUPPORTED, "GIF");
    refused((const uint8_t *)"hello there", 11, KT_E_FORMAT, "no PNG");
    for (size_t i = 0; i < 3; i++) {
        size_t len = read_file(names[i], data);
        refused(data, len / 2, KT_E_FORMAT, "");
        refused(data, 14, KT_E_FORMAT, "damaged");
    }
    size_t len = read_file("chart.png", data);
    data[len / 2] ^= 0x55;
    refused(data, len, KT_E_FORMAT, "damaged");
    len = read_file("moving.webp", data);
    refused(data, len, KT_E_UNSUPPORTED, "animated");
    refused_size(0, KT_E_FORMAT, "");
    refused_size(40000, KT_E_LIMIT, "40000 x 40000");
    refused_size(20000, KT_E_LIMIT, "20000 x 20000");
}

/* What Pillow 11 makes of them: FNV-1a of the pixels' bytes. */
static const struct {
    const char *name;
    int width, height, filter;
    uint64_t digest;
} sizes[] = {
    {"chart.png", 64, 64, 0, 0x80d7879905216e38},
    {"chart.png", 64, 64, 1, 0x15f3311bc40a42de},
    {"chart.png", 64, 64, 2, 0x4cce4f815ea2b876},
    {"chart.png", 333, 50, 0, 0x85258253afbe6986},
    {"chart.png", 333, 50, 1, 0x9eef1fb054f01a24},
    {"chart.png", 333, 50, 2, 0x2cfb31418a5df0bd},
    {"chart.png", 224, 448, 0, 0x569996b183da0d17},
    {"chart.png", 224, 448, 1, 0x7b964fe1cf5eed80},
    {"chart.png", 224, 448, 2, 0x9c9c72f45daa4cf8},
    {"shapes.jpg", 64, 64, 0, 0x73376b15fd222c98},
    {"shapes.jpg", 64, 64, 1, 0x55bf98282dbeed6c},
    {"shapes.jpg", 64, 64, 2, 0xaab2e047b7004e5a},
    {"shapes.jpg", 333, 50, 0, 0xcaea5ebbf953936a},
    {"shapes.jpg", 333, 50, 1, 0x381ff9698002f80c},
    {"shapes.jpg", 333, 50, 2, 0xea0b7d0c3a6891ae},
    {"shapes.jpg", 224, 448, 0, 0x6ba1b2b6db14d1e0},
    {"shapes.jpg", 224, 448, 1, 0x9b58f9098a3da7f9},
    {"shapes.jpg", 224, 448, 2, 0xa5da829856a7c07e},
};

static void other_sizes_are_those_of_pillow(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kt__picture from = decode(sizes[i].name), to;
        kt_error err;
        uint64_t hash = 0xcbf29ce484222325u;
        die_on(kt__picture_resample(&from, sizes[i].width, sizes[i].height,
                                    (kt__resample_filter)sizes[i].filter, &to, &err),
               &err);
        for (size_t k = 0; k < (size_t)to.width * (size_t)to.height * 3; k++)
            hash = (hash ^ to.rgb[k]) * 0x100000001b3u;
        if (hash != sizes[i].digest)
            fail_msg("%s to %d x %d by filter %d", sizes[i].name, to.width, to.height,
                     sizes[i].filter);
        kt__picture_free(&from);
        kt__picture_free(&to);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colours_and_orientations),
        cmocka_unit_test(grey_and_clear),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(other_sizes_are_those_of_pillow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
