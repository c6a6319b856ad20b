/* Names: folders and what is done with paths. */
#include "system.h"

#include <dirent.h>
#include <libgen.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/random.h>

/* The path of an open folder followed by name, for free; NULL with errno. */
static char *path_at(int folder, const char *name) {
    wchar_t wide[32768];
    bool whole = name[0] == '/' || name[0] == '\\' || (name[0] && name[1] == ':');
    if (folder == AT_FDCWD || whole) return strdup(name);
    DWORD n = GetFinalPathNameByHandleW(kt__win_handle(folder), wide, 32768, 0);
    if (!n || n >= 32768) {
        (void)kt__win_fail();
        return NULL;
    }
    char *dir = kt__win_narrow(wide), *out = dir ? malloc(strlen(dir) + strlen(name) + 2) : NULL;
    if (out) {
        strcpy(out, dir);
        strcat(out, "\\");
        strcat(out, name);
        for (char *c = out; *c; c++)
            if (*c == '/') *c = '\\';
    }
    free(dir);
    return out;
}

int kt__win_openat(int folder, const char *name, int flags, ...) {
    char *path = path_at(folder, name);
    int fd = path ? kt__win_open(path, flags, 0600) : -1, code = errno;
    free(path);
    errno = code;
    return fd;
}

int kt__win_fstatat(int folder, const char *name, struct kt__win_stat *out, int flags) {
    char *path = path_at(folder, name);
    int rc = !path ? -1 : flags & AT_SYMLINK_NOFOLLOW ? lstat(path, out) : stat(path, out);
    int code = errno;
    free(path);
    errno = code;
    return rc;
}

int kt__win_faccessat(int folder, const char *name, int mode, int flags) {
    char *path = path_at(folder, name);
    int rc = path ? access(path, mode) : -1, code = errno;
    (void)flags;
    free(path);
    errno = code;
    return rc;
}

int kt__win_unlinkat(int folder, const char *name, int flags) {
    char *path = path_at(folder, name);
    int rc = !path ? -1 : flags & AT_REMOVEDIR ? rmdir(path) : unlink(path), code = errno;
    free(path);
    errno = code;
    return rc;
}

int kt__win_mkdirat(int folder, const char *name, unsigned mode) {
    char *path = path_at(folder, name);
    int rc = path ? mkdir(path, mode) : -1, code = errno;
    free(path);
    errno = code;
    return rc;
}

int kt__win_renameat(int from_folder, const char *from, int to_folder, const char *to) {
    char *a = path_at(from_folder, from), *b = path_at(to_folder, to);
    int rc = a && b ? rename(a, b) : -1, code = errno;
    free(a);
    free(b);
    errno = code;
    return rc;
}

/* ---- renaming and removing ---- */

typedef struct rename_info { /* FILE_RENAME_INFO of Windows 10 */
    DWORD flags;
    HANDLE root;
    DWORD bytes;
    WCHAR name[1];
} rename_info;

/* POSIX's rename: the old file goes though it is open. Windows 10 1709 has it, on NTFS. */
static bool rename_posix(const wchar_t *from, const wchar_t *to) {
    enum { RENAME_INFO_EX = 22, REPLACE = 1, POSIX = 2 };
    size_t bytes = wcslen(to) * sizeof *to, size = sizeof(rename_info) + bytes;
    rename_info *info = calloc(1, size);
    HANDLE handle = info ? CreateFileW(from, DELETE | SYNCHRONIZE,
                                       FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                       OPEN_EXISTING,
                                       FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT,
                                       NULL)
                         : INVALID_HANDLE_VALUE;
    bool done = false;
    if (handle != INVALID_HANDLE_VALUE) {
        info->flags = REPLACE | POSIX;
        info->bytes = (DWORD)bytes;
        memcpy(info->name, to, bytes);
        done = SetFileInformationByHandle(handle, (FILE_INFO_BY_HANDLE_CLASS)RENAME_INFO_EX, info,
                                          (DWORD)size);
        CloseHandle(handle);
    }
    free(info);
    return done;
}

/* Where the system cannot do that: an open file may be renamed, so the old one goes aside and then away. A
 * process that ends in between leaves the new file under its own name only. */
