/* How a camera was held: the orientation in a picture's EXIF.
 *
 * Owns: finding the EXIF of JPEG, PNG and WebP files and reading one number of it; what is damaged
 * there counts as absent. Any thread. */
#ifndef KT_PICTURE_ORIENTATION_H
#define KT_PICTURE_ORIENTATION_H

#include <stddef.h>
#include <stdint.h>

/* 1 to 8, as EXIF numbers them; 1 where nothing is said. */
int kt__picture_orientation(const uint8_t *data, size_t len);

#endif
