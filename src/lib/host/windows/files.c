/* Descriptors: files, pipes and what both share. */
#include "system.h"

#include <sys/file.h>
#include <sys/statvfs.h>

#undef close
#undef isatty

enum { MOST = 1 << 30, LAST_DESCRIPTOR = 8192 };

static unsigned char nonblocking[LAST_DESCRIPTOR]; /* pipes that do not wait */
static unsigned char appends[LAST_DESCRIPTOR];     /* O_APPEND */
static HANDLE folder_locks[LAST_DESCRIPTOR];
static void unlock_folder(int fd);

bool kt__win_is_socket(int fd) {
    return fd > 2 && fd % 4 == 0;
}

HANDLE kt__win_handle(int fd) {
    if (fd < 0 || fd >= LAST_DESCRIPTOR || kt__win_is_socket(fd)) {
        SetLastError(ERROR_INVALID_HANDLE);
        return INVALID_HANDLE_VALUE;
    }
    return (HANDLE)_get_osfhandle(fd);
}

void kt__win_set_nonblocking(int fd, bool on) {
    if (fd >= 0 && fd < LAST_DESCRIPTOR) nonblocking[fd] = on;
}

bool kt__win_is_nonblocking(int fd) {
    return fd >= 0 && fd < LAST_DESCRIPTOR && nonblocking[fd];
}

/* No multiple of four (posix.h): such a number is taken until another has been got. */
static int leave_fourth(int fd, int flags) {
    if (fd < 0 || !kt__win_is_socket(fd)) return fd;
    int other = _dup(fd);
    if (other >= 0 && kt__win_is_socket(other)) {
        int third = leave_fourth(other, flags);
        other = third;
    }
    _close(fd);
    if (other >= 0) SetHandleInformation((HANDLE)_get_osfhandle(other), HANDLE_FLAG_INHERIT, 0);
    return other;
}

int kt__win_descriptor(HANDLE handle, int flags) {
    int fd = _open_osfhandle((intptr_t)handle, (flags & O_APPEND) | _O_BINARY);
    if (fd < 0) {
        CloseHandle(handle);
        errno = EMFILE;
        return -1;
    }
    fd = leave_fourth(fd, flags);
    kt__win_set_nonblocking(fd, false);
    if (fd >= 0 && fd < LAST_DESCRIPTOR) appends[fd] = (flags & O_APPEND) != 0;
    return fd;
}

/* ---- opening ---- */

static DWORD access_of(int flags) {
    DWORD access = GENERIC_READ;
    if ((flags & 3) == O_WRONLY) access = GENERIC_WRITE | FILE_READ_ATTRIBUTES;
    if ((flags & 3) == O_RDWR) access = GENERIC_READ | GENERIC_WRITE;
    if (flags & O_PATH) access = FILE_READ_ATTRIBUTES;
    return access;
}

static DWORD disposition_of(int flags) {
    if ((flags & O_CREAT) && (flags & O_EXCL)) return CREATE_NEW;
    if ((flags & O_CREAT) && (flags & O_TRUNC)) return CREATE_ALWAYS;
    if (flags & O_CREAT) return OPEN_ALWAYS;
    return flags & O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING;
}

static int check_opened(HANDLE handle, int flags) {
    BY_HANDLE_FILE_INFORMATION info;
    if (GetFileType(handle) != FILE_TYPE_DISK || !GetFileInformationByHandle(handle, &info))
        return 0;
    bool folder = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY;
    if ((flags & O_DIRECTORY) && !folder) return ENOTDIR;
    if (folder && (flags & 3) != O_RDONLY) return EISDIR;
    if ((flags & O_NOFOLLOW) && (info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT))
        return ELOOP;
    return 0;
}

