/* Whose feedback is whose.
 *
 * Owns: the names under which clients learn: a client's own ("key:anna", "uid:1000"), one that it gave a
 * name ("key:anna/work"), or one that the configuration lets all share ("@team"); and the folder of
 * each. No client can write the name of another's. Functions of texts; any thread. */
#ifndef KT_SETUP_NAMESPACES_H
#define KT_SETUP_NAMESPACES_H

#include "setup/config.h"

enum { KT__NAMESPACE_BYTES = 128, KT__NAMESPACE_FOLDER_BYTES = 220 };

/* given: as the client wrote it, or NULL. KT_E_ARG: it is no name; KT_E_LIMIT: too long. */
kt_status KT_CHECKED kt__namespace_of(const kt__config *config, const char *client,
                                      const char *given, char out[KT__NAMESPACE_BYTES],
                                      kt_error *err);
/* DIR/MODEL/NAMESPACE with what a folder's name may hold. */
kt_status KT_CHECKED kt__namespace_folder(const kt__config *config, const char *model,
                                          const char *name, char *out, size_t size, kt_error *err);
/* DIR/MODEL: what all of a model's namespaces share. */
kt_status KT_CHECKED kt__namespace_model_folder(const kt__config *config, const char *model,
                                                char *out, size_t size, kt_error *err);
/* Whether a client may have one name more, where name has no folder yet; KT_E_LIMIT: it has as many as
 * it may. */
kt_status KT_CHECKED kt__namespace_check_new(const kt__config *config, const char *model,
                                             const char *name, kt_error *err);
/* Letters, digits, '.', '-' and '_', 1 to 48. */
bool kt__namespace_is_name(const char *given);

#endif