static bool rename_aside(const wchar_t *from, const wchar_t *to) {
    size_t n = wcslen(to);
    wchar_t *aside = malloc((n + 32) * sizeof *aside);
    if (!aside) return false;
    wcscpy(aside, to);
    swprintf(aside + n, 32, L".%lx-%llx.old", GetCurrentProcessId(),
             (unsigned long long)GetTickCount64());
    bool done = MoveFileExW(to, aside, 0);
    if (done && !MoveFileExW(from, to, MOVEFILE_WRITE_THROUGH)) {
        (void)MoveFileExW(aside, to, 0);
        done = false;
    }
    if (done) (void)DeleteFileW(aside);
    free(aside);
    return done;
}

/* Over a file that is there, open or not; a folder takes an empty one's place. */
static bool rename_over(const wchar_t *from, const wchar_t *to) {
    DWORD attributes = GetFileAttributesW(from);
    if (attributes == INVALID_FILE_ATTRIBUTES) return false;
    if (attributes & FILE_ATTRIBUTE_DIRECTORY)
        return RemoveDirectoryW(to) && MoveFileExW(from, to, MOVEFILE_WRITE_THROUGH);
    return rename_posix(from, to) || rename_aside(from, to);
}

static int rename_to(const char *from, const char *to, bool replace) {
    wchar_t *a = kt__win_path(from), *b = kt__win_path(to);
    DWORD flags = MOVEFILE_WRITE_THROUGH | (replace ? MOVEFILE_REPLACE_EXISTING : 0);
    bool named = a && b, done = named && MoveFileExW(a, b, flags);
    DWORD code = GetLastError();
    if (!done && named && replace &&
        (code == ERROR_ACCESS_DENIED || code == ERROR_SHARING_VIOLATION ||
         code == ERROR_USER_MAPPED_FILE))
        done = rename_over(a, b);
    free(a);
    free(b);
    if (done) return 0;
    return named ? kt__win_fail_code(code) : -1;
}

int kt__win_rename(const char *from, const char *to) {
    return rename_to(from, to, true);
}

/* POSIX's unlink: the name goes at once though the file is open, read-only or not. Windows 10 1607, on NTFS. */
static bool unlink_posix(const wchar_t *path) {
    enum { DISPOSITION_INFO_EX = 21, REMOVE = 1, POSIX = 2, IGNORE_READONLY = 16 };
    DWORD flags = REMOVE | POSIX | IGNORE_READONLY;
    HANDLE handle = CreateFileW(path, DELETE,
                                FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (handle == INVALID_HANDLE_VALUE) return false;
    bool done = SetFileInformationByHandle(handle, (FILE_INFO_BY_HANDLE_CLASS)DISPOSITION_INFO_EX,
                                           &flags, sizeof flags);
    CloseHandle(handle);
    return done;
}

/* Elsewhere the name of a file that is open would stay until it is closed, and its folder with it: it is moved out
 * of the way first, to where temporary files are. */
static bool unlink_elsewhere(const wchar_t *path) {
    static volatile LONG number;
    wchar_t folder[MAX_PATH + 1], away[MAX_PATH + 64];
    if (!GetTempPathW(MAX_PATH + 1, folder)) return false;
    swprintf(away, MAX_PATH + 64, L"%lskentang-%lx-%lx.old", folder, GetCurrentProcessId(),
             InterlockedIncrement(&number));
    return MoveFileExW(path, away, 0) && DeleteFileW(away);
}

int kt__win_unlink(const char *path) {
    wchar_t *wide = kt__win_path(path);
    if (!wide) return -1;
    DWORD attributes = GetFileAttributesW(wide);
    bool folder = attributes == INVALID_FILE_ATTRIBUTES || (attributes & FILE_ATTRIBUTE_DIRECTORY);
    bool done = unlink_posix(wide) || (!folder && unlink_elsewhere(wide)) || DeleteFileW(wide);
    DWORD code = GetLastError();
    if (!done && attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY)) {
        free(wide);
        errno = EISDIR;
        return -1;
    }
    if (!done && attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_READONLY) &&
        SetFileAttributesW(wide, attributes & ~(DWORD)FILE_ATTRIBUTE_READONLY))
        done = DeleteFileW(wide);
    free(wide);
    return done ? 0 : kt__win_fail_code(code);
}

