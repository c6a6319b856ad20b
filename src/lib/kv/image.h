/* Session files: the tokens, pages and logits of one sequence.
 *
 * Owns: the format, its checks, and how a file comes to be (a temporary file next to it, synced, renamed), and the
 * comparison of header fields, which the disk cache shares. Does not know what the binding's bytes say, nor requests.
 * No lock: while a file is written the table's pages must not change, and while one is loaded they must not be
 * shared.
 *
 * Format, little-endian: a header of 512 bytes (magic, version, byte order, binding, shape, number of positions and
 * logits, size of the file; offset, size and digest of each section; hash of the model's files or zeros; digest of
 * all that), tokens i32 [n_pos], logits f32 [n_logits], and from a multiple of 4096 on the pages in order, as
 * kt__kv_block_read gives them, with zeros in slots beyond n_pos. Where keys or values are quantised, the header
 * names their forms, a last page that is not full is zeros, and the f16 copies that a query after the last position
 * reads follow (kt__kv_end_page), as kt__kv_f16_copy_read gives them, if all were there; such a file with a tail or
 * with 4 bits is of version 2. Layers with a window have zeros before the last positions' window; such a file is of
 * version 3, and says whether all of that window was there. Others are of version 1. With recurrent layers the state
 * after n_pos follows, if it is known: f32. No size that a file states is used before it was found equal to the one
 * that follows from its shape and n_pos. */
#ifndef KT_KV_IMAGE_H
#define KT_KV_IMAGE_H

#include "base/hash.h"
#include "kv/kv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of the headers that caches and sessions write to files.
 *
 * The comparison of digests and of hashes that may be unknown. Numbers are base/le.h's. Any thread. */

/* Two hashes of one kind, of n bytes; zeros are one that is not known. Both are known and differ.
 */
bool kt__field_hashes_differ(const uint8_t *a, const uint8_t *b, size_t n);

bool kt__field_has_digest(const uint8_t in[32], kt__digest digest);

enum { KT__KV_IMAGE_BINDING = 128, KT__KV_IMAGE_HASH = 32 };

typedef struct kt__kv_image {
    uint8_t binding[KT__KV_IMAGE_BINDING]; /* what the K/V depends on besides the tokens */
    int64_t n_pos;                         /* at least 1 */
    int64_t n_logits;                      /* 0: none */
    uint8_t full_hash[KT__KV_IMAGE_HASH];  /* of the model's files; zeros: was not known */
} kt__kv_image;

/* ids[n_pos], logits[n_logits]. The table holds its end (kt__kv_table_hold_end), or else what its
 * last positions are is not saved but computed again. On an error path holds what it held
 * before. */
kt_status kt__kv_image_save(const char *path, const kt__kv_image *image, const int32_t *ids,
                            const float *logits, const kt__kv *kv, const kt__kv_table *table,
                            kt_error *err) KT_CHECKED;

typedef struct kt__kv_image_file kt__kv_image_file;

/* Opens and checks the header against the file's size and the store's shape. KT_E_FORMAT names what
 * is wrong, KT_E_STATE a version or shape that is not ours. */
kt_status kt__kv_image_open(const char *path, const kt__kv_shape *shape, kt__kv_image_file **out,
                            kt_error *err) KT_CHECKED;
const kt__kv_image *kt__kv_image_info(const kt__kv_image_file *file);
/* Reads and checks the sections. table has pages for n_pos, and gets the state; what is in ids,
 * logits and the pages after a failure means nothing. */
kt_status kt__kv_image_load(const kt__kv_image_file *file, int32_t *ids, float *logits, kt__kv *kv,
                            kt__kv_table *table, kt_error *err) KT_CHECKED;
/* After a load, with the store's lock held: what the file lacks of the last positions, f16 copies or
 * windows, has to be computed again, and is not taken for loaded. */
void kt__kv_image_drop_missing(const kt__kv_image_file *file, kt__kv *kv, kt__kv_table *table);
void kt__kv_image_close(kt__kv_image_file *file);

/* Zeros the slots of a block from n_used on: they hold what an earlier user of the page left. What
 * is quantised of a page that is not full means nothing, and is all zeros. */
void kt__kv_block_clear_tail(const kt__kv_shape *shape, void *block, int n_used);

#endif
