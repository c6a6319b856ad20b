#include "store/hf_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static const char *set_variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

const char *kt__hf_endpoint(void) {
    return set_variable("HF_ENDPOINT");
}

/* The first of these that is set decides, whether its file is there or not. */
static bool token_path(char *out, size_t size) {
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_TOKEN_PATH", ""},
                  {"HF_HOME", "/token"},
                  {"XDG_CACHE_HOME", "/huggingface/token"},
                  {"HOME", "/.cache/huggingface/token"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = set_variable(places[i].variable);
        if (!value) continue;
        int n = snprintf(out, size, "%s%s", value, places[i].below);
        return n > 0 && (size_t)n < size;
    }
    return false;
}

kt_status kt__hf_token(kt__access *access, kt_error *err) {
    char path[4096], text[sizeof access->token] = "";
    const char *token = set_variable("HF_TOKEN");
    kt_status status = KT_OK;
    if (access->token[0]) return KT_OK;
    if (token) return kt__access_add_token(access, token, "HF_TOKEN", err);
    if (!token_path(path, sizeof path)) return KT_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return KT_OK; /* not logged in */
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n < 0)
        status = kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot read the hub's token: %s",
                             strerror(errno));
    else if (text[strspn(text, " \t\r\n")])
        status = kt__access_add_token(access, text, path, err);
    explicit_bzero(text, sizeof text);
    close(fd);
    return status;
}