/* Others may read, write, rename and remove it meanwhile, as POSIX has it. */
static int open_wide(const wchar_t *path, int flags) {
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    DWORD how = FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS;
    if (flags & O_NOFOLLOW) how |= FILE_FLAG_OPEN_REPARSE_POINT;
    DWORD disposition = disposition_of(flags);
    /* a file that is emptied keeps its attributes */
    if (disposition == CREATE_ALWAYS && GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES)
        disposition = TRUNCATE_EXISTING;
    HANDLE handle = CreateFileW(path, access_of(flags), share, NULL, disposition, how, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        DWORD code = GetLastError(), attributes = GetFileAttributesW(path);
        if (code == ERROR_ACCESS_DENIED && attributes != INVALID_FILE_ATTRIBUTES &&
            (attributes & FILE_ATTRIBUTE_DIRECTORY)) {
            errno = EISDIR;
            return -1;
        }
        return kt__win_fail_code(code);
    }
    int error = check_opened(handle, flags);
    if (error) {
        CloseHandle(handle);
        errno = error;
        return -1;
    }
    return kt__win_descriptor(handle, flags);
}

int kt__win_open(const char *path, int flags, ...) {
    wchar_t *wide = kt__win_path(path);
    int fd = wide ? open_wide(wide, flags) : -1;
    int code = errno;
    free(wide);
    errno = code;
    return fd;
}

int kt__win_close(int fd) {
    if (kt__win_is_epoll(fd)) {
        kt__win_epoll_close(fd);
        return 0;
    }
    if (kt__win_is_socket(fd)) return closesocket((SOCKET)fd) == 0 ? 0 : kt__win_fail_socket();
    kt__win_set_nonblocking(fd, false);
    unlock_folder(fd);
    return _close(fd);
}

/* ---- the keyboard ---- */

/* A line as the console edits it; Ctrl-Z at its start ends the input. What does not fit stays for the next
 * call. */
ssize_t kt__win_read_console(void *data, size_t n) {
    static char kept[16384];
    static size_t at, len;
    wchar_t wide[4096];
    DWORD got = 0;
    if (at == len) {
        at = len = 0;
        SetLastError(0);
        if (!ReadConsoleW(GetStdHandle(STD_INPUT_HANDLE), wide, 4096, &got, NULL))
            return kt__win_fail();
        if (!got && GetLastError() == ERROR_OPERATION_ABORTED) return kt__win_fail(); /* Ctrl-C */
        if (got && wide[0] == 26) return 0;
        len = (size_t)WideCharToMultiByte(CP_UTF8, 0, wide, (int)got, kept, sizeof kept, NULL,
                                          NULL);
        if (len >= 2 && kept[len - 2] == '\r' && kept[len - 1] == '\n') kept[--len - 1] = '\n';
    }
    size_t some = len - at < n ? len - at : n;
    memcpy(data, kept + at, some);
    at += some;
    return (ssize_t)some;
}

/* ---- reading and writing ---- */

static bool is_console(HANDLE handle) {
    DWORD mode;
    return GetConsoleMode(handle, &mode) != 0;
}

int kt__win_isatty(int fd) {
    HANDLE handle = kt__win_handle(fd);
    return handle != INVALID_HANDLE_VALUE && is_console(handle);
}

/* true: there is something, or the end. */
bool kt__win_wait_pipe(int fd, bool *ended) {
    DWORD n = 0;
    HANDLE handle = kt__win_handle(fd);
    *ended = false;
    if (GetFileType(handle) != FILE_TYPE_PIPE) return true;
    if (!PeekNamedPipe(handle, NULL, 0, NULL, &n, NULL)) return *ended = true;
    return n > 0;
}

ssize_t kt__win_read(int fd, void *data, size_t n) {
    DWORD got = 0;
    bool ended;
    if (kt__win_is_socket(fd)) {
        int some = recv((SOCKET)fd, data, (int)(n < MOST ? n : MOST), 0);
        return some >= 0 ? some : kt__win_fail_socket();
    }
    HANDLE handle = kt__win_handle(fd);
    if (handle == INVALID_HANDLE_VALUE) return kt__win_fail_code(ERROR_INVALID_HANDLE);
    if (is_console(handle)) return kt__win_read_console(data, n);
    if (kt__win_is_nonblocking(fd) && !kt__win_wait_pipe(fd, &ended)) {
        errno = EAGAIN;
        return -1;
    }
    if (ReadFile(handle, data, (DWORD)(n < MOST ? n : MOST), &got, NULL)) return (ssize_t)got;
    DWORD code = GetLastError();
    if (code == ERROR_BROKEN_PIPE || code == ERROR_HANDLE_EOF) return 0;
    return kt__win_fail_code(code);
}