static int with_path(const char *path, BOOL (*call)(const wchar_t *wide)) {
    wchar_t *wide = kt__win_path(path);
    if (!wide) return -1;
    BOOL done = call(wide);
    DWORD code = GetLastError();
    free(wide);
    return done ? 0 : kt__win_fail_code(code);
}

static BOOL remove_folder(const wchar_t *wide) {
    return RemoveDirectoryW(wide);
}

static BOOL make_folder(const wchar_t *wide) {
    if (CreateDirectoryW(wide, NULL)) return TRUE;
    size_t n = wcslen(wide);
    if (n == 2 && wide[1] == L':') SetLastError(ERROR_ALREADY_EXISTS); /* a drive */
    return FALSE;
}

static BOOL enter_folder(const wchar_t *wide) {
    return SetCurrentDirectoryW(wide);
}

int kt__win_rmdir(const char *path) {
    return with_path(path, remove_folder);
}

int kt__win_mkdir(const char *path, unsigned mode) {
    (void)mode;
    return with_path(path, make_folder);
}

int kt__win_chdir(const char *path) {
    return with_path(path, enter_folder);
}

/* ---- asking ---- */

int kt__win_access(const char *path, int mode) {
    wchar_t *wide = kt__win_path(path);
    if (!wide) return -1;
    DWORD attributes = GetFileAttributesW(wide), code = GetLastError();
    free(wide);
    if (attributes == INVALID_FILE_ATTRIBUTES) return kt__win_fail_code(code);
    if (!(mode & W_OK) || !(attributes & FILE_ATTRIBUTE_READONLY)) return 0;
    errno = EACCES;
    return -1;
}

static void with_slashes(char *path) {
    for (; *path; path++)
        if (*path == '\\') *path = '/';
}

/* Into out[size] where it is not NULL, else for free. */
static char *give_path(const wchar_t *wide, char *out, size_t size) {
    char *text = kt__win_narrow(wide);
    if (!text) return NULL;
    const char *from = strncmp(text, "\\\\?\\", 4) == 0 && strncmp(text, "\\\\?\\UNC", 7) != 0
                           ? text + 4
                           : text;
    memmove(text, from, strlen(from) + 1);
    with_slashes(text);
    if (!out) return text;
    bool fits = strlen(text) < size;
    if (fits) strcpy(out, text);
    free(text);
    errno = ERANGE;
    return fits ? out : NULL;
}

char *kt__win_getcwd(char *out, size_t size) {
    wchar_t wide[32768];
    DWORD n = GetCurrentDirectoryW(32768, wide);
    if (n && n < 32768) return give_path(wide, out, size);
    (void)kt__win_fail();
    return NULL;
}

char *kt__win_realpath(const char *path, char *out) {
    wchar_t wide[32768];
    int fd = open(path, O_RDONLY | O_PATH);
    if (fd < 0) return NULL;
    DWORD n = GetFinalPathNameByHandleW(kt__win_handle(fd), wide, 32768, 0);
    close(fd);
    if (n && n < 32768) return give_path(wide, out, PATH_MAX);
    (void)kt__win_fail();
    return NULL;
}

static void fill_pattern(char *pattern) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char bytes[6];
    (void)getrandom(bytes, sizeof bytes, 0);
    for (size_t i = 0, n = strlen(pattern); i < 6 && n >= 6; i++)
        pattern[n - 6 + i] = letters[bytes[i] % (sizeof letters - 1)];
}

char *kt__win_mkdtemp(char *pattern) {
    fill_pattern(pattern);
    return mkdir(pattern, 0700) == 0 ? pattern : NULL;
}

int kt__win_mkstemp(char *pattern) {
    fill_pattern(pattern);
    return open(pattern, O_RDWR | O_CREAT | O_EXCL, 0600);
}

