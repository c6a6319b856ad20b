/* The file with the part of a model that sees.
 *
 * Owns: finding the one that lies next to a model, where the settings name none. Any thread. */
#ifndef KT_SETUP_MMPROJ_H
#define KT_SETUP_MMPROJ_H

#include <stdbool.h>
#include <stddef.h>

/* path: the model's, or NULL. The one file in its folder whose name has "mmproj" in it and ends in .gguf; false: there
 * is none, or there are several. */
bool kt__mmproj_find(const char *path, char *out, size_t size);

#endif
