/* One setting of a configuration.
 *
 * Owns: the table of settings, finding one by its key, and giving it a checked value from text or from TOML: ranges,
 * units, a leading ~ in paths; reading an operator's files whole (config_read.c). Does not know what settings say
 * together. `from` is what to blame in errors: "f.toml:3", "--listen". One thread. */
#ifndef KT_SETUP_CONFIG_SET_H
#define KT_SETUP_CONFIG_SET_H

#include "base/buf.h"
#include "setup/config.h"
#include "setup/toml.h"

#include <kentang.h>

#include "base/system.h"

const kt__setting *kt__config_find_key(const char *key); /* NULL: there is none */
/* Into the configuration's arena; *out is NULL where len is 0. */
kt_status KT_CHECKED kt__config_copy_text(kt__config *config, const char *text, size_t len,
                                          const char **out, kt_error *err);
/* The same for a path: ~ and ~/ at its beginning are the home directory. */
kt_status KT_CHECKED kt__config_copy_path(kt__config *config, const char *path, const char **out,
                                          const char *from, kt_error *err);
/* From text, whatever the setting's kind, and from a value of a TOML file. */
kt_status KT_CHECKED kt__config_set_text(kt__config *config, const kt__setting *setting,
                                         const char *value, const char *from, kt_error *err);
kt_status KT_CHECKED kt__config_set_toml(kt__config *config, const kt__setting *setting,
                                         const kt__toml *value, const char *from, kt_error *err);
/* A member of a [[models]] table besides its name and files. */
struct kt__override {
    const kt__setting *setting;
    unsigned char value[sizeof(kt__texts)]; /* as it lies in kt__config */
    kt__override *next;
};
bool kt__setting_has_words(
    const kt__setting *setting);                /* a number that "auto" and "all" mean, too */
size_t kt__setting_size(kt__setting_kind kind); /* of a value in kt__config */

/* ---- config_whole.c: [[models]] ---- */
kt_status KT_CHECKED kt__config_read_models(kt__config *config, const kt__toml *value,
                                            const char *name, kt_error *err);
/* Each model's `own`, with its preset; settings that are words are checked. */
kt_status KT_CHECKED kt__config_finish_models(kt__config *config, kt_error *err);

/* Errors; the code is returned. */
kt_status kt__config_unknown(const char *key, const char *const *names, size_t n, const char *from,
                             kt_error *err);
kt_status kt__config_unknown_key(const char *key, const char *from, kt_error *err);
/* "FROM: KEY: expected WHAT, got "GOT""; setting may be NULL. */
kt_status kt__config_expected(const kt__setting *setting, const char *from, const char *what,
                              const char *got, kt_error *err);

/* Files that an operator writes: configuration, .env, API keys, certificates.
 *
 * Opening such a file without ever waiting for it, and reading it whole under a cap. Only regular files are taken: a
 * pipe could block a reload, and has nothing to say the second time. Knows nothing of what the bytes mean. Any
 * thread. */

/* out: initialised here with the cap max, to be freed in any case. A byte-order mark of UTF-8 is
 * left out; UTF-16 and NUL bytes are refused. what: "the keys", for errors. st: or NULL. */
kt_status KT_CHECKED kt__config_file_read(const char *path, const char *what, size_t max,
                                          kt__buf *out, kt__file_info *st, kt_error *err);
/* Reads chat_template_file, where it is set, into chat_template. */
kt_status KT_CHECKED kt__config_read_template(kt__config *config, kt_error *err);
/* Frees text that is secret, after overwriting it. */
void kt__config_file_forget(kt__buf *text);

#endif
