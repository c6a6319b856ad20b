/* Paths, texts and error codes between Windows and POSIX. */
#include "system.h"

wchar_t *kt__win_wide(const char *text) {
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *out = n > 0 ? malloc((size_t)n * sizeof *out) : NULL;
    errno = n > 0 ? ENOMEM : EILSEQ;
    if (out) MultiByteToWideChar(CP_UTF8, 0, text, -1, out, n);
    return out;
}

char *kt__win_narrow(const wchar_t *text) {
    int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *out = n > 0 ? malloc((size_t)n) : NULL;
    errno = n > 0 ? ENOMEM : EILSEQ;
    if (out) WideCharToMultiByte(CP_UTF8, 0, text, -1, out, n, NULL, NULL);
    return out;
}

static bool begins_with(const char *path, const char *with) {
    size_t n = strlen(with);
    return !strncmp(path, with, n) && (!path[n] || path[n] == '/');
}

/* \\?\ and the whole path: longer ones than MAX_PATH are understood so. */
static wchar_t *lengthen_path(wchar_t *path) {
    DWORD n = GetFullPathNameW(path, 0, NULL, NULL);
    wchar_t *out = n ? malloc((n + 8) * sizeof *out) : NULL;
    if (!out) return path;
    bool share = path[0] == L'\\' && path[1] == L'\\';
    wcscpy(out, L"\\\\?\\");
    if (share || !GetFullPathNameW(path, n, out + 4, NULL) || out[4] == L'\\') {
        free(out);
        return path;
    }
    free(path);
    return out;
}

wchar_t *kt__win_path(const char *path) {
    if (begins_with(path, "/proc") || begins_with(path, "/sys") || !*path) {
        errno = ENOENT;
        return NULL;
    }
    if (!strcmp(path, "/dev/null")) return kt__win_wide("NUL");
    if (begins_with(path, "/dev")) {
        errno = ENOENT;
        return NULL;
    }
    wchar_t *wide = kt__win_wide(path);
    if (!wide) return NULL;
    for (wchar_t *c = wide; *c; c++)
        if (*c == L'/') *c = L'\\';
    return wcslen(wide) < 240 || !wcsncmp(wide, L"\\\\?\\", 4) ? wide : lengthen_path(wide);
}

int kt__win_fail_code(unsigned long code) {
    static const struct {
        unsigned long code;
        int error;
    } table[] = {{ERROR_FILE_NOT_FOUND, ENOENT},
                 {ERROR_PATH_NOT_FOUND, ENOENT},
                 {ERROR_INVALID_NAME, ENOENT},
                 {ERROR_BAD_NETPATH, ENOENT},
                 {ERROR_BAD_PATHNAME, ENOENT},
                 {ERROR_NOT_READY, ENOENT},
                 {ERROR_INVALID_DRIVE, ENOENT},
                 {ERROR_ACCESS_DENIED, EACCES},
                 {ERROR_SHARING_VIOLATION, EACCES},
                 {ERROR_LOCK_VIOLATION, EWOULDBLOCK},
                 {ERROR_FILE_EXISTS, EEXIST},
                 {ERROR_ALREADY_EXISTS, EEXIST},
                 {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
                 {ERROR_DISK_FULL, ENOSPC},
                 {ERROR_HANDLE_DISK_FULL, ENOSPC},
                 {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
                 {ERROR_OUTOFMEMORY, ENOMEM},
                 {ERROR_COMMITMENT_LIMIT, ENOMEM},
                 {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
                 {ERROR_BROKEN_PIPE, EPIPE},
                 {ERROR_NO_DATA, EPIPE},
                 {ERROR_INVALID_HANDLE, EBADF},
                 {ERROR_NOT_SAME_DEVICE, EXDEV},
                 {ERROR_DIRECTORY, ENOTDIR},
                 {ERROR_WRITE_PROTECT, EROFS},
                 {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
                 {ERROR_USER_MAPPED_FILE, EBUSY},
                 {ERROR_NOT_SUPPORTED, EOPNOTSUPP},
                 {ERROR_PRIVILEGE_NOT_HELD, EPERM},
                 {ERROR_BAD_EXE_FORMAT, ENOEXEC},
                 {ERROR_OPERATION_ABORTED, EINTR},
                 {ERROR_FILE_TOO_LARGE, EFBIG},
                 {ERROR_NEGATIVE_SEEK, EINVAL},
                 {ERROR_INVALID_PARAMETER, EINVAL}};
    errno = EIO;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code) errno = table[i].error;
    return -1;
}

int kt__win_fail(void) {
    return kt__win_fail_code(GetLastError());
}

int kt__win_fail_socket(void) {
    static const struct {
        int code, error;
    } table[] = {{WSAEWOULDBLOCK, EAGAIN},
                 {WSAEINPROGRESS, EINPROGRESS},
                 {WSAEADDRINUSE, EADDRINUSE},
                 {WSAEADDRNOTAVAIL, EADDRNOTAVAIL},
                 {WSAEACCES, EACCES},
                 {WSAECONNREFUSED, ECONNREFUSED},
                 {WSAECONNRESET, ECONNRESET},
                 {WSAECONNABORTED, ECONNABORTED},
                 {WSAENOTCONN, ENOTCONN},
                 {WSAETIMEDOUT, ETIMEDOUT},
                 {WSAEAFNOSUPPORT, EAFNOSUPPORT},
                 {WSAEINVAL, EINVAL},
                 {WSAENOTSOCK, ENOTSOCK},
                 {WSAEMFILE, EMFILE},
                 {WSAENOBUFS, ENOBUFS},
                 {WSAEINTR, EINTR},
                 {WSAESHUTDOWN, EPIPE},
                 {WSAEISCONN, EISCONN},
                 {WSAEALREADY, EALREADY},
                 {WSAENETUNREACH, ENETUNREACH},
                 {WSAEHOSTUNREACH, EHOSTUNREACH},
                 {WSAEMSGSIZE, EMSGSIZE},
                 {WSAENOPROTOOPT, ENOPROTOOPT},
                 {WSAEFAULT, EFAULT}};
    int code = WSAGetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code) errno = table[i].error;
    return -1;
}

#undef strerror
/* The C library's, and Winsock's codes that it does not know. */
char *kt__win_strerror(int code) {
    static const struct {
        int code;
        const char *text;
    } table[] = {{EADDRINUSE, "Address already in use"},
                 {EADDRNOTAVAIL, "Cannot assign requested address"},
                 {EAFNOSUPPORT, "Address family not supported"},
                 {ECONNREFUSED, "Connection refused"},
                 {ECONNRESET, "Connection reset by peer"},
                 {ETIMEDOUT, "Connection timed out"},
                 {ENOTCONN, "Not connected"},
                 {EOPNOTSUPP, "Operation not supported"},
                 {EDQUOT, "Disk quota exceeded"},
                 {ESTALE, "The file is another one by now"},
                 {ENETUNREACH, "Network is unreachable"},
                 {EHOSTUNREACH, "No route to host"},
                 {EWOULDBLOCK, "Resource temporarily unavailable"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code) return (char *)(uintptr_t)table[i].text;
    return strerror(code);
}
