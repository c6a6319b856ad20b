#include "mcp/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

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
            return kt__fail_at(err, KT_E_IO, *paths, UINT64_MAX, "sandbox: cannot open %.100s: %s",
                               *paths, strerror(errno));
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
    kt_status status;
    allow_system(ruleset, all);
    KT__TRY(allow_list(ruleset, folder, FS_READ, err));
    KT__TRY(allow_list(ruleset, s->read, FS_READ, err));
    status = allow_list(ruleset, s->write, all, err);
out:
    return status;
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