int kt__win_nameless(void) {
    wchar_t folder[MAX_PATH + 1], path[MAX_PATH + 32];
    if (!GetTempPathW(MAX_PATH + 1, folder) || !GetTempFileNameW(folder, L"ken", 0, path))
        return kt__win_fail();
    HANDLE handle = CreateFileW(path, GENERIC_READ | GENERIC_WRITE | DELETE,
                                FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                CREATE_ALWAYS, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE,
                                NULL);
    return handle == INVALID_HANDLE_VALUE ? kt__win_fail() : kt__win_descriptor(handle, 0);
}

/* Windows lets only administrators and developers make symbolic links: who needs one makes a hard one. */
int kt__win_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char *a = path_at(from_folder, from), *b = path_at(to_folder, to);
    wchar_t *wide_a = a ? kt__win_path(a) : NULL, *wide_b = b ? kt__win_path(b) : NULL;
    bool named = wide_a && wide_b, done = named && CreateHardLinkW(wide_b, wide_a, NULL);
    DWORD code = GetLastError();
    (void)flags;
    free(wide_a);
    free(wide_b);
    free(a);
    free(b);
    return done ? 0 : named ? kt__win_fail_code(code) : -1;
}

int kt__win_symlink(const char *target, const char *path) {
    wchar_t *a = kt__win_path(target), *b = kt__win_path(path);
    bool named = a && b,
         done = named && CreateSymbolicLinkW(b, a, 2 /* without a privilege, in developer mode */);
    DWORD code = GetLastError();
    free(a);
    free(b);
    return done ? 0 : named ? kt__win_fail_code(code) : -1;
}

ssize_t kt__win_readlink(const char *path, char *out, size_t size) {
    char real[PATH_MAX];
    struct stat st;
    if (lstat(path, &st) != 0) return -1;
    errno = EINVAL;
    if (!S_ISLNK(st.st_mode) || !realpath(path, real)) return -1;
    size_t n = strlen(real) < size ? strlen(real) : size;
    memcpy(out, real, n);
    return (ssize_t)n;
}

static FILETIME ticks_of(struct timespec t, bool *omit) {
    ULARGE_INTEGER ticks;
    FILETIME out;
    *omit = t.tv_nsec == UTIME_OMIT;
    GetSystemTimeAsFileTime(&out);
    if (t.tv_nsec == UTIME_NOW || *omit) return out;
    ticks.QuadPart = (uint64_t)(t.tv_sec * 10000000 + t.tv_nsec / 100 +
                                INT64_C(116444736000000000));
    return (FILETIME){ticks.LowPart, ticks.HighPart};
}

static int set_times(HANDLE handle, const struct timespec times[2]) {
    bool omit[2];
    FILETIME read_at = ticks_of(times[0], &omit[0]), written_at = ticks_of(times[1], &omit[1]);
    if (SetFileTime(handle, NULL, omit[0] ? NULL : &read_at, omit[1] ? NULL : &written_at))
        return 0;
    return kt__win_fail();
}

int kt__win_futimens(int fd, const struct timespec times[2]) {
    return set_times(kt__win_handle(fd), times);
}

