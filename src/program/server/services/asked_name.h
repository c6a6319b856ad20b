/* Whether a name that a client asks for means a served model's file.
 *
 * Owns: the comparison of a name with the file's base name and with the repository that it came from,
 * which are what people copy into a client. Opens nothing: the name is only compared. Pure; any
 * thread. */
#ifndef KT_SERVICES_ASKED_NAME_H
#define KT_SERVICES_ASKED_NAME_H

#include <stdbool.h>

/* path: the model's as it is configured, a file, or hf:OWNER/REPO with what may follow. asked fits as its
 * base name ("Qwen3-8B-Q4_K_M.gguf", with or without the end, or without the quantisation), as its
 * repository ("OWNER/REPO", or REPO alone, with or without -GGUF), in any case of letters. */
bool kt__asked_name_fits(const char *asked, const char *path);

#endif
