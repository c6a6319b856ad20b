/* Names of the disk cache's files.
 *
 * Owns: INDEX-KEY-PARENT.kv, all hexadecimal, of a block, the same with .end of the end after it;
 * and the length of a binding's directory. Any thread. */
#ifndef KT_KV_DISK_NAME_H
#define KT_KV_DISK_NAME_H

#include <stdbool.h>

#include "kv/prefix.h"

enum {
    KT__DISK_NAME_BYTES = 80, /* of a file, with its NUL, at most */
    KT__DISK_DIR_BYTES = 32   /* of a binding's directory, without */
};

typedef enum kt__disk_kind { KT__DISK_BLOCK, KT__DISK_END } kt__disk_kind;

void kt__disk_name(const kt__kv_block *block, kt__disk_kind kind, char out[KT__DISK_NAME_BYTES]);
/* The key, parent and index of a block, and what the file holds of it; false for other names. */
bool kt__disk_parse_name(const char *name, kt__kv_block *out, kt__disk_kind *kind);

#endif
