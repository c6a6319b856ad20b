/* Room on a disk: ../../files.c. */
#ifndef KT_HOST_WINDOWS_STATVFS_H
#define KT_HOST_WINDOWS_STATVFS_H
#include <stdint.h>
struct statvfs {
    uint64_t f_frsize, f_bsize, f_blocks, f_bfree, f_bavail;
};
int kt__win_statvfs(const char *path, struct statvfs *out);
#define statvfs(path, out) kt__win_statvfs(path, out)
#endif
