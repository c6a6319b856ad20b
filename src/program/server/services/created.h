/* The folder of models as clients see and change it, where the configuration lets them (http.pull, http.create).
 *
 * Owns: serving what lies there; creating, copying and deleting there, and nowhere else. What is
 * configured, or has weights that another model needs, is not deleted. No path comes from a client or
 * goes to one. Any thread. */
#ifndef KT_SERVICES_CREATED_H
#define KT_SERVICES_CREATED_H

#include "services/models.h"
#include "setup/made.h"

/* Adds all that lies there; one that cannot be read is said in the log. */
kt_status KT_CHECKED kt__created_add_all(const kt__config *config, kt__slog *log,
                                         kt__models *models, kt_error *err);
/* Keeps a modelfile, whose FROM is a name of the folder's or of a served model, and serves it. KT_E_BUSY: there
 * is one of that name, which answers. */
kt_status KT_CHECKED kt__created_make(const kt__config *config, kt__models *models,
                                      const char *name, kt__modelfile *file, kt_error *err);
/* *found false: there is no such model in the folder. */
kt_status KT_CHECKED kt__created_copy(const kt__config *config, kt__models *models,
                                      const char *from, const char *to, bool *found, kt_error *err);
kt_status KT_CHECKED kt__created_delete(const kt__config *config, kt__models *models,
                                        const char *name, bool *found, kt_error *err);

#endif
