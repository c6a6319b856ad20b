#include "mcp/link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

enum { MAX_FILES = 4096, GRACE_MS = 2000, STEP_US = 20000, MAX_ENV = 4 };
#define MAX_FILE_BYTES (1ULL << 30)

/* All that the child needs between fork and execve, where nothing may be allocated. */
typedef struct start {
    char program[4096];
    char *const *argv;
    char **env;
    char clean[MAX_ENV][4096];
    const kt__mcp_server_config *config;
    int rules; /* of Landlock; -1: none */
    int in[2], out[2], err[2], failed[2];
} start;

/* ---- what is prepared ---- */

static bool find_program(const char *command, char *out, size_t size) {
    const char *path = getenv("PATH");
    if (strchr(command, '/')) return (size_t)snprintf(out, size, "%s", command) < size;
    for (path = path ? path : "/usr/bin:/bin"; *path; path += strspn(path, ":")) {
        size_t len = strcspn(path, ":");
        int n = snprintf(out, size, "%.*s/%s", (int)len, path, command);
        if (n > 0 && (size_t)n < size && access(out, X_OK) == 0) return true;
        path += len;
    }
    return false;
}

/* Only what programs cannot do without; the rest, with its secrets, stays here. */
static kt_status make_environment(start *s, kt_error *err) {
    static const char *const kept[MAX_ENV] = {"PATH", "HOME", "LANG", "TMPDIR"};
    size_t n = 0, n_more = 0;
    while (s->config->env[n_more]) n_more++;
    s->env = kt__calloc(n_more + MAX_ENV + 1, sizeof *s->env);
    if (!s->env) return kt__fail_nomem(err, "an environment", n_more);
    for (size_t i = 0; i < MAX_ENV; i++) {
        const char *value = getenv(kept[i]);
        int len = value ? snprintf(s->clean[i], sizeof s->clean[i], "%s=%s", kept[i], value) : -1;
        if (len > 0 && (size_t)len < sizeof s->clean[i]) s->env[n++] = s->clean[i];
    }
    for (size_t i = 0; i < n_more; i++) s->env[n++] = (char *)(uintptr_t)s->config->env[i];
    return KT_OK;
}

static void close_pair(int pair[2]) {
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) close(pair[i]);
        pair[i] = -1;
    }
}

static kt_status open_pipes(start *s, kt_error *err) {
    int *const pairs[] = {s->in, s->out, s->err, s->failed};
    for (size_t i = 0; i < 4; i++) {
        if (pipe2(pairs[i], O_CLOEXEC) == 0) continue;
        pairs[i][0] = pairs[i][1] = -1;
        return kt__fail_system(err, errno, NULL, "cannot make a pipe");
    }
    return KT_OK;
}

static kt_status prepare_start(start *s, kt_error *err) {
    const kt__mcp_server_config *c = s->config;
    s->argv = (char *const *)(uintptr_t)c->argv;
    s->rules = -1;
    s->in[0] = s->in[1] = s->out[0] = s->out[1] = -1;
    s->err[0] = s->err[1] = s->failed[0] = s->failed[1] = -1;
    if (!find_program(c->argv[0], s->program, sizeof s->program))
        return kt__fail_at(err, KT_E_IO, c->argv[0], UINT64_MAX,
                           "there is no program %.100s in PATH: it is the command of the server "
                           "\"%.60s\"",
                           c->argv[0], c->name);
    kt_status status = make_environment(s, err);
    if (status == KT_OK && c->sandbox.on)
        status = kt__landlock_rules(&c->sandbox, c->cwd, &s->rules, err);
    return status == KT_OK ? open_pipes(s, err) : status;
}

/* ---- in the child: async-signal-safe calls alone ---- */

static bool set_limit(int what, uint64_t value) {
    struct rlimit limit;
    if (getrlimit(what, &limit) != 0) return false;
    if (limit.rlim_max != RLIM_INFINITY && value > limit.rlim_max) value = limit.rlim_max;
    limit.rlim_cur = limit.rlim_max = value;
    return setrlimit(what, &limit) == 0;
}

