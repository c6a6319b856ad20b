#include "setup/namespaces.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

bool kt__namespace_is_name(const char *given) {
    char allowed[sizeof letters + 3];
    size_t len = strlen(given);
    snprintf(allowed, sizeof allowed, "%s.-_", letters);
    return len >= 1 && len <= 48 && strspn(given, allowed) == len;
}

static bool is_shared(const kt__config *config, const char *given) {
    for (size_t i = 0; i < config->learn_namespaces.n; i++) {
        const char *name = config->learn_namespaces.items[i];
        if (name && !strcmp(name, given)) return true;
    }
    return false;
}

kt_status kt__namespace_of(const kt__config *config, const char *client, const char *given,
                           char out[KT__NAMESPACE_BYTES], kt_error *err) {
    int n;
    if (given && !kt__namespace_is_name(given))
        return kt__fail_at(err, KT_E_ARG, "namespace", UINT64_MAX,
                           "namespace: expected 1 to 48 letters, digits, '.', '-' and '_'");
    if (!given)
        n = snprintf(out, KT__NAMESPACE_BYTES, "%s", client);
    else if (is_shared(config, given))
        n = snprintf(out, KT__NAMESPACE_BYTES, "@%s", given);
    else
        n = snprintf(out, KT__NAMESPACE_BYTES, "%s/%s", client, given);
    if (n > 0 && n < KT__NAMESPACE_BYTES) return KT_OK;
    return kt__fail_at(err, KT_E_LIMIT, "namespace", UINT64_MAX,
                       "namespace: with the client's name it is too long");
}

/* Letters, digits, '-' and '_' as they are, all else as %XX; false: too long. */
static bool escape_name(const char *name, char out[KT__NAMESPACE_FOLDER_BYTES]) {
    size_t n = 0;
    for (const char *at = name; *at; at++) {
        bool plain = strchr(letters, *at) || *at == '-' || *at == '_';
        if (n + 4 > KT__NAMESPACE_FOLDER_BYTES) return false;
        n += (size_t)snprintf(out + n, KT__NAMESPACE_FOLDER_BYTES - n, plain ? "%c" : "%%%02X",
                              (unsigned char)*at);
    }
    return n > 0;
}

static kt_status fail_long(kt_error *err) {
    return kt__fail_at(err, KT_E_LIMIT, "namespace", UINT64_MAX,
                       "the names of model and namespace are too long for a folder");
}

kt_status kt__namespace_model_folder(const kt__config *config, const char *model, char *out,
                                     size_t size, kt_error *err) {
    char of_model[KT__NAMESPACE_FOLDER_BYTES];
    if (!config->learn_dir)
        return kt__fail(err, KT_E_STATE, "learning is off: start the server with --learn");
    if (!escape_name(model, of_model)) return fail_long(err);
    int n = snprintf(out, size, "%s/%s", config->learn_dir, of_model);
    return n > 0 && (size_t)n < size ? KT_OK : fail_long(err);
}

kt_status kt__namespace_folder(const kt__config *config, const char *model, const char *name,
                               char *out, size_t size, kt_error *err) {
    char of_model[4096], of_name[KT__NAMESPACE_FOLDER_BYTES];
    kt_status status = kt__namespace_model_folder(config, model, of_model, sizeof of_model, err);
    if (status != KT_OK) return status;
    if (!escape_name(name, of_name)) return fail_long(err);
    int n = snprintf(out, size, "%s/%s", of_model, of_name);
    return n > 0 && (size_t)n < size ? KT_OK : fail_long(err);
}

/* Folders of the model whose names begin with prefix. */
static int64_t count_folders(const char *of_model, const char *prefix) {
    int64_t n = 0;
    DIR *d = opendir(of_model);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        n += !strncmp(e->d_name, prefix, strlen(prefix));
    if (d) closedir(d);
    return n;
}

kt_status kt__namespace_check_new(const kt__config *config, const char *model, const char *name,
                                  kt_error *err) {
    char of_model[4096], of_client[KT__NAMESPACE_BYTES], prefix[KT__NAMESPACE_FOLDER_BYTES];
    const char *slash = strrchr(name, '/');
    if (!slash || name[0] == '@') return KT_OK; /* its only one, or the configuration's */
    KT__STEP(kt__namespace_model_folder(config, model, of_model, sizeof of_model, err));
    snprintf(of_client, sizeof of_client, "%.*s", (int)(slash + 1 - name), name);
    if (!escape_name(of_client, prefix)) return fail_long(err);
    if (count_folders(of_model, prefix) < config->learn_names) return KT_OK;
    return kt__fail_at(err, KT_E_LIMIT, "namespace", UINT64_MAX,
                       "namespace: this client has %lld names already, the most that "
                       "learning.max_names allows: use one of them",
                       (long long)config->learn_names);
}
