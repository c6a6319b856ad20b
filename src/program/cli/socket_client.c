#include "cli/socket_client.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"

static const kt__opt table[] = {
    {.name = "socket",
     .kind = KT__OPT_TEXT,
     .at = offsetof(kt__client_opts, socket),
     .arg = "PATH",
     .help = "the server's socket (default: KENTANG_SOCKET_PATH, $XDG_RUNTIME_DIR/kentang.sock, "
             "/run/kentang/kentang.sock)"},
};

kt__opt_group kt__client_opts_group(kt__client_opts *opts) {
    return (kt__opt_group){"Server", table, KT__COUNT(table), opts};
}

enum { MAX_ANSWER = 16 << 20, TIMEOUT_S = 30 };

static const char *usual_path(char *out, size_t size) {
    const char *given = getenv("KENTANG_SOCKET_PATH"), *dir = getenv("XDG_RUNTIME_DIR");
    if (given && *given) return given;
    if (dir && *dir) {
        snprintf(out, size, "%s/kentang.sock", dir);
        if (access(out, F_OK) == 0) return out;
    }
    snprintf(out, size, "/run/kentang/kentang.sock");
    return out;
}

kt_status kt__client_connect(const char *path, int *fd, kt_error *err) {
    char usual[256];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    *fd = -1;
    if (!path) path = usual_path(usual, sizeof usual);
    if (strlen(path) >= sizeof address.sun_path)
        return kt__fail(err, KT_E_ARG, "the socket's path is too long: %.100s", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0) (void)setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (*fd >= 0 && connect(*fd, (struct sockaddr *)&address, sizeof address) == 0) return KT_OK;
    kt_status status = kt__fail(
        err, KT_E_IO,
        "no server at %s: %s; --socket PATH names another, and one that was started without "
        "XDG_RUNTIME_DIR has none unless --socket gave it one",
        path,
        errno == ECONNREFUSED ? "the socket is left from one that has ended" : strerror(errno));
    if (*fd >= 0) close(*fd);
    *fd = -1;
    return status;
}

static kt_status read_line(int fd, kt__buf *text, kt_error *err) {
    char piece[4096];
    while (!text->len || text->data[text->len - 1] != '\n') {
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return kt__fail(err, KT_E_IO, "the server did not answer");
        if (!kt__buf_append(text, piece, (size_t)n))
            return kt__fail(err, KT_E_LIMIT, "the server's answer is too long");
    }
    return KT_OK;
}

static kt_status check_answer(const json_t *answer, kt_error *err) {
    const json_t *error = json_object_get(answer, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    if (!error) return KT_OK;
    return kt__fail(err, KT_E_STATE, "the server says: %s", message ? message : "an error");
}

kt_status kt__client_ask(int fd, const char *line, json_t **out, kt_error *err) {
    kt__buf text;
    kt_status status;
    size_t len = strlen(line);
    *out = NULL;
    kt__buf_init(&text, MAX_ANSWER);
    if (send(fd, line, len, MSG_NOSIGNAL) != (ssize_t)len || send(fd, "\n", 1, MSG_NOSIGNAL) != 1) {
        return kt__fail_system(err, errno, NULL, "cannot send to the server");
    }
    KT__TRY(read_line(fd, &text, err));
    *out = json_loadb(text.data, text.len, 0, NULL);
    if (!*out) {
        status = kt__fail(err, KT_E_FORMAT, "the server's answer is not JSON");
        goto out;
    }
    status = check_answer(*out, err);
    if (status != KT_OK) {
        json_decref(*out);
        *out = NULL;
    }
out:
    kt__buf_free(&text);
    return status;
}
