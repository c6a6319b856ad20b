/* Names of the disk cache's files.
 *
 * Owns: INDEX-KEY-PARENT.kv, all hexadecimal, of a block; and the length of a binding's directory.
 * Any thread. */
#ifndef KT_KV_DISK_NAME_H
#define KT_KV_DISK_NAME_H

#include <stdbool.h>

#include "kv/prefix.h"

enum {
    KT__DISK_NAME_BYTES = 80, /* of a file, with its NUL */
    KT__DISK_DIR_BYTES = 32   /* of a binding's directory, without */
};

void kt__disk_name(const kt__kv_block *block, char out[KT__DISK_NAME_BYTES]);
/* The key, parent and index of a block's file; false for other names. */
bool kt__disk_parse_name(const char *name, kt__kv_block *out);

#endif
