#include "mcp/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "base/text.h"

/* A job object takes the place of a process group: who is in it ends with it, and it with this program. There is no
 * Landlock: a server that asks for a sandbox is refused. */

enum { GRACE_MS = 2000, MAX_ENV = 8, MAX_CHILDREN = 64 };

static kt__win_process children[MAX_CHILDREN]; /* of kt__child.pid */
static pthread_mutex_t children_lock = PTHREAD_MUTEX_INITIALIZER;

static kt__win_process *find_child(int pid) {
    kt__win_process *found = NULL;
    pthread_mutex_lock(&children_lock);
    for (int i = 0; i < MAX_CHILDREN && !found; i++)
        if (children[i].pid == pid) found = &children[i];
    pthread_mutex_unlock(&children_lock);
    return found;
}

static bool keep_child(const kt__win_process *process) {
    bool kept = false;
    pthread_mutex_lock(&children_lock);
    for (int i = 0; i < MAX_CHILDREN && !kept; i++) {
        if (children[i].pid) continue;
        children[i] = *process;
        kept = true;
    }
    pthread_mutex_unlock(&children_lock);
    return kept;
}

/* ---- what is started ---- */

static bool is_program(const char *path, const char *extension, char *out, size_t size) {
    int n = snprintf(out, size, "%s%s", path, extension);
    return n > 0 && (size_t)n < size && access(out, X_OK) == 0;
}

/* By its whole name, or with .exe added. Scripts of cmd.exe read their arguments otherwise than programs do, so
 * they are not started. */
static bool find_in(const char *path, char *out, size_t size) {
    size_t n = strlen(path);
    bool named = n > 4 && !kt__strcasecmp(path + n - 4, ".exe");
    return is_program(path, named ? "" : ".exe", out, size);
}

static bool find_program(const char *command, char *out, size_t size) {
    const char *path = getenv("PATH");
    char whole[4096];
    if (strpbrk(command, "/\\:")) return find_in(command, out, size);
    for (path = path ? path : ""; *path; path += strspn(path, ";")) {
        size_t len = strcspn(path, ";");
        int n = snprintf(whole, sizeof whole, "%.*s/%s", (int)len, path, command);
        if (n > 0 && (size_t)n < sizeof whole && find_in(whole, out, size)) return true;
        path += len;
    }
    return false;
}

/* Only what programs cannot do without; the rest, with its secrets, stays here. */
static char **make_environment(const kt__mcp_server_config *c, char (*clean)[4096]) {
    static const char *const kept[MAX_ENV] = {"PATH", "HOME",        "SystemRoot", "TEMP",
                                              "TMP",  "USERPROFILE", "APPDATA",    "LOCALAPPDATA"};
    size_t n = 0, n_more = 0;
    while (c->env[n_more]) n_more++;
    char **env = kt__calloc(n_more + MAX_ENV + 1, sizeof *env);
    for (size_t i = 0; env && i < MAX_ENV; i++) {
        const char *value = getenv(kept[i]);
        int len = value ? snprintf(clean[i], 4096, "%s=%s", kept[i], value) : -1;
        if (len > 0 && len < 4096) env[n++] = clean[i];
    }
    for (size_t i = 0; env && i < n_more; i++) env[n++] = (char *)(uintptr_t)c->env[i];
    return env;
}

/* ---- starting ---- */

static void close_pair(int pair[2]) {
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) kt__fd_close(pair[i]);
        pair[i] = -1;
    }
}

static kt_status start_child(const kt__mcp_server_config *c, const char *program, char *const *env,
                             int pipes[3][2], kt__child *out, kt_error *err) {
    kt__win_process process;
    const int ends[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};
    int code = kt__win_spawn(program, (char *const *)(uintptr_t)c->argv, env, c->cwd, ends,
                             (uint64_t)c->mem_bytes, &process);
    if (code) return kt__fail_system(err, code, program, "cannot start %.100s", program);
    if (!keep_child(&process)) {
        kt__win_process_end(&process);
        return kt__fail(err, KT_E_LIMIT, "more than %d servers run", MAX_CHILDREN);
    }
    *out = (kt__child){process.pid, pipes[0][1], pipes[1][0], pipes[2][0]};
    pipes[0][1] = pipes[1][0] = pipes[2][0] = -1;
    (void)fcntl(out->to, F_SETFL, O_NONBLOCK);
    (void)fcntl(out->from, F_SETFL, O_NONBLOCK);
    (void)fcntl(out->err, F_SETFL, O_NONBLOCK);
    return KT_OK;
}

kt_status kt__child_start(const kt__mcp_server_config *c, kt__child *out, kt_error *err) {
    char program[4096];
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    kt_status status;
    *out = (kt__child){0, -1, -1, -1};
    if (c->sandbox.on) return kt__landlock_rules(&c->sandbox, c->cwd, &pipes[0][0], err);
    if (!find_program(c->argv[0], program, sizeof program))
        return kt__fail_at(
            err, KT_E_IO, c->argv[0], UINT64_MAX,
            "there is no program %.100s in PATH: it is the command of the server \"%.60s\"",
            c->argv[0], c->name);
    char(*clean)[4096] = kt__calloc(MAX_ENV, sizeof *clean);
    char **env = clean ? make_environment(c, clean) : NULL;
    if (!env) KT__TRY(kt__fail_nomem(err, "an environment", MAX_ENV * sizeof *clean));
    for (int i = 0; i < 3; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) == 0) continue;
        pipes[i][0] = pipes[i][1] = -1;
        KT__TRY(kt__fail_system(err, errno, NULL, "cannot make a pipe"));
    }
    status = start_child(c, program, env, pipes, out, err);
out:
    for (int i = 0; i < 3; i++) close_pair(pipes[i]);
    kt__free(env);
    kt__free(clean);
    return status;
}

/* ---- ending ---- */

bool kt__child_has_ended(kt__child *child) {
    const kt__win_process *process = child->pid ? find_child((int)child->pid) : NULL;
    return !process || kt__win_process_wait(process, 0, NULL);
}

static void close_end(int *fd) {
    if (*fd >= 0) kt__fd_close(*fd);
    *fd = -1;
}

/* Windows has no signal that asks a program to end: the end of its input does, and then it is ended. */
void kt__child_stop(kt__child *child) {
    kt__win_process *process = child->pid ? find_child((int)child->pid) : NULL;
    close_end(&child->to);
    if (process) {
        (void)kt__win_process_wait(process, GRACE_MS, NULL);
        kt__win_process_end(process);
    }
    close_end(&child->from);
    close_end(&child->err);
    child->pid = 0;
}

/* ---- landlock ---- */

kt_status kt__landlock_rules(const kt__mcp_sandbox *s, const char *cwd, int *fd, kt_error *err) {
    (void)s;
    (void)cwd;
    *fd = -1;
    return kt__fail(
        err, KT_E_UNSUPPORTED,
        "sandbox: Windows has no Landlock: take it out of the file to start the server anyway");
}

bool kt__landlock_enter(int fd) {
    (void)fd;
    return false;
}
