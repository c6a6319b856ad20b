/* Files of text that a person names: prompts, system messages, what /read takes.
 *
 * Owns: the check that they are text, and what is said where they are not. One thread. */
#ifndef KT_TERM_TEXT_FILE_H
#define KT_TERM_TEXT_FILE_H

#include <kentang.h>

/* All of a file ("-": stdin), NUL-terminated, for kt__free. KT_E_FORMAT: it holds a NUL byte;
 * KT_E_ARG, with the place and how to convert it: it is no UTF-8 (not asked for with any_bytes). */
kt_status KT_CHECKED kt__text_file_read(const char *path, size_t max, bool any_bytes, char **text,
                                        size_t *len, kt_error *err);

#endif
