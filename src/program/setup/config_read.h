/* Files that an operator writes: configuration, .env, API keys, certificates.
 *
 * Owns: opening such a file without ever waiting for it, and reading it whole under a cap. Only
 * regular files are taken: a pipe could block a reload, and has nothing to say the second time.
 * Knows nothing of what the bytes mean. Any thread. */
#ifndef KT_SETUP_CONFIG_READ_H
#define KT_SETUP_CONFIG_READ_H

#include <kentang.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "setup/config.h"

/* out: initialised here with the cap max, to be freed in any case. A byte-order mark of UTF-8 is
 * left out; UTF-16 and NUL bytes are refused. what: "the keys", for errors. st: or NULL. */
kt_status KT_CHECKED kt__config_file_read(const char *path, const char *what, size_t max,
                                          kt__buf *out, struct stat *st, kt_error *err);
/* Reads chat_template_file, where it is set, into chat_template. */
kt_status KT_CHECKED kt__config_read_template(kt__config *config, kt_error *err);
/* Frees text that is secret, after overwriting it. */
void kt__config_file_forget(kt__buf *text);

#endif
