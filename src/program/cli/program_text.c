#include "cli/documents.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

extern char **environ;

kt_status kt__program_text(const char *const *argv, const char *package, const char *path,
                           kt__buf *out, int *code, kt_error *err) {
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) return kt__fail_system(err, errno, NULL, "%.200s", path);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    int failed = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv,
                              environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char some[1 << 14];
    for (ssize_t n = 1; !failed && n > 0 && !out->failed;) {
        n = read(ends[0], some, sizeof some);
        if (n > 0) (void)kt__buf_append(out, some, (size_t)n);
        if (n < 0 && errno == EINTR) n = 1;
    }
    close(ends[0]);
    if (failed == ENOENT)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "%.200s: reading it needs the program %s; on Debian: apt-get install %s",
                        path, argv[0], package);
    if (failed) return kt__fail_system(err, failed, NULL, "%.200s: %s", path, argv[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (out->failed)
        return kt__fail(err, KT_E_LIMIT, "%.200s: more than %zu MB of text", path, out->max >> 20);
    return KT_OK;
}
