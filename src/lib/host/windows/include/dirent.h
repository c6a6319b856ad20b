/* Folders: ../folders.c. */
#ifndef KT_HOST_WINDOWS_DIRENT_H
#define KT_HOST_WINDOWS_DIRENT_H
typedef struct kt__win_dir DIR;
struct dirent {
    char d_name[1024];
};
DIR *kt__win_opendir(const char *path);
DIR *kt__win_fdopendir(int fd); /* which it closes */
struct dirent *kt__win_readdir(DIR *dir);
int kt__win_closedir(DIR *dir);
int kt__win_dirfd(DIR *dir);
#define opendir kt__win_opendir
#define fdopendir kt__win_fdopendir
#define readdir kt__win_readdir
#define closedir kt__win_closedir
#define dirfd kt__win_dirfd
#endif
