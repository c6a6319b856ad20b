#include "setup/file_watch.h"

#include <sys/stat.h>

kt__file_stamp kt__file_stamp_of(const char *path) {
    struct stat st;
    if (!path || stat(path, &st) != 0) return (kt__file_stamp){0};
    return (kt__file_stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
}

kt__file_change kt__file_changed(const char *path, const kt__file_stamp *then) {
    if (!then->ino) return KT__FILE_SAME;
    const kt__file_stamp now = kt__file_stamp_of(path);
    if (!now.ino) return KT__FILE_GONE;
    if (now.ino != then->ino || now.dev != then->dev) return KT__FILE_REPLACED;
    if (now.size < then->size) return KT__FILE_TRUNCATED;
    bool same = now.size == then->size && now.changed.tv_sec == then->changed.tv_sec &&
                now.changed.tv_nsec == then->changed.tv_nsec;
    return same ? KT__FILE_SAME : KT__FILE_WRITTEN;
}
