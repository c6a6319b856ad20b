#include "services/sd.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_FD = 3, MAX_FDS = 16 };

/* The n-th name of a list with colons. */
static bool is_named(const char *names, int n, const char *name) {
    while (names && n-- > 0) names = (names = strchr(names, ':')) ? names + 1 : NULL;
    if (!names) return false;
    size_t len = strcspn(names, ":");
    return len == strlen(name) && !memcmp(names, name, len);
}

static bool is_listening(int fd, int *family) {
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    int listening = 0;
    socklen_t size = sizeof listening;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) return false;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0) return false;
    *family = address.ss_family;
    return listening != 0;
}

void kt__sd_sockets(int *lines, int *http) {
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    int count = n ? atoi(n) : 0;
    *lines = *http = -1;
    if (!pid || (pid_t)atol(pid) != getpid()) return;
    for (int i = 0; i < count && i < MAX_FDS; i++) {
        int fd = FIRST_FD + i, family = AF_UNSPEC;
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        bool good = is_listening(fd, &family);
        int *slot = family != AF_UNIX || is_named(names, i, "http") ? http : lines;
        if (good && *slot < 0) {
            *slot = fd;
        } else {
            close(fd);
        }
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

void kt__sd_notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@')) return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') address.sun_path[0] = '\0'; /* the abstract namespace */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    (void)sent; /* a manager that does not listen is no fault of ours */
    close(fd);
}