static bool set_limits(const kt__mcp_server_config *c) {
    return set_limit(RLIMIT_CORE, 0) && set_limit(RLIMIT_NOFILE, MAX_FILES) &&
           set_limit(RLIMIT_FSIZE, MAX_FILE_BYTES) &&
           (!c->mem_bytes || set_limit(RLIMIT_AS, (uint64_t)c->mem_bytes)) &&
           (!c->cpu_s || set_limit(RLIMIT_CPU, (uint64_t)c->cpu_s));
}

static void reset_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < NSIG; i++) (void)signal(i, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Whatever this program has open that is not marked to be closed. */
static void close_others(int keep) {
    for (int fd = 3; fd < MAX_FILES; fd++) {
        if (fd != keep) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

_Noreturn static void run_child(const start *s, pid_t parent) {
    const kt__mcp_server_config *c = s->config;
    reset_signals();
    bool ready = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                 getppid() == parent && dup2(s->in[0], 0) >= 0 && dup2(s->out[1], 1) >= 0 &&
                 dup2(s->err[1], 2) >= 0 && (!c->cwd || chdir(c->cwd) == 0) && set_limits(c) &&
                 prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                 (s->rules < 0 || kt__landlock_enter(s->rules));
    if (ready) {
        close_others(s->failed[1]);
        execve(s->program, s->argv, s->env);
    }
    int code = errno;
    ssize_t n = write(s->failed[1], &code, sizeof code);
    (void)n;
    _exit(127);
}

/* ---- in this program ---- */

static kt_status wait_for_exec(start *s, pid_t pid, kt_error *err) {
    int code = 0;
    close(s->failed[1]);
    s->failed[1] = -1;
    ssize_t n;
    do {
        n = read(s->failed[0], &code, sizeof code);
    } while (n < 0 && errno == EINTR);
    if (n == 0) return KT_OK;
    (void)waitpid(pid, NULL, 0);
    return kt__fail_system(err, code, s->program, "cannot start %.100s", s->program);
}

static kt_status fork_child(start *s, kt__child *out, kt_error *err) {
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) return kt__fail_system(err, errno, NULL, "cannot start a process");
    if (pid == 0) run_child(s, parent);
    (void)setpgid(pid, pid); /* whichever comes first */
    kt_status status = wait_for_exec(s, pid, err);
    if (status != KT_OK) return status;
    *out = (kt__child){pid, s->in[1], s->out[0], s->err[0]};
    s->in[1] = s->out[0] = s->err[0] = -1;
    (void)fcntl(out->to, F_SETFL, O_NONBLOCK);
    (void)fcntl(out->from, F_SETFL, O_NONBLOCK);
    (void)fcntl(out->err, F_SETFL, O_NONBLOCK);
    return KT_OK;
}

kt_status kt__child_start(const kt__mcp_server_config *config, kt__child *out, kt_error *err) {
    *out = (kt__child){0, -1, -1, -1};
    start *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "a process", sizeof *s);
    s->config = config;
    kt_status status = prepare_start(s, err);
    if (status == KT_OK) status = fork_child(s, out, err);
    close_pair(s->in);
    close_pair(s->out);
    close_pair(s->err);
    close_pair(s->failed);
    if (s->rules >= 0) close(s->rules);
    kt__free(s->env);
    kt__free(s);
    return status;
}

bool kt__child_has_ended(kt__child *child) {
    siginfo_t info = {0};
    if (!child->pid) return true;
    /* it stays to be waited for: its group's number must not be taken by another meanwhile */
    return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child->pid;
}

static bool wait_for_end(kt__child *child, int ms) {
    for (int waited_us = 0; !kt__child_has_ended(child); waited_us += STEP_US) {
        if (waited_us >= ms * 1000) return false;
        usleep(STEP_US);
    }
    return true;
}

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* What it started and left in its group goes, too, whether it ended by itself or not. */
void kt__child_stop(kt__child *child) {
    close_end(&child->to);
    if (child->pid) {
        if (!wait_for_end(child, GRACE_MS)) {
            (void)kill(-child->pid, SIGTERM);
            (void)wait_for_end(child, GRACE_MS);
        }
        (void)kill(-child->pid, SIGKILL);
        (void)waitpid(child->pid, NULL, 0);
    }
    close_end(&child->from);
    close_end(&child->err);
    child->pid = 0;
}

/* ---- landlock ---- */

/* Of newer kernels than the headers may be of. */
#define FS_REFER (1ULL << 13)
#define FS_TRUNCATE (1ULL << 14)
#define FS_IOCTL_DEV (1ULL << 15)
#define NET_BIND (1ULL << 0)
#define NET_CONNECT (1ULL << 1)
#define FS_READ \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_BASE ((1ULL << 13) - 1) /* all of the first version */

typedef struct ruleset_attr {
    uint64_t handled_fs, handled_net;
} ruleset_attr;

static int landlock_version(void) {
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static uint64_t all_rights(int version) {
    uint64_t rights = FS_BASE;
    if (version >= 2) rights |= FS_REFER;
    if (version >= 3) rights |= FS_TRUNCATE;
    if (version >= 5) rights |= FS_IOCTL_DEV;
    return rights;
}

/* The rights that apply to what is no folder. */
static uint64_t rights_of_file(uint64_t rights) {
    return rights & (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                     LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV);
}

static bool allow_below(int ruleset, const char *path, uint64_t rights) {
    struct landlock_path_beneath_attr rule = {.allowed_access = rights};
    struct stat st;
    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0) return false;
    if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
        rule.allowed_access = rights_of_file(rights);
    bool added = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    close(rule.parent_fd);
    return added;
}

static kt_status allow_list(int ruleset, kt__mcp_texts paths, uint64_t rights, kt_error *err) {
    for (; paths && *paths; paths++) {
        if (!allow_below(ruleset, *paths, rights))
            return kt__fail_system(err, errno, *paths, "sandbox: cannot open %.100s", *paths);
    }
    return KT_OK;
}

/* What nearly every program reads; what is not there is no matter. */
static void allow_system(int ruleset, uint64_t all) {
    static const char *const read[] = {
        "/usr", "/bin",  "/sbin",     "/lib",         "/lib64",      "/etc",
        "/opt", "/proc", "/dev/zero", "/dev/urandom", "/dev/random", "/sys/devices/system/cpu"};
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
        (void)allow_below(ruleset, read[i], FS_READ);
    (void)allow_below(ruleset, "/dev/null", all);
}

static kt_status fill_rules(int ruleset, const kt__mcp_sandbox *s, const char *cwd, uint64_t all,
                            kt_error *err) {
    const char *const folder[] = {cwd, NULL};
    allow_system(ruleset, all);
    KT__STEP(allow_list(ruleset, folder, FS_READ, err));
    KT__STEP(allow_list(ruleset, s->read, FS_READ, err));
    return allow_list(ruleset, s->write, all, err);
}

kt_status kt__landlock_rules(const kt__mcp_sandbox *s, const char *cwd, int *fd, kt_error *err) {
    int version = landlock_version();
    *fd = -1;
    if (version < 1)
        return kt__fail(
            err, KT_E_UNSUPPORTED,
            "sandbox: this kernel has no Landlock: take it out of the file to start the "
            "server anyway");
    if (!s->net && version < 4)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "sandbox: this kernel's Landlock cannot hold the network: allow it with "
                        "\"net\": true");
    uint64_t all = all_rights(version);
    const ruleset_attr attr = {all, s->net ? 0 : NET_BIND | NET_CONNECT};
    size_t size = version >= 4 ? sizeof attr : sizeof attr.handled_fs;
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (ruleset < 0)
        return kt__fail(err, KT_E_UNSUPPORTED, "sandbox: Landlock: %s", strerror(errno));
    kt_status status = fill_rules(ruleset, s, cwd, all, err);
    if (status == KT_OK) {
        *fd = ruleset;
    } else {
        close(ruleset);
    }
    return status;
}

bool kt__landlock_enter(int fd) {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_landlock_restrict_self, fd, 0) == 0;
}
