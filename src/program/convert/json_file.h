/* JSON files of a model folder.
 *
 * Owns: reading a small file whole, parsing it as Python does (json_numbers.h; of equal keys the
 * last counts), and the errors that name file and byte. Knows no key. Any thread; what it returns belongs to the caller
 * (json_decref, kt__free). */
#ifndef KT_CONVERT_JSON_FILE_H
#define KT_CONVERT_JSON_FILE_H

#include <jansson.h>
#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

/* A link that leads out of its folder is refused, but for one into the blobs of the hub cache that the folder is a
 * snapshot of. */
kt_status kt__folder_check_link(const char *path, kt_error *err) KT_CHECKED;
/* A regular file of at most max bytes, NUL-terminated, for kt__free. An absent file that is not
 * required gives NULL and KT_OK. */
kt_status kt__folder_read_file(const char *path, size_t max, bool required, char **text,
                               size_t *len, kt_error *err) KT_CHECKED;
/* The file as a JSON object; *out is NULL where it is absent and not required. */
kt_status kt__folder_read_json(const char *path, size_t max, bool required, json_t **out,
                               kt_error *err) KT_CHECKED;
/* A JSON object from memory; path is for messages. */
kt_status kt__folder_parse_json(const char *text, size_t len, const char *path, json_t **out,
                                kt_error *err) KT_CHECKED;
/* The same, of at most max bytes and no more values than these may have. */
kt_status kt__folder_parse_bounded(const char *text, size_t len, size_t max, const char *path,
                                   json_t **out, kt_error *err) KT_CHECKED;
/* The file as a list of at most max_items modules; *out is NULL where it is absent. */
kt_status kt__folder_read_list(const char *path, size_t max, size_t max_items, json_t **out,
                               kt_error *err) KT_CHECKED;
/* "DIR/NAME" in a heap string for kt__free; NULL: no memory. */
char *kt__folder_path(const char *dir, const char *name);

#endif
