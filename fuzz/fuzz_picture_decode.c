/* Bytes as a picture: what they are, how they are turned, and other sizes of what they show. */
#include "picture/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__picture picture, other;
    kt_error err;
    int orientation = kt__picture_orientation(data, size);
    if (orientation < 1 || orientation > 8) __builtin_trap();
    if (kt__picture_decode(data, size, &picture, &err) != KT_OK) return 0;
    if ((int64_t)picture.width * picture.height < 1 << 20) {
        if (kt__picture_resample(&picture, 1 + (int)(size % 97), 1 + (int)(size % 31),
                                 (kt__resample_filter)(size % KT__RESAMPLE_FILTERS), &other,
                                 &err) == KT_OK)
            kt__picture_free(&other);
    }
    kt__picture_free(&picture);
    return 0;
}
