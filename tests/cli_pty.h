/* The kentang program on a terminal of its own, for the command line tests: what is typed goes in,
 * and what the screen gets is waited for. */
#ifndef CLI_PTY_H
#define CLI_PTY_H

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

typedef struct pty {
    int fd;
    pid_t pid;
    char *seen;         /* all that was shown, NUL-terminated; NULs in it became '?' */
    size_t len, looked; /* looked: what pty_expect has passed */
} pty;

/* environment: "NAME=VALUE " words; LANG and the like are unset, HOME is none */
static inline pty pty_start(const char *environment, const char *arguments) {
    pty p = {.seen = calloc(1, 1 << 22)};
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    char command[4096];
    snprintf(command, sizeof command,
             "unset LC_ALL LC_CTYPE LANG NO_COLOR XDG_STATE_HOME; export HOME=/dev/null/none "
             "TERM=xterm; exec env %s '%s/kentang' %s",
             environment, KT_BINARY_DIR, arguments);
    p.pid = forkpty(&p.fd, NULL, NULL, &size);
    if (p.pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return p;
}

/* Reads what there is for at most ms; false: nothing came, or the program has ended. */
static inline bool pty_read(pty *p, int ms) {
    struct pollfd wait = {.fd = p->fd, .events = POLLIN};
    if (poll(&wait, 1, ms) <= 0) return false;
    ssize_t n = read(p->fd, p->seen + p->len, (1 << 22) - 1 - p->len);
    if (n <= 0) return false;
    for (ssize_t i = 0; i < n; i++)
        if (!p->seen[p->len + (size_t)i]) p->seen[p->len + (size_t)i] = '?';
    p->len += (size_t)n;
    p->seen[p->len] = '\0';
    return true;
}

/* Waits until the text is shown behind what was expected before. */
static inline void pty_expect(pty *p, const char *text) {
    time_t end = time(NULL) + 60;
    for (;;) {
        char *at = strstr(p->seen + p->looked, text);
        if (at) {
            p->looked = (size_t)(at - p->seen) + strlen(text);
            return;
        }
        if (!pty_read(p, 200) && (time(NULL) > end || waitpid(p->pid, NULL, WNOHANG) == p->pid))
            fail_msg("\"%s\" was not shown; the screen got:\n%s", text, p->seen + p->looked);
    }
}

static inline void pty_type(pty *p, const char *text) {
    size_t len = strlen(text);
    while (len) {
        ssize_t n = write(p->fd, text, len);
        if (n <= 0) fail_msg("cannot type: %s", strerror(errno));
        text += n;
        len -= (size_t)n;
        while (pty_read(p, 0)) { /* the screen takes what is shown meanwhile */
        }
    }
}

/* Waits for the program's end; its exit code. */
static inline int pty_end(pty *p) {
    int status = 0;
    time_t end = time(NULL) + 60;
    while (waitpid(p->pid, &status, WNOHANG) == 0) {
        (void)pty_read(p, 50);
        if (time(NULL) > end) fail_msg("does not end; the screen got:\n%s", p->seen + p->looked);
    }
    while (pty_read(p, 0)) {
    }
    close(p->fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void pty_free(pty *p) {
    free(p->seen);
    p->seen = NULL;
}

#endif
