#include "setup/mmproj.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "store/file_choice.h"

bool kt__mmproj_find(const char *path, char *out, size_t size) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    int folder_len = slash ? (int)(slash - path) : 1;
    const char *folder = !slash ? "." : folder_len ? path : "/";
    char name[4096];
    int n_found = 0;
    if (!path || kt__name_is_mmproj(path)) return false;
    if (snprintf(name, sizeof name, "%.*s", folder_len ? folder_len : 1, folder) >=
        (int)sizeof name)
        return false;
    DIR *dir = opendir(name);
    if (!dir) return false;
    for (const struct dirent *e = readdir(dir); e && n_found < 2; e = readdir(dir)) {
        if (!kt__name_is_mmproj(e->d_name)) continue;
        n_found++;
        if (snprintf(out, size, "%s/%s", name, e->d_name) >= (int)size) n_found = 2;
    }
    closedir(dir);
    return n_found == 1;
}