int kt__win_utimensat(int folder, const char *name, const struct timespec times[2], int flags) {
    char *path = path_at(folder, name);
    wchar_t *wide = path ? kt__win_path(path) : NULL;
    (void)flags;
    free(path);
    if (!wide) return -1;
    HANDLE handle = CreateFileW(wide, FILE_WRITE_ATTRIBUTES,
                                FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (handle == INVALID_HANDLE_VALUE) return kt__win_fail();
    int rc = set_times(handle, times);
    CloseHandle(handle);
    return rc;
}

int kt__win_chmod(const char *path, unsigned mode) {
    (void)mode; /* who may read a file is inherited from its folder */
    return access(path, F_OK);
}

int kt__win_fchmod(int fd, unsigned mode) {
    (void)fd;
    (void)mode;
    return 0;
}

char *kt__win_dirname(char *path) {
    static char dot[] = ".";
    size_t n = strlen(path);
    while (n > 1 && (path[n - 1] == '/' || path[n - 1] == '\\')) n--;
    while (n > 0 && path[n - 1] != '/' && path[n - 1] != '\\') n--;
    if (n == 0) return dot;
    path[n > 1 && path[n - 2] != ':' ? n - 1 : n] = '\0';
    return path;
}

/* ---- calls by number ---- */

/* Refused where the path, or a link in it, leads out of the folder. */
static int open_below(int folder, const char *name, const struct open_how *how) {
    bool out = name[0] == '/' || name[0] == '\\' || strchr(name, ':') != NULL;
    for (const char *at = name; !out && *at; at += strcspn(at, "/\\"), at += strspn(at, "/\\"))
        out = at[0] == '.' && at[1] == '.' && (!at[2] || at[2] == '/' || at[2] == '\\');
    wchar_t base[32768], got[32768];
    int fd = out ? -1 : openat(folder, name, (int)how->flags);
    if (fd < 0) {
        if (out) errno = EXDEV;
        return -1;
    }
    DWORD n = GetFinalPathNameByHandleW(kt__win_handle(folder), base, 32768, 0);
    DWORD m = GetFinalPathNameByHandleW(kt__win_handle(fd), got, 32768, 0);
    bool below = n && m && n < 32768 && m < 32768 && m >= n && !_wcsnicmp(base, got, n) &&
                 (m == n || got[n] == L'\\' || base[n - 1] == L'\\');
    if (below) return fd;
    close(fd);
    errno = EXDEV;
    return -1;
}

#include <sys/syscall.h>

#undef syscall
long kt__win_syscall(long number, ...) {
    va_list args;
    long rc = -1;
    va_start(args, number);
    if (number == SYS_renameat2) {
        (void)va_arg(args, int);
        const char *from = va_arg(args, const char *);
        (void)va_arg(args, int);
        rc = rename_to(from, va_arg(args, const char *), false);
    } else if (number == SYS_openat2) {
        int folder = va_arg(args, int);
        const char *name = va_arg(args, const char *);
        rc = open_below(folder, name, va_arg(args, const struct open_how *));
    } else {
        errno = ENOSYS;
    }
    va_end(args);
    return rc;
}

/* ---- reading folders ---- */

struct kt__win_dir {
    HANDLE search;
    WIN32_FIND_DATAW found;
    bool first;
    int fd; /* -1: none was given */
    struct dirent entry;
};

static DIR *open_folder(const char *path) {
    struct stat st;
    DIR *dir = NULL;
    if (stat(path, &st) != 0) return NULL;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return NULL;
    }
    char *pattern = malloc(strlen(path) + 3);
    if (!pattern) return NULL;
    strcpy(pattern, path);
    strcat(pattern, "/*");
    wchar_t *wide = kt__win_path(pattern);
    free(pattern);
    dir = wide ? calloc(1, sizeof *dir) : NULL;
    if (dir) {
        dir->search = FindFirstFileW(wide, &dir->found);
        dir->first = true;
        dir->fd = -1;
        if (dir->search == INVALID_HANDLE_VALUE && GetLastError() != ERROR_FILE_NOT_FOUND) {
            (void)kt__win_fail();
            free(dir);
            dir = NULL;
        }
    }
    free(wide);
    return dir;
}

DIR *kt__win_opendir(const char *path) {
    return open_folder(path);
}

DIR *kt__win_fdopendir(int fd) {
    char *path = path_at(fd, "");
    DIR *dir = NULL;
    if (path) {
        path[strlen(path) - 1] = '\0';
        dir = open_folder(path);
        if (dir) dir->fd = fd;
    }
    free(path);
    return dir;
}

struct dirent *kt__win_readdir(DIR *dir) {
    if (dir->search == INVALID_HANDLE_VALUE) return NULL;
    if (!dir->first && !FindNextFileW(dir->search, &dir->found)) return NULL;
    dir->first = false;
    if (!WideCharToMultiByte(CP_UTF8, 0, dir->found.cFileName, -1, dir->entry.d_name,
                             sizeof dir->entry.d_name, NULL, NULL))
        return NULL;
    return &dir->entry;
}

int kt__win_closedir(DIR *dir) {
    if (dir->search != INVALID_HANDLE_VALUE) FindClose(dir->search);
    if (dir->fd >= 0) close(dir->fd);
    free(dir);
    return 0;
}

int kt__win_dirfd(DIR *dir) {
    return dir->fd;
}