static OVERLAPPED place_of(int64_t at) {
    OVERLAPPED place = {0};
    place.Offset = (DWORD)at;
    place.OffsetHigh = (DWORD)(at >> 32);
    return place;
}

ssize_t kt__win_write(int fd, const void *data, size_t n) {
    DWORD got = 0;
    if (kt__win_is_socket(fd)) {
        int some = send((SOCKET)fd, data, (int)(n < MOST ? n : MOST), 0);
        return some >= 0 ? some : kt__win_fail_socket();
    }
    HANDLE handle = kt__win_handle(fd);
    if (handle == INVALID_HANDLE_VALUE) return kt__win_fail_code(ERROR_INVALID_HANDLE);
    OVERLAPPED end = place_of(-1); /* wherever that is by then */
    if (!WriteFile(handle, data, (DWORD)(n < MOST ? n : MOST), &got, appends[fd] ? &end : NULL))
        return kt__win_fail();
    if (!got && n) {
        errno = EAGAIN; /* a pipe that is full and does not wait */
        return -1;
    }
    return (ssize_t)got;
}

ssize_t kt__win_pread(int fd, void *data, size_t n, int64_t at) {
    OVERLAPPED place = place_of(at);
    DWORD got = 0;
    if (ReadFile(kt__win_handle(fd), data, (DWORD)(n < MOST ? n : MOST), &got, &place))
        return (ssize_t)got;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : kt__win_fail();
}

ssize_t kt__win_pwrite(int fd, const void *data, size_t n, int64_t at) {
    OVERLAPPED place = place_of(at);
    DWORD got = 0;
    if (WriteFile(kt__win_handle(fd), data, (DWORD)(n < MOST ? n : MOST), &got, &place))
        return (ssize_t)got;
    return kt__win_fail();
}

int kt__win_ftruncate(int fd, int64_t size) {
    FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = size};
    if (SetFileInformationByHandle(kt__win_handle(fd), FileEndOfFileInfo, &end, sizeof end))
        return 0;
    return kt__win_fail();
}

int kt__win_truncate(const char *path, int64_t size) {
    int fd = kt__win_open(path, O_WRONLY);
    if (fd < 0) return -1;
    int result = kt__win_ftruncate(fd, size), failed = errno;
    kt__win_close(fd);
    errno = failed;
    return result;
}

int kt__win_fallocate(int fd, int mode, int64_t at, int64_t n) {
    FILE_ALLOCATION_INFO room = {.AllocationSize.QuadPart = at + n};
    (void)mode;
    if (!SetFileInformationByHandle(kt__win_handle(fd), FileAllocationInfo, &room, sizeof room))
        return kt__win_fail();
    return kt__win_ftruncate(fd, at + n);
}

/* A folder is durable with what happens in it: NTFS keeps a journal of names. */
int kt__win_fsync(int fd) {
    HANDLE handle = kt__win_handle(fd);
    BY_HANDLE_FILE_INFORMATION info;
    if (FlushFileBuffers(handle)) return 0;
    DWORD code = GetLastError();
    if (GetFileInformationByHandle(handle, &info) &&
        (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY))
        return 0;
    if (code == ERROR_ACCESS_DENIED) return 0; /* opened to be read: nothing of ours waits */
    return kt__win_fail_code(code);
}

int kt__win_posix_fadvise(int fd, int64_t at, int64_t n, int advice) {
    (void)fd;
    (void)at;
    (void)n;
    (void)advice;
    return 0;
}

