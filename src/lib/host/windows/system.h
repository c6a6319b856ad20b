/* What the files of this folder share: Windows's own headers, and between its words and POSIX's.
 *
 * Owns: paths and texts from UTF-8 to UTF-16 and back, Windows's error codes as errno. Any thread. */
#ifndef KT_HOST_WINDOWS_SYSTEM_H
#define KT_HOST_WINDOWS_SYSTEM_H

#include <winsock2.h>
#include <ws2tcpip.h>

#include <windows.h>

#undef MAX_PATH
#define MAX_PATH 260

#include <stdbool.h>

/* A path as Windows's calls take it: "/dev/null" is NUL, and what is long gets the
 * prefix that lifts MAX_PATH. For free; NULL with errno: no memory, or no UTF-8. /proc, /sys and the rest of
 * /dev are not there. */
wchar_t *kt__win_path(const char *path);
wchar_t *kt__win_wide(const char *text);          /* for free; NULL with errno */
char *kt__win_narrow(const wchar_t *text);        /* the same */
int kt__win_fail(void);                           /* sets errno by GetLastError; -1 */
int kt__win_fail_code(unsigned long code);        /* by this code */
int kt__win_fail_socket(void);                    /* by WSAGetLastError */
int kt__win_descriptor(HANDLE handle, int flags); /* which it owns; -1 with errno */
HANDLE kt__win_handle(int fd);                    /* of the C library's descriptors */
bool kt__win_is_socket(int fd);
bool kt__win_wait_pipe(int fd, bool *ended);   /* whether there is something to read now */
void kt__win_set_nonblocking(int fd, bool on); /* of pipes */
bool kt__win_is_nonblocking(int fd);
void kt__win_start_sockets(void); /* WSAStartup, once */
int kt__win_open_at(HANDLE folder, const char *path, int flags);
void kt__win_epoll_close(int queue);
bool kt__win_is_epoll(int fd);
ssize_t kt__win_read_console(void *data, size_t n); /* UTF-8 of what was typed */

#endif
