#include "transports/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

enum { BACKLOG = 512 };

static kt_status fail_errno(kt_error *err, const char *what, const char *path) {
    int code = errno;
    return kt__fail_system(err, code, path, "%s %s", what, path);
}

typedef struct lock_path {
    char text[sizeof((kt__listener *)0)->path + 8];
} lock_path;

static lock_path lock_path_of(const kt__listener *l) {
    lock_path path;
    snprintf(path.text, sizeof path.text, "%s.lock", l->path);
    return path;
}

/* Whether the file that is locked is still the one at its path: who ends removes it. */
static bool is_at_path(int fd, const char *path) {
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

static kt_status take_lock(kt__listener *l, kt_error *err) {
    const lock_path path = lock_path_of(l);
    for (;;) {
        l->lock_fd = open(path.text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (l->lock_fd < 0) return fail_errno(err, "cannot open", path.text);
        if (flock(l->lock_fd, LOCK_EX | LOCK_NB) != 0) break;
        if (is_at_path(l->lock_fd, path.text)) return KT_OK;
        close(l->lock_fd); /* another server has just removed it, and may hold a new one */
    }
    close(l->lock_fd);
    l->lock_fd = -1; /* it is not ours to remove */
    return kt__fail_at(err, KT_E_STATE, l->path, UINT64_MAX,
                       "another kentang serves %s: `kentang stop --socket %s` ends it", l->path,
                       l->path);
}

/* Something else may live at path. */
static kt_status check_path(const char *path, kt_error *err) {
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? KT_OK : fail_errno(err, "cannot look at", path);
    if (S_ISSOCK(st.st_mode)) return KT_OK;
    return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "%s exists and is no socket", path);
}

static void set_path(struct sockaddr_un *address, const char *path) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "%.*s", (int)sizeof address->sun_path - 1,
             path);
}

/* A server of another make holds no lock, but answers. */
static bool is_served(const char *path) {
    struct sockaddr_un address;
    set_path(&address, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    int rc = connect(fd, (struct sockaddr *)&address, sizeof address);
    bool served = rc == 0 || errno == EAGAIN;
    close(fd);
    return served;
}

/* Linux takes the mode of the new file from the descriptor, less the umask: it is never more open
 * than asked for. Then it gets what the umask took away. */
static kt_status bind_quietly(kt__listener *l, unsigned mode, kt_error *err) {
    char path[sizeof l->path + 16];
    struct sockaddr_un address;
    struct stat st;
    snprintf(path, sizeof path, "%s.%d", l->path, (int)getpid());
    if (strlen(path) >= sizeof address.sun_path)
        return kt__fail_at(err, KT_E_ARG, l->path, UINT64_MAX, "the path is too long: %s", l->path);
    set_path(&address, path);
    (void)unlink(path);
    if (fchmod(l->fd, mode) != 0) return fail_errno(err, "cannot set the mode of", l->path);
    if (bind(l->fd, (struct sockaddr *)&address, sizeof address) != 0)
        return fail_errno(err, "cannot make", path);
    kt_status status = KT_OK;
    if (chmod(path, mode) != 0 || stat(path, &st) != 0 || listen(l->fd, BACKLOG) != 0 ||
        rename(path, l->path) != 0) {
        status = fail_errno(err, "cannot make", l->path);
        (void)unlink(path);
        return status;
    }
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    return status;
}

kt_status kt__listener_open(const char *path, unsigned mode, kt__listener *l, kt_error *err) {
    kt_status status;
    *l = (kt__listener){.fd = -1, .lock_fd = -1};
    if (strlen(path) >= sizeof l->path)
        return kt__fail_at(err, KT_E_ARG, path, UINT64_MAX, "the path is too long: %.100s", path);
    snprintf(l->path, sizeof l->path, "%s", path);
    KT__TRY(check_path(path, err));
    KT__TRY(take_lock(l, err));
    if (is_served(path)) {
        status = kt__fail_at(err, KT_E_STATE, path, UINT64_MAX, "another program serves %s", path);
        goto out;
    }
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    status = l->fd < 0 ? fail_errno(err, "no socket for", path) : bind_quietly(l, mode, err);
out:
    if (status != KT_OK) kt__listener_close(l);
    return status;
}

void kt__listener_close(kt__listener *l) {
    struct stat st;
    if (l->ino && lstat(l->path, &st) == 0 && st.st_ino == l->ino && st.st_dev == l->dev)
        (void)unlink(l->path);
    if (l->fd >= 0) close(l->fd);
    if (l->lock_fd >= 0) { /* removed while it is held, so no other process holds it */
        (void)unlink(lock_path_of(l).text);
        close(l->lock_fd);
    }
    *l = (kt__listener){.fd = -1, .lock_fd = -1};
}