/* Windows locks no folders: an object with a name made of the folder's number is held instead. */
static int lock_folder(int fd, const BY_HANDLE_FILE_INFORMATION *info) {
    wchar_t name[64];
    swprintf(name, 64, L"Local\\kentang-%08lx-%08lx%08lx", info->dwVolumeSerialNumber,
             info->nFileIndexHigh, info->nFileIndexLow);
    HANDLE event = folder_locks[fd] ? NULL : CreateEventW(NULL, TRUE, FALSE, name);
    DWORD code = GetLastError();
    if (folder_locks[fd]) return 0;
    if (event && code != ERROR_ALREADY_EXISTS) {
        folder_locks[fd] = event;
        return 0;
    }
    if (event) CloseHandle(event);
    return kt__win_fail_code(event ? ERROR_LOCK_VIOLATION : code);
}

static void unlock_folder(int fd) {
    if (fd < 0 || fd >= LAST_DESCRIPTOR || !folder_locks[fd]) return;
    CloseHandle(folder_locks[fd]);
    folder_locks[fd] = NULL;
}

/* Of one byte far beyond any end, so that who holds a lock keeps nobody from reading: Windows's locks
 * are mandatory. */
int kt__win_flock(int fd, int how) {
    OVERLAPPED place = {.OffsetHigh = 0x7fffffff};
    HANDLE handle = kt__win_handle(fd);
    BY_HANDLE_FILE_INFORMATION info;
    if (GetFileInformationByHandle(handle, &info) &&
        (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)) {
        if (!(how & LOCK_UN)) return lock_folder(fd, &info);
        unlock_folder(fd);
        return 0;
    }
    DWORD flags = how & LOCK_EX ? LOCKFILE_EXCLUSIVE_LOCK : 0;
    if (how & LOCK_NB) flags |= LOCKFILE_FAIL_IMMEDIATELY;
    if (how & LOCK_UN) {
        (void)UnlockFileEx(handle, 0, 1, 0, &place);
        return 0;
    }
    (void)UnlockFileEx(handle, 0, 1, 0, &place); /* one that it has is replaced */
    if (LockFileEx(handle, flags, 0, 1, 0, &place)) return 0;
    DWORD code = GetLastError();
    if (code == ERROR_IO_PENDING) code = ERROR_LOCK_VIOLATION;
    return kt__win_fail_code(code);
}

int kt__win_fcntl(int fd, int what, ...) {
    va_list args;
    va_start(args, what);
    int value = what == F_SETFL || what == F_DUPFD_CLOEXEC ? va_arg(args, int) : 0;
    va_end(args);
    if (what == F_DUPFD_CLOEXEC) {
        int copy = leave_fourth(_dup(fd), 0);
        if (copy >= 0) SetHandleInformation((HANDLE)_get_osfhandle(copy), HANDLE_FLAG_INHERIT, 0);
        return copy;
    }
    if (what == F_SETFL && kt__win_is_socket(fd)) {
        u_long on = (value & O_NONBLOCK) != 0;
        return ioctlsocket((SOCKET)fd, (long)FIONBIO, &on) == 0 ? 0 : kt__win_fail_socket();
    }
    if (what == F_SETFL) {
        DWORD mode = value & O_NONBLOCK ? PIPE_NOWAIT : PIPE_WAIT;
        kt__win_set_nonblocking(fd, (value & O_NONBLOCK) != 0);
        (void)SetNamedPipeHandleState(kt__win_handle(fd), &mode, NULL, NULL);
    }
    return 0;
}

int kt__win_pipe2(int ends[2], int flags) {
    HANDLE from, to;
    (void)flags;
    if (!CreatePipe(&from, &to, NULL, 65536)) return kt__win_fail();
    ends[0] = kt__win_descriptor(from, 0);
    ends[1] = kt__win_descriptor(to, 0);
    if (ends[0] >= 0 && ends[1] >= 0) return 0;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0) _close(ends[i]);
    return -1;
}

/* ---- what files are ---- */

static struct timespec time_of(FILETIME t) {
    const int64_t unix_epoch = INT64_C(116444736000000000);
    int64_t ticks = ((int64_t)t.dwHighDateTime << 32 | t.dwLowDateTime) - unix_epoch;
    return (struct timespec){.tv_sec = ticks / 10000000, .tv_nsec = (long)(ticks % 10000000) * 100};
}

static unsigned link_mode(HANDLE handle) {
    FILE_ATTRIBUTE_TAG_INFO tag;
    if (!GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag)) return 0;
    if (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK || tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT)
        return KT__WIN_S_IFLNK;
    return tag.ReparseTag == 0x80000023 ? KT__WIN_S_IFSOCK : 0; /* IO_REPARSE_TAG_AF_UNIX */
}

/* Readable and writable by its owner: who else may is in its folder's access list. */
static int look_at_handle(HANDLE handle, struct kt__win_stat *out) {
    BY_HANDLE_FILE_INFORMATION info;
    memset(out, 0, sizeof *out);
    out->st_uid = out->st_gid = geteuid();
    out->st_nlink = 1;
    DWORD type = GetFileType(handle);
    if (type == FILE_TYPE_PIPE || type == FILE_TYPE_CHAR) {
        out->st_mode = (type == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR) | 0600;
        return 0;
    }
    if (!GetFileInformationByHandle(handle, &info)) return kt__win_fail();
    bool folder = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY;
    unsigned link = info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT ? link_mode(handle) : 0;
    out->st_mode = link ? link | 0600 : folder ? S_IFDIR | 0700 : S_IFREG | 0600;
    if (info.dwFileAttributes & FILE_ATTRIBUTE_READONLY) out->st_mode &= ~0200u;
    out->st_dev = info.dwVolumeSerialNumber;
    out->st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    out->st_nlink = info.nNumberOfLinks;
    out->st_size = folder ? 0 : (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
    out->st_blksize = 4096;
    out->st_blocks = (out->st_size + 4095) / 4096 * 8;
    out->st_atim = time_of(info.ftLastAccessTime);
    out->st_mtim = out->st_ctim = time_of(info.ftLastWriteTime);
    return 0;
}

int kt__win_fstat(int fd, struct kt__win_stat *out) {
    if (kt__win_is_socket(fd)) {
        memset(out, 0, sizeof *out);
        out->st_mode = KT__WIN_S_IFSOCK | 0600;
        return 0;
    }
    return look_at_handle(kt__win_handle(fd), out);
}

static int look_at_path(const char *path, bool follow, struct kt__win_stat *out) {
    wchar_t *wide = kt__win_path(path);
    if (!wide) return -1;
    HANDLE handle = CreateFileW(
        wide, FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
        OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | (follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT),
        NULL);
    free(wide);
    if (handle == INVALID_HANDLE_VALUE) return kt__win_fail();
    int rc = look_at_handle(handle, out);
    CloseHandle(handle);
    return rc;
}

int kt__win_stat(const char *path, struct kt__win_stat *out) {
    return look_at_path(path, true, out);
}

int kt__win_lstat(const char *path, struct kt__win_stat *out) {
    return look_at_path(path, false, out);
}

#undef statvfs
int kt__win_statvfs(const char *path, struct statvfs *out) {
    wchar_t *wide = kt__win_path(path);
    ULARGE_INTEGER available, total, free_bytes;
    BOOL ok = wide && GetDiskFreeSpaceExW(wide, &available, &total, &free_bytes);
    free(wide);
    if (!ok) return kt__win_fail();
    *out = (struct statvfs){4096, 4096, total.QuadPart / 4096, free_bytes.QuadPart / 4096,
                            available.QuadPart / 4096};
    return 0;
}

/* ---- streams ---- */

#undef fdopen
FILE *kt__win_fdopen(int fd, const char *mode) {
    char plain[4] = {mode[0], strchr(mode, '+') ? '+' : 'b', 'b', '\0'};
    if (plain[1] == 'b') plain[2] = '\0';
    return _fdopen(fd, plain);
}

FILE *kt__win_fopen(const char *path, const char *mode) {
    int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    if (mode[0] != 'r') flags |= O_CREAT;
    if (mode[0] == 'w') flags |= O_TRUNC;
    if (mode[0] == 'a') flags |= O_APPEND;
    if (strchr(mode, 'x')) flags |= O_EXCL;
    int fd = kt__win_open(path, flags, 0600);
    FILE *file = fd >= 0 ? kt__win_fdopen(fd, mode) : NULL;
    if (fd >= 0 && !file) _close(fd);
    return file;
}
